"""Pictures for the documentation: ``python -m tests.browser.screenshots docs/images``.

They show the PBMC data that scanpy ships, in the explorer, in a terminal and in a notebook, and a
million cells that are made here.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

import daf_query
from daf_query.demo import find_pbmc
from daf_query.explore import ExploreServer
from daf_storage import import_h5ad
from tests.browser import notebook_pictures, terminal_pictures
from tests.browser.explorer import Explorer, launch
from tests.browser.test_million import million_cells
from tests.browser.test_newcomer import commands

_BY_TYPE = """SELECT bulk_labels, count(*) AS cells,
       avg("gene_raw.X"['NKG7']) AS nkg7
FROM cell
GROUP BY bulk_labels
ORDER BY nkg7 DESC"""
_CST3 = """SELECT name, bulk_labels, n_genes, "gene_raw.X"['CST3'] AS cst3
FROM cell
WHERE "gene_raw.X"['CST3'] > 2
ORDER BY cst3 DESC"""
_MARKERS = "CST3, LYZ, FCER1A, CD79A, MS4A1, NKG7, GNLY, CD3D, IL7R, CD8A"


def take(folder: Path) -> None:
    """Take all pictures."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as scratch:
        browser = launch(playwright)
        pbmc = Path(scratch) / "pbmc.daf.zarr"
        import_h5ad(find_pbmc(), pbmc, obs_is="cell", var_is="gene")
        terminal_pictures.take(folder, pbmc)
        notebook_pictures.take(folder, pbmc, browser)
        with daf_query.connect(pbmc) as session, ExploreServer(session) as server:
            _newcomer(browser, server, folder)
            _pbmc(browser, server.url, folder)
        with daf_query.connect(million_cells()) as session, ExploreServer(session) as server:
            _million(browser, server.url, folder)
        browser.close()


def _newcomer(browser: Browser, server: ExploreServer, folder: Path) -> None:
    """Take what the last of the README's first commands shows."""
    words = commands()[-1]
    chosen = {
        name: words[words.index(f"--{name}") + 1]
        for name in ("query", "color")
        if f"--{name}" in words
    }
    url = server.page_url(**chosen)
    for _ in range(2):  # the first query of a server imports what it needs
        explorer = Explorer(browser, url, viewport={"width": 1280, "height": 720})
        _shoot(explorer.wait_until_drawn(), folder / "newcomer.png")
        explorer.close()


def _pbmc(browser: Browser, url: str, folder: Path) -> None:
    explorer = Explorer(browser, url, viewport={"width": 1280, "height": 800}).wait_until_drawn()
    explorer.run(_CST3)
    explorer.colour_by("Gene", "CST3", matrix="gene_raw.X")
    explorer.listed("n_genes").click()
    _shoot(explorer, folder / "explore-gene.png")
    explorer.colour_by("Column", "bulk_labels")
    explorer.lasso((0.5, 0.02), (0.75, 0.02), (0.75, 0.34), (0.4, 0.34), (0.4, 0.05))
    explorer.wait_until_answered()
    _shoot(explorer, folder / "explore-lasso.png")
    explorer.page.get_by_role("button", name="Clear").click()
    explorer.run(_BY_TYPE)
    explorer.page.get_by_role("tab", name="Chart").click()
    _shoot(explorer, folder / "explore-chart.png")
    explorer.close()
    dark = Explorer(
        browser, url, viewport={"width": 1280, "height": 800}, color_scheme="dark"
    ).wait_until_drawn()
    dark.page.get_by_role("tab", name="Dot plot").click()
    dark.page.get_by_label("genes, separated by commas").fill(_MARKERS)
    dark.page.get_by_role("button", name="Draw", exact=True).click()
    dark.page.get_by_role("img", name="Dot plot of").wait_for()
    _shoot(dark, folder / "explore-dark.png")
    dark.close()


def _million(browser: Browser, url: str, folder: Path) -> None:
    explorer = Explorer(browser, url, viewport={"width": 1280, "height": 800}).wait_until_drawn()
    explorer.run("SELECT type, count(*) AS cells FROM cell GROUP BY type ORDER BY cells DESC")
    explorer.page.get_by_role("tab", name="Chart").click()
    _shoot(explorer, folder / "explore-million.png")
    explorer.close()


def _shoot(explorer: Explorer, path: Path) -> None:
    explorer.page.mouse.move(3, 3)
    explorer.page.wait_for_timeout(700)
    explorer.page.screenshot(path=path)


if __name__ == "__main__":
    take(Path(sys.argv[1]))
