"""HTML for notebooks: small pieces of it, and previews of the values of a column.

**Nouns.** *Markup* is HTML in which every string of the data is escaped.  A *preview* is what was
seen of a column: how many values were looked at, their range, how they are distributed, the most
frequent ones.  A *budget* is how much all previews of one page may take.

Must not know data sets, files or queries: it is given values.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage._lazy import pc

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]+")
_SHOWN_CHARACTERS: Final = 60
_CLASS: Final = "daf-view"

_STYLE: Final = f"""
.{_CLASS} {{font-size: 13px; line-height: 1.4; color: inherit; overflow-x: auto}}
.{_CLASS} table {{border-collapse: collapse; font-size: inherit; margin: .2em 0 .6em}}
.{_CLASS} tr, .{_CLASS} th, .{_CLASS} td {{background: none !important; border: 0}}
.{_CLASS} th, .{_CLASS} td {{padding: .1em 1em .1em 0; text-align: left; vertical-align: middle;
  white-space: nowrap; unicode-bidi: isolate}}
.{_CLASS} th {{font-weight: 600; border-bottom: 1px solid; border-color: currentColor}}
.{_CLASS} .number {{text-align: right; font-variant-numeric: tabular-nums}}
.{_CLASS} .note {{opacity: .75}}
.{_CLASS} summary {{cursor: pointer; font-weight: 600}}
"""


class Markup(str):
    """HTML that may be shown as it is; any other string is escaped before."""

    __slots__ = ()


def escaped(text: object) -> Markup:
    """Return text as HTML; control characters are replaced, markup is left alone.

    >>> escaped("<b>&")
    '&lt;b&gt;&amp;'
    >>> escaped(Markup("<b>"))
    '<b>'
    """
    return text if isinstance(text, Markup) else _escaped(text)


def _escaped(text: object) -> Markup:
    return Markup(html.escape(_CONTROL.sub("\ufffd", str(text))))


def joined_html(parts: Iterable[object]) -> Markup:
    """Return parts one after the other, each escaped unless it is markup."""
    return Markup("".join(escaped(part) for part in parts))


def html_element(name: str, *children: object, **attributes: object) -> Markup:
    """Return an element; an underscore in the name of an attribute stands for a hyphen.

    >>> html_element("td", "a < b", class_="number")
    '<td class="number">a &lt; b</td>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(value)}"'
        for key, value in attributes.items()
    )
    return Markup(f"<{name}{written}>{joined_html(children)}</{name}>")


def html_table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> Markup:
    """Return a table; cells that are whole elements (``<td ...>``) stay as they are."""
    header = html_element("tr", *(_cell("th", cell) for cell in head)) if head else Markup()
    lines = (html_element("tr", *(_cell("td", cell) for cell in row)) for row in rows)
    return html_element("table", header, *lines)


def _cell(name: str, cell: object) -> Markup:
    is_cell = isinstance(cell, Markup) and cell.startswith((f"<{name}>", f"<{name} "))
    return escaped(cell) if is_cell else html_element(name, cell)


def html_details(title: object, *children: object, is_open: bool = True) -> Markup:
    """Return a section that can be folded."""
    attributes: dict[str, object] = {"open": "open"} if is_open else {}
    return html_element("details", html_element("summary", title), *children, **attributes)


def html_page(*children: object) -> Markup:
    """Return what a notebook shows of an object, with its styles."""
    style = Markup(f"<style>{_STYLE}</style>")
    return html_element("div", style, *children, class_=_CLASS)


def shortened(text: object, characters: int = _SHOWN_CHARACTERS) -> str:
    """Return text in one line of limited length.

    >>> shortened("a long  name", 8)
    'a long …'
    """
    line = " ".join(str(text)[: 4 * characters].split())
    return line if len(line) <= characters else f"{line[: characters - 1]}…"


def readable_bytes(size: float) -> str:
    """Return a size for people.

    >>> readable_bytes(1536)
    '1.5 KiB'
    >>> readable_bytes(1023), readable_bytes(1024), readable_bytes(3 << 50)
    ('1023 bytes', '1.0 KiB', '3072.0 TiB')
    """
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


# Previews


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
        return list(values.to_pylist())
    except _NO_OBJECT:
        if len(values) > 1:
            singles = (values.slice(place, 1) for place in range(len(values)))
            return [shown_values(single)[0] for single in singles]
        return [" ".join(values.to_string().split()).removeprefix("[").removesuffix("]").strip()]


PREVIEW_ROWS: Final = 4096
"""At most so many values of a column are looked at."""

_BYTES: Final = 16 << 20


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

    def spend(self, size_bytes: int) -> bool:
        """Take bytes of the budget, and return True; False if that is too much."""
        is_left = self.spent_bytes + size_bytes <= self._size_bytes
        if size_bytes > self._size_bytes // 4 or not is_left:
            return False
        self.spent_bytes += size_bytes
        return True


_BINS: Final = 24
_BARS: Final = "▁▂▃▄▅▆▇█"
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
    missing: int
    """How many of those were missing: null, NaN, or empty where that stands for missing."""
    figures: str = ""
    """The range of numbers or dates, or the most frequent strings and how often each occurs."""
    bins: tuple[int, ...] | None = None
    """Of numbers, how many are in each part of the range, from the least to the greatest."""

    @property
    def chart(self) -> str:
        """A bar for each part of the range; what is not empty is higher than what is."""
        bins = self.bins or ()
        heights = (-(-count * (len(_BARS) - 1) // max(bins)) for count in bins)
        return "".join(_BARS[height] for height in heights) if len(bins) > 1 else ""

    @property
    def note(self) -> str:
        """How many are missing, and how many were looked at, if not all.

        >>> Preview(10, 5000, 1).note
        '1 missing, a sample of 10 of 5,000'
        """
        missing = f"{self.missing:,} missing" if self.missing else ""
        sample = f"a sample of {self.rows:,} of {self.total:,}" if self.rows < self.total else ""
        return ", ".join(filter(None, [missing, sample]))


def preview_of(
    values: pa.Array | pa.ChunkedArray, *, total: int, empty_is_missing: bool = False
) -> Preview:
    """Return what values look like; those of types without an order only as counts.

    Parameters
    ----------
    values
        The values that are looked at.
    total
        How many the column has.
    empty_is_missing
        Whether an empty string stands for a missing value.

    Examples
    --------
    >>> preview_of(pa.array([1, 2, None, 4]), total=4).bins
    (1, 1, 0, 1)
    >>> preview_of(pa.array(["T", "B", "T"]), total=3).figures
    'T 2, B 1'
    """
    rows, types = len(values), pa.types
    try:
        if types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if types.is_string_view(values.type):
            values = values.cast(pa.string())
        is_text = types.is_string(values.type) or types.is_large_string(values.type)
        if empty_is_missing and is_text:
            values = pc.if_else(pc.equal(values, ""), None, values)
        present = values.drop_null()
    except pa.ArrowNotImplementedError:  # lists in a dictionary, and the like
        return Preview(rows, total, values.null_count)
    missing = rows - len(present)
    if is_text or types.is_boolean(present.type):
        return Preview(rows, total, missing, _top(present, is_sample=rows < total))
    numeric = _numbers(present)
    if numeric is None:
        return Preview(rows, total, missing)
    numbers, written = numeric
    if numbers.dtype.kind == "f":
        numbers = numbers[~np.isnan(numbers)]
    if not numbers.size:
        return Preview(rows, total, rows, bins=())
    ends = numbers.min(), numbers.max()
    least, greatest = map(written, ends)
    if least == greatest and ends[0] != ends[1]:  # too few digits tell them apart
        least, greatest = map(str, ends)
    figures = least if least == greatest else f"{least} to {greatest}"
    return Preview(rows, total, rows - numbers.size, figures, bins_of(numbers))


def _top(values: Any, *, is_sample: bool) -> str:
    """Return the most frequent values, and how many more different ones there are."""
    counted = pc.value_counts(values)
    counts = counted.field("counts").to_numpy()
    order = np.argsort(-counts, kind="stable")[:_TOP]
    names = [
        shortened(str(name).lower() if isinstance(name, bool) else name, _TOP_CHARACTERS)
        for name in counted.field("values").take(pa.array(order)).to_pylist()
    ]
    if order.size and counts[order[0]] > 1:
        names = [f"{name} {counts[place]:,}" for name, place in zip(names, order, strict=True)]
    if len(counts) > order.size:
        names.append(f"{'at least ' * is_sample}{len(counts) - order.size:,} more")
    return ", ".join(names)


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


def bins_of(
    numbers: npt.NDArray[Any], counts: npt.NDArray[Any] | None = None, parts: int = _BINS
) -> tuple[int, ...]:
    """Return how many finite numbers are in each of some equal parts of their range.

    Whole numbers that are few have a part each.

    Parameters
    ----------
    counts
        How often each occurs; once by default.

    >>> bins_of(np.array([1, 1, 3]))
    (2, 0, 1)
    >>> [bins_of(np.array(each)) for each in ([np.inf, 5.0], [np.inf], [0, 5e-324])]
    [(1,), (), (2,)]
    """
    values = numbers.astype(np.float64)
    is_finite = np.isfinite(values)
    values = values[is_finite] / 4.0  # the width of the range is finite then
    counts = None if counts is None else counts[is_finite]
    if not values.size:
        return ()
    least, greatest = float(values.min()), float(values.max())
    if math.isclose(least, greatest, rel_tol=1e-14, abs_tol=1e-300):  # too near for numpy
        return (int(values.size if counts is None else counts.sum()),)
    is_whole = numbers.dtype.kind in "iu"
    width = int(numbers.max()) - int(numbers.min()) + 1 if is_whole else parts
    return tuple(np.histogram(values, min(width, parts), weights=counts)[0].tolist())


def preview_cells(preview: Preview | str) -> tuple[Markup, ...]:
    """Return a cell with a chart, one with figures, and one that says what is missing.

    Parameters
    ----------
    preview
        Or, as text, why there is none.
    """
    if isinstance(preview, str):
        return html_element("td"), html_element("td", preview, class_="note"), html_element("td")
    cells = html_element("td", preview.chart), html_element("td", preview.figures)
    return *cells, html_element("td", preview.note, class_="note")
