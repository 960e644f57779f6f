"""Tests of the HTML for notebooks."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from daf_storage.display import (
    html_details,
    html_element,
    html_page,
    html_table,
    shortened,
)

HOSTILE = "<script>alert(1)</script>\"'&\x00\u2028</td>"


def test_no_string_becomes_an_element_or_an_attribute() -> None:
    """Wherever it stands: text, cells, attributes."""
    page = html_page(
        html_table((HOSTILE,), [(HOSTILE, html_element("td", HOSTILE, class_=HOSTILE))]),
        html_details(HOSTILE, HOSTILE),
    )
    found = ET.fromstring(page)  # noqa: S314 - our own page
    assert "script" not in {each.tag for each in found.iter()}
    assert not [name for each in found.iter() for name in each.attrib if name.startswith("on")]
    assert "<script>alert(1)</script>" in "".join(found.itertext())
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
