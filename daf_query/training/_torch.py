"""Datasets of torch, which is imported when the first one is made.

A dataset of torch inherits from a class of torch, so these classes are made by a function, once per
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
        content = (self.source, self._shared, self._given)
        return _made, (_TorchBlocks, "IterableDataset", *content)

    @property
    def epoch(self) -> int:
        return int(self._shared)

    def set_epoch(self, epoch: int) -> None:
        self._shared.fill_(checked_epoch(epoch))

    @property
    def consumer(self) -> Consumer:
        """Which worker of which rank this is: by default what ``torch.distributed`` says."""
        if self._given is None:
            distributed = _torch("torch.distributed")
            is_used = distributed.is_available() and distributed.is_initialized()
            of_group = (distributed.get_rank(), distributed.get_world_size()) if is_used else ()
            self._given = Consumer(*of_group)
        info = _torch("torch.utils.data").get_worker_info()
        of_loader = () if info is None else (info.id, info.num_workers)
        return Consumer(self._given.rank, self._given.ranks, *of_loader)

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
        entries = np.asarray(numbers, np.int64) % max(len(self), 1)
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
