"""Rows that are limited, kept apart from what sorts them later.

The engine hands the order of a query to what is below, past LIMIT and OFFSET of a subquery: rows
are lost, or others are the first ones.  It does not pass a condition that is true for each row.
Of a subquery that only passes over rows it forgets the order, so that one gets a limit as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import datafusion
from datafusion import functions

from daf_query.sql._plan_nodes import node_type
from daf_query.syntax import Edit, Query, Statement, UnparsedError, kind_of, parsed

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
