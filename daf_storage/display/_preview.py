"""Previews: what some values of a column look like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage._lazy import lazy_module
from daf_storage.display._markup import Markup, html_element

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy_module("pyarrow.compute")


_NO_OBJECT = (ArithmeticError, LookupError, ValueError, pa.ArrowException)


def shown_values(values: pa.Array | pa.ChunkedArray) -> list[object]:
    """Return values as Python objects, to be shown; as a string what Python has no object for.

    That is a date after the year 9999, a duration of more than 2.7 million years, or a moment in a
    time zone that is not known.

    Examples
    --------
    >>> shown_values(pa.array([10_000_000, None], pa.int32()).cast(pa.date32()))
    ['29349-01-26', None]
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    try:
        known: list[object] = values.to_pylist()
    except _NO_OBJECT:
        return [_shown(values.slice(place, 1)) for place in range(len(values))]
    return known


def _shown(single: pa.Array) -> object:
    try:
        known: object = single.to_pylist()[0]
    except _NO_OBJECT:
        return " ".join(single.to_string().split()).removeprefix("[").removesuffix("]").strip()
    return known


PREVIEW_ROWS: Final = 4096
"""At most so many values of a column are looked at."""

_BYTES: Final = 16 << 20
_LOOK_BYTES: Final = 4096
"""What it costs to open a property, in bytes of the budget."""


class PreviewBudget:
    """Bytes that the previews of one page may take; what is spent is counted.

    Parameters
    ----------
    size_bytes
        How many bytes may be read or decoded; one column may take a quarter of them.

    Examples
    --------
    >>> budget = PreviewBudget(1000)
    >>> budget.spend(200), budget.spend(400)
    (True, False)
    """

    def __init__(self, size_bytes: int = _BYTES) -> None:
        self.spent_bytes = 0
        """How many bytes were spent."""
        self.is_remote: bool | None = None
        """Whether the data set is on a server, once that is known."""
        self._size_bytes = size_bytes
        self._most_bytes = size_bytes // 4

    def look(self) -> bool:
        """Take what it costs to open one property; False if nothing is left for it."""
        return self.spend(min(_LOOK_BYTES, self._most_bytes))

    def spend(self, size_bytes: int) -> bool:
        """Take bytes of the budget, and return True; False if that is too much."""
        is_left = self.spent_bytes + size_bytes <= self._size_bytes
        if size_bytes > self._most_bytes or not is_left:
            return False
        self.spent_bytes += size_bytes
        return True


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
    text = str(value).lower() if isinstance(value, bool) else str(value)
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


_BARS: Final = "▁▂▃▄▅▆▇█"


def preview_cells(preview: Preview | str) -> tuple[Markup, ...]:
    """Return a cell with a chart, one with figures, and one that says what is missing.

    Parameters
    ----------
    preview
        Or, as text, why there is none.
    """
    if isinstance(preview, str):
        return html_element("td"), html_element("td", preview, class_="note"), html_element("td")
    missing = f"{preview.missing:,} missing" if preview.missing else ""
    return (
        html_element("td", preview_chart(preview)),
        html_element("td", _figures(preview)),
        html_element("td", ", ".join(filter(None, [missing, extent_text(preview)])), class_="note"),
    )


def extent_text(preview: Preview) -> str:
    """Return which values were looked at, if not all.

    >>> extent_text(Preview(10, 5000, "first", 0))
    'the first 10 of 5,000'
    """
    if preview.extent == "all":
        return ""
    which = "the first" if preview.extent == "first" else "a sample of"
    return f"{which} {preview.rows:,} of {preview.total:,}"


def preview_text(preview: Preview | str) -> tuple[str, str, str]:
    """Return the same for a terminal: a chart of a few characters, figures, and what is missing.

    >>> preview_text(Preview(4, 4, "all", 1, "1", "4", bins=(1, 0, 2)))
    ('▅▁█', '1 to 4', '1 missing')
    """
    if isinstance(preview, str):
        return "", preview, ""
    missing = f"{preview.missing:,} missing" if preview.missing else ""
    bars = _bars(preview.bins) if len(preview.bins) > 1 else ""
    return bars, _figures(preview), ", ".join(filter(None, [missing, extent_text(preview)]))


def _bars(bins: Sequence[int]) -> str:
    """Return a bar for each count; what is not empty is higher than what is."""
    most = max(bins)
    return "".join(_BARS[-(-count * (len(_BARS) - 1) // most)] for count in bins)


def preview_chart(preview: Preview) -> Markup:
    """Return a chart of the size of a word; nothing where there is nothing to draw."""
    if len(preview.bins) < 2:
        return Markup()
    text = f"{preview.rows:,} values from {preview.least} to {preview.greatest}"
    return html_element("span", _bars(preview.bins), title=text)


def _figures(preview: Preview) -> str:
    if preview.least is not None:
        is_single = preview.least == preview.greatest
        return preview.least if is_single else f"{preview.least} to {preview.greatest}"
    return _top_text(preview)


def _top_text(preview: Preview) -> str:
    if not preview.top:
        return ""
    if preview.top[0][1] == 1:  # all are different
        names = ", ".join(name for name, _ in preview.top)
    else:
        names = ", ".join(f"{name} {count:,}" for name, count in preview.top)
    rest = (preview.distinct or 0) - len(preview.top)
    at_least = "at least " if preview.is_sample else ""
    return f"{names}, {at_least}{rest:,} more" if rest > 0 else names
