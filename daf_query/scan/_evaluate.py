"""Evaluate predicates: on the values of rows, and on the bounds of zones.  Pure.

The same functions serve whole spans and single rows: they are given the values of each column,
whichever rows these are of.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import and_, or_
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan._arrow_arrays import number_array, plain_array
from daf_query.scan._predicate import (
    ARROW_OPERATORS,
    COMPARISONS,
    And,
    Compare,
    Constant,
    In,
    IsNull,
    IsTrue,
    Opaque,
    Or,
    Predicate,
)

Mask: TypeAlias = npt.NDArray[np.bool_]

_ARROW: Final[dict[str, Callable[[Any, Any], Any]]] = {
    symbol: getattr(pc, name) for name, symbol in ARROW_OPERATORS.items()
}


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """Dictionary codes of strings."""

    codes: npt.NDArray[Any]
    """Unsigned integers, one per row."""
    strings: pa.Array
    """The distinct strings, sorted."""
    table: Callable[[Predicate], Mask]
    """Returns for which of them a predicate is true."""


Values: TypeAlias = npt.NDArray[Any] | Codes | pa.Array
"""Numbers (NaN is null), dictionary codes, or strings."""


def evaluate(
    predicate: Predicate,
    values: Callable[[str], Values],
    count: int,
    arrays: Callable[[str], pa.Array] | None = None,
) -> Mask:
    """Return for which rows a predicate is true: not those for which it is null.

    Parameters
    ----------
    values
        Returns the values of a column.
    count
        How many rows there are.
    arrays
        Returns the same as Arrow, for what Arrow evaluates; by default ``values`` does.

    >>> evaluate(Compare("x", "!=", 2.0), lambda _: np.array([1.0, 2.0, np.nan]), 3).tolist()
    [True, False, False]
    """
    if isinstance(predicate, Constant):
        return np.full(count, predicate.value)
    if isinstance(predicate, And | Or):
        parts = (evaluate(part, values, count, arrays) for part in predicate.parts)
        return functools.reduce(and_ if isinstance(predicate, And) else or_, parts)
    if isinstance(predicate, Opaque):
        read = {name: (arrays or values)(name) for name in predicate.columns}
        return _by_arrow(predicate.expression, read, count)
    column = values(predicate.column)
    if isinstance(column, Codes):
        return _of_codes(predicate, column)
    if isinstance(column, np.ndarray):
        return _of_numbers(predicate, column)
    return evaluate_strings(predicate, column)


def _by_arrow(expression: pc.Expression, arrays: Mapping[str, Any], count: int) -> Mask:
    """Return for which rows Arrow finds an expression true."""
    plain: dict[str, pa.Array] = {}
    for name, values in arrays.items():
        array = number_array(values) if isinstance(values, np.ndarray) else values
        plain[name] = plain_array(array)
    number = max(plain, key=len, default="") + "_"
    rows = pa.table({**plain, number: np.arange(count)}).filter(expression)
    mask = np.zeros(count, np.bool_)
    mask[rows[number].to_numpy()] = True
    return mask


def evaluate_strings(predicate: Predicate, strings: pa.Array) -> Mask:
    """Return for which strings a predicate on them is true: for a null, only that it is one.

    The same goes for integers and booleans of Arrow, which may be null.
    """
    if isinstance(predicate, IsTrue):
        is_true = pc.invert(strings) if predicate.is_negated else strings
    elif isinstance(predicate, IsNull):
        is_true = pc.is_valid(strings) if predicate.is_negated else pc.is_null(strings)
    elif isinstance(predicate, In):
        is_true = pc.is_in(strings, value_set=pa.array(predicate.values, strings.type))
        if predicate.is_negated:
            is_true = pc.and_(pc.invert(is_true), pc.is_valid(strings))
    elif isinstance(predicate, Compare):
        is_true = _ARROW[predicate.operator](strings, pa.scalar(predicate.value, strings.type))
    else:
        raise TypeError(f"{predicate} is not about strings")
    if is_true.null_count:
        is_true = is_true.fill_null(False)  # noqa: FBT003 - an Arrow literal
    mask: Mask = is_true.to_numpy(zero_copy_only=False)
    return mask


def _of_numbers(predicate: Predicate, values: npt.NDArray[Any]) -> Mask:
    if values.dtype.kind == "M":  # the constants are numbers of the unit
        null: Mask = np.isnat(values)
        if isinstance(predicate, IsNull):
            return ~null if predicate.is_negated else null
        return _of_numbers(predicate, values.view(np.int64)) & ~null
    is_float = values.dtype.kind == "f"
    if isinstance(predicate, IsTrue):
        mask: Mask = values.view(np.bool_)
        return ~mask if predicate.is_negated else mask
    if isinstance(predicate, IsNull):
        null = np.isnan(values) if is_float else np.zeros(len(values), np.bool_)
        return ~null if predicate.is_negated else null
    if isinstance(predicate, In):
        # Above 2^63 numpy 2.0.0 fails in the table that it makes of a few integers.
        kind: Literal["sort"] | None = "sort" if values.dtype == np.uint64 else None
        members = values_of_type(predicate.values, values.dtype)
        is_member: Mask = np.isin(values, members, kind=kind)
        if not predicate.is_negated:
            return is_member
        return ~is_member & ~np.isnan(values) if is_float else ~is_member
    if isinstance(predicate, Compare):
        mask = COMPARISONS[predicate.operator](values, predicate.value)
        return mask & ~np.isnan(values) if is_float and predicate.operator == "!=" else mask
    raise TypeError(f"{predicate} is not about numbers")


def values_of_type(values: Sequence[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return those values of a list that a stored type has; a column may be shown as a wider one.

    >>> values_of_type((1, 2.5, 300, -1), np.dtype(np.uint8)).tolist()
    [1]
    """
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = [each for each in values if limits.min <= each <= limits.max and each == int(each)]
    return np.array(values, dtype)


def _of_codes(predicate: Predicate, column: Codes) -> Mask:
    table = column.table(predicate)
    true = np.flatnonzero(table)
    mask: Mask
    if true.size in (0, len(table)):
        return np.full(len(column.codes), true.size > 0)
    if true[-1] - true[0] == true.size - 1:  # neighbours: comparing is faster than looking up
        first, last = (column.codes.dtype.type(n) for n in (true[0], true[-1]))
        if first == last:
            mask = column.codes == first
        else:
            mask = (column.codes >= first) & (column.codes <= last)
        return mask
    mask = table[column.codes]
    return mask


@dataclass(frozen=True, slots=True, eq=False)
class Zones:
    """Bounds of a column in consecutive zones."""

    low: npt.NDArray[Any]
    """Minimum of each zone, nulls aside."""
    high: npt.NDArray[Any]
    """Maximum."""
    is_known: Mask
    """Whether the bounds of a zone were computed yet."""
    has_null: Mask
    """Whether it has a null."""
    has_value: Mask
    """Whether it has anything else."""
    table: Callable[[Predicate], Mask] | None = None
    """Of strings, whose bounds are dictionary codes: returns for which codes a predicate is true.
    Null has a code, and counts as a value here."""


def may_match(predicate: Predicate, zones: Callable[[str], Zones | None], count: int) -> Mask:
    """Return which zones may have a row for which a predicate is true.

    Parameters
    ----------
    zones
        Returns the zones of a column; ``None`` without a zone map.
    count
        Number of zones.
    """
    if isinstance(predicate, Constant):
        return np.full(count, predicate.value)
    if isinstance(predicate, And | Or):
        parts = (may_match(part, zones, count) for part in predicate.parts)
        return functools.reduce(and_ if isinstance(predicate, And) else or_, parts)
    bounds = None if isinstance(predicate, Opaque) else zones(predicate.column)
    if bounds is None:
        return np.ones(count, np.bool_)
    possible: Mask = ~bounds.is_known | _possible(predicate, bounds)
    return possible


def _possible(predicate: Predicate, zones: Zones) -> Mask:
    low, high = zones.low, zones.high
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
        wanted = np.sort(values_of_type(predicate.values, low.dtype))
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
