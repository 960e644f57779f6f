"""The map: colours, legend, selections, and what they do to the query."""

from __future__ import annotations

import io
import re
from pathlib import Path

import anndata
import numpy as np
from matplotlib.image import imread
from playwright.sync_api import expect

import daf_query
from daf_query.demo import find_pbmc
from daf_query.explore import ExploredData, ExploreServer
from tests.browser.conftest import Open
from tests.browser.explorer import Explorer

LEFT = ((0.3, 0.02), (0.3, 0.98), (0.01, 0.98), (0.01, 0.02))
RED = "#d62728"
SELECTED = "name IN (SELECT name FROM selection)"


def test_the_legend_counts_categories_and_picks_them_out(explorer: Explorer) -> None:
    """They have the order and the colours of the data, as in a plot; one that is picked can be selected."""
    entries = explorer.page.locator(".legend-entry")
    with daf_query.connect(find_pbmc()) as db:
        noted = db.sql("SELECT name, color FROM bulk_labels").to_pylist()
    assert len(noted) == 10
    assert explorer.swatches(".legend-entry") == [
        [each["name"], f"rgb({', '.join(map(str, bytes.fromhex(each['color'][1:7])))})"]
        for each in noted
    ]
    assert entries.last.inner_text().split("\n") == ["Dendritic", "240"]
    entries.last.click()
    expect(entries.last).to_have_attribute("aria-pressed", "true")
    explorer.page.get_by_role("button", name="Select these").click()
    expect(explorer.page.locator(".selection-bar")).to_contain_text("240 of 700 cells selected")


def test_points_are_coloured_by_a_gene_and_by_sql(explorer: Explorer, pbmc_path: Path) -> None:
    """The legend has the range of the values, as SQL has it."""
    with daf_query.connect(pbmc_path) as db:
        query = (
            "SELECT max(\"gene_raw.X\"['CST3']) AS cst3, max(n_genes / n_counts) AS ratio FROM cell"
        )
        most = db.sql(query).to_pylist()[0]
    explorer.colour_by("Gene", "CST3", matrix="gene_raw.X")
    assert f"{most['cst3']:.5g}" in explorer.legend
    explorer.colour_by("SQL", "n_genes / n_counts")
    assert f"{most['ratio']:.5g}" in explorer.legend
    explorer.colour_by("Column", "phase")
    assert "G2M\n17" in explorer.legend


def test_a_chart_has_the_colours_of_the_map(explorer: Explorer) -> None:
    """Of the column that colours it, whatever the order of the parts."""
    explorer.colour_by("Column", "phase")
    page = explorer.page
    page.get_by_role("tab", name="Chart").click()
    explorer.run("SELECT bulk_labels, phase, count(*) AS cells FROM cell GROUP BY ALL")
    page.locator(".chart-key li").first.wait_for()
    key = explorer.swatches(".chart-key li")
    assert len(key) == 3
    assert sorted(explorer.swatches(".legend-entry")) == sorted(key)


def test_a_lasso_becomes_a_condition(explorer: Explorer) -> None:
    """The query is narrowed to the points within, and its table has just these."""
    explorer.run("SELECT name, phase FROM cell WHERE phase <> 'S' ORDER BY name")
    explorer.lasso(*LEFT)
    expect(explorer.page.locator(".selection-bar")).to_contain_text("of 700 cells selected")
    explorer.wait_until_answered()
    assert (
        explorer.sql
        == f"SELECT name, phase FROM cell\nWHERE (phase <> 'S') AND {SELECTED} ORDER BY name"
    )
    selected = int(explorer.selected)
    assert 20 < selected < 400
    explorer.run(f"SELECT count(*) AS n FROM cell WHERE {SELECTED}")
    assert explorer.column("n") == [str(selected)]
    explorer.page.get_by_role("button", name="Clear").click()
    expect(explorer.page.locator(".selection-bar")).to_be_hidden()


def test_a_click_selects_one_point(explorer: Explorer) -> None:
    """The table shows the row of the point that was clicked."""
    box = explorer.page.locator(".scatter-canvas").bounding_box()
    assert box is not None
    bar = explorer.page.locator(".selection-bar")
    for place in range(5, 95, 3):  # along a line through the middle, until there is a point
        explorer.page.mouse.click(
            box["x"] + box["width"] * place / 100, box["y"] + box["height"] * 0.62
        )
        if bar.is_visible():
            break
        explorer.page.wait_for_timeout(60)
    expect(bar).to_contain_text("1 of 700 cells selected")
    explorer.wait_until_answered()
    assert explorer.status.startswith("1 row in")


def test_the_rows_of_a_query_are_lit(explorer: Explorer) -> None:
    """If it has a condition; so are the cells of a group whose row is clicked, until that is cleared."""
    note = explorer.page.locator(".lit-note")
    explorer.run("SELECT name FROM cell WHERE phase = 'G2M'")
    expect(note).to_have_text("highlighted: 17 points of the query")
    explorer.run("SELECT bulk_labels, sum(1) FROM cell GROUP BY CUBE(bulk_labels) ORDER BY 2 DESC")
    for row, points in ((1, "highlighted: 240 points"), (0, "")):  # that of all has no label
        explorer.page.locator(".table-body [role=row]").nth(row).click()
        expect(note).to_have_text(re.compile(f"^{points}" if points else "^$"))


def red(explorer: Explorer) -> int:
    """Return how many pixels of the map are in full colour."""
    explorer.page.wait_for_timeout(300)
    png = explorer.page.locator(".scatter-canvas").screenshot()
    pixels = np.asarray(imread(io.BytesIO(png)))[:, :, :3] * 255
    full = np.array([int(RED[place : place + 2], 16) for place in (1, 3, 5)])
    return int((np.abs(pixels - full).max(axis=2) < 60).sum())


def test_selected_cells_are_extracted(explorer: Explorer, tmp_path: Path) -> None:
    """The bytes are shown before, and the file has the cells of the lasso."""
    explorer.lasso(*LEFT)
    selected = int(explorer.selected)
    explorer.page.get_by_role("button", name="Extract…").click()
    dialog = explorer.page.get_by_role("dialog")
    dialog.get_by_label("Columns where").fill("highly_variable")
    dialog.get_by_label("Columns where").press("Tab")
    expect(dialog.get_by_role("status")).to_contain_text(re.compile(rf"{selected} \S 309"))
    expect(dialog.get_by_role("status")).to_contain_text("iB")
    with explorer.page.expect_download() as download:
        dialog.get_by_role("button", name="Download h5ad").click()
    download.value.save_as(tmp_path / "part.h5ad")
    assert anndata.read_h5ad(tmp_path / "part.h5ad").shape == (selected, 309)


def test_a_dot_plot_of_genes(explorer: Explorer) -> None:
    """Genes by groups, which fit into a small window, with the numbers as a table."""
    page = explorer.page
    page.set_viewport_size({"width": 1280, "height": 800})
    page.get_by_role("tab", name="Dot plot").click()
    others = "LYZ, FCER1A, CD79A, MS4A1, GNLY, CD3D, IL7R, CD8A"
    page.get_by_label("genes, separated by commas").fill(f"CST3, NKG7, {others}")
    page.get_by_role("button", name="Draw", exact=True).click()
    page.get_by_role("img", name="Dot plot of CST3, NKG7, LYZ").wait_for()
    assert explorer.fits(".dotplot-place .scroll")
    page.get_by_text("Mean values as a table").click()
    assert page.locator(".numbers tbody tr").count() == 10


def test_a_selection_is_saved_into_the_overlay(
    opened: Open, pbmc_path: Path, tmp_path: Path
) -> None:
    """The new vector is listed, and queried like any other."""
    overlay = tmp_path / "mine.daf.zarr"
    session = daf_query.connect(pbmc_path, overlay=overlay)
    data = ExploredData(lambda: session, overlay=str(overlay))
    with session, ExploreServer(data) as server:
        explorer = opened(server.url).wait_until_drawn()
        source = explorer.page.locator(".source").inner_text()
        assert source == "pbmc.daf.zarr + mine.daf.zarr; what is saved goes to mine.daf.zarr"
        explorer.lasso(*LEFT)
        explorer.page.get_by_role("button", name="Save as vector…").click()
        dialog = explorer.page.get_by_role("dialog")
        dialog.get_by_label("Name of the vector").fill("left_side")
        dialog.get_by_role("button", name="Save").click()
        explorer.page.get_by_text("saved left_side of cell").wait_for()
        explorer.listed("left_side").wait_for()
        selected = explorer.selected
        explorer.run("SELECT count(*) AS n FROM cell WHERE left_side = 'in'")
        assert explorer.column("n") == [selected]


def test_filters_beside_the_map_filter_each_other(explorer: Explorer, pbmc_path: Path) -> None:
    """Counts of each are those of the points that the others leave; all leave the selection."""
    page = explorer.page
    db = daf_query.connect(pbmc_path)
    page.locator(".facets summary").click()
    for vector in ("phase", "bulk_labels", "n_genes"):
        page.get_by_label("Add a filter").select_option(label=vector)
        page.get_by_role("region", name=f"Filter of {vector}").wait_for()
    page.get_by_role("button", name="phase S", exact=True).click()
    page.locator(".selection-bar").get_by_text("182 of 700 cells selected").wait_for()
    query = "SELECT bulk_labels AS b, count(*) AS n FROM cell WHERE phase = 'S' GROUP BY b"
    labels = db.sql(query).to_pydict()
    for label, count in zip(labels["b"], labels["n"], strict=True):
        entry = page.get_by_role("button", name=f"bulk_labels {label}", exact=True)
        assert entry.inner_text().split("\n")[-1] == str(count)
    assert "501" in page.get_by_role("button", name="phase G1", exact=True).inner_text()
    page.get_by_label("Least of n_genes").fill("25")
    page.get_by_label("Least of n_genes").dispatch_event("change")
    condition = "!document.querySelector('.selection-bar strong').textContent.startsWith('182')"
    explorer.wait_until(condition)
    selected = int(explorer.selected)
    least = float(page.locator(".facet .facts").inner_text().split(" to ")[0].replace(",", ""))
    query = f"SELECT count(*) AS n FROM cell WHERE phase = 'S' AND n_genes >= {least}"
    assert db.sql(query).to_pydict()["n"] == [selected]
    page.get_by_role("group", name="Selection").get_by_role("button", name="Clear").click()
    pressed = page.get_by_role("button", name="phase S", exact=True).get_attribute("aria-pressed")
    assert pressed == "false"
