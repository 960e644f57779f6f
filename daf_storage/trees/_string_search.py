"""Strings compared where they are stored: the rows of a value, and the strings of a few rows.

Nothing is decoded but the strings that are asked for, and nothing is remembered but where each
block of strings begins.  A chunk is searched in *sections*, side by side; that a section begins
where a string does is guessed, and holds if the section before it ends there.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage.base import (
    ForkLock,
    Span,
    StringBlock,
    blocks_between,
    find_string_start,
    may_hold_string,
    string_blocks,
)
from daf_storage.errors import CorruptDataError
from daf_storage.trees._decode_threads import run_all
from daf_storage.trees._protocol import MappedStrings, StoredArray

_COUNT_BYTES: Final = 4
_BLOCK_BYTES: Final = 1 << 18
_SECTION_BYTES: Final = 1 << 22
_SECTIONS: Final = os.cpu_count() or 1
_SECTION_BLOCKS: Final = 8
"""How many blocks a section has at least: of fewer, threads would take longer to be woken."""
_ENTRY_BYTES: Final = 256
_FIRST_BLOCKS: Final = 4

_Rows: TypeAlias = npt.NDArray[np.int64]
_NONE: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class StringPlaces:
    """Where the blocks of a chunk of strings begin; all of its strings were seen to be sound."""

    starts: _Rows
    """In bytes after the count of the chunk, and where the last block ends."""
    rows: _Rows
    """The first row of each block, and the number of rows."""

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return self.starts.nbytes + self.rows.nbytes + _ENTRY_BYTES


@dataclass(frozen=True, slots=True)
class StringMatches:
    """The rows that have one of some values."""

    firsts: _Rows
    """The first row of each block."""
    rows: Sequence[_Rows]
    """The rows of each block that match, ascending, counted from its first."""

    def mask(self, span: Span) -> npt.NDArray[np.bool_]:
        """Return which rows of a span match."""
        mask = np.zeros(span.size, np.bool_)
        first = max(int(np.searchsorted(self.firsts, span.start, side="right")) - 1, 0)
        last = int(np.searchsorted(self.firsts, span.stop))
        for number in range(first, last):
            rows = self.rows[number] + (int(self.firsts[number]) - span.start)
            begin, end = np.searchsorted(rows, [0, span.size])
            mask[rows[begin:end]] = True
        return mask


@dataclass(slots=True)
class _Section:
    """A part of a chunk, and what was found in it."""

    start: int
    stop: int
    end: int = 0
    """Where its last string ends."""
    starts: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    rows: list[_Rows] = field(default_factory=list)

    def add(self, block: StringBlock, values: Sequence[bytes]) -> None:
        """Search a block."""
        self.starts.append(block.start)
        self.counts.append(len(block))
        self.rows.append(_equal(block, values))
        self.end = block.start + block.data.size


class StringSearch:
    """Finds strings in a single chunk that is stored plainly and mapped.

    Parameters
    ----------
    array
        The array of strings.
    data
        Its bytes, count included.
    places
        Where its blocks begin, if that is known.
    keep
        Is given where they begin once that is known.
    """

    def __init__(
        self,
        array: StoredArray,
        data: memoryview,
        places: StringPlaces | None = None,
        keep: Callable[[StringPlaces], object] = lambda _: None,
        *,
        block_bytes: int = _BLOCK_BYTES,
    ) -> None:
        self._array = array
        self._data = data
        self._payload = np.frombuffer(data[_COUNT_BYTES:], np.uint8)
        self._count = int.from_bytes(data[:_COUNT_BYTES], "little")
        self._places = places
        self._keep = keep
        self._block_bytes = block_bytes
        self._lock = ForkLock()

    @classmethod
    def of(
        cls,
        array: StoredArray,
        places: StringPlaces | None = None,
        keep: Callable[[StringPlaces], object] = lambda _: None,
    ) -> StringSearch | None:
        """Return the search of an array; None if it is stored otherwise, or not mapped.

        Or with another number of strings than it should have: reading it says so.
        """
        data = None
        if array.info.size and isinstance(array, MappedStrings):
            data = array.mapped_strings()
        if data is None or len(data) < _COUNT_BYTES:
            return None
        is_whole = int.from_bytes(data[:_COUNT_BYTES], "little") == array.info.size
        return cls(array, data, places, keep) if is_whole else None

    def find(self, values: Sequence[str]) -> StringMatches:
        """Return the rows that have one of some values.

        Raises
        ------
        CorruptDataError
            As decoding the chunk would.
        """
        encoded = sorted({value.encode("utf-8", "surrogatepass") for value in values})
        with self._lock:
            return self._walk(encoded) if self._places is None else self._look(encoded)

    def strings(self, positions: _Rows) -> pa.Array:
        """Return the strings of some rows, ascending.

        Raises
        ------
        CorruptDataError
            As decoding the chunk would.
        """
        with self._lock:
            if self._places is None:
                strings = self._first_strings(positions)
                if strings is not None:
                    return strings
                self._walk([])
        places = self._known()
        bounds = np.searchsorted(positions, places.rows)
        parts: list[Any] = [pa.array([], pa.large_string())]
        for number in np.flatnonzero(bounds[1:] > bounds[:-1]).tolist():
            rows = positions[bounds[number] : bounds[number + 1]] - int(places.rows[number])
            for block in self._blocks(number):
                first, last = np.searchsorted(rows, [block.first, block.first + len(block)])
                parts.append(block.strings(rows[first:last] - block.first))
        return _joined(parts)

    def _first_strings(self, positions: _Rows) -> pa.Array | None:
        """Return strings of the first rows alone; None if they are not in the first blocks."""
        stop = min(_FIRST_BLOCKS * self._block_bytes, self._payload.size)
        last = int(positions[-1]) if positions.size else -1
        parts: list[Any] = [pa.array([], pa.large_string())]
        for block in blocks_between(
            self._payload, 0, stop, self._count, block_bytes=self._block_bytes
        ):
            end = block.first + len(block)
            first, after = np.searchsorted(positions, [block.first, end])
            parts.append(block.strings(positions[first:after] - block.first))
            if end > last:
                return _joined(parts)
        return None

    def _known(self) -> StringPlaces:
        if self._places is None:
            raise RuntimeError("the chunk was not walked")
        return self._places

    def _blocks(self, number: int) -> Iterator[StringBlock]:
        """Yield the strings of one block, in one piece or a few; rows count from its first."""
        places = self._known()
        start, stop = (int(place) for place in places.starts[number : number + 2])
        count = int(places.rows[number + 1] - places.rows[number])
        return blocks_between(self._payload, start, stop, count, block_bytes=stop - start)

    def _look(self, values: Sequence[bytes]) -> StringMatches:
        """Search the blocks, which are known; those with the bytes of a value are walked."""
        places = self._known()
        rows: list[_Rows] = [_NONE] * (places.starts.size - 1)

        def look(numbers: range) -> None:
            for number in numbers:
                data = self._payload[int(places.starts[number]) : int(places.starts[number + 1])]
                if any(may_hold_string(data, value) for value in values):
                    found = [block.first + _equal(block, values) for block in self._blocks(number)]
                    rows[number] = np.concatenate(found)

        step = max(_SECTION_BYTES // self._block_bytes, 1)
        starts = range(0, len(rows), step)
        run_all([functools.partial(look, range(s, min(s + step, len(rows)))) for s in starts])
        return StringMatches(places.rows[:-1], rows)

    def _walk(self, values: Sequence[bytes]) -> StringMatches:
        """Search all strings while walking them for the first time."""
        sections = self._sections()
        if len(sections) > 1:
            run_all([functools.partial(self._walk_section, each, values) for each in sections])
        if not self._are_sound(sections):
            sections = [_Section(0, self._payload.size)]
            for block in self._sound_blocks():
                sections[0].add(block, values)
        counts = [count for section in sections for count in section.counts]
        starts = [start for section in sections for start in section.starts]
        self._places = StringPlaces(
            np.array([*starts, self._payload.size]), np.cumsum([0, *counts], dtype=np.int64)
        )
        self._keep(self._places)
        return StringMatches(
            self._places.rows[:-1], [rows for section in sections for rows in section.rows]
        )

    def _sound_blocks(self) -> Iterator[StringBlock]:
        try:
            yield from string_blocks(self._data, what="strings", block_bytes=self._block_bytes)
        except CorruptDataError:
            self._array.read_strings()  # names the array in what it says
            raise

    def _sections(self) -> list[_Section]:
        """Cut the chunk where strings are guessed to begin, into as many sections as threads."""
        size = self._payload.size
        count = min(_SECTIONS, size // (_SECTION_BLOCKS * self._block_bytes))
        cuts = [find_string_start(self._payload, size * n // count) for n in range(1, count)]
        starts = [0, *sorted({cut for cut in cuts if cut is not None})]
        return [_Section(*each) for each in zip(starts, [*starts[1:], size], strict=True)]

    def _walk_section(self, section: _Section, values: Sequence[bytes]) -> None:
        blocks = blocks_between(
            self._payload, section.start, section.stop, self._count, block_bytes=self._block_bytes
        )
        for block in blocks:
            section.add(block, values)

    def _are_sound(self, sections: Sequence[_Section]) -> bool:
        """Return whether each section ends where the next one begins, with all strings."""
        return all(section.end == section.stop for section in sections) and self._count == sum(
            sum(section.counts) for section in sections
        )


def _joined(parts: list[Any]) -> pa.Array:
    strings = pa.concat_arrays(parts)
    is_large = strings.nbytes >= 1 << 31
    return strings if is_large else strings.cast(pa.string())


def _equal(block: StringBlock, values: Sequence[bytes]) -> _Rows:
    """Return which strings of a block are one of some values, ascending."""
    rows = [block.equal(value) for value in values]
    return rows[0] if len(rows) == 1 else np.sort(np.concatenate([_NONE, *rows]))
