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


def _stored_order(part: Part) -> tuple[tuple[bool, bool], tuple[int, int]]:
    """Return which cuts of a part cost no more than to read it once.

    Whether some rows can be read without the others, and some columns; and how many of each are
    decoded together, from the first one on.
    """
    by_rows = [layout.rows_are_major for layout in part.layouts.found]
    stored = part.layouts.found[0].stored
    if stored.info.is_sparse:
        return (True in by_rows, False in by_rows), (1, 1)
    array = stored.dense().info
    if array.is_mappable or array.storage_type.is_string:
        return (True, True), (1, 1)
    steps = array.chunks[:2] if by_rows[0] else array.chunks[1::-1]
    # Only a selection from the first entry on ends where chunks do.
    rows, columns = (
        step if np.array_equal(each.positions, np.arange(each.size)) else 1
        for step, each in zip(steps, part.selections, strict=True)
    )
    return (True, True), (rows, columns)


def block_spans(
    whole: Whole, kind: BlockKind, rows: int | None, columns: int | None, *, needs_rows: bool
) -> tuple[list[Span], ...]:
    """Return the rows of each row of blocks, and the columns of each column of blocks.

    By default they are blocks of whole rows; of whole columns, if the matrix is stored by columns
    alone.  They end where stored chunks do.

    Raises
    ------
    InvalidInputError
        A size is no number of entries; or it cuts the axis along which each block would read
        everything.
    """
    named = {"rows_per_block": rows, "columns_per_block": columns}
    given = [None if size is None else positive_number(size, key) for key, size in named.items()]
    is_one, orders = not whole.is_collection, [_stored_order(m) for m in whole.members]
    if not is_one and given[1] is not None:
        raise errors.InvalidInputError(
            f"{whole.location}: blocks of a collection have all columns; leave out "
            "columns_per_block="
        )
    if given == [None, None]:
        figures = figures_of(whole)
        size_bytes = figures.csr_bytes if kind == "csr" else figures.dense_bytes
        can_cut, steps = orders[0] if is_one else ((True, False), (1, 1))
        number = 0 if needs_rows or can_cut[0] else 1
        count = whole.shape[number] * DASK_BLOCK_BYTES // max(size_bytes, 1)
        given[number] = max(count // steps[number], 1) * steps[number]
    for number, (size, length) in enumerate(zip(given, whole.shape, strict=True)):
        for member, (can_cut, _) in zip(whole.members, orders, strict=True):
            if size is not None and size < length and not can_cut[number]:
                can_turn = is_one and not needs_rows
                raise _costly(whole, member, number, -(-length // size), can_turn=can_turn)
    return tuple(map(_cut, whole.shape, given))


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
    columns: int | None = None,
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
    spans = block_spans(whole, kind, rows, columns, needs_rows=needs_rows)
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
