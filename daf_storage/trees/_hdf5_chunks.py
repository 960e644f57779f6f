"""The chunks of an HDF5 dataset, read from the mapped file and decoded without HDF5.

HDF5 says where the chunks are; their bytes are in the mapped file.  Those of an uncompressed
dataset lie one after the other in a few *runs*, of which parts are views.  Compressed ones are
decompressed here, in several threads, which HDF5 cannot.  Chunks with other filters are decoded by
HDF5.

Only for files that are open for reading: of others, HDF5 may have chunks that are not in the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from daf_storage.base import AnyArray, Span
from daf_storage.errors import CorruptDataError
from daf_storage.stores import ReadEstimate
from daf_storage.trees._chunk_grid import ChunkedRead, Position
from daf_storage.trees._chunk_reader import ChunkMemory, estimate_decoded, read_chunks, read_ranges
from daf_storage.trees._decompress import decompress, is_bounded
from daf_storage.trees._hdf5_headers import DatasetHeader
from daf_storage.trees._hdf5_listing import ChunkListing
from daf_storage.trees._hdf5_runs import CopyRanges, Runs
from daf_storage.trees._hdf5_types import h5py, is_native, usual_types
from daf_storage.trees._joined_ranges import Positions, Ranges
from daf_storage.trees._protocol import ArrayInfo

_SHUFFLE: Final = 2
_CODECS: Final[Mapping[int, Mapping[str, Any]]] = {
    1: {"id": "zlib"},
    32000: {"id": "lzf"},
    32001: {"id": "blosc"},
    32015: {"id": "zstd"},
}
"""The filters that are undone here, by their registered numbers, besides shuffling."""


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
        is_bits = dataset.id.get_type().get_class() == h5py().h5t.BITFIELD
        dtype = np.dtype(bool) if is_bits else dataset.dtype
        return cls(filters, dtype, are_known(filters) and is_native(dataset))

    @classmethod
    def of_header(cls, header: DatasetHeader) -> Pipeline | None:
        """Return the same by the header of a dataset; None where HDF5 has to be asked."""
        known = usual_types().get(header.datatype)
        if known is None:
            return None
        return cls(header.filters, known.dtype, are_known(header.filters) and known.is_native)


def are_known(filters: tuple[int, ...]) -> bool:
    """Return whether all filters of a pipeline can be undone here."""
    return all(
        number == _SHUFFLE or (number in _CODECS and is_bounded(_CODECS[number]))
        for number in filters
    )


@dataclass(frozen=True, slots=True)
class StoredChunks:
    """What there is of the chunks of a dataset."""

    listing: ChunkListing
    """Where they are."""
    pipeline: Pipeline
    """How they are stored."""
    file: memoryview
    """The bytes of the whole file."""
    fill_value: Callable[[], Any]
    """Returns what chunks hold that are not stored."""
    version: Hashable | None
    """What changes with each write to the file; None if nothing shows that now."""


class Hdf5Chunks:
    """The chunks of one dataset of numbers; see `ChunkSource`.

    Parameters
    ----------
    read_slow
        Has HDF5 read a part of the dataset.
    copy_first
        Reads the first few ranges of the file, rather than look for them in its mapping.
    """

    def __init__(
        self,
        info: ArrayInfo,
        stored: StoredChunks,
        *,
        memory: ChunkMemory,
        read_slow: Callable[[tuple[slice, ...]], AnyArray],
        copy_first: CopyRanges,
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
        self._runs = (
            Runs.of(info, pipeline.dtype, stored.listing, stored.file, copy_first)
            if self._is_plain
            else None
        )

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

    def copy_ranges(self, starts: Positions, sizes: Positions, target: AnyArray) -> bool:
        """Read the first few ranges, in bytes, of runs; say if that was done."""
        return self._runs is not None and self._runs.copy_ranges(starts, sizes, target)

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
            return np.broadcast_to(np.array(self._stored.fill_value(), self.dtype), shape)
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
        pipeline = self._pipeline
        try:
            return undone(
                stored, pipeline.filters, mask, pipeline.dtype.itemsize, self._chunk_bytes
            )
        except Exception as error:  # each codec raises its own
            reason = " ".join(str(error).split()) or type(error).__name__
            raise CorruptDataError(
                f"{self.what}: the chunk {list(position)} cannot be decompressed ({reason})"
            ) from error

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


def undone(
    stored: memoryview, filters: tuple[int, ...], mask: int, item_bytes: int, chunk_bytes: int
) -> memoryview:
    """Undo the filters of a chunk, into no more bytes than it should have.

    Parameters
    ----------
    filters
        Their numbers, all known, in the order in which they were applied.
    mask
        A bit for each, set where the chunk was stored without it.

    Raises
    ------
    Exception
        What the codec of a filter raises for damaged bytes.
    """
    data = stored
    for at in reversed(range(len(filters))):
        if mask >> at & 1:
            continue
        if filters[at] == _SHUFFLE:
            data = _unshuffled(data, item_bytes)
        else:
            data = memoryview(decompress(_CODECS[filters[at]], data, chunk_bytes))
    return data


def _unshuffled(data: memoryview, width: int) -> memoryview:
    """Put the bytes of elements together that were stored byte by byte."""
    count = len(data) // width
    whole = np.frombuffer(data[: count * width], np.uint8).reshape(width, count)
    joined = np.ascontiguousarray(whole.T).reshape(-1)
    rest = data[count * width :]
    if len(rest):
        return memoryview(joined.tobytes() + bytes(rest))
    return joined.data
