"""Tests that the pages for contributors name files that exist."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [
    each.relative_to(ROOT).as_posix()
    for folder in ("daf_query", "daf_storage", "tests", "docs", "benchmarks")
    for each in (ROOT / folder).rglob("*.py")
]


@pytest.mark.parametrize(
    "page",
    sorted(
        each.relative_to(ROOT).as_posix()
        for folder in ("explanation", "design")
        for each in (ROOT / "docs" / folder).glob("*.md")
    ),
)
def test_modules_that_a_page_names_exist(page: str) -> None:
    """Their last parts suffice, as `sql/_engine.py`."""
    named = re.findall(r"`([a-z_/0-9]+\.py)`", (ROOT / page).read_text())
    missing = [
        each for each in named if not any(PurePosixPath(source).match(each) for source in SOURCES)
    ]
    assert missing == []
