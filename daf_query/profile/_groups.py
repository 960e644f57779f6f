"""Groups of the rows of a profile: values of vectors, and of expressions of SQL."""

from __future__ import annotations

import pyarrow as pa

from daf_query.moments import STATISTICS, GroupValues
from daf_query.slice import AxisRows
from daf_query.sql import By, written_items
from daf_query.syntax import list_items, quoted_name, unquoted_name, without_name
from daf_storage import errors


def group_values(source: AxisRows, columns_axis: str, by: By) -> list[GroupValues]:
    """Evaluate what the rows of a profile are grouped by.

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
        values = _values_of(source, quoted_name(vector) if is_vector else expression)
        categories = source.categories(vector) if is_vector else None
        groups[name] = GroupValues(name, values, categories)
    return list(groups.values())


def _values_of(source: AxisRows, expression: str) -> pa.Array:
    """Return the value of each entry of the axis, in its order."""
    by = f"by={expression.strip()!r}"
    try:
        return source.values(expression)
    except errors.DafError as error:
        if "GROUP BY" not in str(error):
            raise errors.with_message(error, f"{by}, on axis {source.axis!r}: {error}") from None
        raise errors.QueryError(
            f"{by} is an aggregate, which has one value for all rows; group "
            "by what each entry has, such as max(age) OVER (PARTITION BY donor)"
        ) from error
