"""Measure an AnnData in place beside anndata backed, its `read_lazy` and DuckDB, in one run.

    python benchmarks/attach.py             200,000 cells x 2,000 genes, then 50,000 x 25,000 with 62 million non-zeros
    python benchmarks/attach.py --scale 0.1 a tenth of the cells and of the genes
    python benchmarks/attach.py --small     all of it on little data, to see that it works

`read_lazy` needs two libraries that the product does not: `pip install --group benchmarks`. Without them its lines are left out.
DuckDB reads neither h5ad nor Zarr by itself, and the extensions of its community that do are in no package registry; a line says what it
answers here. It takes part with SQL over the obs that anndata has read.

The data come from a seeded generator. They are written once, by anndata, into a scratch folder (--folder), and are used again by
later runs. Every answer is compared with ours before a time counts. Each line is a task, our time, the other's, and the
ratio; the best of several repetitions counts. The files are in the page cache. "first" is in a new session: it knows the
columns of obs, and has decoded nothing yet; "again" is in one that has answered the same before. To attach is to open, and to list the columns; what begins with "open" includes opening.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anndata
import duckdb
import numpy as np
import scipy.sparse as sp
from attach_data import FULL, SMALL, Data, prepared
from matrix_data import Scale

import daf_query

warnings.filterwarnings("ignore")

TARGETS = {
    "plain h5ad": ("backed", 10.0),
    "gzip h5ad": ("backed", 2.0),
    "sharded Zarr": ("read_lazy", 3.0),
}
"""How many times faster than what else a filter and its slice are to be."""
ATTACH_MS = 30.0
"""In how many milliseconds an h5ad is to be attached."""


# The sides.


class Ours:
    """A session over a file, or over what it was converted to."""

    def __init__(self, path: Path, data: Data) -> None:
        self._data = data
        self._where = f"\"type\" = 'T3' AND score < {data.limit}"
        self._db = daf_query.connect(path)

    def attach(self) -> tuple[int, int]:
        """Return how many cells and columns there are."""
        [row] = self._db.sql("SELECT count(*) AS n FROM obs").to_pylist()
        names = self._db.table("obs").schema.names
        return row["n"], sum(name.startswith("column_") for name in names)

    def filter(self) -> int:
        """Return how many cells the filter leaves."""
        [row] = self._db.sql(f"SELECT count(*) AS n FROM obs WHERE {self._where}").to_pylist()
        return int(row["n"])

    def slice(self) -> Any:
        """Return all genes of the cells that the filter leaves."""
        return self._db.matrix("obs", "var", "X", rows=self._where).to_scipy()

    def slice_genes(self) -> Any:
        """Return some genes of the cells that the filter leaves."""
        genes = self._data.genes
        return self._db.matrix("obs", "var", "X", rows=self._where, columns=genes).to_scipy()

    def gene(self) -> Any:
        """Return a gene of all cells."""
        gene = self._data.genes[:1]
        return self._db.matrix("obs", "var", "X", columns=gene).to_numpy().ravel()

    def close(self) -> None:
        """Close the session."""
        self._db.close()


class Backed:
    """An h5ad file that anndata leaves on the disk."""

    name = "backed"

    def __init__(self, path: Path, data: Data) -> None:
        self._data = data
        self._adata = anndata.read_h5ad(path, backed="r")

    def _kept(self) -> Any:
        obs = self._adata.obs
        return ((obs["type"] == "T3") & (obs["score"] < self._data.limit)).to_numpy()

    def attach(self) -> tuple[int, int]:
        """Return how many cells and columns there are."""
        columns = self._adata.obs.dtypes.index
        return self._adata.n_obs, sum(name.startswith("column_") for name in columns)

    def filter(self) -> int:
        """Return how many cells the filter leaves."""
        return int(self._kept().sum())

    def slice(self) -> Any:
        """Return all genes of the cells that the filter leaves."""
        return self._adata[self._kept()].to_memory().X

    def slice_genes(self) -> Any:
        """Return some genes of the cells that the filter leaves."""
        return self._adata[self._kept(), self._data.genes].to_memory().X

    def gene(self) -> Any:
        """Return a gene of all cells."""
        return self._adata[:, self._data.genes[:1]].to_memory().X.toarray().ravel()

    def close(self) -> None:
        """Close the file."""
        self._adata.file.close()


class Lazy:
    """A file that anndata reads by need, with xarray and dask."""

    name = "read_lazy"

    def __init__(self, path: Path, data: Data) -> None:
        from anndata.experimental import read_lazy

        self._data = data
        self._adata = read_lazy(path)

    def _kept(self) -> Any:
        obs = self._adata.obs
        is_type = np.asarray(obs["type"] == "T3")
        return is_type & np.asarray(obs["score"] < self._data.limit)

    def attach(self) -> tuple[int, int]:
        """Return how many cells and columns there are."""
        return self._adata.n_obs, sum(
            name.startswith("column_") for name in self._adata.obs.columns
        )

    def filter(self) -> int:
        """Return how many cells the filter leaves."""
        return int(self._kept().sum())

    def slice(self) -> Any:
        """Return all genes of the cells that the filter leaves."""
        return self._adata[self._kept()].X.compute()

    def slice_genes(self) -> Any:
        """Return some genes of the cells that the filter leaves."""
        return self._adata[self._kept(), self._data.genes].X.compute()

    def gene(self) -> Any:
        """Return a gene of all cells."""
        return self._adata[:, self._data.genes[:1]].X.compute().toarray().ravel()

    def close(self) -> None:
        """Close the file, if it is one."""
        if self._adata.file is not None:
            self._adata.file.close()


class Duck(Backed):
    """DuckDB over the obs that anndata has read."""

    name = "DuckDB over backed obs"

    def filter(self) -> int:
        """Return how many cells the filter leaves."""
        connection = duckdb.connect()
        connection.register("obs", self._adata.obs[["type", "score"]])
        where = f"type = 'T3' AND score < {self._data.limit}"
        [row] = connection.sql(f"SELECT count(*) FROM obs WHERE {where}").fetchall()
        return int(row[0])


def duckdb_reads(path: Path) -> str:
    """Return what DuckDB says to a file."""
    extension = "anndata" if path.is_file() else "zarr"
    try:
        duckdb.connect().execute(f"LOAD {extension}")
    except duckdb.Error as error:
        return f"DuckDB does not read {path.name} here: {str(error).splitlines()[0][:100]}"
    return f"DuckDB has an extension for {path.name}, {extension}: not measured"


@dataclass(frozen=True)
class Task:
    """Something that each side is asked to do."""

    label: str
    """What it is called."""
    method: str
    """The method that does it."""
    is_opened: bool = True
    """Whether the file was opened, and its columns listed, before the clock starts."""
    has_target: bool = False
    """Whether it is to be a certain number of times faster."""


TASKS = (
    Task("attach, count, schema of 100 columns", "attach", is_opened=False),
    Task("SQL filter of obs", "filter"),
    Task("open, filter, slice of 50 genes", "slice_genes", is_opened=False, has_target=True),
    Task("filter, slice of 50 genes", "slice_genes", has_target=True),
    Task("open, filter, slice of all genes", "slice", is_opened=False, has_target=True),
    Task("filter, slice of all genes", "slice", has_target=True),
    Task("one gene of all cells", "gene"),
)


# How it is measured.


@dataclass
class Measured:
    """The times of one scale, and what is said about them at the end."""

    data: Data
    verdicts: list[str] = field(default_factory=list)

    def form(self, form: str, path: Path, others: list[tuple[Any, Path]]) -> None:
        """Measure a form beside other ways to read it."""
        print(f"\n{form}")
        for task in TASKS:
            first, found = self._first(Ours, path, task)
            again = self._again(Ours, path, task)
            print(f"  {task.label:38} first {first * 1000:9.1f} ms   again {again * 1000:9.1f} ms")
            if task.method == "attach" and path.suffix == ".h5ad":
                self._say(
                    f"{form}: attach in {first * 1000:.1f} ms",
                    is_met=first * 1000 < ATTACH_MS,
                    wanted=f"{ATTACH_MS:.0f} ms",
                )
            for other, place in others:
                if other is Duck and task.method != "filter":
                    continue
                theirs, expected = self._first(other, place, task)
                assert_same(found, expected, task.label)
                ratio = theirs / first
                print(f"    {other.name:36} first {theirs * 1000:9.1f} ms         {ratio:9.1f} x")
                self._judge(form, task, other.name, ratio)

    def _judge(self, form: str, task: Task, other: str, ratio: float) -> None:
        wanted, least = TARGETS.get(form, ("", 0.0))
        if task.has_target and other == wanted:
            what = f"{form}: {task.label} {ratio:.1f} x {other}"
            self._say(what, is_met=ratio >= least, wanted=f"{least:.0f} x")

    def _say(self, what: str, *, is_met: bool, wanted: str) -> None:
        self.verdicts.append(f"{'met ' if is_met else 'NOT '} {what} (target {wanted})")

    def _first(self, side: Any, path: Path, task: Task) -> tuple[float, Any]:
        """Return the shortest time of a task in new sessions, and its answer."""
        times, result = [], None
        for _ in self._repetitions(task):
            started = time.perf_counter()
            opened = side(path, self.data)
            if task.is_opened:
                opened.attach()
                started = time.perf_counter()
            result = getattr(opened, task.method)()
            times.append(time.perf_counter() - started)
            opened.close()
        return min(times), result

    def _again(self, side: Any, path: Path, task: Task) -> float:
        """Return the shortest time of a task in a session that has answered it before."""
        opened = side(path, self.data)
        getattr(opened, task.method)()
        times = []
        for _ in self._repetitions(task):
            started = time.perf_counter()
            getattr(opened, task.method)()
            times.append(time.perf_counter() - started)
        opened.close()
        return min(times)

    def _repetitions(self, task: Task) -> Iterator[int]:
        """Yield at most so many numbers, and none after half a minute."""
        started = time.perf_counter()
        for number in range(self.data.scale.repeats if task.method != "gene" else 2):
            if number and time.perf_counter() - started > 30:
                return
            yield number


def assert_same(found: Any, expected: Any, what: str) -> None:
    """Compare two answers."""
    if sp.issparse(expected):
        assert found.shape == expected.shape, what
        assert abs(sp.csr_array(found) - sp.csr_array(expected)).sum() == 0, what
        return
    assert np.array_equal(found, expected), what


def run(scratch: Path, scale: Scale) -> list[str]:
    """Make the data and measure; return which targets are met."""
    data = prepared(scratch, scale)
    measured = Measured(data)
    lazy: list[Callable[..., Any]] = [Lazy] if _has_lazy() else []
    print(
        f"{scale.cells:,} cells x {scale.genes:,} genes, {scale.cells * scale.per_cell:,} non-zeros"
    )
    for form, path in (("plain h5ad", data.h5ad), ("gzip h5ad", data.gzip)):
        measured.form(form, path, [(side, path) for side in [Backed, Duck, *lazy]])
    measured.form("sharded Zarr", data.zarr, [(side, data.zarr) for side in lazy])
    measured.form("converted to Daf", data.daf, [(Backed, data.h5ad)])
    print()
    for path in (data.h5ad, data.zarr):
        print(duckdb_reads(path))
    return measured.verdicts


def _has_lazy() -> bool:
    has = all(importlib.util.find_spec(name) for name in ("xarray", "dask"))
    if not has:
        print(
            "read_lazy is left out: xarray and dask are not installed (pip install --group benchmarks)"
        )
    return has


def main() -> None:
    """Measure all scales."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="little data, to see that it works")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="so many times the cells and genes"
    )
    parser.add_argument("--folder", type=Path, help="where the data are kept for the next run")
    options = parser.parse_args()
    scales = SMALL if options.small else [_scaled(scale, options.scale) for scale in FULL]
    verdicts: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        for scale in scales:
            verdicts += run(options.folder or Path(temporary), scale)
    print("\ntargets")
    print("\n".join(verdicts))


def _scaled(scale: Scale, factor: float) -> Scale:
    if factor == 1:
        return scale
    return Scale(
        int(scale.cells * factor), int(scale.genes * factor), max(int(scale.per_cell * factor), 20)
    )


if __name__ == "__main__":
    main()
