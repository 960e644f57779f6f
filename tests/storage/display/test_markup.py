"""Tests of the HTML for notebooks."""

from __future__ import annotations

from html.parser import HTMLParser

from daf_storage.display import (
    Markup,
    histogram,
    html_details,
    html_element,
    html_page,
    html_table,
    proportions,
    shortened,
)

HOSTILE = "<script>alert(1)</script>\"'&\x00\u2028</td>"


class _Tags(HTMLParser):
    """Collects the elements of a page, and what is read as text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def _parsed(markup: str) -> _Tags:
    parser = _Tags()
    parser.feed(markup)
    parser.close()
    return parser


def test_no_string_becomes_an_element_or_an_attribute() -> None:
    """Wherever it stands: text, cells, titles of charts, attributes."""
    page = html_page(
        html_table((HOSTILE,), [(HOSTILE, html_element("td", HOSTILE, class_=HOSTILE))]),
        html_details(HOSTILE, HOSTILE),
        histogram([1, 2], title=HOSTILE),
        proportions([1], title=HOSTILE),
    )
    found = _parsed(page)
    assert "script" not in found.tags
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in found.text
    assert "\x00" not in page
    assert "\u2028" not in page


def test_a_string_that_looks_like_a_cell_is_none() -> None:
    """Only markup is taken as a cell."""
    assert _parsed(html_table((), [("<td>x</td>",)])).tags == ["table", "tr", "td"]
    assert _parsed(html_table((), [(Markup("<td>x</td>"),)])).tags == ["table", "tr", "td"]
    assert html_table((), [("<td>x</td>",)]).count("<td>") == 1


def test_colours_are_those_of_the_page_around() -> None:
    """So that a dark page shows light text: no colour is named, and nothing runs."""
    page = html_page(html_table(("a",), [("b",)]), histogram([1, 2, 0], title="t"))
    assert "currentColor" in page
    for word in ("#", "rgb(", "color: white", "black", "<script", "javascript", "http"):
        assert word not in page


def test_the_bars_of_a_histogram_are_as_high_as_the_counts() -> None:
    """The highest fills the picture, a small one can still be seen, none is drawn for nothing."""
    heights = [
        float(value or 0)
        for name, value in _parsed(histogram([1, 0, 1000, 500], title="t")).attributes
        if name == "height"
    ]
    assert heights == [20, 1, 20, 10]


def test_proportions_fill_the_bar() -> None:
    """Each part is as wide as its share."""
    found = _parsed(proportions([3, 1], title="t")).attributes
    widths = [float(value or 0) for name, value in found if name == "width"]
    assert widths == [96, 71.5, 23.5]
    assert _parsed(proportions([], title="t")).tags == ["svg", "title"]


def test_long_text_is_cut_and_stays_in_one_line() -> None:
    """Also a string of megabytes, of which only the beginning is looked at."""
    assert shortened("a\nb" + " x" * 10_000_000, 10) == "a b x x x…"
    assert shortened("short") == "short"
