"""The chunks of an HDF5 dataset, read from the mapped file and decoded without HDF5.

HDF5 says where the chunks are; their bytes are in the mapped file.  Those of an uncompressed
dataset lie one after the other in a few *runs*, of which parts are views.  Compressed ones are
decompressed here, in several threads, which HDF5 cannot.  Chunks with other filters are decoded by
HDF5.

Only for files that are open for reading: of others, HDF5 may have chunks that are not in the file.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from daf_storage.base import AnyArray, Span
from daf_storage.errors import CorruptDataError
from daf_storage.stores import ReadEstimate
from daf_storage.trees._chunk_grid import ChunkedRead, Position
from daf_storage.trees._chunk_reader import ChunkMemory, estimate_decoded, read_chunks, read_ranges
from daf_storage.trees._decompress import decompress, is_bounded
from daf_storage.trees._hdf5_types import h5py, is_native
from daf_storage.trees._joined_ranges import Ranges, join_views
from daf_storage.trees._protocol import ArrayInfo

MAX_LISTED_CHUNKS: Final = 1 << 19
"""Of a dataset of more chunks, HDF5 looks up each chunk itself."""

_SHUFFLE: Final = 2
_CODECS: Final[Mapping[int, Mapping[str, Any]]] = {
    1: {"id": "zlib"},
    32000: {"id": "lzf"},
    32001: {"id": "blosc"},
    32015: {"id": "zstd"},
}
"""The filters that are undone here, by their registered numbers, besides shuffling."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ChunkListing:
    """Where the chunks of a dataset are in its file, in the order of the grid."""

    grid: tuple[int, ...]
    """How many chunks there are along each dimension."""
    offsets: Numbers
    """Where they begin; -1 for one that is not stored."""
    sizes: Numbers
    """How many bytes they have."""
    masks: Numbers
    """Which filters each was stored without, as bits."""

    def number(self, position: Position) -> int:
        """Return the number of a chunk in the order of the grid."""
        number = 0
        for at, count in zip(position, self.grid, strict=True):
            number = number * count + at
        return number


def list_chunks(
    dataset: Any, info: ArrayInfo, file_bytes: int, *, what: str
) -> ChunkListing | None:
    """Ask HDF5 where the chunks of a dataset are; None if there are too many to be listed.

    Raises
    ------
    CorruptDataError
        A chunk is said to be outside the file or the dataset, or twice.
    """
    grid = tuple(-(-n // c) for n, c in zip(info.shape, info.chunks, strict=True))
    count = math.prod(grid)
    if not 0 < count <= MAX_LISTED_CHUNKS or not hasattr(dataset.id, "chunk_iter"):
        return None
    found = array("q")
    most = count * (len(grid) + 3)

    def note(stored: Any) -> int | None:
        try:
            found.extend(
                (*stored.chunk_offset, stored.byte_offset, stored.size, stored.filter_mask)
            )
        except (OverflowError, TypeError):  # an undefined address
            return 1
        return 1 if len(found) > most else None

    problem = dataset.id.chunk_iter(note)
    if problem is not None:
        raise _damaged(what, "there are more chunks than the dataset has room for, or some nowhere")
    table = np.frombuffer(found, np.int64).reshape(-1, len(grid) + 3)
    starts, places = table[:, : len(grid)], table[:, len(grid) :]
    numbers, rest = np.divmod(starts, np.array(info.chunks))
    if bool(np.any(rest)) or bool(np.any(starts < 0)) or bool(np.any(numbers >= np.array(grid))):
        raise _damaged(what, "a chunk is said to be outside its shape")
    offsets, sizes = places[:, 0], places[:, 1]
    if bool(np.any(offsets < 0) or np.any(sizes < 0) or np.any(sizes > file_bytes - offsets)):
        raise _damaged(what, f"a chunk is said to be outside the file of {file_bytes:,} bytes")
    flat = np.ravel_multi_index(tuple(numbers.T), grid)
    listing = ChunkListing(grid, *(np.full(count, -1, np.int64) for _ in range(3)))
    for target, column in zip(
        (listing.offsets, listing.sizes, listing.masks), places.T, strict=True
    ):
        target[flat] = column
    if np.count_nonzero(listing.offsets >= 0) != len(table):
        raise _damaged(what, "two chunks are said to be at the same place")
    return listing


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What is undone to make the elements of a chunk, and what the elements are."""

    filters: tuple[int, ...]
    """The numbers of the filters, in the order in which they were applied."""
    dtype: np.dtype[Any]
    """The elements as they are stored."""
    is_known: bool
    """Whether all of that can be done here."""

    @classmethod
    def of(cls, dataset: Any) -> Pipeline:
        """Return that of a dataset of numbers."""
        properties = dataset.id.get_create_plist()
        filters = tuple(properties.get_filter(n)[0] for n in range(properties.get_nfilters()))
        is_known = all(
            number == _SHUFFLE or (number in _CODECS and is_bounded(_CODECS[number]))
            for number in filters
        )
        is_bits = dataset.id.get_type().get_class() == h5py().h5t.BITFIELD
        dtype = np.dtype(bool) if is_bits else dataset.dtype
        return cls(filters, dtype, is_known and is_native(dataset))


@dataclass(frozen=True, slots=True)
class StoredChunks:
    """What there is of the chunks of a dataset."""

    listing: ChunkListing
    """Where they are."""
    pipeline: Pipeline
    """How they are stored."""
    file: memoryview
    """The bytes of the whole file."""
    fill_value: Any
    """What chunks hold that are not stored."""
    version: Hashable | None
    """What changes with each write to the file; None if nothing shows that now."""


class Hdf5Chunks:
    """The chunks of one dataset of numbers; see `ChunkSource`.

    Parameters
    ----------
    read_slow
        Has HDF5 read a part of the dataset.
    """

    def __init__(
        self,
        info: ArrayInfo,
        stored: StoredChunks,
        *,
        memory: ChunkMemory,
        read_slow: Callable[[tuple[slice, ...]], AnyArray],
        what: str,
    ) -> None:
        pipeline = stored.pipeline
        self.info = info
        self.dtype = info.storage_type.dtype
        self.what = what
        self.memory = memory
        self.decodes_in_threads = pipeline.is_known
        self._stored = stored
        self._listing = stored.listing
        self._pipeline = pipeline
        self._read_slow = read_slow
        self._chunk_bytes = math.prod(info.chunks) * pipeline.dtype.itemsize
        self._is_plain = pipeline.is_known and not pipeline.filters
        self._runs = _Runs.of(info, stored) if self._is_plain else None

    def whole(self) -> AnyArray | None:
        """Return all elements without a copy; None where that cannot be done."""
        return None if self._runs is None else self._runs.whole

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return ranges of the first dimension; views where they lie in the file in one piece."""
        if self._runs is not None:
            parts = [self._runs.read(span) for span in spans]
            return parts if within is None else [part[:, within.slice] for part in parts]
        return read_chunks(self, spans, within)

    def read_joined(self, ranges: Ranges) -> AnyArray:
        """Return ranges of a dataset of one dimension, one after the other."""
        return read_ranges(self, ranges) if self._runs is None else self._runs.join(ranges)

    def estimate(self, spans: list[Span], estimate: ReadEstimate, within: Span | None) -> None:
        """Add the stored bytes of the chunks, and what they expand to."""
        if self._is_plain:
            rest = list(self.info.shape[1:])
            if within is not None:
                rest[0] = within.size
            elements = sum(span.size for span in spans) * math.prod(rest)
            estimate.add_bytes(elements * self._pipeline.dtype.itemsize)
            return
        read = ChunkedRead.of(self.info, spans, within, what=self.what)
        numbers = [self._listing.number(position) for position in read.positions()]
        estimate.add_bytes(int(np.maximum(self._listing.sizes[numbers], 0).sum()))
        estimate_decoded(read, self.dtype.itemsize, estimate)

    def version(self, position: Position) -> Hashable | None:  # noqa: ARG002 - one file has all chunks
        """Return the state of the file; None where a chunk is a part of it as it is."""
        return None if self._is_plain else self._stored.version

    def fetch(self, positions: list[Position]) -> Iterator[tuple[Position, Any]]:
        """Yield the stored bytes of chunks."""
        for position in positions:
            number = self._listing.number(position)
            offset = int(self._listing.offsets[number])
            stop = offset + int(self._listing.sizes[number])
            yield position, None if offset < 0 else self._stored.file[offset:stop]

    def decode(self, position: Position, stored: Any) -> AnyArray:
        """Return the elements of a chunk, padded at the end of the array."""
        dtype, shape = self._pipeline.dtype, self.info.chunks
        if stored is None:
            return np.broadcast_to(np.array(self._stored.fill_value, self.dtype), shape)
        if not self._pipeline.is_known or self._may_be_unfiltered(position, stored):
            return self._decoded_by_hdf5(position)
        data = self._undone(position, stored)
        if len(data) != self._chunk_bytes:
            raise CorruptDataError(
                f"{self.what}: the chunk {list(position)} holds {len(data):,} bytes, but "
                f"{list(shape)} of {dtype} needs {self._chunk_bytes:,}"
            )
        values = np.frombuffer(data, dtype).reshape(shape)
        return values.astype(self.dtype, copy=False)

    def _may_be_unfiltered(self, position: Position, stored: memoryview) -> bool:
        """Return whether a chunk could be one of those that a file may ask HDF5 not to compress.

        These are the ones that reach beyond the end of the array; nothing beside them says so.
        """
        ends = zip(position, self.info.chunks, self.info.shape, strict=True)
        is_partial = any((number + 1) * length > n for number, length, n in ends)
        is_unfiltered = len(stored) == self._chunk_bytes and bool(self._pipeline.filters)
        return is_partial and is_unfiltered

    def _undone(self, position: Position, stored: memoryview) -> memoryview:
        """Undo the filters of a chunk, into no more bytes than it should have."""
        mask = int(self._listing.masks[self._listing.number(position)])
        data = stored
        for at in reversed(range(len(self._pipeline.filters))):
            if mask >> at & 1:
                continue
            number = self._pipeline.filters[at]
            if number == _SHUFFLE:
                data = _unshuffled(data, self._pipeline.dtype.itemsize)
                continue
            try:
                data = memoryview(decompress(_CODECS[number], data, self._chunk_bytes))
            except Exception as error:  # each codec raises its own
                reason = " ".join(str(error).split()) or type(error).__name__
                raise CorruptDataError(
                    f"{self.what}: the chunk {list(position)} cannot be decompressed ({reason})"
                ) from error
        return data

    def _decoded_by_hdf5(self, position: Position) -> AnyArray:
        starts = [
            number * length for number, length in zip(position, self.info.chunks, strict=True)
        ]
        picks = tuple(
            slice(start, min(start + length, n))
            for start, length, n in zip(starts, self.info.chunks, self.info.shape, strict=True)
        )
        found = self._read_slow(picks)
        if found.shape == self.info.chunks:
            return found
        padded = np.zeros(self.info.chunks, self.dtype)
        padded[tuple(slice(n) for n in found.shape)] = found
        return padded


class _Runs:
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

    def __init__(self, starts: list[int], views: list[AnyArray], dtype: np.dtype[Any]) -> None:
        self._starts = starts
        self._views = views
        self._dtype = dtype
        self._is_native = all(view.flags.aligned and view.dtype == dtype for view in views)

    @classmethod
    def of(cls, info: ArrayInfo, chunks: StoredChunks) -> _Runs | None:
        """Return the runs of a dataset; None where its chunks are not whole rows, or missing."""
        listing, stored = chunks.listing, chunks.pipeline.dtype
        rows = info.chunks[0]
        row_elements = math.prod(info.shape[1:])
        chunk_bytes = math.prod(info.chunks) * stored.itemsize
        is_whole = info.chunks[1:] == info.shape[1:] and bool(np.all(listing.offsets >= 0))
        if not is_whole or bool(np.any(listing.sizes != chunk_bytes)):
            return None
        breaks = np.flatnonzero(np.diff(listing.offsets) != chunk_bytes) + 1
        firsts = [0, *breaks.tolist()]
        starts = [first * rows for first in firsts]
        stops = [min(start, info.shape[0]) for start in [*starts[1:], info.shape[0]]]
        views = []
        for first, start, stop in zip(firsts, starts, stops, strict=True):
            view = np.frombuffer(
                chunks.file, stored, (stop - start) * row_elements, int(listing.offsets[first])
            )
            views.append(view.reshape(stop - start, *info.shape[1:]))
        return cls(starts, views, info.storage_type.dtype)

    @property
    def whole(self) -> AnyArray | None:
        """All rows as a view; None if they lie in several runs, or are stored otherwise."""
        return self._views[0] if len(self._views) == 1 and self._is_native else None

    def read(self, span: Span) -> AnyArray:
        """Return a range of rows, as a view if it lies in one run."""
        first = bisect_right(self._starts, span.start) - 1
        start = self._starts[first]
        view = self._views[first]
        if span.stop <= start + len(view):
            return self._converted(view[span.start - start : span.stop - start])
        last = bisect_right(self._starts, span.stop - 1) - 1
        parts = [
            self._views[number][max(span.start - self._starts[number], 0) :][
                : span.stop - max(span.start, self._starts[number])
            ]
            for number in range(first, last + 1)
        ]
        return self._converted(np.concatenate(parts, dtype=self._dtype))

    def join(self, ranges: Ranges) -> AnyArray:
        """Return ranges of rows, one after the other."""
        starts = np.array([*self._starts, self._starts[-1] + len(self._views[-1])])
        firsts = np.searchsorted(starts, ranges.starts, "right") - 1
        lasts = np.searchsorted(starts, ranges.stops - 1, "right") - 1
        numbers, pieces = ranges.cut(firsts, lasts - firsts + 1, lambda numbers: starts[numbers])
        if self._is_native:
            return join_views(self._views, numbers, pieces)
        out = np.empty((ranges.total, *self._views[0].shape[1:]), self._dtype)
        for number in np.unique(numbers).tolist():
            pieces.some(np.flatnonzero(numbers == number)).copy(self._views[number], out)
        return out

    def _converted(self, values: AnyArray) -> AnyArray:
        if not self._is_native:
            values = np.array(values, self._dtype)
        values.flags.writeable = False
        return values


def _unshuffled(data: memoryview, width: int) -> memoryview:
    """Put the bytes of elements together that were stored byte by byte."""
    count = len(data) // width
    whole = np.frombuffer(data[: count * width], np.uint8).reshape(width, count)
    joined = np.ascontiguousarray(whole.T).reshape(-1)
    rest = data[count * width :]
    if len(rest):
        return memoryview(joined.tobytes() + bytes(rest))
    return joined.data


def _damaged(what: str, problem: str) -> CorruptDataError:
    return CorruptDataError(
        f"{what}: the list of its chunks is damaged: {problem}; take the file from a backup"
    )
