"""A million points: they are drawn, and found by a lasso; and what is sent."""

from __future__ import annotations

import numpy as np
import pytest

import daf_query
from daf_query.explore import ExploreServer
from daf_storage import DafWriter
from tests.browser.conftest import Open
from tests.support import data_set

COUNT = 1_000_000


def million_cells(count: int = COUNT) -> DafWriter:
    """Return cells in twelve clouds, with two coordinates, a type and a number of genes."""
    rng = np.random.default_rng(7)
    group = rng.integers(0, 12, count)
    centres = rng.uniform(-10, 10, (12, 2))
    bent = rng.normal(0, 1, (count, 2)) * rng.uniform(0.5, 1.6, (12, 1))[group]
    places = (
        centres[group] + bent + 0.25 * np.column_stack([bent[:, 1] ** 2, -bent[:, 0] * bent[:, 1]])
    )
    daf = data_set(name="million", cell=[f"cell_{number:07}" for number in range(count)])
    types = np.array([f"type {letter}" for letter in "ABCDEFGHIJKL"], dtype=object)
    daf.set_vector("cell", "type", types[group])
    daf.set_vector("cell", "n_genes", rng.poisson(900 + 90 * group).astype(np.int32))
    daf.set_vector("cell", "umap_1", places[:, 0].astype(np.float32))
    daf.set_vector("cell", "umap_2", places[:, 1].astype(np.float32))
    return daf


@pytest.fixture(scope="module")
def million() -> daf_query.DafSession:
    """Return a session over a million cells in memory."""
    return daf_query.connect(million_cells())


def test_a_million_points_are_drawn_and_selected(
    opened: Open, million: daf_query.DafSession
) -> None:
    """The points are sent as eight bytes each; a lasso finds its points among all."""
    with ExploreServer(million) as server:
        explorer = opened(server.url).wait_until_drawn()
        page = explorer.page
        page.set_default_timeout(60_000)
        sent = page.evaluate(
            "Object.fromEntries(performance.getEntriesByType('resource')"
            ".map((entry) => [new URL(entry.name).pathname, entry.encodedBodySize]))"
        )
        assert sent["/api/points"] == 8 * COUNT
        assert sent["/api/colour"] < 6 * COUNT
        explorer.lasso((0.99, 0.01), (0.99, 0.99), (0.01, 0.99), (0.01, 0.01))
        selected = "1,000,000 of 1,000,000 cells selected"
        page.locator(".selection-bar").get_by_text(selected).wait_for()
