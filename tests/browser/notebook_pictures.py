"""Pictures of what a notebook shows of objects: cells that ran in a kernel, drawn by Chromium."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any, Final

import nbformat
from nbclient import NotebookClient
from playwright.sync_api import Browser

_PICTURES: Final = {
    "notebook-session": ["import daf_query\ndb = daf_query.connect('pbmc.daf.zarr')\ndb"],
    "notebook-slice": [
        """db.matrix("cell", "gene_raw", "X", rows="bulk_labels = 'Dendritic'")""",
        """db.profile("cell", "gene_raw", "X", by="bulk_labels")""",
    ],
}
_STYLE: Final = """
body { font: 13px/1.5 sans-serif; margin: 12px; background: white; }
.cell { display: grid; grid-template-columns: 64px 1fr; margin-bottom: 10px; }
.cell > span { color: #616161; font: 12px/1.7 monospace; }
pre { margin: 0; padding: 5px 8px; background: #f5f5f5; border: 1px solid #e0e0e0; font: 13px/1.5 monospace; }
"""


def take(folder: Path, data: Path, browser: Browser) -> None:
    """Run the cells beside the data set, and take a picture of some of them together."""
    sources = [source for cells in _PICTURES.values() for source in cells]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in sources])
    NotebookClient(notebook, resources={"metadata": {"path": str(data.parent)}}).execute()
    page = browser.new_page(viewport={"width": 1240, "height": 200})
    cells = iter(notebook.cells)
    for name, shown in _PICTURES.items():
        body = "".join(_cell(next(cells)) for _ in shown)
        page.set_content(f"<style>{_STYLE}</style>{body}")
        page.screenshot(path=folder / f"{name}.png", full_page=True)
    page.close()


def _cell(cell: Any) -> str:
    """Return a cell and what it shows, side by side with its number, as notebooks have it."""
    shown = "".join(output["data"]["text/html"] for output in cell.outputs)
    count = cell.execution_count
    return (
        f'<div class="cell"><span>In [{count}]:</span><pre>{html.escape(cell.source)}</pre></div>'
        f'<div class="cell"><span>Out[{count}]:</span><div>{shown}</div></div>'
    )
