"""Random conditions of SQL over the columns of a table, about values that are there and that are not."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

OPERATORS = ("=", "<>", "<", "<=", ">", ">=")


class Conditions:
    """Conditions that engines agree about, the same for the same seed.

    Parameters
    ----------
    table
        Its columns are compared with some of their values; what is ``X['g']`` is not quoted.
    seed
        Of the random numbers.
    """

    def __init__(self, table: pa.Table, seed: int) -> None:
        self.random = random.Random(seed)
        self._types = {field.name: field.type for field in table.schema}
        self._values = {name: table[name].unique().to_pylist() for name in self._types}

    def of_columns(self, *, depth: int = 2) -> str:
        """Return comparisons of columns, joined by AND, OR and NOT."""
        if depth and self.random.random() < 0.6:
            parts = [self.of_columns(depth=depth - 1) for _ in range(self.random.randint(2, 3))]
            joined = f" {self.random.choice(['AND', 'OR'])} ".join(f"({part})" for part in parts)
            return f"NOT ({joined})" if self.random.random() < 0.2 else joined
        return self._comparison(self.random.choice(list(self._types)))

    def _comparison(self, name: str) -> str:
        kind, column = self._types[name], _written(name)
        operator, negation = self.random.choice(OPERATORS), self.random.choice(["", "NOT "])
        found = [f"{column} IS {negation}NULL"]
        if pa.types.is_boolean(kind):
            return self.random.choice([*found, f"{negation}{column}", f"{column} = true"])
        values = self._some(name)
        others = self.random.choice([[], [], [None]])
        found += 2 * [
            f"{column} {operator} {self.value(values[0])}",
            f"{column} {negation}IN {self.values([*values, *others])}",
            f"{column} {negation}BETWEEN {self.value(min(values))} AND {self.value(max(values))}",
        ]
        if pa.types.is_string(kind):
            part = values[0].replace("'", "''")
            found += [f"{column} {negation}LIKE '{part[:2]}%'", f"{column} LIKE '%{part[-1:]}'"]
            found += [f"{negation}starts_with({column}, '{part[:1].strip(chr(39))}')"]
        elif not pa.types.is_timestamp(kind) and kind != pa.uint64():
            half = self.random.choice(["2.5", "-1", "0.1", "99.99", "1e18"])
            found += [f"CAST({column} AS DOUBLE) {operator} CAST({half} AS DOUBLE)"]
        same = [
            f'"{other}"'
            for other in self._types
            if self._types[other] == kind and "['" not in other
        ]
        if same:
            found += [f"{column} {operator} {self.random.choice(same)}"]
        return self.random.choice(found)

    def values(self, values: Sequence[Any]) -> str:
        """Return what stands after IN."""
        return f"({', '.join(map(self.value, values))})"

    def value(self, value: Any) -> str:
        """Return a value as the engines write it."""
        if value is None:
            return "NULL"
        if isinstance(value, str):
            return "'{}'".format(value.replace("'", "''"))
        if isinstance(value, dt.datetime):
            return f"TIMESTAMP '{value}'"
        # With an exponent DuckDB 1.5 reads it as a float, without one as a decimal, less exactly.
        is_plain = isinstance(value, float) and "e" not in repr(value)
        return f"{value!r}e0" if is_plain else repr(value)

    def _some(self, name: str) -> list[Any]:
        kind = self._types[name]
        values = [value for value in self._values[name] if value == value and value is not None]  # noqa: PLR0124 - NaN
        values = self.random.sample(values, min(len(values), self.random.randint(1, 6)))
        if pa.types.is_string(kind):
            return [*values, *self.random.sample(["", "x", "it's"], 1 if values else 2)]
        if pa.types.is_timestamp(kind):
            return values or [dt.datetime(2024, 1, 1)]  # noqa: DTZ001 - as stored
        values = [value for value in values if not math.isinf(value)] or [0]
        if self.random.random() < 0.3:
            values[0] += self.random.choice([1, 2])
        return values


def _written(name: str) -> str:
    matrix, is_entry, entry = name.partition("['")
    doubled = entry.removesuffix("']").replace("'", "''")
    return f"{matrix}['{doubled}']" if is_entry else f'"{name}"'
