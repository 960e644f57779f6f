"""Nodes of the tree of a SQL text, as sqlparser-rs makes it: what each is, and what it says.

A node is a dictionary.  Most have one key, which is what the node is: ``{"BinaryOp": {...}}``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

Node: TypeAlias = dict[str, Any]


class Number(NamedTuple):
    """A number, as it is written."""

    text: str
    """With its sign."""

    @property
    def value(self) -> int | float:
        """What it is."""
        return int(self.text) if self.text.lstrip("-").isdecimal() else float(self.text)


class Subscript(NamedTuple):
    """A column with something in square brackets behind it: ``c.X['G']``."""

    parts: list[Node]
    """The identifiers before the brackets."""
    inside: Node
    """What is in the brackets."""


def walk(node: Any, *, into_queries: bool = True) -> Iterator[Node]:
    """Yield all nodes, those that are written first coming first; without recursion.

    Parameters
    ----------
    into_queries
        Whether what is within a subquery is among them; the subquery itself always is.
    """
    stack = [node]
    while stack:
        each = stack.pop()
        if isinstance(each, dict):
            yield each
            if into_queries or not is_query(each):
                stack.extend(reversed(each.values()))
        elif isinstance(each, list | tuple):  # pairs come as tuples
            stack.extend(reversed(each))


def is_query(node: Node) -> bool:
    """Return whether a node is a query: a SELECT, a set operation, ... with what belongs to it."""
    return "body" in node and "with" in node


def kind_of(node: Any) -> str:
    """Return what a node is; empty for what has no such key."""
    return next(iter(node)) if isinstance(node, dict) and len(node) == 1 else ""


def identifiers_of(node: Node) -> list[Node] | None:
    """Return the identifiers of a column, ``a.b``; None if a node is none. Brackets are passed."""
    while kind_of(node) == "Nested":
        node = node["Nested"]
    if kind_of(node) == "Identifier":
        return [node["Identifier"]]
    found: list[Node] | None = node.get("CompoundIdentifier") if kind_of(node) else None
    return found


def subscript_of(node: Node) -> Subscript | None:
    """Return the first subscript of a column; None if a node is none, or a slice."""
    access = node.get("CompoundFieldAccess") if kind_of(node) else None
    root = None if access is None or kind_of(access["root"]) == "Nested" else access["root"]
    parts = None if root is None else identifiers_of(root)
    if access is None or parts is None:
        return None
    parts = list(parts)
    for step in access["access_chain"]:
        if kind_of(step.get("Dot")) == "Identifier":
            parts.append(step["Dot"]["Identifier"])
            continue
        index = step["Subscript"].get("Index") if "Subscript" in step else None
        return None if index is None else Subscript(parts, index["index"])
    return None


def string_of(node: Node) -> str | None:
    """Return the value of a string in single quotes; None if a node is none."""
    value = node["Value"]["value"] if kind_of(node) == "Value" else None
    found = value.get("SingleQuotedString") if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


def constant_of(node: Node) -> Number | str | None:
    """Return a number, or the value of a string in single quotes; None if a node is neither."""
    sign = ""
    if kind_of(node) == "UnaryOp" and node["UnaryOp"]["op"] == "Minus":
        node, sign = node["UnaryOp"]["expr"], "-"
    value: Any = node["Value"]["value"] if kind_of(node) == "Value" else None
    if kind_of(value) == "Number":
        return Number(sign + value["Number"][0])
    return None if sign else string_of(node)


def whole_number_of(node: Any) -> int | None:
    """Return the value of an integer without a sign; None if a node is none."""
    value = node["Value"]["value"] if kind_of(node) == "Value" else None
    written = value["Number"][0] if isinstance(value, dict) and "Number" in value else ""
    return int(written) if written.isdecimal() else None


def values_of(identifiers: list[Node]) -> tuple[str, ...]:
    """Return the names that identifiers stand for, without quotes."""
    return tuple(each["value"] for each in identifiers)


def name_of(name: list[Node]) -> tuple[str, ...]:
    """Return the parts of the name of a table or a function, without quotes."""
    return tuple(part["Identifier"]["value"] for part in name if "Identifier" in part)


def function_name(function: Node) -> str:
    """Return what a function is called, in small letters."""
    return "".join(name_of(function["name"])[-1:]).lower()


def arguments_of(function: Node) -> list[Node]:
    """Return the expressions that a function is given by position."""
    given = function["args"]
    listed = given["List"]["args"] if kind_of(given) == "List" else ()
    unnamed = [each.get("Unnamed") for each in listed]
    return [each["Expr"] for each in unnamed if kind_of(each) == "Expr"]
