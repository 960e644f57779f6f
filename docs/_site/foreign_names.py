"""Inventories of other projects, for links into their documentation, made without a network.

An inventory says where the page of a name is.  Each project publishes one; a build that fetched
them would need the internet, and fail with any of them.  So the names that our pages use are
listed here, and a test finds each of them in the package that is installed.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class ForeignProject:
    """Where a project documents its names."""

    url: str
    page: str
    """Where the page of a name is; `{name}` is the whole name, `{path}` its module as folders."""
    names: dict[str, str]
    """Kind of object, by name."""

    def location(self, name: str) -> str:
        """Return the address of a name within the documentation of the project."""
        module, _, last = name.rpartition(".")
        page = self.page.format(name=name, path=module.replace(".", "/"), last=last.lower())
        return f"{page}#{name}"


def _classes(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "class")


def _functions(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "function")


PROJECTS: Final = {
    "anndata": ForeignProject(
        "https://anndata.readthedocs.io/en/stable/",
        "generated/{name}.html",
        _classes("anndata.AnnData") | _functions("anndata.concat", "anndata.read_h5ad"),
    ),
    "scanpy": ForeignProject(
        "https://scanpy.readthedocs.io/en/stable/",
        "generated/{name}.html",
        _functions("scanpy.get.aggregate", "scanpy.pl.dotplot", "scanpy.tl.rank_genes_groups"),
    ),
    "pyarrow": ForeignProject(
        "https://arrow.apache.org/docs/",
        "python/generated/{name}.html",
        _classes(
            "pyarrow.Array",
            "pyarrow.ChunkedArray",
            "pyarrow.DataType",
            "pyarrow.RecordBatch",
            "pyarrow.RecordBatchReader",
            "pyarrow.Schema",
            "pyarrow.Table",
            "pyarrow.compute.Expression",
            "pyarrow.dataset.Dataset",
            "pyarrow.dataset.Fragment",
            "pyarrow.dataset.Scanner",
        ),
    ),
    "datafusion": ForeignProject(
        "https://datafusion.apache.org/python/",
        "autoapi/{path}/index.html",
        _classes(
            "datafusion.context.SessionContext",
            "datafusion.dataframe.DataFrame",
            "datafusion.expr.Expr",
            "datafusion.expr.SortExpr",
        ),
    ),
    "zarr": ForeignProject(
        "https://zarr.readthedocs.io/en/stable/",
        "api/zarr/{last}/",
        _classes("zarr.Array", "zarr.Group"),
    ),
    "numpy": ForeignProject(
        "https://numpy.org/doc/stable/",
        "reference/generated/{name}.html",
        _classes("numpy.dtype", "numpy.ndarray", "numpy.random.Generator"),
    ),
    "pandas": ForeignProject(
        "https://pandas.pydata.org/docs/",
        "reference/api/{name}.html",
        _classes("pandas.DataFrame", "pandas.Series"),
    ),
}


def mapping(folder: Path) -> dict[str, tuple[str, str]]:
    """Write the inventories into a folder, and return what intersphinx asks for."""
    folder.mkdir(parents=True, exist_ok=True)
    for title, project in PROJECTS.items():
        (folder / f"{title}.inv").write_bytes(inventory(title, project))
    return {
        title: (project.url, str(folder / f"{title}.inv")) for title, project in PROJECTS.items()
    }


def inventory(title: str, project: ForeignProject) -> bytes:
    """Return an inventory in the format of Sphinx, version 2."""
    header = (
        "# Sphinx inventory version 2\n"
        f"# Project: {title}\n"
        "# Version: \n"
        "# The remainder of this file is compressed using zlib.\n"
    )
    lines = (
        f"{name} py:{category} 1 {project.location(name)} -\n"
        for name, category in sorted(project.names.items())
    )
    return header.encode() + zlib.compress("".join(lines).encode())
