"""The chunks of HDF5 datasets of numbers: where they are in the file, and their filters.

HDF5 says where chunks are; their bytes are in the mapped file, or downloaded.  Those of an
uncompressed dataset lie one after the other in a few *runs*, of which parts are views.  Compressed
ones are decompressed here, in several threads, which HDF5 cannot.
"""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from daf_storage.base import AnyArray, Span
from daf_storage.errors import CorruptDataError
from daf_storage.stores import ReadEstimate
from daf_storage.trees._chunked_array import ChunkedArray, Position, undone
from daf_storage.trees._hdf5_file import (
    H5PY_ERRORS,
    element_type_of,
    filters_of,
    h5py,
)
from daf_storage.trees._metadata import ChunkEncoding, Codec
from daf_storage.trees._stored_array import ArrayInfo, Ranges, elements_bytes, frozen

MAX_LISTED_CHUNKS: Final = 1 << 19
"""Of a dataset of more chunks, HDF5 looks up each chunk itself."""

_SHUFFLE: Final = 2
_FREE_BYTES: Final = 1 << 28
_DEFLATE_RATIO: Final = 1032
_FEW_LOOKS: Final = 64
"""Of more chunks, the size of all is asked for first."""
_FETCHED_BYTES: Final = 1 << 26
"""Chunks of about so many bytes are downloaded before the first of them is decoded."""
_CODECS: Final[Mapping[int, Mapping[str, Any]]] = {
    1: {"id": "zlib"},
    3: {"id": "fletcher32"},
    32001: {"id": "blosc"},
    32015: {"id": "zstd"},
}
"""The filters that are undone here, by their registered numbers, besides shuffling."""


def grid_of(info: ArrayInfo) -> tuple[int, ...]:
    """Return how many chunks there are along each dimension."""
    return tuple(-(-n // c) for n, c in zip(info.shape, info.chunks, strict=True))


def listed_chunks(
    dataset: Any, info: ArrayInfo, file_bytes: int, *, what: str
) -> npt.NDArray[np.int64]:
    """Return where HDF5 says that chunks are, after a check that each has a place of its own.

    Parameters
    ----------
    dataset
        The identifier of the dataset.

    Returns
    -------
    numpy.ndarray
        Of each chunk, in the order of the grid, a column: where it begins in the file, -1 if it is
        not stored; how many bytes it has; and without which filters it was stored, as bits.

    Raises
    ------
    CorruptDataError
        A chunk is said to be outside the file or the dataset, or twice.
    """
    grid = grid_of(info)
    count, width, found = math.prod(grid), len(grid) + 3, array("q")

    def note(stored: Any) -> int | None:
        try:
            found.extend(
                (*stored.chunk_offset, stored.byte_offset, stored.size, stored.filter_mask)
            )
        except (OverflowError, TypeError):  # beyond int64, or an undefined address
            return 1
        return 1 if len(found) > count * width else None

    damaged = CorruptDataError(
        f"{what}: the list of its chunks is damaged: one is said to be outside the dataset or the "
        "file, or where another one is; take the file from a backup"
    )
    if dataset.chunk_iter(note) is not None:
        raise damaged
    table = np.frombuffer(found, np.int64).reshape(-1, width)
    starts, places = table[:, : len(grid)], table[:, len(grid) :]
    numbers = starts // np.array(info.chunks)  # HDF5 itself lets them begin at multiples of these
    offsets, sizes = places[:, 0], places[:, 1]
    if np.any(numbers >= np.array(grid)) or np.any(sizes > file_bytes - offsets):
        raise damaged
    listing = np.full((3, count), -1, np.int64)
    listing[:, np.ravel_multi_index(tuple(numbers.T), grid)] = places.T
    if np.count_nonzero(listing[0] >= 0) != len(table):
        raise damaged
    return listing


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of an uncompressed dataset whose chunks are whole rows, and all there."""

    info: ArrayInfo
    """The dataset."""
    starts: npt.NDArray[np.int64]
    """The row with which each run begins, and the number of rows."""
    views: list[AnyArray]
    """The rows of each run, as they are in the file."""

    @classmethod
    def of(
        cls,
        info: ArrayInfo,
        stored: np.dtype[Any],
        listing: npt.NDArray[np.int64],
        file: memoryview,
    ) -> Runs | None:
        """Return the runs of a dataset; None where its chunks are not whole rows, or missing."""
        offsets, sizes, _ = listing
        chunk_bytes = math.prod(info.chunks) * stored.itemsize
        is_whole = info.chunks[1:] == info.shape[1:] and bool(np.all(offsets >= 0))
        if not is_whole or bool(np.any(sizes != chunk_bytes)):
            return None
        firsts = np.flatnonzero(np.append(True, np.diff(offsets) != chunk_bytes))
        starts = np.append(firsts * info.chunks[0], info.shape[0])
        rest = info.shape[1:]
        places = zip((np.diff(starts) * math.prod(rest)).tolist(), offsets[firsts], strict=True)
        views = [np.frombuffer(file, stored, *place).reshape(-1, *rest) for place in places]
        return cls(info, starts, views)

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return ranges of rows; views where they lie in one run and are stored as in memory."""
        parts = [self._read(span) for span in spans]
        return parts if within is None else [part[:, within.slice] for part in parts]

    def estimate(
        self, spans: list[Span], estimate: ReadEstimate, within: Span | None = None
    ) -> None:
        """Add the bytes of the elements."""
        estimate.add_bytes(elements_bytes(self.info, spans, within))

    def _read(self, span: Span) -> AnyArray:
        run = int(np.searchsorted(self.starts[1:-1], span.start, "right"))
        if span.stop > self.starts[run + 1]:
            return frozen(self.read_joined(Ranges.of([span])))
        start, dtype = int(self.starts[run]), self.info.storage_type.dtype
        found = self.views[run][span.start - start : span.stop - start]
        is_native = found.flags.aligned and found.dtype == dtype
        return frozen(found if is_native else np.array(found, dtype))

    def read_joined(self, ranges: Ranges) -> AnyArray:
        """Return ranges of rows, one after the other."""
        firsts = np.searchsorted(self.starts, ranges.starts, "right") - 1
        lasts = np.searchsorted(self.starts, ranges.stops - 1, "right") - 1
        numbers, pieces = ranges.cut(firsts, lasts - firsts + 1, self.starts.__getitem__)
        borders = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), numbers.size]
        parts = [
            pieces.some(np.arange(first, last)).taken(self.views[int(numbers[first])])
            for first, last in itertools.pairwise(borders)
            if last > first
        ]
        joined = parts[0] if len(parts) == 1 else np.concatenate([self.views[0][:0], *parts])
        return joined.astype(self.info.storage_type.dtype, copy=False)


class Hdf5Chunks(ChunkedArray):
    """The chunks of one dataset of numbers in the mapped file; see `ChunkedArray`.

    Parameters
    ----------
    array
        The dataset as HDF5 reads it: an ``Hdf5Array``, whose module knows this one.
    listing
        Where the chunks are, see `listed_chunks`.
    """

    def __init__(self, array: Any, listing: npt.NDArray[np.int64]) -> None:
        held, shared = array.held, array.shared
        element = element_type_of(held.id.get_type())
        self._filters = filters_of(held.id.get_create_plist())
        self._is_known = element.is_native and all(map(is_known, self._filters))
        codecs = _codecs_of(self._filters, 0, element.dtype.itemsize) if self._is_known else ()
        encoding = ChunkEncoding(codecs, element.dtype)
        memory = shared.chunk_cache.named(held.name)
        super().__init__(array.info, encoding, memory, array.what, MAX_LISTED_CHUNKS)
        self._array, self._held, self._shared = array, held, shared
        self._grid = grid_of(array.info)
        self._listing = listing
        is_plain = self._is_known and not codecs and not shared.is_remote
        self._version = None if is_plain else shared.content_version()

    def chunk_name(self, position: Position) -> str:
        """Return what messages call a chunk."""
        return f"chunk {list(position)}"

    def version(self, position: Position) -> Hashable | None:  # noqa: ARG002 - one file has all chunks
        """Return the state of the file."""
        return self._version

    def fetch(self, positions: list[Position]) -> Iterator[tuple[Position, Any]]:
        """Yield the stored bytes of chunks."""
        chunk_bytes = math.prod(self.info.chunks) * self.dtype.itemsize
        most_bytes = _FETCHED_BYTES if self._shared.is_remote else chunk_bytes * len(positions)
        step = max(most_bytes // chunk_bytes, 1)
        for start in range(0, len(positions), step):
            block = positions[start : start + step]
            ranges = [self._range(position) for position in block]
            stored = iter(self._shared.stored([each for each in ranges if each is not None]))
            for position, each in zip(block, ranges, strict=True):
                yield position, None if each is None else next(stored)

    def fill_value(self, position: Position) -> Any:  # noqa: ARG002 - as above
        """Return what a chunk holds that is not stored."""
        return self._held.get().fillvalue

    def add_stored(self, positions: list[Position], estimate: ReadEstimate) -> None:
        """Add the stored bytes of chunks."""
        found = [self._range(position) for position in positions]
        self._shared.estimate([each for each in found if each is not None], estimate)

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
        encoded = self.encoding.dtype or self.dtype
        is_as_it_is = len(stored) == math.prod(self.info.chunks) * encoded.itemsize
        is_doubtful = shape != self.info.chunks and is_as_it_is and bool(self._filters)
        if self._is_known and not is_doubtful:
            return super().decode(position, stored)
        padded = np.zeros(self.info.chunks, self.dtype)
        padded[tuple(map(slice, shape))] = self._array.read_by_hdf5(picks)
        return padded

    def _codecs_of(self, position: Position) -> tuple[Codec, ...]:
        mask = int(self._listing[2, self._number(position)])
        return _codecs_of(self._filters, mask, (self.encoding.dtype or self.dtype).itemsize)

    def _range(self, position: Position) -> tuple[int, int] | None:
        """Return where a chunk begins and ends; None for one that is not stored."""
        offset, size, _ = self._listing[:, self._number(position)].tolist()
        return None if offset < 0 else (offset, offset + size)

    def _number(self, position: Position) -> int:
        """Return the number of a chunk in the order of the grid."""
        number = 0
        for at, count in zip(position, self._grid, strict=True):
            number = number * count + at
        return number


# Filters.


def is_known(number: int) -> bool:
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


def check_expansion(dataset: Any, picks: tuple[slice, ...], *, what: str) -> None:
    """Raise if a compressed chunk of a part that HDF5 is to read expands beyond its shape.

    Only chunks that could become larger than memory should be are looked at: few, if any.
    """
    properties = dataset.get_create_plist()
    filters = filters_of(properties)
    if h5py().h5z.FILTER_DEFLATE not in filters:
        return
    chunks, parts = properties.get_chunk(), list[range]()
    limit = math.prod(chunks) * dataset.get_type().get_size() + 1024
    for length, chunk, pick in itertools.zip_longest(dataset.shape, chunks, picks):
        first, last, _ = (pick or slice(None)).indices(length)
        parts.append(range(first // chunk * chunk, last, chunk))
    is_long = math.prod(map(len, parts)) > _FEW_LOOKS
    if is_long and dataset.get_storage_size() * _DEFLATE_RATIO <= _FREE_BYTES:
        return
    for offset in itertools.product(*parts):
        size_bytes = 0
        with suppress(*H5PY_ERRORS):  # such as of one that is not stored
            size_bytes = len(dataset.read_direct_chunk(offset)[1])
        if size_bytes * _DEFLATE_RATIO > max(limit, _FREE_BYTES):
            read_chunk(dataset, offset, filters, limit, what)


def read_chunk(
    dataset: Any, offset: tuple[int, ...], filters: tuple[int, ...], limit: int, what: str
) -> memoryview:
    """Return a chunk without its last filters, as far as these are known."""
    mask, stored = dataset.read_direct_chunk(offset)
    first = len(filters)
    while first and is_known(filters[first - 1]):
        first -= 1
    codecs = _codecs_of(filters[first:], mask >> first, dataset.get_type().get_size())
    return undone(codecs, stored, limit, what=f"{what}: the chunk at {list(offset)}")
