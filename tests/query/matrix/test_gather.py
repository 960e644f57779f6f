"""Tests of gathering: equal to numpy's indexing, in a bounded part of memory."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from daf_query import DafSession, connect
from daf_query.matrix import Selection, SlicePlan, gather_dense, gather_sparse
from daf_storage import DafReader, DafWriter, MemoryDaf, ZarrDaf, errors
from tests.limits import lower
from tests.suites.examples import write_stored
from tests.support import csc_parts, data_set

MIB = 1 << 20
N_CELLS, N_GENES = 6000, 400


def regular(n_rows: int, n_columns: int, step: int = 2) -> Any:
    """Return a CSR array with an element in each ``step``-th column of each row."""
    per_row = n_columns // step
    indices = np.tile(np.arange(per_row, dtype=np.int32) * step, n_rows)
    indptr = np.arange(n_rows + 1, dtype=np.int64) * per_row
    values = (np.arange(indices.size) % 7 + 1).astype(np.float32)
    return sp.csr_array((values, indices, indptr), shape=(n_rows, n_columns))


def write(path: Path, matrix: Any, **options: Any) -> None:
    """Write a data set with one matrix, in both layouts."""
    daf = data_set(ZarrDaf(path, "w", **options), cell=matrix.shape[0], gene=matrix.shape[1])
    daf.set_matrix("cell", "gene", "m", matrix)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> DafSession:
    """Return a session with a mapped matrix of 1.2 million elements, 9.6 MB in each layout."""
    path = tmp_path_factory.mktemp("gather") / "x.daf.zarr"
    write(path, regular(N_CELLS, N_GENES))
    return connect(path)


def peak_bytes(run: Callable[[], Any]) -> tuple[Any, int]:
    """Return a result, and how much memory numpy held at most while it was computed."""
    tracemalloc.start()
    try:
        return run(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def size_of(values: Any) -> int:
    """Return the bytes of a CSR array."""
    return int(values.data.nbytes + values.indices.nbytes + values.indptr.nbytes)


def filled(daf: DafWriter, values: Any, index_type: str | None = None) -> DafWriter:
    """Return a data set with a matrix stored by columns; sparse, if its row numbers have a type."""
    data_set(daf, r=values.shape[0], c=values.shape[1])
    if index_type is None:
        daf.set_matrix("r", "c", "m", values, relayout=False)
        return daf
    stored = sp.csc_array(values)
    arrays = {"colptr": stored.indptr + 1, "rowval": stored.indices + 1}
    arrays = {name: numbers.astype(index_type) for name, numbers in arrays.items()}
    write_stored(daf, "matrices/r/c/m", arrays | {"nzval": stored.data})
    return daf


@st.composite
def selections(draw: st.DrawFn, length: int) -> Selection:
    """Return all entries, neighbours, or any positions in any order, duplicates too."""
    bounds = st.tuples(st.integers(0, length), st.integers(0, length))
    positions = draw(
        st.just(range(length))
        | bounds.map(lambda pair: range(min(pair), max(pair)))
        | st.lists(st.integers(0, length - 1), max_size=2 * length)
    )
    return Selection.of(np.array(positions, np.int64), length)


@given(data=st.data())
def test_gathering_is_indexing(data: st.DataObject) -> None:
    """Of any types, sparse or dense, whatever is selected and however small the blocks."""
    shape = data.draw(st.tuples(st.integers(1, 9), st.integers(1, 24)))
    kinds = [None, "u1", "i1", "u2", "i4", "u4", "i8", "u8"]
    index_type = data.draw(st.sampled_from(kinds))
    types: list[Any] = ["f4", "f8", "i8", "u1", "?", *([object] if index_type is None else [])]
    dtype = data.draw(st.sampled_from(types))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    values = random.integers(1, 50, shape) * (random.random(shape) < 0.3)
    values = values.astype(str).astype(object) if dtype is object else values.astype(dtype)
    stored = filled(MemoryDaf(), values, index_type).open_matrix("r", "c", "m")
    plan = SlicePlan(stored, data.draw(selections(shape[1])), data.draw(selections(shape[0])))
    expected = values.T[plan.major.positions][:, plan.minor.positions]
    if index_type is None:
        found = gather_dense(plan)
    else:
        done: list[int] = []
        with pytest.MonkeyPatch.context() as patch:
            lower(patch, gathered_elements=data.draw(st.sampled_from([1, 3, 20, 1 << 18])))
            gathered = gather_sparse(plan, progress=done.append)
        assert gathered.has_sorted_indices
        assert gathered.indices.dtype == np.int32
        gathered.check_format(full_check=True)
        assert sum(done) == np.count_nonzero(values.T[plan.major.positions])
        found = gathered.toarray()
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)


def taken(daf: DafReader, positions: Any, minors: Any, shape: tuple[int, int]) -> Any:
    """Return some columns of a sparse matrix, as rows of a dense array."""
    minor = Selection.all(shape[0]) if minors is None else Selection.of(np.array(minors), shape[0])
    major = Selection.of(np.array(positions, np.int64), shape[1])
    return gather_sparse(SlicePlan(daf.open_matrix("r", "c", "m"), major, minor)).toarray()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("index_type", ["i4", "u4", "u1", "i8", "u8"])
@pytest.mark.parametrize(
    ("number", "positions"), [(0, [7]), (10, [6, 9, 7]), (-1, range(40)), (10, [7])]
)
def test_row_numbers_off_their_axis_are_refused(
    tmp_path: Path, index_type: str, number: int, positions: Any
) -> None:
    """In a single range as in many, of all minors as of some; elsewhere they do no harm."""
    daf = ZarrDaf(tmp_path / "x.daf.zarr", "w")
    random = np.random.default_rng(5)
    values = random.integers(1, 50, (9, 40)) * (random.random((9, 40)) < 0.3)
    filled(daf, values.astype(np.float32), index_type)
    parts = csc_parts(daf, "r", "c", "m")
    rowval, place = np.array(parts.rowval), int(parts.colptr[7]) - 1
    rowval[place : place + 1] = np.array([number]).astype(rowval.dtype)
    rowval.tofile(tmp_path / "x.daf.zarr/matrices/r/c/m/rowval/0")
    for minors in (None, [2, 5]):
        with pytest.raises(errors.CorruptDataError, match="rowval leaves the range 1 to 9"):
            taken(daf, positions, minors, values.shape)
        others = values.T[[1, 30, 2]]
        expected = others if minors is None else others[:, minors]
        assert taken(daf, [1, 30, 2], minors, values.shape).tolist() == expected.tolist()


@pytest.mark.parametrize("columns", [np.arange(0, 600, 2), np.arange(0, 600, 30)])
def test_no_index_of_the_size_of_a_dense_slice(tmp_path: Path, columns: Any) -> None:
    """Of few columns as of many, the result is all that is allocated, and a little."""
    daf = ZarrDaf(tmp_path / "x.daf.zarr", "w")
    values = np.arange(600 * 9000, dtype=np.float32).reshape(600, 9000)
    rows = np.arange(0, 9000, 3)[::-1]
    major, minor = Selection.of(rows, 9000), Selection.of(columns, 600)
    plan = SlicePlan(filled(daf, values).open_matrix("r", "c", "m"), major, minor)
    gather_dense(plan)
    found, peak = peak_bytes(lambda: gather_dense(plan))
    np.testing.assert_array_equal(found, values.T[rows][:, columns])
    assert peak < found.nbytes + MIB


SLICES: dict[str, Any] = {
    "rows": {"rows": slice(0, 4500)},
    "filtered": {"columns": range(0, N_GENES, 4)},
    "reversed": {"columns": range(N_GENES - 1, -1, -1), "rows": slice(0, 5000)},
    "repeated": {"columns": [*range(N_GENES), *range(N_GENES)], "rows": slice(0, 3000)},
    "transposed": {"rows": range(0, N_CELLS, 2), "columns": slice(0, 200)},
}


@pytest.mark.parametrize("which", SLICES)
def test_peak_memory_is_twice_the_result(
    session: DafSession, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """A slice is gathered in at most two times its bytes and a block."""
    lower(monkeypatch, gathered_elements=1 << 14)
    part = session.matrix("cell", "gene", "m", **SLICES[which])
    values, peak = peak_bytes(part.values)
    assert size_of(values) > 2 * MIB
    assert peak < 2 * size_of(values) + 2 * MIB


def test_few_columns_of_a_packed_dense_matrix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its chunks are decoded block by block: never the whole width of all rows."""
    matrix = np.arange(4000 * 2100, dtype=np.float32).reshape(4000, 2100)
    daf = data_set(ZarrDaf(tmp_path / "x.daf.zarr", "w", packed=True), cell=4000, gene=2100)
    daf.set_matrix("gene", "cell", "m", matrix.T, relayout=False)  # stored by cells
    for chunks in (tmp_path / "x.daf.zarr").rglob("0"):
        os.utime(chunks, (2**32, 2**32))  # as if still written, so that no chunk is cached
    lower(monkeypatch, dense_block_bytes=MIB)
    part = connect(tmp_path / "x.daf.zarr").matrix("cell", "gene", "m", columns=[7, 2047, 7])
    values, peak = peak_bytes(part.values)
    np.testing.assert_array_equal(values, matrix[:, [7, 2047, 7]])
    assert peak < 12 * MIB  # of 32
