"""Turn ``rows=`` and ``columns=`` into positions along the axes of several data sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.matrix import AlignedAxis, ConcatenatedAxis
from daf_query.scan import INDEX, NAME
from daf_query.slice._entry_list import is_table, positions_of
from daf_query.slice._selector import RowKey, Selector, predicate_rows, resolve, select_rows
from daf_query.sql import AxisSchema, Engine, QueryResult, is_ordered
from daf_query.syntax import is_select, quoted_name
from daf_query.table import DATASET, arrow_table
from daf_storage import errors

Positions = npt.NDArray[np.int64]


def chosen_positions(
    engine: Engine, tables: AxisSchema, axis: str, selector: Selector, *, keyword: str, other: str
) -> Positions:
    """Return the positions that a selector chooses; they count through several data sets.

    Raises
    ------
    AxisNotFoundError, QueryError, EntryNotFoundError, InvalidInputError
        There is no such axis, or the selector is wrong.
    """
    if axis not in tables.axes_set():
        raise errors.axis_not_found(tables.location, axis, tables.axes_set())
    if not tables.is_collection:
        chosen = resolve(engine, tables.name, axis, selector, keyword=keyword, other=other)
        return chosen.positions
    whole = tables.concatenated(axis)
    return resolve_concatenated(engine, tables.name, whole, selector, keyword=keyword, other=other)


def resolve_concatenated(
    engine: Engine,
    schema: str,
    axis: ConcatenatedAxis,
    selector: Selector,
    *,
    keyword: str,
    other: str,
) -> Positions:
    """Return the positions that a selector chooses along a concatenated axis.

    Raises
    ------
    NotFoundError, QueryError, InvalidInputError
        It chooses something else.
    """
    if selector is None:
        return np.arange(axis.length)
    table, order = _rows_of(engine, schema, axis, selector, keyword=keyword, other=other)
    if table is None:
        pairs = _as_pairs(selector)
        if pairs is None:
            return positions_of(axis, axis.axis, selector, keyword)
        positions = _named(axis, pairs)
        return np.unique(positions) if isinstance(selector, set | frozenset) else positions
    positions = _concatenated(axis, table, keyword)
    return _in_order(positions, order)


def resolve_aligned(
    engine: Engine,
    schema: str,
    axis: AlignedAxis,
    concatenated: ConcatenatedAxis,
    selector: Selector,
    *,
    keyword: str,
    other: str,
) -> Positions:
    """Return the positions that a selector chooses along an aligned axis.

    SQL chooses a name if it chooses it in any data set; names that the join leaves out are not
    chosen.  Whoever lists a name that is left out gets an error.

    Parameters
    ----------
    concatenated
        The same axis, concatenated: that of the union table.

    Raises
    ------
    NotFoundError, QueryError, InvalidInputError
        It chooses something else.
    """
    if selector is None:
        return np.arange(axis.length)
    table, order = _rows_of(engine, schema, concatenated, selector, keyword=keyword, other=other)
    if table is None:
        return positions_of(axis, axis.axis, selector, keyword)
    if order is None or not {DATASET, INDEX} <= set(table.column_names):
        _refuse_index(axis.location, table, keyword)
        names = _column(table, NAME, keyword)
        if order is None:
            return axis.axis_indices(axis.axis, names)
        return _in_order(_of_names(axis, concatenated, names), order)
    joined = _concatenated(concatenated, table, keyword)
    return _in_order(axis.among(concatenated, joined), order)


def _rows_of(
    engine: Engine,
    schema: str,
    axis: ConcatenatedAxis,
    selector: Selector,
    *,
    keyword: str,
    other: str,
) -> tuple[pa.Table | None, bool | None]:
    """Return the rows that a selector yields, and whether a query gave them an order.

    None for what is no table; and for the order of a table that is no answer of a query.
    """
    if isinstance(selector, QueryResult):
        return selector.to_arrow_table(), is_ordered(selector.frame)
    if isinstance(selector, str):
        if is_select(selector):
            table, frame = select_rows(engine, selector, keyword, DATASET)
            return table, is_ordered(frame)
        key = _key(axis.names)
        return predicate_rows(
            engine, schema, axis.axis, selector, keyword=keyword, other=other, key=key
        )
    if is_table(selector):
        return arrow_table(selector), None
    return None, None


def _key(names: Sequence[str]) -> RowKey:
    """Return the key of the rows of a union table, whose data sets have an order."""
    dataset, index = quoted_name(DATASET), quoted_name(INDEX)
    if list(names) == sorted(names):
        return RowKey(f"{dataset}, {index}", f"{dataset}, {index}")
    cases = " ".join(f"WHEN {_literal(name)} THEN {n}" for n, name in enumerate(names))
    return RowKey(f"{dataset}, {index}", f"CASE {dataset} {cases} END, {index}")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _in_order(positions: Positions, order: bool | None) -> Positions:  # noqa: FBT001 - or None
    """Return positions, of a query each once: in its order, else in that of the axis."""
    if order is None:
        return positions
    unique, first = np.unique(positions, return_index=True)
    return positions[np.sort(first)] if order else unique


def _concatenated(axis: ConcatenatedAxis, table: pa.Table, keyword: str) -> Positions:
    """Return the positions along a concatenated axis that the rows of a table name."""
    if DATASET not in table.column_names:
        _refuse_index(axis.location, table, keyword)
        return axis.axis_indices(axis.axis, _column(table, NAME, keyword))
    datasets = _column(table, DATASET, keyword)
    if INDEX in table.column_names:
        index = _column(table, INDEX, keyword)
        if not pa.types.is_integer(index.type):
            raise errors.QueryError(
                f"{keyword}=: the column {INDEX!r} holds {index.type}, not integers"
            )
        positions: Positions = index.to_numpy(zero_copy_only=False).astype(np.int64)
        return axis.joined(datasets, positions)
    return axis.named(datasets, _column(table, NAME, keyword))


def _refuse_index(location: str, table: pa.Table, keyword: str) -> None:
    """Refuse positions of which nothing says in which data set they are."""
    names = table.column_names
    if INDEX in names and NAME not in names:
        raise errors.QueryError(
            f"{keyword}= yields {', '.join(names)}: {INDEX!r} counts within each of {location}; "
            f"select {DATASET!r} as well, or {NAME!r}"
        )


def _column(table: pa.Table, name: str, keyword: str) -> Any:
    """Return a column of a table as one array, strings as plain ones."""
    if name not in table.column_names:
        raise errors.QueryError(
            f"{keyword}= yields {', '.join(table.column_names) or 'nothing'}; of several data sets "
            f"it has to yield {DATASET!r} and {INDEX!r}, or {NAME!r}"
        )
    column = table.column(name)
    if column.null_count:
        raise errors.QueryError(
            f"{keyword}= yields NULL as {name!r} {column.null_count} times; add: WHERE {name} IS "
            "NOT NULL"
        )
    if name != INDEX:
        column = column.cast(pa.string())
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _of_names(axis: AlignedAxis, concatenated: ConcatenatedAxis, names: pa.Array) -> Positions:
    """Return the positions of names that a query yields; without those that are left out."""
    offsets = pc.index_in(names, value_set=axis.entries)
    if offsets.null_count:
        unknown = names.filter(pc.is_null(offsets)).unique()
        for name in unknown.to_pylist():
            if len(axis.lacking(name)) == len(axis.positions):
                axis.axis_indices(concatenated.axis, [name])  # raises
    positions: Positions = offsets.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
    return positions


def _as_pairs(selector: Any) -> list[tuple[str, str]] | None:
    """Return a list of pairs of a data set and a name, or a MultiIndex of pandas, if it is that."""
    is_index = getattr(selector, "nlevels", 1) == 2
    if not is_index and not isinstance(selector, list | tuple | set | frozenset):
        return None
    if not is_index and not isinstance(next(iter(selector), None), tuple):
        return None
    items = list(selector)
    are_pairs = all(
        isinstance(item, tuple) and len(item) == 2 and all(isinstance(each, str) for each in item)
        for item in items
    )
    return items if are_pairs and items else None


def _named(axis: ConcatenatedAxis, pairs: list[tuple[str, str]]) -> Positions:
    datasets, names = zip(*pairs, strict=True)
    return axis.named(pa.array(datasets, pa.string()), pa.array(names, pa.string()))
