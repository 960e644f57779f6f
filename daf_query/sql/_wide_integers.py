"""Columns that queries compute with, which tables then have in 64 bits.

The engine computes in the type of the columns, in which 2 - 3 is 255 if it is UInt8.  Constants
widen by themselves.  Columns go by names: of several with one name, all are wider, which costs
nothing but their narrow type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from daf_query.sql._matrix_entries import column_name
from daf_query.syntax import (
    Edit,
    Node,
    Statement,
    arguments_of,
    function_name,
    identifiers_of,
    is_query,
    kind_of,
    string_of,
    subscript_of,
    values_of,
)

_WRAPPING: Final = ("Plus", "Minus", "Multiply", "Modulo", "PGBitwiseShiftLeft")
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
_NO_COLUMNS: Final = ("name", "data_type", "Dot", "condition", "filter", "over")
"""Keys of nodes below which names are no columns, or none that the value is made of."""
_RANKS: Final = ("rank", "dense_rank", "row_number", "ntile")


def computed_names(statements: Sequence[Statement]) -> frozenset[str]:
    """Return the names of columns that queries, and the views that they name, compute with.

    >>> from daf_query.syntax import parsed
    >>> query = "SELECT p - b AS d, c + 1 FROM (SELECT a AS p, * FROM cell)"
    >>> sorted(computed_names([parsed(query)]))
    ['a', 'b', 'p']
    """
    nodes = [node for statement in statements for _, node in statement.nodes]
    names = {name for node in nodes for operand in _operands(node) for name in _leaves(operand)}
    if not names:
        return frozenset()
    made = [pair for statement in statements for pair in _made(statement)]
    while sources := {name for made_name, leaves in made if made_name in names for name in leaves}:
        if sources <= names:
            break
        names |= sources
    return frozenset(names)


def signed_ranks(statement: Statement) -> Iterator[Edit]:
    """Yield a cast for each rank of a query that computes: a difference of two may be negative."""
    functions = [node["Function"] for _, node in statement.nodes if kind_of(node) == "Function"]
    ranks = [each for each in functions if each["over"] and function_name(each) in _RANKS]
    if not ranks or not any(_operands(node) for _, node in statement.nodes):
        return
    for rank in ranks:
        start = statement.span(rank["name"])[0]
        yield Edit(start, start, "CAST(")
        stop = _end_of_window(statement, start)
        yield Edit(stop, stop, " AS BIGINT)")


def _operands(node: Node) -> list[Node]:
    """Return what is computed with each other, or changes its sign."""
    kind = kind_of(node)
    if kind == "BinaryOp" and node[kind]["op"] in _WRAPPING:
        both = [node[kind]["left"], node[kind]["right"]]
        return [] if any(map(_is_number, both)) else both
    if kind == "UnaryOp" and node[kind]["op"] == "Minus":
        return [node[kind]["expr"]]
    if kind == "Function" and function_name(node[kind]) == "abs":
        return arguments_of(node[kind])
    return []


def _is_number(node: Node) -> bool:
    while kind_of(node) in ("Nested", "UnaryOp"):
        node = node["Nested"] if "Nested" in node else node["UnaryOp"]["expr"]
    value = node["Value"]["value"] if kind_of(node) == "Value" else None
    return isinstance(value, dict) and "Number" in value


def _leaves(node: Any) -> Iterator[str]:
    """Yield the names of the columns that the value of an expression is made of."""
    stack = [node]
    while stack:
        each = stack.pop()
        if isinstance(each, list | tuple):
            stack.extend(each)
        if not isinstance(each, dict):
            continue
        kind = kind_of(each)
        subscript = subscript_of(each)
        parts = identifiers_of(each) if kind != "Nested" else None
        if subscript is not None:
            name, entry = subscript.parts[-1]["value"], string_of(subscript.inside)
            yield name if entry is None else column_name(name, entry)
        elif parts is not None:
            yield values_of(parts)[-1]
        elif is_query(each):
            stack.extend(_lists(each["body"]))
        elif kind in _TYPED or (kind == "BinaryOp" and each[kind]["op"] in _CONNECTING):
            continue
        else:
            stack.extend(value for key, value in each.items() if key not in _NO_COLUMNS)


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


def _made(statement: Statement) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the names that queries give to expressions, each with the columns in it."""
    for query in statement.queries:
        for scope in query.scopes:
            for item in scope.select["projection"]:
                if "ExprWithAlias" in item:
                    aliased = item["ExprWithAlias"]
                    yield aliased["alias"]["value"], frozenset(_leaves(aliased["expr"]))
        yield from _named_by(query.column_names, query.scopes)
    for source in statement.sources:
        if source.query is not None:
            yield from _named_by(source.column_names, source.query.scopes)


def _named_by(names: Sequence[str], scopes: Sequence[Any]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield names that are given to columns by position: any may be that of any."""
    if names:
        leaves = frozenset(each for s in scopes for each in _leaves(s.select["projection"]))
        yield from ((name, leaves) for name in names)


def _end_of_window(statement: Statement, start: int) -> int:
    """Return where ``rank() OVER (...)`` or ``rank() OVER w`` ends that begins at a place."""
    over = next(each for each in statement.tokens if each.start > start and each.is_word("OVER"))
    after = next(each for each in statement.tokens if each.start >= over.stop)
    if not after.is_operator("("):
        return after.stop
    return next(pair for pair in statement.brackets if pair.opening == after.start).closing + 1
