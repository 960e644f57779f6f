"""A hint for those who look for missing strings with IS NULL where they are stored as ''."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import datafusion
import pyarrow as pa

from daf_query._runs import warn_caller
from daf_query.scan import NAME
from daf_query.sql._axis_schema import AxisSchema
from daf_query.sql._created_views import is_named
from daf_query.syntax import Token, tokens_of
from daf_query.table import DATASET
from daf_storage import errors

_FLAG_SUFFIX = "_is_missing"
_STRINGS = (pa.string(), pa.string_view())


class NeverNullWarning(errors.DafWarning):
    """A query asks which strings are NULL, of a column in which none is."""


def hint_at_missing_strings(
    query: str,
    frame: datafusion.DataFrame,
    schemas: Mapping[str, AxisSchema],
    hinted: set[tuple[str, str, str]],
) -> None:
    """Warn, once for each column, where IS NULL is asked of strings of which none is NULL.

    Parameters
    ----------
    frame
        The query, planned.
    hinted
        The columns that were warned about, each by its data set and its axis; more are added.
    """
    columns = list(columns_asked_for_null(query))
    if not columns or not is_settled(frame):
        return
    for schema in schemas.values():
        for axis in (name for name in schema.axes_set() if is_named(name, query)):
            fields = schema.dataset(axis).schema
            for column in (name for name in columns if is_never_null(fields, name)):
                place = (schema.location, axis, column)
                if place not in hinted:
                    hinted.add(place)
                    warn(*place, fields)


def columns_asked_for_null(query: str) -> Iterator[str]:
    """Yield the columns that are compared with NULL by ``IS NULL``.

    >>> list(columns_asked_for_null('SELECT 1 FROM t WHERE t."a b" IS NULL OR n IS NOT NULL'))
    ['a b']
    """
    tokens = list(tokens_of(query))
    for column, first, second in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if first.is_word("IS") and second.is_word("NULL") and column.kind in ("word", "quoted"):
            yield _name(column, query)


def _name(token: Token, query: str) -> str:
    written = query[token.start : token.stop]
    return written if token.kind == "word" else written[1:-1].replace(written[0] * 2, written[0])


def is_never_null(schema: pa.Schema, column: str) -> bool:
    """Return whether a column of a table is a vector of strings of which none is NULL."""
    if column not in schema.names or column in (NAME, DATASET):
        return False
    field = schema.field(column)
    return field.type in _STRINGS and not field.nullable


def is_settled(frame: datafusion.DataFrame) -> bool:
    """Return whether the engine knows already that nothing is NULL.

    It does not where a join or an expression may make NULL of a column that has none.  The text of
    the plan is searched, since it has the subqueries within expressions, too.
    """
    plan = str(frame.optimized_logical_plan().display_indent())
    return "Join" not in plan and "IS NULL" not in plan


def warn(location: str, table: str, column: str, schema: pa.Schema) -> None:
    """Say that no string of a column is NULL, and what to ask instead."""
    flag = f"{column}{_FLAG_SUFFIX}"
    if flag in schema.names:  # of an import in which '' was a value as well
        warn_caller(
            f"{location}: IS NULL is true for no row of {table!r}, since {column!r} holds strings; "
            f"which of them are missing is in {flag!r}, so ask for that instead",
            NeverNullWarning,
        )
        return
    warn_caller(
        f"{location}: IS NULL is true for no row of {table!r}, since {column!r} holds strings, and "
        "a missing one is stored as ''; ask for = '' instead, or, if '' stands for nothing else "
        "there, store the vector again with empty_is_missing=True",
        NeverNullWarning,
    )
