"""Tests of taking ranges of a sparse matrix: any types, either way, and never beyond the arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from daf_query.matrix import Selection, SlicePlan, gather_sparse
from daf_storage import DafReader, DafWriter, MemoryDaf, ZarrDaf, errors
from tests.limits import lower

N_ROWS, N_COLUMNS = 9, 40


def filled(index_type: Any, values: Any, daf: DafWriter | None = None) -> DafWriter:
    """Return a data set with a sparse matrix whose row numbers have a type."""
    daf = MemoryDaf() if daf is None else daf
    stored = sp.csc_array(values)
    daf.add_axis("r", [f"r{i}" for i in range(values.shape[0])])
    daf.add_axis("c", [f"c{i}" for i in range(values.shape[1])])
    with daf.empty_sparse_matrix(
        "r", "c", "m", stored.dtype, stored.nnz, index_dtype=index_type
    ) as parts:
        parts.colptr[:], parts.rowval[:] = stored.indptr + 1, stored.indices + 1
        parts.nzval[:] = stored.data
    return daf


def some_values(dtype: Any = np.float32) -> Any:
    """Return a matrix of which two thirds of the elements are zero."""
    random = np.random.default_rng(5)
    values = random.integers(1, 50, (N_ROWS, N_COLUMNS)) * (
        random.random((N_ROWS, N_COLUMNS)) < 0.3
    )
    return values.astype(dtype)


def taken(daf: DafReader, positions: Any, minors: Any = None) -> Any:
    """Return some columns of the matrix, as CSR of their own."""
    minor = Selection.all(N_ROWS) if minors is None else Selection.of(np.array(minors), N_ROWS)
    major = Selection.of(np.array(positions, np.int64), N_COLUMNS)
    return gather_sparse(SlicePlan(daf.open_matrix("r", "c", "m"), major, minor))


@given(data=st.data())
def test_ranges_of_any_types(data: st.DataObject) -> None:
    """Of any index type and value type: what numpy's indexing gives."""
    kind = data.draw(st.sampled_from(["u1", "i1", "u2", "i4", "u4", "i8", "u8"]))
    dtype = data.draw(st.sampled_from([np.float32, np.float64, np.uint8, np.int64]))
    values = some_values(dtype)
    positions = data.draw(st.lists(st.integers(0, N_COLUMNS - 1), max_size=60))
    minors = data.draw(st.none() | st.lists(st.integers(0, N_ROWS - 1), min_size=1, max_size=12))
    block = data.draw(st.sampled_from([3, 20, 1 << 18]))
    daf = filled(kind, values)
    expected = values.T[positions] if minors is None else values.T[positions][:, minors]
    with pytest.MonkeyPatch.context() as patch:
        lower(patch, gathered_elements=block)
        part = taken(daf, positions, minors)
    assert part.dtype == dtype
    assert part.indices.dtype == np.int32
    part.check_format(full_check=True)
    np.testing.assert_array_equal(part.toarray().reshape(expected.shape), expected)


POSITIONS: list[Any] = [[7], [6, 9, 7], range(N_COLUMNS)]


@pytest.mark.parametrize(
    ("index_type", "number", "positions"),
    [
        (index_type, number, POSITIONS[(place + other) % 3])
        for place, index_type in enumerate(["i4", "u4", "u1", "i8", "u8"])
        for other, number in enumerate([0, N_ROWS + 1, -1])
    ],
)
def test_row_numbers_off_their_axis_are_refused(
    tmp_path: Path, index_type: str, number: int, positions: Any
) -> None:
    """In a single range as in many, of all minors as of some; elsewhere they do no harm."""
    daf = ZarrDaf(tmp_path / "x.daf.zarr", "w")
    assert isinstance(daf, DafWriter)
    filled(index_type, some_values(), daf)
    parts = daf.get_sparse_matrix("r", "c", "m")
    rowval, place = np.array(parts.rowval), int(parts.colptr[7]) - 1
    rowval[place : place + 1] = np.array([number]).astype(rowval.dtype)
    rowval.tofile(tmp_path / "x.daf.zarr/matrices/r/c/m/rowval/0")
    for minors in (None, [2, 5]):
        with pytest.raises(errors.CorruptDataError, match="rowval leaves the range 1 to 9"):
            taken(daf, positions, minors)
        others = [1, 30, 2]
        expected = some_values().T[others] if minors is None else some_values().T[others][:, minors]
        assert taken(daf, others, minors).toarray().tolist() == expected.tolist()
