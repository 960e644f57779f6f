"""Steps upon the rows of a query: filters, columns and orders that Python asks for.

A column is a name, other SQL, or an expression of DataFusion.  What limits the rows of a query is
kept apart from the steps upon it, as it is in subqueries of SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from daf_query._runs import attended
from daf_query.sql._matrix_entries import with_existing_columns
from daf_query.sql._planning import datafusion, node_type
from daf_query.sql._rules import MOST_ROWS, corrections, list_barriers
from daf_query.syntax import quoted_name, without_direction
from daf_storage import errors

Build: TypeAlias = "Callable[[datafusion.DataFrame], datafusion.DataFrame]"
"""Makes a frame of another one."""

_PASSED = ("Projection", "SubqueryAlias", "Union", "Sort", "Filter", "Distinct")
"""Nodes of a plan that an order or a condition passes."""


@dataclass(frozen=True, slots=True)
class Step:
    """What is built upon the rows of a query."""

    build: Build
    written: str
    """The call as Python writes it."""

    @attended
    def of(self, frame: datafusion.DataFrame) -> datafusion.DataFrame:
        """Return a frame of the step upon the rows of another one."""
        return self.build(kept_apart(frame))


def expressions(
    frame: datafusion.DataFrame, columns: Iterable[str | datafusion.Expr]
) -> list[datafusion.Expr]:
    """Return columns as expressions; a name is taken as it is, other strings are SQL."""
    names, found = frame.schema().names, list[datafusion.Expr]()
    for column in columns:
        if not isinstance(column, str):
            found.append(column)
        elif column in names:
            found.append(datafusion.col(quoted_name(column)))
        else:
            rules = (corrections, lambda each: list_barriers(each, is_part=True))
            found.append(frame.parse_sql_expr(with_existing_columns(column, names, rules)))
    return found


def sort_key(
    frame: datafusion.DataFrame, key: str | datafusion.Expr | datafusion.expr.SortExpr
) -> datafusion.Expr | datafusion.expr.SortExpr:
    """Return what to sort by; a string as after ORDER BY, and NULLs go where they do there."""
    if not isinstance(key, str):
        return key
    is_name = key in frame.schema().names
    column, is_ascending, nulls_first = (key, True, False) if is_name else without_direction(key)
    (expression,) = expressions(frame, [column])
    return expression.sort(ascending=is_ascending, nulls_first=nulls_first)


def without_columns(frame: datafusion.DataFrame, names: Sequence[str]) -> datafusion.DataFrame:
    """Return all columns but those of some names.

    Raises
    ------
    VectorNotFoundError
        There is no column of one of them.
    """
    columns = frame.schema().names
    for name in names:
        if name not in columns:
            raise errors.VectorNotFoundError(
                f"the result has no column {name!r} to leave out; it has "
                f"{errors.shown_names(columns, none='none')}{errors.nearest(name, columns)}"
            )
    return frame.select(*(quoted_name(name) for name in columns if name not in names))


def kept_apart(frame: datafusion.DataFrame) -> datafusion.DataFrame:
    """Return rows to build upon: nothing that is asked of them passes what limits them."""
    nodes: list[Any] = [frame.logical_plan()]
    for node in nodes:
        nodes += node.inputs() if node_type(node) in _PASSED else ()
    if not any(map(_is_end, nodes)):
        return frame
    return frame.limit(MOST_ROWS).filter(datafusion.functions.random() >= datafusion.lit(0.0))


def _is_end(node: Any) -> bool:
    """Return whether a node of a plan limits rows, or aggregates all rows to one."""
    keys = node.to_variant().group_by_exprs() if node_type(node) == "Aggregate" else [None]
    is_total = all(key is not None and key.variant_name() == "GroupingSet" for key in keys)
    return is_total or node_type(node) == "Limit"
