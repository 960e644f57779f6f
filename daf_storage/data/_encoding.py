"""Encode properties into a tree transaction: the writing side of the layout.

Values that were given, and arrays that are stored, which are copied in blocks, or transposed.
Knows transactions and the shapes that input was turned into; decides nothing.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from daf_storage import errors, settings
from daf_storage._lazy import pc, sp
from daf_storage.base import THREADS, AnyArray, Span, StorageType, computed, run_all
from daf_storage.data import _layout as layout
from daf_storage.data._coercion import (
    MatrixInput,
    SparseVectorParts,
    StringMatrixInput,
    VectorInput,
    from_one,
)
from daf_storage.data._layout import StoredMatrix, StoredVector, check_rows, is_colptr, rows_outside
from daf_storage.trees import (
    StoredArray,
    TreeTransaction,
    elements_bytes,
    memory_array,
    passing_over,
    scratch_array,
)

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
        Called after each block with its bytes.

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
        rows, values = memory_array(rows(every)).read_rows, memory_array(values(every)).read_rows
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
                raise rows_outside(stored.what, n_rows)
            run_all(puts)
            n_bytes = out.rowval.itemsize + out.nzval.itemsize
            progress(n_bytes * sum(piece.nnz for _, piece in pieces))


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


def transpose_dense(source: AnyArray, out: AnyArray) -> None:
    """Fill ``out`` with the transpose of ``source``, tile by tile to spare the caches."""
    height, width = source.shape
    for i in range(0, height, _TILE):
        for j in range(0, width, _TILE):
            out[j : j + _TILE, i : i + _TILE] = source[i : i + _TILE, j : j + _TILE].T


def index_type(largest: int, usual: StorageType = StorageType.UINT32) -> StorageType:
    """Return an integer type for indices up to ``largest``: the usual one if that holds them.

    >>> index_type(100).value, index_type(300, StorageType.INT8).value, index_type(2**32).value
    ('UInt32', 'UInt32', 'UInt64')
    >>> index_type(127, StorageType.INT8).value, index_type(2**32 - 1).value
    ('Int8', 'UInt32')
    """
    for kind in (usual, StorageType.UINT32):
        if kind.is_integer and largest <= np.iinfo(kind.dtype).max:
            return kind
    return StorageType.UINT64


def write_vector(
    changes: TreeTransaction, path: str, value: VectorInput, attributes: Mapping[str, str] = {}
) -> None:
    """Prepare a vector: of numbers, of strings, or sparse; all-true Bool needs no values."""
    changes.annotate(path, attributes)
    if isinstance(value, SparseVectorParts):
        changes.create_group(path)
        changes.write_array(f"{path}/nzind", value.nzind)
        if value.nzval is not None and not layout.is_all_true(value.nzval):
            changes.write_array(f"{path}/nzval", value.nzval)
    elif isinstance(value, np.ndarray):
        changes.write_array(path, value)
    else:
        write_text(changes, path, value, (len(value),))


def write_matrix(changes: TreeTransaction, path: str, value: MatrixInput) -> None:
    """Prepare one orientation of a matrix, stored by columns; all-true Bool needs no values."""
    if sp.issparse(value):
        changes.create_group(path)
        changes.write_array(f"{path}/colptr", from_one(value.indptr, value.indices.size))
        changes.write_array(f"{path}/rowval", from_one(value.indices, value.shape[0]))
        if not layout.is_all_true(value.data):
            changes.write_array(f"{path}/nzval", value.data)
    elif isinstance(value, StringMatrixInput):
        write_text(changes, path, value.strings, value.shape[::-1])
    else:
        write_dense_matrix(changes, path, value)


def write_text(
    changes: TreeTransaction, path: str, strings: pa.Array, shape: tuple[int, ...]
) -> None:
    """Prepare strings; without the empty ones where the format has that and it is smaller."""
    size = len(strings)
    index = index_type(size + 1).dtype
    is_stored = pc.not_equal(strings, "")
    count = pc.sum(is_stored).as_py() or 0
    characters = pc.sum(pc.utf8_length(strings)).as_py() or 0
    dense_bytes = characters + size
    indices = count if len(shape) == 1 else shape[0] + 1 + count
    sparse_bytes = characters + count + indices * index.itemsize
    if not changes.stores_sparse_strings or sparse_bytes > 0.75 * dense_bytes:
        changes.write_strings(path, strings, shape)
        return
    changes.create_group(path)
    places = np.flatnonzero(is_stored.to_numpy(zero_copy_only=False))
    if len(shape) == 1:
        changes.write_array(f"{path}/nzind", (places + 1).astype(index))
    else:
        columns, rows = np.divmod(places, max(shape[1], 1))
        ends = np.searchsorted(columns, np.arange(shape[0] + 1), side="left")
        changes.write_array(f"{path}/colptr", (ends + 1).astype(index))
        changes.write_array(f"{path}/rowval", (rows + 1).astype(index))
    changes.write_strings(f"{path}/nztxt", strings.filter(is_stored), (count,))


def counted_blocks(blocks: Iterable[AnyArray], add: Callable[[int], None]) -> Iterator[AnyArray]:
    """Yield blocks, and count the bytes of each when it is written."""
    for block in blocks:
        yield block
        add(block.nbytes)


def copy_stored(
    changes: TreeTransaction,
    path: str,
    stored: StoredVector | StoredMatrix,
    *,
    link: bool = False,
    add: Callable[[int], None] = lambda _: None,
) -> None:
    """Copy a property as it is stored, array by array: numbers in blocks, strings at once.

    Parameters
    ----------
    link
        Whether a file whose bytes are the same in both formats is shared, rather than copied.
    """
    changes.annotate(path, stored.attributes)
    arrays = stored.arrays()
    if "" not in arrays:
        changes.create_group(path)
    for part, array in arrays.items():
        place = f"{path}/{part}" if part else path
        if link and _linked(changes, place, array):
            add(size_bytes([array]))
        elif array.info.storage_type.is_string:
            write_text(changes, place, array.read_strings(), array.info.shape)
            add(size_bytes([array]))
        else:
            blocks = counted_blocks(map(array.read_rows, block_spans(array)), add)
            changes.write_blocks(place, array.info.shape, array.info.storage_type, blocks)


def _linked(changes: TreeTransaction, path: str, array: StoredArray) -> bool:
    """Share the file of an array whose bytes are the same in both formats, if that is possible."""
    link_array = getattr(changes, "link_array", None)  # only where arrays have files of their own
    descriptor = None if link_array is None else array.open_file()
    if link_array is None or descriptor is None:
        return False
    try:
        linked: bool = link_array(path, array.info.shape, array.info.storage_type, descriptor)
        return linked
    finally:
        os.close(descriptor)


def size_bytes(arrays: Iterable[StoredArray]) -> int:
    """Return the bytes of the elements of arrays; of strings about."""
    infos = [array.info for array in arrays]
    return sum(elements_bytes(info, [Span(0, info.shape[0])], None) for info in infos)


def write_dense_matrix(changes: TreeTransaction, path: str, values: AnyArray) -> None:
    """Prepare a dense matrix of numbers, stored by columns."""
    kind = StorageType.of(values.dtype)
    shape = values.shape[::-1]
    if changes.packs(shape, kind):
        step = max(_BLOCK_BYTES // max(values.shape[0] * kind.dtype.itemsize, 1), 1)
        starts = range(0, shape[0], step)
        changes.write_blocks(path, shape, kind, (values[:, n : n + step].T for n in starts))
        return
    transpose_dense(values, changes.reserve_array(path, values.shape[::-1], kind))


def reserve_sparse(
    changes: TreeTransaction, path: str, sizes: tuple[int, int], *kinds: StorageType
) -> EmptySparse:
    """Prepare a sparse matrix to be filled in place.

    Parameters
    ----------
    sizes
        How many columns and how many elements it has.
    kinds
        The types of indices and of values.
    """
    (n_columns, nnz), (index, kind) = sizes, kinds
    changes.create_group(path)
    return EmptySparse(
        colptr=changes.reserve_array(f"{path}/colptr", (n_columns + 1,), index),
        rowval=changes.reserve_array(f"{path}/rowval", (nnz,), index),
        nzval=changes.reserve_array(f"{path}/nzval", (nnz,), kind),
    )


def decoded_array(array: StoredArray, folder: Path | None = None) -> AnyArray:
    """Return an array in chunks, each of which is decoded once; a large one lies in a file."""
    out = scratch_array(array.info.shape, array.info.storage_type, folder)
    for span in block_spans(array):
        out[span.slice] = array.read_rows(span)
    return out


def check_filled(parts: EmptySparse, shape: tuple[int, int], nnz: int, what: str) -> None:
    """Raise if what was filled in is no sparse matrix."""
    colptr, rowval = parts.colptr, parts.rowval
    if not is_colptr(colptr, shape[1], nnz):
        raise errors.InvalidInputError(
            f"{what} was filled with a colptr that does not rise from 1 to {nnz + 1:,}; "
            "nothing was stored"
        )
    if rowval.size and (int(rowval.min()) < 1 or int(rowval.max()) > shape[0]):
        raise errors.InvalidInputError(
            f"{what} was filled with row numbers outside 1 to {shape[0]:,}; nothing was stored"
        )
