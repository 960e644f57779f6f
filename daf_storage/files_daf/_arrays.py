"""The arrays of properties: plain bytes, lines of text, packed chunks, and scalars."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from daf_storage._lazy import pc
from daf_storage.base import DecodedCache, Span, StorageType
from daf_storage.errors import CorruptDataError, UnsupportedInputError
from daf_storage.files_daf._descriptors import PartForm
from daf_storage.stores import Fingerprint, ReadEstimate, Snapshot, estimate_ranges
from daf_storage.trees import (
    ArrayInfo,
    ArrayMetadata,
    ChunkEncoding,
    MemoryArray,
    ShardLayout,
    StoredArray,
    limit_of_stored,
    open_zarr_array,
)

_NEWLINE: Final = 10
_COUNT_BYTES: Final = 1 << 20
_LARGE_BYTES: Final = 2**31
_BLOCK_ROWS: Final = 1 << 18


def count_lines(data: memoryview, *, what: str) -> int:
    r"""Return how many lines there are.

    >>> count_lines(memoryview(b"A\nB\n"), what="x")
    2

    Raises
    ------
    CorruptDataError
        The last one does not end: the file is truncated.
    """
    if len(data) and data[-1] != _NEWLINE:
        raise CorruptDataError(
            f"{what}: its last line does not end with a newline, so it is truncated; write it again"
        )
    values = np.frombuffer(data, np.uint8)
    blocks = range(0, values.size, _COUNT_BYTES)
    return sum(int(np.count_nonzero(values[n : n + _COUNT_BYTES] == _NEWLINE)) for n in blocks)


def decode_lines(
    data: memoryview, count: int, *, what: str
) -> pa.StringArray | pa.LargeStringArray:
    r"""Return lines as Arrow strings, which own their memory.

    >>> decode_lines(memoryview("é\n\n".encode()), 2, what="x").to_pylist()
    ['é', '']

    Raises
    ------
    CorruptDataError
        There are more or fewer than ``count``, or they are not UTF-8.
    """
    n_lines = count_lines(data, what=what)
    if n_lines != count:
        raise CorruptDataError(f"{what}: it has {n_lines:,} lines instead of {count:,}")
    if not count:
        return pa.array([], pa.string())
    ends = pa.py_buffer(np.array([0, len(data) - 1]))
    whole = pa.Array.from_buffers(pa.large_string(), 1, [None, ends, pa.py_buffer(data)])
    found = pc.split_pattern(whole, "\n").flatten()
    try:
        found.validate(full=True)
    except pa.ArrowException as error:
        raise CorruptDataError(f"{what}: its lines are not UTF-8 ({error})") from None
    return found if len(data) >= _LARGE_BYTES else found.cast(pa.string())


def encode_lines(strings: pa.Array, *, what: str) -> Iterator[memoryview]:
    r"""Yield the lines of strings in blocks of bytes.

    >>> b"".join(encode_lines(pa.array(["A", ""]), what="x"))
    b'A\n\n'

    Raises
    ------
    UnsupportedInputError
        A string has a line break in it.
    """
    for start in range(0, len(strings), _BLOCK_ROWS):
        yield _encoded(strings.slice(start, _BLOCK_ROWS), start, what)


def _encoded(strings: pa.Array, start: int, what: str) -> memoryview:
    has_break = pc.match_substring(strings, "\n")
    number = pc.index(has_break, True).as_py()
    if number >= 0:
        raise UnsupportedInputError(
            f"{what} has a line break in {strings[number].as_py()!r} at position "
            f"{start + number:,}, and FilesDaf stores a string a line; take the line break out, or "
            "use another format (.daf.zarr, .h5df)"
        )
    kind = pa.large_string()
    ending = pa.scalar("", kind), pa.scalar("\n", kind)
    lines = pc.binary_join_element_wise(strings.cast(kind), *ending)
    size_bytes = len(strings) + (pc.sum(pc.binary_length(strings)).as_py() or 0)
    return memoryview(lines.buffers()[2])[:size_bytes]


_LINE_BYTES = 16
_MOST_EXPANDED_BYTES = 1 << 30
"""Of the entries of an axis, of which nothing says how many there are."""


class _SingleFile(ArrayMetadata):
    """The metadata of an array in one file, whose name is the ``prefix``."""

    __slots__ = ()

    def chunk_key(self, position: tuple[int, ...]) -> str:  # noqa: ARG002 - there is one
        """Return the name of the file."""
        return self.prefix


def open_array(
    snapshot: Snapshot,
    file: str,
    form: PartForm,
    shape: tuple[int, ...],
    *,
    chunk_cache: DecodedCache,
    what: str,
) -> StoredArray:
    """Return an array of this shape in a file of a pinned property."""
    kind, chunks, shard = form.storage_type, form.chunks, None
    if kind.is_string and chunks is None:
        return LinesArray(snapshot, file, shape, what=what)
    if chunks is not None:
        if len(chunks) != len(shape):
            raise CorruptDataError(
                f"{what}: chunks of shape {list(chunks)} cannot make up an array of shape "
                f"{list(shape)}"
            )
        if 0 in shape:  # what is empty is not packed
            raise CorruptDataError(
                f"{what}: its data is packed, and an axis of it has no entries (any more); "
                "take the files of the axes from a backup"
            )
        grid = tuple(math.ceil(n / c) for n, c in zip(shape, chunks, strict=True))
        shard = ShardLayout(grid, index_at_start=True, has_checksum=True)
    codecs = () if chunks is None else ({"id": form.codec},)
    zero = "" if kind.is_string else kind.dtype.type(0)
    metadata = _SingleFile(
        info=ArrayInfo(shape, kind, chunks or _no_zeros(shape), is_mappable=chunks is None),
        encoding=ChunkEncoding(codecs, None if kind.is_string else kind.dtype),
        has_plain_chunk=chunks is None,
        fill_value=None if chunks is None else zero,
        prefix=file,
        shard=shard,
    )
    return open_zarr_array(snapshot, "", metadata, cache=chunk_cache, what=what)


class LinesArray(StoredArray):
    """Strings, each on a line of a file; see `StoredArray`.

    Parameters
    ----------
    shape
        Its shape; lines are in C order.
    """

    def __init__(self, snapshot: Snapshot, file: str, shape: tuple[int, ...], *, what: str) -> None:
        self.info = ArrayInfo(shape, StorageType.STRING, _no_zeros(shape), is_mappable=False)
        self._snapshot = snapshot
        self._file = file
        self._what = what

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings, flattened in C order."""
        return decode_lines(self._lines(), self.info.size, what=self._where)

    def check_stored(self, *, is_complete: bool = False) -> None:  # noqa: ARG002 - nothing stands in
        """Raise if the file is missing, or has fewer bytes than lines."""
        if not self._snapshot.is_local:
            return
        size_bytes = self._snapshot.size(self._file)
        if size_bytes is None:
            raise missing(self._what, self._file)
        if size_bytes < self.info.size:
            raise CorruptDataError(
                f"{self._where}: it has {size_bytes:,} bytes, which cannot hold "
                f"{self.info.size:,} lines; it is truncated"
            )

    def fingerprint(self) -> Fingerprint | None:
        """Return numbers that change with the file."""
        return self._snapshot.fingerprint(self._file)

    def estimate(
        self, spans: list[Span], estimate: ReadEstimate, within: Span | None = None
    ) -> None:
        """Add the whole file: lines are found by reading them."""
        if self._snapshot.is_local:
            super().estimate(spans, estimate, within)
        elif spans and self.info.size:
            size_bytes = self.info.size * _LINE_BYTES
            estimate_ranges(
                [(0, size_bytes)],
                estimate,
                is_remote=True,
                file=self,
                file_bytes=size_bytes,
                first_bytes=self._snapshot.first_bytes,
            )

    @property
    def _where(self) -> str:
        return f"{self._what}: {self._file}"

    def _lines(self) -> memoryview:
        most_bytes = limit_of_stored(self.info.size, 0)
        data = self._snapshot.map_within(self._file, most_bytes, what=self._what)
        if data is None:
            raise missing(self._what, self._file)
        return data


def lines_in(snapshot: Snapshot, file: str, *, what: str) -> int:
    """Return how many lines a file of a pinned property has."""
    data = snapshot.map_within(file, _MOST_EXPANDED_BYTES, what=what)
    if data is None:
        raise missing(what, file)
    return count_lines(data, what=f"{what}: {file}")


def missing(what: str, file: str) -> CorruptDataError:
    """Return the error for a file that a document asks for and that is not there."""
    return CorruptDataError(
        f"{what}: the file {file!r} is missing: a program was stopped while it wrote this, or the "
        "copy is not complete; write it again"
    )


def scalar_array(kind: StorageType, scalar: Any) -> MemoryArray:
    """Return a scalar as an array of one element."""
    values = pa.array([scalar]) if kind.is_string else np.array([scalar], kind.dtype)
    return MemoryArray(lambda: values, shape=(1,), storage_type=kind)


def _no_zeros(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(max(length, 1) for length in shape)
