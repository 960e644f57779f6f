"""Groups and datasets of an HDF5 file that are read.

Datasets of fixed-size types that lie in the file as they are get mapped, not read through h5py.
HDF5 says where the chunks of others are; their bytes are in the mapped file.  Those of an
uncompressed dataset lie one after the other in a few *runs*, of which parts are views.  Compressed
ones are decompressed here, in several threads, which HDF5 cannot.  The rest is read through h5py,
only the part that is asked for: strings that are not in order, chunks with other filters, and files
that are open for writing, of which HDF5 may have chunks that are not in the file.
"""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage.base import (
    AnyArray,
    DecodedCache,
    Span,
    install_command,
    one_array,
    optional_import,
)
from daf_storage.errors import (
    CorruptDataError,
    DafError,
    MissingDependencyError,
    UnsupportedDataError,
)
from daf_storage.stores import ReadEstimate, fingerprint, is_stable
from daf_storage.trees._chunked_array import ChunkedArray, Position
from daf_storage.trees._decompress import Codec, undone
from daf_storage.trees._hdf5_file import Hdf5File, HeldObject
from daf_storage.trees._hdf5_objects import (
    H5PY_ERRORS,
    STRING_BLOCK,
    check_source,
    check_type,
    element_type_of,
    h5py,
    node_kind,
    open_below,
    reason_of,
)
from daf_storage.trees._hdf5_strings import (
    HEADER_BYTES,
    REFERENCE,
    collection_bytes,
    read_many,
)
from daf_storage.trees._metadata import ChunkEncoding, check_chunk_bytes
from daf_storage.trees._protocol import NodeKind
from daf_storage.trees._stored_array import (
    ArrayInfo,
    Ranges,
    StoredArray,
    decoded_bytes,
    elements_bytes,
    frozen,
    join_views,
)

MAX_LISTED_CHUNKS: Final = 1 << 19
"""Of a dataset of more chunks, HDF5 looks up each chunk itself."""

_FIRST_FOREIGN_FILTER: Final = 256
_MAX_ELEMENTS: Final = 2**62
_SHUFFLE: Final = 2
_FREE_BYTES: Final = 1 << 28
_DEFLATE_RATIO: Final = 1032
_REFERENCE_BLOCK: Final = 1 << 20
_UNKNOWN: Final = -2
_FEW_CHUNKS: Final = 1 / 16
"""So large a share of the chunks of a dataset on a server is looked up one by one: their list lies
all over the file."""
_FETCHED: Final = 256
"""How many chunks are downloaded before the first of them is decoded."""
_LAST_HEAP_BYTES: Final = 1 << 17
"""So long the last heap of a dataset on a server may be."""
_HEAP_BYTES: Final = 1 << 26
"""Strings on a server whose heaps are longer are read by HDF5."""
_CODECS: Final[Mapping[int, Mapping[str, Any]]] = {
    1: {"id": "zlib"},
    32001: {"id": "blosc"},
    32015: {"id": "zstd"},
}
"""The filters that are undone here, by their registered numbers, besides shuffling."""


class Hdf5Node:
    """A group or dataset, held open; see `Node`."""

    def __init__(
        self, shared: Hdf5File, held: HeldObject, kind: NodeKind, identity: Hashable, *, what: str
    ) -> None:
        self.kind = kind
        self.identity = identity
        self._shared = shared
        self.held = held
        """What it is, open."""
        self.what = what

    def is_same(self, other: object) -> bool:
        """Return whether another node is the very same stored one."""
        return isinstance(other, Hdf5Node) and bool(self.held.id == other.held.id)

    def array(self, name: str = "") -> Hdf5Array | None:
        """Return this dataset, or the one of that name below this group."""
        with self._shared.lock:
            if not name:
                return self._opened(self.held, "") if self.kind == "array" else None
            if self.kind != "group":
                return None
            found = open_below(self.held.id, name, what=f"{self.what}/{name}")
            if node_kind(found) != "array":
                return None
            return self._opened(HeldObject(self._shared, found, f"{self.held.name}/{name}"), name)

    def _opened(self, held: HeldObject, name: str) -> Hdf5Array:
        return Hdf5Array(self._shared, held, what=f"{self.what}/{name}" if name else self.what)

    def attribute(self, name: str) -> Any:
        """Return an attribute of this group or dataset; None if it has none of this name."""
        what = f"{self.what}: the attribute {name!r}"
        with self._shared.lock:
            h5a, found = h5py().h5a, self.held.id
            try:
                if not h5a.exists(found, name.encode()):
                    return None
                check_type(h5a.open(found, name.encode()).get_type(), what)
                return h5py().AttributeManager(self.held)[name]
            except (OSError, RuntimeError, ValueError, TypeError, KeyError) as error:
                raise CorruptDataError(f"{what} cannot be read ({reason_of(error)})") from error


class Hdf5Array(StoredArray):
    """One dataset; see `StoredArray`."""

    def __init__(self, shared: Hdf5File, held: HeldObject, *, what: str) -> None:
        self._shared = shared
        self._held = held
        self.what = what
        """The dataset as messages name it."""
        try:
            self.info, self._item_bytes, self._is_chunked, is_flat = _dataset_info(
                shared, held.id, what
            )
            self._is_downloaded = is_flat and shared.is_remote
        except DafError:
            raise
        except H5PY_ERRORS as error:
            raise CorruptDataError(f"{what}: cannot be read ({reason_of(error)})") from error

    def fingerprint(self) -> list[int] | None:
        """Return inode, size and times of the file; None while it is too new to tell by them."""
        with self._shared.lock:
            status = self._shared.status()
        return None if status is None or not is_stable(status) else list(fingerprint(status))

    def check_stored(self, *, is_complete: bool = False) -> None:
        """Raise if there is no room in the file for the elements, by what it says of its size."""
        with self._shared.lock:
            self._attempt(lambda: self._check_stored(is_complete=is_complete))

    def _check_stored(self, *, is_complete: bool) -> None:
        if (is_complete or not self._is_chunked) and not self._has_all():
            raise CorruptDataError(
                f"{self.what}: the shape {list(self.info.shape)} needs more elements than are "
                "stored"
            )
        offset = self._held.id.get_offset()
        if offset is not None:
            self._check_size(offset, self.info.size * self._item_bytes)

    def _has_all(self) -> bool:
        """Return whether there is room in the file for all elements."""
        shape, dataset = self.info.shape, self._held.id
        if 0 in shape:
            return True
        if not self._is_chunked:
            return bool(dataset.get_storage_size() >= self.info.size * self._item_bytes)
        return bool(dataset.get_num_chunks() >= math.prod(_grid(self.info)))

    def _check_size(self, offset: int, size_bytes: int) -> None:
        """Raise if the file ends before the elements do."""
        available = self._shared.size_bytes()
        if offset + size_bytes > available:
            raise CorruptDataError(
                f"{self.what}: the file is truncated: {size_bytes:,} bytes at {offset:,} were "
                f"recorded, and the file has {available:,}"
            )

    # Numbers.

    def read(self) -> AnyArray:
        """Return all elements; a read-only view of the mapped file where that is possible."""
        if self.info.storage_type.is_string:
            return super().read()
        if self.info.shape and not self.info.is_mappable:
            return self.read_rows(Span(0, self.info.shape[0]))
        return self._mapped() if self.info.is_mappable else self.read_by_hdf5(())

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return several ranges of the first dimension; each chunk is decoded once."""
        if self.info.is_mappable or self.info.storage_type.is_string:
            return super().read_spans(spans, within)
        if self._is_downloaded:
            parts = self._downloaded(spans)
            return parts if within is None else [part[:, within.slice] for part in parts]
        chunks = self._chunks()
        if chunks is not None:
            return chunks.read_spans(spans, within)
        rest = () if within is None else (within.slice,)
        return [self.read_by_hdf5((span.slice, *rest)) for span in spans]

    def read_joined(self, ranges: Ranges) -> AnyArray | None:
        """Return ranges of an array of one dimension in one array; None where HDF5 reads them."""
        if self._is_downloaded:
            pairs = zip(ranges.starts.tolist(), ranges.stops.tolist(), strict=True)
            parts = self._downloaded([Span(*pair) for pair in pairs])
            return frozen(np.concatenate([np.empty(0, self.info.storage_type.dtype), *parts]))
        chunks = self._chunks()
        return None if chunks is None else chunks.read_joined(ranges)

    def estimate(
        self, spans: list[Span], estimate: ReadEstimate, within: Span | None = None
    ) -> None:
        """Add the bytes of the elements, or the stored bytes of their chunks."""
        if self._is_downloaded:
            self._shared.estimate(self._ranges(spans), estimate)
            return
        chunks = self._chunks()
        if chunks is None and self._shared.is_remote:
            # A string lies apart: it takes a reference and a header, of 16 bytes each, as well.
            size_bytes = decoded_bytes(self.info, spans, within)
            is_string = self.info.storage_type.is_string
            estimate.add_inexact(size_bytes * (3 if is_string else 1), requests=1 + is_string)
        elif chunks is None:
            super().estimate(spans, estimate, within)
        else:
            chunks.estimate(spans, estimate, within)

    def _ranges(self, spans: list[Span]) -> list[tuple[int, int]]:
        """Return where ranges of a dataset in one piece are in the file."""
        row = self._item_bytes * math.prod(self.info.shape[1:])
        start = self._held.id.get_offset() or 0
        return [(start + span.start * row, start + span.stop * row) for span in spans]

    def _downloaded(self, spans: list[Span]) -> list[AnyArray]:
        """Return ranges of a dataset in one piece, downloaded side by side."""
        with self._shared.lock:
            ranges = self._ranges(spans)
        rest, dtype = self.info.shape[1:], self.info.storage_type.dtype
        stored = self._shared.stored(ranges)
        return [frozen(np.frombuffer(part, dtype).reshape(-1, *rest)) for part in stored]

    def _chunks(self) -> Hdf5Chunks | None:
        """Return the chunks as they are read without HDF5; None where they cannot be."""
        if not self._is_listable:
            return None
        shared = self._shared
        shared.check_length(what=self.what)
        with shared.lock:
            found: Hdf5Chunks | None = self._attempt(
                lambda: shared.kept((self._held.name, self.info), self._open_chunks)
            )
            return found

    @cached_property
    def _is_listable(self) -> bool:
        """Whether it has chunks of numbers, in a file that nothing of this process writes to."""
        info, shared = self.info, self._shared
        if not self._is_chunked or info.storage_type.is_string or 0 in info.shape:
            return False
        with shared.lock:
            if shared.is_remote:
                return shared.heap_base == 0
            return shared.can_map and not (shared.is_writable or shared.heap_base)

    def _open_chunks(self) -> Hdf5Chunks | None:
        """Look up where the chunks are, once until the file changes; None if they are too many."""
        dataset = self._held.id
        is_too_long = math.prod(_grid(self.info)) > MAX_LISTED_CHUNKS
        if is_too_long or not hasattr(dataset, "chunk_iter"):
            return None
        shared = self._shared
        if shared.is_remote:
            listing = ChunkListing.unknown(math.prod(_grid(self.info)))
        else:
            listing = ChunkListing.of(dataset, self.info, shared.size_bytes(), what=self.what)
        return Hdf5Chunks(self, dataset, listing, shared)

    def memory(self) -> DecodedCache:
        """Return where its decoded chunks are remembered."""
        return self._shared.chunk_cache.named(self._held.name)

    def fill_value(self) -> Any:
        """Return what chunks hold that are not stored."""
        return self._held.get().fillvalue

    def read_by_hdf5(self, picks: tuple[slice, ...]) -> AnyArray:
        """Have HDF5 read a part."""
        self._check_expansion(picks)
        values = np.asarray(self._attempt(lambda: self._held.get()[picks]))
        return frozen(values.astype(self.info.storage_type.dtype, copy=False))

    def _mapped(self) -> AnyArray:
        dtype = self.info.storage_type.dtype
        size_bytes = self.info.size * dtype.itemsize
        with self._shared.lock:
            offset = self._held.id.get_offset()
            if offset is None:
                raise CorruptDataError(f"{self.what}: its elements are not in the file any more")
            self._check_size(offset, size_bytes)
            data = self._shared.map(self._held.id, size_bytes)
        return np.frombuffer(data, dtype).reshape(self.info.shape)

    # Strings.

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings, flattened in C order."""
        many = self._attempt(self._read_many_strings)
        if many is not None:
            return many
        self._check_expansion(())
        n_rows = self.info.shape[0] if self.info.shape else 0
        step = max(STRING_BLOCK * n_rows // max(self.info.size, 1), 1)
        picks: list[Any] = [slice(n, n + step) for n in range(0, n_rows, step)]
        try:
            blocks = [
                pa.array(self._objects(pick), pa.string())
                for pick in (picks if self.info.shape else [()])
            ]
            return one_array(pa.chunked_array(blocks, pa.string()))
        except (pa.ArrowException, UnicodeDecodeError, UnicodeEncodeError) as error:
            raise self._not_utf8(error) from error

    def _objects(self, pick: Any) -> AnyArray:
        """Return a range of the strings, in one dimension."""
        found = self._attempt(lambda: self._held.get().asstr("utf-8")[pick])
        return np.asarray(found, dtype=object).reshape(-1)

    def _not_utf8(self, error: Exception) -> CorruptDataError:
        return CorruptDataError(f"{self.what}: the strings are not UTF-8 ({reason_of(error)})")

    def _read_many_strings(self) -> Any:
        """Return strings of variable length, whose heaps are checked; None where HDF5 reads them.

        HDF5 is asked for what was checked here, if at all.
        """
        dataset, shared = self._held.id, self._shared
        kind, base = dataset.get_type(), shared.heap_base
        is_variable = kind.get_class() == h5py().h5t.STRING and kind.is_variable_str()
        if not is_variable or base is None:
            return None
        if shared.is_remote:
            return self._read_remote_strings(base)
        if not shared.can_map:
            return None
        with shared.lock:
            shared.check_length(what=self.what)
            if shared.is_writable:
                shared.flush()
            file = shared.whole()
            return read_many(
                file,
                lambda: _references_of(dataset, shared.span, what=self.what),
                self.info.size,
                base=base,
                what=self.what,
            )

    def _read_remote_strings(self, base: int) -> Any:
        """Download the references and the heaps that they lead to; None where HDF5 reads them."""
        shared = self._shared
        with shared.lock:
            blocks = list(_references_of(self._held.id, shared.span, what=self.what))
        addresses = np.concatenate([block["address"] for _, block in blocks] or [np.zeros(0)])
        addresses = np.unique(addresses[addresses > 0]).astype(np.int64) + base
        most = shared.size_bytes() - HEADER_BYTES
        if not addresses.size or int(addresses.min()) < 0 or int(addresses.max()) > most:
            return None
        is_next = np.diff(addresses, prepend=-2 * _LAST_HEAP_BYTES) > _LAST_HEAP_BYTES
        firsts, lasts = addresses[is_next], addresses[np.append(is_next[1:], True)]
        stops = np.minimum(lasts + _LAST_HEAP_BYTES, shared.size_bytes())
        if int((stops - firsts).sum()) > _HEAP_BYTES:
            return None
        ranges = list(zip(firsts.tolist(), stops.tolist(), strict=True))
        heaps = np.frombuffer(b"".join(shared.stored(ranges)), np.uint8)
        ends = np.cumsum(stops - firsts)
        shifts, run = ends - stops, np.cumsum(is_next) - 1
        places = addresses + shifts[run]
        for at, end in zip(places.tolist(), ends[run].tolist(), strict=True):
            if at + collection_bytes(heaps, at) > end:
                return None

        def moved() -> Iterator[tuple[int | None, npt.NDArray[Any]]]:
            for start, block in blocks:
                there = block.copy()
                at = block["address"].astype(np.int64) + base
                runs = np.searchsorted(firsts, at, "right") - 1
                there["address"] = np.where(block["address"] > 0, at + shifts[runs] + 1, 0)
                yield start, there

        return read_many(heaps, moved, self.info.size, base=-1, what=self.what)

    # What HDF5 reads.

    def _check_expansion(self, picks: tuple[slice, ...]) -> None:
        n_rows = self.info.shape[0] if self.info.shape else 1
        first, last, _ = (picks[0] if picks else slice(None)).indices(n_rows)
        self._attempt(lambda: _check_expansion(self._held.id, first, last, what=self.what))

    @property
    def identifier(self) -> Any:
        """Its identifier."""
        return self._held.id

    def attempt(self, read: Any) -> Any:
        """Return what HDF5 is asked for, under its lock; what it raises is a `DafError`."""
        with self._shared.lock:
            return self._attempt(read)

    def _attempt(self, read: Any) -> Any:
        _ = self._held.id  # opened again, if the file was
        opened = self._shared.file
        self._shared.check_length(what=self.what)
        try:
            return read()
        except DafError:
            raise
        except UnicodeDecodeError as error:
            raise self._not_utf8(error) from error
        except H5PY_ERRORS as error:
            if self._shared.file is not opened and self._shared.file.id.valid:  # opened again
                return self._attempt(read)
            reason = reason_of(error)
            if "filter" in reason.lower():
                raise UnsupportedDataError(
                    f"{self.what}: the dataset is stored with a filter that is not available here "
                    f"({reason}); rewrite the dataset, or install hdf5plugin, which has more: "
                    f"{install_command('hdf5')}"
                ) from error
            raise CorruptDataError(f"{self.what}: cannot be read ({reason})") from error


def _grid(info: ArrayInfo) -> tuple[int, ...]:
    return tuple(-(-n // c) for n, c in zip(info.shape, info.chunks, strict=True))


def _dataset_info(shared: Hdf5File, dataset: Any, what: str) -> tuple[ArrayInfo, int, bool, bool]:
    """Return the metadata of a dataset, the bytes of an element, and whether there are chunks.

    And whether the elements are in the file as they are, in one piece.
    """
    if dataset.shape is None:
        raise UnsupportedDataError(f"{what}: the dataset is empty: it has not even a shape")
    stored = dataset.get_type()
    element = element_type_of(stored)
    kind = element.storage_type
    if kind is None:
        raise UnsupportedDataError(
            f"{what}: the dataset has the type {element.dtype}; Daf has Bool, Int8 to Int64, "
            "UInt8 to UInt64, Float32, Float64 and strings"
        )
    item_bytes = int(stored.get_size())
    properties, offset = dataset.get_create_plist(), dataset.get_offset()
    if offset is None:  # what has one is in the file, in one piece
        check_source(properties, what=what)
    shape = tuple(int(n) for n in dataset.shape)
    if math.prod(max(n, 1) for n in shape) > _MAX_ELEMENTS:
        raise CorruptDataError(f"{what}: the dataset is said to have the shape {list(shape)}")
    chunks, is_chunked = shape, properties.get_layout() == h5py().h5d.CHUNKED
    if is_chunked:
        chunks = tuple(int(c) for c in properties.get_chunk())
        if any(number >= _FIRST_FOREIGN_FILTER for number in _filters_of(properties)):
            with suppress(MissingDependencyError):  # reading names the filter, and the package
                optional_import("hdf5plugin", extra="hdf5")
        check_chunk_bytes(shape, chunks, item_bytes, what=what)
    is_plain = not kind.is_string and bool(element.dtype == kind.dtype)
    is_flat = offset is not None and is_plain
    info = ArrayInfo(
        shape=shape,
        storage_type=kind,
        chunks=tuple(max(c, 1) for c in chunks),
        is_mappable=is_flat and shared.can_map,
    )
    return info, item_bytes, is_chunked, is_flat


# Chunks.


@dataclass(frozen=True, slots=True)
class ChunkListing:
    """Where the chunks of a dataset are in its file, in the order of the grid."""

    offsets: npt.NDArray[np.int64]
    """Where they begin; -1 for one that is not stored, -2 where HDF5 was not asked yet."""
    sizes: npt.NDArray[np.int64]
    """How many bytes they have."""
    masks: npt.NDArray[np.int64]
    """Which filters each was stored without, as bits."""

    @classmethod
    def unknown(cls, count: int) -> ChunkListing:
        """Return the listing of some chunks, of which nothing is known."""
        return cls(*np.full((3, count), _UNKNOWN, np.int64))

    @classmethod
    def of(cls, dataset: Any, info: ArrayInfo, file_bytes: int, *, what: str) -> ChunkListing:
        """Return where HDF5 says that chunks are, after a check that each has a place of its own.

        Parameters
        ----------
        dataset
            The identifier of the dataset.

        Raises
        ------
        CorruptDataError
            A chunk is said to be outside the file or the dataset, or twice.
        """
        grid = _grid(info)
        table = _stored_chunks(dataset, math.prod(grid), len(grid), what)
        starts, places = table[:, : len(grid)], table[:, len(grid) :]
        numbers, rest = np.divmod(starts, np.array(info.chunks))
        if np.any(rest) or np.any(starts < 0) or np.any(numbers >= np.array(grid)):
            raise _damaged(what, "a chunk is said to be outside its shape")
        offsets, sizes = places[:, 0], places[:, 1]
        if np.any(offsets < 0) or np.any(sizes < 0) or np.any(sizes > file_bytes - offsets):
            raise _damaged(what, f"a chunk is said to be outside the file of {file_bytes:,} bytes")
        columns = np.full((3, math.prod(grid)), -1, np.int64)
        columns[:, np.ravel_multi_index(tuple(numbers.T), grid)] = places.T
        listing = cls(*columns)
        if np.count_nonzero(listing.offsets >= 0) != len(table):
            raise _damaged(what, "two chunks are said to be at the same place")
        return listing


def _stored_chunks(dataset: Any, count: int, rank: int, what: str) -> npt.NDArray[np.int64]:
    """Ask HDF5 where the chunks of a dataset are; a row for each."""
    found = array("q")
    most = count * (rank + 3)

    def note(stored: Any) -> int | None:
        try:
            found.extend(
                (*stored.chunk_offset, stored.byte_offset, stored.size, stored.filter_mask)
            )
        except (OverflowError, TypeError):  # an undefined address
            return 1
        return 1 if len(found) > most else None

    if dataset.chunk_iter(note) is not None:
        raise _damaged(what, "there are more chunks than the dataset has room for, or some nowhere")
    return np.frombuffer(found, np.int64).reshape(-1, rank + 3)


def _damaged(what: str, problem: str) -> CorruptDataError:
    return CorruptDataError(
        f"{what}: the list of its chunks is damaged: {problem}; take the file from a backup"
    )


class Runs:
    """The runs of an uncompressed dataset whose chunks are whole rows, and all there.

    Parameters
    ----------
    starts
        The row with which each run begins, and the number of rows.
    views
        The rows of each run, as they are in the file.
    dtype
        What the elements are to be.
    """

    def __init__(
        self, starts: npt.NDArray[np.int64], views: list[AnyArray], dtype: np.dtype[Any]
    ) -> None:
        self._starts = starts
        self._views = views
        self._dtype = dtype

    @classmethod
    def of(
        cls, info: ArrayInfo, stored: np.dtype[Any], listing: ChunkListing, file: memoryview
    ) -> Runs | None:
        """Return the runs of a dataset; None where its chunks are not whole rows, or missing."""
        chunk_bytes = math.prod(info.chunks) * stored.itemsize
        is_whole = info.chunks[1:] == info.shape[1:] and bool(np.all(listing.offsets >= 0))
        if not is_whole or bool(np.any(listing.sizes != chunk_bytes)):
            return None
        firsts = np.flatnonzero(np.diff(listing.offsets, prepend=-1) != chunk_bytes)
        firsts = np.union1d([0], firsts)
        starts = np.append(firsts * info.chunks[0], info.shape[0])
        views = [
            np.frombuffer(file, stored, int(size) * math.prod(info.shape[1:]), int(at)).reshape(
                -1, *info.shape[1:]
            )
            for size, at in zip(np.diff(starts), listing.offsets[firsts], strict=True)
        ]
        return cls(starts, views, info.storage_type.dtype)

    def read(self, span: Span) -> AnyArray:
        """Return a range of rows, as a view if it lies in one run and is stored as in memory."""
        run = int(np.searchsorted(self._starts, span.start, "right")) - 1
        if span.size and span.stop > self._starts[run + 1]:
            return frozen(self.join(Ranges.of([span])))
        view = self._views[min(run, len(self._views) - 1)]
        start = int(self._starts[min(run, len(self._views) - 1)])
        found = view[span.start - start : span.stop - start]
        is_native = view.flags.aligned and view.dtype == self._dtype
        return frozen(found if is_native else np.array(found, self._dtype))

    def join(self, ranges: Ranges) -> AnyArray:
        """Return ranges of rows, one after the other."""
        firsts = np.searchsorted(self._starts, ranges.starts, "right") - 1
        lasts = np.searchsorted(self._starts, ranges.stops - 1, "right") - 1
        numbers, pieces = ranges.cut(
            firsts, lasts - firsts + 1, lambda numbers: self._starts[numbers]
        )
        return join_views(self._views, numbers, pieces).astype(self._dtype, copy=False)


class Hdf5Chunks(ChunkedArray):
    """The chunks of one dataset of numbers in the mapped file; see `ChunkLocator`.

    Parameters
    ----------
    dataset, shared
        The identifier of the dataset, and the file.
    """

    most_chunks = MAX_LISTED_CHUNKS

    def __init__(
        self,
        whole: Hdf5Array,
        dataset: Any,
        listing: ChunkListing,
        shared: Hdf5File,
    ) -> None:
        element = element_type_of(dataset.get_type())
        self._filters = _filters_of(dataset.get_create_plist())
        self._is_known = element.is_native and all(map(_is_known, self._filters))
        codecs = _codecs_of(self._filters, 0, element.dtype.itemsize) if self._is_known else ()
        encoding = ChunkEncoding(codecs, element.dtype)
        super().__init__(whole.info, encoding, self, cache=whole.memory(), what=whole.what)
        self._whole = whole
        self._grid = _grid(whole.info)
        self._listing = listing
        self._shared = shared
        self._runs: Runs | None = None
        is_plain = self._is_known and not codecs and not shared.is_remote
        if is_plain:
            self._runs = Runs.of(whole.info, element.dtype, listing, shared.whole().data)
        self._version = None if is_plain else shared.content_version()

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return ranges of the first dimension; views where they lie in the file in one piece."""
        if self._runs is None:
            return super().read_spans(spans, within)
        parts = [self._runs.read(span) for span in spans]
        return parts if within is None else [part[:, within.slice] for part in parts]

    def read_joined(self, ranges: Ranges) -> AnyArray:
        """Return ranges of a dataset of one dimension, one after the other."""
        return super().read_joined(ranges) if self._runs is None else self._runs.join(ranges)

    def estimate(
        self, spans: list[Span], estimate: ReadEstimate, within: Span | None = None
    ) -> None:
        """Add the stored bytes of the chunks, and what they expand to."""
        if self._runs is None:
            super().estimate(spans, estimate, within)
        else:
            estimate.add_bytes(elements_bytes(self.info, spans, within))

    def is_stored(self, position: Position, *, asks_server: bool) -> bool:
        """Return whether the file has a chunk."""
        if self._shared.is_remote and not asks_server:
            return True
        self._look_up([position])
        return self._range(position) is not None

    def name(self, position: Position) -> str:
        """Return what messages call a chunk."""
        return f"chunk {list(position)}"

    def version(self, position: Position) -> Hashable | None:  # noqa: ARG002 - one file has all chunks
        """Return the state of the file."""
        return self._version

    def fetch(self, positions: list[Position]) -> Iterator[tuple[Position, Any]]:
        """Yield the stored bytes of chunks."""
        self._look_up(positions)
        step = _FETCHED if self._shared.is_remote else max(len(positions), 1)
        for start in range(0, len(positions), step):
            block = positions[start : start + step]
            ranges = [self._range(position) for position in block]
            stored = iter(self._shared.stored([each for each in ranges if each is not None]))
            for position, each in zip(block, ranges, strict=True):
                yield position, None if each is None else next(stored)

    def fill_value(self, position: Position) -> Any:  # noqa: ARG002 - as above
        """Return what a chunk holds that is not stored."""
        return self._whole.fill_value()

    def add_stored(self, positions: list[Position], estimate: ReadEstimate) -> None:
        """Add the stored bytes of chunks."""
        ranges = [self._range(position) for position in positions]
        self._shared.estimate([each for each in ranges if each is not None], estimate)
        numbers = [self._number(each) for each in positions]
        unknown = [n for n in numbers if self._listing.offsets[n] == _UNKNOWN]
        if unknown:  # as if all of them lay side by side, in order
            most_bytes = self._shared.size_bytes() // self._listing.offsets.size
            size = min(math.prod(self.info.chunks) * self.dtype.itemsize, most_bytes)
            self._shared.estimate([(n * size, (n + 1) * size) for n in unknown], estimate)

    def check_stored(self, *, is_complete: bool = False) -> None:
        """Do nothing: the listing was checked."""

    def fingerprint(self) -> None:
        """Return nothing: the file has other datasets."""
        return

    @property
    def decodes_in_threads(self) -> bool:
        """Whether chunks are decoded in several threads: HDF5 would not."""
        return self._is_known

    def decode(self, position: Position, stored: Any) -> AnyArray:
        """Return the elements of a chunk, padded at the end of the array.

        HDF5 decodes those with filters that are not known here.  And those that a file may ask HDF5
        not to compress: such as reach beyond the end of the array; nothing beside them says so.
        """
        if stored is None:
            return super().decode(position, stored)
        ends = zip(position, self.info.chunks, self.info.shape, strict=True)
        picks = tuple(slice(n * c, min((n + 1) * c, most)) for n, c, most in ends)
        shape = tuple(pick.stop - pick.start for pick in picks)
        encoded = self._encoding.dtype or self.dtype
        is_as_it_is = len(stored) == math.prod(self.info.chunks) * encoded.itemsize
        is_doubtful = shape != self.info.chunks and is_as_it_is and bool(self._filters)
        if self._is_known and not is_doubtful:
            return super().decode(position, stored)
        padded = np.zeros(self.info.chunks, self.dtype)
        padded[tuple(map(slice, shape))] = self._whole.read_by_hdf5(picks)
        return padded

    def _codecs_of(self, position: Position) -> tuple[Codec, ...]:
        mask = int(self._listing.masks[self._number(position)])
        return _codecs_of(self._filters, mask, (self._encoding.dtype or self.dtype).itemsize)

    def _look_up(self, positions: list[Position]) -> None:
        """Ask HDF5 where chunks are, of which that is not known; a few one by one."""
        listing = self._listing
        unknown = [each for each in positions if listing.offsets[self._number(each)] == _UNKNOWN]
        if not unknown:
            return
        size_bytes = self._shared.size_bytes()
        if len(unknown) > len(listing.offsets) * _FEW_CHUNKS:
            dataset = self._whole.identifier
            self._listing = self._whole.attempt(
                lambda: ChunkListing.of(dataset, self.info, size_bytes, what=self.what)
            )
            return
        unknown.sort(key=self._number)
        for number, position in enumerate(dict.fromkeys([unknown[0], unknown[-1], *unknown])):
            if number == len((0, -1)):
                self._fetch_between(unknown)
            offset, size, mask = self._whole.attempt(lambda at=position: self._requested(at))
            if offset >= 0 and not 0 <= size <= size_bytes - offset:
                raise _damaged(
                    self.what, f"a chunk is said to be outside the file of {size_bytes:,} bytes"
                )
            at = self._number(position)
            listing.offsets[at], listing.sizes[at], listing.masks[at] = offset, size, mask

    def _fetch_between(self, positions: list[Position]) -> None:
        """Download chunks that lie between the first and the last, if hardly anything else does."""
        first, last = self._range(positions[0]), self._range(positions[-1])
        if first is not None and last is not None:
            start, stop = min(first[0], last[0]), max(first[1], last[1])
            chunk_bytes = math.prod(self.info.chunks) * self.dtype.itemsize
            if stop - start <= 2 * len(positions) * chunk_bytes:
                self._shared.stored([(start, stop)])

    def _requested(self, position: Position) -> tuple[int, int, int]:
        """Return where HDF5 says that a chunk is, how long it is, and its filter mask.

        HDF5 tells it by going through all chunks before this one.  To read it, it goes by the index
        of the chunks, and the last thing that it reads is the chunk.
        """
        start = tuple(n * c for n, c in zip(position, self.info.chunks, strict=True))
        with suppress(*H5PY_ERRORS):  # such as of one that is not stored
            mask, found = self._whole.identifier.read_direct_chunk(start)
            offset, stop = self._shared.last_read
            if stop - offset == len(found):
                return offset, len(found), int(mask)
        stored = self._whole.identifier.get_chunk_info_by_coord(start)
        if stored.byte_offset is None:
            return -1, -1, -1
        return int(stored.byte_offset), int(stored.size), int(stored.filter_mask)

    def _range(self, position: Position) -> tuple[int, int] | None:
        """Return where a chunk begins and ends; None for one that is not stored."""
        number = self._number(position)
        offset = int(self._listing.offsets[number])
        return None if offset < 0 else (offset, offset + int(self._listing.sizes[number]))

    def _number(self, position: Position) -> int:
        """Return the number of a chunk in the order of the grid."""
        number = 0
        for at, count in zip(position, self._grid, strict=True):
            number = number * count + at
        return number


# Filters.


def _filters_of(properties: Any) -> tuple[int, ...]:
    return tuple(properties.get_filter(n)[0] for n in range(properties.get_nfilters()))


def _is_known(number: int) -> bool:
    """Return whether a filter can be undone here."""
    return number == _SHUFFLE or number in _CODECS


def _codecs_of(filters: tuple[int, ...], mask: int, item_bytes: int) -> tuple[Codec, ...]:
    """Return what is undone of a chunk, in this order.

    Parameters
    ----------
    filters
        The numbers of filters, all known, in the order in which they were applied.
    mask
        A bit for each, set where the chunk was stored without it.
    """
    return tuple(
        {"id": "shuffle", "elementsize": item_bytes} if number == _SHUFFLE else _CODECS[number]
        for at, number in reversed(list(enumerate(filters)))
        if not mask >> at & 1
    )


def _check_expansion(dataset: Any, first: int, last: int, *, what: str) -> None:
    """Raise if a compressed chunk of some rows, which HDF5 is to read, expands beyond its shape.

    Only chunks that could become larger than memory should be are looked at: few, if any.
    """
    properties = dataset.get_create_plist()
    if properties.get_layout() != h5py().h5d.CHUNKED:
        return
    filters = _filters_of(properties)
    could_be_large = dataset.get_storage_size() * _DEFLATE_RATIO > _FREE_BYTES
    if not could_be_large or h5py().h5z.FILTER_DEFLATE not in filters:
        return
    chunks = properties.get_chunk()
    limit = math.prod(chunks) * dataset.get_type().get_size() + 1024
    starts = [range(0, n, length) for n, length in zip(dataset.shape, chunks, strict=True)]
    starts[0] = range(first // chunks[0] * chunks[0], last, chunks[0])
    for offset in itertools.product(*starts):
        info = dataset.get_chunk_info_by_coord(offset)
        if info.byte_offset is None or info.size * _DEFLATE_RATIO <= max(limit, _FREE_BYTES):
            continue
        _read_chunk(dataset, offset, filters, limit, what)


def _references_of(
    dataset: Any, span: Callable[[int, int], AnyArray], *, what: str
) -> Iterator[tuple[int | None, npt.NDArray[Any]]]:
    """Yield the elements of a dataset of strings as they are stored: as references to a heap.

    Each block with the place of its first element; None where a block is no range of elements, in
    chunks of several dimensions.  Nothing where they are compressed in a way that only HDF5 knows.
    """
    offset = dataset.get_offset()
    if offset is not None:
        stop = offset + dataset.get_storage_size() // REFERENCE.itemsize * REFERENCE.itemsize
        references = span(offset, stop).view(REFERENCE)
        for start in range(0, references.size, _REFERENCE_BLOCK):
            yield start, references[start : start + _REFERENCE_BLOCK]
        return
    properties = dataset.get_create_plist()
    filters = _filters_of(properties)
    if properties.get_layout() != h5py().h5d.CHUNKED or not all(map(_is_known, filters)):
        return
    limit = math.prod(properties.get_chunk()) * REFERENCE.itemsize
    for number in range(dataset.get_num_chunks()):
        first = dataset.get_chunk_info(number).chunk_offset
        data = _read_chunk(dataset, first, filters, limit, what)
        if len(data) != limit:
            raise CorruptDataError(f"{what}: a chunk has {len(data):,} bytes instead of {limit:,}")
        yield int(first[0]) if len(first) == 1 else None, np.frombuffer(data, REFERENCE)


def _read_chunk(
    dataset: Any, offset: tuple[int, ...], filters: tuple[int, ...], limit: int, what: str
) -> memoryview:
    """Return a chunk without its last filters, as far as these are known."""
    mask, stored = dataset.read_direct_chunk(offset)
    first = len(filters)
    while first and _is_known(filters[first - 1]):
        first -= 1
    codecs = _codecs_of(filters[first:], mask >> first, dataset.get_type().get_size())
    return undone(codecs, stored, limit, what=f"{what}: the chunk at {list(offset)}")
