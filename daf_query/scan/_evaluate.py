"""Evaluate predicates to boolean masks.  Pure.

The same functions serve whole spans and single rows: they are given the values of each column,
whichever rows these are of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan._predicate import (
    ARROW_OPERATORS,
    COMPARISONS,
    And,
    Compare,
    Constant,
    In,
    IsNull,
    IsTrue,
    Or,
    Predicate,
    values_of_type,
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
    *,
    known: Callable[[Compare | In | IsNull], Mask | None] = lambda _: None,
) -> Mask:
    """Return for which rows a predicate is true: not those for which it is null.

    Parameters
    ----------
    values
        Returns the values of a column.
    count
        How many rows there are.
    known
        Returns for which rows a comparison is true, if that takes no values of its column.

    >>> evaluate(Compare("x", "!=", 2.0), lambda _: np.array([1.0, 2.0, np.nan]), 3).tolist()
    [True, False, False]
    """
    if isinstance(predicate, Constant):
        return np.full(count, predicate.value)
    if isinstance(predicate, And | Or):
        mask = evaluate(predicate.parts[0], values, count, known=known)
        for part in predicate.parts[1:]:
            other = evaluate(part, values, count, known=known)
            mask = mask & other if isinstance(predicate, And) else mask | other
        return mask
    found = None if isinstance(predicate, IsTrue) else known(predicate)
    if found is not None:
        return found
    column = values(predicate.column)
    if isinstance(column, Codes):
        return _of_codes(predicate, column)
    if isinstance(column, np.ndarray):
        return _of_numbers(predicate, column)
    return evaluate_strings(predicate, column)


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


def _of_times(predicate: Predicate, values: npt.NDArray[Any]) -> Mask:
    """Evaluate a predicate on times, whose constants are numbers of their unit."""
    null: Mask = np.isnat(values)
    if isinstance(predicate, IsNull):
        return ~null if predicate.is_negated else null
    return _of_numbers(predicate, values.view(np.int64)) & ~null


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
        elif first == 0:
            mask = column.codes <= last
        else:
            mask = column.codes >= first
            mask = mask if true[-1] == len(table) - 1 else mask & (column.codes <= last)
        return mask
    mask = table[column.codes]
    return mask
