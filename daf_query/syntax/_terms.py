"""The terms of a condition: expressions that are compared with constants.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from daf_query.syntax._nodes import Node, kind_of, walk
from daf_query.syntax._statement import Statement

TermForm: TypeAlias = Literal["equal", "order", "pattern", "missing", "boolean"]
"""How an expression is compared: by = or IN, by < and its kin, by LIKE, by IS NULL, or not."""
Constant: TypeAlias = str | float | bool
"""A value that stands in a query."""

_OPERATORS: Final = {"Eq": "=", "NotEq": "<>", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_PLACED: Final = ("Identifier", "CompoundIdentifier", "CompoundFieldAccess", "Function")
"""What begins and ends with a leaf or a bracket, so that its text is known."""


@dataclass(frozen=True, slots=True)
class Term:
    """An expression and the constants that it is compared with."""

    node: Node
    expression: str
    """As SQL."""
    form: TermForm
    operator: str
    """As SQL, with the expression on the left."""
    constants: tuple[Constant, ...] = ()
    is_negated: bool = False
    """Whether rows that satisfy it are left out."""


def terms_of(statement: Statement, condition: Node) -> Iterator[Term]:
    """Yield the terms of a condition, at any depth; those of subqueries are not among them.

    A list of so many constants that they were left out of the tree is none.
    """
    pending = [(condition, False)]
    while pending:
        node, negated = pending.pop()
        kind = kind_of(node)
        body = node[kind] if kind else {}
        if kind == "Nested":
            pending.append((body, negated))
        elif kind == "UnaryOp" and body["op"] == "Not":
            pending.append((body["expr"], not negated))
        elif kind == "BinaryOp" and body["op"] in ("And", "Or"):
            pending += [(body["right"], negated), (body["left"], negated)]
        else:
            yield from _term(statement, kind, body, node, negated=negated)


def _term(
    statement: Statement, kind: str, body: Node, node: Node, *, negated: bool
) -> Iterator[Term]:
    form: TermForm = "equal"
    operator = "="
    side, given = node, list[Node]()
    if kind == "BinaryOp" and body["op"] in _OPERATORS:
        side, given, operator = body["left"], [body["right"]], _OPERATORS[body["op"]]
        if _constants(given) is None:
            side, given, operator = given[0], [side], _FLIPPED.get(operator, operator)
        form = "equal" if operator in ("=", "<>") else "order"
        negated = negated != (operator == "<>")
    elif kind == "InList" and not _is_shortened(statement, body):
        side, given, operator = body["expr"], body["list"], "IN"
    elif kind == "Between":
        form, side, given, operator = "order", body["expr"], [body["low"], body["high"]], "BETWEEN"
    elif kind == "Like":
        form, side, given, operator = "pattern", body["expr"], [body["pattern"]], "LIKE"
    elif kind in ("IsNull", "IsNotNull"):
        form, side, operator = "missing", body, "IS NULL"
        negated = negated != (kind == "IsNotNull")
    elif kind in ("Identifier", "CompoundIdentifier"):
        form, operator = "boolean", ""
    else:
        return
    if kind in ("InList", "Between", "Like"):
        negated = negated != body["negated"]
    constants = _constants(given)
    if constants is not None and _is_placed(side):
        yield Term(side, statement.written(side), form, operator, constants, negated)


def _constants(nodes: Sequence[Node]) -> tuple[Constant, ...] | None:
    """Return the values of constants; None if one of them is something else."""
    found: list[Constant] = []
    for node in nodes:
        is_signed = kind_of(node) == "UnaryOp" and node["UnaryOp"]["op"] in ("Minus", "Plus")
        unsigned = node["UnaryOp"]["expr"] if is_signed else node
        value = unsigned["Value"]["value"] if kind_of(unsigned) == "Value" else {}
        kind = kind_of(value)
        if kind == "Number":
            written = value["Number"][0]
            number = int(written) if written.isdecimal() else float(written)
            found.append(-number if is_signed and node["UnaryOp"]["op"] == "Minus" else number)
        elif kind in ("SingleQuotedString", "Boolean") and not is_signed:
            found.append(value[kind])
        else:
            return None
    return tuple(found)


def _is_shortened(statement: Statement, body: Node) -> bool:
    """Return whether the constants of a list were left out of the tree."""
    first = statement.span(body["expr"])[1]
    return any(t.kind == "constants" and t.start > first for t in statement.tokens)


def _is_placed(node: Node) -> bool:
    """Return whether the text of an expression is known, and it is no constant."""
    kind = kind_of(node)
    if kind == "BinaryOp":
        sides = (node[kind]["left"], node[kind]["right"])
        return any(map(_is_placed, sides)) and all(
            _is_placed(side) or kind_of(side) == "Value" for side in sides
        )
    return kind in _PLACED and not any("over" in each and each["over"] for each in walk(node))
