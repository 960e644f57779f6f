"""Tests of answers that come late, of focus that stays, and of data of which there is little to see."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Error, Locator, Page, Route

import daf_query
from daf_query.explore import ExploreServer
from daf_storage import DafWriter, MemoryDaf
from tests.browser.conftest import Open
from tests.browser.explorer import Explorer
from tests.support import data_set

EVERYTHING = ((0.3, 0.01), (0.99, 0.01), (0.99, 0.99), (0.3, 0.99))


def little(name: str) -> DafWriter:
    """Return cells with values that are all missing, or all the same."""
    daf = MemoryDaf(name=name)
    numbers = np.arange(30)
    data_set(daf, cell=[f"C{number}" for number in numbers], X_umap=["0", "1"])
    daf.add_axis("X_nowhere", ["0", "1"])
    daf.set_vector("cell", "missing", np.full(30, np.nan))
    daf.set_vector("cell", "same", np.full(30, 7))
    daf.set_vector("cell", "type", [f"t{number % 3}" for number in numbers])
    daf.set_matrix("cell", "X_umap", "X_umap", np.stack([numbers % 6, numbers // 6], 1) * 1.0)
    daf.set_matrix("cell", "X_nowhere", "X_nowhere", np.full((30, 2), np.nan))
    return daf


@pytest.fixture(scope="module")
def server_of_little() -> Iterator[ExploreServer]:
    """Return a server of few data."""
    with daf_query.connect({"little": little("little")}) as session, ExploreServer(session) as it:
        yield it


@pytest.fixture
def explorer_of_little(opened: Open, server_of_little: ExploreServer) -> Explorer:
    """Return a page of few data."""
    return opened(server_of_little.url).wait_until_drawn()


class Held:
    """Requests whose answers are held back, until they are let go."""

    def __init__(self, page: Page, path: str) -> None:
        self.routes: list[Route] = []
        page.route(f"**{path}", lambda route: self.routes.append(route))  # noqa: PLW0108 - Playwright wraps functions alone
        self._page = page

    def wait(self, count: int) -> None:
        """Wait until there are so many."""
        for _ in range(300):
            if len(self.routes) >= count:
                return
            self._page.wait_for_timeout(30)
        raise AssertionError(f"{len(self.routes)} requests")

    def let_go(self, *places: int) -> None:
        """Let the server answer, in this order."""
        for place in places:
            with contextlib.suppress(Error):  # the page has given it up
                self.routes[place].continue_()
            self._page.wait_for_timeout(400)


def test_an_older_answer_does_not_overtake_a_newer_one(explorer_of_little: Explorer) -> None:
    """Two rows are clicked, and the answer of the first comes last."""
    page = explorer_of_little.page
    held = Held(page, "/api/rows")
    rows = page.locator(".table-body [role=row]")
    rows.nth(2).click()
    held.wait(1)
    rows.nth(5).click()
    held.wait(2)
    held.let_go(1, 0)
    assert page.locator(".lit-note").inner_text().endswith("where name = 'C5'")


def test_what_is_selected_stays_lit(explorer_of_little: Explorer) -> None:
    """The answer for a row that was clicked before a lasso changes nothing."""
    page = explorer_of_little.page
    held = Held(page, "/api/rows")
    page.locator(".table-body [role=row]").nth(2).click()
    held.wait(1)
    explorer_of_little.lasso(*EVERYTHING)
    held.let_go(0)
    assert page.locator(".lit-note").inner_text() == ""


def test_clearing_a_selection_brings_the_query_back(explorer_of_little: Explorer) -> None:
    """The query without the condition of the lasso, also after a second one, and its rows."""
    before = explorer_of_little.sql
    for _ in range(2):
        explorer_of_little.lasso(*EVERYTHING)
        explorer_of_little.wait_until_answered()
    assert "selection" in explorer_of_little.sql
    explorer_of_little.page.get_by_role("button", name="Clear").click()
    condition = "document.querySelector('.query-status').textContent.startsWith('30 rows in')"
    explorer_of_little.wait_until(condition)
    assert explorer_of_little.sql == before


def test_downloads_are_of_the_rows_that_are_shown(
    explorer_of_little: Explorer, tmp_path: Path
) -> None:
    """After a query that failed, the table is that of the one before, which is said, and so is the file."""
    page = explorer_of_little.page
    explorer_of_little.run("SELECT name FROM cell LIMIT 1")
    page.set_viewport_size({"width": 1280, "height": 800})
    explorer_of_little.run("SELECT nothing FROM cel")
    assert page.get_by_role("alert").inner_text().startswith("Table not found line 1")
    assert "of the query before" in explorer_of_little.status
    assert explorer_of_little.fits(".query-status")
    with page.expect_download() as started:
        page.get_by_role("button", name="CSV", exact=True).click()
    started.value.save_as(tmp_path / "rows.csv")
    assert (tmp_path / "rows.csv").read_text().split() == ['"name"', '"C0"']
    explorer_of_little.complaints.clear()


def test_a_wide_table_has_the_cells_in_view(explorer_of_little: Explorer) -> None:
    """Of 600 columns few are elements; each is where it belongs, also by keys, sorted, and copied."""
    page = explorer_of_little.page
    listed = ", ".join(f'"index" + {number} AS c{number:03}' for number in range(600))
    explorer_of_little.run(f"SELECT {listed} FROM cell")
    assert page.locator(".table .cell").count() < 3000
    assert page.locator(".table").get_attribute("aria-colcount") == "601"
    page.locator(".table").focus()
    page.keyboard.press("End")
    last = page.locator(".table-body [data-active]")
    explorer_of_little.wait_until("document.querySelector('[data-column=\"599\"]')")
    assert (last.inner_text(), last.get_attribute("aria-colindex")) == ("599", "601")
    head = page.locator("[data-column='599']")
    assert abs(_left(head) - _left(last)) < 2
    head.click()
    head.click()
    assert page.evaluate("document.activeElement.dataset.column") == "599"
    assert last.inner_text() == "628"
    page.locator(".table").focus()
    page.keyboard.press("Home")
    explorer_of_little.wait_until("document.querySelector('[data-column=\"0\"]')")
    assert explorer_of_little.column("c000")[0] == "29"


def _left(element: Locator) -> float:
    box = element.bounding_box()
    assert box is not None
    return box["x"]
