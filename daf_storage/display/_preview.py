"""Previews: what some values of a column look like."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage._lazy import lazy_module
from daf_storage.display._values import shown_values

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy_module("pyarrow.compute")

Extent: TypeAlias = Literal["all", "spread", "first"]
"""Which values were looked at: all, some that are spread over the column, or the first ones."""

_BINS: Final = 24
_TOP: Final = 4
_THOUSAND: Final = 1e3
_MOST_WRITTEN: Final = 1e15
_TOP_CHARACTERS: Final = 24


@dataclass(frozen=True, slots=True)
class Preview:
    """What was seen of a column."""

    rows: int
    """How many values were looked at."""
    total: int
    """How many there are."""
    extent: Extent
    """Which ones were looked at."""
    missing: int
    """How many of those were missing: null, NaN, or empty where that stands for missing."""
    least: str | None = None
    """The least number or date, as text; None for others."""
    greatest: str | None = None
    """The greatest."""
    bins: tuple[int, ...] = ()
    """How many numbers are in each part of the range, from the least to the greatest."""
    top: tuple[tuple[str, int], ...] = ()
    """The most frequent strings, and how often each occurs."""
    distinct: int | None = None
    """How many different strings there are; None for numbers."""

    @property
    def is_sample(self) -> bool:
        """Whether not all values were looked at."""
        return self.extent != "all"


def preview_of(
    values: pa.Array | pa.ChunkedArray,
    *,
    total: int,
    extent: Extent = "all",
    empty_is_missing: bool = False,
) -> Preview:
    """Return what values look like; those of types without an order only as counts.

    Parameters
    ----------
    values
        The values that are looked at.
    total
        How many the column has.
    extent
        Which of them the values are.
    empty_is_missing
        Whether an empty string stands for a missing value.

    Examples
    --------
    >>> preview_of(pa.array([1, 2, None, 4]), total=4).bins
    (1, 1, 0, 1)
    >>> preview_of(pa.array(["T", "B", "T"]), total=3).top
    (('T', 2), ('B', 1))
    """
    rows = len(values)
    kind = values.type
    if not _has_order(kind.value_type if pa.types.is_dictionary(kind) else kind):
        return Preview(rows, total, extent, values.null_count)
    if pa.types.is_dictionary(kind):
        values = values.cast(kind.value_type)
        kind = kind.value_type
    if pa.types.is_string_view(kind):
        values, kind = values.cast(pa.string()), pa.string()
    if empty_is_missing and _is_text(kind):
        values = pc.if_else(pc.equal(values, ""), None, values)
    known = values.drop_null()
    if _is_text(kind) or pa.types.is_boolean(kind):
        top, distinct = _top(known)
        missing = rows - len(known)
        return Preview(rows, total, extent, missing, top=top, distinct=distinct)
    numeric = _numbers(known)
    if numeric is None:
        return Preview(rows, total, extent, rows - len(known))
    numbers, written = numeric
    if numbers.dtype.kind == "f":
        numbers = numbers[~np.isnan(numbers)]
    missing = rows - numbers.size
    if not numbers.size:
        return Preview(rows, total, extent, missing)
    least, greatest = written(numbers.min()), written(numbers.max())
    if least == greatest and numbers.min() != numbers.max():  # too few digits tell them apart
        least, greatest = str(numbers.min()), str(numbers.max())
    return Preview(rows, total, extent, missing, least, greatest, bins_of(numbers))


def _has_order(kind: pa.DataType) -> bool:
    """Return whether values have a least, or can be counted one by one."""
    types = pa.types
    is_text = _is_text(kind) or types.is_string_view(kind) or types.is_boolean(kind)
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return bool(is_text or is_number or types.is_temporal(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _top(values: Any) -> tuple[tuple[tuple[str, int], ...], int]:
    """Return the most frequent values, and how many different ones there are."""
    counted = pc.value_counts(values)
    counts = counted.field("counts").to_numpy()
    order = np.argsort(-counts, kind="stable")[:_TOP]
    names = counted.field("values").take(pa.array(order)).to_pylist()
    top = tuple(
        (_short(name), int(counts[place])) for name, place in zip(names, order, strict=True)
    )
    return top, len(counts)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _TOP_CHARACTERS else f"{text[: _TOP_CHARACTERS - 1]}…"


def _numbers(values: Any) -> tuple[npt.NDArray[Any], Any] | None:
    """Return values as numbers, and what writes one of them; None if they are none."""
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return values.to_numpy(zero_copy_only=False), _number_text
    if pa.types.is_decimal(kind):
        return values.cast(pa.float64()).to_numpy(zero_copy_only=False), _number_text
    if not pa.types.is_temporal(kind) or pa.types.is_interval(kind):
        return None
    width = pa.int32() if kind.bit_width == 32 else pa.int64()

    def moment(number: Any) -> str:
        return str(shown_values(pa.array([int(number)], width).cast(kind))[0])

    return values.cast(width).to_numpy(zero_copy_only=False), moment


def _number_text(number: Any) -> str:
    if isinstance(number, np.integer):
        return f"{int(number):,}"
    value = float(number)
    return f"{value:,.0f}" if _THOUSAND <= abs(value) < _MOST_WRITTEN else f"{value:.4g}"


def bins_of(numbers: npt.NDArray[Any]) -> tuple[int, ...]:
    """Return how many finite numbers are in each of some equal parts of their range.

    Whole numbers that are few have a part each.

    >>> bins_of(np.array([1, 1, 3]))
    (2, 0, 1)
    >>> bins_of(np.array([np.inf, 5.0]))
    (1,)
    """
    if numbers.dtype.kind in "iu":
        span = int(numbers.max()) - int(numbers.min()) + 1
        if span <= _BINS:
            return tuple(np.bincount((numbers - numbers.min()).astype(np.int64)).tolist())
    values = numbers.astype(np.float64)
    values = values[np.isfinite(values)] / 4.0  # the width of the range is finite then
    if not values.size:
        return ()
    least, greatest = float(values.min()), float(values.max())
    if least == greatest or math.isclose(least, greatest, rel_tol=1e-14):
        return (int(values.size),)
    places = ((values - least) / (greatest - least) * _BINS).astype(np.int64)
    return tuple(np.bincount(np.minimum(places, _BINS - 1), minlength=_BINS).tolist())
