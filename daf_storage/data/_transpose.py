"""The blocks in which arrays are copied and compared, and the transposes of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Final

import numpy as np

from daf_storage import settings
from daf_storage._lazy import sp
from daf_storage.base import AnyArray, Span
from daf_storage.data._stored import StoredMatrix
from daf_storage.data._subset_arrays import HeldArray
from daf_storage.errors import CorruptDataError
from daf_storage.trees import THREADS, StoredArray, computed, passing_over, run_all

_BLOCK_BYTES: Final = 1 << 24
_THREAD_BYTES: Final = 1 << 21
_BLOCKS_HELD: Final = 4
"""One of the source, one of the copy, and what they are decoded from."""


def memory_bytes() -> int:
    """Return how much memory numbers may take on their way."""
    return max(settings.DAF_COPY_MAX_BYTES, _LEAST_MEMORY_BYTES)


def block_height(row_bytes: int) -> int:
    """Return how many rows of so many bytes a block has: what is held with it fits the memory."""
    block_bytes = min(max(_BLOCK_BYTES, _THREAD_BYTES * THREADS), memory_bytes() // _BLOCKS_HELD)
    return max(block_bytes // max(row_bytes, 1), 1)


def block_spans(array: StoredArray) -> Iterator[Span]:
    """Yield ranges of the first dimension, along chunks where there are several.

    What is held while one is copied, or compared, fits the memory; it is a row of chunks at least.
    """
    length, *rest = array.info.shape
    chunk = max(array.info.chunks[0], 1)
    height = block_height(math.prod(rest) * array.info.storage_type.dtype.itemsize)
    if chunk < length:
        height = max(height // chunk, 1) * chunk
    for start in range(0, length, height):
        yield Span(start, min(start + height, length))


_LEAST_MEMORY_BYTES: Final = 1 << 24
_BLOCK_ELEMENTS: Final = 1 << 20
_LEAST_BLOCK_ELEMENTS: Final = 1 << 12
_HELD_BYTES: Final = 40
"""What an element takes on its way besides its value: numbers of rows, of columns, and places."""
_TILE: Final = 512
_HELD_PART: Final = 4
_nothing = partial(np.empty, 0)


@dataclass(kw_only=True, eq=False, slots=True)
class EmptySparse:
    """The mapped parts of a sparse vector or matrix, to be filled in place.

    All arrays are writable and zero at first; indices count from 1, as stored.
    """

    nzval: AnyArray
    """The values, shape ``(nnz,)``."""
    nzind: AnyArray = field(default_factory=_nothing)
    """Of a vector: positions, ascending, the first position being 1."""
    colptr: AnyArray = field(default_factory=_nothing)
    """Of a matrix: where each column begins, from 1; its last element must be nnz + 1."""
    rowval: AnyArray = field(default_factory=_nothing)
    """Of a matrix: row numbers from 1, ascending within each column."""


def fill_transpose(
    stored: StoredMatrix, out: EmptySparse, *, progress: Callable[[int], None] = lambda _: None
) -> None:
    """Fill the parts of the transpose of a sparse matrix; its values only if it has some.

    What has to be decoded is held where it takes a quarter of the memory at most; else it is
    decoded twice, in ranges: to count, and to transpose.

    Parameters
    ----------
    progress
        Called after each block with the number of elements done.

    Raises
    ------
    CorruptDataError
        A row number leaves the rows axis, or another program changes them meanwhile.
    """
    indptr, n_rows = stored.colptr(), out.colptr.size - 1
    nnz, held_bytes = int(indptr[-1]), stored.decoded_bytes()
    rowval = stored.entries("rowval")
    rowval.check_stored(is_complete=True)
    rows, values = rowval.read_rows, stored.values
    if held_bytes <= memory_bytes() // _HELD_PART:
        every = Span(0, nnz)
        rows, values = HeldArray(rows(every)).read_rows, HeldArray(values(every)).read_rows
    item_bytes = 2 * out.nzval.itemsize if stored.has_values() else 0
    free_bytes = memory_bytes() - min(held_bytes, memory_bytes() // 2)
    most = free_bytes // (2 * THREADS * (_HELD_BYTES + item_bytes))
    size = max(min(max(_BLOCK_ELEMENTS, 2 * n_rows), most), _LEAST_BLOCK_ELEMENTS)
    blocks = [Span(start, min(start + size, nnz)) for start in range(0, nnz, size)]
    counts = np.zeros(n_rows + 1, np.int64)
    with passing_over():
        for found in computed(partial(_counted, rows(b), n_rows, stored.what) for b in blocks):
            counts += found
        ends = np.cumsum(counts)
        out.colptr[:] = ends + 1
        free = ends[:-1].copy()
        tasks = (
            partial(_transposed, indptr, block, rows(block), values(block), n_rows, stored.what)
            for block in blocks
        )
        while pieces := list(computed(islice(tasks, THREADS))):
            puts: list[Callable[[], None]] = []
            for first, piece in pieces:
                puts.append(partial(_put, first, piece, free.copy(), out))
                free += np.diff(piece.indptr)
            if (free > ends[1:]).any():
                raise _outside(stored.what, n_rows)
            run_all(puts)
            progress(sum(piece.nnz for _, piece in pieces))


def _counted(rows: AnyArray, n_rows: int, what: str) -> AnyArray:
    """Return how often each row number occurs, the first place of which is not used."""
    check_rows(rows, n_rows, what)
    return np.bincount(rows.astype(np.int64, copy=False), minlength=n_rows + 1)


def _transposed(
    indptr: AnyArray, block: Span, rows: AnyArray, values: AnyArray, n_rows: int, what: str
) -> tuple[int, Any]:
    """Return the first column with elements in a block, and the transpose of the block."""
    check_rows(rows, n_rows, what)
    first = int(np.searchsorted(indptr, block.start, side="right")) - 1
    last = int(np.searchsorted(indptr, block.stop, side="left"))
    pointers = np.clip(indptr[first : last + 1], block.start, block.stop) - block.start
    index: Any = np.int32 if max(n_rows, block.size) < np.iinfo(np.int32).max else np.int64
    indices = rows.astype(index) - index(1)
    by_columns = sp.csr_array(
        (np.ascontiguousarray(values), indices, pointers.astype(index)),
        shape=(last - first, n_rows),
    )
    return first, by_columns.tocsc()


def _put(first: int, piece: Any, free: AnyArray, out: EmptySparse) -> None:
    """Put the elements of a block in place, given where the next one of each column goes."""
    places = np.repeat(free - piece.indptr[:-1], np.diff(piece.indptr))
    places += np.arange(piece.nnz)
    numbers = piece.indices.astype(out.rowval.dtype, copy=False)
    out.rowval[places] = numbers + out.rowval.dtype.type(first + 1)
    out.nzval[places] = piece.data


def check_rows(rows: AnyArray, n_rows: int, what: str, base: int = 1) -> None:
    """Raise before compiled code is given a number outside of its arrays."""
    if rows.size and (int(rows.min()) < base or int(rows.max()) >= n_rows + base):
        raise _outside(what, n_rows, base)


def _outside(what: str, n_rows: int, base: int = 1) -> CorruptDataError:
    last = n_rows + base - 1
    return CorruptDataError(f"{what}: rowval leaves the range {base} to {last:,} of its rows axis")


def transpose_dense(source: AnyArray, out: AnyArray) -> None:
    """Fill ``out`` with the transpose of ``source``, tile by tile to spare the caches."""
    height, width = source.shape
    for i in range(0, height, _TILE):
        for j in range(0, width, _TILE):
            out[j : j + _TILE, i : i + _TILE] = source[i : i + _TILE, j : j + _TILE].T


def column_blocks(indptr: AnyArray, *, max_elements: int = _BLOCK_ELEMENTS) -> Iterator[Span]:
    """Yield runs of columns that hold at most ``max_elements`` stored elements, or one column.

    >>> [(s.start, s.stop) for s in column_blocks(np.array([0, 2, 4, 9, 9]), max_elements=4)]
    [(0, 2), (2, 3), (3, 4)]
    """
    start, n_columns = 0, len(indptr) - 1
    while start < n_columns:
        limit = int(indptr[start]) + max_elements
        stop = int(np.searchsorted(indptr, limit, side="right")) - 1
        stop = min(max(stop, start + 1), n_columns)
        yield Span(start, stop)
        start = stop
