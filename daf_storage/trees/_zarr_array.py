"""Groups and arrays of a Zarr hierarchy: mapped where they can be, decoded where not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from daf_storage._lazy import lazy_module
from daf_storage.base import AnyArray, DecodedCache, Span
from daf_storage.base import strings as vlen
from daf_storage.errors import (
    CorruptDataError,
    DafError,
    UnsupportedDataError,
)
from daf_storage.stores import (
    ArchiveSnapshot,
    MappedDirectory,
    ReadEstimate,
    Snapshot,
    estimate_ranges,
    is_mapped,
    map_within,
)
from daf_storage.trees._array_bases import chunks_of, decoded_bytes
from daf_storage.trees._chunk_files import ChunkFiles
from daf_storage.trees._chunk_reader import ChunkMemory, read_ranges
from daf_storage.trees._decompress import limit_of_strings
from daf_storage.trees._joined_ranges import Positions, Ranges
from daf_storage.trees._metadata import ArrayMetadata, ZarrFormat, key_below
from daf_storage.trees._packed_array import PackedArray
from daf_storage.trees._protocol import NodeKind

if TYPE_CHECKING:
    import zarr

    from daf_storage.trees import _foreign as foreign
else:
    zarr = lazy_module("zarr")
    foreign = lazy_module("daf_storage.trees._foreign")


_MAX_CHUNKS: Final = 1 << 20
_MANY_CHUNKS: Final = 1 << 8
_MOST_PER_BYTE: Final = 1 << 17
_STRING_BYTES: Final = 4
_MAX_FILLED_BYTES: Final = 1 << 34


class ZarrNode:
    """A pinned group or array; see `Node`."""

    def __init__(
        self,
        snapshot: Snapshot,
        kind: NodeKind,
        documents: ZarrFormat,
        *,
        chunk_cache: DecodedCache,
        what: str,
    ) -> None:
        self._chunk_cache = chunk_cache
        self.kind = kind
        self._identity: Hashable | None = None
        self._format = documents
        self.snapshot = snapshot
        self._what = what
        self._arrays: dict[str, ZarrArray | PackedArray | None] = {}

    @property
    def identity(self) -> Hashable:
        """What a cache goes by; looked for when it is first asked for, before anything is read."""
        if self._identity is None:
            self._identity = self.snapshot.identity()
        return self._identity

    @property
    def derived(self) -> dict[Hashable, Any] | None:
        """What was made of it, where it is kept as long as nothing of it changes; else None."""
        return getattr(self.snapshot, "derived", None)

    @property
    def kept(self) -> MappedDirectory | None:
        """Its view, if that is kept as long as nothing of it changes."""
        return self.snapshot if isinstance(self.snapshot, MappedDirectory) else None

    @property
    def is_light(self) -> bool:
        """Whether it holds no file open: those of an archive are in the mapping that it has."""
        return isinstance(self.snapshot, ArchiveSnapshot)

    def is_same(self, other: object) -> bool:
        """Return whether another node is the very same stored one."""
        return isinstance(other, ZarrNode) and self.snapshot.is_same(other.snapshot)

    def array(self, name: str = "") -> ZarrArray | PackedArray | None:
        """Return this array, or the one of that name below this group; opened once."""
        if name not in self._arrays:  # a sparse matrix asks for its parts again and again
            self._arrays[name] = self._open_array(name)
        return self._arrays[name]

    def _open_array(self, name: str) -> ZarrArray | PackedArray | None:
        what = f"{self._what}/{name}" if name else self._what
        metadata = self._format.array(self.snapshot, name, what=what)
        if metadata is None:
            return None
        if metadata.shard is not None:
            memory = chunk_memory(self._chunk_cache, metadata, what=what)
            return PackedArray(self.snapshot, name, metadata, memory=memory, what=what)
        return ZarrArray(self.snapshot, name, metadata, cache=self._chunk_cache, what=what)

    def attribute(self, name: str) -> Any:
        """Return an attribute of this group or array; None if it has none of this name."""
        return self._format.attribute(self.snapshot, "", name, what=self._what)


def chunk_memory(cache: DecodedCache, metadata: ArrayMetadata, *, what: str) -> ChunkMemory:
    """Return where the decoded chunks of an array are remembered."""
    key = repr((what, metadata.info, *metadata.stored_as))  # a string knows its hash
    return ChunkMemory(cache, key)


class ZarrArray:
    """An array of a pinned node; see `StoredArray`."""

    def __init__(
        self,
        snapshot: Snapshot,
        path: str,
        metadata: ArrayMetadata,
        *,
        cache: DecodedCache,
        what: str,
    ) -> None:
        self.info = metadata.info
        if self.info.is_mappable and not _is_mappable(snapshot, path, metadata):
            self.info = replace(metadata.info, is_mappable=False)
        self._is_ranged = metadata.info.is_mappable and not snapshot.is_local
        self._snapshot = snapshot
        self._path = path
        self._metadata = metadata
        self._what = what
        self._chunks: ChunkFiles | None = None
        self._kept: tuple[MappedDirectory, str, AnyArray] | None = None
        is_direct = self.info.is_mappable or self._is_ranged
        is_plain_strings = metadata.has_plain_chunk and metadata.info.storage_type.is_string
        if not is_direct and not is_plain_strings and ChunkFiles.can_read(metadata):
            memory = chunk_memory(cache, metadata, what=what)
            self._chunks = ChunkFiles(snapshot, path, metadata, memory=memory, what=what)

    def read(self) -> AnyArray:
        """Return all elements; a read-only view of the mapped file where that is possible."""
        if self._chunks is not None and not self.info.shape:
            return self._chunks.read_scalar()
        if self.info.shape and (self._is_ranged or self._chunks is not None):
            return self.read_rows(Span(0, self.info.shape[0]))
        return self._mapped() if self.info.is_mappable else self._foreign(slice(None))

    def read_rows(self, span: Span) -> AnyArray:
        """Return a range of the first dimension."""
        return self.read_spans([span])[0]

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return several ranges of the first dimension; of a server, asked for together."""
        if self.info.is_mappable:
            mapped = self._mapped()
            parts = [mapped[span.slice] for span in spans]
        elif self._is_ranged and self.info.shape:
            parts = self._ranged(spans)
        elif self._chunks is not None:
            return self._chunks.read_spans(spans, within)
        else:
            picks = () if within is None else (within.slice,)
            return [self._foreign(span.slice, *picks) for span in spans]
        return parts if within is None else [part[:, within.slice] for part in parts]

    def read_joined(self, ranges: Ranges) -> AnyArray | None:
        """Return ranges of an array of one dimension in one array; None if it has no chunks."""
        return None if self._chunks is None else read_ranges(self._chunks, ranges)

    def copy_ranges(self, starts: Positions, sizes: Positions, target: AnyArray) -> bool:
        """Read the first few ranges, in bytes, of a file that is mapped; say if that was done."""
        copy = getattr(self._snapshot, "copy_ranges", None) if self.info.is_mappable else None
        return copy is not None and bool(copy(self._chunk_key(), starts, sizes, target))

    def estimate(
        self, spans: list[Span], estimate: ReadEstimate, within: Span | None = None
    ) -> None:
        """Add what `read_spans` would cost; exact where the array is one plain chunk."""
        rest = math.prod(self.info.shape[1:])
        if self.info.is_mappable:
            width = rest if within is None else rest // self.info.shape[1] * within.size
            count = sum(span.size for span in spans) * width
            estimate.add_bytes(count * self.info.storage_type.dtype.itemsize)
        elif self._is_ranged and self.info.size:
            row_bytes = rest * self.info.storage_type.dtype.itemsize
            ranges = [(span.start * row_bytes, span.stop * row_bytes) for span in spans]
            estimate_ranges(self._snapshot, self._chunk_key(), ranges, estimate)
        elif self._chunks is not None:
            self._chunks.estimate(spans, estimate, within)
        elif self.info.size:
            requests = 0 if self._snapshot.is_local else chunks_of(self.info, spans, within)
            estimate.add_inexact(decoded_bytes(self.info, spans, within), requests=requests)

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings, decoded straight into Arrow where they are stored plainly."""
        if self._chunks is not None:
            if self._metadata.has_plain_strings:
                return self._chunks.read_strings()
            return _as_strings(self._chunks.read_fixed_strings(), what=self._what)
        if not self._metadata.has_plain_chunk:
            return _as_strings(self._foreign(slice(None)), what=self._what)
        if self.info.size == 0:
            return pa.array([], pa.string())
        data = self._mapped_chunk()
        if data is None:
            return _as_strings(self._filled(), what=self._what)
        decoded = vlen.decode_vlen_utf8(data, what=self._what)
        if len(decoded) != self.info.size:
            raise CorruptDataError(
                f"{self._what}: the chunk holds {len(decoded):,} strings, "
                f"but the shape {list(self.info.shape)} needs {self.info.size:,}"
            )
        return decoded

    def string_rows(self, span: Span) -> pa.Array:
        """Return a range of the strings; reads only its chunks."""
        if self._chunks is not None and self._metadata.has_plain_strings:
            return self._chunks.string_rows(span)
        if self._chunks is not None:
            return _as_strings(self._chunks.read_spans([span])[0], what=self._what)
        if not self._metadata.has_plain_chunk:
            return _as_strings(self._foreign(span.slice), what=self._what)
        return self.read_strings().slice(span.start, span.size)

    def check_stored(self, *, is_complete: bool = False) -> None:
        """Raise if files are missing or too short, by their sizes alone."""
        if self.info.size == 0 or not self._snapshot.is_local:
            return
        is_needed = is_complete or self._metadata.fill_value is None
        if not self._metadata.has_plain_chunk:
            if is_needed:
                self._check_chunks()
            return
        size_bytes = self._snapshot.size(self._chunk_key())
        if size_bytes is None:
            if is_needed:
                raise self._missing(self._metadata.first_chunk_key)
            return
        if not self.info.storage_type.is_string:
            if size_bytes != self.info.size * self.info.storage_type.dtype.itemsize:
                raise self._wrong_size(size_bytes)
        elif size_bytes < _STRING_BYTES * (self.info.size + 1):
            raise CorruptDataError(
                f"{self._what}: the chunk file {self._metadata.first_chunk_key!r} is truncated: it "
                f"has {size_bytes:,} bytes, which cannot hold {self.info.size:,} strings"
            )

    def _check_chunks(self) -> None:
        """Raise unless the first and the last chunk are there, and as many files as chunks."""
        grid = [-(-n // c) for n, c in zip(self.info.shape, self.info.chunks, strict=True)]
        for position in (tuple(0 for _ in grid), tuple(n - 1 for n in grid)):
            key = self._metadata.chunk_key(position)
            size_bytes = self._snapshot.size(key_below(self._path, key))
            if size_bytes is None:
                raise self._missing(key)
            elements = min(math.prod(self.info.chunks), self.info.size)
            is_packed = bool(self._metadata.compressions) or self._metadata.has_filters
            if elements > max(size_bytes, 1) * (_MOST_PER_BYTE if is_packed else 1):
                raise CorruptDataError(
                    f"{self._what}: the chunk file {key!r} has {size_bytes:,} bytes, which cannot "
                    f"hold {elements:,} elements"
                )
        count = math.prod(grid)
        if count > _MANY_CHUNKS and (len(grid) == 1 or self._metadata.separator == "."):
            stored = len(self._snapshot.names(key_below(self._path, self._metadata.prefix)))
            if stored < count:
                raise CorruptDataError(
                    f"{self._what}: {count:,} chunks are needed, and there are at most {stored:,}"
                )

    def _missing(self, key: str) -> CorruptDataError:
        has_fill = self._metadata.fill_value is not None
        reason = "must not be filled" if has_fill else "has no fill value to stand in for it"
        return CorruptDataError(
            f"{self._what}: the chunk file {key!r} is missing, and the array {reason}"
        )

    def fingerprint(self) -> list[int] | None:
        """Return what tells the single plain chunk from any other."""
        if not self._metadata.has_plain_chunk or self.info.size == 0:
            return None
        return self._snapshot.fingerprint(self._chunk_key())

    def plain_strings(self) -> memoryview | None:
        """Return the single plain chunk of strings, mapped."""
        if not self.info.storage_type.is_string or not self._metadata.has_plain_chunk:
            return None
        return self._mapped_chunk()

    def mapped_strings(self) -> memoryview | None:
        """Return the single plain chunk of strings, unless it has to be downloaded or expanded."""
        if not self.info.storage_type.is_string or not self._metadata.has_plain_chunk:
            return None
        return self.plain_strings() if is_mapped(self._snapshot, self._chunk_key()) else None

    def open_file(self) -> int | None:
        """Return a descriptor of the single plain chunk's file, if it has one of its own."""
        if not self._metadata.has_plain_chunk or self.info.size == 0:
            return None
        return self._snapshot.open_file(self._chunk_key())

    def _mapped(self) -> AnyArray:
        if self._kept is not None:
            kept, key, values = self._kept
            if kept.is_whole(key):
                return values
        dtype = self.info.storage_type.dtype
        if self.info.size == 0:
            return _frozen(np.empty(self.info.shape, dtype))
        key = self._chunk_key()
        data = self._mapped_chunk()
        if data is None:
            return self._filled()
        if len(data) != self.info.size * dtype.itemsize:
            raise self._wrong_size(len(data))
        values = np.frombuffer(data, dtype).reshape(self.info.shape)
        if isinstance(self._snapshot, MappedDirectory):
            self._kept = (self._snapshot, key, values)
        return values

    def _mapped_chunk(self) -> memoryview | None:
        """Return the single plain chunk."""
        kind, size = self.info.storage_type, self.info.size
        most_bytes = limit_of_strings(size, 0) if kind.is_string else size * kind.dtype.itemsize
        return map_within(self._snapshot, self._chunk_key(), most_bytes, what=self._what)

    def _ranged(self, spans: list[Span]) -> list[AnyArray]:
        """Fetch ranges of a plain chunk that is on a server."""
        dtype = self.info.storage_type.dtype
        rest = self.info.shape[1:]
        row_bytes = int(np.prod(rest, dtype=object)) * dtype.itemsize
        shapes = [(span.size, *rest) for span in spans]
        if self.info.size == 0:
            return [_frozen(np.empty(shape, dtype)) for shape in shapes]
        size = self._snapshot.size(self._chunk_key())
        if size is None:
            values = self._filled()
            return [values[span.slice] for span in spans]
        if size != self.info.size * dtype.itemsize:
            raise self._wrong_size(size)
        ranges = [(span.start * row_bytes, span.stop * row_bytes) for span in spans]
        parts = self._snapshot.read_ranges(self._chunk_key(), ranges)
        return [
            np.frombuffer(part, dtype).reshape(shape)
            for part, shape in zip(parts, shapes, strict=True)
        ]

    def _wrong_size(self, size_bytes: int) -> CorruptDataError:
        dtype = self.info.storage_type.dtype
        needed = self.info.size * dtype.itemsize
        problem = "truncated" if size_bytes < needed else "too long"
        return CorruptDataError(
            f"{self._what}: the chunk file {self._metadata.first_chunk_key!r} is {problem}: "
            f"it has {size_bytes:,} bytes, but shape {list(self.info.shape)} of {dtype} "
            f"needs {needed:,}"
        )

    def _filled(self) -> AnyArray:
        """Stand in for a missing chunk, as the Zarr specification has it."""
        fill_value = self._metadata.fill_value
        if fill_value is None:
            raise self._missing(self._metadata.first_chunk_key)
        size_bytes = self.info.size * max(self._metadata.item_bytes, 1)
        if size_bytes > _MAX_FILLED_BYTES:
            raise CorruptDataError(
                f"{self._what}: the array is said to have the shape {list(self.info.shape)}, and "
                f"there is no data for its {size_bytes:,} bytes"
            )
        if fill_value or self.info.storage_type.is_string:
            return self._foreign(slice(None))
        return _frozen(np.zeros(self.info.shape, self.info.storage_type.dtype))

    def _foreign(self, *picks: slice) -> AnyArray:
        """Let zarr-python read ranges of the array, whatever its codecs."""
        if self.info.size == 0:
            kind = self.info.storage_type
            return _frozen(
                np.empty(self.info.shape, object if kind.is_string else kind.dtype)[picks]
            )
        rows = picks[0]
        self._refuse_many_chunks(rows)
        try:
            array = zarr.open_array(
                foreign.ForeignChunks(self._snapshot, self._path, self._metadata, what=self._what),
                path=self._path,
                mode="r",
                zarr_format=self._metadata.version,
            )
            values = np.asarray(array[picks if self.info.shape else ()])
        except DafError:
            raise
        except Exception as error:  # zarr raises many kinds for data that it cannot read
            raise _unreadable(self._what, error) from error
        self._refuse_missing_chunks(rows)
        if self.info.storage_type.is_string:
            return values
        return _frozen(values.astype(self.info.storage_type.dtype, copy=False))

    def _refuse_many_chunks(self, rows: slice) -> None:
        """Raise if so many chunks are needed that nobody would wait for them."""
        first, last, _ = rows.indices(self.info.shape[0]) if self.info.shape else (0, 1, 1)
        across = zip(self.info.shape[1:], self.info.chunks[1:], strict=True)
        height = self.info.chunks[0] if self.info.chunks else 1
        count = -(-(last - first) // height) * math.prod(-(-n // c) for n, c in across)
        if count > _MAX_CHUNKS:
            raise UnsupportedDataError(
                f"{self._what}: it is cut into {count:,} chunks of shape {list(self.info.chunks)}; "
                "write it in larger ones"
            )

    def _refuse_missing_chunks(self, rows: slice) -> None:
        if self._metadata.fill_value is not None or self.info.size == 0:
            return
        if not self.info.shape:
            if self._snapshot.size(self._chunk_key()) is None:
                raise self._missing(self._metadata.first_chunk_key)
            return
        first, last, _ = rows.indices(self.info.shape[0])
        height = self.info.chunks[0]
        below = [-(-n // c) for n, c in zip(self.info.shape[1:], self.info.chunks[1:], strict=True)]
        grid = itertools.product(range(first // height, -(-last // height)), *map(range, below))
        for position in grid:
            key = self._metadata.chunk_key(position)
            if self._snapshot.size(key_below(self._path, key)) is None:
                raise self._missing(key)

    def _chunk_key(self) -> str:
        return key_below(self._path, self._metadata.first_chunk_key)


def _is_mappable(snapshot: Snapshot, path: str, metadata: ArrayMetadata) -> bool:
    """Return whether the elements are the bytes of a file, or of an entry that begins aligned."""
    if not metadata.info.is_mappable or not snapshot.is_local:
        return False
    key = key_below(path, metadata.first_chunk_key)
    return is_mapped(snapshot, key, alignment=metadata.item_bytes)


def _frozen(values: AnyArray) -> AnyArray:
    values.flags.writeable = False
    return values


def _as_strings(values: AnyArray, *, what: str) -> pa.StringArray:
    """Turn what zarr decoded (objects, ``<U`` or ``|S``) into Arrow strings."""
    flat = values.reshape(-1)
    try:
        if flat.dtype.kind == "S":
            flat = np.char.decode(flat, "utf-8")
        return pa.array(flat.astype(object), pa.string())
    except (pa.ArrowException, ValueError, SystemError) as error:
        raise CorruptDataError(f"{what}: the strings cannot be decoded ({error})") from error


def _unreadable(what: str, error: Exception) -> DafError:
    reason = " ".join(str(error).split()) or type(error).__name__
    if "codec" in reason.lower() or isinstance(error, NotImplementedError):
        return UnsupportedDataError(
            f"{what}: the array is stored with a codec that is not available here ({reason}); "
            "install it for numcodecs, or rewrite the array"
        )
    return CorruptDataError(f"{what}: the stored chunks cannot be decoded ({reason})")
