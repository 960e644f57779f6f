"""Rows of a matrix in shuffled batches, epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.slice import MatrixSlice
from daf_query.training._block_plan import BlockPlan, Consumer, drawn
from daf_query.training._entry_keys import checked_seed
from daf_query.training._labels import Labels, labels_of
from daf_query.training._matrix_rows import MatrixRows, rows_of
from daf_query.training._sampled import Sampled
from daf_storage import errors

Form: TypeAlias = Literal["dense", "sparse"]
"""Whether a batch is dense, or CSR."""

Draw: TypeAlias = Literal["once", "weighted"]
"""Whether each entry comes once an epoch, or is drawn by its weight, with replacement."""

Batch: TypeAlias = dict[str, Any]
"""``x``, the rows; ``index``, their positions along the axis; and each label by its name."""


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


@dataclass(frozen=True)
class BlockSource:
    """What the batches of all epochs are made of."""

    rows: MatrixRows
    labels: Labels
    indices: npt.NDArray[np.int64]
    """The position of each entry along the axis."""
    weights: npt.NDArray[np.float64] | None
    """What entries are drawn by; None if each comes once."""
    plan: BlockPlan
    form: Form

    def batches(self, epoch: int, consumer: Consumer) -> Iterator[Batch]:
        """Yield the batches of a worker in an epoch; a fetch of them is read at once."""
        for order in ordered_batches(self.plan, self.weights, epoch, consumer):
            fetched = np.concatenate(order)
            values = self.rows.read(fetched, is_dense=self.form == "dense")
            start = 0
            for entries in order:
                stop = start + entries.size
                yield self.batch(values[start:stop], entries)
                start = stop

    def batch(self, values: Any, entries: npt.NDArray[np.int64]) -> Batch:
        """Return a batch of rows that were read."""
        return {"x": values, "index": self.indices[entries], **self.labels.of(entries)}


def ordered_batches(
    plan: BlockPlan,
    weights: npt.NDArray[np.float64] | None,
    epoch: int,
    consumer: Consumer,
) -> Iterator[list[npt.NDArray[np.int64]]]:
    """Yield fetches: the entries of each batch of a fetch, those that weights draw if there are."""
    if weights is None:
        yield from plan.batches(epoch, consumer)
        return
    entries = drawn(weights, plan.entries, plan.seed, epoch)
    for fetch in plan.batches(epoch, consumer):
        yield [entries[places] for places in fetch]


def block_source(sampler: Sampled, part: MatrixSlice, **choice: Unpack[BlockChoice]) -> BlockSource:
    """Return what is read of a slice for the entries of a sampler; see `Sampler.blocks`."""
    form = choice.get("form", "dense")
    if form not in get_args(Form):
        raise errors.InvalidInputError(f"form={form!r} is neither 'dense' nor 'sparse'")
    plan, weights = block_plan(sampler, **choice)
    rows = rows_of(part, sampler)
    labels = labels_of(part, sampler, choice.get("labels", ()))
    return BlockSource(rows, labels, sampler.indices, weights, plan, form)


def block_plan(
    sampler: Sampled, **choice: Unpack[BlockChoice]
) -> tuple[BlockPlan, npt.NDArray[np.float64] | None]:
    """Return how the entries become batches, and the weights that they are drawn by."""
    for name in choice:
        if name not in BlockChoice.__annotations__:
            raise errors.InvalidInputError(
                f"there is no {name}= of batches; there is "
                f"{errors.known_names(BlockChoice.__annotations__, none='none')}"
                f"{errors.nearest(name, BlockChoice.__annotations__)}"
            )
    weights = drawing_weights(sampler, choice.get("draw"))
    count = choice.get("rows_per_epoch")
    if count is not None and weights is None:
        raise errors.InvalidInputError(
            "rows_per_epoch= is for entries that are drawn by weight; make the sampler with "
            "weights=, or leave it out: each of its entries comes once"
        )
    plan = BlockPlan(
        sampler.indices.size if count is None else count,
        choice.get("batch_rows", 256),
        choice.get("block_rows", 16),
        choice.get("fetch_batches", 16),
        checked_seed(choice.get("seed", 0)),
        choice.get("shuffle", True),
        choice.get("drop_last", False),
    )
    return plan, weights


def drawing_weights(sampler: Sampled, draw: Draw | None) -> npt.NDArray[np.float64] | None:
    """Return the weights that entries are drawn by; None if each comes once."""
    if draw is None:
        return sampler.weights
    if draw not in get_args(Draw):
        raise errors.InvalidInputError(f"draw={draw!r} is neither 'once' nor 'weighted'")
    if draw == "weighted" and sampler.weights is None:
        raise errors.InvalidInputError(
            "draw='weighted' needs weights; make the sampler with weights="
        )
    return sampler.weights if draw == "weighted" else None


class RowBlocks:
    """Batches of rows in an order that epoch and seed make; `Sampler.blocks` makes one.

    Iterating over it yields the batches of an epoch: of all workers, unless `of_worker` says which.
    """

    def __init__(self, source: BlockSource, consumer: Consumer | None = None) -> None:
        self.source = source
        self._consumer = Consumer() if consumer is None else consumer
        self._epoch = 0

    @property
    def classes(self) -> dict[str, pa.Array]:
        """Of labels that are strings, the string of each number."""
        return dict(self.source.labels.classes)

    @property
    def epoch(self) -> int:
        """The epoch that comes next, from 0."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes next: each has another order, always the same."""
        self._epoch = checked_epoch(epoch)

    def of_worker(
        self, *, rank: int = 0, ranks: int = 1, worker: int = 0, workers: int = 1
    ) -> RowBlocks:
        """Return what a worker of a rank reads: all of them together read every batch once."""
        blocks = RowBlocks(self.source, Consumer(rank, ranks, worker, workers))
        blocks.set_epoch(self.epoch)
        return blocks

    def __len__(self) -> int:
        """How many batches the rank has in an epoch, over all of its workers."""
        return self.source.plan.batch_count(self._consumer)

    def __iter__(self) -> Iterator[Batch]:
        return self.source.batches(self.epoch, self._consumer)

    def __repr__(self) -> str:
        plan, rows = self.source.plan, self.source.rows
        weighted = ", drawn by weight" if self.source.weights is not None else ""
        return (
            f"{type(self).__name__}({plan.entries:,} rows x {rows.part.shape[1]:,}{weighted}, "
            f"in batches of {plan.batch_rows:,})"
        )


def checked_epoch(epoch: object) -> int:
    """Return the number of an epoch."""
    if isinstance(epoch, bool) or not isinstance(epoch, int | np.integer) or epoch < 0:
        raise errors.InvalidInputError(f"epoch {epoch!r} is none; they count from 0")
    return int(epoch)
