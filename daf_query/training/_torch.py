"""Datasets of torch, which is imported when the first one is made.

A dataset of torch inherits from a class of torch, so these classes are made by functions, once per
process; an instance is pickled as what it is made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.training._batches import Batch, Consumer, RowBlocks, RowSource, checked_epoch
from daf_storage import errors
from daf_storage._lazy import sp
from daf_storage.base import optional_import


def torch_blocks(source: RowSource, *, rank: int | None, ranks: int | None) -> Any:
    """Return batches as a ``torch.utils.data.IterableDataset``; see `Sampler.to_torch`."""
    if (rank is None) != (ranks is None):
        raise errors.InvalidInputError("pass both rank= and ranks=, or none of them")
    given = None if rank is None or ranks is None else Consumer(rank, ranks)
    return _block_class()(source, _shared_epoch(0), given)


def torch_cells(source: RowSource) -> Any:
    """Return single rows as a ``torch.utils.data.Dataset``; see `Sampler.to_torch_cells`."""
    return _cell_class()(source)


def _torch() -> Any:
    return optional_import("torch", extra="training")


def _data() -> Any:
    _torch()
    return optional_import("torch.utils.data", extra="training")


def _shared_epoch(epoch: int) -> Any:
    """Return a number that workers see when it is changed here, also those that live on."""
    torch = _torch()
    return torch.full((), epoch, dtype=torch.int64).share_memory_()


class _TorchBlocks(RowBlocks):
    """What the dataset of batches does; it becomes one of torch by its other base class."""

    def __init__(self, source: RowSource, epoch: Any, given: Consumer | None) -> None:
        super().__init__(source)
        self._shared = epoch
        self._given = given

    def __reduce__(self) -> Any:
        return _rebuilt_blocks, (self.source, self._shared, self._given)

    @property
    def epoch(self) -> int:
        return int(self._shared)

    def set_epoch(self, epoch: int) -> None:
        self._shared.fill_(checked_epoch(epoch))

    def __len__(self) -> int:
        return self.source.plan.batch_count(self._now())

    def __iter__(self) -> Iterator[Batch]:
        return map(as_tensors, self.source.batches(self.epoch, self._now()))

    def _now(self) -> Consumer:
        """Return which worker of which rank this is."""
        rank, ranks = self._rank()
        info = _data().get_worker_info()
        if info is None:
            return Consumer(rank, ranks)
        return Consumer(rank, ranks, info.id, info.num_workers)

    def _rank(self) -> tuple[int, int]:
        if self._given is None:
            self._given = distributed_rank()
        return self._given.rank, self._given.ranks


def distributed_rank() -> Consumer:
    """Return the rank of this process in ``torch.distributed``, if that is used."""
    distributed = optional_import("torch.distributed", extra="training")
    if distributed.is_available() and distributed.is_initialized():
        return Consumer(distributed.get_rank(), distributed.get_world_size())
    return Consumer()


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
        entries = np.asarray(numbers, np.int64) % max(len(self), 1)
        values = self.source.read(entries, is_dense=True)
        batch = as_tensors(self.source.batch(values, entries))
        return [
            {name: column[row] for name, column in batch.items()} for row in range(len(entries))
        ]


@cache
def _block_class() -> Any:
    return type("TorchBlocks", (_TorchBlocks, _data().IterableDataset), {})


@cache
def _cell_class() -> Any:
    return type("TorchCells", (_TorchCells, _data().Dataset), {})


def _rebuilt_blocks(source: RowSource, epoch: Any, given: Consumer | None) -> Any:
    return _block_class()(source, epoch, given)


def as_tensors(batch: Batch) -> Batch:
    """Return a batch with tensors in place of arrays; CSR stays CSR."""
    return {name: _tensor(values) for name, values in batch.items()}


def _tensor(values: Any) -> Any:
    torch = _torch()
    if sp.issparse(values):
        parts = (_native(part) for part in (values.indptr, values.indices, values.data))
        tensors = map(torch.from_numpy, parts)
        return torch.sparse_csr_tensor(*tensors, size=values.shape, check_invariants=False)
    return torch.from_numpy(_native(values))


def _native(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array as torch takes it: of this machine's byte order, contiguous, writable."""
    return np.require(values, values.dtype.newbyteorder("="), ["C", "W"])
