"""Samplers and batches are the same in every form that data sets have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from daf_query import DafSession, connect
from tests.engines.conftest import CELLS, FORMS


def fed(db: DafSession) -> tuple[pd.DataFrame, pd.DataFrame, list[dict[str, Any]]]:
    """Return the rows of a sampler, those of one of whole groups, and the batches of a split."""
    sampler = db.sampler(
        "obs",
        where="age > 10",
        weights="1 / count(*) OVER (PARTITION BY cell_type)",
        split={"train": 0.7, "val": 0.3},
        seed=5,
        stratify=["cell_type", "score IS NULL"],
    )
    grouped = db.sampler("obs", split={"a": 0.4, "b": 0.6}, groups="donor")
    blocks = sampler["train"].blocks(
        db.matrix("obs", "var", "X"),
        labels=["cell_type", "age"],
        batch_rows=16,
        block_rows=4,
        fetch_batches=3,
        draw="once",
    )
    rows = sampler.to_arrow().select(["name", "split", "weight"]).to_pandas()
    return rows, grouped.to_arrow().select(["name", "split"]).to_pandas(), list(blocks)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_feeds_the_same_cells(forms: dict[str, str], form: str) -> None:
    """Splits, weights, the order of an epoch, rows and labels."""
    with connect(forms["plain"]) as plain, connect(forms[form]) as other:
        (rows, groups, expected), (other_rows, other_groups, found) = map(fed, (plain, other))
    assert 0 < len(rows) < CELLS == len(groups)
    pd.testing.assert_frame_equal(other_rows, rows, rtol=1e-12)
    pd.testing.assert_frame_equal(other_groups, groups)
    for batch, ours in zip(found, expected, strict=True):
        for name in ("x", "index", "cell_type", "age"):
            assert np.array_equal(batch[name], ours[name]), name
