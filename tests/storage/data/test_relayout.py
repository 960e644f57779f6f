"""Tests of turning matrices around, on all cores, against numpy and scipy."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from daf_storage import DafWriter, ZarrDaf, open_daf, settings
from daf_storage.base import Span, column_blocks
from daf_storage.trees import StoredArray
from tests.limits import lower
from tests.support import csc_parts, data_set, dense


@given(st.lists(st.integers(0, 9), max_size=20), st.integers(1, 12))
def test_blocks_cover_all_columns_and_respect_the_limit(counts: list[int], limit: int) -> None:
    """Blocks follow one another; one holds more than the limit only if it is one column."""
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    spans = list(column_blocks(indptr, max_elements=limit))
    assert [i for span in spans for i in range(span.start, span.stop)] == list(range(len(counts)))
    for span in spans:
        assert span.size == 1 or indptr[span.stop] - indptr[span.start] <= limit


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (700, 1300)])
def test_dense_transposes_are_those_of_numpy(shape: tuple[int, int]) -> None:
    """Also where the tiles do not fill the matrix."""
    daf = data_set(a=shape[0], b=shape[1])
    source = np.arange(shape[0] * shape[1]).reshape(shape)
    daf.set_matrix("a", "b", "m", source)
    for axes, expected in ((("a", "b"), source), (("b", "a"), source.T)):
        assert np.array_equal(daf.get_np_matrix(*axes, "m", relayout=False), expected)


@pytest.mark.usefixtures("tiny_chunks")
@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf.zarr.zip", "x.h5df"])
@pytest.mark.parametrize("packed", [True, None, False])
def test_both_layouts_are_packed_alike(tmp_path: Path, name: str, packed: bool | None) -> None:  # noqa: FBT001 - a parameter of the test
    """As the data set was opened, or as was asked for; also where the second one comes later."""
    values = np.arange(40.0).reshape(8, 5) % 3
    with open_daf(tmp_path / name, "w", packed=True) as daf:
        data_set(daf, cell=8, gene=5)
        matrices = {"sparse": sp.csc_array(values), "dense": values}
        for matrix, value in matrices.items():
            daf.set_matrix("cell", "gene", matrix, value, packed=packed)
            daf.set_matrix("cell", "gene", f"{matrix} 2", value, packed=packed, relayout=False)
            daf.relayout_matrix("cell", "gene", f"{matrix} 2", packed=packed)
        with daf.empty_dense_matrix("cell", "gene", "filled", "f8", packed=packed) as out:
            out[...] = values
        daf.relayout_matrix("cell", "gene", "filled", packed=packed)
        with daf.empty_dense_vector("cell", "filled", "f8", packed=packed) as vector:
            vector[:] = values[:, 0]
        is_mappable = daf.open_vector("cell", "filled").dense().info.is_mappable
        assert is_mappable is (packed is False)
        for rows, columns in (("cell", "gene"), ("gene", "cell")):
            for matrix in [*matrices, *(f"{matrix} 2" for matrix in matrices), "filled"]:
                stored = daf.open_matrix(rows, columns, matrix)
                is_packed = {not array.info.is_mappable for array in stored.arrays().values()}
                assert is_packed == {packed is not False}, (rows, matrix)
                found = daf.get_np_matrix(rows, columns, matrix)
                assert np.array_equal(dense(found), values if rows == "cell" else values.T)


@pytest.mark.parametrize("name", ["x.daf.zarr", "x.h5df"])
def test_a_narrow_matrix_is_packed_in_both_layouts(tmp_path: Path, name: str) -> None:
    """Columns of few elements share chunks."""
    values = np.arange(15_000.0).reshape(5000, 3)
    with open_daf(tmp_path / name, "w", packed=True) as daf:
        data_set(daf, cell=5000, part=["a", "b", "c"], matrices={("cell", "part", "x"): values})
        for axes, expected in ((("cell", "part"), values), (("part", "cell"), values.T)):
            dense = daf.open_matrix(*axes, "x").dense()
            assert not dense.info.is_mappable
            assert np.array_equal(daf.get_np_matrix(*axes, "x"), expected)
            assert np.array_equal(dense.read_rows(Span(1, 3)), expected.T[1:3])


@pytest.mark.parametrize("packed", [True, False])
def test_a_packed_dense_matrix_is_decoded_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, packed: bool
) -> None:
    """Memory does not grow with it, whether its transpose is packed or not."""
    values = np.arange(60_000).reshape(200, 300)
    with open_daf(tmp_path / "x.daf.zarr", "w", packed=True) as daf:
        data_set(daf, cell=200, gene=300)
        daf.set_matrix("cell", "gene", "x", values, relayout=False)
        opened = type(daf.open_matrix("cell", "gene", "x").dense())
        read_rows, longest = opened.read_rows, [0]

        def counting(array: StoredArray, span: Span) -> Any:
            found = read_rows(array, span)
            longest.append(found.nbytes)
            return found

        monkeypatch.setattr(opened, "read_rows", counting)
        monkeypatch.setattr(opened, "read", lambda _: pytest.fail("read as a whole"))
        lower(monkeypatch, copied_bytes=1 << 16, thread_bytes=1)
        daf.relayout_matrix("cell", "gene", "x", packed=packed)
        monkeypatch.undo()
        assert 0 < max(longest) <= 1 << 16
        found = daf.get_np_matrix("gene", "cell", "x", relayout=False)
        assert np.array_equal(found, values.T)


def with_matrix(matrix: Any) -> DafWriter:
    """Return a data set that has a matrix in one layout."""
    daf = data_set(a=matrix.shape[0], b=matrix.shape[1])
    daf.set_matrix("a", "b", "m", matrix, relayout=False)
    return daf


@given(
    st.integers(0, 2**32),
    st.tuples(st.integers(0, 9), st.integers(1, 9)),
    st.sampled_from((np.int32, np.int64)),
    st.sampled_from(("u1", "i2", "u4", "i8", "f4", "f8", "?")),
    st.integers(1, 20),
)
def test_transposes_are_those_of_scipy(
    seed: int, shape: tuple[int, int], index: Any, dtype: str, block: int
) -> None:
    """Whatever the shape, the types, and the sizes of blocks."""
    random = np.random.default_rng(seed)
    matrix = sp.random_array(shape, density=float(random.random()), format="csc", rng=random)
    matrix.data = random.integers(0, 255, matrix.nnz).astype(dtype)
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    daf = with_matrix(matrix)
    done: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        lower(patch, transposed_elements=block, least_transposed_elements=1)
        daf.relayout_matrix("a", "b", "m", progress=done.append)
    parts, expected = csc_parts(daf, "b", "a", "m"), matrix.tocsr()
    assert parts.colptr.dtype == parts.rowval.dtype == index
    assert (parts.colptr.astype(int) - 1).tolist() == expected.indptr.tolist()
    assert (parts.rowval.astype(int) - 1).tolist() == expected.indices.tolist()
    values = np.ones(matrix.nnz, bool) if parts.nzval is None else parts.nzval
    assert values.dtype == matrix.dtype
    assert values.tolist() == expected.data.tolist()
    assert sum(done) == parts.rowval.nbytes + values.nbytes


@pytest.mark.parametrize("width", [40, 20_000])
def test_memory_is_bounded(tmp_path: Path, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is allocated stays below what was allowed."""
    most = 1 << 24
    monkeypatch.setattr(settings, "DAF_COPY_MAX_BYTES", most)
    random = np.random.default_rng(0)
    nnz, n_columns = 1_000_000, 2_000
    matrix = sp.csc_array(
        (
            np.arange(nnz, dtype=np.float32),
            np.sort(random.integers(0, width, (n_columns, nnz // n_columns)), axis=1).ravel(),
            np.arange(n_columns + 1) * (nnz // n_columns),
        ),
        shape=(width, n_columns),
    )
    matrix.sum_duplicates()
    with ZarrDaf(tmp_path / "x.daf.zarr", "w") as daf:
        data_set(daf, a=width, b=n_columns)
        daf.set_matrix("a", "b", "m", matrix, relayout=False)
        daf.set_matrix("a", "b", "first", matrix)  # what is imported is not counted
        tracemalloc.start()
        try:
            daf.relayout_matrix("a", "b", "m")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak <= most + 64 * (width + n_columns)
        assert abs(daf.get_np_matrix("b", "a", "m", relayout=False) - matrix.T).nnz == 0


def test_an_exception_ends_all_threads() -> None:
    """Progress that raises, as an interrupt does, leaves no task behind."""
    daf = with_matrix(sp.random_array((50, 50), density=0.5, rng=np.random.default_rng(0)))

    interrupt = mock.Mock(side_effect=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        daf.relayout_matrix("a", "b", "m", progress=interrupt)
    daf.relayout_matrix("a", "b", "m")
    assert daf.has_matrix("b", "a", "m", relayout=False)
