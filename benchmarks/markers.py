"""Markers and totals beside scanpy: seconds and memory, each in a process of its own.

    python -m benchmarks.markers FOLDER [--cells 200000 | --pbmc]

The data set, or the 700 blood cells that scanpy ships, is made in the folder if it is not there. Seconds are those from the file to the result,
by the clock and of all cores; memory is the peak of the process, pages of mapped files among it.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sp

import daf_query
import daf_storage
from daf_query.demo import find_pbmc

GENES: Final = 20_000
ELEMENTS_PER_CELL: Final = 100
GROUPS: Final = 20
LIMIT_SECONDS: Final = 1200


def write_data(folder: Path, cells: int) -> None:
    """Write logarithms of counts, those of the blood cells if there are to be no others."""
    if not cells:
        adata = anndata.read_h5ad(find_pbmc()).raw.to_adata()
        adata.obs["type"] = adata.obs["bulk_labels"]
        adata.var["mito"] = adata.var_names.str.startswith("RPL")
        write(folder, anndata.AnnData(adata.X, adata.obs[["type"]], adata.var[["mito"]]))
        return
    rng = np.random.default_rng(1)
    rows = np.repeat(np.arange(cells), ELEMENTS_PER_CELL)
    values = np.log1p(rng.poisson(2.0, rows.size) + 1).astype(np.float32)
    columns = (GENES * rng.random(rows.size) ** 2).astype(np.int32)
    counts = sp.csr_matrix((values, (rows, columns)), shape=(cells, GENES))
    types = pd.Categorical.from_codes(
        rng.integers(0, GROUPS, cells), [f"t{n}" for n in range(GROUPS)]
    )
    obs = pd.DataFrame({"type": types}, index=[f"c{n}" for n in range(cells)])
    var = pd.DataFrame({"mito": np.arange(GENES) < 13}, index=[f"g{n}" for n in range(GENES)])
    write(folder, anndata.AnnData(counts, obs, var))


def write(folder: Path, adata: anndata.AnnData) -> None:
    """Write an h5ad, and import it."""
    adata.write_h5ad(folder / "x.h5ad")
    daf_storage.import_h5ad(folder / "x.h5ad", folder / "x.daf.zarr", progress="never")


def _daf(folder: Path, method: Any = None) -> int:
    db = daf_query.connect(folder / "x.daf.zarr")
    if method is None:
        options: Any = {"progress": "never"}
        every = db.totals("obs", "var", "X", **options)
        return every.count() + db.totals("obs", "var", "X", columns="mito", **options).count()
    return db.markers("obs", "var", "X", by="type", method=method, progress="never").count()


def _scanpy(folder: Path, method: Any = None) -> int:
    import scanpy

    adata = anndata.read_h5ad(folder / "x.h5ad")
    if method is None:
        scanpy.pp.calculate_qc_metrics(
            adata, qc_vars=["mito"], percent_top=None, log1p=False, inplace=True
        )
        return 2 * len(adata.obs["pct_counts_mito"])
    adata.uns["log1p"] = {"base": None}
    scanpy.tl.rank_genes_groups(adata, "type", method=method, use_raw=False)
    return sum(map(len, adata.uns["rank_genes_groups"]["names"]))


WORKS: Final[dict[str, Callable[[Path], int]]] = {
    "markers, t-test: daf": lambda folder: _daf(folder, "t-test"),
    "markers, t-test: scanpy": lambda folder: _scanpy(folder, "t-test"),
    "markers, Wilcoxon: daf": lambda folder: _daf(folder, "wilcoxon"),
    "markers, Wilcoxon: scanpy": lambda folder: _scanpy(folder, "wilcoxon"),
    "totals: daf": _daf,
    "totals: scanpy": _scanpy,
}


def measured(folder: Path, work: str) -> str:
    """Return the seconds and the memory of a work, which a process of its own does."""
    call = [sys.executable, "-m", "benchmarks.markers", str(folder), "--work", work]
    try:
        done = subprocess.run(call, check=True, capture_output=True, timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        return f"over {LIMIT_SECONDS} s"
    return done.stdout.decode().strip()


def main() -> None:
    """Print a line for each work, or do one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cells", type=int, default=200_000)
    parser.add_argument("--pbmc", dest="cells", action="store_const", const=0)
    parser.add_argument("--work", choices=WORKS)
    options = parser.parse_args()
    if options.work is None:
        if not (options.folder / "x.daf.zarr").exists():
            write_data(options.folder, options.cells)
        for work in WORKS:
            print(f"{work:28} {measured(options.folder, work)}", flush=True)
        return
    if options.work.endswith("scanpy"):
        import scanpy  # noqa: F401 - the seconds are those of the work
    started, begun = time.perf_counter(), time.process_time()
    WORKS[options.work](options.folder)
    seconds, processor = time.perf_counter() - started, time.process_time() - begun
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{seconds:.1f} s, {processor:.2f} s of the processor, {peak_bytes / 1e9:.1f} GB")


if __name__ == "__main__":
    main()
