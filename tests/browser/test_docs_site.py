"""Accessibility of the documentation site, if `make docs` has built it."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.test_access import serious_findings

SITE = Path(__file__).parents[2] / "build" / "docs"


@pytest.mark.skipif(not SITE.exists(), reason="the site is not built; build it with: make docs")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Browser, scheme: str) -> None:
    """In a class, a function, a notebook, pages of pictures and tables, in light and in dark."""
    context = browser.new_context(color_scheme="dark" if scheme == "dark" else "light")
    page = context.new_page()
    for name in (
        "index",
        "how-to/terminal",
        "gallery/first-look",
        "reference/command-line",
        "reference/api/daf_query.connect",
        "reference/api/daf_query.DafSession",
    ):
        page.goto((SITE / f"{name}.html").as_uri())
        assert serious_findings(page) == [], name
    context.close()
