"""Hints for those who look for what is missing in vain: by ``= NULL``, and by IS NULL of ''."""

from __future__ import annotations

import pyarrow as pa

from daf_query._runs import warn_caller
from daf_query.scan import NAME
from daf_query.sql._matrix_entries import Tables
from daf_query.syntax import Node, Statement, identifiers_of, kind_of
from daf_query.table import DATASET
from daf_storage import errors

_FLAG_SUFFIX = "_is_missing"
_STRINGS = (pa.string(), pa.string_view())


class NeverNullWarning(errors.DafWarning):
    """A query asks for NULL where no row has it: by ``= NULL``, or of strings of which none is."""


def hint_at_missing_strings(
    statement: Statement, tables: Tables, hinted: set[tuple[str, str, str]]
) -> None:
    """Warn, once for each column, where IS NULL is asked of strings of which none is NULL.

    Only of a SELECT of one table: a join may make NULL of a column that has none.

    Parameters
    ----------
    hinted
        The columns that were warned about, each by its data set and its axis; more are added.
    """
    for scope, node in statement.nodes:
        kind = kind_of(node)
        if kind == "BinaryOp" and node[kind]["op"] in ("Eq", "NotEq"):
            _check_equality(statement, node[kind], hinted)
        parts = identifiers_of(node["IsNull"]) if kind == "IsNull" else None
        if parts is None or scope is None or len(scope.sources) != 1:
            continue
        table, column = tables.find(scope.sources[0]), parts[-1]["value"]
        if table is None:
            continue
        schema = tables.schemas[table[0]]
        place = (schema.location, table[1], column)
        fields = schema.dataset(table[1]).schema
        if place not in hinted and _is_never_null(fields, column):
            hinted.add(place)
            _warn(*place, fields)


def _check_equality(statement: Statement, node: Node, hinted: set[tuple[str, str, str]]) -> None:
    """Warn, once for each expression, where it is compared with NULL by an operator."""
    for side, other in ((node["left"], node["right"]), (node["right"], node["left"])):
        parts = identifiers_of(side)
        is_null = kind_of(other) == "Value" and other["Value"]["value"] == "Null"
        if not is_null or parts is None or ("", "", parts[-1]["value"]) in hinted:
            continue
        hinted.add(("", "", parts[-1]["value"]))
        written = statement.written(side)
        negation = " NOT" if node["op"] == "NotEq" else ""
        warn_caller(
            f"{written} is compared with NULL, which equals nothing, and is unequal to nothing; "
            f"write {written} IS{negation} NULL",
            NeverNullWarning,
        )


def _is_never_null(schema: pa.Schema, column: str) -> bool:
    """Return whether a column of a table is a vector of strings of which none is NULL."""
    if column not in schema.names or column in (NAME, DATASET):
        return False
    field = schema.field(column)
    return field.type in _STRINGS and not field.nullable


def _warn(location: str, table: str, column: str, schema: pa.Schema) -> None:
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
