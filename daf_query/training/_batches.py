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
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeAlias, TypedDict, Unpack, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.distributed import opened
from daf_query.slice import MatrixSlice, slice_source
from daf_query.table import AxisDataset
from daf_query.training._splits import Keys, checked_seed, mixed, seed_key
from daf_storage import DafReader, errors
from daf_storage._lazy import sp

Form: TypeAlias = Literal["dense", "sparse"]
"""Whether a batch is dense, or CSR."""

Draw: TypeAlias = Literal["once", "weighted"]
"""Whether each entry comes once an epoch, or is drawn by its weight, with replacement."""

Batch: TypeAlias = dict[str, Any]
"""``x``, the rows; ``index``, their positions along the axis; and each label by its name."""

Entries: TypeAlias = npt.NDArray[np.int64]
"""Numbers of the entries of a sampler, from 0."""

_RESERVED: Final = ("x", "index")
_UNIT: Final = 2.0**-53
_DRAWN, _BLOCKS, _WITHIN = range(3)


@dataclass(frozen=True, eq=False, repr=False)
class Sampled:
    """Entries of an axis whose rows are read; a `Sampler` has splits as well."""

    axis: str
    """The axis whose entries they are."""
    indices: npt.NDArray[np.int64]
    """The 0-based positions along the axis, ascending, each once, shape ``(len(sampler),)``.  Of
    a collection they count through, as the rows of the union table do."""
    names: pa.Array
    """The name of each entry, strings."""
    weights: npt.NDArray[np.float64] | None
    """The weight of each entry: finite, not negative; None if there are none."""
    lengths: Mapping[str, int]
    """How many entries the axis has in each data set, by its name."""


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
    is_shuffled: bool = True
    """Whether blocks and the rows of a fetch are shuffled; else all come in their order."""
    drops_last: bool = False
    """Whether batches that are not full are left out, and every rank has equally many."""

    def __post_init__(self) -> None:
        for name in ("entries", "batch_rows", "block_rows", "fetch_batches"):
            value: object = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                keyword = "rows_per_epoch" if name == "entries" else name
                raise errors.InvalidInputError(
                    f"{keyword}={value!r} is no positive number; pass 1 or more"
                )

    def batch_count(self, consumer: Consumer) -> int:
        """Return how many batches the rank of a consumer has; its workers share them."""
        start, stop = self._range(consumer)
        return -(-(stop - start) // self.batch_rows)

    def batches(self, epoch: int, consumer: Consumer) -> Iterator[list[Entries]]:
        """Yield fetches: the entries of each batch of a fetch, in the order of the batch."""
        start, stop = self._range(consumer)
        height = self.batch_rows * (self.fetch_batches if self.is_shuffled else 1)
        blocks = np.arange(-(-self.entries // self.block_rows))
        if self.is_shuffled:
            blocks = blocks[np.argsort(_random(blocks, self.seed, epoch, _BLOCKS), kind="stable")]
        sizes = np.minimum(self.entries - blocks * self.block_rows, self.block_rows)
        starts = np.cumsum(sizes) - sizes  # of each block in the sequence
        first = start + consumer.worker * height
        for begin in range(first, stop, consumer.workers * height):
            places = np.arange(begin, min(begin + height, stop))
            owners = np.searchsorted(starts, places, side="right") - 1
            entries = blocks[owners] * self.block_rows + places - starts[owners]
            if self.is_shuffled:
                keys = _random(places, self.seed, epoch, _WITHIN)
                entries = entries[np.argsort(keys, kind="stable")]
            yield np.split(entries, range(self.batch_rows, entries.size, self.batch_rows))

    def _range(self, consumer: Consumer) -> tuple[int, int]:
        """Return the part of the sequence that a rank has."""
        start = consumer.rank * self.entries // consumer.ranks
        stop = (consumer.rank + 1) * self.entries // consumer.ranks
        if self.drops_last:
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
    """Of each entry, which row of the slice it is; ascending."""
    indices: npt.NDArray[np.int64]
    """The position of each entry along the axis."""
    labels: Mapping[str, npt.NDArray[Any]]
    """Of each entry; of strings, the number of the class, -1 if missing."""
    classes: Mapping[str, pa.Array]
    """Of labels that are strings, the values, sorted: those of all entries of the axis, so that
    numbers are the same in each split."""
    weights: npt.NDArray[np.float64] | None
    """What entries are drawn by; None if each comes once."""
    plan: BlockPlan
    form: Form

    def __reduce__(self) -> Any:
        """Pickle the slice as a source."""
        state = {field.name: getattr(self, field.name) for field in fields(self)}
        return _source_again, ({**state, "part": slice_source(self.part.whole)},)

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


def _source_again(state: dict[str, Any]) -> RowSource:
    return RowSource(**{**state, "part": MatrixSlice(opened(state["part"]))})


def row_source(sampler: Sampled, part: MatrixSlice, **choice: Unpack[BlockChoice]) -> RowSource:
    """Return what is read of a slice for the entries of a sampler; see `Sampler.blocks`."""
    available = BlockChoice.__annotations__
    for name in choice:
        if name not in available:
            raise errors.InvalidInputError(
                f"there is no {name}= of batches; there is "
                f"{errors.shown_names(available, none='none')}{errors.nearest(name, available)}"
            )
    form = choice.get("form", "dense")
    if form not in get_args(Form):
        raise errors.InvalidInputError(f"form={form!r} is neither 'dense' nor 'sparse'")
    weights, count = _weights(sampler, choice.get("draw")), choice.get("rows_per_epoch")
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
    offsets = _offsets(part, sampler)
    labels, classes = _labels(part, sampler, choice.get("labels", ()))
    return RowSource(part, offsets, sampler.indices, labels, classes, weights, plan, form)


def _weights(sampler: Sampled, draw: Draw | None) -> npt.NDArray[np.float64] | None:
    """Return the weights that entries are drawn by; None if each comes once."""
    if draw not in (None, *get_args(Draw)):
        raise errors.InvalidInputError(f"draw={draw!r} is neither 'once' nor 'weighted'")
    if draw == "weighted" and sampler.weights is None:
        raise errors.InvalidInputError(
            "draw='weighted' needs weights; make the sampler with weights="
        )
    return None if draw == "once" else sampler.weights


def _offsets(part: MatrixSlice, sampler: Sampled) -> Entries:
    """Return which row of a slice each entry of a sampler is.

    Raises
    ------
    InvalidInputError
        The rows are of another axis or data set; or the slice lacks some of them; or it is of
        strings.
    """
    _check_axis(part, sampler)
    if part.dtype == np.dtype(object):
        raise errors.InvalidInputError(f"the matrix {part.name!r} holds strings, not numbers")
    positions = part.row_positions
    if not np.all(positions[1:] > positions[:-1]):
        raise errors.InvalidInputError(
            f"the rows of this slice of {part.name!r} are not in the order of axis "
            f"{part.rows_axis!r}; leave rows= out, since the sampler chooses them"
        )
    offsets = np.searchsorted(positions, sampler.indices)
    is_there = offsets < positions.size
    is_there[is_there] = positions[offsets[is_there]] == sampler.indices[is_there]
    if not is_there.all():
        first = sampler.names[int(np.argmin(is_there))].as_py()
        raise errors.InvalidInputError(
            f"this slice of {part.name!r} lacks {int((~is_there).sum()):,} of the "
            f"{is_there.size:,} entries of the sampler, the first is {first!r}; leave rows= out, "
            "or make the sampler with the same where="
        )
    return offsets


def _check_axis(part: MatrixSlice, sampler: Sampled) -> None:
    if not isinstance(part, MatrixSlice):
        raise errors.InvalidInputError(
            f"rows are read from a slice, not {type(part).__name__}; pass "
            f"db.matrix({sampler.axis!r}, 'gene', 'X'), of which nothing is read yet"
        )
    if part.rows_axis != sampler.axis:
        raise errors.InvalidInputError(
            f"the rows of this slice of {part.name!r} are of axis {part.rows_axis!r}, the sampler "
            f"is of {sampler.axis!r}; swap the axes: db.matrix({part.columns_axis!r}, "
            f"{part.rows_axis!r}, {part.name!r})"
        )
    if part.whole.along:
        raise errors.InvalidInputError(
            f"the rows of this slice of {part.name!r} are aligned by name over several data sets; "
            f"make it with along={sampler.axis!r}"
        )
    for member in part.whole.members:
        length, has = member.daf.axis_length(sampler.axis), sampler.lengths.get(member.name)
        if has != length:
            raise errors.InvalidInputError(
                f"the sampler is not of these data sets: axis {sampler.axis!r} of {member.name!r} "
                f"has {length:,} entries here, and {'none' if has is None else f'{has:,}'} in the "
                "sampler; make it of the same session"
            )


def _labels(
    part: MatrixSlice, sampler: Sampled, names: str | Sequence[str]
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, pa.Array]]:
    """Return vectors of the rows axis as numbers, and the classes of those that are strings.

    Raises
    ------
    VectorNotFoundError
        A data set has no such vector.
    InvalidInputError
        A name is that of something else in a batch; or vectors of several data sets differ in type.
    """
    readers = {member.name: member.daf for member in part.whole.members}
    values, classes = {}, {}
    for name in [names] if isinstance(names, str) else names:
        if name in _RESERVED:
            raise errors.InvalidInputError(
                f"a label cannot be called {name!r}, since a batch has this already; store the "
                "vector by another name"
            )
        whole = _whole(readers, sampler, name)
        column = whole.take(pa.array(sampler.indices))
        if pa.types.is_large_string(column.type):
            distinct = pc.unique(whole).drop_null()
            classes[name] = distinct.take(pc.array_sort_indices(distinct))
            codes = pc.index_in(column, value_set=classes[name])
            values[name] = codes.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        else:
            values[name] = column.to_numpy(zero_copy_only=False)
    return values, classes


def _whole(readers: Mapping[str, DafReader], sampler: Sampled, name: str) -> pa.Array:
    """Return a vector of all data sets, of those that the slice lacks NULL."""
    parts = {each: _vector(daf, sampler.axis, name) for each, daf in readers.items()}
    types = {part.type for part in parts.values()}
    if len(types) > 1:
        listed = ", ".join(sorted(map(str, types)))
        raise errors.InvalidInputError(
            f"the vector {name!r} holds {listed} in different data sets; a label has one type"
        )
    [kind] = types
    lacking = (parts.get(each) for each in sampler.lengths)
    return pa.concat_arrays(
        pa.nulls(length, kind) if part is None else part
        for part, length in zip(lacking, sampler.lengths.values(), strict=True)
    )


def _vector(daf: DafReader, axis: str, name: str) -> pa.Array:
    """Return a vector as queries have it: missing strings are null."""
    if not daf.has_vector(axis, name):
        raise errors.vector_not_found(daf.location, axis, name, daf.vectors_set(axis))
    column = AxisDataset(daf, axis).to_table(columns=[name]).column(0)
    is_string = pa.types.is_string(column.type) or pa.types.is_string_view(column.type)
    column = column.cast(pa.large_string()) if is_string else column
    return pa.concat_arrays(column.chunks) if column.chunks else pa.array([], column.type)


class RowBlocks:
    """Batches of rows in an order that epoch and seed make; `Sampler.blocks` makes one.

    Iterating over it yields the batches of an epoch: of all workers, unless `of_worker` says which.
    """

    def __init__(self, source: RowSource, consumer: Consumer | None = None) -> None:
        self.source = source
        self._consumer = Consumer() if consumer is None else consumer
        self._epoch = 0

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
        plan, part = self.source.plan, self.source.part
        weighted = ", drawn by weight" if self.source.weights is not None else ""
        return (
            f"{type(self).__name__}({plan.entries:,} rows x {part.shape[1]:,}{weighted}, "
            f"in batches of {plan.batch_rows:,})"
        )


def checked_epoch(epoch: object) -> int:
    """Return the number of an epoch."""
    if isinstance(epoch, bool) or not isinstance(epoch, int | np.integer) or epoch < 0:
        raise errors.InvalidInputError(f"epoch {epoch!r} is none; they count from 0")
    return int(epoch)
