"""Positions of entries and of elements, blocks of arrays, and transposes of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage import settings
from daf_storage._lazy import pc, sp
from daf_storage.base import AnyArray, Span, StorageType
from daf_storage.data._layout import StoredMatrix, StoredVector
from daf_storage.errors import CorruptDataError
from daf_storage.stores import ReadEstimate
from daf_storage.trees import (
    THREADS,
    ArrayInfo,
    MemoryArray,
    StoredArray,
    computed,
    passing_over,
    run_all,
)

Positions: TypeAlias = npt.NDArray[np.int64]

_FEW_AMONG: Final = 16


class EntrySelection:
    """The entries of an axis that a view shows, by their positions; a range is not copied."""

    def __init__(self, positions: Positions, length: int) -> None:
        self.length = length
        """How many entries the axis has."""
        self.size = int(positions.size)
        """How many of them are shown."""
        steps = np.diff(positions)
        self.is_ascending = bool(np.all(steps > 0))
        """Whether they are in the order of the axis."""
        self.span: Span | None = None
        """The range that they are; None if they are none."""
        self.positions = positions
        """All positions."""
        if bool(np.all(steps == 1)):
            start = int(positions[0]) if self.size else 0
            self.span = Span(start, start + self.size)

    @property
    def is_all(self) -> bool:
        """Whether all entries are shown, in their order."""
        return self.span == Span(0, self.length)

    def part(self, span: Span) -> Positions:
        """Return the positions of a range of what is shown."""
        return self.positions[span.slice]

    def numbers(self) -> Positions:
        """Return the number of each entry among those that are shown, from 1; 0 of the others."""
        numbers = np.zeros(self.length, np.int64)
        numbers[self.positions] = np.arange(1, self.size + 1)
        return numbers

    def number_type(self, stored: np.dtype[Any]) -> np.dtype[Any]:
        """Return a type for `numbers`: the stored one, where it has room for all of them.

        Others store a few indices of a long axis in 8 bits; in another order they may be larger.
        """
        return np.promote_types(stored, np.min_scalar_type(self.size))


@dataclass(frozen=True, eq=False)
class Alignment:
    """Where the entries of an axis of a source are on an axis of a result."""

    places: Positions | None
    """The position in the result for each entry, -1 for one that is left out; None if each entry
    has the same position in both, and there are no others."""
    n_entries: int
    """How many entries the axis has in the result."""

    @cached_property
    def is_complete(self) -> bool:
        """Whether no entry of the source is left out."""
        return self.places is None or bool((self.places >= 0).all())

    @cached_property
    def missing(self) -> Positions:
        """The positions of the result at which the source has no entry, ascending."""
        return np.flatnonzero(self.sources < 0)

    @cached_property
    def sources(self) -> Positions:
        """For each position of the result that of the source, -1 where it has no entry."""
        if self.places is None:
            return np.arange(self.n_entries)
        sources = np.full(self.n_entries, -1, np.int64)
        is_kept = self.places >= 0
        sources[self.places[is_kept]] = np.flatnonzero(is_kept)
        return sources

    @classmethod
    def of(cls, entries: pa.Array, result: pa.Array) -> Alignment:
        """Return that of the entries of a source among those of a result."""
        entries, result = (each.cast(pa.large_string()) for each in (entries, result))
        is_same = entries.equals(result)
        return cls(None if is_same else positions_among(entries, result), len(result))

    @classmethod
    def block(cls, span: Span, n_entries: int) -> Alignment:
        """Return that of consecutive entries of the result."""
        if span == Span(0, n_entries):
            return cls(None, n_entries)
        return cls(np.arange(span.start, span.stop), n_entries)

    @classmethod
    def reordered(cls, order: Positions | None, n_entries: int) -> Alignment:
        """Return that of a permutation, which says what comes to each position; None for none."""
        return cls(None if order is None else np.argsort(order), n_entries)


def positions_among(requested: Any, own: Any) -> npt.NDArray[np.int64]:
    """Return where each string is among unique ones; -1 where it is not.

    A few among many are looked for the other way round: one is compared with all, and a hash table
    of a few is small.
    """
    if len(requested) * _FEW_AMONG > len(own):
        rows: npt.NDArray[np.int64]
        rows = pc.index_in(requested, value_set=own).fill_null(-1).to_numpy().astype(np.int64)
        return rows
    wanted = requested.unique()
    codes = pc.index_in(own, value_set=wanted)
    places = np.flatnonzero(pc.is_valid(codes).to_numpy(zero_copy_only=False))
    found = np.full(len(wanted), -1)
    found[codes.take(pa.array(places)).to_numpy(zero_copy_only=False)] = places
    numbers = pc.index_in(requested, value_set=wanted).to_numpy(zero_copy_only=False)
    return np.asarray(found[numbers], np.int64)


class RunPicks:
    """Runs of neighbouring positions, one after the other; they are not written out."""

    def __init__(self, starts: Positions, counts: Positions) -> None:
        self._starts = starts
        self._stops = np.cumsum(counts)
        self._counts = counts
        self.size = int(self._stops[-1]) if counts.size else 0

    def part(self, span: Span) -> Positions:
        """Return some of the positions."""
        if not span.size:
            return np.zeros(0, np.int64)
        first = int(np.searchsorted(self._stops, span.start, side="right"))
        last = int(np.searchsorted(self._stops, span.stop, side="left")) + 1
        counts = self._counts[first:last]
        begins = self._stops[first:last] - counts
        positions = np.repeat(self._starts[first:last] - begins, counts)
        positions += np.arange(int(begins[0]), int(begins[0]) + positions.size)
        return positions[span.start - int(begins[0]) : span.stop - int(begins[0])]


Picks: TypeAlias = Span | EntrySelection | RunPicks
"""Positions along one dimension of an array, in the order in which they are shown."""


_CHUNK_ELEMENTS: Final = 1 << 17


class SubsetArray(StoredArray):
    """Some rows of an array, and of a matrix some columns; see `StoredArray` for the members.

    Nothing is read before it is asked for.

    Parameters
    ----------
    array
        The whole array.
    rows, columns
        What is shown along the first and the second dimension; all by default.
    """

    def __init__(
        self, array: StoredArray, rows: Picks | None, columns: Picks | None = None
    ) -> None:
        self._array = array
        self._rows = _as_range(Span(0, array.info.shape[0]) if rows is None else rows)
        self._columns = None if columns is None else _as_range(columns)
        whole = array.info
        shown = [len_ if each is None else each.size for len_, each in self._dimensions()]
        shape = (*shown, *whole.shape[len(shown) :])
        is_range = all(isinstance(each, Span | None) for each in (self._rows, self._columns))
        is_mappable = whole.is_mappable and is_range
        self.info = ArrayInfo(
            shape, whole.storage_type, shape if is_mappable else _chunks(shape), is_mappable
        )

    def _dimensions(self) -> list[tuple[int, Picks | None]]:
        return list(zip(self._array.info.shape, (self._rows, self._columns), strict=False))

    def read(self) -> AnyArray:
        """Return all elements that are shown."""
        return self.read_rows(Span(0, self.info.shape[0]))

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return several ranges; of a range of the whole array, asked for together."""
        columns = self._columns_within(within)
        across = columns if isinstance(columns, Span) else None
        if isinstance(self._rows, Span):
            parts = self._array.read_spans(_moved(spans, self._rows), across)
        else:
            places = [np.zeros(0, np.int64), *map(self._rows.part, spans)]
            values = self._taken(np.concatenate(places), across)
            stops = np.cumsum([span.size for span in spans])
            parts = [values[stop - s.size : stop] for s, stop in zip(spans, stops, strict=True)]
        if columns is not None and not isinstance(columns, Span):
            parts = [part[:, columns] for part in parts]
        for part in parts:
            part.setflags(write=False)
        return parts

    def _columns_within(self, within: Span | None) -> Span | Positions | None:
        """Return which of the columns of the whole array are meant; None for all."""
        if self._columns is None:
            return within
        requested = Span(0, self._columns.size) if within is None else within
        if isinstance(self._columns, Span):
            return _moved([requested], self._columns)[0]
        return self._columns.part(requested)

    def _taken(self, positions: Positions, across: Span | None) -> AnyArray:
        """Return rows of the whole array; of one that is not mapped, its chunks are read once."""
        array = self._array
        if array.info.is_mappable:
            values = array.read()
            taken: AnyArray = (values if across is None else values[:, across.slice])[positions]
            return taken
        height = max(array.info.chunks[0], 1)
        numbers, which = np.unique(positions // height, return_inverse=True)
        begins = numbers * height
        lengths = np.minimum(begins + height, array.info.shape[0]) - begins
        spans = [
            Span(int(begins[run[0]]), int(begins[run[-1]] + lengths[run[-1]]))
            for run in np.split(np.arange(numbers.size), np.flatnonzero(np.diff(numbers) != 1) + 1)
            if run.size
        ]
        joined = np.concatenate(array.read_spans(spans or [Span(0, 0)], across))
        offsets = np.cumsum(lengths) - lengths
        picked: AnyArray = joined[offsets[which] + positions % height]
        return picked

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings that are shown, flattened in C order."""
        strings = self._array.read_strings()
        rest = math.prod(self._array.info.shape[1:])
        rows = self._rows
        if rest == 1 and self._columns is None and isinstance(rows, Span):
            return strings.slice(rows.start, rows.size)
        grid = np.arange(self._array.info.size).reshape(self._array.info.shape)
        for axis, (_, each) in enumerate(self._dimensions()):
            if isinstance(each, Span):
                grid = np.take(grid, np.arange(each.start, each.stop), axis=axis)
            elif each is not None:
                grid = np.take(grid, each.part(Span(0, each.size)), axis=axis)
        return strings.take(pa.array(grid.reshape(-1)))

    def estimate(
        self, spans: list[Span], estimate: ReadEstimate, within: Span | None = None
    ) -> None:
        """Add what the whole array says of a range; else the bytes of what is shown."""
        columns = self._columns_within(within)
        if isinstance(self._rows, Span) and isinstance(columns, Span | None):
            self._array.estimate(_moved(spans, self._rows), estimate, columns)
        else:
            super().estimate(spans, estimate, within)

    def check_stored(self, *, is_complete: bool = False) -> None:
        """Raise if what is stored cannot hold the elements."""
        self._array.check_stored(is_complete=is_complete)


def _as_range(picks: Picks) -> Picks:
    """Return entries that are a range as that."""
    return (picks.span or picks) if isinstance(picks, EntrySelection) else picks


def _moved(spans: list[Span], within: Span) -> list[Span]:
    return [Span(within.start + span.start, within.start + span.stop) for span in spans]


def subset_vector(stored: StoredVector, entries: EntrySelection) -> dict[str, StoredArray]:
    """Return the arrays of a sparse vector of some entries."""
    nzind = stored.sparse_parts().nzind
    shown = entries.numbers()[nzind.astype(np.int64) - 1]
    places = np.flatnonzero(shown)
    if not entries.is_ascending:
        places = places[np.argsort(shown[places], kind="stable")]
    numbers = shown[places].astype(entries.number_type(nzind.dtype))
    arrays: dict[str, StoredArray] = {"nzind": HeldArray(numbers)}
    nzval = stored.arrays().get("nzval")
    if nzval is not None:
        arrays["nzval"] = SubsetArray(nzval, EntrySelection(places, nzind.size))
    return arrays


class HeldArray(MemoryArray):
    """Numbers in memory, or in a file without a name: any part of them is read at once."""

    def __init__(self, values: AnyArray) -> None:
        shape = tuple(map(int, values.shape))
        super().__init__(lambda: values, shape=shape, storage_type=StorageType.of(values.dtype))

    @property
    def info(self) -> ArrayInfo:  # type: ignore[override]  # computed, where others have it ready
        """Its metadata."""
        return replace(super().info, is_mappable=True)


def _chunks(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the pieces in which a part that is no range is best read."""
    width = max(math.prod(shape[1:]), 1)
    return (max(min(shape[0], _CHUNK_ELEMENTS // width), 1), *shape[1:])


_BLOCK_BYTES: Final = 1 << 24
_THREAD_BYTES: Final = 1 << 21
_BLOCKS_HELD: Final = 4
"""One of the source, one of the copy, and what they are decoded from."""


def memory_bytes() -> int:
    """Return how much memory numbers may take on their way."""
    return max(settings.DAF_COPY_MAX_BYTES, _LEAST_MEMORY_BYTES)


def block_height(row_bytes: int) -> int:
    """Return how many rows of so many bytes a block has: what is held with it fits the memory."""
    block_bytes = min(max(_BLOCK_BYTES, _THREAD_BYTES * THREADS), memory_bytes() // _BLOCKS_HELD)
    return max(block_bytes // max(row_bytes, 1), 1)


def block_spans(array: StoredArray) -> Iterator[Span]:
    """Yield ranges of the first dimension, along chunks where there are several.

    What is held while one is copied, or compared, fits the memory; it is a row of chunks at least.
    """
    length, *rest = array.info.shape
    chunk = max(array.info.chunks[0], 1)
    height = block_height(math.prod(rest) * array.info.storage_type.dtype.itemsize)
    if chunk < length:
        height = max(height // chunk, 1) * chunk
    for start in range(0, length, height):
        yield Span(start, min(start + height, length))


_LEAST_MEMORY_BYTES: Final = 1 << 24
_BLOCK_ELEMENTS: Final = 1 << 20
_LEAST_BLOCK_ELEMENTS: Final = 1 << 12
_HELD_BYTES: Final = 40
"""What an element takes on its way besides its value: numbers of rows, of columns, and places."""
_TILE: Final = 512
_HELD_PART: Final = 4
_nothing = partial(np.empty, 0)


@dataclass(kw_only=True, eq=False, slots=True)
class EmptySparse:
    """The mapped parts of a sparse vector or matrix, to be filled in place.

    All arrays are writable and zero at first; indices count from 1, as stored.
    """

    nzval: AnyArray
    """The values, shape ``(nnz,)``."""
    nzind: AnyArray = field(default_factory=_nothing)
    """Of a vector: positions, ascending, the first position being 1."""
    colptr: AnyArray = field(default_factory=_nothing)
    """Of a matrix: where each column begins, from 1; its last element must be nnz + 1."""
    rowval: AnyArray = field(default_factory=_nothing)
    """Of a matrix: row numbers from 1, ascending within each column."""


def fill_transpose(
    stored: StoredMatrix, out: EmptySparse, *, progress: Callable[[int], None] = lambda _: None
) -> None:
    """Fill the parts of the transpose of a sparse matrix; its values only if it has some.

    What has to be decoded is held where it takes a quarter of the memory at most; else it is
    decoded twice, in ranges: to count, and to transpose.

    Parameters
    ----------
    progress
        Called after each block with the number of elements done.

    Raises
    ------
    CorruptDataError
        A row number leaves the rows axis, or another program changes them meanwhile.
    """
    indptr, n_rows = stored.colptr(), out.colptr.size - 1
    nnz, held_bytes = int(indptr[-1]), stored.decoded_bytes()
    rowval = stored.entries("rowval")
    rowval.check_stored(is_complete=True)
    rows, values = rowval.read_rows, stored.values
    if held_bytes <= memory_bytes() // _HELD_PART:
        every = Span(0, nnz)
        rows, values = HeldArray(rows(every)).read_rows, HeldArray(values(every)).read_rows
    item_bytes = 2 * out.nzval.itemsize if stored.has_values() else 0
    free_bytes = memory_bytes() - min(held_bytes, memory_bytes() // 2)
    most = free_bytes // (2 * THREADS * (_HELD_BYTES + item_bytes))
    size = max(min(max(_BLOCK_ELEMENTS, 2 * n_rows), most), _LEAST_BLOCK_ELEMENTS)
    blocks = [Span(start, min(start + size, nnz)) for start in range(0, nnz, size)]
    counts = np.zeros(n_rows + 1, np.int64)
    with passing_over():
        for found in computed(partial(_counted, rows(b), n_rows, stored.what) for b in blocks):
            counts += found
        ends = np.cumsum(counts)
        out.colptr[:] = ends + 1
        free = ends[:-1].copy()
        tasks = (
            partial(_transposed, indptr, block, rows(block), values(block), n_rows, stored.what)
            for block in blocks
        )
        while pieces := list(computed(islice(tasks, THREADS))):
            puts: list[Callable[[], None]] = []
            for first, piece in pieces:
                puts.append(partial(_put, first, piece, free.copy(), out))
                free += np.diff(piece.indptr)
            if (free > ends[1:]).any():
                raise _outside(stored.what, n_rows)
            run_all(puts)
            progress(sum(piece.nnz for _, piece in pieces))


def _counted(rows: AnyArray, n_rows: int, what: str) -> AnyArray:
    """Return how often each row number occurs, the first place of which is not used."""
    check_rows(rows, n_rows, what)
    return np.bincount(rows.astype(np.int64, copy=False), minlength=n_rows + 1)


def _transposed(
    indptr: AnyArray, block: Span, rows: AnyArray, values: AnyArray, n_rows: int, what: str
) -> tuple[int, Any]:
    """Return the first column with elements in a block, and the transpose of the block."""
    check_rows(rows, n_rows, what)
    first = int(np.searchsorted(indptr, block.start, side="right")) - 1
    last = int(np.searchsorted(indptr, block.stop, side="left"))
    pointers = np.clip(indptr[first : last + 1], block.start, block.stop) - block.start
    index: Any = np.int32 if max(n_rows, block.size) < np.iinfo(np.int32).max else np.int64
    indices = rows.astype(index) - index(1)
    by_columns = sp.csr_array(
        (np.ascontiguousarray(values), indices, pointers.astype(index)),
        shape=(last - first, n_rows),
    )
    return first, by_columns.tocsc()


def _put(first: int, piece: Any, free: AnyArray, out: EmptySparse) -> None:
    """Put the elements of a block in place, given where the next one of each column goes."""
    places = np.repeat(free - piece.indptr[:-1], np.diff(piece.indptr))
    places += np.arange(piece.nnz)
    numbers = piece.indices.astype(out.rowval.dtype, copy=False)
    out.rowval[places] = numbers + out.rowval.dtype.type(first + 1)
    out.nzval[places] = piece.data


def check_rows(rows: AnyArray, n_rows: int, what: str, base: int = 1) -> None:
    """Raise before compiled code is given a number outside of its arrays."""
    if rows.size and (int(rows.min()) < base or int(rows.max()) >= n_rows + base):
        raise _outside(what, n_rows, base)


def _outside(what: str, n_rows: int, base: int = 1) -> CorruptDataError:
    last = n_rows + base - 1
    return CorruptDataError(f"{what}: rowval leaves the range {base} to {last:,} of its rows axis")


def transpose_dense(source: AnyArray, out: AnyArray) -> None:
    """Fill ``out`` with the transpose of ``source``, tile by tile to spare the caches."""
    height, width = source.shape
    for i in range(0, height, _TILE):
        for j in range(0, width, _TILE):
            out[j : j + _TILE, i : i + _TILE] = source[i : i + _TILE, j : j + _TILE].T


def column_blocks(indptr: AnyArray, *, max_elements: int = _BLOCK_ELEMENTS) -> Iterator[Span]:
    """Yield runs of columns that hold at most ``max_elements`` stored elements, or one column.

    >>> [(s.start, s.stop) for s in column_blocks(np.array([0, 2, 4, 9, 9]), max_elements=4)]
    [(0, 2), (2, 3), (3, 4)]
    """
    start, n_columns = 0, len(indptr) - 1
    while start < n_columns:
        limit = int(indptr[start]) + max_elements
        stop = int(np.searchsorted(indptr, limit, side="right")) - 1
        stop = min(max(stop, start + 1), n_columns)
        yield Span(start, stop)
        start = stop
