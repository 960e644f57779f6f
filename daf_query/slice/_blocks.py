"""A slice in blocks: of rows, as people write their sizes, and for the tasks of Dask."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from daf_query._calls import positive_number
from daf_query.distributed import BlockKind, Source, reading, token_of
from daf_query.matrix import (
    ConcatenatedAxis,
    Selection,
    cut_at,
    other_layout_command,
)
from daf_query.slice._parts import Figures, Part, Whole, figures_of, read_whole, row_sizes
from daf_storage import errors
from daf_storage._lazy import sp
from daf_storage.base import Span, check_choice, optional_import, spans_of_length

ByteSize: TypeAlias = float | str
"""A number of bytes, or text with a unit: ``500MB`` (a million bytes each), ``2GiB`` (2**30)."""

_PREFIXES: Final = "kmgt"
_SIZE: Final = re.compile(
    r"\s*(\d+(?:\.\d+)?|\.\d+)\s*(?:([kmgt])(i)?)?(?:b|bytes?)?\s*", re.IGNORECASE
)


def byte_count(size: object, *, keyword: str = "max_bytes") -> int:
    """Return a size as a number of bytes.

    Parameters
    ----------
    keyword
        The argument whose value it is, for messages.

    Raises
    ------
    InvalidInputError
        It is no size, or negative.

    Examples
    --------
    >>> byte_count("2GB"), byte_count("1.5 KiB")
    (2000000000, 1536)
    """
    if (
        isinstance(size, int | float | np.integer | np.floating)
        and not isinstance(size, bool)
        and 0 <= size < math.inf
    ):
        return int(size)
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if match is None:
        raise errors.InvalidInputError(
            f"{keyword}={size!r} is no size; pass a number of bytes, or text such as '500MB' or "
            "'2GiB'"
        )
    number, prefix, is_binary = match.groups()
    power = 0 if prefix is None else _PREFIXES.index(prefix.lower()) + 1
    return int(float(number) * (1024 if is_binary else 1000) ** power)


BLOCK_BYTES: Final = 128 << 20
"""How large a block is by default, and a slice that is saved as a whole: 128 MiB."""


def row_spans(figures: Figures, rows: object, max_bytes: ByteSize | None) -> Iterator[Span]:
    """Return the spans of the rows of each block; see `MatrixSlice.blocks`.

    Raises
    ------
    InvalidInputError
        Both sizes are given, or one that is no size.
    """
    if rows is None:
        budget = byte_count(BLOCK_BYTES if max_bytes is None else max_bytes)
        if budget == 0:
            raise errors.InvalidInputError("max_bytes=0 has no room for a row; pass a larger one")
        if figures.whole.is_sparse:
            return cut_at(row_sizes(figures, are_exact=True), budget - figures.index_bytes)
        row_bytes = max(figures.whole.shape[1] * figures.item_bytes, 1)
        return spans_of_length(figures.whole.shape[0], max(budget // row_bytes, 1))
    if max_bytes is not None:
        raise errors.InvalidInputError("blocks() takes rows= or max_bytes=, not both")
    return spans_of_length(figures.whole.shape[0], positive_number(rows, "rows"))


DASK_BLOCK_BYTES: Final = 64 << 20
"""About how large a block of a Dask array is by default: 64 MiB."""


def _row_step(part: Part) -> int:
    """Return how many rows are decoded together, from the first one on.

    0 if the matrix is stored by columns alone, of which each row would read all.
    """
    first = part.layouts.found[0]
    if first.stored.info.is_sparse:
        return int(any(layout.rows_are_major for layout in part.layouts.found))
    array, rows = first.stored.dense().info, part.selections[0].positions
    # Only a selection from the first entry on ends where chunks do.
    is_cut = not (array.is_mappable or array.storage_type.is_string)
    is_from_first = is_cut and np.array_equal(rows, np.arange(rows.size))
    return array.chunks[0 if first.rows_are_major else 1] if is_from_first else 1


def block_spans(
    whole: Whole, kind: BlockKind, rows: int | None, *, needs_rows: bool
) -> tuple[list[Span], list[Span]]:
    """Return the rows of each row of blocks, and the columns of each column of blocks.

    By default they are blocks of whole rows; of whole columns, if the matrix is stored by columns
    alone.  They end where stored chunks do.

    Raises
    ------
    InvalidInputError
        The size is no number of rows; or each block would read everything.
    """
    steps, number = [_row_step(part) for part in whole.members], 0
    can_turn = not (needs_rows or whole.is_collection)
    if rows is None:
        figures = figures_of(whole)
        size_bytes = figures.csr_bytes if kind == "csr" else figures.dense_bytes
        step = 1 if whole.is_collection else steps[0]
        number = 1 if can_turn and not step else 0
        count = whole.shape[number] * DASK_BLOCK_BYTES // max(size_bytes, 1)
        size = max(count // max(step, 1), 1) * max(step, 1)
    else:
        size = positive_number(rows, "rows_per_block")
    for part, step in zip(whole.members, steps, strict=True):
        if not (number or step) and size < whole.shape[0]:
            raise _costly(whole, part, -(-whole.shape[0] // size), can_turn=can_turn)
    both = [_cut(length, None) for length in whole.shape]
    both[number] = _cut(whole.shape[number], size)
    return both[0], both[1]


def _cut(length: int, size: int | None) -> list[Span]:
    """Return spans of a size; of nothing, one empty span.

    >>> _cut(5, 2)
    [Span(start=0, stop=2), Span(start=2, stop=4), Span(start=4, stop=5)]
    >>> _cut(0, 2)
    [Span(start=0, stop=0)]
    """
    return list(spans_of_length(length, size or length)) if length else [Span(0, 0)]


def _costly(whole: Whole, part: Part, count: int, *, can_turn: bool) -> errors.InvalidInputError:
    """Return the error of blocks each of which would read everything."""
    cut, other = whole.axis_names
    blocks = f", or leave rows_per_block= out for blocks of {other!r}" if can_turn else ""
    remedy = other_layout_command(part.daf, whole.name) or "relayout_matrix()"
    return errors.InvalidInputError(
        f"{part.daf.location}: the matrix {whole.name!r} is stored by {other!r} alone, so each of "
        f"{count:,} blocks of {cut!r} would read all that is selected; store the other layout with "
        f"{remedy}{blocks}"
    )


def slice_source(whole: Whole) -> Source:
    """Return how another process opens a slice: by the paths of its data sets.

    Raises
    ------
    InvalidInputError
        A data set was closed; or a matrix or an axis was replaced since the slice was made.
    """
    # Names and positions of the whole stay here; one path may be opened by several names.
    rows, columns = (
        ConcatenatedAxis(each.axis, each.location, {}, length=0) for each in whole.axes
    )
    selections = Selection.all(whole.shape[0]), Selection.all(whole.shape[1])
    members = (replace(each, name=str(n)) for n, each in enumerate(whole.members))
    distant = replace(whole, axes=(rows, columns), selections=selections, members=tuple(members))
    return source_of(distant)


def source_of(whole: Whole) -> Source:
    """Return how another process opens a slice, with its names and positions."""
    with whole.unchanged_axes():
        return Source.of(whole, f"the matrix {whole.name!r} or one of its axes")


def read_block(
    source: Source, kind: BlockKind, dtype: np.dtype[Any], rows: Span, columns: Span
) -> Any:
    """Return the values of a block of a slice, which whoever gets it may change.

    The slice is opened when a task first needs it.
    """
    with reading(source) as opened:
        whole: Whole = opened.of_rows(rows)
        if columns.size < whole.shape[1]:  # of one data set, which has them all
            [part] = whole.members
            of_rows, of_all = part.selections
            taken = of_all.take(np.arange(columns.start, columns.stop))
            whole = Whole.of(part.at(of_rows, taken))
        values = read_whole(whole)
    if kind == "csr":
        return sp.csr_matrix(values).astype(dtype, copy=False)
    dense = values.toarray() if sp.issparse(values) else values
    return np.require(dense, dtype, ["C", "W"])


def dask_array(
    whole: Whole,
    rows: int | None = None,
    blocks: BlockKind | None = None,
    *,
    needs_rows: bool = False,
) -> Any:
    """Return a slice as a Dask array; see `MatrixSlice.to_dask`.

    Parameters
    ----------
    needs_rows
        Whether blocks have to have all columns, as scanpy wants them.
    """
    kind: BlockKind = ("csr" if whole.is_sparse else "dense") if blocks is None else blocks
    check_choice(kind, BlockKind, "blocks")
    if kind == "csr" and whole.dtype == np.dtype(object):
        raise errors.UnsupportedInputError(
            "blocks='csr': a matrix of strings has no sparse blocks; pass 'dense'"
        )
    spans = block_spans(whole, kind, rows, needs_rows=needs_rows)
    da = optional_import("dask.array", extra="dask")
    graphs = optional_import("dask.highlevelgraph", extra="dask")
    read = partial(read_block, slice_source(whole), kind, whole.dtype)
    chunks = tuple(tuple(span.size for span in each) for each in spans)
    token = token_of(read, chunks)
    name, read_name = f"daf-matrix-{token}", f"daf-source-{token}"
    graph: dict[Any, Any] = {
        (name, row, column): (operator.call, read_name, of_rows, of_columns)
        for row, of_rows in enumerate(spans[0])
        for column, of_columns in enumerate(spans[1])
    }
    graph[read_name] = read
    made = graphs.HighLevelGraph.from_collections(name, graph)
    none = np.empty((0, 0), whole.dtype)
    meta = sp.csr_matrix(none) if kind == "csr" else none
    return da.Array(made, name, chunks=chunks, meta=meta)
