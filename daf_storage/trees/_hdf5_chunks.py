"""The chunks of an HDF5 dataset, read from the mapped file and decoded without HDF5.

HDF5 says where the chunks are; their bytes are in the mapped file.  Those of an uncompressed
dataset lie one after the other in a few *runs*, of which parts are views.  Compressed ones are
decompressed here, in several threads, which HDF5 cannot.  Chunks with other filters are decoded by
HDF5.

Only for files that are open for reading: of others, HDF5 may have chunks that are not in the file.
"""

from __future__ import annotations

import itertools
import math
from array import array
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from daf_storage.base import AnyArray, Span
from daf_storage.errors import CorruptDataError
from daf_storage.stores import ReadEstimate
from daf_storage.trees._array_bases import elements_bytes
from daf_storage.trees._chunk_grid import Position
from daf_storage.trees._chunked_array import ChunkedArray, ChunkEncoding, ChunkMemory
from daf_storage.trees._decompress import Codec, is_bounded, undone
from daf_storage.trees._hdf5_strings import REFERENCE
from daf_storage.trees._hdf5_types import h5py, known_type
from daf_storage.trees._joined_ranges import Positions, Ranges, join_views
from daf_storage.trees._protocol import ArrayInfo

Numbers: TypeAlias = npt.NDArray[np.int64]

MAX_LISTED_CHUNKS: Final = 1 << 19
"""Of a dataset of more chunks, HDF5 looks up each chunk itself."""

_SHUFFLE: Final = 2
_FREE_BYTES: Final = 1 << 28
_DEFLATE_RATIO: Final = 1032
_REFERENCE_BLOCK: Final = 1 << 20
_CODECS: Final[Mapping[int, Mapping[str, Any]]] = {
    1: {"id": "zlib"},
    32000: {"id": "lzf"},
    32001: {"id": "blosc"},
    32015: {"id": "zstd"},
}
"""The filters that are undone here, by their registered numbers, besides shuffling."""


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
    """Return where the chunks of a dataset are; None if there are too many to be listed.

    Parameters
    ----------
    dataset
        Its identifier.

    Raises
    ------
    CorruptDataError
        A chunk is said to be outside the file or the dataset, or twice.
    """
    grid = tuple(-(-n // c) for n, c in zip(info.shape, info.chunks, strict=True))
    count = math.prod(grid)
    if not 0 < count <= MAX_LISTED_CHUNKS or not hasattr(dataset, "chunk_iter"):
        return None
    return _listing(_stored_chunks(dataset, count, len(grid), what), info, grid, file_bytes, what)


def _stored_chunks(dataset: Any, count: int, rank: int, what: str) -> Numbers:
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

    problem = dataset.chunk_iter(note)
    if problem is not None:
        raise _damaged(what, "there are more chunks than the dataset has room for, or some nowhere")
    return np.frombuffer(found, np.int64).reshape(-1, rank + 3)


def _listing(
    table: Numbers, info: ArrayInfo, grid: tuple[int, ...], file_bytes: int, what: str
) -> ChunkListing:
    """Return a listing of chunks, after checking that each has a place of its own in the grid."""
    count = math.prod(grid)
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

    def __init__(self, starts: list[int], views: list[AnyArray], dtype: np.dtype[Any]) -> None:
        self._starts = starts
        self._views = views
        self._dtype = dtype
        self._is_native = all(view.flags.aligned and view.dtype == dtype for view in views)

    @classmethod
    def of(
        cls,
        info: ArrayInfo,
        stored: np.dtype[Any],
        listing: ChunkListing,
        file: memoryview,
    ) -> Runs | None:
        """Return the runs of a dataset; None where its chunks are not whole rows, or missing."""
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
                file, stored, (stop - start) * row_elements, int(listing.offsets[first])
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
        numbers, pieces = self._cut(ranges)
        if self._is_native:
            return join_views(self._views, numbers, pieces)
        out = np.empty((ranges.total, *self._views[0].shape[1:]), self._dtype)
        for number in np.unique(numbers).tolist():
            pieces.some(np.flatnonzero(numbers == number)).copy(self._views[number], out)
        return out

    def _cut(self, ranges: Ranges) -> tuple[Positions, Ranges]:
        """Return the run of each piece of some ranges of rows, and the pieces."""
        starts = np.array([*self._starts, self._starts[-1] + len(self._views[-1])])
        firsts = np.searchsorted(starts, ranges.starts, "right") - 1
        lasts = np.searchsorted(starts, ranges.stops - 1, "right") - 1
        return ranges.cut(firsts, lasts - firsts + 1, lambda numbers: starts[numbers])

    def _converted(self, values: AnyArray) -> AnyArray:
        if not self._is_native:
            values = np.array(values, self._dtype)
        values.flags.writeable = False
        return values


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
        """Return that of a dataset of numbers, given by its identifier."""
        filters = _filters_of(dataset.get_create_plist())
        known = known_type(dataset.get_type())
        return cls(filters, known.dtype, are_known(filters) and known.is_native)


def are_known(filters: tuple[int, ...]) -> bool:
    """Return whether all filters of a pipeline can be undone here."""
    return all(
        number == _SHUFFLE or (number in _CODECS and is_bounded(_CODECS[number]))
        for number in filters
    )


def codecs_of(filters: tuple[int, ...], mask: int, item_bytes: int) -> tuple[Codec, ...]:
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


class Hdf5Locator:
    """The chunks of one dataset in the mapped file; see `ChunkLocator`.

    Parameters
    ----------
    file
        The bytes of the whole file.
    fill_value
        Returns what chunks hold that are not stored.
    version
        What changes with each write to the file; None if nothing is to be remembered.
    """

    most_chunks = MAX_LISTED_CHUNKS
    most_looked_up = MAX_LISTED_CHUNKS
    is_absent = False

    def __init__(
        self,
        listing: ChunkListing,
        file: memoryview,
        fill_value: Callable[[], Any],
        version: Hashable | None,
    ) -> None:
        self.listing = listing
        self.file = file
        self._fill_value = fill_value
        self._version = version

    def name(self, position: Position) -> str:
        """Return what messages call a chunk."""
        return f"chunk {list(position)}"

    def version(self, position: Position) -> Hashable | None:  # noqa: ARG002 - one file has all chunks
        """Return the state of the file."""
        return self._version

    def fetch(self, positions: list[Position]) -> Iterator[tuple[Position, Any]]:
        """Yield the stored bytes of chunks."""
        for position in positions:
            number = self.listing.number(position)
            offset = int(self.listing.offsets[number])
            stop = offset + int(self.listing.sizes[number])
            yield position, None if offset < 0 else self.file[offset:stop]

    def fill_value(self, position: Position) -> Any:  # noqa: ARG002 - as above
        """Return what a chunk holds that is not stored."""
        return self._fill_value()

    def add_stored(self, positions: list[Position], estimate: ReadEstimate) -> None:
        """Add the stored bytes of chunks."""
        numbers = [self.listing.number(position) for position in positions]
        estimate.add_bytes(int(np.maximum(self.listing.sizes[numbers], 0).sum()))

    def check_stored(self, *, is_complete: bool) -> None:
        """Do nothing: the listing was checked."""

    def fingerprint(self) -> None:
        """Return nothing: the file has other datasets."""
        return


class Hdf5Chunks(ChunkedArray):
    """The chunks of one dataset of numbers.

    Parameters
    ----------
    read_slow
        Has HDF5 read a part of the dataset.
    """

    def __init__(
        self,
        info: ArrayInfo,
        pipeline: Pipeline,
        locator: Hdf5Locator,
        *,
        memory: ChunkMemory,
        read_slow: Callable[[tuple[slice, ...]], AnyArray],
        what: str,
    ) -> None:
        item_bytes = pipeline.dtype.itemsize
        codecs = codecs_of(pipeline.filters, 0, item_bytes) if pipeline.is_known else ()
        encoding = ChunkEncoding(codecs, pipeline.dtype)
        super().__init__(info, encoding, locator, memory=memory, what=what)
        self._pipeline = pipeline
        self._listing = locator.listing
        self._read_slow = read_slow
        self._runs: Runs | None = None
        self._is_plain = pipeline.is_known and not codecs
        if self._is_plain:
            listing, file = locator.listing, locator.file
            self._runs = Runs.of(info, pipeline.dtype, listing, file)

    def whole(self) -> AnyArray | None:
        """Return all elements without a copy; None where that cannot be done."""
        return None if self._runs is None else self._runs.whole

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return ranges of the first dimension; views where they lie in the file in one piece."""
        if self._runs is None:
            return super().read_spans(spans, within)
        parts = [self._runs.read(span) for span in spans]
        return parts if within is None else [part[:, within.slice] for part in parts]

    def read_joined(self, ranges: Ranges) -> AnyArray | None:
        """Return ranges of a dataset of one dimension, one after the other."""
        return super().read_joined(ranges) if self._runs is None else self._runs.join(ranges)

    def estimate(
        self, spans: list[Span], estimate: ReadEstimate, within: Span | None = None
    ) -> None:
        """Add the stored bytes of the chunks, and what they expand to."""
        if self._is_plain:
            estimate.add_bytes(elements_bytes(self.info, spans, within))
        else:
            super().estimate(spans, estimate, within)

    @property
    def decodes_in_threads(self) -> bool:
        """Whether chunks are decoded in several threads: HDF5 would not."""
        return self._pipeline.is_known

    def decode(self, position: Position, stored: Any) -> AnyArray:
        """Return the elements of a chunk, padded at the end of the array."""
        if stored is None or not self._is_left_to_hdf5(position, stored):
            return super().decode(position, stored)
        return self._decoded_by_hdf5(position)

    def _decoded_by_hdf5(self, position: Position) -> AnyArray:
        spans = zip(position, self.info.chunks, self.info.shape, strict=True)
        picks = tuple(slice(n * length, min((n + 1) * length, most)) for n, length, most in spans)
        found = self._read_slow(picks)
        if found.shape == self.info.chunks:
            return found
        padded = np.zeros(self.info.chunks, self.dtype)
        padded[tuple(slice(n) for n in found.shape)] = found
        return padded

    def _is_left_to_hdf5(self, position: Position, stored: memoryview) -> bool:
        """Return whether HDF5 has to decode a chunk.

        Also if it could be one of those that a file may ask HDF5 not to compress: those that reach
        beyond the end of the array; nothing beside them says so.
        """
        if not self._pipeline.is_known:
            return True
        chunk_bytes = math.prod(self.info.chunks) * self._pipeline.dtype.itemsize
        ends = zip(position, self.info.chunks, self.info.shape, strict=True)
        is_partial = any((number + 1) * length > n for number, length, n in ends)
        return is_partial and len(stored) == chunk_bytes and bool(self._pipeline.filters)

    def _codecs_of(self, position: Position) -> tuple[Codec, ...]:
        mask = int(self._listing.masks[self._listing.number(position)])
        pipeline = self._pipeline
        return codecs_of(pipeline.filters, mask, pipeline.dtype.itemsize)


# What HDF5 reads by itself.


def check_expansion(dataset: Any, rows: Span, *, what: str) -> None:
    """Raise if a compressed chunk that holds some of the rows expands beyond its shape.

    Only chunks that could become larger than memory should be are looked at: few, if any.

    Parameters
    ----------
    dataset
        Its identifier.
    """
    properties = dataset.get_create_plist()
    if properties.get_layout() != h5py().h5d.CHUNKED:
        return
    if dataset.get_storage_size() * _DEFLATE_RATIO <= _FREE_BYTES:
        return
    filters = _filters_of(properties)
    if h5py().h5z.FILTER_DEFLATE not in filters:
        return
    chunks = properties.get_chunk()
    limit = math.prod(chunks) * dataset.get_type().get_size() + 1024
    starts = [range(0, n, length) for n, length in zip(dataset.shape, chunks, strict=True)]
    starts[0] = range(rows.start // chunks[0] * chunks[0], rows.stop, chunks[0])
    for offset in itertools.product(*starts):
        info = dataset.get_chunk_info_by_coord(offset)
        if info.byte_offset is None or info.size * _DEFLATE_RATIO <= max(limit, _FREE_BYTES):
            continue
        _read_chunk(dataset, offset, filters, limit, what)


def references_of(
    dataset: Any, file: npt.NDArray[np.uint8], *, what: str
) -> Iterator[tuple[int | None, npt.NDArray[Any]]]:
    """Yield the elements of a dataset of strings as they are stored: as references to a heap.

    Each block with the place of its first element; None where a block is no range of elements, in
    chunks of several dimensions.  Nothing where they are compressed in a way that only HDF5 knows.

    Parameters
    ----------
    dataset
        Its identifier.
    """
    offset = dataset.get_offset()
    if offset is not None:
        stop = offset + dataset.get_storage_size() // REFERENCE.itemsize * REFERENCE.itemsize
        references = file[offset:stop].view(REFERENCE)
        for start in range(0, references.size, _REFERENCE_BLOCK):
            yield start, references[start : start + _REFERENCE_BLOCK]
        return
    properties = dataset.get_create_plist()
    if properties.get_layout() != h5py().h5d.CHUNKED:
        return
    filters = _filters_of(properties)
    if not are_known(filters):
        return
    limit = math.prod(properties.get_chunk()) * REFERENCE.itemsize
    for number in range(dataset.get_num_chunks()):
        first = dataset.get_chunk_info(number).chunk_offset
        data = _read_chunk(dataset, first, filters, limit, what)
        if len(data) != limit:
            raise CorruptDataError(f"{what}: a chunk has {len(data):,} bytes instead of {limit:,}")
        yield int(first[0]) if len(first) == 1 else None, np.frombuffer(data, REFERENCE)


def _filters_of(properties: Any) -> tuple[int, ...]:
    return tuple(properties.get_filter(n)[0] for n in range(properties.get_nfilters()))


def _read_chunk(
    dataset: Any, offset: tuple[int, ...], filters: tuple[int, ...], limit: int, what: str
) -> memoryview:
    """Return a chunk without its last filters, as far as these are known."""
    mask, stored = dataset.read_direct_chunk(offset)
    first = len(filters)
    while first and are_known(filters[first - 1 : first]):
        first -= 1
    width = dataset.get_type().get_size()
    codecs = codecs_of(filters[first:], mask >> first, width)
    return undone(codecs, stored, limit, what=f"{what}: the chunk at {list(offset)}")
