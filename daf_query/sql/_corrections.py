"""Corrections of what the engine answers wrongly for ordinary queries: rules that yield edits.

*Limits.*  The engine hands the order of a query to what is below, past LIMIT and OFFSET of a
subquery: rows are lost, or others are the first ones.  It does not pass a condition that is true
for each row.  Of a subquery that only passes over rows it forgets the order, so that one gets a
limit as well.

*Lists.*  Its simplifier treats two lists for one expression as sets: it makes ``x IN (1, 2) AND x
NOT IN (2, NULL)`` into ``x IN (1)``, without regard to NULL, to columns within a list, and to rows
in which ``x`` is missing.  ``x = 1 OR x = 2`` is such a list, and so is ``x ~ '^(1|2)$'``.  Queries
in which two lists may meet are planned without the simplifier, and hand fewer filters to the
tables.  Columns go by names; rather too many lists are taken for those of one column than too few.

What is listed in ``docs/reference/limits.md`` stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import datafusion
from datafusion import functions

from daf_query.sql._names_in import given_names, names_in
from daf_query.sql._plan_nodes import node_type
from daf_query.sql._unique_columns import unique_names, warn_of_names
from daf_query.syntax import (
    Edit,
    Node,
    Query,
    Statement,
    UnparsedError,
    function_name,
    identifiers_of,
    is_query,
    kind_of,
    parsed,
    quoted_name,
    values_of,
    walk,
)
from daf_storage import errors


def corrections(statement: Statement) -> Iterator[Edit]:
    """Yield what to write instead.

    The engine takes the column of ``x >= ALL (SELECT x FROM t)`` for that of the query around, so
    it gets another name; ``nvl`` and ``ifnull`` round large integers, ``coalesce`` does not.

    Raises
    ------
    QueryError
        The engine takes too much for the right side of IS DISTINCT FROM.

    Examples
    --------
    >>> from daf_query.syntax import edited, parsed
    >>> query = "SELECT nvl(n, 0) FROM t WHERE n >= ALL (SELECT n FROM t)"
    >>> edited(query, corrections(parsed(query)))
    'SELECT coalesce(n, 0) FROM t WHERE n >= ALL (SELECT n AS __quantified_0 FROM t)'
    """
    count = 0
    for _, node in statement.nodes:
        kind = kind_of(node)
        if kind == "Function" and function_name(node[kind]) in ("nvl", "ifnull"):
            yield Edit(*statement.span(node[kind]["name"]), "coalesce")
        elif kind in ("AnyOp", "AllOp"):
            yield from _named(statement, node[kind]["right"], f"__quantified_{count}")
            count += 1
        elif kind in ("IsDistinctFrom", "IsNotDistinctFrom"):
            _check_distinct(node[kind][1])
    for query in statement.queries[-1:]:
        yield from _told_apart(statement, query)


def _named(statement: Statement, right: Node, name: str) -> Iterator[Edit]:
    """Yield a name of its own for the column of a subquery."""
    query = next((each for each in walk(right) if is_query(each)), None)
    if query is None:
        return
    body = query["body"]
    while "Select" not in body:
        inner = body.get("SetOperation", {}).get("left") or body.get("Query", {}).get("body")
        if inner is None:  # VALUES
            return
        body = inner
    item = body["Select"]["projection"][0]
    parts = identifiers_of(item["UnnamedExpr"]) if "UnnamedExpr" in item else None
    if "Wildcard" in kind_of(item):  # a derived table is of no use where it is correlated
        pair = statement.brackets_of(query)
        yield Edit(pair.opening + 1, pair.opening + 1, "SELECT * FROM (")
        yield Edit(pair.closing, pair.closing, f"\n) AS {name}")
    elif parts is not None:
        stop = statement.span(parts)[1]
        yield Edit(stop, stop, f" AS {name}")


def _told_apart(statement: Statement, query: Query) -> Iterator[Edit]:
    """Yield names for columns of ``DISTINCT ON`` that have one, whose tables its plan forgets."""
    for scope in query.scopes[:1] if len(query.scopes) == 1 else ():
        items = scope.select["projection"]
        named = [identifiers_of(item["UnnamedExpr"]) for item in items if "UnnamedExpr" in item]
        columns = [parts for parts in named if parts is not None]
        if kind_of(scope.select["distinct"]) == "On" and len(columns) == len(items):
            names = [str(parts[-1]["value"]) for parts in columns]
            for parts, name, unique in zip(columns, names, unique_names(names), strict=True):
                if name != unique:
                    stop = statement.span(parts)[1]
                    yield Edit(stop, stop, f" AS {quoted_name(unique)}")
                    warn_of_names([name], [".".join(values_of(parts)) + f" is {unique!r}"])


def _check_distinct(right: Node) -> None:
    operator = right["BinaryOp"]["op"].upper() if kind_of(right) == "BinaryOp" else ""
    if operator in ("AND", "OR"):
        raise errors.QueryError(
            f"IS DISTINCT FROM ... {operator} is refused: the engine takes all that follows for "
            f"the right side of the comparison; write (a IS DISTINCT FROM b) {operator} ..."
        )


_MOST_ROWS = 2**62
_PASSED = ("Projection", "SubqueryAlias")
"""Nodes of a plan that an order passes."""


def limit_barriers(statement: Statement) -> Iterator[Edit]:
    r"""Yield a condition for each query that limits the rows of a FROM, a WITH or a UNION.

    >>> from daf_query.syntax import edited
    >>> query = "SELECT n FROM (SELECT n FROM t LIMIT 3) ORDER BY n"
    >>> edited(query, limit_barriers(parsed(query)))
    'SELECT n FROM (SELECT * FROM (SELECT n FROM t LIMIT 3\n) WHERE random() >= 0.0) ORDER BY n'
    """
    for query in statement.queries:
        if query.is_source and _limits(query):
            pair = statement.brackets_of(query.node)
            yield Edit(pair.opening + 1, pair.opening + 1, "SELECT * FROM (")
            limit = "" if _has_limit(query) else f"\nLIMIT {_MOST_ROWS}"
            yield Edit(pair.closing, pair.closing, f"{limit}\n) WHERE random() >= 0.0")


def as_subquery(view: str) -> str:
    """Return the query of a view, as a subquery if it limits rows: others may sort them."""
    try:
        queries = parsed(view).queries
    except UnparsedError:  # the engine says what is wrong
        return view
    is_limited = bool(queries) and _limits(queries[-1])
    return f"SELECT * FROM ({view}\n)" if is_limited else view  # noqa: S608 - of the query itself


def kept_apart(frame: datafusion.DataFrame) -> datafusion.DataFrame:
    """Return rows to build upon: as they are limited, whatever sorts them then."""
    node: Any = frame.logical_plan()
    while node_type(node) in _PASSED:
        (node,) = node.inputs()
    is_limited = node_type(node) == "Limit"
    return frame.filter(functions.random() >= datafusion.lit(0.0)) if is_limited else frame


def _has_limit(query: Query) -> bool:
    """Return whether rows are limited, and not only passed over: else the engine loses an order."""
    clause = query.node["limit_clause"]
    return kind_of(clause) != "LimitOffset" or clause["LimitOffset"]["limit"] is not None


def _limits(query: Query) -> bool:
    return query.node["limit_clause"] is not None  # the engine has no FETCH


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
