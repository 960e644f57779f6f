"""Lists of values, ``x IN (1, 2)``, two of which the engine would merge wrongly.

Its simplifier treats two lists for one expression as sets: it makes ``x IN (1, 2) AND x NOT IN
(2, NULL)`` into ``x IN (1)``, without regard to NULL, to columns within a list, and to rows in
which ``x`` is missing.  ``x = 1 OR x = 2`` is such a list, and so is ``x ~ '^(1|2)$'``.  Queries in
which two lists may meet are planned without the simplifier, and hand fewer filters to the tables.

Columns go by names; rather too many lists are taken for those of one column than too few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from daf_query.sql._names_in import given_names, names_in
from daf_query.syntax import Node, Statement, kind_of

SIMPLIFIER: Final = "simplify_expressions"
"""The rule of the optimiser that merges lists."""

_PATTERNS: Final = ("PGRegexMatch", "PGRegexNotMatch", "PGRegexIMatch", "PGRegexNotIMatch")


def may_merge_lists(statements: Sequence[Statement]) -> bool:
    """Return whether two lists of a query, and of the views that it names, may be for one column.

    >>> from daf_query.syntax import parsed
    >>> query = "SELECT * FROM (SELECT x AS z, * FROM t) WHERE x IN (1, 2) AND {} NOT IN (2, NULL)"
    >>> [may_merge_lists([parsed(query.format(column))]) for column in ("y", "x", "z")]
    [False, True, True]
    """
    nodes = [node for statement in statements for _, node in statement.nodes]
    lists = [names_in(_operand(node)) for node in nodes if _operand(node)]
    chains = list(_chains(nodes))
    if len(lists) + len(chains) < 2:
        return False
    groups = _groups(statements, nodes)
    counts = Counter(group for names in lists for group in groups.of(names))
    for chain in chains:
        compared = Counter(group for names in chain for group in groups.of(names))
        counts.update(group for group, count in compared.items() if count > 1)
    is_by_position = any(
        query.node["body"].get("SetOperation", {}).get("op", "Union") != "Union"
        for statement in statements
        for query in statement.queries
    )
    return sum(counts.values()) > 1 if is_by_position else max(counts.values(), default=0) > 1


class _Groups:
    """Names of columns that may stand for the same."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def of(self, names: Iterable[str]) -> set[str]:
        """Return the groups that some names are in; an expression without any is in one, too."""
        return {self._root(name) for name in names} or {""}

    def join(self, names: Iterable[str]) -> None:
        """Note that some names may stand for the same."""
        first, *others = self.of(names)
        self._parents.update(dict.fromkeys(others, first))

    def _root(self, name: str) -> str:
        while name in self._parents:
            name = self._parents[name]
        return name


def _groups(statements: Sequence[Statement], nodes: Iterable[Node]) -> _Groups:
    """Return which names stand for the same: those of one alias, or that a condition compares."""
    groups = _Groups()
    for statement in statements:
        for given in given_names(statement):
            groups.join({given.name, *given.columns})
    for node in nodes:
        kind = kind_of(node)
        if (kind == "BinaryOp" and node[kind]["op"] == "Eq") or kind in (
            "InSubquery",
            "IsNotDistinctFrom",
        ):
            groups.join(names_in(node))
    return groups


def _operand(node: Node) -> Node | None:
    """Return what a node compares with a list, or with a pattern that may be one."""
    kind = kind_of(node)
    if kind == "InList":
        return dict(node[kind]["expr"])
    if kind == "BinaryOp" and node[kind]["op"] in _PATTERNS:
        return dict(node[kind]["left"])
    return None


def _chains(nodes: Sequence[Node]) -> Iterator[list[frozenset[str]]]:
    """Yield the columns that are compared in each ``x = 1 OR x = 2``, or ``x <> 1 AND x <> 2``."""
    joined = [node["BinaryOp"] for node in nodes if _joins(node, "Or") or _joins(node, "And")]
    parts = {id(node): _parts(node) for node in joined}
    inner = {id(part["BinaryOp"]) for node in joined for part in parts[id(node)]
             if _joins(part, node["op"])}  # fmt: skip
    for node in joined:
        if id(node) in inner:
            continue
        chain, stack = [], list(parts[id(node)])
        while stack:
            part = stack.pop()
            if _joins(part, node["op"]):
                stack += parts[id(part["BinaryOp"])]
            elif _is_equality(part, node["op"]):
                chain.append(names_in(part))
        if len(chain) > 1:
            yield chain


def _joins(node: Node, operator: str) -> bool:
    return kind_of(node) == "BinaryOp" and bool(node["BinaryOp"]["op"] == operator)


def _parts(node: Node) -> list[Node]:
    """Return the sides of an operator, without brackets around them."""
    return [_without_brackets(node["left"]), _without_brackets(node["right"])]


def _without_brackets(node: Node) -> Node:
    while kind_of(node) == "Nested":
        node = node["Nested"]
    return node


def _is_equality(node: Node, joined_by: str) -> bool:
    """Return whether a comparison is one of those that make a list, if AND or OR joins them."""
    kind = kind_of(node)
    if kind in ("Like", "ILike"):
        return bool(node[kind]["negated"]) == (joined_by == "And")
    return _joins(node, "Eq" if joined_by == "Or" else "NotEq")
