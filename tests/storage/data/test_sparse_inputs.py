"""Tests of sparse input: indices within the shape, sums that do not wrap, index types that hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from daf_storage import DafWriter, view
from daf_storage.errors import UnsupportedInputError
from tests.suites.examples import write_stored
from tests.support import csc_parts, data_set, dense


@pytest.fixture
def daf() -> DafWriter:
    """Return a data set of 3 cells, 4 genes and 300 peaks."""
    return data_set(cell=3, gene=4, peak=300)


@pytest.mark.parametrize("kind", [sp.coo_array, sp.csr_array, sp.csc_array])
def test_elements_that_occur_twice_are_added_without_wrapping(daf: DafWriter, kind: Any) -> None:
    """200 + 100 is 300: an error in UInt8, which they come in, and right in Int32."""
    if kind is sp.coo_array:
        value = kind((np.array([200, 100], np.uint8), ([1, 1], [2, 2])), shape=(3, 4))
    else:
        pointers = {sp.csr_array: [0, 0, 2, 2], sp.csc_array: [0, 0, 0, 2, 2]}[kind]
        index = {sp.csr_array: 2, sp.csc_array: 1}[kind]
        value = kind((np.array([200, 100], np.uint8), [index] * 2, pointers), shape=(3, 4))
    with pytest.raises(UnsupportedInputError, match="holds 300 at row 1, column 2, which does not"):
        daf.set_matrix("cell", "gene", "m", value)
    daf.set_matrix("cell", "gene", "m", value, dtype="int32")
    assert dense(daf.get_np_matrix("cell", "gene", "m")).tolist()[1] == [0, 0, 300, 0]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(-130, 130)), max_size=12),
    st.sampled_from(["coo", "csr", "csc", "bsr", "lil", "dok"]),
    st.sampled_from(["int8", "int16", "uint8", "float32", None]),
)
def test_sparse_matrices_are_stored_exactly_or_refused(
    entries: list[tuple[int, int, int]], layout: str, dtype: Any
) -> None:
    """Python's sums are the oracle, whatever the format and the dtype."""
    wanted = np.zeros((3, 4), dtype=object)
    for row, column, number in entries:
        wanted[row, column] += number
    rows, columns, numbers = np.array(entries, np.int16).reshape(-1, 3).T
    value = sp.coo_array((numbers, (rows.astype(int), columns.astype(int))), shape=(3, 4))
    daf = data_set(cell=3, gene=4)
    limits = np.iinfo("int32" if dtype == "float32" else dtype or "int16")
    if all(limits.min <= number <= limits.max for number in wanted.flat):
        daf.set_matrix("cell", "gene", "m", value.asformat(layout), dtype=dtype)
        assert dense(daf.get_np_matrix("cell", "gene", "m")).tolist() == wanted.tolist()
        assert dense(daf.get_np_matrix("gene", "cell", "m")).T.tolist() == wanted.tolist()
    else:
        with pytest.raises(UnsupportedInputError, match=r"holds -?\d+ at row"):
            daf.set_matrix("cell", "gene", "m", value.asformat(layout), dtype=dtype)


def test_what_lies_beyond_the_pointers_is_not_stored(daf: DafWriter) -> None:
    """Scipy lets the parts of a matrix be longer than they need to be."""
    value = sp.csc_array((np.ones(5), [0, 1, 2, 0, 0], [0, 1, 2, 3, 3]), shape=(3, 4))
    daf.set_matrix("cell", "gene", "m", value)
    assert csc_parts(daf, "cell", "gene", "m").rowval.tolist() == [1, 2, 3]
    assert dense(daf.get_np_matrix("cell", "gene", "m")).sum() == 3


def test_small_index_types_are_widened_by_relayout_views_and_reordering(daf: DafWriter) -> None:
    """300 peaks do not fit into the UInt8 that other programs stored a few indices in."""
    colptr = np.array([1] * 300 + [2], np.uint8)
    tiny = {"colptr": colptr, "rowval": np.array([2], np.uint8), "nzval": np.array([7], "f4")}
    write_stored(daf, "matrices/cell/peak/m", tiny)
    daf.relayout_matrix("cell", "peak", "m")
    assert dense(daf.get_np_matrix("peak", "cell", "m", relayout=False))[299].tolist() == [0, 7, 0]
    tiny = {"nzind": np.array([1], np.uint8), "nzval": np.array([7.0])}
    write_stored(daf, "vectors/peak/v", tiny)
    tiny = {"colptr": np.array([1, 2, 2, 2]), "rowval": np.array([1], np.uint8)}
    write_stored(daf, "matrices/peak/cell/n", tiny | {"nzval": np.array([7.0])})
    backwards = np.arange(300)[::-1]
    shown = view(daf, {"peak": backwards})
    for reader in (shown, daf):
        if reader is daf:
            daf.reorder_axis("peak", backwards)
        assert np.flatnonzero(reader.get_np_vector("peak", "v")).tolist() == [299]
        assert np.argwhere(dense(reader.get_np_matrix("peak", "cell", "n"))).tolist() == [[299, 0]]
        assert np.argwhere(dense(reader.get_np_matrix("peak", "cell", "m"))).tolist() == [[0, 1]]


@pytest.mark.parametrize("kind", ["i2", "u4", "i8"])
def test_indices_of_other_types(daf: DafWriter, kind: str) -> None:
    """Scipy's own code knows two; the others are widened, the elements are the same."""
    matrix = sp.csc_array(np.array([[0, 2.0, 0, 0], [1, 0, 3, 0], [0, 0, 0, 4]]))
    odd = sp.csc_array(matrix)
    odd.indices, odd.indptr = matrix.indices.astype(kind), matrix.indptr.astype(kind)
    daf.set_matrix("cell", "gene", "m", odd)
    for axes, expected in ((("cell", "gene"), matrix), (("gene", "cell"), matrix.T)):
        assert abs(daf.get_np_matrix(*axes, "m", relayout=False) - expected).nnz == 0


def test_half_floats(daf: DafWriter) -> None:
    """They are stored as Float32, which holds them all."""
    dense = np.array([[0, 0.1, 0, 0], [65504, 0, 0, 0], [0, 0, 0, 0]], np.float16)
    odd = sp.csc_array(dense.astype("f4"))
    odd.data = odd.data.astype(np.float16)
    daf.set_matrix("cell", "gene", "m", odd, dtype="float32")
    assert daf.get_np_matrix("cell", "gene", "m").toarray().tolist() == dense.tolist()
