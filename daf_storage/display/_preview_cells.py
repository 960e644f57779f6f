"""Cells of tables that show previews."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from daf_storage.display._charts import histogram, proportions
from daf_storage.display._markup import Markup, html_element
from daf_storage.display._preview import Preview

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
    if preview.bins:
        text = f"{preview.rows:,} values from {preview.least} to {preview.greatest}"
        return histogram(preview.bins, title=text)
    if preview.top and preview.top[0][1] > 1:
        shown = [count for _, count in preview.top]
        rest = preview.rows - preview.missing - sum(shown)
        return proportions([*shown, rest] if rest else shown, title=_top_text(preview))
    return Markup()


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
