"""The blocks in which arrays are copied, compared and transposed: how large they are.  Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

import numpy as np

from daf_storage import settings
from daf_storage._lazy import sp
from daf_storage.base import AnyArray, Span
from daf_storage.errors import CorruptDataError
from daf_storage.trees import THREADS, StoredArray, computed, run_all

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


def transpose_sparse(  # noqa: PLR0913 - three arrays on each side
    *,
    indptr: AnyArray,
    rowval: Callable[[Span], AnyArray],
    nzval: Callable[[Span], AnyArray] | None,
    out_colptr: AnyArray,
    out_rowval: AnyArray,
    out_nzval: AnyArray | None,
    what: str,
    progress: Callable[[int], None] = lambda _: None,
    held_bytes: int = 0,
) -> None:
    """Fill the transpose of a CSC matrix, given where its columns begin.

    Parameters
    ----------
    indptr
        Where the columns of the source begin, from 0, int64.
    rowval, nzval
        Return 1-based row numbers and values of the source, each twice, in this thread; no values
        if all are true.
    out_colptr, out_rowval, out_nzval
        Filled in place: where columns begin, and row numbers that ascend within each, all from 1.
        No values if all are true.
    what
        The matrix, for messages.
    progress
        Called after each block with the number of elements done.
    held_bytes
        How much of the memory is taken already; a few numbers for each row and column are besides.

    Raises
    ------
    CorruptDataError
        A row number leaves the rows axis, or another program changes them meanwhile.
    """
    nnz, n_rows = int(indptr[-1]), out_colptr.size - 1
    item_bytes = 0 if nzval is None or out_nzval is None else 2 * out_nzval.itemsize
    most = (memory_bytes() - held_bytes) // (2 * THREADS * (_HELD_BYTES + item_bytes))
    size = max(min(max(_BLOCK_ELEMENTS, 2 * n_rows), most), _LEAST_BLOCK_ELEMENTS)
    blocks = [Span(start, min(start + size, nnz)) for start in range(0, nnz, size)]
    counts = np.zeros(n_rows + 1, np.int64)
    for found in computed(partial(_counted, rowval(b), n_rows, what) for b in blocks):
        counts += found
    ends = np.cumsum(counts)
    out_colptr[:] = ends + 1
    free = ends[:-1].copy()
    tasks = (
        partial(
            _transposed,
            indptr,
            block,
            rowval(block),
            None if nzval is None else nzval(block),
            n_rows,
            what,
        )
        for block in blocks
    )
    while pieces := list(computed(islice(tasks, THREADS))):
        puts: list[Callable[[], None]] = []
        for first, piece in pieces:
            puts.append(partial(_put, first, piece, free.copy(), out_rowval, out_nzval))
            free += np.diff(piece.indptr)
        if (free > ends[1:]).any():
            raise _outside(what, n_rows)
        run_all(puts)
        progress(sum(piece.nnz for _, piece in pieces))


def _counted(rows: AnyArray, n_rows: int, what: str) -> AnyArray:
    """Return how often each row number occurs, the first place of which is not used."""
    check_rows(rows, n_rows, what)
    return np.bincount(rows.astype(np.int64, copy=False), minlength=n_rows + 1)


def _transposed(
    indptr: AnyArray, block: Span, rows: AnyArray, values: AnyArray | None, n_rows: int, what: str
) -> tuple[int, Any]:
    """Return the first column with elements in a block, and the transpose of the block."""
    check_rows(rows, n_rows, what)
    first = int(np.searchsorted(indptr, block.start, side="right")) - 1
    last = int(np.searchsorted(indptr, block.stop, side="left"))
    pointers = np.clip(indptr[first : last + 1], block.start, block.stop) - block.start
    index: Any = np.int32 if max(n_rows, block.size) < np.iinfo(np.int32).max else np.int64
    indices = rows.astype(index) - index(1)
    values = np.ones(rows.size, bool) if values is None else np.ascontiguousarray(values)
    by_columns = sp.csr_array(
        (values, indices, pointers.astype(index)), shape=(last - first, n_rows)
    )
    return first, by_columns.tocsc()


def _put(
    first: int, piece: Any, free: AnyArray, out_rowval: AnyArray, out_nzval: AnyArray | None
) -> None:
    """Put the elements of a block in place, given where the next one of each column goes."""
    places = np.repeat(free - piece.indptr[:-1], np.diff(piece.indptr))
    places += np.arange(piece.nnz)
    numbers = piece.indices.astype(out_rowval.dtype, copy=False)
    out_rowval[places] = numbers + out_rowval.dtype.type(first + 1)
    if out_nzval is not None:
        out_nzval[places] = piece.data


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
