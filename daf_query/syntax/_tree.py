"""The tree of a SQL text, as sqlparser-rs makes it: its nodes, and what names in it mean.  Pure.

A node is a dictionary.  Most have one key, which is what the node is: ``{"BinaryOp": {...}}``.  A
scope is one SELECT with its sources; it can use the names of those around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from daf_query.syntax._tokens import quoted_name

Node: TypeAlias = dict[str, Any]
_MOST_DIGITS: Final = 400
"""Integers of more are beyond what floats can be, and Python refuses to read them at all."""


class Number(NamedTuple):
    """A number, as it is written."""

    text: str
    """With its sign."""

    @property
    def value(self) -> int | float:
        """What it is.

        >>> Number("-12").value, Number("9" * 5000).value
        (-12, inf)
        """
        is_whole = self.text.lstrip("-").isdecimal() and len(self.text) < _MOST_DIGITS
        return int(self.text) if is_whole else float(self.text)


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


def constant_of(node: Any) -> Number | str | bool | None:
    """Return a number, a boolean, or the value of a string in single quotes; else None."""
    sign = ""
    if kind_of(node) == "UnaryOp" and node["UnaryOp"]["op"] == "Minus":
        node, sign = node["UnaryOp"]["expr"], "-"
    value: Any = node["Value"]["value"] if kind_of(node) == "Value" else None
    if not isinstance(value, dict):
        return None
    if "Number" in value:
        return Number(sign + value["Number"][0])
    found: str | bool | None = value.get("SingleQuotedString", value.get("Boolean"))
    return None if sign else found


def string_of(node: Node) -> str | None:
    """Return the value of a string in single quotes; None if a node is none."""
    found = constant_of(node)
    return found if isinstance(found, str) else None


def whole_number_of(node: Any) -> int | None:
    """Return the value of an integer without a sign; None if a node is none."""
    found = constant_of(node)
    return int(found.text) if isinstance(found, Number) and found.text.isdecimal() else None


def item_of(item: Node) -> tuple[Node, str | None]:
    """Return the expression of an item of SELECT, empty for a wildcard, and the name after AS."""
    named = item.get("ExprWithAlias")
    if named is None:
        return item.get("UnnamedExpr", {}), None
    return named["expr"], named["alias"]["value"]


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


_HIDING_RIGHT = ("LeftSemi", "LeftAnti", "Semi", "Anti")
_HIDING_LEFT = ("RightSemi", "RightAnti")

Defined: TypeAlias = "Mapping[str, Query | None]"
"""What WITH defines, by name; None for a query within itself."""


@dataclass(eq=False, slots=True)
class Source:
    """One table, subquery or function of a FROM."""

    name: str
    """What its columns are qualified by: its alias, or the last part of its name; may be empty."""
    parts: tuple[str, ...] = ()
    """The parts of the name of a table that no WITH defines."""
    query: Query | None = None
    """The subquery, or the query that WITH defines."""
    column_names: tuple[str, ...] = ()
    """The names that it gives to its columns, ``AS t (a, b)``."""
    is_hidden: bool = False
    """Whether a wildcard leaves it out: it is the other side of a semi-join or an anti-join."""
    has_alias: bool = False
    """Whether it is called otherwise than the table."""
    function: str = ""
    """What the function is called that makes the table, if one does."""

    @property
    def written(self) -> tuple[str, ...]:
        """What its columns are qualified by, in parts; none if there is nothing."""
        if self.parts and not self.has_alias:
            return self.parts
        return (self.name,) if self.name else ()

    @property
    def qualifier(self) -> str:
        """The same, as SQL writes it."""
        return ".".join(map(quoted_name, self.written))

    def is_called(self, qualifier: Sequence[str]) -> bool:
        """Return whether a qualifier can mean it, such as ``cell`` or ``mine.cell``, or none."""
        if not qualifier:
            return True
        if self.name != qualifier[-1]:
            return False
        is_exact = self.parts[-2:] == tuple(qualifier[-2:])
        return len(qualifier) == 1 or is_exact or len(self.parts) == 1


@dataclass(eq=False, slots=True)
class Scope:
    """One SELECT, with the sources of its FROM."""

    select: Node
    parent: Scope | None
    """That of the query around it, whose names it can use too."""
    sources: list[Source] = field(default_factory=list)
    is_natural: bool = False
    """Whether a NATURAL JOIN is among its joins."""
    is_merged: bool = False
    """Whether NATURAL JOIN or USING merges columns of two tables."""

    def chain(self) -> Iterator[Scope]:
        """Yield the scope and those around it, from within."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def called(self, qualifier: Sequence[str]) -> list[Source]:
        """Return the sources that a qualifier can mean; all, if it is empty."""
        return [source for source in self.sources if source.is_called(qualifier)]


@dataclass(eq=False, slots=True)
class Query:
    """A query: a SELECT, or several that a set operation joins, with ORDER BY, LIMIT and WITH."""

    node: Node
    scopes: list[Scope] = field(default_factory=list)
    """Of its SELECTs; those of a set operation in the order of the text."""
    column_names: tuple[str, ...] = ()
    """The names that WITH gives to its columns, ``WITH t (a, b) AS ...``."""
    is_source: bool = False
    """Whether its rows are those of a FROM, a WITH or a branch of a set operation; not LATERAL."""


class ScopeBuilder:
    """Finds the queries of a statement, their scopes, and the scope of each node."""

    def __init__(self) -> None:
        self.queries: list[Query] = []
        """All queries, those within others first."""
        self.nodes: list[tuple[Scope | None, Node]] = []
        """All nodes outside of the names of tables, each with the scope whose names it can use."""

    def read(self, node: Any, defined: Defined, scope: Scope | None) -> None:
        """Read what is no query itself, and the queries within."""
        for each in walk(node, into_queries=False):
            if is_query(each):
                self._query(each, defined, scope)
            else:
                self.nodes.append((scope, each))

    def _query(self, node: Node, defined: Defined, parent: Scope | None) -> Query:
        query = Query(node)
        definitions = node["with"] or {"cte_tables": (), "recursive": False}
        for table in definitions["cte_tables"]:
            name = table["alias"]["name"]["value"]
            inner = {**defined, name: None} if definitions["recursive"] else defined
            found = self._query(table["query"], inner, parent)
            found.is_source = True
            found.column_names = _columns_of(table["alias"])
            defined = {**defined, name: found}
        self._body(node["body"], defined, parent, query)
        rest = {key: value for key, value in node.items() if key not in ("with", "body")}
        self.read(rest, defined, query.scopes[0] if query.scopes else parent)
        self.queries.append(query)
        return query

    def _body(self, body: Node, defined: Defined, parent: Scope | None, query: Query) -> None:
        branches: list[Node] = []
        while "SetOperation" in body:
            branches.append(body["SetOperation"]["right"])
            body = body["SetOperation"]["left"]
        branches.append(body)
        for branch in reversed(branches):
            kind = kind_of(branch)
            if kind == "SetOperation":
                self._body(branch, defined, parent, query)
            elif kind == "Query":
                inner = self._query(branch["Query"], defined, parent)
                inner.is_source = True
                query.scopes += inner.scopes
            elif kind == "Select":
                query.scopes.append(self._select(branch["Select"], defined, parent))
            else:  # VALUES, TABLE
                self.read(branch, defined, parent)

    def _select(self, select: Node, defined: Defined, parent: Scope | None) -> Scope:
        scope = Scope(select, parent)
        for each in select["from"]:
            self._tables(each, defined, scope)
        rest = {key: value for key, value in select.items() if key not in ("from", "select_token")}
        self.read(rest, defined, scope)
        return scope

    def _tables(self, node: Node, defined: Defined, scope: Scope) -> None:
        self._relation(node["relation"], defined, scope)
        for join in node["joins"]:
            operator = join["join_operator"]
            kind = kind_of(operator)
            first = len(scope.sources)
            self._relation(join["relation"], defined, scope)
            if kind in _HIDING_RIGHT + _HIDING_LEFT:
                is_right = kind in _HIDING_RIGHT
                for source in scope.sources[first:] if is_right else scope.sources[:first]:
                    source.is_hidden = True
            constraint = operator[kind] if kind else operator
            scope.is_natural |= constraint == "Natural"
            scope.is_merged |= constraint == "Natural" or kind_of(constraint) == "Using"
            self.read(operator, defined, scope)

    def _relation(self, node: Node, defined: Defined, scope: Scope) -> None:
        kind, body = next(iter(node.items()))
        if kind == "NestedJoin":
            self._tables(body["table_with_joins"], defined, scope)
            return
        alias = body.get("alias") or {"name": {"value": ""}, "columns": ()}
        source = Source(
            alias["name"]["value"],
            column_names=_columns_of(alias),
            has_alias=bool(alias["name"]["value"]),
        )
        if kind == "Derived":
            parent = scope if body["lateral"] else scope.parent
            source.query = self._query(body["subquery"], defined, parent)
            source.query.is_source = not body["lateral"]
        elif kind == "Table" and body["args"] is None:
            parts = name_of(body["name"])
            source.name = source.name or "".join(parts[-1:])
            if len(parts) == 1 and parts[0] in defined:
                source.query = defined[parts[0]]
            else:
                source.parts = parts
        else:  # a function, UNNEST, PIVOT, ...
            source.function = name_of(body["name"])[-1] if kind == "Table" else ""
            self.read(body, defined, scope)
        scope.sources.append(source)


def _columns_of(alias: Node) -> tuple[str, ...]:
    return tuple(each["name"]["value"] for each in alias["columns"])
