"""Facts about the rows of a table that a diagnosis needs, each by a query of its own."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from daf_query.sql import Engine, syntax_error
from daf_storage import DafError, errors

_MOST_VALUES: Final = 10_000
"""How many different strings are compared one by one; of more, the engine chooses some."""
_MOST_CANDIDATES: Final = 100
_NEAREST: Final = 3
_CUTOFF: Final = 0.6


@dataclass(frozen=True, slots=True)
class Range:
    """The smallest and largest value of an expression, and how many there are."""

    low: Any
    high: Any
    count: int
    missing: int


@dataclass(frozen=True)
class Facts:
    """A table, and what is asked of it."""

    engine: Engine
    table: str
    """As SQL."""
    _values: dict[tuple[str, str], dict[str, int] | None] = field(default_factory=dict)

    def count(self, conditions: Sequence[str]) -> int:
        """Return how many rows satisfy all of some conditions.

        Raises
        ------
        DafError
            One of them is wrong.
        """
        return int(self._ask("count(*) AS n", conditions).column(0)[0].as_py())

    def type_of(self, expression: str) -> pa.DataType | None:
        """Return the type of the values of an expression; None if it is wrong."""
        try:
            table = self._ask(f"{expression} AS value", ["FALSE"])
        except DafError:
            return None
        arrow_type = table.schema.field(0).type
        return arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type

    def range_of(self, expression: str, conditions: Sequence[str] = ()) -> Range:
        """Return the range of an expression, of the rows that satisfy some conditions."""
        selected = (
            f"min({expression}) AS low, max({expression}) AS high, count({expression}) AS n, "
            "count(*) AS total"
        )
        [row] = self._ask(selected, conditions).to_pylist()
        return Range(row["low"], row["high"], row["n"], row["total"] - row["n"])

    def neighbours(self, expression: str, constant: str) -> list[Any]:
        """Return the next smaller and the next larger value that occur."""
        pairs = (("max", "<"), ("min", ">"))
        found = [
            self._ask(f"{function}({expression}) AS value", [f"{expression} {sign} {constant}"])
            for function, sign in pairs
        ]
        values = [table.column(0)[0].as_py() for table in found]
        return [value for value in values if value is not None]

    def counts_of(self, expression: str, constants: Sequence[str]) -> dict[str, int]:
        """Return how often strings occur, of those that do."""
        return self._counts(expression, [f"{expression} IN ({', '.join(constants)})"])

    def frequent(self, expression: str, conditions: Sequence[str] = ()) -> dict[str, int] | None:
        """Return how often each string occurs, the most frequent first; None if there are many."""
        key = (expression, "\n".join(conditions))
        if key not in self._values:
            distinct = self._ask(
                f"DISTINCT {expression} AS value", conditions, end=f"LIMIT {_MOST_VALUES + 1}"
            )
            is_few = distinct.num_rows <= _MOST_VALUES
            self._values[key] = self._counts(expression, conditions) if is_few else None
        return self._values[key]

    def nearest(self, expression: str, value: str) -> dict[str, int]:
        """Return strings that are like one that does not occur, and how often each does.

        Such that differ in case and surrounding blanks alone come first.
        """
        known = self.frequent(expression)
        if known is None:
            known = self._alike(expression, value)
        folded: dict[str, str] = {}
        for name in known:
            folded.setdefault(_folded(name), name)
        same = [name for name in known if _folded(name) == _folded(value)]
        close = difflib.get_close_matches(_folded(value), list(folded), n=_NEAREST, cutoff=_CUTOFF)
        names = dict.fromkeys([*same, *(folded[name] for name in close)])
        return {name: known[name] for name in list(names)[:_NEAREST]}

    def _alike(self, expression: str, value: str) -> dict[str, int]:
        """Return some strings that the engine takes to be like another."""
        quoted = "'" + _folded(value).replace("'", "''") + "'"
        distance = f"levenshtein(lower(trim({expression})), {quoted})"
        table = self._ask(
            f"{expression} AS value",
            [f"{distance} <= {max(1, len(value) // 3)}"],
            end=f"GROUP BY 1 ORDER BY min({distance}), 1 LIMIT {_MOST_CANDIDATES}",
        )
        names = ["'" + name.replace("'", "''") + "'" for name in table.column(0).to_pylist()]
        return self.counts_of(expression, names) if names else {}

    def _counts(self, expression: str, conditions: Sequence[str]) -> dict[str, int]:
        table = self._ask(
            f"{expression} AS value, count(*) AS n",
            [*conditions, f"{expression} IS NOT NULL"],
            end="GROUP BY 1 ORDER BY 2 DESC, 1",
        )
        return {str(row["value"]): row["n"] for row in table.to_pylist()}

    def _ask(self, selected: str, conditions: Sequence[str], *, end: str = "") -> pa.Table:
        where = " AND ".join(f"(\n{condition}\n)" for condition in conditions)
        filtered = f"{self.table} WHERE {where}" if where else self.table
        # Not an injection: the query is read-only, one statement, and conditions are SQL by design.
        query = f"SELECT {selected} FROM {filtered} {end}"  # noqa: S608
        try:
            return self.engine.plan_raw(query).to_arrow_table()
        except Exception as error:  # noqa: BLE001 - the engine raises plain Exceptions
            raise self._explained(error, query, conditions) from None

    def _explained(self, error: Exception, query: str, conditions: Sequence[str]) -> DafError:
        """Translate an error; its line and column are those of the condition."""
        explained = self.engine.translated(error, query)
        is_syntax = isinstance(explained, errors.QueryError) and explained.line is not None
        if not is_syntax or not conditions:
            return explained
        assert isinstance(explained, errors.QueryError)  # noqa: S101 - for the type checker
        lines = conditions[0].split("\n")
        line = min((explained.line or 2) - 1, len(lines))
        column = min(explained.column or 1, len(lines[line - 1]) + 1)
        reason = explained.reason or str(explained)
        return syntax_error(reason, conditions[0], line, column, where="in the predicate")


def _folded(name: str) -> str:
    return name.strip().casefold()
