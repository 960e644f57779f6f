"""Corrections of what the engine answers wrongly for ordinary queries: rules that yield edits.

*Limits.*  The engine hands the order of a query to what is below, past LIMIT and OFFSET of a
subquery: rows are lost, or others are the first ones.  It does not pass a condition that is true
for each row.  Of a subquery that only passes over rows it forgets the order, so that one gets a
limit as well.

*Lists.*  Its simplifier treats two lists for one expression as sets: it makes ``x IN (1, 2) AND x
NOT IN (2, NULL)`` into ``x IN (1)``, without regard to NULL, to columns within a list, and to rows
in which ``x`` is missing.  ``(x = 1 OR x = 2)`` is such a list, and so is ``x ~ '^(1|2)$'``.  A
cast to BOOLEAN, which a list is anyway, hides it from the simplifier, and from the tables.  Columns
go by names; rather too many lists are taken for those of one column than too few.

*Narrow integers.*  The engine computes in the type of the columns, in which 2 - 3 is 255 if it is
UInt8: tables have what a query computes with in 64 bits.  Constants widen by themselves.

What is listed in ``docs/reference/limits.md`` stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import datafusion
from datafusion import functions

from daf_query.sql._names_in import given_names, names_in
from daf_query.sql._planning import node_type
from daf_query.sql._unique_columns import unique_names, warn_of_names
from daf_query.syntax import (
    Edit,
    Node,
    Query,
    Statement,
    UnparsedError,
    arguments_of,
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


_PATTERNS: Final = ("PGRegexMatch", "PGRegexNotMatch", "PGRegexIMatch", "PGRegexNotIMatch")


class _List(NamedTuple):
    """What compares a column with a list, or what the engine makes a comparison with one."""

    names: frozenset[str]
    """The columns that are compared."""
    stop: int | None
    """Where it ends, if a cast can be written there."""
    start: int | None = None
    """Where it begins, if it needs brackets for that."""
    is_handed: bool = False
    """Whether it is a list of constants in a WHERE, which tables are handed."""


def list_barriers(statement: Statement, *, is_part: bool = False) -> Iterator[Edit]:
    """Yield a cast, which merges with nothing, for each list that could meet another one.

    Of those of one query, one of constants in a WHERE stays as it is, for the tables to use; what
    the others imply is handed to them as for other conditions that the engine keeps.  Elsewhere all
    are alike: GROUP BY has to have what SELECT has.

    Parameters
    ----------
    is_part
        Conditions of other queries may meet those of this one: it is a view, or names one.

    Examples
    --------
    >>> from daf_query.syntax import edited
    >>> query = "SELECT * FROM t WHERE x IN (1, 2) AND y IN (3) AND x NOT IN (2, NULL)"
    >>> edited(query, list_barriers(parsed(query)))
    'SELECT * FROM t WHERE x IN (1, 2) AND y IN (3) AND x NOT IN (2, NULL)::BOOLEAN'
    """
    nodes = [node for _, node in statement.nodes]
    lists = [*_lists(statement, nodes), *_chains(statement, nodes)]
    if not is_part:
        groups = _meeting(statement, lists) if len(lists) > 1 else ()
        lists = [each for group in groups for each in _apart(group)]
    for start, stop in {(each.start, each.stop) for each in lists}:
        if stop is not None:
            if start is not None:
                yield Edit(start, start, "(")
            yield Edit(stop, stop, "::BOOLEAN" if start is None else ")::BOOLEAN")


def _apart(lists: Sequence[_List]) -> list[_List]:
    """Return those of some lists for one column that are to be kept apart from the others."""
    if len(lists) < 2:
        return []
    is_free = any(each.stop is None for each in lists)
    kept = next((each for each in lists if each.is_handed and not is_free), None)
    return [each for each in lists if each is not kept]


def _meeting(statement: Statement, lists: Sequence[_List]) -> Iterable[list[_List]]:
    """Return the lists that may meet each other: by names; all, where names may mean the same."""
    names = frozenset[str]().union(*(each.names for each in lists))
    is_renamed = any(given.name in names for given in given_names(statement))
    if len(statement.scopes) > 1 or is_renamed or any(_equates(n) for _, n in statement.nodes):
        return [list(lists)]
    found: dict[str, list[_List]] = {}
    for each in lists:
        for name in each.names or {""}:
            found.setdefault(name, []).append(each)
    return found.values()


def _equates(node: Node) -> bool:
    """Return whether a condition compares columns with each other."""
    is_equality = _joins(node, "Eq") or kind_of(node) == "IsNotDistinctFrom"
    return is_equality and len(names_in(node)) > 1


def _lists(statement: Statement, nodes: Iterable[Node]) -> Iterator[_List]:
    conditions = [scope.select["selection"] for scope in statement.scopes]
    filters = {id(node) for node in walk(conditions, into_queries=False)}
    for node in nodes:
        kind = kind_of(node)
        if kind == "InList":
            listed = node[kind]["list"]
            pair = next(p for p in statement.around(statement.span(listed)[0]) if p.before == "IN")
            is_handed = id(node) in filters and statement.constants_in(listed) is not None
            yield _List(names_in(node[kind]["expr"]), pair.closing + 1, is_handed=is_handed)
        elif kind == "BinaryOp" and node[kind]["op"] in _PATTERNS:
            yield _List(names_in(node[kind]["left"]), None)


def _chains(statement: Statement, nodes: Sequence[Node]) -> Iterator[_List]:
    """Yield each ``x = 1 OR x = 2``, and ``x <> 1 AND x <> 2``.

    One that no brackets are around, and that is no item of SELECT or GROUP BY, is beside nothing
    that it could be merged with wrongly.
    """
    joined = [node["BinaryOp"] for node in nodes if _joins(node, "Or") or _joins(node, "And")]
    parts = {id(node): [_unnested(node["left"]), _unnested(node["right"])] for node in joined}
    inner = {
        id(part["BinaryOp"])
        for node in joined
        for part in parts[id(node)]
        if _joins(part, node["op"])
    }
    nested = {id(_unnested(node).get("BinaryOp")) for node in nodes if kind_of(node) == "Nested"}
    items = {id(node.get("BinaryOp")): place for node, place in _items(statement)}
    for node in joined:
        if id(node) in inner:
            continue
        compared: Counter[str] = Counter()
        stack = list(parts[id(node)])
        while stack:
            part = stack.pop()
            if _joins(part, node["op"]):
                stack += parts[id(part["BinaryOp"])]
            elif _is_equality(part, node["op"]):
                compared.update(names_in(part))
        names = frozenset(name for name, count in compared.items() if count > 1)
        if names:
            start, stop = statement.span([node["left"], node["right"]])
            if id(node) in nested:
                pair = next(p for p in statement.around(start) if p.closing >= stop)
                yield _List(names, pair.closing + 1)
            else:
                begin, end = items.get(id(node), (None, None))
                yield _List(names, end, begin)


def _items(statement: Statement) -> Iterator[tuple[Node, tuple[int, int]]]:
    """Yield the items of SELECT and GROUP BY, and where each begins and ends, without its name."""
    for select in (scope.select for scope in statement.scopes):
        for item in select["projection"]:
            named = item.get("ExprWithAlias")
            node = named["expr"] if named else item.get("UnnamedExpr", {})
            if _joins(node, "Or") or _joins(node, "And"):
                yield node, statement.item(item)
        for node in select["group_by"].get("Expressions", ([],))[0]:
            if _joins(node, "Or") or _joins(node, "And"):
                yield node, statement.item(node)


def _joins(node: Node, operator: str) -> bool:
    return kind_of(node) == "BinaryOp" and bool(node["BinaryOp"]["op"] == operator)


def _unnested(node: Node) -> Node:
    while kind_of(node) == "Nested":
        node = node["Nested"]
    return node


def _is_equality(node: Node, joined_by: str) -> bool:
    """Return whether a comparison is one of those that make a list, if AND or OR joins them."""
    kind = kind_of(node)
    if kind in ("Like", "ILike"):
        return bool(node[kind]["negated"]) == (joined_by == "And")
    return _joins(node, "Eq" if joined_by == "Or" else "NotEq")


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
