"""Rows of a matrix in shuffled batches, epoch by epoch.

1. The entries of an epoch are cut into blocks of neighbours, and the blocks are shuffled.
2. That sequence is cut into a range for each rank; ranges differ by one row at most.
3. A rank cuts its range into fetches of some batches, which its workers take in turns.  A fetch is
   read at once, shuffled, and cut into batches.

So every entry is in one batch of one worker of one rank, and batches are the same for any number of
workers.  All of it depends on seed and epoch alone: randomness is a hash of numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._calls import positive_number
from daf_query.slice import MatrixSlice
from daf_query.training._splits import Keys, checked_seed, mixed, seed_key
from daf_storage import errors
from daf_storage._lazy import sp
from daf_storage.base import optional_import

Form: TypeAlias = Literal["dense", "sparse"]
"""Whether a batch is dense, or CSR."""

Draw: TypeAlias = Literal["once", "weighted"]
"""Whether each entry comes once an epoch, or is drawn by its weight, with replacement."""

Batch: TypeAlias = dict[str, Any]
"""``x``, the rows; ``index``, their positions along the axis; and each label by its name."""

Entries: TypeAlias = npt.NDArray[np.int64]
"""Numbers of the entries of a sampler, from 0."""

_UNIT: Final = 2.0**-53
_DRAWN, _BLOCKS, _WITHIN = range(3)


class BlockChoice(TypedDict, total=False):
    """How rows are read and batched; see `Sampler.blocks`."""

    labels: str | Sequence[str]
    batch_rows: int
    block_rows: int
    fetch_batches: int
    form: Form
    draw: Draw | None
    rows_per_epoch: int | None
    shuffle: bool
    drop_last: bool
    seed: int


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
    batch_rows: int = 256
    """How many rows a batch has."""
    block_rows: int = 16
    """How many neighbours stay together, until they are shuffled within a fetch."""
    fetch_batches: int = 16
    """How many batches are read at once, and shuffled together."""
    seed: int = 0
    shuffle: bool = True
    """Whether blocks and the rows of a fetch are shuffled; else all come in their order."""
    drop_last: bool = False
    """Whether batches that are not full are left out, and every rank has equally many."""

    def __post_init__(self) -> None:
        for name in ("entries", "batch_rows", "block_rows", "fetch_batches"):
            keyword = "rows_per_epoch" if name == "entries" else name
            value = positive_number(getattr(self, name), keyword)
            object.__setattr__(self, name, value)  # a narrow one of numpy would overflow
        checked_seed(self.seed)

    def batch_count(self, consumer: Consumer) -> int:
        """Return how many batches the rank of a consumer has; its workers share them."""
        start, stop = self._range(consumer)
        return -(-(stop - start) // self.batch_rows)

    def batches(self, epoch: int, consumer: Consumer) -> Iterator[list[Entries]]:
        """Yield fetches: the entries of each batch of a fetch, in the order of the batch."""
        start, stop = self._range(consumer)
        height = self.batch_rows * (self.fetch_batches if self.shuffle else 1)
        blocks = np.arange(-(-self.entries // self.block_rows))
        if self.shuffle:
            blocks = blocks[np.argsort(_random(blocks, self.seed, epoch, _BLOCKS), kind="stable")]
        sizes = np.minimum(self.entries - blocks * self.block_rows, self.block_rows)
        starts = np.cumsum(sizes) - sizes  # of each block in the sequence
        first = start + consumer.worker * height
        for begin in range(first, stop, consumer.workers * height):
            places = np.arange(begin, min(begin + height, stop))
            owners = np.searchsorted(starts, places, side="right") - 1
            entries = blocks[owners] * self.block_rows + places - starts[owners]
            if self.shuffle:
                keys = _random(places, self.seed, epoch, _WITHIN)
                entries = entries[np.argsort(keys, kind="stable")]
            yield np.split(entries, range(self.batch_rows, entries.size, self.batch_rows))

    def _range(self, consumer: Consumer) -> tuple[int, int]:
        """Return the part of the sequence that a rank has."""
        start = consumer.rank * self.entries // consumer.ranks
        stop = (consumer.rank + 1) * self.entries // consumer.ranks
        if self.drop_last:
            stop = start + self.entries // consumer.ranks // self.batch_rows * self.batch_rows
        return start, stop


def sampled_entries(weights: npt.NDArray[np.float64], count: int, seed: int, epoch: int) -> Entries:
    """Return entries that are drawn by weight, with replacement, ascending.

    >>> sampled_entries(np.array([0.0, 1.0, 0.0]), 4, 0, 0).tolist()
    [1, 1, 1, 1]
    >>> sampled_entries(np.array([0.0, 1e308, 1e308]), 4, 0, 0).tolist()  # whose sum is no float
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


def _random(numbers: Entries, seed: int, epoch: int, purpose: int) -> Keys:
    """Return 64 random bits for each number."""
    return mixed(mixed(numbers.astype(np.uint64), seed_key(seed, epoch, purpose)), seed)


@dataclass(frozen=True, eq=False)
class RowSource:
    """What the batches of all epochs are made of.

    Pickled, it says how the data sets are opened by their paths: another process maps them itself.
    """

    part: MatrixSlice
    offsets: Entries
    """The row of the slice of each entry; ascending."""
    indices: npt.NDArray[np.int64]
    """The position of each entry along the axis."""
    labels: Mapping[str, npt.NDArray[Any]]
    """The value of each entry; for strings the number of the class, -1 if missing."""
    classes: Mapping[str, pa.Array]
    """Of labels that are strings, the values, sorted: those of all entries of the axis, so that
    numbers are the same in each split."""
    weights: npt.NDArray[np.float64] | None
    """What entries are drawn by; None if each comes once."""
    plan: BlockPlan
    form: Form

    def batches(self, epoch: int, consumer: Consumer) -> Iterator[Batch]:
        """Yield the batches of a worker in an epoch; a fetch of them is read at once."""
        plan, taken = self.plan, None
        if self.weights is not None:
            taken = sampled_entries(self.weights, plan.entries, plan.seed, epoch)
        for fetch in plan.batches(epoch, consumer):
            order = fetch if taken is None else [taken[places] for places in fetch]
            values = self.read(np.concatenate(order), is_dense=self.form == "dense")
            start = 0
            for entries in order:
                yield self.batch(values[start : start + entries.size], entries)
                start += entries.size

    def batch(self, values: Any, entries: Entries) -> Batch:
        """Return a batch of rows that were read."""
        labels = {name: of_all[entries] for name, of_all in self.labels.items()}
        return {"x": values, "index": self.indices[entries], **labels}

    def read(self, entries: Entries, *, is_dense: bool) -> Any:
        """Return the rows of entries, in any order, also several times: dense, or CSR."""
        unique, places = np.unique(entries, return_inverse=True)
        values = self.part.take_rows(self.offsets[unique]).values()
        if not np.array_equal(places, np.arange(unique.size)):
            values = values[places]
        if is_dense:
            values = values.toarray() if sp.issparse(values) else values
            return values if values.flags.writeable else values.copy()
        return values if sp.issparse(values) else sp.csr_array(values)


class RowBlocks:
    """Batches of rows in an order that epoch and seed make; `Sampler.blocks` makes one.

    Iterating over it yields the batches of an epoch: of all workers, unless `of_worker` says which.
    """

    def __init__(self, source: RowSource, consumer: Consumer | None = None) -> None:
        self.source = source
        self._consumer = consumer
        self._epoch = 0

    @property
    def consumer(self) -> Consumer:
        """Which worker of which rank reads."""
        return self._consumer or Consumer()

    @property
    def classes(self) -> dict[str, pa.Array]:
        """Of labels that are strings, the string of each number."""
        return dict(self.source.classes)

    @property
    def epoch(self) -> int:
        """The epoch that comes next, from 0."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes next: each has another order, always the same."""
        self._epoch = positive_number(epoch, "epoch", least=0)

    def of_worker(
        self, *, rank: int = 0, ranks: int = 1, worker: int = 0, workers: int = 1
    ) -> RowBlocks:
        """Return what a worker of a rank reads: all of them together read every batch once."""
        blocks = RowBlocks(self.source, Consumer(rank, ranks, worker, workers))
        blocks.set_epoch(self.epoch)
        return blocks

    def __len__(self) -> int:
        """How many batches the rank has in an epoch, over all of its workers."""
        return self.source.plan.batch_count(self.consumer)

    def __iter__(self) -> Iterator[Batch]:
        return self.source.batches(self.epoch, self.consumer)

    def __repr__(self) -> str:
        plan, part = self.source.plan, self.source.part
        weighted = ", drawn by weight" if self.source.weights is not None else ""
        return (
            f"{type(self).__name__}({plan.entries:,} rows x {part.shape[1]:,}{weighted}, "
            f"in batches of {plan.batch_rows:,})"
        )


def torch_blocks(source: RowSource, *, rank: int | None, ranks: int | None) -> Any:
    """Return batches as a ``torch.utils.data.IterableDataset``; see `Sampler.to_torch`."""
    if (rank is None) != (ranks is None):
        raise errors.InvalidInputError("pass both rank= and ranks=, or none of them")
    torch = _torch("torch")
    # A number that workers see when it is changed here, also those that live on.
    epoch = torch.full((), 0, dtype=torch.int64).share_memory_()
    given = None if rank is None or ranks is None else Consumer(rank, ranks)
    return _made(_TorchBlocks, "IterableDataset", source, epoch, given)


def torch_cells(source: RowSource) -> Any:
    """Return single rows as a ``torch.utils.data.Dataset``; see `Sampler.to_torch_cells`."""
    return _made(_TorchCells, "Dataset", source)


def _torch(module: str) -> Any:
    return optional_import(module, extra="training")


@cache
def _class(own: type, base: str) -> Any:
    """Return a class of torch that does what one of ours does."""
    return type(
        own.__name__.removeprefix("_"), (own, getattr(_torch("torch.utils.data"), base)), {}
    )


def _made(own: type, base: str, *content: Any) -> Any:
    return _class(own, base)(*content)


class _TorchBlocks(RowBlocks):
    """What the dataset of batches does."""

    def __init__(self, source: RowSource, epoch: Any, given: Consumer | None) -> None:
        super().__init__(source)
        self._shared, self._given = epoch, given

    def __reduce__(self) -> Any:
        content = (self.source, self._shared, self._of_group())  # spawned workers have no group
        return _made, (_TorchBlocks, "IterableDataset", *content)

    def _of_group(self) -> Consumer | None:
        """Return the rank that was given, or that of this process in a group; else None."""
        distributed = _torch("torch.distributed")
        if self._given is None and distributed.is_available() and distributed.is_initialized():
            return Consumer(distributed.get_rank(), distributed.get_world_size())
        return self._given

    @property
    def epoch(self) -> int:
        return int(self._shared)

    def set_epoch(self, epoch: int) -> None:
        self._shared.fill_(positive_number(epoch, "epoch", least=0))

    @property
    def consumer(self) -> Consumer:
        """Which worker of which rank this is: by default what ``torch.distributed`` says."""
        group = self._of_group() or Consumer()
        info = _torch("torch.utils.data").get_worker_info()
        of_loader = () if info is None else (info.id, info.num_workers)
        return Consumer(group.rank, group.ranks, *of_loader)

    def __iter__(self) -> Iterator[Batch]:
        return map(as_tensors, super().__iter__())


class _TorchCells:
    """What the dataset of single rows does."""

    def __init__(self, source: RowSource) -> None:
        self.source = source

    def __reduce__(self) -> Any:
        return torch_cells, (self.source,)

    def __repr__(self) -> str:
        return f"TorchCells({len(self):,} rows x {self.source.part.shape[1]:,})"

    @property
    def classes(self) -> dict[str, pa.Array]:
        """Of labels that are strings, the string of each number."""
        return dict(self.source.classes)

    @property
    def weights(self) -> npt.NDArray[np.float64] | None:
        """The weight of each row, for ``torch.utils.data.WeightedRandomSampler``."""
        weights = self.source.weights
        return None if weights is None else weights.copy()  # torch takes writable arrays

    def __len__(self) -> int:
        return int(self.source.offsets.size)

    def __getitem__(self, number: int) -> Batch:
        if not -len(self) <= number < len(self):
            raise IndexError(f"row {number} of {len(self):,}")
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[Batch]:
        """Return several rows, which are read at once; a DataLoader asks so for a batch."""
        entries = np.asarray(numbers, np.int64) % len(self)
        values = self.source.read(entries, is_dense=True)
        batch = as_tensors(self.source.batch(values, entries))
        return [
            {name: column[row] for name, column in batch.items()} for row in range(len(entries))
        ]


def as_tensors(batch: Batch) -> Batch:
    """Return a batch with tensors in place of arrays; CSR stays CSR."""
    return {name: _tensor(values) for name, values in batch.items()}


def _tensor(values: Any) -> Any:
    torch = _torch("torch")
    if sp.issparse(values):
        tensors = map(_tensor, (values.indptr, values.indices, values.data))
        return torch.sparse_csr_tensor(*tensors, size=values.shape, check_invariants=False)
    # As torch takes it: of this machine's byte order, contiguous, writable.
    return torch.from_numpy(np.require(values, values.dtype.newbyteorder("="), ["C", "W"]))
