"""The names of the columns that expressions are made of, through the names that queries give.

Columns go by names here: of several with one name, what is true of one is taken to be true of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from daf_query.sql._matrix_entries import column_name
from daf_query.syntax import (
    Node,
    Statement,
    identifiers_of,
    is_query,
    kind_of,
    string_of,
    subscript_of,
    values_of,
)

_CONNECTING: Final = (
    *("And", "Or", "Xor", "Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq", "Spaceship"),
    *("PGRegexMatch", "PGRegexNotMatch", "PGRegexIMatch", "PGRegexNotIMatch"),
)
"""Operators whose result is no number, whatever they compare."""
_TYPED: Final = (
    *("IsNull", "IsNotNull", "IsTrue", "IsFalse", "IsNotTrue", "IsNotFalse", "IsDistinctFrom"),
    *("IsNotDistinctFrom", "InList", "InSubquery", "Between", "Like", "ILike", "Exists", "Cast"),
)
"""What has a type of its own, whatever is in it."""
_NO_COLUMNS: Final = ("name", "data_type", "Dot")
_NO_VALUES: Final = (*_NO_COLUMNS, "condition", "filter", "over")
"""Keys of nodes below which names are no columns, or none that the value is made of."""


class Given(NamedTuple):
    """A name that a query gives to an expression."""

    name: str
    columns: frozenset[str]
    """The names of the columns in it."""
    is_column: bool
    """Whether it is nothing but a column."""


def names_in(node: Any, *, of_value: bool = False) -> frozenset[str]:
    """Return the names of the columns in an expression, and of what its subqueries select.

    Parameters
    ----------
    of_value
        Only of those that its number is made of: not of conditions, or of what has another type.
    """
    return frozenset(_names(node, of_value=of_value))


def _names(node: Any, *, of_value: bool) -> Iterator[str]:
    stack = [node]
    while stack:
        each = stack.pop()
        if isinstance(each, list | tuple):
            stack.extend(each)
        if not isinstance(each, dict):
            continue
        kind = kind_of(each)
        name = None if kind == "Nested" else name_of_column(each)
        if name is not None:
            yield name
        elif is_query(each):
            stack.extend(_lists(each["body"]))
        elif not of_value or not (
            kind in _TYPED or (kind == "BinaryOp" and each[kind]["op"] in _CONNECTING)
        ):
            left_out = _NO_VALUES if of_value else _NO_COLUMNS
            stack.extend(value for key, value in each.items() if key not in left_out)


def name_of_column(node: Node) -> str | None:
    """Return the name of a column, in brackets or not; None if a node is something else."""
    subscript = subscript_of(node)
    if subscript is not None:
        name, entry = subscript.parts[-1]["value"], string_of(subscript.inside)
        return str(name) if entry is None else column_name(name, entry)
    parts = identifiers_of(node)
    return None if parts is None else values_of(parts)[-1]


def given_names(statement: Statement, *, of_value: bool = False) -> Iterator[Given]:
    """Yield the names that the queries of a statement give to expressions."""
    for query in statement.queries:
        for scope in query.scopes:
            for item in scope.select["projection"]:
                if "ExprWithAlias" in item:
                    name, expression = item["ExprWithAlias"]["alias"], item["ExprWithAlias"]["expr"]
                    columns = names_in(expression, of_value=of_value)
                    is_column = name_of_column(expression) is not None
                    yield Given(name["value"], columns, is_column)
        yield from _by_position(query.column_names, query.scopes, of_value=of_value)
    for source in statement.sources:
        if source.query is not None:
            scopes = source.query.scopes
            yield from _by_position(source.column_names, scopes, of_value=of_value)


def _by_position(names: Sequence[str], scopes: Sequence[Any], *, of_value: bool) -> Iterator[Given]:
    """Yield names that are given to columns by position: any may be that of any."""
    columns = [names_in(scope.select["projection"], of_value=of_value) for scope in scopes]
    yield from (Given(name, frozenset().union(*columns), is_column=False) for name in names)


def _lists(body: Node) -> Iterator[list[Node]]:
    """Yield what the SELECTs of a query select."""
    stack = [body]
    while stack:
        each = stack.pop()
        if "SetOperation" in each:
            stack += [each["SetOperation"]["left"], each["SetOperation"]["right"]]
        elif "Query" in each:
            stack.append(each["Query"]["body"])
        elif "Select" in each:
            yield each["Select"]["projection"]
