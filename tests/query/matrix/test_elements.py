"""Tests of reading the elements of a slice in blocks, against reading all of them."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import scipy.sparse as sp
from hypothesis import given

from daf_query.matrix import Elements, Selection, SlicePlan, elements_of
from daf_storage import MemoryDaf

VALUES = np.array([[0, 1, 0, 0, 5], [0, 2, 0, 3, 6], [0, 0, 0, 4, 7]], dtype=np.int16)
"""Rows are the minors; the first column and the third have no elements."""


def elements(majors: list[int], minors: list[int] | None, *, is_sparse: bool) -> Elements:
    """Return the elements of some majors, of `VALUES` as it is stored."""
    daf = MemoryDaf()
    daf.add_axis("cell", ["a", "b", "c"])
    daf.add_axis("gene", list("vwxyz"))
    daf.set_matrix("cell", "gene", "X", sp.csc_array(VALUES) if is_sparse else VALUES)
    stored = daf.open_matrix("cell", "gene", "X")
    minor = Selection.all(3) if minors is None else Selection.of(np.array(minors, np.int64), 3)
    return elements_of(SlicePlan(stored, Selection.of(np.array(majors, np.int64), 5), minor))


def triples(block: Any, offsets: Any = None) -> list[tuple[int, int, int]]:
    """Return major, minor and value of each element of a block."""
    parts = (block.majors(offsets), block.minors(offsets), block.values(offsets))
    return list(zip(*(part.tolist() for part in parts), strict=True))


def wanted(majors: list[int], minors: list[int], *, is_sparse: bool) -> list[tuple[int, int, int]]:
    """Return the same, element by element."""
    return [
        (major, minor, int(VALUES[minor, major]))
        for major in majors
        for minor in minors
        if not is_sparse or VALUES[minor, major]
    ]


MAJORS = st.lists(st.integers(0, 4), unique=True).map(sorted)


@given(MAJORS, st.integers(1, 6))
def test_sparse_blocks(majors: list[int], size: int) -> None:
    """Of any size, cut within a column or not: together all elements, in order."""
    sparse = elements(majors, None, is_sparse=True)
    assert not sparse.has_other_minors
    spans = sparse.spans(size)
    assert all(span.size <= size for span in spans)
    found = [triple for span in spans for triple in triples(sparse.block(span))]
    assert found == wanted(majors, [0, 1, 2], is_sparse=True)
    assert sparse.count == len(found)


@given(MAJORS, st.sampled_from([[0, 1, 2], [1], [0, 2], []]), st.integers(1, 6))
def test_dense_blocks(majors: list[int], minors: list[int], size: int) -> None:
    """Whole columns, of the selected minors alone."""
    dense = elements(majors, minors, is_sparse=False)
    assert not dense.has_other_minors
    found = [triple for span in dense.spans(size) for triple in triples(dense.block(span))]
    assert found == wanted(majors, minors, is_sparse=False)
    assert dense.count == len(found)
