"""The expressions of SQL, with names, that the rows of a profile are grouped by."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from daf_query.matrix import ConcatenatedAxis
from daf_query.moments import STATISTICS, GroupValues
from daf_query.scan import INDEX, NAME
from daf_query.sql._axis_schema import AxisSchema
from daf_query.syntax import list_items, quoted_name, unquoted_name, without_name
from daf_query.table import DATASET
from daf_storage import errors
from daf_storage.anndata import recorded_types

By: TypeAlias = str | Sequence[str]
"""A vector, an expression of SQL, or several; each may end in ``AS name``."""


@dataclass(frozen=True, slots=True)
class GroupItem:
    """An expression whose values are groups."""

    expression: str
    """In SQL."""
    name: str
    """What its column is called."""
    vector: str | None
    """The vector that it is, if it is nothing else."""


def written_items(by: object, keyword: str = "by") -> list[str]:
    """Return what is passed as ``by=``, or by another keyword, as a list of SQL.

    Raises
    ------
    InvalidInputError
        It is something else.
    """
    items: object = [by] if isinstance(by, str) else by
    if not isinstance(items, Sequence) or not all(isinstance(item, str) for item in items):
        raise errors.InvalidInputError(
            f"{keyword}= is the name of a vector, an expression of SQL or a list of such, not "
            f"{type(by).__name__}; values of your own become a vector with set_vector()"
        )
    return list(items)


def group_items(by: By, vectors: Collection[str], reserved: Collection[str]) -> list[GroupItem]:
    """Return what to group by.

    Parameters
    ----------
    vectors
        Those of the axis; a name of one is that vector, whatever it looks like.
    reserved
        Names that no group column may have.

    Raises
    ------
    InvalidInputError
        Two columns would have one name.

    >>> items = group_items("donor, age > 60 AS old", ["donor"], [])
    >>> [(item.expression, item.name) for item in items]
    [('"donor"', 'donor'), (' age > 60 ', 'old')]
    """
    expressions: list[str] = []
    for text in written_items(by):
        expressions += [text] if text in vectors else list_items(text)
    items = [_item(text, vectors) for text in expressions]
    names: list[str] = []
    for item in items:
        if item.name in reserved or item.name in names:
            what = "another column" if item.name in reserved else "another group column"
            raise errors.InvalidInputError(
                f"a group column and {what} of the profile would both be called {item.name!r}; "
                f"rename the group column: by={f'{item.expression.strip()} AS group_1'!r}"
            )
        names.append(item.name)
    return items


def _item(text: str, vectors: Collection[str]) -> GroupItem:
    if not text.strip():
        raise errors.QueryError("by= is empty; pass a vector, or an expression of SQL")
    expression, name = without_name(text)
    vector = expression.strip()
    if vector not in vectors:
        vector = unquoted_name(vector)
    if vector in vectors:
        return GroupItem(quoted_name(vector), name or vector, vector)
    return GroupItem(expression, name or text.strip(), None)


@dataclass(frozen=True, slots=True)
class GroupedAxis:
    """An axis whose entries are grouped: of one data set, or of several as one."""

    axis: str
    length: int
    vectors: frozenset[str]
    """The names of its columns."""
    categories: Callable[[str], pa.Array | None]
    """Returns the categories of a vector in their order, if an import noted them."""


def grouped_axis(tables: AxisSchema, axis: str) -> GroupedAxis:
    """Return an axis; the categories of a collection are those of all that noted some."""
    members = [daf for daf in tables.readers().values() if daf.has_axis(axis)]

    def categories(vector: str) -> pa.Array | None:
        listed: dict[str, None] = {}
        for daf in members:
            recorded = recorded_types(daf, axis, (vector,)).get(vector)
            if recorded is not None and recorded.categories is not None:
                listed.update(dict.fromkeys(recorded.categories.to_pylist()))
        return pa.array(list(listed), pa.string()) if listed else None

    keys = {NAME, INDEX, *([DATASET] if tables.is_collection else [])}
    vectors = keys.union(*(daf.vectors_set(axis) for daf in members))
    return GroupedAxis(axis, tables.axis_length(axis), frozenset(vectors), categories)


def in_all(concatenated: ConcatenatedAxis, table: pa.Table) -> pa.Table:
    """Return positions that count through in place of a data set and a position within it.

    The table has these as its first two columns, and a value.
    """
    datasets, index = (table.column(number).combine_chunks() for number in (0, 1))
    positions = concatenated.joined(datasets, index.to_numpy(zero_copy_only=False).astype(np.int64))
    return pa.table([pa.array(positions), table.column(2)], names=[INDEX, table.column_names[2]])


def group_values(
    source: GroupedAxis, columns_axis: str, by: By, evaluate: Callable[[str], pa.Table]
) -> list[GroupValues]:
    """Evaluate what the rows of a profile are grouped by.

    Parameters
    ----------
    source
        The axis of the rows.
    evaluate
        Returns ``index`` and the value of an expression for the entries of the axis, in any order.

    Raises
    ------
    QueryError, VectorNotFoundError
        An expression is wrong.
    InvalidInputError
        Two columns would have one name.
    """
    items = group_items(by, source.vectors, {columns_axis, *STATISTICS})
    columns = []
    for item in items:
        values = _values_of(source, item, evaluate)
        categories = None if item.vector is None else source.categories(item.vector)
        columns.append(GroupValues(item.name, values, categories))
    return columns


def _values_of(
    source: GroupedAxis, item: GroupItem, evaluate: Callable[[str], pa.Table]
) -> pa.Array:
    """Return the value of each entry of the axis, in its order."""
    written = item.expression.strip()
    try:
        table = evaluate(item.expression)
    except errors.QueryError as error:
        if "GROUP BY" not in str(error):
            raise
        raise errors.QueryError(
            f"by={written!r} is an aggregate, which has one value for all rows; group by what "
            "each entry has, such as max(age) OVER (PARTITION BY donor)"
        ) from error
    length = source.length
    index, column = table.column(0).to_numpy(), table.column(1)
    is_in_order = np.array_equal(index, np.arange(length))
    if not is_in_order and (index.size != length or np.unique(index).size != length):
        raise errors.QueryError(
            f"by={written!r} yields {index.size:,} values for {length:,} entries of axis "
            f"{source.axis!r}; a group is one value for each"
        )
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    chunks = column.chunks or [pa.array([], column.type)]
    values = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    return values if is_in_order else values.take(pa.array(np.argsort(index)))
