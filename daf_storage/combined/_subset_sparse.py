"""Sparse matrices of which some entries are shown.

Where the selected entries are the stored columns of a matrix, only ``colptr`` is made; elements are
read from the file when they are asked for.  Where they are its rows, all row numbers of the stored
columns that are shown have to be looked at once, to know how many elements there are.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from daf_storage.base import AnyArray, Span
from daf_storage.data import (
    EntrySelection,
    HeldArray,
    Picks,
    Positions,
    RangePicks,
    RunPicks,
    StoredMatrix,
    SubsetArray,
)
from daf_storage.errors import CorruptDataError
from daf_storage.trees import StoredArray

_BLOCK_ELEMENTS: Final = 1 << 22


def subset_matrix(
    stored: StoredMatrix, rows: EntrySelection | None, columns: EntrySelection | None
) -> dict[str, StoredArray]:
    """Return the arrays of a sparse matrix of some rows and some columns, as they are stored."""
    indptr = stored.colptr()
    starts, counts = indptr[:-1], np.diff(indptr)
    picks: Picks = RangePicks(Span(0, int(indptr[-1])))
    if columns is not None and columns.span is not None:
        span = columns.span
        picks = RangePicks(Span(int(indptr[span.start]), int(indptr[span.stop])))
        starts, counts = starts[span.slice], counts[span.slice]
    elif columns is not None:
        starts, counts = starts[columns.positions], counts[columns.positions]
        picks = RunPicks(starts, counts)
    rowval: StoredArray = SubsetArray(stored.entries("rowval"), picks)
    if rows is not None:
        minors, picks, counts = _filtered(stored, rows, starts, counts)
        rowval = HeldArray(minors)
    colptr = np.ones(counts.size + 1, stored.entries("colptr").info.storage_type.dtype)
    colptr[1:] = np.cumsum(counts) + 1
    arrays: dict[str, StoredArray] = {"colptr": HeldArray(colptr), "rowval": rowval}
    if stored.has_values():
        arrays["nzval"] = SubsetArray(stored.entries("nzval"), picks)
    return arrays


def _filtered(
    stored: StoredMatrix, rows: EntrySelection, starts: Positions, counts: Positions
) -> tuple[AnyArray, Picks, Positions]:
    """Return the row numbers of the elements in some rows, where these are, and how many each."""
    rowval = stored.entries("rowval")
    dtype = rows.number_type(rowval.info.storage_type.dtype)
    inverse = rows.numbers()
    minors, places = [np.zeros(0, dtype)], [np.zeros(0, np.int64)]
    kept = np.zeros(counts.size, np.int64)
    for block in _blocks(counts):
        runs = RunPicks(starts[block.slice], counts[block.slice])
        numbers = SubsetArray(rowval, runs).read().astype(np.int64)
        if numbers.size and (int(numbers.min()) < 1 or int(numbers.max()) > rows.length):
            raise CorruptDataError(
                f"{stored.what}: rowval leaves the range 1 to {rows.length:,} of its rows axis"
            )
        shown = inverse[numbers - 1]
        chosen = np.flatnonzero(shown)
        columns = np.repeat(np.arange(block.start, block.stop), counts[block.slice])[chosen]
        if not rows.is_ascending:
            order = np.lexsort((shown[chosen], columns))
            chosen = chosen[order]
        kept[block.slice] = np.bincount(columns - block.start, minlength=block.size)
        minors.append(shown[chosen].astype(dtype))
        places.append(runs.part(Span(0, runs.size))[chosen])
    positions = np.concatenate(places)
    return np.concatenate(minors), EntrySelection(positions, rowval.info.size), kept


def _blocks(counts: Positions) -> list[Span]:
    """Return ranges of columns of about so many elements each."""
    groups = np.cumsum(counts) // _BLOCK_ELEMENTS
    cuts = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), counts.size]
    return [Span(start, stop) for start, stop in pairwise(cuts)]
