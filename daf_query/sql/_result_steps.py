"""Steps that are built upon the rows of a query: columns as expressions, orders as sort keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import datafusion
from datafusion.expr import SortExpr

from daf_query.sql._corrections import corrections, list_barriers
from daf_query.sql._matrix_entries import with_known_columns
from daf_query.syntax import Edit, Statement, quoted_name, without_direction


def written_call(method: str, arguments: Iterable[object]) -> str:
    """Return a call as Python writes it."""
    return f"{method}({', '.join(map(repr, arguments))})"


def expressions(
    frame: datafusion.DataFrame, columns: Sequence[str | datafusion.Expr]
) -> list[datafusion.Expr]:
    """Return columns as expressions; a name is taken as it is, other strings are SQL."""
    return [_expression(frame, column) for column in columns]


def filtered(
    frame: datafusion.DataFrame, predicates: Sequence[str | datafusion.Expr]
) -> datafusion.DataFrame:
    """Return the rows for which all predicates are true."""
    return frame.filter(*expressions(frame, predicates))


def _expression(frame: datafusion.DataFrame, column: str | datafusion.Expr) -> datafusion.Expr:
    if not isinstance(column, str):
        return column
    if column in frame.schema().names:
        return datafusion.col(quoted_name(column))
    known = with_known_columns(column, frame.schema().names, (corrections, _list_barriers))
    return frame.parse_sql_expr(known)


def sort_keys(
    frame: datafusion.DataFrame, columns: Sequence[str | datafusion.Expr | SortExpr]
) -> list[datafusion.Expr | SortExpr]:
    """Return what to sort by; names and other SQL with a direction, as after ORDER BY."""
    return [_sort_key(frame, column) if isinstance(column, str) else column for column in columns]


def _sort_key(frame: datafusion.DataFrame, written: str) -> SortExpr:
    """Return a key that is written as after ORDER BY; where NULLs go is as there, too."""
    if written in frame.schema().names:
        return _expression(frame, written).sort(ascending=True, nulls_first=False)
    column, is_ascending, is_nulls_first = without_direction(written)
    return _expression(frame, column).sort(ascending=is_ascending, nulls_first=is_nulls_first)


def _list_barriers(statement: Statement) -> Iterator[Edit]:
    return list_barriers(statement, is_part=True)
