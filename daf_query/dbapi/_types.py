"""The type objects and constructors of PEP 249: the code of a type is that of Arrow."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa


class TypeObject:
    """Equal to the types of Arrow that it stands for, as ``description`` has them.

    >>> pa.int64() == NUMBER, pa.string() == NUMBER
    (True, False)
    """

    def __init__(self, name: str, holds: Callable[[Any], bool]) -> None:
        self._name = name
        self._holds = holds

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self._name == other._name
        return isinstance(other, pa.DataType) and self._holds(other)

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return self._name


def _is_string(data_type: Any) -> bool:
    if pa.types.is_dictionary(data_type):
        return _is_string(data_type.value_type)
    types = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(each(data_type) for each in types)


def _is_binary(data_type: Any) -> bool:
    types = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    return any(each(data_type) for each in types)


def _is_number(data_type: Any) -> bool:
    types = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return any(each(data_type) for each in types)


STRING: Final = TypeObject("STRING", _is_string)
BINARY: Final = TypeObject("BINARY", _is_binary)
NUMBER: Final = TypeObject("NUMBER", _is_number)
DATETIME: Final = TypeObject("DATETIME", pa.types.is_temporal)
ROWID: Final = TypeObject("ROWID", lambda _: False)

Date: Final = dt.date
Time: Final = dt.time
Timestamp: Final = dt.datetime
Binary: Final = bytes


def DateFromTicks(ticks: float) -> dt.date:  # noqa: N802 - PEP 249 calls it that
    """Return the date of a number of seconds since 1970, in local time."""
    return dt.date.fromtimestamp(ticks)  # noqa: DTZ012 - local time, as PEP 249 has it


def TimeFromTicks(ticks: float) -> dt.time:  # noqa: N802 - the same
    """Return the time of a number of seconds since 1970, in local time."""
    return TimestampFromTicks(ticks).time()


def TimestampFromTicks(ticks: float) -> dt.datetime:  # noqa: N802 - the same
    """Return the date and time of a number of seconds since 1970, in local time."""
    return dt.datetime.fromtimestamp(ticks)  # noqa: DTZ006 - the same
