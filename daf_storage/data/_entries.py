"""Chosen entries of axes, by their positions, and what is stored along them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage._lazy import pc
from daf_storage.base import AnyArray, Span
from daf_storage.data._layout import StoredVector
from daf_storage.stores import ReadEstimate
from daf_storage.trees import ArrayInfo, Ranges, StoredArray, memory_array

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


Picks: TypeAlias = Span | EntrySelection | Ranges
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
        spans = Ranges.joined(begins, lengths).spans()
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
        shown = np.ix_(*(_positions(picks, length) for length, picks in self._dimensions()))
        return strings.take(pa.array(grid[shown].reshape(-1)))

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
    """Return what is one range as that."""
    if isinstance(picks, Ranges):
        return (picks.spans() or [Span(0, 0)])[0] if picks.starts.size < 2 else picks
    return (picks.span or picks) if isinstance(picks, EntrySelection) else picks


def _positions(picks: Picks | None, length: int) -> Positions:
    """Return all positions that are shown along a dimension."""
    picks = Span(0, length) if picks is None else picks
    if isinstance(picks, Span):
        return np.arange(picks.start, picks.stop)
    return picks.part(Span(0, picks.size))


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
    arrays: dict[str, StoredArray] = {"nzind": memory_array(numbers)}
    nzval = stored.arrays().get("nzval")
    if nzval is not None:
        arrays["nzval"] = SubsetArray(nzval, EntrySelection(places, nzind.size))
    return arrays


def _chunks(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the pieces in which a part that is no range is best read."""
    width = max(math.prod(shape[1:]), 1)
    return (max(min(shape[0], _CHUNK_ELEMENTS // width), 1), *shape[1:])
