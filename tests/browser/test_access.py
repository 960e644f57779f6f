"""Who uses the keyboard, a screen reader, a dark or a narrow window."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from daf_query.explore import ExploreServer
from tests.browser.conftest import Open
from tests.browser.explorer import Explorer


def serious_findings(page: Page) -> list[str]:
    """Return what axe finds that keeps people out."""
    found = Axe().run(page).response["violations"]
    return [
        f"{rule['id']}: {node['html'][:160]}"
        for rule in found
        if rule["impact"] in {"serious", "critical"}
        for node in rule["nodes"][:3]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(opened: Open, server: ExploreServer, scheme: str) -> None:
    """Neither in the table, nor in the chart, in an error, nor in a dialog; in light and in dark."""
    explorer = opened(server.url, color_scheme=scheme).wait_until_drawn()
    page = explorer.page
    explorer.listed("n_genes").click()
    page.locator(".tiny-histogram, .summary .facts").first.wait_for()
    assert serious_findings(page) == []
    explorer.run("SELECT phase, count(*) AS n FROM cell GROUP BY phase")
    page.get_by_role("tab", name="Chart").click()
    explorer.colour_by("SQL", "n_genes")
    assert serious_findings(page) == []
    explorer.run("SELECT nothing FROM cell")
    explorer.complaints.clear()  # the browser's own note of an error
    assert serious_findings(page) == []
    page.get_by_role("button", name="Keys").click()
    page.get_by_role("dialog").wait_for()
    assert serious_findings(page) == []


def test_the_keyboard_is_enough(explorer: Explorer) -> None:
    """A query, its rows, another colour and a selection, without a mouse."""
    page = explorer.page
    page.keyboard.press("Alt+2")
    page.keyboard.press("Control+a")
    explorer.paste("SELECT name, n_genes FROM cell ORDER BY n_genes DESC")
    page.keyboard.press("Control+Enter")
    explorer.wait_until_answered()
    page.keyboard.press("Alt+3")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Chart")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Alt+4")
    page.keyboard.press("+")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("s")
    expect(page.locator(".selection-bar")).to_contain_text("of 700 cells selected")
    page.keyboard.press("Escape")
    expect(page.locator(".selection-bar")).to_be_hidden()


def test_tab_reaches_every_control_and_focus_is_seen(explorer: Explorer) -> None:
    """From one end of the page to the other, each focused control has an outline or is the editor."""
    page = explorer.page
    page.keyboard.press("Alt+3")
    names = []
    for _ in range(40):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            "(e => [e.getAttribute('aria-label') || e.textContent.slice(0, 20), getComputedStyle(e).outlineStyle])(document.activeElement)"
        )
        if name.lstrip().startswith("daf explore"):  # the page itself: this was the last control
            break
        names.append(name)
        assert outline != "none", name
    for control in ("Copy", "CSV", "Parquet", "Embedding", "Colour by", "Zoom in (+)"):
        assert any(control in name for name in names), control


def test_a_dark_window_is_dark(opened: Open, server: ExploreServer) -> None:
    """The page follows the system's scheme, in the map too."""
    explorer = opened(server.url, color_scheme="dark").wait_until_drawn()
    ground = explorer.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(int(part) for part in ground.strip("rgb()").split(",")) < 40


def test_a_narrow_window_has_no_sideways_scrolling(opened: Open, server: ExploreServer) -> None:
    """On a telephone's width, the parts are below each other."""
    explorer = opened(server.url, viewport={"width": 390, "height": 780}).wait_until_drawn()
    width = explorer.page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390
    for part in (".query", ".map", ".result", ".catalogue"):
        box = explorer.page.locator(part).bounding_box()
        assert box is not None
        assert box["width"] > 360
