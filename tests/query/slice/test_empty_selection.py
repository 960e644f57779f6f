"""Tests of what a slice says of a predicate that selects nothing."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from daf_query import DafSession, connect
from daf_storage import DafWriter, MemoryDaf, open_daf
from tests.support import data_set


def filled(daf: DafWriter) -> DafWriter:
    """Return a data set with cells and genes in it."""
    data_set(daf, cell={"name": ["a", "b", "c"], "age": [20, 30, 40]}, gene=["A", "B"], nothing=[])
    daf.set_vector("cell", "x", [0.5, np.nan, 2.5])
    daf.set_vector("cell", "donor", ["N1", "N3", "N3"])
    daf.set_matrix("cell", "gene", "X", np.ones((3, 2)))
    daf.set_matrix("nothing", "gene", "Y", np.ones((0, 2)))
    return daf


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return the path of a data set of cells and genes."""
    filled(open_daf(tmp_path / "x.daf.zarr", "w"))
    return str(tmp_path / "x.daf.zarr")


@pytest.fixture
def session() -> DafSession:
    """Return a session over one in memory: what is cached of files that are new is not used."""
    return connect(filled(MemoryDaf(name="x")))


def said(session: DafSession, predicate: str) -> list[str]:
    """Return what the repr of a slice says beyond its shape."""
    part = session.matrix("cell", "gene", "X", rows=predicate)
    return [line.strip() for line in repr(part).splitlines()[1:] if "rows=" in line]


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
    found = said(session, predicate)
    assert found == [f"rows= selects no cell; db.diagnose('cell', {predicate!r}) says why"]


def test_both_axes(path: str) -> None:
    """Each has a line, also in a notebook and after pickling."""
    part = connect(path).matrix("cell", "gene", "X", rows="age > 99", columns="name = '<b>'")
    assert [each.keyword for each in part.empty_selections] == ["rows", "columns"]
    assert "columns= selects no gene" in repr(pickle.loads(pickle.dumps(part)))
    assert "&lt;b&gt;" in part._repr_html_()
