"""Tests of the HTML for notebooks."""

from __future__ import annotations

from html.parser import HTMLParser

from daf_storage.display import (
    html_details,
    html_element,
    html_page,
    html_table,
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
    """Wherever it stands: text, cells, attributes."""
    page = html_page(
        html_table((HOSTILE,), [(HOSTILE, html_element("td", HOSTILE, class_=HOSTILE))]),
        html_details(HOSTILE, HOSTILE),
    )
    found = _parsed(page)
    assert "script" not in found.tags
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in found.text
    assert "\x00" not in page
    assert "\u2028" not in page


def test_colours_are_those_of_the_page_around() -> None:
    """So that a dark page shows light text: no colour is named, and nothing runs."""
    page = html_page(html_table(("a",), [("b",)]))
    assert "currentColor" in page
    for word in ("#", "rgb(", "color: white", "black", "<script", "javascript", "http"):
        assert word not in page


def test_long_text_is_cut_and_stays_in_one_line() -> None:
    """Also a string of megabytes, of which only the beginning is looked at."""
    assert shortened("a\nb" + " x" * 10_000_000, 10) == "a b x x x…"
    assert shortened("short") == "short"
