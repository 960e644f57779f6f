"""The arrays of properties: plain bytes, lines of text, packed chunks, and scalars."""

from __future__ import annotations

import functools
import math

import numpy as np
import pyarrow as pa

from daf_storage.base import DecodedCache, Span, StorageType
from daf_storage.errors import CorruptDataError
from daf_storage.files_daf._descriptors import PackedForm, PartForm, ScalarForm
from daf_storage.files_daf._lines import count_lines, decode_lines
from daf_storage.files_daf._zipped import zip_index
from daf_storage.stores import ReadEstimate, Snapshot, estimate_ranges, map_within
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
    if form.packed is not None:
        return _packed_array(snapshot, file, form, form.packed, shape, cache=chunk_cache, what=what)
    if form.storage_type.is_string:
        return LinesArray(snapshot, file, shape, what=what)
    info = ArrayInfo(shape, form.storage_type, _no_zeros(shape), is_mappable=True)
    metadata = _SingleFile(
        info=info,
        encoding=ChunkEncoding((), form.storage_type.dtype),
        has_plain_chunk=True,
        fill_value=None,
        prefix=file,
    )
    return open_zarr_array(snapshot, "", metadata, cache=chunk_cache, what=what)


def _packed_array(
    snapshot: Snapshot,
    file: str,
    form: PartForm,
    packed: PackedForm,
    shape: tuple[int, ...],
    *,
    cache: DecodedCache,
    what: str,
) -> StoredArray:
    kind = form.storage_type
    if len(packed.chunks) != len(shape):
        raise CorruptDataError(
            f"{what}: chunks of shape {list(packed.chunks)} cannot make up an array of shape "
            f"{list(shape)}"
        )
    if 0 in shape:  # what is empty is not packed
        raise CorruptDataError(
            f"{what}: its data is packed, and an axis of it has no entries (any more); "
            "take the files of the axes from a backup"
        )
    grid = tuple(math.ceil(n / c) for n, c in zip(shape, packed.chunks, strict=True))
    has_index = packed.is_indexed and packed.index_at_start
    make_index = None
    if not has_index:
        count, codec = math.prod(grid), packed.codec
        make_index = functools.partial(zip_index, count=count, codec=codec, what=f"{what}: {file}")
    info = ArrayInfo(shape, kind, packed.chunks, is_mappable=False)
    metadata = _SingleFile(
        info=info,
        encoding=ChunkEncoding(({"id": packed.codec},), None if kind.is_string else kind.dtype),
        fill_value="" if kind.is_string else kind.dtype.type(0),
        prefix=file,
        shard=ShardLayout(grid, index_at_start=True, has_checksum=has_index, make_index=make_index),
    )
    return open_zarr_array(snapshot, "", metadata, cache=cache, what=what)


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

    def fingerprint(self) -> list[int] | None:
        """Return numbers that change with the file."""
        return self._snapshot.fingerprint(self._file)

    def estimate(
        self, spans: list[Span], estimate: ReadEstimate, within: Span | None = None
    ) -> None:
        """Add the whole file: lines are found by reading them."""
        if not spans or not self.info.size:
            return
        if not self._snapshot.is_local:
            ranges = [(0, self.info.size * _LINE_BYTES)]
            estimate_ranges(self._snapshot, ranges, estimate)
            return
        super().estimate(spans, estimate, within)

    @property
    def _where(self) -> str:
        return f"{self._what}: {self._file}"

    def _lines(self) -> memoryview:
        most_bytes = limit_of_stored(self.info.size, 0)
        data = map_within(self._snapshot, self._file, most_bytes, what=self._what)
        if data is None:
            raise missing(self._what, self._file)
        return data


def lines_in(snapshot: Snapshot, file: str, *, what: str) -> int:
    """Return how many lines a file of a pinned property has."""
    data = map_within(snapshot, file, _MOST_EXPANDED_BYTES, what=what)
    if data is None:
        raise missing(what, file)
    return count_lines(data, what=f"{what}: {file}")


def elements_in(snapshot: Snapshot, file: str, kind: StorageType, *, what: str) -> int:
    """Return how many numbers a file of a pinned property has room for."""
    size_bytes = snapshot.size(file)
    if size_bytes is None:
        raise missing(what, file)
    return size_bytes // kind.dtype.itemsize


def missing(what: str, file: str) -> CorruptDataError:
    """Return the error for a file that a document asks for and that is not there."""
    return CorruptDataError(
        f"{what}: the file {file!r} is missing: a program was stopped while it wrote this, or the "
        "copy is not complete; write it again"
    )


def scalar_array(form: ScalarForm) -> MemoryArray:
    """Return a scalar as an array of one element."""
    kind = form.storage_type
    values = pa.array([form.value]) if kind.is_string else np.array([form.value], kind.dtype)
    return MemoryArray(lambda: values, shape=(1,), storage_type=kind)


def _no_zeros(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(max(length, 1) for length in shape)
