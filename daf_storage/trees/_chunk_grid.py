"""The grid of the chunks of an array: which of them a read needs, and what it takes of each.

Pure: knows shapes and numpy arrays; knows neither files nor codecs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from daf_storage.base import AnyArray, Span
from daf_storage.errors import UnsupportedDataError
from daf_storage.trees._array_bases import chunks_of
from daf_storage.trees._joined_ranges import Ranges
from daf_storage.trees._protocol import ArrayInfo

MAX_CHUNKS: Final = 1 << 24
"""How many chunks are read at once."""

Position = tuple[int, ...]
"""The number of a chunk along each dimension."""


@dataclass(frozen=True, slots=True)
class Across:
    """What the chunks at one place along all dimensions but the first give to the result."""

    source: tuple[slice, ...]
    """Elements within the chunk."""
    target: tuple[slice, ...]
    """Elements within the result."""


@dataclass(frozen=True, slots=True)
class ChunkedRead:
    """Ranges of the first dimension of an array, put one after the other, by chunks."""

    info: ArrayInfo
    """The array."""
    shape: tuple[int, ...]
    """The shape of the result."""
    rows: dict[int, Ranges]
    """What is taken of each row of chunks that is needed, by its number."""
    across: dict[Position, Across]
    """What is taken of the chunks of each such row, by the rest of their position."""

    @classmethod
    def of(cls, info: ArrayInfo, spans: list[Span], within: Span | None) -> ChunkedRead:
        """Plan a read of some ranges; of a matrix, only of the range ``within`` of columns."""
        return cls.of_ranges(info, Ranges.of(spans), within)

    @classmethod
    def of_ranges(cls, info: ArrayInfo, ranges: Ranges, within: Span | None) -> ChunkedRead:
        """Plan a read like `of`."""
        rest = [Span(0, n) for n in info.shape[1:]]
        if within is not None:
            rest[0] = within
        shape = (ranges.total, *(span.size for span in rest))
        if 0 in shape:
            return cls(info, shape, {}, {})
        height = info.chunks[0]
        dimensions = [
            _along(span, chunk) for span, chunk in zip(rest, info.chunks[1:], strict=True)
        ]
        across = {
            tuple(number for number, _, _ in combination): Across(
                tuple(source for _, source, _ in combination),
                tuple(target for _, _, target in combination),
            )
            for combination in itertools.product(*dimensions)
        }
        return cls(info, shape, _rows(ranges, height), across)

    def positions(self) -> list[Position]:
        """Return the chunks that are needed, in the order of the grid."""
        return [(row, *rest) for row in sorted(self.rows) for rest in self.across]

    def take(self, position: Position, chunk: AnyArray, out: AnyArray) -> None:
        """Copy into the result what is needed of a chunk."""
        across = self.across[position[1:]]
        self.rows[position[0]].copy(chunk, out, across.source, across.target)

    def is_partial(self, position: Position) -> bool:
        """Return whether some elements of a chunk are not needed."""
        used = [self.rows[position[0]].total]
        used += [pick.stop - pick.start for pick in self.across[position[1:]].source]
        stored = (
            min(length, n - number * length)
            for number, length, n in zip(position, self.info.chunks, self.info.shape, strict=True)
        )
        return any(some < most for some, most in zip(used, stored, strict=True))


def _along(span: Span, chunk: int) -> list[tuple[int, slice, slice]]:
    """Return what a range of one dimension takes of each chunk along it."""
    found = []
    for number in range(span.start // chunk, -(-span.stop // chunk)):
        start = number * chunk
        first, last = max(span.start, start), min(span.stop, start + chunk)
        source = slice(first - start, last - start)
        found.append((number, source, slice(first - span.start, last - span.start)))
    return found


def _rows(ranges: Ranges, height: int) -> dict[int, Ranges]:
    """Return what ranges take of the chunks along the first dimension, by the chunk's number."""
    firsts = ranges.starts // height
    counts = -(-ranges.stops // height) - firsts
    numbers, pieces = ranges.cut(firsts, counts, lambda numbers: numbers * height)
    order = np.argsort(numbers, kind="stable")
    in_order = numbers[order]
    begins = np.flatnonzero(np.diff(in_order, prepend=-1))
    ends = [*begins[1:].tolist(), in_order.size]
    found: dict[int, Ranges] = {}
    for number, first, last in zip(in_order[begins].tolist(), begins.tolist(), ends, strict=True):
        found[number] = pieces.some(order[first:last])
    return found


def check_count(
    info: ArrayInfo, spans: list[Span], within: Span | None, most: int, *, what: str
) -> None:
    """Raise if a read needs so many chunks that nobody would wait for them."""
    grid = [-(-n // c) for n, c in zip(info.shape, info.chunks, strict=True)]
    if math.prod(grid) <= most:
        return
    count = chunks_of(info, spans, within)
    if count > most:
        raise UnsupportedDataError(
            f"{what}: it is cut into {count:,} chunks of shape {list(info.chunks)}; write it in "
            "larger ones"
        )


def split_rows(values: AnyArray, spans: list[Span]) -> list[AnyArray]:
    """Return the result of a read as the ranges that were asked for."""
    stops = itertools.accumulate(span.size for span in spans)
    return [values[stop - span.size : stop] for span, stop in zip(spans, stops, strict=True)]


def positions_within(info: ArrayInfo, span: Span) -> Iterator[Position]:
    """Return the chunks that have some elements, by a range of the first dimension."""
    if not span.size:
        return iter(())
    rest = (Span(0, length) for length in info.shape[1:])
    ranges = (
        range(part.start // chunk, -(-part.stop // chunk))
        for part, chunk in zip((span, *rest), info.chunks, strict=True)
    )
    return itertools.product(*ranges)
