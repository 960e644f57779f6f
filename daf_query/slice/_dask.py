"""A slice as a Dask array: the grid of its blocks, and what their tasks read, by path.

No reader travels: a task carries positions, and opens a data set when the first block needs it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np

from daf_query.distributed import BlockKind, Source, block_array, reading
from daf_query.matrix import ConcatenatedAxis, Selection, other_layout_command, spans_of_length
from daf_query.slice._parts import Part, Whole
from daf_query.slice._reading import figures_of, read_whole
from daf_storage import errors
from daf_storage.base import Span

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
    """Which cuts of a part cost no more than to read it once."""

    can_cut: tuple[bool, bool]
    """Whether some rows can be read without the others, and some columns."""
    steps: tuple[int, int] = (1, 1)
    """How many rows are decoded together, from the first one on, and how many columns."""

    @classmethod
    def of(cls, part: Part) -> StoredOrder:
        """Return the cuts that the stored layouts of a part allow."""
        by_rows = [layout.rows_are_major for layout in part.layouts.found]
        stored = part.layouts.found[0].stored
        if stored.info.is_sparse:
            return cls((True in by_rows, False in by_rows))
        array = stored.dense().info
        if array.is_mappable or array.storage_type.is_string:
            return cls((True, True))
        steps = array.chunks[:2] if by_rows[0] else array.chunks[1::-1]
        # Only a selection from the first entry on ends where chunks do.
        rows, columns = (
            step if np.array_equal(each.positions, np.arange(each.size)) else 1
            for step, each in zip(steps, part.selections, strict=True)
        )
        return cls((True, True), (rows, columns))


def block_spans(whole: Whole, kind: BlockKind, sizes: BlockSizes) -> Spans:
    """Return the spans of the blocks.

    By default they are blocks of whole rows; of whole columns, if the matrix is stored by columns
    alone.  They end where stored chunks do.

    Raises
    ------
    InvalidInputError
        A size is no number of entries; or it cuts the axis along which each block would read
        everything.
    """
    given = [_checked("rows_per_block", sizes.rows), _checked("columns_per_block", sizes.columns)]
    is_one, orders = not whole.is_collection, [StoredOrder.of(m) for m in whole.members]
    if not is_one and given[1] is not None:
        raise errors.InvalidInputError(
            f"{whole.location}: blocks of a collection have all columns; leave out "
            "columns_per_block="
        )
    if given == [None, None]:
        figures = figures_of(whole)
        size_bytes = figures.csr_bytes if kind == "csr" else figures.dense_bytes
        needs_rows = not is_one or sizes.needs_rows
        number = 0 if needs_rows or orders[0].can_cut[0] else 1
        step = orders[0].steps[number] if is_one else 1
        given[number] = _fitting(size_bytes, whole.shape[number], step)
    for number, (size, length) in enumerate(zip(given, whole.shape, strict=True)):
        if size is not None and size < length:
            for member, order in zip(whole.members, orders, strict=True):
                if not order.can_cut[number]:
                    can_turn = is_one and not sizes.needs_rows
                    raise _costly(whole, member, number, -(-length // size), can_turn=can_turn)
    rows, columns = (_cut(length, size) for length, size in zip(whole.shape, given, strict=True))
    return rows, columns


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
    return list(spans_of_length(length, size or length)) if length else [Span(0, 0)]


def _costly(
    whole: Whole, part: Part, number: int, count: int, *, can_turn: bool
) -> errors.InvalidInputError:
    """Return the error of blocks each of which would read everything."""
    cut, other = whole.axis_names[number], whole.axis_names[1 - number]
    keyword, instead = ("rows", "columns") if number == 0 else ("columns", "rows")
    transposed = (
        f", or pass {instead}_per_block= instead of {keyword}_per_block=" if can_turn else ""
    )
    remedy = other_layout_command(part.daf, whole.name) or "relayout_matrix()"
    return errors.InvalidInputError(
        f"{part.daf.location}: the matrix {whole.name!r} is stored by {other!r} alone, so each of "
        f"{count:,} blocks of {cut!r} would read all that is selected; store the other layout with "
        f"{remedy}{transposed}"
    )


def slice_source(whole: Whole) -> Source:
    """Return how another process opens a slice: by the paths of its data sets.

    Raises
    ------
    InvalidInputError
        A data set was closed; or a matrix or an axis was replaced since the slice was made.
    """
    # Names and positions of the whole stay here; one path may be opened by several names.
    rows, columns = (ConcatenatedAxis(each.axis, each.location, {}) for each in whole.axes)
    selections = Selection.all(whole.shape[0]), Selection.all(whole.shape[1])
    members = (replace(each, name=str(n)) for n, each in enumerate(whole.members))
    with whole.unchanged_axes():
        distant = replace(
            whole, axes=(rows, columns), selections=selections, members=tuple(members)
        )
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
                [part] = whole.members
                of_rows, of_all = part.selections
                taken = of_all.take(np.arange(columns.start, columns.stop))
                whole = Whole.of(part.at(of_rows, taken))
            return read_whole(whole)


def dask_array(whole: Whole, sizes: BlockSizes, blocks: BlockKind | None) -> Any:
    """Return a slice as a Dask array; see `MatrixSlice.to_dask`."""
    kind: BlockKind = ("csr" if whole.is_sparse else "dense") if blocks is None else blocks
    if kind not in ("csr", "dense"):
        raise errors.InvalidInputError(f"blocks={blocks!r} is neither 'csr' nor 'dense'")
    if kind == "csr" and whole.dtype == np.dtype(object):
        raise errors.UnsupportedInputError(
            "blocks='csr': a matrix of strings has no sparse blocks; pass 'dense'"
        )
    spans = block_spans(whole, kind, sizes)
    return block_array(ReadBlock(slice_source(whole)), spans, kind, whole.dtype)
