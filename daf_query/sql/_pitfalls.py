"""SQL that the engine answers wrongly, written so that it is right, or refused with a reason.

What is listed in ``docs/reference/limits.md`` stays as it is: this is about ordinary queries.
"""

from __future__ import annotations

from collections.abc import Iterator

from daf_query.sql._unique_columns import unique_names, warn_of_names
from daf_query.syntax import (
    Edit,
    Node,
    Query,
    Statement,
    function_name,
    identifiers_of,
    is_query,
    kind_of,
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
