"""Tests that the notebooks of the gallery run in a kernel, and show what their text says.

They start a kernel each, so they have a marker of their own: ``make test-notebooks``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"\A(?::[^\n]*\n)+\n?")

SHOWN: dict[str, tuple[int, list[str]]] = {
    "first-look": (2, ["AAAGCCTGGCTAAC-1", "genes_per_cell", "Dendritic", "daf-view"]),
    "marker-genes": (3, ["10 groups x 765 gene_raw", "charts are of the first 1,000", "CD79A"]),
    "pseudobulk": (1, ["25 groups x 765 gene_raw", "(16, 765)", "NKG7"]),
    "subset": (1, ["369 cell x 309 gene", "X_umap", "highly_variable"]),
    "many-runs": (1, ["collection of 3 data sets", "run1", "CD19+ B"]),
}
"""Of each notebook the number of pictures, and what its outputs have among others."""


def _notebook(page: Path) -> Any:
    """Return a page as a notebook of its cells of code."""
    cells = [OPTION.sub("", found) for found in CELL.findall(page.read_text())]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])


def _outputs(notebook: Any) -> Iterator[tuple[str, str]]:
    """Yield the type and the data of each output; of text its stream."""
    for cell in notebook.cells:
        for output in cell.outputs:
            if output.output_type == "stream":
                yield output.name, output.text
            yield from output.get("data", {}).items()


def test_every_notebook_is_tested_and_listed() -> None:
    """Pages that are executed, in the contents of the gallery and here."""
    pages = {page.stem for page in GALLERY.glob("*.md")} - {"index"}
    assert pages == set(SHOWN)
    index = (GALLERY / "index.md").read_text()
    assert all(f"]({page}.md)" in index and f"\n{page}\n" in index for page in pages)
    assert all(len(_notebook(GALLERY / f"{page}.md").cells) > 4 for page in pages)


@pytest.mark.notebooks
@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_runs_and_shows(name: str, tmp_path: Path) -> None:
    """No cell fails, stderr has nothing but bars of slow work, and pictures and tables are there."""
    notebook = _notebook(GALLERY / f"{name}.md")
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    outputs = list(_outputs(notebook))
    pictures, wanted = SHOWN[name]
    stderr = "".join(str(data) for kind, data in outputs if kind == "stderr")
    assert [line for line in stderr.splitlines() if line.strip() and "/s]" not in line] == []
    assert sum(kind == "image/png" for kind, _ in outputs) == pictures
    together = "\n".join(str(data) for kind, data in outputs if kind != "image/png")
    assert [each for each in wanted if each not in together] == []
