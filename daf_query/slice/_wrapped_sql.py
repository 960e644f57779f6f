"""SQL that the caller wrote, within the whole query that it becomes.  Pure.

Errors of the engine count lines and columns of the whole; here they are those of the part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from daf_query.filter import Edit, clauses_of, edited
from daf_query.scan import INDEX
from daf_query.syntax import quoted_name, tokens_of


@dataclass(frozen=True, slots=True)
class RowKey:
    """How a query says which rows of a table it chooses."""

    columns: str
    """What it selects."""
    order: str
    """What it orders by: the order of the table."""


INDEX_KEY: Final = RowKey(quoted_name(INDEX), quoted_name(INDEX))
"""Of the table of one data set."""


@dataclass(frozen=True, slots=True)
class WrappedSql:
    """SQL that a caller wrote, and what is put before, into and after it."""

    written: str
    """What the caller wrote."""
    inserted: tuple[tuple[int, str], ...]
    """Offsets in it, ascending, and the SQL that is put before each."""
    edits: tuple[Edit, ...] = ()
    """What is written differently; ascending, between the first and the second insertion."""

    @property
    def query(self) -> str:
        """The whole query."""
        return edited(self.written, self._all_edits())

    def written_position(self, line: int, column: int) -> tuple[int, int] | None:
        """Return line and column, from 1, in the written part; None if outside it."""
        lines = self.query.split("\n")
        left = sum(len(earlier) + 1 for earlier in lines[: line - 1]) + column - 1
        place = 0
        for edit in self._all_edits():
            kept = edit.start - place
            if left < kept:
                break
            left -= kept
            if left < len(edit.sql):
                return self._position(edit.start) if edit in self.edits else None
            left -= len(edit.sql)
            place = edit.stop
        return self._position(place + left)

    def _all_edits(self) -> list[Edit]:
        around = [Edit(start, start, sql) for start, sql in self.inserted]
        return [*around[:1], *self.edits, *around[1:]]

    def _position(self, offset: int) -> tuple[int, int] | None:
        if offset >= len(self.written):
            return None
        before = self.written[:offset]
        return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


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
    has_filter = any(True for _ in tokens_of(predicate[:first]))
    inserted = [(0, f"{start}WHERE (\n" if has_filter else f"{start}\n")]
    if has_filter:
        inserted.append((first, ") " if clauses else "\n)"))
    if order is None and limit is not None:
        inserted.append((limit, f"ORDER BY {key.order} "))
    elif order is not None:
        is_last = limit is None or limit < order
        end = len(predicate) if is_last or limit is None else limit
        inserted.append((end, f"\n, {key.order}" if is_last else f", {key.order} "))
    return WrappedSql(predicate, tuple(inserted), edits), bool(clauses)
