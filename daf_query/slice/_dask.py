"""A slice as a Dask array: the grid of its blocks, and what their tasks read, by path.

No reader travels: a task carries positions, and opens a data set when the first block needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np

from daf_query.distributed import BlockKind, Source, block_array, reading
from daf_query.matrix import Selection, open_layouts, other_layout_command
from daf_query.slice._base import SliceBase
from daf_query.slice._reading import figures_of, read_whole
from daf_query.slice._whole import Side, Whole
from daf_storage import errors
from daf_storage.base import Span
from daf_storage.data import StoredMatrix

DASK_BLOCK_BYTES: Final = 64 << 20
"""About how large a block of a Dask array is by default: 64 MiB."""

Spans: TypeAlias = tuple[list[Span], list[Span]]
"""The rows of each row of blocks, and the columns of each column of blocks."""


@dataclass(frozen=True, slots=True)
class BlockSizes:
    """The sizes that a caller gives."""

    rows: int | None = None
    """``rows_per_block``."""
    columns: int | None = None
    """``columns_per_block``."""
    needs_rows: bool = False
    """Whether blocks have to have all columns, as scanpy wants them."""


@dataclass(frozen=True, slots=True)
class StoredOrder:
    """Which cuts of a matrix cost no more than to read it once."""

    by_rows: bool
    """Whether some rows can be read without the others."""
    by_columns: bool
    """Whether some columns can be."""
    row_step: int = 1
    """How many rows are decoded together, from the first one on."""
    column_step: int = 1
    """How many columns are."""


@dataclass(frozen=True, slots=True)
class GridFacts:
    """What a grid of blocks follows from."""

    location: str
    """Where the matrix is, for messages."""
    name: str
    axes: tuple[str, str]
    shape: tuple[int, int]
    size_bytes: int
    """Of all blocks in memory, about."""
    order: StoredOrder
    remedy: str
    """What stores the other layout, for messages."""
    are_several: bool = False
    """Whether it is a matrix of several data sets, whose blocks have all columns."""


def stored_order(
    stored: Sequence[StoredMatrix], rows_axis: str, rows: Selection, columns: Selection
) -> StoredOrder:
    """Return the cuts that the stored layouts of a matrix allow.

    Parameters
    ----------
    rows, columns
        What is selected: only a selection from the first entry on ends where chunks do.
    """
    # Whether the stored columns are the rows of the slice, as in `find_layouts`.
    by_rows = [each.info.is_row_major or each.info.rows_axis != rows_axis for each in stored]
    if stored[0].info.is_sparse:
        return StoredOrder(by_rows=True in by_rows, by_columns=False in by_rows)
    array = stored[0].dense()
    if array.info.is_mappable or array.info.storage_type.is_string:
        return StoredOrder(by_rows=True, by_columns=True)
    majors, minors = array.info.chunks[:2]
    steps = (majors, minors) if by_rows[0] else (minors, majors)
    row_step, column_step = (
        step if _is_from_start(selection) else 1
        for step, selection in zip(steps, (rows, columns), strict=True)
    )
    return StoredOrder(by_rows=True, by_columns=True, row_step=row_step, column_step=column_step)


def _is_from_start(selection: Selection) -> bool:
    positions = selection.positions
    return selection.is_all or bool(np.array_equal(positions, np.arange(positions.size)))


def block_spans(facts: GridFacts, sizes: BlockSizes) -> Spans:
    """Return the spans of the blocks.

    By default they are blocks of whole rows; of whole columns, if the matrix is stored by columns
    alone.  They end where stored chunks do.

    Raises
    ------
    InvalidInputError
        A size is no number of entries; or it cuts the axis along which each block would read
        everything.
    """
    n_rows, n_columns = facts.shape
    rows = _checked("rows_per_block", sizes.rows)
    columns = _checked("columns_per_block", sizes.columns)
    order = facts.order
    if facts.are_several and columns is not None:
        raise errors.InvalidInputError(
            f"{facts.location}: blocks of several data sets as one have all columns; leave out "
            "columns_per_block="
        )
    if rows is None and columns is None:
        if order.by_rows or facts.are_several or sizes.needs_rows:
            rows = _fitting(facts.size_bytes, n_rows, order.row_step)
        else:
            columns = _fitting(facts.size_bytes, n_columns, order.column_step)
    can_turn = not (facts.are_several or sizes.needs_rows)
    if not order.by_rows:
        _refuse(facts, "rows", rows, n_rows, can_turn=can_turn)
    if not order.by_columns:
        _refuse(facts, "columns", columns, n_columns, can_turn=can_turn)
    return _cut(n_rows, rows), _cut(n_columns, columns)


def _checked(keyword: str, size: object) -> int | None:
    if size is None:
        return None
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
        raise errors.InvalidInputError(f"{keyword}={size!r} is no positive number; pass 1 or more")
    return int(size)


def _fitting(size_bytes: int, length: int, step: int) -> int:
    """Return how many entries a block has.

    >>> _fitting(3 * DASK_BLOCK_BYTES, 300, 1), _fitting(3 * DASK_BLOCK_BYTES, 300, 40)
    (100, 80)
    """
    count = max(length * DASK_BLOCK_BYTES // max(size_bytes, 1), 1)
    return max(count // step * step, step)


def _cut(length: int, size: int | None) -> list[Span]:
    """Return spans of a size; of nothing, one empty span.

    >>> _cut(5, 2)
    [Span(start=0, stop=2), Span(start=2, stop=4), Span(start=4, stop=5)]
    >>> _cut(0, 2)
    [Span(start=0, stop=0)]
    """
    if size is None or length == 0:
        return [Span(0, length)]
    return [Span(start, min(start + size, length)) for start in range(0, length, size)]


def _refuse(
    facts: GridFacts, keyword: str, size: int | None, length: int, *, can_turn: bool
) -> None:
    """Refuse blocks each of which would read everything."""
    if size is None or size >= length:
        return
    cut, other = facts.axes if keyword == "rows" else facts.axes[::-1]
    instead = "columns" if keyword == "rows" else "rows"
    turned = f", or pass {instead}_per_block= instead of {keyword}_per_block=" if can_turn else ""
    raise errors.InvalidInputError(
        f"{facts.location}: the matrix {facts.name!r} is stored by {other!r} alone, so each of "
        f"{-(-length // size):,} blocks of {cut!r} would read all that is selected; store the "
        f"other layout with {facts.remedy}{turned}"
    )


def grid_facts(whole: Whole, kind: BlockKind) -> GridFacts:
    """Return what the grid of blocks follows from; metadata are read.

    Raises
    ------
    FormatError
        No stored layout of a matrix is whole.
    """
    axes = (whole.rows.axis, whole.columns.axis)
    figures = figures_of(whole)
    size_bytes = figures.csr_bytes if kind == "csr" else figures.dense_bytes
    is_one = whole.joined is None
    culprit = whole.members[0].part if is_one else None
    order = StoredOrder(by_rows=True, by_columns=False)
    for part in (member.part for member in whole.members):
        stored, faults = open_layouts(part.daf, axes, part.name)
        if not stored:
            raise faults[0]
        own = stored_order(stored, axes[0], *part.selections)
        if is_one:
            order = own
        elif not own.by_rows and culprit is None:
            order, culprit = StoredOrder(by_rows=False, by_columns=False), part
    location, remedy = whole.location, ""
    if culprit is not None:
        location = culprit.daf.location
        remedy = other_layout_command(culprit.daf, whole.name) or "relayout_matrix()"
    return GridFacts(
        location, whole.name, axes, whole.shape, size_bytes, order, remedy, are_several=not is_one
    )


def slice_source(part: SliceBase) -> Source:
    """Return how another process opens a slice: by the paths of its data sets.

    Raises
    ------
    InvalidInputError
        A data set was closed; or a matrix or an axis was replaced since the slice was made.
    """
    whole = part.whole
    sides = (Side(each.axis, Selection.all(each.selection.size)) for each in whole.sides)
    rows, columns = sides  # names and positions of the whole stay here
    # One path may be opened by several names.
    members = (replace(each, name=str(n)) for n, each in enumerate(whole.members))
    with part.unchanged_axes():
        distant = replace(whole, rows=rows, columns=columns, members=tuple(members), joined=None)
        return Source.of(distant, f"the matrix {whole.name!r} or one of its axes")


@dataclass(frozen=True, slots=True)
class ReadBlock:
    """Reads a block of a slice, which a task opens when it is first needed."""

    source: Source

    def __call__(self, rows: Span, columns: Span) -> Any:
        """Return the values of a block: ``csr_array`` if any is stored sparse, else ``ndarray``."""
        with reading(self.source) as opened:
            whole: Whole = opened.of_rows(rows)
            if columns.size < whole.shape[1]:  # of one data set, which has them all
                chosen = Selection.all(columns.size)
                [member] = whole.members
                of_rows, of_all = member.part.selections
                part = member.part.at(of_rows, of_all.part(columns.start, columns.stop))
                whole = replace(
                    whole,
                    columns=Side(whole.columns.axis, chosen),
                    members=(replace(member, part=part, columns=chosen),),
                )
            return read_whole(whole)


def dask_array(part: SliceBase, sizes: BlockSizes, blocks: BlockKind | None) -> Any:
    """Return a slice as a Dask array; see `MatrixSlice.to_dask`."""
    whole = part.whole
    kind: BlockKind = ("csr" if whole.is_sparse else "dense") if blocks is None else blocks
    if kind not in ("csr", "dense"):
        raise errors.InvalidInputError(f"blocks={blocks!r} is neither 'csr' nor 'dense'")
    if kind == "csr" and whole.dtype == np.dtype(object):
        raise errors.UnsupportedInputError(
            "blocks='csr': a matrix of strings has no sparse blocks; pass 'dense'"
        )
    spans = block_spans(grid_facts(whole, kind), sizes)
    return block_array(ReadBlock(slice_source(part)), spans, kind, whole.dtype)
