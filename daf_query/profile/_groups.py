"""The groups of the selected rows: their values, and the code of each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.moments import GroupedRows
from daf_query.profile._group_items import GroupItem
from daf_query.scan import PLAIN_TYPES
from daf_query.slice import expression_table
from daf_query.sql import Engine
from daf_storage import errors
from daf_storage.spi import recorded_types


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups that have rows, in order: by the first column, within it by the second..."""

    columns: dict[str, pa.Array]
    """The value of each group, by the names of the group columns."""
    rows: GroupedRows
    """The selected rows, each with its group."""


def make_groups(
    engine: Engine,
    schema: str,
    axis: str,
    items: Sequence[GroupItem],
    positions: npt.NDArray[np.int64],
) -> Groups:
    """Evaluate what the rows are grouped by.

    Values are in ascending order, those of a categorical in the order of its categories; NULL is a
    group, the last one.  Without any items, all rows are one group.

    Raises
    ------
    QueryError, VectorNotFoundError
        An expression is wrong.
    """
    daf = engine.connections.reader(schema)
    recorded = recorded_types(daf, axis) if items else {}
    values: list[pa.Array] = []
    codes: npt.NDArray[np.int64] = np.zeros(positions.size, np.int64)
    for item in items:
        column = _values_of(engine, schema, axis, item).take(pa.array(positions))
        noted = recorded.get(item.vector) if item.vector is not None else None
        ranks = _ranks(column, None if noted is None else noted.categories, item)
        # The codes stay below the number of rows squared, so that they cannot overflow.
        codes = codes * (int(ranks.max(initial=0)) + 1) + ranks
        codes = np.unique(codes, return_inverse=True)[1].reshape(-1).astype(np.int64)
        values.append(column)
    unique, first = np.unique(codes, return_index=True)
    columns = {
        item.name: column.take(pa.array(first)) for item, column in zip(items, values, strict=True)
    }
    rows = GroupedRows(positions, codes.astype(np.int32), unique.size)
    return Groups(columns, rows)


def _values_of(engine: Engine, schema: str, axis: str, item: GroupItem) -> pa.Array:
    """Return the value of each entry of the axis, in its order; NaN is NULL."""
    try:
        table = expression_table(engine, schema, axis, item.expression)
    except errors.QueryError as error:
        if "GROUP BY" not in str(error):
            raise
        raise errors.QueryError(
            f"by={item.expression.strip()!r} is an aggregate, which has one value for all rows; "
            "group by what each entry has, such as max(age) OVER (PARTITION BY donor)"
        ) from error
    length = engine.connections.reader(schema).axis_length(axis)
    index = table.column(0).to_numpy()
    is_in_order = np.array_equal(index, np.arange(length))
    if not is_in_order and (index.size != length or np.unique(index).size != length):
        raise errors.QueryError(
            f"by={item.expression.strip()!r} yields {index.size:,} values for {length:,} entries "
            f"of axis {axis!r}; a group is one value for each"
        )
    column = table.column(1)
    column = column.unify_dictionaries() if pa.types.is_dictionary(column.type) else column
    values = _combined(column)
    if not is_in_order:
        values = values.take(pa.array(np.argsort(index)))
    if not pa.types.is_floating(values.type):
        return values
    values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    return pc.add(values, pa.scalar(0.0, values.type))  # -0.0 is 0.0


def _combined(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 0:
        return pa.array([], column.type)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _ranks(values: pa.Array, categories: pa.Array | None, item: GroupItem) -> npt.NDArray[np.int64]:
    """Return where the value of each row stands among all values; NULL is last."""
    try:
        if pa.types.is_dictionary(values.type):
            categories = values.dictionary if categories is None else categories
            values = values.dictionary_decode()
        values = values.cast(PLAIN_TYPES.get(values.type, values.type))
        encoded = values.dictionary_encode()
        places = pc.sort_indices(encoded.dictionary)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise errors.QueryError(
            f"by={item.expression.strip()!r} is of type {values.type}, which cannot be grouped; "
            "CAST it to VARCHAR"
        ) from error
    order = places.to_numpy()
    if categories is not None and categories.type == encoded.dictionary.type:
        known = pc.index_in(encoded.dictionary, value_set=categories)
        known = pc.fill_null(known, len(categories)).to_numpy()
        order = order[np.argsort(known[order], kind="stable")]
    rank_of_value = np.empty(order.size + 1, np.int64)
    rank_of_value[order] = np.arange(order.size)
    rank_of_value[-1] = order.size  # NULL
    codes = pc.fill_null(encoded.indices, order.size).to_numpy(zero_copy_only=False)
    ranks: npt.NDArray[np.int64] = rank_of_value[codes]
    return ranks
