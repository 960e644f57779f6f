"""Tests of what a slice says of a predicate that selects nothing."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from daf_query import DafSession, connect
from tests.support import create, data_set


@pytest.fixture
def session(tmp_path: Path) -> DafSession:
    """Return a session of cells and genes."""
    daf = data_set(
        create(tmp_path / "x.daf.zarr"),
        cell={"name": ["a", "b", "c"], "age": [20, 30, 40], "donor": ["N1", "N3", "N3"]},
        gene=["A", "B"],
        matrices={("cell", "gene", "X"): np.ones((3, 2))},
    )
    daf.set_vector("cell", "x", [0.5, np.nan, 2.5])
    daf.close()
    return connect(tmp_path / "x.daf.zarr")


@pytest.mark.parametrize(
    "predicate",
    [
        "donor = 'n3'",
        "age IN (1, 2)",
        "x IS NULL AND x IS NOT NULL",
        "cell.age > 100",
        "age > (SELECT max(age) FROM cell)",
        "age > 0 LIMIT 0",
    ],
)
def test_a_line_says_how_to_find_out(session: DafSession, predicate: str) -> None:
    """Nothing is read for it."""
    part = session.matrix("cell", "gene", "X", rows=predicate)
    assert part.shape == (0, 2)
    [line] = [line.strip() for line in repr(part).splitlines()[1:] if "rows=" in line]
    assert line == f"rows= selects no cell; db.diagnose('cell', {predicate!r}) says why"


def test_both_axes(session: DafSession) -> None:
    """Each has a line, also in a notebook and after pickling."""
    part = session.matrix("cell", "gene", "X", rows="age > 99", columns="name = '<b>'")
    assert [each.partition("=")[0] for each in part.empty_selections] == ["rows", "columns"]
    assert "columns= selects no gene" in repr(pickle.loads(pickle.dumps(part)))
    assert "&lt;b&gt;" in part._repr_html_()
