"""Rows that are limited and then sorted, which the engine would sort first.

Its optimiser hands the order of a query to what is below, past LIMIT and OFFSET of a subquery: rows
are lost, or others are the first ones.  It does not pass a condition that is true for each row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import datafusion
from datafusion import functions

from daf_query.sql._tokens import Token, bracketed, tokens_of
from daf_storage import errors

_LIMITED: Final = re.compile(r"\b(?:limit|offset|fetch)\b", re.IGNORECASE)
_CREATING: Final = re.compile(r"\b(?:create|insert)\b", re.IGNORECASE)
_PASSED: Final = ("Projection:", "SubqueryAlias:", "Union")
"""Nodes of a plan that an order passes."""
_ORDERING: Final = re.compile(r"(?s)Sort:|WindowAggr:|DistinctOn:|Aggregate:.*\bORDER BY \[")
_SKIPPING: Final = re.compile(r"Limit: skip=(?!0,)")
_BEFORE: Final = ("FROM", "JOIN", "AS", "MATERIALIZED", "UNION", "ALL", "DISTINCT")
"""Words before the bracket of a query of which the rows are used in their order."""


def may_limit(query: str) -> bool:
    """Return whether a query may limit rows."""
    return _LIMITED.search(query) is not None


def may_create(query: str) -> bool:
    """Return whether a query may create a table or a view, of which it returns no plan."""
    return _CREATING.search(query) is not None


def sorted_limits(frame: datafusion.DataFrame) -> list[str]:
    """Return the limits in a plan above which rows are sorted otherwise.

    The printed plan has the subqueries of conditions, too; but a name or a string in it may have
    several lines, so the nodes are also visited one by one.
    """
    plan = frame.logical_plan()
    lines = str(plan.display_indent()).splitlines()
    printed = [(len(line) - len(line.lstrip()), line.strip()) for line in lines]
    visited = list(_nodes(plan, 0)) if any("Limit:" in line for line in lines) else []
    return [*_sorted_limits(printed), *_sorted_limits(visited)]


def _nodes(plan: Any, depth: int) -> Iterator[tuple[int, str]]:
    """Yield the depth and the words of each node of a plan, those above first."""
    yield depth, plan.display()
    for below in plan.inputs():
        yield from _nodes(below, depth + 1)


def _sorted_limits(nodes: Sequence[tuple[int, str]]) -> list[str]:
    places = [place for place, (_, node) in enumerate(nodes) if node.startswith("Limit:")]
    return [
        nodes[place][1]
        for place in places
        if _is_sorted_above(nodes[:place], nodes[place][0]) and not _is_safe(nodes[place:])
    ]


def _is_sorted_above(nodes: Sequence[tuple[int, str]], depth: int) -> bool:
    for indent, node in reversed(nodes):
        if indent < depth:
            if not node.startswith(_PASSED):
                return _ORDERING.match(node) is not None
            depth = indent
    return False


def _is_safe(nodes: Sequence[tuple[int, str]]) -> bool:
    """Return whether the first node takes the first of rows that are sorted already."""
    if _SKIPPING.match(nodes[0][1]):
        return False
    below = (node for _, node in nodes[1:] if not node.startswith("Projection:"))
    return next(below, "").startswith("Sort:")


def with_barriers(query: str) -> str:
    """Return a query with a condition upon each subquery that limits its rows.

    >>> with_barriers("SELECT n FROM (SELECT n FROM t LIMIT 3) ORDER BY n")
    'SELECT n FROM (SELECT * FROM (SELECT n FROM t LIMIT 3) WHERE random() >= 0.0) ORDER BY n'
    """
    tokens = tuple(tokens_of(query))
    inserted = []
    for place, token in enumerate(tokens):
        if token.is_operator("(") and _is_of_rows(tokens[:place]):
            inside = bracketed(tokens[place:])
            if _limits(inside):
                inserted.append((inside[0].start, "SELECT * FROM ("))
                inserted.append((inside[-1].stop, ") WHERE random() >= 0.0"))
    for position, text in sorted(inserted, reverse=True):
        query = query[:position] + text + query[position:]
    return query


def _is_of_rows(before: Sequence[Token]) -> bool:
    if not before or before[-1].is_word(*_BEFORE) or before[-1].is_operator(","):
        return True
    return before[-1].is_operator("(") and _is_of_rows(before[:-1])


def _limits(inside: Sequence[Token]) -> bool:
    if not inside or not (
        inside[0].is_word("SELECT", "WITH", "VALUES") or inside[0].is_operator("(")
    ):
        return False
    depth = 0
    for token in inside:
        depth += token.is_operator("(") - token.is_operator(")")
        if depth == 0 and token.is_word("LIMIT", "OFFSET", "FETCH"):
            return True
    return False


def check_limits(frame: datafusion.DataFrame) -> None:
    """Refuse a plan that would lose rows.

    Raises
    ------
    QueryError
        Rows are passed over in a view, and sorted then.
    """
    if any(_SKIPPING.match(limit) for limit in sorted_limits(frame)):
        raise errors.QueryError(
            "a view with OFFSET whose rows are sorted is refused: the engine loses some of them; "
            "write SELECT * FROM (...) WHERE random() >= 0 around the query of the view, or its "
            "query itself in place of the view"
        )


def kept_apart(
    step: Callable[[datafusion.DataFrame], datafusion.DataFrame], frame: datafusion.DataFrame
) -> datafusion.DataFrame:
    """Return what a step makes of the rows of a frame, after they were limited if they are."""
    result = step(frame)
    if not sorted_limits(result):
        return result
    return step(frame.filter(functions.random() >= datafusion.lit(0.0)))
