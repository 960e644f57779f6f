"""Samplers for the loaders of others: annbatch and scDataset.

Classes that inherit from one of theirs are made when they are first used, once per process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from daf_query.training._block_plan import BlockPlan, Consumer
from daf_query.training._row_blocks import (
    Batch,
    BlockSource,
    Draw,
    block_plan,
    checked_epoch,
    ordered_batches,
)
from daf_query.training._sampled import Sampled
from daf_query.training._torch import as_tensors
from daf_storage import errors
from daf_storage.spi import optional_import


class AnnbatchChoice(TypedDict, total=False):
    """How entries are batched; see `Sampler.to_annbatch`."""

    batch_rows: int
    block_rows: int
    fetch_batches: int
    draw: Draw | None
    rows_per_epoch: int | None
    shuffle: bool
    drop_last: bool
    seed: int


def annbatch_sampler(sampler: Sampled, **choice: Unpack[AnnbatchChoice]) -> Any:
    """Return a sampler for annbatch; see `Sampler.to_annbatch`."""
    plan, weights = block_plan(sampler, **choice)
    return _annbatch_class()(plan, weights, sampler.indices, sum(sampler.lengths.values()))


class _AnnbatchSampler:
    """What a sampler does that annbatch asks for its requests."""

    def __init__(
        self,
        plan: BlockPlan,
        weights: npt.NDArray[np.float64] | None,
        indices: npt.NDArray[np.int64],
        axis_length: int,
        epoch: int = 0,
    ) -> None:
        self.plan = plan
        self.weights = weights
        self.indices = indices
        self.axis_length = axis_length
        self.epoch = epoch

    def __reduce__(self) -> Any:
        parts = (self.plan, self.weights, self.indices, self.axis_length, self.epoch)
        return _rebuilt_annbatch, parts

    def __repr__(self) -> str:
        return f"AnnbatchSampler({self.plan.entries:,} rows in batches of {self.plan.batch_rows:,})"

    @property
    def batch_size(self) -> int:
        """How many rows a batch has."""
        return self.plan.batch_rows

    @property
    def shuffle(self) -> bool:
        """Whether the order is random."""
        return self.plan.is_shuffled

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes next: each has another order, always the same."""
        self.epoch = checked_epoch(epoch)

    def n_batches(self, n_obs: int) -> int:
        """Return how many batches an epoch has."""
        self.validate(n_obs)
        return self.plan.batch_count(Consumer())

    def validate(self, n_obs: int) -> None:
        """Refuse a loader of another number of observations."""
        if n_obs != self.axis_length:
            raise errors.InvalidInputError(
                f"the loader has {n_obs:,} observations, the axis of the sampler "
                f"{self.axis_length:,} entries; add the AnnData that the sampler was made of, all "
                "of it, and no other"
            )

    def _sample(self, n_obs: int) -> Iterator[dict[str, Any]]:
        """Yield what is read at once, ascending, and the rows of it that each batch has."""
        self.validate(n_obs)
        for fetch in ordered_batches(self.plan, self.weights, self.epoch, _torch_worker()):
            unique, places = np.unique(np.concatenate(fetch), return_inverse=True)
            ends = np.cumsum([entries.size for entries in fetch])
            spans, rows = spans_of(self.indices[unique], self.plan.block_rows)
            yield {"requests": spans, "splits": np.split(rows[places], ends[:-1])}


def spans_of(
    positions: npt.NDArray[np.int64], max_gap: int
) -> tuple[list[slice], npt.NDArray[np.int64]]:
    """Return spans that have some positions, and which of their rows these are.  Pure.

    A span goes on over gaps that are not wider: to read a few rows more is faster than many spans.

    >>> spans_of(np.array([3, 4, 6, 20]), 2)
    ([slice(3, 7, None), slice(20, 21, None)], array([0, 1, 3, 4]))
    """
    breaks = np.flatnonzero(np.diff(positions) > max_gap) + 1
    starts = positions[np.concatenate([[0], breaks])]
    stops = positions[np.concatenate([breaks, [positions.size]]) - 1] + 1
    sizes = stops - starts
    owners = np.searchsorted(starts, positions, side="right") - 1
    rows = (np.cumsum(sizes) - sizes)[owners] + positions - starts[owners]
    return [slice(*span) for span in zip(starts.tolist(), stops.tolist(), strict=True)], rows


def _torch_worker() -> Consumer:
    """Return which worker of a DataLoader this is, if it is one; torch need not be there."""
    data = sys.modules.get("torch.utils.data")
    info = None if data is None else data.get_worker_info()
    return Consumer() if info is None else Consumer(0, 1, info.id, info.num_workers)


@cache
def _annbatch_class() -> Any:
    annbatch = optional_import("annbatch", extra="annbatch")
    return type("AnnbatchSampler", (_AnnbatchSampler, annbatch.abc.Sampler), {})


def _rebuilt_annbatch(*parts: Any) -> Any:
    return _annbatch_class()(*parts)


@dataclass(frozen=True)
class RowCollection:
    """The entries of a sampler as scDataset indexes them."""

    source: BlockSource

    def __len__(self) -> int:
        return len(self.source.rows)

    def __getitem__(self, entries: npt.NDArray[np.int64]) -> _Fetched:
        """Read the rows of some entries."""
        numbers = np.asarray(entries, np.int64)
        values = self.source.rows.read(numbers, is_dense=self.source.form == "dense")
        return _Fetched(self.source, values, numbers)


@dataclass(frozen=True)
class _Fetched:
    """Rows that were read at once, from which batches are taken."""

    source: BlockSource
    values: Any
    entries: npt.NDArray[np.int64]

    def __getitem__(self, rows: npt.NDArray[np.int64]) -> Batch:
        return self.source.batch(self.values[rows], self.entries[rows])


def scdataset(source: BlockSource) -> Any:
    """Return an scDataset of the same rows; see `Sampler.to_scdataset`."""
    package = optional_import("scdataset", extra="scdataset")
    plan = source.plan
    if source.weights is not None:
        strategy = package.BlockWeightedSampling(
            block_size=plan.block_rows, weights=source.weights, total_size=plan.entries
        )
    elif plan.is_shuffled:
        strategy = package.BlockShuffling(block_size=plan.block_rows)
    else:
        strategy = package.Streaming()
    return package.scDataset(
        RowCollection(source),
        strategy,
        plan.batch_rows,
        fetch_factor=plan.fetch_batches,
        drop_last=plan.drops_last,
        batch_transform=as_tensors,
        seed=plan.seed,
    )
