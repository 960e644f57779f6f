"""Encode properties into a tree transaction: the writing side of the layout.

Knows transactions and the shapes that input was turned into; decides nothing.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile, gettempdir

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import pc
from daf_storage.base import AnyArray, Span, StorageType
from daf_storage.data import _layout as layout
from daf_storage.data._coercion import (
    MatrixInput,
    SparseMatrixInput,
    SparseVectorInput,
    StringMatrixInput,
    VectorInput,
)
from daf_storage.data._layout import StoredMatrix, StoredVector, is_colptr
from daf_storage.data._transpose import EmptySparse, block_spans, transpose_dense
from daf_storage.trees import StoredArray, TreeTransaction, elements_bytes

_BLOCK_BYTES = 1 << 24
_SCRATCH_BYTES = 1 << 24


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
    if isinstance(value, SparseVectorInput):
        changes.create_group(path)
        changes.write_array(f"{path}/nzind", _from_one(value.positions, value.length))
        if not layout.is_all_true(value.values):
            changes.write_array(f"{path}/nzval", value.values)
    elif isinstance(value, np.ndarray):
        changes.write_array(path, value)
    else:
        write_text(changes, path, value, (len(value),))


def write_matrix(changes: TreeTransaction, path: str, value: MatrixInput) -> None:
    """Prepare one orientation of a matrix, stored by columns; all-true Bool needs no values."""
    if isinstance(value, SparseMatrixInput):
        changes.create_group(path)
        changes.write_array(f"{path}/colptr", _from_one(value.indptr, value.indices.size))
        changes.write_array(f"{path}/rowval", _from_one(value.indices, value.shape[0]))
        if not layout.is_all_true(value.values):
            changes.write_array(f"{path}/nzval", value.values)
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


def copy_array(
    changes: TreeTransaction,
    path: str,
    array: StoredArray,
    add: Callable[[int], None],
) -> None:
    """Copy an array of numbers in blocks; one of strings is held while it is copied.

    Parameters
    ----------
    add
        Called after each block with its bytes.
    """
    if array.info.storage_type.is_string:
        write_text(changes, path, array.read_strings(), array.info.shape)
        add(size_bytes([array]))
        return

    blocks = counted_blocks(map(array.read_rows, block_spans(array)), add)
    changes.write_blocks(path, array.info.shape, array.info.storage_type, blocks)


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
    """Copy a property as it is stored, array by array.

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
        else:
            copy_array(changes, place, array, add)


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


def _from_one(indices: AnyArray, largest: int) -> AnyArray:
    """Count from 1, in the caller's integer type unless that overflows."""
    fits = largest + 1 <= np.iinfo(indices.dtype).max
    return indices.astype(indices.dtype if fits else np.int64) + 1


class Filling:
    """Arrays of a property that are filled in place; those that are packed, aside until the end.

    Parameters
    ----------
    folder
        Where large ones are that are aside; None for the system's folder.
    """

    def __init__(self, changes: TreeTransaction, folder: Path | None = None) -> None:
        self._changes = changes
        self._folder = folder
        self._aside: dict[str, AnyArray] = {}

    def array(self, path: str, shape: tuple[int, ...], kind: StorageType) -> AnyArray:
        """Return zeros."""
        if not self._changes.packs(shape, kind):
            return self._changes.reserve_array(path, shape, kind)
        values = scratch_array(math.prod(shape), kind, self._folder).reshape(shape)
        self._aside[path] = values
        return values

    def sparse_matrix(
        self, path: str, n_columns: int, nnz: int, index_kind: StorageType, kind: StorageType
    ) -> EmptySparse:
        """Return the parts of a sparse matrix."""
        self._changes.create_group(path)
        return EmptySparse(
            colptr=self.array(f"{path}/colptr", (n_columns + 1,), index_kind),
            rowval=self.array(f"{path}/rowval", (nnz,), index_kind),
            nzval=self.array(f"{path}/nzval", (nnz,), kind),
        )

    def finish(self) -> None:
        """Pack what is aside."""
        for path, values in self._aside.items():
            self._changes.write_array(path, values)


def scratch_array(count: int, kind: StorageType, folder: Path | None = None) -> AnyArray:
    """Return zeros, in memory or in a temporary file that goes with them.

    Parameters
    ----------
    folder
        Where such a file is; None for the system's folder.
    """
    if count * kind.dtype.itemsize < _SCRATCH_BYTES:
        return np.zeros(count, kind.dtype)
    with errors.os_errors(str(folder or gettempdir())), TemporaryFile(dir=folder) as file:
        return np.memmap(file, kind.dtype, "w+", shape=(count,))


def decoded_array(array: StoredArray, folder: Path | None = None) -> AnyArray:
    """Return an array in chunks, each of which is decoded once; a large one lies in a file."""
    out = scratch_array(array.info.size, array.info.storage_type, folder).reshape(array.info.shape)
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
