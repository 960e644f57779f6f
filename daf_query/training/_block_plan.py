"""The plan of an epoch: which rows each worker of each rank reads, and in which batches.  Pure.

1. The entries of an epoch are cut into blocks of neighbours, and the blocks are shuffled.
2. That sequence is cut into a range for each rank; ranges differ by one row at most.
3. A rank cuts its range into fetches of some batches, which its workers take in turns.  A fetch is
   read at once, shuffled, and cut into batches.

So every entry is in one batch of one worker of one rank, and batches are the same for any number of
workers.  All of it depends on seed and epoch alone: randomness is a hash of numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from daf_query.training._entry_keys import Keys, mixed, seed_key
from daf_storage import errors

_UNIT: Final = 2.0**-53
_DRAWN, _BLOCKS, _WITHIN = range(3)


@dataclass(frozen=True, slots=True)
class Consumer:
    """A worker of a rank; both count from 0."""

    rank: int = 0
    ranks: int = 1
    worker: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        for what, number, count in (
            ("rank", self.rank, self.ranks),
            ("worker", self.worker, self.workers),
        ):
            if not 0 <= number < count:
                raise errors.InvalidInputError(
                    f"{what} {number} of {count} is none; they count from 0"
                )


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """How the entries of an epoch become batches."""

    entries: int
    """How many rows an epoch has."""
    batch_rows: int
    """How many rows a batch has."""
    block_rows: int
    """How many neighbours stay together, until they are shuffled within a fetch."""
    fetch_batches: int
    """How many batches are read at once, and shuffled together."""
    seed: int = 0
    is_shuffled: bool = True
    """Whether blocks and the rows of a fetch are shuffled; else all come in their order."""
    drops_last: bool = False
    """Whether batches that are not full are left out, and every rank has equally many."""

    def __post_init__(self) -> None:
        for name, value in (
            ("rows_per_epoch", self.entries),
            ("batch_rows", self.batch_rows),
            ("block_rows", self.block_rows),
            ("fetch_batches", self.fetch_batches),
        ):
            given: object = value
            if isinstance(given, bool) or not isinstance(given, int) or given < 1:
                raise errors.InvalidInputError(
                    f"{name}={value!r} is no positive number; pass 1 or more"
                )

    def batch_count(self, consumer: Consumer) -> int:
        """Return how many batches the rank of a consumer has; its workers share them."""
        start, stop = self._range(consumer)
        return -(-(stop - start) // self.batch_rows)

    def batches(self, epoch: int, consumer: Consumer) -> Iterator[list[npt.NDArray[np.int64]]]:
        """Yield fetches: the entries of each batch of a fetch, in the order of the batch."""
        start, stop = self._range(consumer)
        height = self.batch_rows * (self.fetch_batches if self.is_shuffled else 1)
        first = start + consumer.worker * height
        sequence = _Sequence.of(self, epoch)
        for begin in range(first, stop, consumer.workers * height):
            end = min(begin + height, stop)
            entries = sequence.entries(np.arange(begin, end))
            if self.is_shuffled:
                keys = _random(np.arange(begin, end), self.seed, epoch, _WITHIN)
                entries = entries[np.argsort(keys, kind="stable")]
            yield [
                entries[offset : offset + self.batch_rows]
                for offset in range(0, entries.size, self.batch_rows)
            ]

    def _range(self, consumer: Consumer) -> tuple[int, int]:
        """Return the part of the sequence that a rank has."""
        start = consumer.rank * self.entries // consumer.ranks
        stop = (consumer.rank + 1) * self.entries // consumer.ranks
        if self.drops_last:
            stop = start + self.entries // consumer.ranks // self.batch_rows * self.batch_rows
        return start, stop


@dataclass(frozen=True, slots=True)
class _Sequence:
    """The entries of an epoch, block by shuffled block."""

    blocks: npt.NDArray[np.int64]
    """The number of each block."""
    starts: npt.NDArray[np.int64]
    """Where each begins in the sequence."""
    block_rows: int

    @classmethod
    def of(cls, plan: BlockPlan, epoch: int) -> _Sequence:
        """Return that of an epoch."""
        count = -(-plan.entries // plan.block_rows)
        blocks = np.arange(count)
        if plan.is_shuffled:
            blocks = np.argsort(_random(blocks, plan.seed, epoch, _BLOCKS), kind="stable")
        sizes = np.minimum(plan.entries - blocks * plan.block_rows, plan.block_rows)
        return cls(blocks, np.cumsum(sizes) - sizes, plan.block_rows)

    def entries(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the entries at places in the sequence."""
        owners = np.searchsorted(self.starts, places, side="right") - 1
        return self.blocks[owners] * self.block_rows + places - self.starts[owners]


def drawn(
    weights: npt.NDArray[np.float64], count: int, seed: int, epoch: int
) -> npt.NDArray[np.int64]:
    """Return entries that are drawn by weight, with replacement, ascending.

    >>> drawn(np.array([0.0, 1.0, 0.0]), 4, 0, 0).tolist()
    [1, 1, 1, 1]
    >>> drawn(np.array([0.0, 1e308, 1e308]), 4, 0, 0).tolist()  # whose sum is no float
    [1, 1, 2, 2]
    """
    with np.errstate(over="ignore"):
        ends = np.cumsum(weights)
    if np.isinf(ends[-1]):
        ends = np.cumsum(weights / weights.max())
    units = (_random(np.arange(count), seed, epoch, _DRAWN) >> np.uint64(11)) * _UNIT
    entries = np.searchsorted(ends, units * ends[-1], side="right")
    last = int(np.flatnonzero(weights)[-1])  # rounding may reach the end
    return np.sort(np.minimum(entries, last))


def _random(numbers: npt.NDArray[np.int64], seed: int, epoch: int, purpose: int) -> Keys:
    """Return 64 random bits for each number."""
    return mixed(mixed(numbers.astype(np.uint64), seed_key(seed, epoch, purpose)), seed)
