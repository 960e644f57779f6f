"""The data sets that rows of the table of messages are tried with, made in the working directory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from starlette.testclient import TestClient

from daf_query import connect
from daf_query.explore import ExploredData, app
from daf_storage import DafWriter, MemoryDaf, copy_all, from_anndata, open_daf
from tests.query.collection.cases import RUNS, daf_of
from tests.query.explore.conftest import TOKEN, client_of
from tests.query.explore.conftest import explored as explored_data
from tests.query.explore.conftest import tiny as explored_cells
from tests.support import PBMC, create, data_set, fill

NAMES: dict[str, Any] = {
    "__name__": __name__,
    "Path": Path,
    "MemoryDaf": MemoryDaf,
    "anndata": anndata,
    "connect": connect,
    "from_anndata": from_anndata,
    "np": np,
    "open_daf": open_daf,
    "pd": pd,
    "sp": sp,
}
"""What every call may use."""

_SCENES: dict[str, Callable[[], dict[str, Any]]] = {}


def scene(make: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """Let a table begin with the name of a function."""
    _SCENES[make.__name__] = make
    return make


def made(name: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    """Make what a scene needs; return the names that its calls may use."""
    if name == "pbmc":
        Path("pbmc.daf.zarr").symlink_to(request.getfixturevalue("pbmc_path"))
        Path("pbmc.h5ad").symlink_to(PBMC)
        return dict(NAMES)
    return NAMES | _SCENES[name]()


def stored(daf: DafWriter, path: str) -> DafWriter:
    """Write a copy of a data set."""
    with open_daf(path, "w") as copy:
        copy_all(daf, copy)
    return daf


def _of(daf: DafWriter, name: str = "") -> dict[str, Any]:
    """Return a data set in memory and a session of it."""
    return {"daf": daf, "db": connect({name: daf} if name else daf)}


@scene
def nothing() -> dict[str, Any]:
    """Make no data set."""
    return {}


@scene
def tiny() -> dict[str, Any]:
    """Make the data set that most tests look at, on disk and in memory."""
    return _of(stored(fill(MemoryDaf(name="tiny")), "tiny.daf.zarr"), "tiny")


@scene
def atlas() -> dict[str, Any]:
    """Write a small AnnData, and labels of its cells."""
    obs = pd.DataFrame({"kind": pd.Categorical(["a", "b", "a"])}, index=["c0", "c1", "c2"])
    adata = anndata.AnnData(np.arange(6, dtype=np.float32).reshape(3, 2), obs=obs)
    adata.obsm["cube"] = np.ones((3, 2, 2))
    adata.write_h5ad("atlas.h5ad")
    Path("labels.csv").write_text("barcode,label\nc0,b\n")
    return {}


@scene
def labels() -> dict[str, Any]:
    """Write a data set, and labels of its cells beside it."""
    fill(create(Path("atlas.daf.zarr"))).close()
    Path("labels.csv").write_text("barcode,label,ok\nTATA,b,true\nCATA,t,false\nX,t,true\n")
    return {}


@scene
def runs() -> dict[str, Any]:
    """Write two data sets of partly different genes, of which the first has ages."""
    Path("runs").mkdir()
    for number, genes in enumerate((["g", "f"], ["f", "h"])):
        with open_daf(f"runs/run{number}.daf.zarr", "w") as daf:
            data_set(daf, cell=["A", "B"], gene=genes)
            daf.set_scalar("lab", "X")
            daf.set_scalar("day", number)
            daf.set_matrix("cell", "gene", "UMIs", [[1, 2], [3, 4]])
            if not number:
                daf.set_vector("cell", "age", [3, 4])
    return {}


@scene
def days() -> dict[str, Any]:
    """Write three data sets of a collection, of which two have the matrix."""
    for name in ("monday", "friday", "plain"):
        daf = daf_of(name, RUNS[name if name in RUNS else "empty"])
        if name == "plain":
            daf.delete_matrix("cell", "gene", "X")
        stored(daf, f"{name}.daf.zarr")
    return {}


@scene
def broken() -> dict[str, Any]:
    """Write two data sets, and a file that is none."""
    stored(fill(MemoryDaf()), "tiny.daf.zarr")
    shutil.copytree("tiny.daf.zarr", "other.daf.zarr")
    Path("broken.h5ad").write_bytes(b"no HDF5")
    return {}


@scene
def genes() -> dict[str, Any]:
    """Write genes with odd names, one of which is that of a vector."""
    with open_daf("genes.daf.zarr", "w") as daf:
        data_set(daf, cell=["A", "B"], gene=["MS4A1", "CD8A", "a,b", "marker", "HLA-DRA", "5'-x"])
        daf.set_vector("gene", "marker", [True, False, True, False, True, False])
        daf.set_matrix("cell", "gene", "X", [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]])
    Path("genes.txt").write_text("a,b\r\n\nmarker\n")
    Path("none.txt").write_text("\n")
    return {}


@scene
def cells() -> dict[str, Any]:
    """Write cells with ages and types, genes, counts and logarithms."""
    counts = np.array([[0, 1], [2, 0], [3, 4]], "i4")
    with open_daf("x.daf.zarr", "w") as daf:
        daf.add_axis("cell", ["a", "b", "c"], vectors={"age": [1, 2, 3], "type": ["T", "B", "T"]})
        data_set(daf, gene=["x", "y"], matrices={("cell", "gene", "UMIs"): sp.csr_array(counts)})
        daf.set_matrix("cell", "gene", "logs", counts / 2)
    with open_daf("other.h5df", "w") as daf:
        data_set(daf, obs=["c", "a"], var=["y"])
        daf.set_matrix("obs", "var", "X", sp.csr_array([[5], [6]]))
    Path("query.sql").write_text(
        "SELECT DISTINCT type AS name FROM cell -- types\nORDER BY name DESC"
    )
    return {}


@scene
def donors() -> dict[str, Any]:
    """Write three cells of two donors, and files of SQL and of rows."""
    with open_daf("x.daf.zarr", "w") as daf:
        data_set(daf, cell={"name": ["A", "B", "C"], "age": [1, 2, 3], "donor": ["N1", "N2", "N1"]})
    count = "-- how many\nSELECT count(*) AS n FROM cell; -- the end\n"
    for name, text in {
        "q": "\ufeff" + count,
        "two": "SELECT 1;\nSELECT 2;",
        "none": "-- no\n",
    }.items():
        Path(f"{name}.sql").write_text(text, "utf-8")
    Path("bytes.sql").write_bytes(b"SELECT '\xff'")
    Path("samples.csv").write_text("id,centre\nN1,Basel\nN2,Oslo\n")
    Path("towns.tsv").write_text("town\tland\nBasel\tCH\n")
    return {}


@scene
def served() -> dict[str, Any]:
    """Write data sets, and what is no token and no certificate."""
    Path("other").mkdir()
    for name in ("one.daf.zarr", "two.daf.zarr", "other/one.daf.zarr"):
        stored(fill(MemoryDaf()), name)
    Path("empty").touch()
    Path("short").write_text("secret")
    return {}


@scene
def numbered() -> dict[str, Any]:
    """Write forty cells of eight donors."""
    with open_daf("x.daf.zarr", "w") as daf:
        data_set(daf, cell={"name": [f"cell_{n}" for n in range(40)], "age": list(range(40))})
        daf.set_vector("cell", "donor", [f"d{n % 8}" for n in range(40)])
    return {}


class Refused(Exception):  # noqa: N818 - not of the software
    """An answer of the explorer that is an error: its status, its place, what it says and what to do."""


@scene
def explored() -> dict[str, Any]:
    """Explore a small data set, as the page does."""
    stored(explored_cells(), "tiny.daf.zarr")
    noting = ExploredData(
        lambda: connect("tiny.daf.zarr", overlay="notes.daf.zarr"), overlay="notes.daf.zarr"
    )
    axis = {"schema": "tiny", "axis": "cell"}
    matrix = {"schema": "tiny", "rows_axis": "cell", "columns_axis": "gene", "matrix": "X"}
    return {
        "ask": _asking(explored_data(explored_cells())),
        "ask_to_note": _asking(client_of(app(noting, token=TOKEN))),
        "AXIS": axis,
        "MATRIX": matrix,
    }


def _asking(client: TestClient) -> Callable[..., None]:
    """Return what raises the errors that an explorer answers with."""

    def ask(path: str, content: bytes | None = None, /, **requested: Any) -> None:
        body = json.dumps(requested).encode() if content is None else content
        reply = client.post(f"/api/{path}", content=body)
        if reply.status_code != 200:
            said = reply.json()
            numbers = [str(said[name]) for name in ("line", "column", "length") if said[name]]
            place = f" at {', '.join(numbers)}" if numbers else ""
            raise Refused(f"{reply.status_code}{place}: {said['message']}; {said['remedy']}")

    return ask
