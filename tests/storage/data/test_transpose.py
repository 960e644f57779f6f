"""Tests of transposing sparse matrices on all cores, against scipy."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from daf_storage import MemoryDaf, errors
from daf_storage.data import _counting_sort as counting_sort
from daf_storage.data import _transpose as transposing
from daf_storage.data._relayout import transposed_colptr
from daf_storage.data._transpose import TransposePlan, transpose_sparse
from daf_storage.trees import _decode_threads

TYPES = ("u1", "i2", "u4", "i8", "f4", "f8", "?")


def transposed(matrix: Any, rowval: Any, **options: Any) -> tuple[Any, Any, Any]:
    """Transpose a matrix of scipy, whose row numbers are given as they are stored."""
    out_indptr = transposed_colptr(rowval, matrix.shape[0], what="it")
    out_rowval, out_nzval = np.zeros_like(rowval), np.zeros_like(matrix.data)
    transpose_sparse(
        indptr=matrix.indptr.astype(np.int64),
        rowval=rowval,
        nzval=matrix.data,
        out_indptr=out_indptr,
        out_rowval=out_rowval,
        out_nzval=out_nzval,
        **options,
    )
    return out_indptr, out_rowval, out_nzval


@settings(max_examples=100)
@given(
    st.integers(0, 2**32),
    st.tuples(st.integers(0, 9), st.integers(1, 9)),
    st.sampled_from(("u1", "i4", "u4", "i8")),
    st.sampled_from(TYPES),
    st.tuples(st.integers(1, 20), st.integers(1, 4), st.integers(1, 30)),
    st.sampled_from(["compiled", "public"]),
)
def test_transposes_are_those_of_scipy(
    seed: int,
    shape: tuple[int, int],
    index: str,
    dtype: str,
    cut: tuple[int, int, int],
    functions: str,
) -> None:
    """Whatever the shape, the types, and the sizes of blocks, windows and merged columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting_sort, "is_compiled", lambda: functions == "compiled")
        check_transpose(seed, shape, index, dtype, cut)


def check_transpose(
    seed: int, shape: tuple[int, int], index: str, dtype: str, cut: tuple[int, int, int]
) -> None:
    """Compare a random matrix with its transpose of scipy."""
    random = np.random.default_rng(seed)
    matrix = sp.random_array(shape, density=float(random.random()), format="csc", rng=random)
    matrix.data = random.integers(0, 255, matrix.nnz).astype(dtype)
    block, blocks, merged = cut
    plan = TransposePlan(block, merged, block * blocks, shape[0], 8, threads=2)
    done: list[int] = []
    indptr, rowval, nzval = transposed(
        matrix, (matrix.indices + 1).astype(index), plan=plan, progress=done.append
    )
    expected: Any = matrix.tocsr()
    assert indptr.tolist() == expected.indptr.tolist()
    assert (rowval.astype(int) - 1).tolist() == expected.indices.tolist()
    assert nzval.tolist() == expected.data.tolist()
    assert sum(done) == matrix.nnz


@pytest.mark.parametrize("memory_bytes", [1 << 21, 1 << 23, 1 << 30])
@pytest.mark.parametrize("width", [40, 20_000])
def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch, memory_bytes: int, width: int) -> None:
    """What is allocated stays below what was allowed, in one window or several."""
    monkeypatch.setattr(_decode_threads, "THREADS", 2)
    monkeypatch.setattr(transposing, "THREADS", 2)
    random = np.random.default_rng(0)
    nnz, n_columns = 800_000, 2_000
    matrix = sp.csc_array(
        (
            np.arange(nnz, dtype=np.float32),
            np.sort(random.integers(0, width, (n_columns, nnz // n_columns)), axis=1).ravel(),
            np.arange(n_columns + 1) * (nnz // n_columns),
        ),
        shape=(width, n_columns),
    )
    rowval = (matrix.indices + 1).astype(np.int32)
    out_indptr = transposed_colptr(rowval, width, what="it")
    out = np.zeros_like(rowval), np.zeros_like(matrix.data)
    plan = TransposePlan.of(nnz, width, 8, memory_bytes=memory_bytes, threads=2)
    transposed(matrix[:, :2], rowval[: matrix.indptr[2]])  # what is imported is not counted
    tracemalloc.start()
    try:
        transpose_sparse(
            indptr=matrix.indptr.astype(np.int64),
            rowval=rowval,
            nzval=matrix.data,
            out_indptr=out_indptr,
            out_rowval=out[0],
            out_nzval=out[1],
            memory_bytes=memory_bytes,
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    per_row_and_column = 64 * (width + n_columns)
    assert plan.planned_bytes <= memory_bytes
    assert peak <= plan.planned_bytes + per_row_and_column
    assert (len(list(plan.windows(nnz))) > 1) == (memory_bytes < 1 << 30)
    expected: Any = matrix.T.tocsc()
    assert np.array_equal(out[0] - 1, expected.indices)
    assert np.array_equal(out[1], expected.data)


@given(
    st.integers(1, 10**10),
    st.integers(1, 10**6),
    st.integers(5, 16),
    st.integers(24, 36),
    st.integers(1, 64),
)
def test_plans_keep_within_the_memory(
    nnz: int, n_minors: int, element_bytes: int, power: int, threads: int
) -> None:
    """Unless a block and a pointer for each column are more than that."""
    plan = TransposePlan.of(nnz, n_minors, element_bytes, memory_bytes=1 << power, threads=threads)
    least = TransposePlan(
        plan.block_elements,
        plan.merged_elements,
        plan.block_elements,
        n_minors,
        element_bytes,
        threads,
    ).planned_bytes
    assert plan.planned_bytes <= max(1 << power, least)
    has_tables = 4 * (n_minors + 1) > 1 << (power - 2)
    assert least <= (1 << power) or has_tables or plan.block_elements == 1 << 12
    assert plan.window_elements <= np.iinfo(np.int32).max


def test_row_numbers_outside_of_the_result_are_refused() -> None:
    """Compiled code is not given them, whatever the column pointers of the result say."""
    matrix = sp.csc_array(np.eye(3))
    rowval = (matrix.indices + 1).astype(np.uint32)
    for wrong in (0, 4, 2**32 - 1):
        damaged = rowval.copy()
        damaged[1] = wrong
        with pytest.raises(errors.CorruptDataError, match="changed while it was transposed"):
            transpose_sparse(
                indptr=matrix.indptr.astype(np.int64),
                rowval=damaged,
                nzval=matrix.data,
                out_indptr=np.arange(4),
                out_rowval=np.zeros_like(rowval),
                out_nzval=np.zeros_like(matrix.data),
            )


def test_an_exception_ends_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress that raises, as an interrupt does, leaves no task behind."""
    monkeypatch.setattr(_decode_threads, "THREADS", 2)
    matrix = sp.random_array((50, 50), density=0.5, format="csc", rng=np.random.default_rng(0))

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    plan = TransposePlan(10, 10, 10**6, 50, 12, threads=2)
    rowval = (matrix.indices + 1).astype(np.int32)
    with pytest.raises(KeyboardInterrupt):
        transposed(matrix, rowval, plan=plan, progress=interrupt)
    ran: list[int] = []
    _decode_threads.run_all([lambda: ran.append(1)])
    assert ran == [1]


def test_all_true_matrices_in_both_layouts() -> None:
    """Of which no values are stored."""
    daf = MemoryDaf(name="all true in both layouts!")
    daf.add_axis("a", ["x", "y"])
    daf.add_axis("b", ["u", "v", "w"])
    daf.set_matrix("a", "b", "m", sp.csc_array(np.eye(2, 3, dtype=bool)))
    for axes, expected in ((("a", "b"), np.eye(2, 3)), (("b", "a"), np.eye(3, 2))):
        parts = daf.get_sparse_matrix(*axes, "m")
        found: Any = sp.csc_array(
            (np.ones(2), parts.rowval - 1, parts.colptr - 1), shape=parts.shape
        )
        assert np.array_equal(found.toarray(), expected)


@pytest.mark.parametrize(("free", "is_inside"), [((1, 2), True), ((2, 3), False), ((-1, 0), False)])
def test_places_outside_of_the_result_are_refused(free: Any, *, is_inside: bool) -> None:
    """Before the first, or behind the last: numpy would take them from the other end."""
    target = transposing._Target(np.array(free), np.zeros(3, int), np.zeros(3, int), 3)
    elements = (np.array([1, 1]), np.array([7, 8]), np.array([5, 6]))
    if is_inside:
        target.put(0, *elements)
        assert target.rowval.tolist() == [0, 7, 8]
        assert target.nzval.tolist() == [0, 5, 6]
        return
    with pytest.raises(errors.CorruptDataError, match="changed while it was transposed"):
        target.put(0, *elements)
    assert not target.rowval.any()
