"""A browser, a server, and a page of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

import daf_query
from daf_query.explore import ExploreServer
from tests.browser.explorer import Explorer, chromium, launch

PAGE = Path(daf_query.__file__).parent / "explore" / "static" / "index.html"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder as one of the browser, and skip it where there is none."""
    reason = None
    if chromium() is None:
        reason = "no Chromium; install it with: make browser"
    elif not PAGE.exists():
        reason = "the page is not built; build it with: make web"
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return one Chromium for all tests."""
    with sync_playwright() as playwright:
        chromium = launch(playwright)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def server(pbmc_path: Path) -> Iterator[ExploreServer]:
    """Return a server of the PBMC data."""
    with daf_query.connect(pbmc_path) as session, ExploreServer(session) as running:
        yield running


Open = Callable[..., Explorer]


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    """Return what opens pages; they are closed at the end, and may not have complained."""
    pages: list[Explorer] = []

    def open_page(url: str, **options: object) -> Explorer:
        pages.append(Explorer(browser, url, **options))
        return pages[-1]

    yield open_page
    complaints = [complaint for page in pages for complaint in page.complaints]
    for page in pages:
        page.close()
    assert not complaints, "\n".join(complaints)


@pytest.fixture
def explorer(opened: Open, server: ExploreServer) -> Explorer:
    """Return a page of the PBMC data, with its first rows and its first picture."""
    return opened(server.url).wait_until_drawn()
