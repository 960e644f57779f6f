"""Tests of the page's sources; the page itself is tested in tests/browser."""

from __future__ import annotations

import re
from pathlib import Path

import daf_query

WEB = Path(daf_query.__file__).parent / "explore" / "web"
SOURCES = [path for path in (WEB / "src").rglob("*") if path.suffix in {".ts", ".html", ".css"}]


def test_text_of_data_never_becomes_markup() -> None:
    """No source has a way to make elements of a string, or code of one."""
    markup = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|srcdoc|\beval\(|new Function"
    )
    assert [path.name for path in SOURCES if markup.search(path.read_text())] == []
