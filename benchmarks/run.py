"""Measure speed side by side with the libraries that people use today, in one run.

    python benchmarks/run.py            200,000 cells x 2,000 genes, 20 million non-zeros
    python benchmarks/run.py --small    the same steps on little data

Each line is a task, our time, the other's time, and the ratio of the two; the best of several
repetitions counts.  Times depend on the machine; the ratios are what is claimed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anndata
import datafusion
import numcodecs
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
import zarr

import daf_query
import daf_storage
from daf_storage.base import decode_vlen_utf8

FILTER = "age > 60 AND donor = 'N3' AND score > 0.8"


@dataclass(frozen=True)
class Scale:
    """How much data."""

    cells: int
    """Number of cells."""
    genes: int
    """Number of genes."""
    per_cell: int
    """Non-zeros per cell."""
    repeats: int
    """Repetitions of each measurement."""


FULL = Scale(200_000, 2_000, 100, 5)
SMALL = Scale(2_000, 100, 10, 1)


def best(task: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Return the shortest time in seconds, and the last result."""
    times = []
    result = None
    for _ in range(repeats):
        started = time.perf_counter()
        result = task()
        times.append(time.perf_counter() - started)
    return min(times), result


def line(what: str, ours: float, other: str, theirs: float) -> None:
    """Print one comparison."""
    print(
        f"{what:44} {ours * 1000:10.1f} ms   {other:28} {theirs * 1000:10.1f} ms   {theirs / ours:7.2f} x"
    )


def make_h5ad(path: Path, scale: Scale) -> None:
    """Write the data as an h5ad file, uncompressed, as CSR."""
    random = np.random.default_rng(0)
    n = scale.cells
    step = scale.genes // scale.per_cell
    indices = np.arange(scale.per_cell, dtype=np.int32) * step
    indices = (
        indices[None, :] + random.integers(0, step, (n, scale.per_cell), dtype=np.int32)
    ).ravel()
    data = random.integers(1, 100, indices.size).astype(np.float32)
    indptr = np.arange(n + 1) * scale.per_cell
    obs = pd.DataFrame(
        {
            "age": random.integers(20, 90, n),
            "donor": random.choice([f"N{i}" for i in range(8)], n),
            "score": random.random(n),
        },
        index=[f"cell_{i}" for i in range(n)],
    )
    var = pd.DataFrame(
        {"is_marker": random.random(scale.genes) < 0.05},
        index=[f"gene_{i}" for i in range(scale.genes)],
    )
    matrix = sp.csr_matrix((data, indices, indptr), shape=(n, scale.genes))
    anndata.AnnData(matrix, obs=obs, var=var).write_h5ad(
        path, convert_strings_to_categoricals=False
    )


def main() -> None:
    """Run all comparisons."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="little data, to see that it works")
    scale = SMALL if parser.parse_args().small else FULL
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), scale)


def run(folder: Path, scale: Scale) -> None:
    """Make the data and measure."""
    h5ad, path, parquet = folder / "x.h5ad", folder / "x.daf.zarr", folder / "cell.parquet"
    make_h5ad(h5ad, scale)
    print(
        f"{scale.cells:,} cells x {scale.genes:,} genes, {scale.cells * scale.per_cell:,} non-zeros\n"
    )
    print(f"{'task':44} {'daf-query':>13}   {'compared with':39}   {'ratio':>8}")
    import_data(h5ad, path, folder)
    open_and_slice(h5ad, path, scale)
    sql(path, parquet, scale)
    slices(path, scale)
    strings(path, scale)


def import_data(h5ad: Path, path: Path, folder: Path) -> None:
    """Import, both layouts, against anndata's own conversion to Zarr (one layout)."""
    ours, _ = best(
        lambda: daf_storage.import_h5ad(
            h5ad, path, obs_is="cell", var_is="gene", if_exists="replace"
        ),
        1,
    )
    theirs, _ = best(lambda: anndata.read_h5ad(h5ad).write_zarr(folder / "anndata.zarr"), 1)
    line("import h5ad (streamed, both layouts)", ours, "anndata: read and write_zarr", theirs)


def open_and_slice(h5ad: Path, path: Path, scale: Scale) -> None:
    """Open, filter the cells, fetch their rows: what people do all day."""

    def with_daf() -> Any:
        return daf_query.connect(path).matrix("cell", "gene", "X", rows=FILTER).to_scipy()

    def with_backed() -> Any:
        adata = anndata.read_h5ad(h5ad, backed="r")
        kept = (adata.obs.age > 60) & (adata.obs.donor == "N3") & (adata.obs.score > 0.8)
        found = adata[kept.to_numpy()].X
        return found[:] if not sp.issparse(found) else found

    def with_memory() -> Any:
        adata = anndata.read_h5ad(h5ad)
        kept = (adata.obs.age > 60) & (adata.obs.donor == "N3") & (adata.obs.score > 0.8)
        return adata[kept.to_numpy()].X

    opening, _ = best(lambda: daf_query.connect(path), scale.repeats)
    reading, _ = best(lambda: anndata.read_h5ad(h5ad, backed="r"), scale.repeats)
    line("open", opening, "anndata, backed", reading)
    ours, found = best(with_daf, scale.repeats)
    backed, expected = best(with_backed, scale.repeats)
    assert abs(found - expected).sum() == 0
    line(f"open, filter, fetch {found.shape[0]:,} cells", ours, "anndata, backed", backed)
    memory, _ = best(with_memory, 1)
    line("the same", ours, "anndata, in memory", memory)


def sql(path: Path, parquet: Path, scale: Scale) -> None:
    """SQL over the cells, against the same engine over Parquet."""
    session = daf_query.connect(path)
    pq.write_table(session.table("cell").to_table(), parquet)
    other = datafusion.SessionContext()
    other.register_parquet("cell", parquet)
    queries = {
        "SQL: filter numbers": "SELECT count(*) FROM cell WHERE age > 60 AND score > 0.8",
        "SQL: filter strings": "SELECT count(*) FROM cell WHERE donor = 'N3'",
        "SQL: names of a filter": f"SELECT name FROM cell WHERE {FILTER}",
        "SQL: group by a string": "SELECT donor, avg(score) FROM cell GROUP BY donor",
    }
    for what, query in queries.items():
        ours, found = best(lambda query=query: session.sql(query).to_arrow_table(), scale.repeats)
        theirs, expected = best(
            lambda query=query: other.sql(query).to_arrow_table(), scale.repeats
        )
        assert found.num_rows == expected.num_rows
        line(what, ours, "DataFusion over Parquet", theirs)
    ours, _ = best(
        lambda: daf_query.connect(path).sql(queries["SQL: filter strings"]).to_pylist(),
        scale.repeats,
    )
    theirs, _ = best(lambda: other.sql(queries["SQL: filter strings"]).to_pylist(), scale.repeats)
    line("SQL: filter strings, first time", ours, "DataFusion over Parquet", theirs)


def slices(path: Path, scale: Scale) -> None:
    """Slices, against scipy on the whole matrix in memory."""
    session = daf_query.connect(path)
    random = np.random.default_rng(1)
    cells = np.sort(random.choice(scale.cells, scale.cells // 100, replace=False))
    genes = np.sort(random.choice(scale.genes, 20, replace=False))
    whole = session.matrix("cell", "gene", "X").to_scipy()
    for what, rows, columns in (
        (f"slice: {cells.size:,} scattered cells", cells, None),
        ("slice: 20 genes of all cells", None, genes),
        ("slice: 20 genes of those cells", cells, genes),
    ):
        ours, found = best(
            lambda rows=rows, columns=columns: session.matrix(
                "cell", "gene", "X", rows=rows, columns=columns
            ).to_scipy(),
            scale.repeats,
        )

        def in_memory(rows: Any = rows, columns: Any = columns) -> Any:
            part = whole if rows is None else whole[rows]
            return part if columns is None else part[:, columns]

        theirs, expected = best(in_memory, scale.repeats)
        assert abs(found - expected).sum() == 0
        line(what, ours, "scipy, matrix in memory", theirs)


def strings(path: Path, scale: Scale) -> None:
    """Decoding names, against the reference codec and zarr."""
    chunk = (path / "axes/cell/0").read_bytes()
    ours, found = best(lambda: decode_vlen_utf8(memoryview(chunk), what="axis"), scale.repeats)
    codec = numcodecs.VLenUTF8()
    theirs, expected = best(partial(codec.decode, chunk), scale.repeats)
    assert found.equals(pa.array(expected, pa.string()))
    line("decode the names of all cells", ours, "numcodecs", theirs)
    daf = daf_storage.open_daf(path)
    ours, vector = best(lambda: daf.get_np_vector("cell", "score").sum(), scale.repeats)
    array: Any = zarr.open_array(path / "vectors/cell/score", mode="r", zarr_format=2)
    theirs, other = best(lambda: array[:].sum(), scale.repeats)  # noqa: PLW0108 - reading is what is measured
    assert vector == other
    line("sum a vector", ours, "zarr", theirs)


if __name__ == "__main__":
    main()
