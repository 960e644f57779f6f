"""Tests of the page with data that nobody meant to be shown: hostile names, exact and odd values, other tabs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser

import daf_query
from daf_query.explore import ExploreServer
from daf_storage import DafWriter, MemoryDaf, copy_all, open_daf
from tests.browser.conftest import Open
from tests.browser.explorer import Explorer, strings
from tests.support import data_set

HTML = '"><img src=x onerror="window.attacked=1"><svg onload="window.attacked=1">'
CELLS = 5000
EVERYTHING = ((0.01, 0.01), (0.99, 0.01), (0.99, 0.99), (0.01, 0.99))


def odd(name: str, entries: list[str] | None = None) -> DafWriter:
    """Return cells whose names and values are as nobody would choose them."""
    daf = MemoryDaf(name=name)
    names = entries or [f"{HTML}{number}" for number in range(CELLS)]
    numbers = np.arange(len(names))
    data_set(daf, cell=names, gene=[HTML, "it's", "x" * 10_000, "\u202eabc\u2028"])
    daf.add_axis("X_umap", ["0", "1"])
    daf.set_vector("cell", HTML, [f"{HTML}{number % 3}" for number in range(len(names))])
    daf.set_vector("cell", "large", np.uint64(2**63) + numbers.astype(np.uint64))
    daf.set_vector("cell", "digits", (123_456_789 + numbers).astype(np.int32))
    daf.set_vector("cell", "many", [f"k{number:05}" for number in range(len(names))])
    daf.set_vector("cell", "infinite", np.full(len(names), np.inf))
    daf.set_matrix("cell", "X_umap", "X_umap", np.stack([numbers % 71, numbers // 71], 1) * 1.0)
    daf.set_matrix("cell", "gene", "X", np.ones((len(names), 4)))
    daf.set_scalar(HTML, HTML)
    return daf


@pytest.fixture(scope="module")
def hostile() -> Iterator[ExploreServer]:
    """Return a server of hostile data."""
    daf = odd("hostile")
    with daf_query.connect({HTML: daf}) as session, ExploreServer(session) as running:
        yield running


def is_attacked(explorer: Explorer) -> bool:
    """Return whether something of the data was run, or became an element."""
    images = explorer.page.locator("img, script:not([src])").count()
    return bool(explorer.page.evaluate("window.attacked === 1")) or images > 0


def test_names_are_never_elements(opened: Open, hostile: ExploreServer) -> None:
    """In the table, the list, the legend, titles, charts, completion, dot plots and errors."""
    explorer = opened(hostile.url).wait_until_drawn()
    page = explorer.page
    assert f"{HTML}2" in explorer.legend
    page.get_by_label("Colour by", exact=True).select_option(label="Gene")
    page.get_by_label("gene", exact=True).fill(HTML)
    page.get_by_label("gene", exact=True).press("Enter")
    explorer.wait_until("!document.querySelector('.legend-entry')")  # numbers have none
    assert explorer.legend.startswith('">')
    explorer.listed(HTML).click()
    page.locator(".summary .top-values, .summary li").first.wait_for()
    query = f'SELECT name AS "{HTML.replace(chr(34), chr(34) * 2)}", count(*) AS n FROM cell GROUP BY 1 LIMIT 9'
    explorer.run(query)
    page.get_by_role("tab", name="Chart").click()
    page.locator(".chart-canvas svg").wait_for()
    page.get_by_role("tab", name="Dot plot").click()
    page.get_by_label("genes, separated by commas").fill(f"{HTML}, it's")
    page.get_by_role("button", name="Draw", exact=True).click()
    page.locator(".dot-plot, .dotplot-place .problem").first.wait_for()
    explorer.run(f"SELECT '{HTML}' FROM \"{HTML.replace(chr(34), chr(34) * 2)}\"")
    assert HTML[:20] in page.locator(".message.problem").inner_text()
    explorer.write("SELECT * FROM cell WHERE X['")
    page.keyboard.press("Control+Space")
    page.locator(".cm-tooltip-autocomplete li").first.wait_for()
    assert not is_attacked(explorer)
    explorer.complaints[:] = [each for each in explorer.complaints if "404" not in each]


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("CAST(-1234.5 AS DECIMAL(20, 3))", "-1234.500"),
        ("CAST(0 AS DECIMAL(10, 2))", "0.00"),
        ("9007199254740993", "9007199254740993"),
        ("arrow_cast(18446744073709551615, 'UInt64')", "18446744073709551615"),
        ("TIMESTAMP '2020-01-01 00:00:00.123456'", "2020-01-01 00:00:00.123456"),
        ("TIMESTAMP '2020-01-01'", "2020-01-01"),
        (
            "arrow_cast(9007199254740993, 'Timestamp(Second, None)')",
            "beyond the dates of this page",
        ),
        ("CAST('12:03:00.5' AS TIME)", "12:03:00.5"),
        ("arrow_cast(5, 'Duration(Second)')", "5 s"),
        ("X'00ff'", "0x00ff"),
        ("INTERVAL '1' DAY", "0 months 1 days 0 ns"),
        ("'NaN'::DOUBLE", "NaN"),
        ("[1, 2]", "[1,2]"),
    ],
)
def test_values_of_every_type(explorer_of_odd: Explorer, sql: str, shown: str) -> None:
    """The table shows them as they are, with all of their digits."""
    explorer_of_odd.run(f"SELECT {sql} AS v")
    assert explorer_of_odd.page.locator(".message.problem").inner_text() == ""
    assert explorer_of_odd.column("v") == [shown]


@pytest.fixture(scope="module")
def explorer_of_odd(browser: Browser, hostile: ExploreServer) -> Iterator[Explorer]:
    """Return one page of the hostile data for several tests."""
    explorer = Explorer(browser, hostile.url).wait_until_drawn()
    yield explorer
    explorer.close()
    assert not explorer.complaints


def test_sorting_whole_numbers_beyond_floats(explorer_of_odd: Explorer) -> None:
    """Neighbours that are one and the same float are in order."""
    query = "SELECT arrow_cast(large, 'UInt64') AS v FROM cell ORDER BY random() LIMIT 8"
    explorer_of_odd.run(query)
    explorer_of_odd.page.locator("[role=columnheader] button").first.click()
    values = [int(value) for value in explorer_of_odd.column("v")]
    assert values == sorted(values)


def test_legends_say_what_is_true(explorer_of_odd: Explorer) -> None:
    """Of more categories than colours, of long numbers, and of what is infinite."""
    explorer_of_odd.colour_by("Column", "many")
    first = explorer_of_odd.page.locator(".legend-entry").first.inner_text().split("\n")
    assert first == ["905 other values", "905"]
    explorer_of_odd.colour_by("Column", "digits")
    assert "123,456,789" in explorer_of_odd.legend
    assert "123,461,788" in explorer_of_odd.legend
    explorer_of_odd.colour_by("Column", "infinite")
    assert "missing" not in explorer_of_odd.legend


def test_a_selection_is_that_of_its_tab(opened: Open, hostile: ExploreServer) -> None:
    """Another tab selects other cells; what is extracted here is what is selected here."""
    first = opened(hostile.url).wait_until_drawn()
    second = opened(hostile.url).wait_until_drawn()
    first.lasso(*EVERYTHING)
    second.lasso((0.4, 0.4), (0.6, 0.4), (0.6, 0.6), (0.4, 0.6))
    first.page.get_by_role("button", name="Extract…").click()
    first.wait_until("document.querySelector('.cost').textContent.includes('about')")
    assert first.page.locator(".cost").inner_text().split(" ")[0] == first.selected


def test_a_lasso_of_data_sets_as_one(opened: Open, tmp_path: Path) -> None:
    """Cells of the same name in another data set are not selected."""
    for name in ("a", "b"):
        with open_daf(tmp_path / f"{name}.daf.zarr", "w") as stored:
            copy_all(odd(name, ["AAAC-1", "AAAG-1"]), stored)
    sources = {"runs": str(tmp_path / "*.daf.zarr")}
    with daf_query.connect(sources) as session, ExploreServer(session) as server:
        explorer = opened(server.url).wait_until_drawn()
        explorer.colour_by("SQL", "dataset")
        explorer.page.locator(".legend-entry").first.click()
        explorer.page.get_by_role("button", name="Select these").click()
        explorer.page.locator(".selection-bar strong").wait_for()
        explorer.wait_until_answered()
        assert "2 of 4" in explorer.page.locator(".selection-bar strong").inner_text()
        condition = "document.querySelector('.query-status').textContent.startsWith('2 rows')"
        explorer.wait_until(condition)
        assert explorer.column("dataset") == ["a", "a"]


def test_comments_do_not_break_a_lasso(opened: Open, hostile: ExploreServer) -> None:
    """A condition that cannot be put into the query makes a new one."""
    explorer = opened(hostile.url).wait_until_drawn()
    explorer.run("SELECT name FROM cell WHERE many > 'k' -- all\nLIMIT 5")
    explorer.lasso(*EVERYTHING)
    explorer.wait_until_answered()
    assert strings(explorer.page.locator(".message.problem:visible")) == []
