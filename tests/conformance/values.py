"""Rows of different engines made comparable: kinds of values, NULL and NaN stay apart."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa

Row = tuple[Any, ...]

_NANOSECONDS = 86_400 * 10**9  # of a day

DIGITS = 12
"""Of floats; sums in another order differ in later ones."""


def rows_of(table: pa.Table) -> list[Row]:
    """Return the rows of a table in a form that can be compared, in their order."""
    columns = [list(map(comparable, _values(column))) for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _values(column: pa.ChunkedArray) -> list[Any]:
    # Python's times have no nanoseconds.
    found: list[Any] = (
        column.cast(pa.string()) if pa.types.is_time(column.type) else column
    ).to_pylist()
    return found


def in_any_order(rows: Iterable[Row]) -> list[Row]:
    """Return rows sorted by what they look like."""
    return sorted(rows, key=repr)


def comparable(value: Any) -> Any:
    """Return a value such that those of two engines are equal if they mean the same.

    A decimal without a fraction is an integer, other decimals are floats: the type of ``1.5`` and of sums differs
    between engines.
    """
    match value:
        case None | bool() | int() | str() | bytes():
            return value
        case float():
            return "NaN" if math.isnan(value) else float(f"{value:.{DIGITS}g}") + 0.0
        case Decimal():
            whole = value.as_tuple().exponent == 0
            return int(value) if whole else comparable(float(value))
        case dt.datetime():
            return ("timestamp", value.isoformat())
        case dt.date() | dt.time():
            return (type(value).__name__, str(value))
        case dt.timedelta():
            return ("interval", 0, value // dt.timedelta(microseconds=1) * 1000)
        case pa.MonthDayNano():
            return ("interval", value.months, value.days * _NANOSECONDS + value.nanoseconds)
        case dict():
            return tuple((name, comparable(each)) for name, each in value.items())
        case list() | tuple():
            return tuple(map(comparable, value))
    return str(value)
