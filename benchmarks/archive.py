"""Measure archives against directories, plain writes and Python's zipfile, in one run.

    python benchmarks/archive.py            vectors of 32 MiB, a matrix of 20 million non-zeros
    python benchmarks/archive.py --small    the same steps on little data

A line has our time, the other's, and the ratio of the two.  Reads and slices alternate between
the two formats, and the best of many repetitions counts.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import daf_query
from daf_storage import DafWriter, ZarrDaf
from daf_storage.stores import MmapZipStore


def line(what: str, ours: float, other: str, theirs: float) -> None:
    """Print one comparison."""
    print(
        f"{what:44} {ours * 1000:10.1f} ms   {other:28} {theirs * 1000:10.1f} ms   {theirs / ours:7.2f} x"
    )


def alternate(tasks: list[Callable[[], Any]], repeats: int) -> list[float]:
    """Return the shortest time of each task; they take turns, so that they meet the same noise."""
    times: list[list[float]] = [[] for _ in tasks]
    for _ in range(repeats):
        for task, taken in zip(tasks, times, strict=True):
            started = time.perf_counter()
            task()
            taken.append(time.perf_counter() - started)
    return [min(taken) for taken in times]


def fill(path: Path, *, n_cells: int, n_genes: int, per_cell: int) -> None:
    """Write the same data set in either format."""
    random = np.random.default_rng(0)
    daf = ZarrDaf(path, "w")
    assert isinstance(daf, DafWriter)
    with daf, daf.batch():
        daf.add_axis("cell", [f"cell_{i}" for i in range(n_cells)])
        daf.add_axis("gene", [f"gene_{i}" for i in range(n_genes)])
        daf.set_vector("cell", "age", random.integers(20, 90, n_cells))
        daf.set_vector("cell", "score", random.random(n_cells))
        daf.set_vector("cell", "donor", random.choice(["N1", "N2", "N3"], n_cells))
        step = n_genes // per_cell
        indices = np.arange(per_cell) * step + random.integers(0, step, (n_cells, per_cell))
        values = np.ones(indices.size, np.float32)
        indptr = np.arange(n_cells + 1) * per_cell
        matrix = sp.csr_array((values, indices.ravel(), indptr), shape=(n_cells, n_genes))
        daf.set_matrix("cell", "gene", "X", matrix)


def reading(folder: Path, *, small: bool) -> None:
    """Vectors, SQL and slices: the archive against the directory."""
    size = {"n_cells": 2_000, "n_genes": 100, "per_cell": 10}
    if not small:
        size = {"n_cells": 200_000, "n_genes": 2_000, "per_cell": 100}
    paths = [folder / "x.daf.zarr.zip", folder / "x.daf.zarr"]
    for path in paths:
        fill(path, **size)
    random = np.random.default_rng(1)
    cells = np.sort(random.choice(size["n_cells"], size["n_cells"] // 100, replace=False))
    genes = np.sort(random.choice(size["n_genes"], 20, replace=False))
    dafs = [ZarrDaf(path) for path in paths]
    sessions = [daf_query.connect(path) for path in paths]
    query = "SELECT count(*) FROM cell WHERE age > 60 AND score > 0.8 AND donor = 'N3'"
    tasks: dict[str, Callable[[int], Any]] = {
        "open": lambda i: ZarrDaf(paths[i]).close(),
        "read and sum a vector": lambda i: dafs[i].get_np_vector("cell", "score").sum(),
        "SQL: filter": lambda i: sessions[i].sql(query).to_arrow_table(),
        f"slice: {cells.size:,} scattered cells": lambda i: (
            sessions[i].matrix("cell", "gene", "X", rows=cells).to_scipy()
        ),
        "slice: half of the cells": lambda i: (
            sessions[i].matrix("cell", "gene", "X", rows=np.arange(size["n_cells"] // 2)).to_scipy()
        ),
        "slice: 20 genes of all cells": lambda i: (
            sessions[i].matrix("cell", "gene", "X", columns=genes).to_scipy()
        ),
    }
    for what, task in tasks.items():
        ours, theirs = alternate(
            [lambda task=task: task(0), lambda task=task: task(1)], 2 if small else 30
        )
        line(f"archive: {what}", ours, "the same in a directory", theirs)


def many_entries(folder: Path, *, small: bool) -> None:
    """An archive of 10,000 entries: opening it, and adding to it."""
    count = 500 if small else 10_000
    path, other = folder / "many.zip", folder / "other.zip"
    with MmapZipStore(path, "w") as store:
        started = time.perf_counter()
        with store.batch():
            for i in range(count):
                store.append(f"vectors/cell/vector_{i}/0", bytes(100))
        batched = time.perf_counter() - started
    shutil.copy(path, other)
    started = time.perf_counter()
    with zipfile.ZipFile(folder / "written.zip", "w") as archive:
        for i in range(count):
            archive.writestr(f"vectors/cell/vector_{i}/0", bytes(100))
    line(f"write {count:,} entries, one commit", batched, "zipfile", time.perf_counter() - started)
    ours, theirs = alternate(
        [lambda: MmapZipStore(path).close(), lambda: zipfile.ZipFile(path).close()],
        2 if small else 10,
    )
    line(f"open an archive of {count:,} entries", ours, "zipfile", theirs)
    ours, _ = alternate(
        [lambda: MmapZipStore(path, "r+").close(), lambda: None], 2 if small else 10
    )
    line("the same, for writing", ours, "zipfile", theirs)
    store, number = MmapZipStore(path, "r+"), iter(range(1_000_000))
    data = bytes(1000)

    def add() -> None:
        store.append(f"new/{next(number)}", data)

    def add_with_zipfile() -> None:
        with zipfile.ZipFile(other, "a") as archive:
            archive.writestr(f"new/{next(number)}", data)

    ours, theirs = alternate([add, add_with_zipfile], 3 if small else 20)
    line(f"add to an archive of {count:,} entries", ours, "zipfile, opened to append", theirs)
    store.close()


def appending(folder: Path, *, small: bool) -> None:
    """Large vectors, one after the other, against plain writes of the same bytes."""
    length, count = (100_000, 2) if small else (4 << 20, 16)
    vectors = [np.random.default_rng(i).random(length) for i in range(count)]
    entries = [str(i) for i in range(length)]

    def with_archive() -> float:
        path = folder / "append.daf.zarr.zip"
        daf = ZarrDaf(path, "w")
        assert isinstance(daf, DafWriter)
        daf.add_axis("cell", entries)
        started = time.perf_counter()
        for i, vector in enumerate(vectors):
            daf.set_vector("cell", f"v{i}", vector)
        taken = time.perf_counter() - started
        daf.close()
        path.unlink()
        return taken

    def filled_in_place() -> float:
        path = folder / "fill.daf.zarr.zip"
        daf = ZarrDaf(path, "w")
        assert isinstance(daf, DafWriter)
        daf.add_axis("cell", entries)
        started = time.perf_counter()
        for i, vector in enumerate(vectors):
            with daf.empty_dense_vector("cell", f"v{i}", "f8") as values:
                values[:] = vector
        taken = time.perf_counter() - started
        daf.close()
        path.unlink()
        return taken

    def with_write() -> float:
        path = folder / "plain"
        started = time.perf_counter()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        for vector in vectors:
            view = vector.data.cast("B")
            while view:
                view = view[os.write(descriptor, view) :]
        os.close(descriptor)
        taken = time.perf_counter() - started
        path.unlink()
        return taken

    repeats = 1 if small else 5
    times = [(with_archive(), filled_in_place(), with_write()) for _ in range(repeats)]
    ours, filled, theirs = (min(column) for column in zip(*times, strict=True))
    size = count * length * 8 / (1 << 20)
    line(f"append {count} vectors, {size:,.0f} MiB", ours, "write() of the same bytes", theirs)
    line("the same, filled in place", filled, "write() of the same bytes", theirs)


def main() -> None:
    """Run all comparisons."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="little data, to see that it works")
    small = parser.parse_args().small
    print(f"{'task':44} {'daf-query':>13}   {'compared with':39}   {'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        reading(Path(folder), small=small)
        many_entries(Path(folder), small=small)
        appending(Path(folder), small=small)


if __name__ == "__main__":
    main()
