"""Predicates within the whole queries that they become.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from daf_query.scan import INDEX
from daf_query.syntax import Edit, WrappedSql, clauses_of, quoted_name


@dataclass(frozen=True, slots=True)
class RowKey:
    """How a query says which rows of a table it chooses."""

    columns: str
    """What it selects."""
    order: str
    """What it orders by: the order of the table."""


INDEX_KEY: Final = RowKey(quoted_name(INDEX), quoted_name(INDEX))
"""Of the table of one data set."""


def predicate_query(
    schema: str,
    axis: str,
    predicate: str,
    edits: tuple[Edit, ...] = (),
    key: RowKey = INDEX_KEY,
) -> tuple[WrappedSql, bool]:
    """Return the query for the positions that a predicate chooses, and whether it has an order.

    The predicate may end in ORDER BY, LIMIT and OFFSET, or have only these.  Entries that are equal
    in the order, and those of a LIMIT without one, come in the order of the axis.

    Parameters
    ----------
    edits
        What is written differently in the condition.
    key
        What says which rows are chosen.

    Examples
    --------
    >>> print(predicate_query("pbmc", "cell", "age > 60 ORDER BY age LIMIT 3")[0].query)
    SELECT "index" FROM "pbmc"."cell" WHERE (
    age > 60 ) ORDER BY age , "index" LIMIT 3
    """
    table = f"{quoted_name(schema)}.{quoted_name(axis)}"
    # Not an injection: the query is read-only, one statement, and the predicate is SQL by design.
    start = f"SELECT {key.columns} FROM {table} "  # noqa: S608
    clauses = clauses_of(predicate)
    order = next((clause.start for clause in clauses if clause.is_word("ORDER")), None)
    limit = next((clause.start for clause in clauses if not clause.is_word("ORDER")), None)
    first = min(start for start in (order, limit, len(predicate)) if start is not None)
    has_filter = bool(predicate[:first].strip())
    before = Edit(0, 0, f"{start}WHERE (\n" if has_filter else f"{start}\n")
    after = [Edit(first, first, ") " if clauses else "\n)")] if has_filter else []
    if order is None and limit is not None:
        after.append(Edit(limit, limit, f"ORDER BY {key.order} "))
    elif order is not None:
        is_last = limit is None or limit < order
        end = len(predicate) if is_last or limit is None else limit
        after.append(Edit(end, end, f"\n, {key.order}" if is_last else f", {key.order} "))
    return WrappedSql(predicate, (before, *edits, *after)), bool(clauses)
