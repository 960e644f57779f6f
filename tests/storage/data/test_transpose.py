"""Tests of transposing sparse matrices on all cores, against scipy."""

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

from daf_storage import DafWriter, ZarrDaf, settings
from tests.limits import lower
from tests.support import csc_parts, data_set


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
    assert sum(done) == matrix.nnz


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
