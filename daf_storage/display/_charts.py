"""Charts of the size of a word, as inline SVG in the colour of the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from daf_storage.display._markup import Markup, html_element

_WIDTH: Final = 96
_HEIGHT: Final = 20
_BAR_HEIGHT: Final = 10
_STEPS: Final = (0.8, 0.62, 0.46, 0.32, 0.22)


def histogram(counts: Sequence[int], *, title: str) -> Markup:
    """Return bars side by side, the highest as high as the picture.

    Parameters
    ----------
    title
        What it shows, for those who do not see it, and below the pointer.

    >>> "<rect" in histogram([1, 3], title="two bins")
    True
    """
    greatest = max(counts, default=0)
    width = _WIDTH / max(len(counts), 1)
    bars = []
    for place, count in enumerate(counts):
        if count <= 0:
            continue
        height = max(1.0, _HEIGHT * count / greatest)
        bars.append(
            _rectangle(place * width, _HEIGHT - height, max(width - 0.5, 0.5), height, 0.65)
        )
    return _picture(bars, _HEIGHT, title)


def proportions(counts: Sequence[int], *, title: str) -> Markup:
    """Return one bar, divided by the counts, in shades."""
    total = sum(counts)
    bars, start = [], 0.0
    for place, count in enumerate(counts):
        width = _WIDTH * count / total if total else 0.0
        shade = _STEPS[min(place, len(_STEPS) - 1)]
        bars.append(_rectangle(start, 0, max(width - 0.5, 0.3), _BAR_HEIGHT, shade))
        start += width
    return _picture(bars, _BAR_HEIGHT, title)


def _rectangle(x: float, y: float, width: float, height: float, opacity: float) -> Markup:
    return html_element(
        "rect",
        x=f"{x:.4g}",
        y=f"{y:.4g}",
        width=f"{width:.4g}",
        height=f"{height:.4g}",
        fill="currentColor",
        fill_opacity=opacity,
    )


def _picture(bars: Sequence[Markup], height: int, title: str) -> Markup:
    return html_element(
        "svg",
        html_element("title", title),
        *bars,
        width=_WIDTH,
        height=height,
        viewBox=f"0 0 {_WIDTH} {height}",
        role="img",
        aria_label=title,
    )
