"""Columns that queries compute with, which tables then have in 64 bits.

The engine computes in the type of the columns, in which 2 - 3 is 255 if it is UInt8.  Constants
widen by themselves.  Columns go by names: of several with one name, all are wider, which costs
nothing but their narrow type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from daf_query.sql._names_in import given_names, names_in
from daf_query.syntax import Edit, Node, Statement, arguments_of, function_name, kind_of

_WRAPPING: Final = ("Plus", "Minus", "Multiply", "Modulo", "PGBitwiseShiftLeft")
_RANKS: Final = ("rank", "dense_rank", "row_number", "ntile")


def computed_names(statements: Sequence[Statement]) -> frozenset[str]:
    """Return the names of columns that queries, and the views that they name, compute with.

    >>> from daf_query.syntax import parsed
    >>> query = "SELECT p - b AS d, c + 1 FROM (SELECT a AS p, * FROM cell)"
    >>> sorted(computed_names([parsed(query)]))
    ['a', 'b', 'p']
    """
    nodes = [node for statement in statements for _, node in statement.nodes]
    operands = [operand for node in nodes for operand in _operands(node)]
    names = {name for each in operands for name in names_in(each, of_value=True)}
    if not names:
        return frozenset()
    given = [each for s in statements for each in given_names(s, of_value=True)]
    while sources := {name for each in given if each.name in names for name in each.columns}:
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


def _end_of_window(statement: Statement, start: int) -> int:
    """Return where ``rank() OVER (...)`` or ``rank() OVER w`` ends that begins at a place."""
    over = next(each for each in statement.tokens if each.start > start and each.is_word("OVER"))
    after = next(each for each in statement.tokens if each.start >= over.stop)
    if not after.is_operator("("):
        return after.stop
    return next(pair for pair in statement.brackets if pair.opening == after.start).closing + 1
