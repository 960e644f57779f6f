"""Check a whole matrix, and compute digests by which matrices and arrays are compared.

In blocks: memory does not grow with the matrix.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Final
from zlib import crc32

import numpy as np

from daf_storage.base import AnyArray, Span, column_blocks
from daf_storage.base import strings as vlen
from daf_storage.data import _layout as layout
from daf_storage.data._encoding import block_spans
from daf_storage.data._layout import StoredMatrix, check_rows
from daf_storage.data._reader import DafReader, ascend
from daf_storage.errors import CorruptDataError
from daf_storage.trees import StoredArray


def digest(matrix: StoredMatrix, add: Callable[[int], None], *, flipped: bool = False) -> int:
    """Check a matrix, and return a sum over its non-zero elements and their places.

    Two matrices with the same elements have the same sum, in whatever order they are stored; with
    other elements they have another one, but for a chance of 1 in 2**64.

    Parameters
    ----------
    add
        Called after each block with the number of bytes that were read.
    flipped
        Whether to sum the transpose.

    Raises
    ------
    CorruptDataError
        Row numbers are out of bounds or do not rise within a column, or a Bool is neither 0 nor 1.
    """
    if matrix.info.storage_type.is_string:
        array = matrix.dense()
        grid = array.read_strings().to_numpy(zero_copy_only=False).reshape(array.info.shape)
        add(grid.size * 8)
        hashes = np.array([hash(text) for text in (grid.T if flipped else grid).flat])
        return int(np.sum(hashes * (2 * np.arange(hashes.size) + 1)))
    total = 0
    for rows, columns, values, n_bytes in _blocks(matrix):
        total += _sum(rows, columns, values, flipped=flipped)
        add(n_bytes)
    return total % 2**64


def _blocks(matrix: StoredMatrix) -> Iterator[tuple[AnyArray, AnyArray, AnyArray, int]]:
    """Yield rows, columns and values of checked elements, and how many bytes were read for them."""
    if not matrix.info.is_sparse:
        for span in block_spans(matrix.dense()):
            block = matrix.dense().read_rows(span)
            check_bools(block)
            columns, rows = np.nonzero(block)
            yield rows, columns + span.start, block[columns, rows], block.nbytes
        return
    indptr = matrix.colptr()
    for span in column_blocks(indptr):
        elements = Span(int(indptr[span.start]), int(indptr[span.stop]))
        rows, values = matrix.entries("rowval").read_rows(elements), matrix.values(elements)
        check_bools(values)
        check_rows(rows, matrix.info.shape[0], matrix.what)
        pointers = indptr[span.start : span.stop + 1] - elements.start
        if not ascend(rows, pointers):
            raise CorruptDataError("the row numbers do not rise within each column")
        columns = np.repeat(np.arange(span.start, span.stop), np.diff(pointers))
        yield rows.astype(np.int64) - 1, columns, values, rows.nbytes + values.nbytes


def _sum(rows: AnyArray, columns: AnyArray, values: AnyArray, *, flipped: bool) -> int:
    if flipped:
        rows, columns = columns, rows
    is_stored = values != 0
    mixed = _mix(rows[is_stored].astype(np.uint64) + np.uint64(1))
    mixed = _mix(mixed ^ columns[is_stored].astype(np.uint64))
    mixed = _mix(mixed ^ _bits(values[is_stored]))
    return int(np.sum(mixed, dtype=np.uint64))


def _bits(values: AnyArray) -> AnyArray:
    if values.dtype.kind == "f":
        wide = values.astype(np.float64)
        wide[np.isnan(wide)] = np.nan
        bits: AnyArray = wide.view(np.uint64)
        return bits
    return values.astype(np.int64 if values.dtype.kind == "i" else np.uint64).view(np.uint64)


def _mix(numbers: AnyArray) -> AnyArray:
    """Scatter 64-bit numbers, as the splitmix64 generator does."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: AnyArray = numbers ^ (numbers >> np.uint64(31))
    return mixed


def check_bools(values: AnyArray) -> None:
    """Raise if Bool values are stored as anything but 0 and 1."""
    if values.dtype == np.bool_ and values.size and values.view(np.uint8).max() > 1:
        raise CorruptDataError("a Bool is stored as something other than 0 and 1")


def contents_of(sources: list[StoredArray]) -> tuple[int, int]:
    """Return size and checksum of the contents of some arrays; reads all of them."""
    size = total = 0
    for source in sources:
        for part in _parts(source):
            size += len(part)
            total = crc32(part, total)
    return size, total


def _parts(source: StoredArray) -> list[memoryview]:
    """Return the elements of an array as bytes; of strings, as a chunk of them is stored."""
    if not source.info.storage_type.is_string:
        values = np.ascontiguousarray(source.read()).reshape(-1)
        return [values.view(np.uint8).data]
    plain = source.plain_strings()
    if plain is not None:
        return [plain]
    strings = source.read_strings()
    offsets = vlen.string_offsets(strings)
    data = np.frombuffer(strings.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    lengths = np.diff(offsets).astype("<u4")
    return [lengths.view(np.uint8).data, data.data]


_DIGEST_BYTES: Final = 16
_NAME: Final = "name"
_FILE_PARTS: Final = 5
"""Name, inode, size, time of the data and time of the inode of a file, in a version."""


def matrix_version(daf: DafReader, rows_axis: str, columns_axis: str, name: str) -> str | None:
    """Return a digest that changes with a matrix, in either layout, and with its axes' entries.

    It is made of sizes and times of files, in an archive of places, sizes and CRCs of entries; of
    HDF5, of the whole file.  None if that cannot be known: in memory, on a server.  Copies of
    directories that kept the times of their files have the same, on any machine.
    """
    return _digest(
        daf,
        [
            layout.axis_path(rows_axis),
            layout.axis_path(columns_axis),
            layout.matrix_path(rows_axis, columns_axis, name),
            layout.matrix_path(columns_axis, rows_axis, name),
        ],
    )


def vectors_version(daf: DafReader, axis: str, names: Iterable[str]) -> str | None:
    """Return a digest that changes with the entries of an axis, and with some of its vectors.

    As `matrix_version`; vectors that do not exist count as such.
    """
    vectors = [layout.vector_path(axis, name) for name in names if name != _NAME]
    return _digest(daf, [layout.axis_path(axis), *vectors])


def _digest(daf: DafReader, paths: Iterable[str]) -> str | None:
    daf.axes_set()  # raises if the data set was closed
    tree = daf.tree
    versions: list[Hashable] = []
    for path in dict.fromkeys(paths):
        if tree.kind(path) is None:
            versions.append(None)
            continue
        version = tree.version(path)
        if version is None:
            return None
        versions.append(_of_data(version))
    return hashlib.blake2b(repr(versions).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _of_data(version: Any) -> Hashable:
    """Return a version without inodes and what only they have.

    >>> _of_data((("", 7, 4096, 10, 11), ("0", 8, 12, 10, 11)))
    (('0', 12, 10),)
    """
    if not isinstance(version, tuple):
        hashable: Hashable = version
        return hashable
    if len(version) == _FILE_PARTS and isinstance(version[0], str):
        name, _, size, time_of_data, _ = version
        return name, size, time_of_data
    # the size of the directory itself says nothing
    parts = (part for part in version if not isinstance(part, tuple) or part[:1] != ("",))
    return tuple(map(_of_data, parts))
