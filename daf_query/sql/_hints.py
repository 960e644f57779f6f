"""Hints beside the rows of a query: columns of one name, and questions for NULL in vain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final

import datafusion
import pyarrow as pa

from daf_query._runs import warn_caller
from daf_query.scan import NAME
from daf_query.sql._matrix_entries import Tables
from daf_query.sql._planning import node_type
from daf_query.syntax import Node, Statement, identifiers_of, kind_of, quoted_name
from daf_query.table import DATASET
from daf_storage import errors

_PASSED_THROUGH: Final = ("Limit", "Sort", "Filter", "Distinct")
"""Plan nodes that have the columns of what is below them."""
_FLAG_SUFFIX: Final = "_is_missing"
_STRINGS: Final = (pa.string(), pa.string_view())


class DuplicateColumnsWarning(errors.DafWarning):
    """A query yields several columns of one name, so some were renamed."""


def unique_names(names: Sequence[str]) -> list[str]:
    """Return names of which each occurs once: later ones get a number that is free.

    >>> unique_names(["name", "name_1", "name", "index", "name"])
    ['name', 'name_1', 'name_2', 'index', 'name_3']
    """
    taken, unique, numbers = set(names), dict[str, None](), Counter[str]()
    for name in names:
        candidate = name
        while candidate in unique or (candidate != name and candidate in taken):
            numbers[name] += 1
            candidate = f"{name}_{numbers[name]}"
        unique[candidate] = None
    return list(unique)


def with_unique_columns(
    frame: datafusion.DataFrame, *, once: Collection[str] = (), is_reported: bool = True
) -> datafusion.DataFrame:
    """Return a frame of which each column has a name of its own.

    Parameters
    ----------
    once
        Names that decide what the result means, and must not occur twice.
    is_reported
        Whether to warn of columns that are renamed.

    Raises
    ------
    QueryError
        A name of ``once`` occurs twice, or the columns cannot be distinguished.

    Warns
    -----
    DuplicateColumnsWarning
        Some were renamed.
    """
    names = list(frame.schema().names)
    if len(set(names)) == len(names):
        return frame
    columns = _columns_of(frame.logical_plan())
    is_known = len(columns) == len(names)
    shown = [
        repr(name) if column is None else str(column.schema_name())
        for column, name in zip(columns if is_known else [None] * len(names), names, strict=True)
    ]
    twice = [name for name, count in Counter(names).items() if count > 1]
    for name in [name for name in twice if name in once or not is_known][:1]:
        having = [each for each, other in zip(shown, names, strict=True) if other == name]
        raise errors.QueryError(
            f"the query yields more than one column named {name!r} ({', '.join(having)}); choose "
            "one, or name them with AS"
        )
    unique = unique_names(names)
    if is_reported:
        both = zip(shown, names, unique, strict=True)
        warn_of_names(twice, [f"{each} is {new!r}" for each, name, new in both if name != new])
    return frame.select(
        *(
            (
                datafusion.col(quoted_name(name)) if column is None else datafusion.Expr(column)
            ).alias(new)
            for column, name, new in zip(columns, names, unique, strict=True)
        )
    )


def warn_of_names(names: Sequence[str], renamed: Sequence[str]) -> None:
    """Warn that several columns have some names, and say what each is called now."""
    warn_caller(
        f"the query yields more than one column named {', '.join(map(repr, names))}: "
        f"{', '.join(renamed)}; name them with AS",
        DuplicateColumnsWarning,
    )


def _columns_of(plan: Any) -> list[Any]:
    """Return the columns of a plan, None for those that are computed; nothing if unknown."""
    while node_type(plan) in _PASSED_THROUGH:
        plan = plan.inputs()[0]
    expressions = plan.to_variant().projections() if node_type(plan) == "Projection" else ()
    return [each if each.variant_name() == "Column" else None for each in expressions]


class NeverNullWarning(errors.DafWarning):
    """A query asks for NULL where no row has it: by ``= NULL``, or of strings of which none is."""


def hint_at_missing_strings(
    statement: Statement, tables: Tables, hinted: set[tuple[str, str, str]]
) -> None:
    """Warn, once for each column, where NULL is asked for by ``=``, or of strings without one.

    IS NULL is looked at in a SELECT of one table: a join may make NULL of any column.

    Parameters
    ----------
    hinted
        The columns that were warned about, each by its data set and its axis; more are added.
    """
    for scope, node in statement.nodes:
        kind = kind_of(node)
        place, said = ("", "", ""), ""
        if kind == "BinaryOp" and node[kind]["op"] in ("Eq", "NotEq"):
            place, said = _of_equality(statement, node[kind])
        parts = identifiers_of(node[kind]) if kind == "IsNull" else None
        is_single = parts is not None and scope is not None and len(scope.sources) == 1
        table = tables.find(scope.sources[0]) if scope is not None and is_single else None
        if parts is not None and table is not None:
            schema = tables.schemas[table[0]]
            place = (schema.location, table[1], parts[-1]["value"])
            said = _of_strings(*place, schema.dataset(table[1]).schema)
        if said and place not in hinted:
            hinted.add(place)
            warn_caller(said, NeverNullWarning)


def _of_equality(statement: Statement, node: Node) -> tuple[tuple[str, str, str], str]:
    """Return what is compared with NULL by an operator, and what to write instead."""
    sides = [node["left"], node["right"]]
    for side, other in (sides, sides[::-1]):
        parts = identifiers_of(side)
        if parts and kind_of(other) == "Value" and other["Value"]["value"] == "Null":
            written, negation = statement.written(side), " NOT" * (node["op"] == "NotEq")
            return ("", "", parts[-1]["value"]), (
                f"{written} is compared with NULL, which equals nothing, and is unequal to "
                f"nothing; write {written} IS{negation} NULL"
            )
    return ("", "", ""), ""


def _of_strings(location: str, table: str, column: str, schema: pa.Schema) -> str:
    """Return what to ask instead, if a column is a vector of strings of which none is NULL."""
    field = schema.field(column) if column in schema.names else None
    is_null = field is None or field.type not in _STRINGS or field.nullable
    if is_null or column in (NAME, DATASET):
        return ""
    flag = f"{column}{_FLAG_SUFFIX}"
    instead = (
        "a missing one is stored as ''; ask for = '' instead, or, if '' stands for nothing else "
    )
    instead += "there, store the vector again with empty_is_missing=True"
    if flag in schema.names:  # of an import in which '' was a value as well
        instead = f"which of them are missing is in {flag!r}, so ask for that instead"
    return (
        f"{location}: IS NULL is true for no row of {table!r}, since {column!r} holds strings, and "
        f"{instead}"
    )
