"""The expressions of SQL, with names, that the rows of a profile are grouped by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    written: list[str] = []
    for text in written_items(by):
        written += [text] if text in source.vectors else list_items(text)
    groups: dict[str, GroupValues] = {}
    for text in written:
        expression, called = without_name(text)
        vector = expression.strip()
        vector = vector if vector in source.vectors else unquoted_name(vector)
        is_vector = vector in source.vectors
        name = called or (vector if is_vector else text.strip())
        if not name:
            raise errors.QueryError("by= is empty; pass a vector, or an expression of SQL")
        if name in groups or name in (columns_axis, *STATISTICS):
            what = "another group column" if name in groups else "another column"
            raise errors.InvalidInputError(
                f"a group column and {what} of the profile would both be called {name!r}; rename "
                f"the group column: by={f'{expression.strip()} AS group_1'!r}"
            )
        values = _values_of(source, quoted_name(vector) if is_vector else expression, evaluate)
        categories = source.categories(vector) if is_vector else None
        groups[name] = GroupValues(name, values, categories)
    return list(groups.values())


def _values_of(
    source: GroupedAxis, expression: str, evaluate: Callable[[str], pa.Table]
) -> pa.Array:
    """Return the value of each entry of the axis, in its order."""
    try:
        table = evaluate(expression)
    except errors.QueryError as error:
        if "GROUP BY" not in str(error):
            raise
        raise errors.QueryError(
            f"by={expression.strip()!r} is an aggregate, which has one value for all rows; group "
            "by what each entry has, such as max(age) OVER (PARTITION BY donor)"
        ) from error
    index = table.column(0).to_numpy()
    order = np.argsort(index)
    if not np.array_equal(index[order], np.arange(source.length)):
        raise errors.QueryError(
            f"by={expression.strip()!r} yields {index.size:,} values for {source.length:,} entries "
            f"of axis {source.axis!r}; a group is one value for each"
        )
    values = table.column(1)
    if pa.types.is_dictionary(values.type):
        values = values.unify_dictionaries()
    return values.combine_chunks().take(pa.array(order))
