"""The address holds the state."""

from __future__ import annotations

from playwright.sync_api import expect

from daf_query.explore import ExploreServer
from tests.browser.conftest import Open
from tests.browser.explorer import Explorer


def test_the_back_button_goes_back(explorer: Explorer) -> None:
    """Query, rows, colour and embedding are those of before, and forward again."""
    explorer.run("SELECT phase FROM cell WHERE phase = 'S'")
    explorer.colour_by("Column", "phase")
    explorer.page.get_by_role("combobox", name="Embedding").select_option(label="X_pca")
    explorer.wait_until("location.hash.includes('embedding=X_pca')")
    explorer.page.go_back()
    explorer.wait_until("location.hash.includes('embedding=X_umap')")
    explorer.page.go_back()
    explorer.page.wait_for_selector('.map[data-shown="bulk_labels"]')
    assert explorer.status.startswith("182 rows in")
    explorer.page.go_back()
    expect(explorer.page.locator(".query-status")).to_contain_text("700 rows in")
    assert explorer.sql == "SELECT *\nFROM cell\nLIMIT 1000"
    explorer.page.go_forward()
    expect(explorer.page.locator(".query-status")).to_contain_text("182 rows in")


def test_a_link_brings_another_page_to_the_same_state(
    explorer: Explorer, opened: Open, server: ExploreServer
) -> None:
    """What the button copies opens with the same query, embedding and colour."""
    explorer.run("SELECT name FROM cell WHERE phase = 'G2M'")
    explorer.colour_by("Gene", "NKG7", matrix="gene_raw.X")
    explorer.page.get_by_role("button", name="Copy a link to this state").click()
    explorer.page.get_by_text("copied; the link").wait_for()
    link = explorer.page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(server.url)
    other = opened(link).wait_until_drawn()
    assert other.sql == "SELECT name FROM cell WHERE phase = 'G2M'"
    assert other.status.startswith("17 rows in")
    other.page.wait_for_selector('.map[data-shown="NKG7"]')


def test_without_a_token_the_page_says_what_to_do(opened: Open, server: ExploreServer) -> None:
    """There are no data, and a sentence that helps."""
    explorer = opened(server.url.partition("?")[0])
    explorer.page.get_by_text("Open the whole address that daf explore printed").wait_for()
    assert all("401" in complaint for complaint in explorer.complaints)
    explorer.complaints.clear()
