"""Measure questions about a folder of runs beside anndata: a slice, a profile, and one file of all.

    python benchmarks/many_files.py                   20 files of 50,000 cells, 10 million non-zeros each
    python benchmarks/many_files.py --files 5 --cells 20000
    python benchmarks/many_files.py --form h5ad       ours on the h5ad files in place, too
    python benchmarks/many_files.py --small           all of it on little data, to see that it works

Each file has 2,400 of 3,000 genes, others in each, in an order of its own. The data come from a seeded generator and are
written once into a scratch folder (--folder): h5ad files, uncompressed, and of each a data set in both layouts.

Every task runs in a process of its own, which prints its seconds, the most memory that it had of its own (RssAnon: what is
mapped is the file's), and figures of its answer; a task counts if the figures of all ways agree.
It is not called collections.py, because a script's folder comes first where Python looks for its own collections.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sp
from own_memory import OwnMemory

import daf_query
import daf_storage

ALL_GENES: Final = 3_000
SHARE: Final = 0.8
TYPES: Final = 12
SLICE: Final = 2_000
"""How many cells of all files the slice has, about."""
GIGABYTE: Final = 1e9


@dataclass(frozen=True)
class Size:
    """How much data there is."""

    files: int
    cells: int
    elements: int
    """Non-zeros of a cell."""

    @property
    def folder(self) -> str:
        """A name for the folder of the data."""
        return f"runs-{self.files}x{self.cells}x{self.elements}"


def genes_of(number: int) -> list[str]:
    """Return the genes of a file, in its order."""
    chosen = np.random.default_rng(number).permutation(ALL_GENES)[: int(ALL_GENES * SHARE)]
    return [f"gene{gene:05}" for gene in chosen]


def run_of(number: int, size: Size) -> anndata.AnnData:
    """Return the data of a file."""
    rng = np.random.default_rng([7, number])
    genes = genes_of(number)
    counts = np.full(size.cells, size.elements)
    indices = rng.integers(0, len(genes), int(counts.sum()), dtype=np.int32)
    data = rng.integers(1, 9, indices.size).astype(np.float32)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    matrix = sp.csr_matrix((data, indices, indptr), (size.cells, len(genes)))
    matrix.sum_duplicates()
    obs = pd.DataFrame(
        {
            "draw": rng.random(size.cells),
            "type": pd.Categorical([f"T{each:02}" for each in rng.integers(0, TYPES, size.cells)]),
        },
        index=[f"run{number:02}-cell{cell:06}" for cell in range(size.cells)],
    )
    return anndata.AnnData(matrix, obs, pd.DataFrame(index=genes))


def prepared(folder: Path, size: Size) -> Path:
    """Write the files that are not there yet; return their folder."""
    target = folder / size.folder
    target.mkdir(parents=True, exist_ok=True)
    for number in range(size.files):
        h5ad, daf = (target / f"run{number:02}{suffix}" for suffix in (".h5ad", ".daf.zarr"))
        if not h5ad.exists():
            part = h5ad.with_suffix(".part")
            run_of(number, size).write_h5ad(part)
            part.rename(h5ad)
        if not daf.exists():
            daf_storage.import_h5ad(h5ad, daf, progress="never")
    return target


# Ours, and the others'.  Each returns figures of its answer.


def figures_of(matrix: Any, names: Any) -> list[float]:
    """Return figures of a matrix that depend neither on the order of rows nor of columns."""
    weights = np.array([int(name[4:]) + 1.0 for name in names])
    sums = np.asarray(matrix.sum(axis=0), np.float64).reshape(-1)
    return [*map(float, matrix.shape), float(sums.sum()), float(weights @ sums)]


def threshold(folder: Path) -> float:
    """Return below which draw a cell is in the slice."""
    size = json.loads((folder / "size.json").read_text())
    return SLICE / (size["files"] * size["cells"])


def slice_ours(folder: Path, suffix: str) -> list[float]:
    """Slice the folder, all genes of any file."""
    db = daf_query.connect(f"{folder}/*{suffix}")
    rows = f"draw < {threshold(folder)!r}"
    adata = db.matrix("obs", "var", "X", rows=rows, join="outer").to_anndata()
    return figures_of(adata.X, adata.var_names)


def slice_backed(folder: Path, _: str) -> list[float]:
    """Open each file backed, take its cells, and concatenate these."""
    parts = []
    for path in sorted(folder.glob("*.h5ad")):
        backed = anndata.read_h5ad(path, backed="r")
        parts.append(backed[backed.obs["draw"] < threshold(folder)].to_memory())
        backed.file.close()
    adata = anndata.concat(parts, join="outer")
    return figures_of(adata.X, adata.var_names)


def slice_whole(folder: Path, _: str) -> list[float]:
    """Read all files, concatenate them, and take the cells."""
    adata = whole(folder)
    adata = adata[adata.obs["draw"] < threshold(folder)]
    return figures_of(adata.X, adata.var_names)


def whole(folder: Path) -> anndata.AnnData:
    """Return all files as one AnnData."""
    return anndata.concat(
        [anndata.read_h5ad(p) for p in sorted(folder.glob("*.h5ad"))], join="outer"
    )


def profile_ours(folder: Path, suffix: str) -> list[float]:
    """Profile all cells by their type, zero where a file lacks a gene."""
    db = daf_query.connect(f"{folder}/*{suffix}")
    made = db.profile("obs", "var", "X", by="type", fill_value=0, progress="never")
    return profile_figures(made.statistic("mean"), made.statistic("variance"))


def profile_figures(mean: Any, variance: Any) -> list[float]:
    """Return figures of means and variances, rounded as both compute them in another order."""
    return [*map(float, mean.shape), *(float(f"{each.sum():.6g}") for each in (mean, variance))]


def profile_whole(folder: Path, _: str) -> list[float]:
    """Read and concatenate all files; sums and squares of each type by a product with indicators."""
    adata = whole(folder)
    codes = adata.obs["type"].astype("category").cat.codes.to_numpy()
    ones = np.ones(codes.size)
    indicator = sp.csr_matrix((ones, (codes, np.arange(codes.size))))
    n = np.bincount(codes)[:, np.newaxis]
    values = adata.X.astype(np.float64)
    mean = (indicator @ values).toarray() / n
    values.data **= 2
    squares = (indicator @ values).toarray()
    return profile_figures(mean, (squares - n * mean**2) / (n - 1))


# One file of all: each writes it, and returns what reads its figures, which is not measured.

Figures = Callable[[], list[float]]


def one_file_ours(folder: Path, suffix: str) -> Figures:
    """Write a data set of all, in both layouts."""
    path = Path(scratch_of(folder), "all.daf.zarr")
    sources = sorted(folder.glob(f"*{suffix}"))
    daf_storage.concatenate(path, "obs", sources, join="outer", progress="never")
    return lambda: figures_of_daf(path)


def one_file_one_layout(folder: Path, suffix: str) -> Figures:
    """Write a data set of all, by cells alone, as the others do."""
    path = Path(scratch_of(folder), "all.daf.zarr")
    sources = sorted(folder.glob(f"*{suffix}"))
    daf_storage.concatenate(path, "obs", sources, join="outer", relayout=False, progress="never")
    return lambda: figures_of_daf(path)


def figures_of_daf(path: Path) -> list[float]:
    """Return figures of the matrix of a data set."""
    daf = daf_storage.open_daf(path)
    return figures_of(daf.get_np_matrix("obs", "var", "X"), daf.axis_entries("var"))


def figures_of_h5ad(path: Path) -> list[float]:
    """Return figures of the matrix of an h5ad file."""
    adata = anndata.read_h5ad(path)
    return figures_of(adata.X, adata.var_names)


def one_file_saved(folder: Path, suffix: str) -> Figures:
    """Save the slice of everything as an h5ad, in blocks."""
    path = Path(scratch_of(folder), "all.h5ad")
    daf_query.connect(f"{folder}/*{suffix}").matrix("obs", "var", "X", join="outer").save(path)
    return lambda: figures_of_h5ad(path)


def one_file_concat(folder: Path, _: str) -> Figures:
    """Concatenate in memory and write that."""
    path = Path(scratch_of(folder), "all.h5ad")
    whole(folder).write_h5ad(path)
    return lambda: figures_of_h5ad(path)


def one_file_on_disk(folder: Path, _: str) -> Figures:
    """Concatenate on disk."""
    path = Path(scratch_of(folder), "all.h5ad")
    anndata.experimental.concat_on_disk(sorted(folder.glob("*.h5ad")), path, join="outer")
    return lambda: figures_of_h5ad(path)


def scratch_of(folder: Path) -> Path:
    """Return an empty folder for what a process writes."""
    return Path(tempfile.mkdtemp(dir=folder, prefix="written-"))


TASKS: Final[dict[str, list[Callable[[Path, str], list[float] | Figures]]]] = {
    f"slice of about {SLICE:,} cells, to AnnData": [slice_ours, slice_backed, slice_whole],
    f"profile of all cells by {TYPES} types": [profile_ours, profile_whole],
    "one file of all": [
        one_file_ours,
        one_file_one_layout,
        one_file_saved,
        one_file_concat,
        one_file_on_disk,
    ],
}


def warm_up() -> None:
    """Have all libraries imported: what is measured is the work."""
    daf: Any = daf_storage.MemoryDaf(name="warm")
    daf.add_axis("obs", ["a"])
    daf.add_axis("var", ["b"])
    daf.set_matrix("obs", "var", "X", sp.csc_array([[1.0]]))
    db = daf_query.connect([daf])
    db.matrix("obs", "var", "X", rows="name = 'a'").to_anndata()
    db.profile("obs", "var", "X", by="name", progress="never")


def child(name: str, folder: Path, suffix: str) -> None:
    """Do one task in this process and print what it took."""
    warnings.simplefilter("ignore")
    warm_up()
    with OwnMemory() as memory:
        started = time.perf_counter()
        answer = globals()[name](folder, suffix)
        seconds = time.perf_counter() - started
    answer = answer() if callable(answer) else answer
    for written in folder.glob("written-*"):
        shutil.rmtree(written)
    print(json.dumps({"answer": answer, "seconds": seconds, "own": memory.most}))


def measured(task: Callable[..., Any], folder: Path, suffix: str) -> dict[str, Any]:
    """Do a task in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--child", task.__name__]
    done = subprocess.run(
        [*command, str(folder), suffix], check=True, stdout=subprocess.PIPE, cwd=folder
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def ways_of(tasks: list[Callable[..., Any]], forms: list[str]) -> list[tuple[Any, str, str]]:
    """Return each way of doing a task: the function, the files that it reads, and its name."""
    ways = []
    for task in tasks:
        is_ours = task.__name__.endswith(("_ours", "_saved", "_layout"))
        for suffix in forms if is_ours else [".h5ad"]:
            label = task.__name__ if not is_ours else f"{task.__name__} ({suffix})"
            ways.append((task, suffix, label))
    return ways


def main() -> None:
    """Make the data, run every task in every way, and print a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--cells", type=int, default=50_000)
    parser.add_argument("--elements", type=int, default=200, help="non-zeros of a cell")
    parser.add_argument("--form", choices=("daf", "h5ad", "both"), default="both")
    parser.add_argument("--small", action="store_true", help="all of it on little data")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir(), "daf-many-files")
    )
    parser.add_argument(
        "--child", nargs=3, metavar=("TASK", "FOLDER", "SUFFIX"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.child:
        child(options.child[0], Path(options.child[1]), options.child[2])
        return
    size = Size(options.files, options.cells, options.elements)
    if options.small:
        size = Size(3, 300, 20)
    folder = prepared(options.folder, size)
    (folder / "size.json").write_text(json.dumps({"files": size.files, "cells": size.cells}))
    forms = {"daf": [".daf.zarr"], "h5ad": [".h5ad"], "both": [".daf.zarr", ".h5ad"]}[options.form]
    total = size.files * size.cells
    print(f"{size.files} files, {total:,} cells, {total * size.elements:,} non-zeros")
    for title, tasks in TASKS.items():
        print(title)
        first: list[float] | None = None
        for task, suffix, label in ways_of(tasks, forms):
            got = measured(task, folder, suffix)
            first = first or got["answer"]
            assert np.allclose(first, got["answer"], rtol=1e-4), f"{label}: {first} {got['answer']}"
            print(f"  {label:34} {got['seconds']:9.2f} s {got['own'] / GIGABYTE:8.2f} GB")


if __name__ == "__main__":
    main()
