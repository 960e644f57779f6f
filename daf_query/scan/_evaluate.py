"""Evaluate predicates: boolean masks of rows, and the ranges of rows that cannot match.  Pure.

The same functions serve a range of rows and a list of positions: they are given the values of each
column, whichever these are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan._predicate import And, Compare, Constant, In, IsNull, IsTrue, Or, Predicate

Mask: TypeAlias = npt.NDArray[np.bool_]
Bits: TypeAlias = npt.NDArray[np.uint64]

Positions: TypeAlias = npt.NDArray[np.int64]
"""Row numbers, from 0."""

_NUMPY: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARROW: dict[str, Callable[[Any, Any], Any]] = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """Strings as numbers of a list of the distinct ones."""

    codes: npt.NDArray[Any]
    """Unsigned integers, one per row."""
    strings: pa.Array
    """The distinct strings, sorted."""
    table: Callable[[Predicate], Mask]
    """Returns for which of them a predicate is true."""


Values: TypeAlias = npt.NDArray[Any] | Codes | pa.Array
"""Numbers (NaN is null), strings as codes, or strings."""


def evaluate(predicate: Predicate, values: Callable[[str], Values], count: int) -> Mask:
    """Return for which rows a predicate is true: not those for which it is null.

    >>> evaluate(Compare("x", "!=", 2.0), lambda _: np.array([1.0, 2.0, np.nan]), 3).tolist()
    [True, False, False]
    """
    if isinstance(predicate, Constant):
        return np.full(count, predicate.value)
    if isinstance(predicate, And | Or):
        found = evaluate(predicate.parts[0], values, count)
        for part in predicate.parts[1:]:
            other = evaluate(part, values, count)
            found = found & other if isinstance(predicate, And) else found | other
        return found
    column = values(predicate.column)
    if isinstance(column, Codes):
        return _of_codes(predicate, column)
    if isinstance(column, np.ndarray):
        return _of_numbers(predicate, column)
    return of_strings(predicate, column)


def of_strings(predicate: Predicate, strings: pa.Array) -> Mask:
    """Return for which strings a predicate on them is true: for a null, only that it is one.

    The same goes for integers and booleans of Arrow, which may be null.
    """
    if isinstance(predicate, IsTrue):
        found = pc.invert(strings) if predicate.is_negated else strings
    elif isinstance(predicate, IsNull):
        found = pc.is_valid(strings) if predicate.is_negated else pc.is_null(strings)
    elif isinstance(predicate, In):
        found = pc.is_in(strings, value_set=pa.array(predicate.values, strings.type))
        if predicate.is_negated:
            found = pc.and_(pc.invert(found), pc.is_valid(strings))
    elif isinstance(predicate, Compare):
        found = _ARROW[predicate.operator](strings, pa.scalar(predicate.value, strings.type))
    else:
        raise TypeError(f"{predicate} is not about strings")
    found = found.fill_null(False) if found.null_count else found  # noqa: FBT003 - an Arrow literal
    mask: Mask = found.to_numpy(zero_copy_only=False)
    return mask


def _of_numbers(predicate: Predicate, values: npt.NDArray[Any]) -> Mask:
    is_float = values.dtype.kind == "f"
    if values.dtype.kind == "M":
        return _of_times(predicate, values)
    if isinstance(predicate, IsTrue):
        mask: Mask = values.view(np.bool_)
        return ~mask if predicate.is_negated else mask
    if isinstance(predicate, IsNull):
        null = np.isnan(values) if is_float else np.zeros(len(values), np.bool_)
        return ~null if predicate.is_negated else null
    if isinstance(predicate, In):
        found: Mask = np.isin(values, np.array(predicate.values, values.dtype))
        if predicate.is_negated:
            found = ~found
        return found & ~np.isnan(values) if is_float and predicate.is_negated else found
    if isinstance(predicate, Compare):
        found = _NUMPY[predicate.operator](values, predicate.value)
        return found & ~np.isnan(values) if is_float and predicate.operator == "!=" else found
    raise TypeError(f"{predicate} is not about numbers")


def _of_times(predicate: Predicate, values: npt.NDArray[Any]) -> Mask:
    """Evaluate a predicate on times, whose constants are numbers of their unit."""
    null: Mask = np.isnat(values)
    if isinstance(predicate, IsNull):
        return ~null if predicate.is_negated else null
    found = _of_numbers(predicate, values.view(np.int64))
    return found & ~null


def _of_codes(predicate: Predicate, column: Codes) -> Mask:
    table = column.table(predicate)
    true = np.flatnonzero(table)
    found: Mask
    if true.size in (0, len(table)):
        return np.full(len(column.codes), true.size > 0)
    if true[-1] - true[0] == true.size - 1:  # neighbours: comparing is faster than looking up
        first, last = (column.codes.dtype.type(n) for n in (true[0], true[-1]))
        if first == last:
            found = column.codes == first
        elif first == 0:
            found = column.codes <= last
        else:
            found = column.codes >= first
            found = found if true[-1] == len(table) - 1 else found & (column.codes <= last)
        return found
    found = table[column.codes]
    return found


# Ranges


@dataclass(frozen=True, slots=True, eq=False)
class Zones:
    """What is known of the values of a column in consecutive ranges of rows."""

    low: npt.NDArray[Any]
    """The smallest value of each range, nulls aside."""
    high: npt.NDArray[Any]
    """The largest."""
    is_known: Mask
    """Whether anything is known of a range."""
    has_null: Mask
    """Whether there is a null in it."""
    has_value: Mask
    """Whether there is anything else in it."""
    table: Callable[[Predicate], Mask] | None = None
    """For strings, whose bounds are codes: for which of them a predicate is true.  Null has a code
    of its own, and counts as a value here."""
    present: Bits | None = None
    """For few distinct strings: which of them each range has, a bit each."""


def may_match(predicate: Predicate, zones: Callable[[str], Zones | None], count: int) -> Mask:
    """Return in which ranges a predicate may be true for a row.

    Parameters
    ----------
    zones
        Returns what is known of a column; None if nothing.
    count
        The number of ranges.
    """
    if isinstance(predicate, Constant):
        return np.full(count, predicate.value)
    if isinstance(predicate, And | Or):
        parts = [may_match(part, zones, count) for part in predicate.parts]
        join = np.logical_and if isinstance(predicate, And) else np.logical_or
        joined: Mask = join.reduce(parts)
        return joined
    found = zones(predicate.column)
    if found is None:
        return np.ones(count, np.bool_)
    possible: Mask = ~found.is_known | _possible(predicate, found)
    return possible


def _possible(predicate: Predicate, zones: Zones) -> Mask:
    low, high = zones.low, zones.high
    if zones.table is not None and zones.present is not None:
        bits = _bits_of(np.flatnonzero(zones.table(predicate)))
        has_some: Mask = (zones.present & bits) != 0
        return has_some
    if zones.table is not None:
        counts = np.concatenate([[0], np.cumsum(zones.table(predicate))])
        some: Mask = counts[high.astype(np.int64) + 1] > counts[low.astype(np.int64)]
        return some & zones.has_value
    if isinstance(predicate, IsNull):
        return zones.has_value if predicate.is_negated else zones.has_null
    if isinstance(predicate, IsTrue):
        some_of: Mask = low == 0 if predicate.is_negated else high != 0
        return zones.has_value & some_of
    if isinstance(predicate, In):
        if predicate.is_negated:
            return zones.has_value
        wanted = np.sort(np.array(predicate.values, low.dtype))
        first = np.searchsorted(wanted, low, side="left")
        inside: Mask = first < np.searchsorted(wanted, high, side="right")
        return zones.has_value & inside
    if not isinstance(predicate, Compare):
        raise TypeError(f"{predicate} is not about a column")
    value = predicate.value
    tests: dict[str, Callable[[], Mask]] = {
        "==": lambda: (low <= value) & (high >= value),
        "!=": lambda: (low != value) | (high != value),
        "<": lambda: low < value,
        "<=": lambda: low <= value,
        ">": lambda: high > value,
        ">=": lambda: high >= value,
    }
    possible: Mask = zones.has_value & tests[predicate.operator]()
    return possible


_MAX_BITS = 64


def present_bits(codes: npt.NDArray[Any], starts: Positions, distinct: int) -> Bits | None:
    """Return which codes each range of rows has, as bits; None if there are too many for that.

    >>> present_bits(np.array([0, 2, 2, 1], np.uint8), np.array([0, 3]), 3).tolist()
    [5, 2]
    """
    if distinct > _MAX_BITS or not starts.size:
        return None
    bits = np.left_shift(np.uint64(1), np.arange(distinct, dtype=np.uint64))
    ends = [*starts[1:], len(codes)]
    parts = (np.bincount(codes[a:b], minlength=distinct) for a, b in zip(starts, ends, strict=True))
    return np.array([np.bitwise_or.reduce(bits[part > 0]) for part in parts], np.uint64)


def _bits_of(codes: npt.NDArray[np.intp]) -> np.uint64:
    bits: Bits = np.left_shift(np.uint64(1), codes.astype(np.uint64))
    return np.uint64(np.bitwise_or.reduce(bits))
