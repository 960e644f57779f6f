"""Queries of an AnnData that is read in place give what those of its import give."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from anndata import AnnData
from anndata.tests.helpers import assert_equal
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas import array

from daf_query import DafSession, connect
from daf_storage import AnnDataWarning, errors, import_h5ad
from tests.storage.anndata.example import N_OBS, N_VAR, example, write

Sessions = tuple[DafSession, DafSession]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    """Connect the example in place, as a sharded Zarr, and its import from h5ad."""
    folder = tmp_path_factory.mktemp("attached")
    adata = example()
    with warnings.catch_warnings(action="ignore"):
        import_h5ad(write(adata, folder, "h5ad"), folder / "all.daf.zarr", progress="never")
    path = write(adata, folder, "zarr3")
    with connect(path) as attached, connect(folder / "all.daf.zarr") as imported:
        yield attached, imported


@settings(max_examples=12, deadline=None)
@given(
    rows=st.lists(st.integers(0, N_OBS - 1), max_size=6),
    columns=st.none() | st.lists(st.integers(0, N_VAR - 1), max_size=6),
    name=st.sampled_from(["counts", "dense", "csc", "half", "bools"]),
)
def test_slices(sessions: Sessions, rows: list[int], columns: list[int] | None, name: str) -> None:
    """Any rows and columns of any matrix, in any order, are the same."""
    cells = [f"cell{n}" for n in rows]
    genes = None if columns is None else [f"gene{n}" for n in columns]
    ours, theirs = (
        session.matrix("obs", "var", name, rows=cells, columns=genes).to_numpy()
        for session in sessions
    )
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


def test_a_slice_as_anndata(sessions: Sessions) -> None:
    """The other matrices over its axes come along, in their dtypes and formats."""
    with pytest.warns(AnnDataWarning, match="it is no matrix of numbers"):
        attached, imported = (
            session.matrix("obs", "var", "counts", rows="category = 'B'").to_anndata()
            for session in sessions
        )
    del attached.uns["daf_query"], imported.uns["daf_query"]
    assert_equal(attached, imported)


def test_a_session_is_called_by_the_file_and_writes_nothing(sessions: Sessions) -> None:
    """The schema is the stem of the file; saving says how to write beside it."""
    attached, _ = sessions
    assert attached.sql("SELECT count(*) AS n FROM atlas.obs").to_pydict() == {"n": [N_OBS]}
    with pytest.raises(errors.ReadOnlyError):
        attached.save_vector("obs", "new", "SELECT name, index AS new FROM obs")


def test_explain_names_what_stores_the_other_layout(sessions: Sessions) -> None:
    """One gene of a matrix that is stored by cells is a pass over it; the remedy is an index."""
    attached, _ = sessions
    part = attached.matrix("obs", "var", "counts", columns=["gene3"])
    remedy = "daf index .*atlas.zarr --matrix counts"
    assert re.search(f"by var: not stored; '{remedy}' stores it", repr(part.explain()))
    plan = attached.explain("SELECT \"var.counts\"['gene3'] AS g FROM obs")
    note = plan.notes["var.counts['gene3']"]
    assert re.search(rf"up to \d+ stored elements.*{remedy}", note)


def test_connecting_imports_no_engine_and_daf_sql_no_pandas(tmp_path: Path) -> None:
    """Each takes as long as all else; where pandas is installed, pyarrow imports it for a scalar."""
    path = tmp_path / "x.h5ad"
    AnnData(np.eye(3)).write_h5ad(path)
    code = (
        "import sys, daf_query; session = daf_query.connect(sys.argv[1]);"
        "session.reader().description(); print(session.tables(), {'anndata', 'datafusion', 'pandas'} & {*sys.modules})"
    )
    run = subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=True)
    assert run.stdout.endswith(b"] set()\n")
    AnnData(np.eye(3), {"age": array([1, None, 3], "Int64")}).write_h5ad(path)
    needing = "SELECT age, to_timestamp_nanos(1700000000123456789) FROM obs"
    for query, needed in ("SELECT 1", False), (needing, True):
        command = ("-X", "importtime", "-m", "daf_query.cli", "sql", path, query)
        run = subprocess.run([sys.executable, *command], capture_output=True, check=True)
        assert (b" datafusion.context" in run.stderr, b" pandas.io" in run.stderr) == (True, needed)
