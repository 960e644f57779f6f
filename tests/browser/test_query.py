"""Queries in the page, and their results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest
from playwright.sync_api import expect

from daf_query.explore import ExploreServer
from tests.browser.explorer import Explorer, strings

BY_PHASE = "SELECT phase, count(*) AS cells FROM cell GROUP BY phase ORDER BY cells DESC"


def test_the_page_lists_what_there_is_and_shows_rows(explorer: Explorer) -> None:
    """At first there are the axes with their lengths, some rows, and no token in the address."""
    page = explorer.page
    listed = page.get_by_role("navigation", name="Data sets").inner_text()
    assert "cell\n700" in listed
    assert "bulk_labels" in listed
    assert explorer.status.startswith("700 rows in")
    assert explorer.column("name")[0] == "AAAGCCTGGCTAAC-1"
    assert "token" not in page.url


def test_a_query_has_the_rows_that_sql_says(explorer: Explorer) -> None:
    """Rows are in the order of the query, a sort is by value, and NULL is last."""
    explorer.run(BY_PHASE)
    assert explorer.column("phase") == ["G1", "S", "G2M"]
    assert explorer.column("cells") == ["501", "182", "17"]
    sort = explorer.page.get_by_role("columnheader", name="cells").get_by_role("button")
    sort.click()
    assert explorer.column("cells") == ["17", "182", "501"]
    sort.click()
    assert explorer.column("cells") == ["501", "182", "17"]
    explorer.run("SELECT column1 AS a FROM (VALUES (2.5), (NULL), (-1e9))")
    explorer.page.get_by_role("columnheader", name="a").get_by_role("button").click()
    assert explorer.column("a") == ["-1000000000", "2.5", "NULL"]


def test_the_chart_is_chosen_by_the_types(explorer: Explorer) -> None:
    """A word and a number are bars, a number is a histogram, two numbers are points."""
    page = explorer.page
    page.get_by_role("tab", name="Chart").click()
    explorer.run(BY_PHASE)
    assert page.get_by_role(
        "img", name="Bars of cells by phase: G1 501, S 182, G2M 17"
    ).is_visible()
    explorer.run("SELECT n_genes FROM cell")
    assert page.get_by_role("img", name="Histogram of n_genes: 700 values").is_visible()
    explorer.run("SELECT n_genes, n_counts FROM cell")
    assert page.get_by_role("img", name="Points: n_counts against n_genes").is_visible()
    explorer.run("SELECT 'a' AS \"<b>x</b>\", 1 AS n LIMIT 0")
    assert page.get_by_text("No rows to draw").is_visible()


def test_bars_are_parted_by_a_second_column(explorer: Explorer) -> None:
    """Side by side at first, stacked on request; counts of two columns of rows are stacked."""
    page = explorer.page
    page.get_by_role("tab", name="Chart").click()
    explorer.run(
        "SELECT phase, n_genes > 1500 AS many, count(*) AS cells FROM cell GROUP BY phase, many "
        "ORDER BY phase, many"
    )
    said = "by phase and many: G1 false 480 true 21, G2M false 11 true 6, S false 161 true 21"
    assert page.get_by_role("img", name=f"Grouped bars of cells {said}").is_visible()
    page.get_by_label("Parts").select_option("stacked")
    assert page.get_by_role("img", name=f"Stacked bars of cells {said}").is_visible()
    assert strings(page.locator(".chart-key li")) == ["false", "true"]
    explorer.run("SELECT phase, n_genes > 1500 AS many FROM cell")
    counted = page.get_by_role("img", name="Stacked bars of rows by phase and many: G1 false 480")
    assert counted.is_visible()
    page.get_by_label("Split by").select_option(label="nothing")
    assert page.get_by_role("img", name="Bars of rows by phase: G1 501").is_visible()


def test_an_error_is_said_and_its_place_underlined(explorer: Explorer) -> None:
    """The misspelt column is underlined, and goes on being shown until the next run."""
    explorer.run("SELECT name,\n       bulk_lables\nFROM cell")
    problem = explorer.page.get_by_role("alert").filter(has_text="bulk_lables")
    assert problem.inner_text().startswith("Vector not found line 2, column 8:")
    assert strings(explorer.page.locator(".cm-lintRange-error")) == ["bulk_lables"]
    assert explorer.complaints.pop().startswith("Failed to load resource")  # the browser's own note
    explorer.run("SELECT name FROM cell")
    assert explorer.page.locator(".cm-lintRange-error").count() == 0


def test_completion_knows_names_genes_and_values(explorer: Explorer) -> None:
    """Columns of the table that the query names, without FROM of all; genes after X['; values within quotes."""
    offered = explorer.page.locator(".cm-tooltip-autocomplete")
    for query, place in (("SELECT  FROM cell", len("SELECT ")), ("SELECT ", 7)):
        explorer.write(query)
        explorer.page.keyboard.press("Home")
        for _ in range(place):
            explorer.page.keyboard.press("ArrowRight")
        explorer.page.keyboard.type("bulk")
        offered.get_by_text("bulk_labels").first.wait_for()
    for start, typed, value in (
        ('SELECT name FROM cell WHERE "gene_raw.X"[', "'CST", "'CST3']"),
        ("SELECT name FROM cell WHERE phase = ", "'G2", "'G2M'"),
        ("SELECT name FROM cell WHERE phase IN ('S', ", "'G2", "'G2M'"),
        ("SELECT * FROM gene WHERE name = ", "'CST", "'CST3'"),
    ):
        explorer.write(start)
        explorer.page.keyboard.type(typed)
        offered.get_by_text(value.strip("']")).first.wait_for()
        explorer.page.wait_for_timeout(200)  # CodeMirror takes no choice in its first 75 ms
        explorer.page.keyboard.press("Tab")
        assert explorer.sql.rstrip(")") == start + value


def test_the_history_brings_a_query_back(explorer: Explorer) -> None:
    """What was run is listed, newest first."""
    explorer.run("SELECT 1 AS one")
    explorer.run("SELECT 2 AS two")
    explorer.page.get_by_role("button", name="History").click()
    entries = explorer.page.locator(".history-entry")
    assert strings(entries)[:2] == ["SELECT 2 AS two", "SELECT 1 AS one"]
    entries.nth(1).click()
    assert explorer.sql == "SELECT 1 AS one"


def test_only_the_rows_in_view_are_elements(explorer: Explorer) -> None:
    """A hundred thousand rows scroll to their last one."""
    query = 'SELECT a."index" * 700 + b."index" AS n FROM cell a JOIN cell b ON true LIMIT 400000'
    explorer.run(query)
    condition = "document.querySelector('.query-status').textContent.startsWith('400,000 rows')"
    explorer.wait_until(condition)
    rows = explorer.page.locator(".table-body [role=row]")
    assert rows.count() < 100
    explorer.page.get_by_role("grid").focus()
    explorer.page.keyboard.press("Control+End")
    last = explorer.page.locator('[aria-rowindex="400001"]')
    expect(last).to_be_in_viewport()
    explorer.page.keyboard.press("Control+Home")
    explorer.page.locator('[aria-rowindex="2"]').wait_for()


def test_rows_are_copied_with_tabs(explorer: Explorer) -> None:
    """The clipboard has the names of the columns and all rows."""
    explorer.run(BY_PHASE)
    explorer.page.get_by_role("button", name="Copy", exact=True).click()
    explorer.page.get_by_text("copied 3 rows").wait_for()
    copied = explorer.page.evaluate("navigator.clipboard.readText()")
    assert copied.replace("\r", "") == "phase\tcells\nG1\t501\nS\t182\nG2M\t17"


@pytest.mark.parametrize(
    ("button", "read"), [("CSV", pyarrow.csv.read_csv), ("Parquet", pyarrow.parquet.read_table)]
)
def test_a_result_is_downloaded(
    explorer: Explorer, tmp_path: Path, button: str, read: Callable[[Path], pyarrow.Table]
) -> None:
    """The file has the rows of the query, not only those in view."""
    explorer.run(BY_PHASE)
    with explorer.page.expect_download() as download:
        explorer.page.get_by_role("button", name=button, exact=True).click()
    download.value.save_as(tmp_path / "result")
    found = read(tmp_path / "result").to_pydict()
    assert found == {"phase": ["G1", "S", "G2M"], "cells": [501, 182, 17]}


def test_a_query_can_be_stopped(explorer: Explorer, server: ExploreServer) -> None:
    """Stop ends the query on the server as well."""
    query = "SELECT count(*) AS n FROM cell a, cell b, cell c, cell d WHERE a.n_genes * b.n_genes > c.n_genes + d.n_genes"
    explorer.write(query)
    explorer.page.keyboard.press("Control+Enter")
    explorer.page.get_by_role("button", name="Stop").click()
    explorer.page.get_by_text("stopped").wait_for()
    for _ in range(100):
        if server.running_queries == 0:
            break
        explorer.page.wait_for_timeout(50)
    assert server.running_queries == 0
