"""Sparse matrices of AnnData whose elements are out of order, or stored twice."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pytest
import scipy.sparse as sp

from daf_query import DafSession, connect
from daf_storage import errors

SHAPE = (40, 12)


def shuffled(*, is_repeated: bool) -> Any:
    """Return a CSR matrix whose rows are not in order; some elements occur twice on request."""
    random = np.random.default_rng(3)
    matrix: Any = sp.random(*SHAPE, 0.4, "csr", np.float32, rng=random)
    for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        order = random.permutation(stop - start)
        matrix.indices[start:stop] = matrix.indices[start:stop][order]
        if is_repeated and stop - start > 2:
            matrix.indices[start + 2] = matrix.indices[start]
    matrix.has_sorted_indices = matrix.has_canonical_format = False
    return matrix


def write(folder: Path, matrix: Any) -> Path:
    """Write an AnnData with just these elements, in their order."""
    path = folder / "foreign.h5ad"
    adata = anndata.AnnData(matrix.copy(), obs={"g": np.array(["a", "b"] * 20)})
    with warnings.catch_warnings(action="ignore"):
        adata.write_h5ad(path)
    with h5py.File(path, "r+") as file:
        file["X/indices"][:] = matrix.indices
        file["X/data"][:] = matrix.data
    return path


Case = tuple[DafSession, Any]


@pytest.fixture(scope="module", params=[False, True], ids=["unsorted", "repeated"])
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Case]:
    """Connect a file whose elements are out of order; with its dense values."""
    matrix = shuffled(is_repeated=request.param)
    path = write(tmp_path_factory.mktemp("foreign"), matrix)
    with connect(path) as session:
        yield session, matrix.toarray()


def test_slices_of_rows_and_of_columns(case: Case) -> None:
    """Elements stored twice are added up, whichever part is read."""
    session, dense = case
    cells, genes = [7, 3, 3, 0], [11, 0, 5]
    found = session.matrix("obs", "var", "X", rows=cells, columns=genes)
    np.testing.assert_allclose(found.to_numpy(), dense[np.ix_(cells, genes)], rtol=1e-6)
    whole = session.matrix("obs", "var", "X").to_scipy()
    assert whole.has_canonical_format
    np.testing.assert_allclose(whole.toarray(), dense, rtol=1e-6)


def test_genes_and_profiles(case: Case) -> None:
    """A gene as a column, means, and the long form count each element once."""
    session, dense = case
    query = "SELECT count(*) AS n, sum(value) AS total FROM matrix('obs', 'var', 'X')"
    [row] = session.sql(query).to_pylist()
    assert row["n"] == np.count_nonzero(dense)
    assert row["total"] == pytest.approx(dense.sum(), rel=1e-5)
    for gene in (0, 5):
        column = session.sql(f"SELECT X['{gene}'] AS x FROM obs ORDER BY index").to_pydict()["x"]
        np.testing.assert_allclose(column, dense[:, gene], rtol=1e-6)
    profile = session.profile("obs", "var", "X", by="g").to_pandas()
    for number, group in enumerate(("a", "b")):
        part = dense[number::2].astype(float)
        of_group = profile[profile["g"] == group]
        np.testing.assert_allclose(of_group["mean"], part.mean(axis=0), rtol=1e-5)


@pytest.mark.parametrize("bad", [-1, SHAPE[1]])
def test_a_column_number_that_is_outside(tmp_path: Path, bad: int) -> None:
    """It is an error that names the matrix, wherever the element is needed."""
    path = write(tmp_path, shuffled(is_repeated=False))
    with h5py.File(path, "r+") as file:
        file["X/indices"][5] = bad
    with connect(path) as session:
        for ask in (
            lambda: session.matrix("obs", "var", "X").to_numpy(),
            lambda: session.sql("SELECT X['0'] FROM obs").to_arrow_table(),
            lambda: session.profile("obs", "var", "X", by="g").to_pandas(),
        ):
            with pytest.raises(errors.DafError, match="0 to 11"):
                ask()
