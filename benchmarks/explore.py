"""Print what the page of daf explore costs: bytes sent and CPU seconds for a million cells.

    python benchmarks/explore.py                   a million cells, a data set of Daf and an h5ad
    python benchmarks/explore.py --cells 10000     fewer
    python benchmarks/explore.py --folder DIR      keep the data there, and do not make them again

The seconds are those of the server, without those of the client: of the first time, and the least
of three others.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anndata
import httpx
import numpy as np
import pandas as pd
import scipy.sparse as sp

from daf_query import connect
from daf_query.explore import ExploreServer
from daf_storage import import_h5ad

GENES = 20
TYPES = 30


def make(folder: Path, cells: int) -> None:
    """Write cells with a type, counts and an embedding as an h5ad, and as a data set of Daf."""
    if (folder / "cells.daf.zarr").exists():
        return
    random = np.random.default_rng(1)
    types = random.integers(0, TYPES, cells)
    places = np.stack([types % 6, types // 6], axis=1) * 5
    obs = pd.DataFrame(
        {
            "type": pd.Categorical.from_codes(types, [f"type {number}" for number in range(TYPES)]),
            "n_genes": random.integers(200, 6000, cells),
            "n_counts": (random.random(cells) * 1e4 + 1).astype(np.float32),
        },
        index=np.char.add("C", np.arange(cells).astype(str)),
    )
    adata = anndata.AnnData(
        X=sp.random(cells, GENES, 0.1, format="csr", dtype=np.float32, random_state=1),
        obs=obs,
        var=pd.DataFrame(index=[f"G{number}" for number in range(GENES)]),
        obsm={"X_umap": (random.normal(size=(cells, 2)) + places).astype(np.float32)},
    )
    adata.write_h5ad(folder / "cells.h5ad")
    import_h5ad(folder / "cells.h5ad", folder / "cells.daf.zarr", progress="never")


def measured(ask: Callable[[], httpx.Response]) -> tuple[int, float, float]:
    """Return the bytes of an answer, and the seconds of the first time and of the best other."""
    seconds = []
    size = 0
    for _ in range(4):
        whole, client = time.process_time(), time.thread_time()
        size = len(ask().raise_for_status().content)
        seconds.append(time.process_time() - whole - (time.thread_time() - client))
    return size, seconds[0], min(seconds[1:])


def questions(client: httpx.Client) -> Iterator[tuple[str, Callable[[], httpx.Response]]]:
    """Yield what the page asks."""
    axis = {"schema": "cells", "axis": "obs"}

    def colour(sql: str) -> Callable[[], httpx.Response]:
        return lambda: client.post("/api/colour", json={**axis, "sql": sql})

    def query(sql: str) -> Callable[[], httpx.Response]:
        requested = {"id": sql, "sql": sql, "rows": 100_000}
        return lambda: client.post("/api/query", json=requested)

    def rows(sql: str) -> Callable[[], httpx.Response]:
        return lambda: client.post("/api/rows", json={**axis, "sql": sql})

    yield "catalogue", lambda: client.get("/api/catalogue")
    yield "points", lambda: client.post("/api/points", json={**axis, "embedding": "X_umap"})
    yield "colours: a column of strings", colour("type")
    yield "colours: a column of numbers", colour("n_genes")
    yield "colours: an expression", colour("n_genes / n_counts")
    yield "colours: a gene", colour("X['G3']")
    yield "positions of a predicate", rows("n_genes > 5000")
    yield "positions of a query", rows("SELECT * FROM obs WHERE n_genes > 5000")
    yield "100,000 rows", query("SELECT * FROM obs")
    yield "rows of groups", query("SELECT type, count(*) AS cells FROM obs GROUP BY type")


def main() -> None:
    """Print a line for each question and form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        make(folder, 1000 if options.small else options.cells)
        for name in ("cells.daf.zarr", "cells.h5ad"):
            print(name)
            with connect(folder / name) as session, ExploreServer(session) as server:
                client = httpx.Client(
                    base_url=f"http://127.0.0.1:{server.port}",
                    headers={"Authorization": f"Bearer {server.token}"},
                    timeout=600,
                )
                with client:
                    for title, ask in questions(client):
                        size, first, best = measured(ask)
                        print(f"  {title:30} {size:>12,} bytes {first:8.3f} s {best:8.3f} s")


if __name__ == "__main__":
    main()
