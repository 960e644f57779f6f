"""Measure questions about a matrix beside anndata, scanpy, DuckDB and bare numpy, in one run.

    python benchmarks/matrix.py             50,000 cells x 25,000 genes, 62 million non-zeros
    python benchmarks/matrix.py --scale 0.1 a tenth of the cells and of the genes
    python benchmarks/matrix.py --memory    peak memory of a slice and of a profile, each in a process of its own
    python benchmarks/matrix.py --small     all of it on little data, to see that it works

The data come from a seeded generator. They are written once, block by block, into a scratch folder (--folder), and are used
again by later runs: an h5ad file, the data set that is imported from it (both layouts), and a long Parquet file.
Every answer is compared with ours before a time counts. Each line is a task, our time, the other's, and the
ratio; the best of several repetitions counts, of those that read a whole file one. All are warm.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anndata
import duckdb
import matrix_memory
import numpy as np
import pandas as pd
import scanpy
import scipy.sparse as sp
from matrix_data import SMALL, TYPES, Data, Scale, prepared

import daf_query
import daf_storage

warnings.filterwarnings("ignore", module="anndata|scanpy")


# What is compared.


class Numpy:
    """Bare numpy on the mapped files of the data set, the positions of genes known already."""

    def __init__(self, data: Data) -> None:
        self.cells = data.scale.cells
        by_gene = data.daf / "matrices" / "cell" / "gene" / "X"
        reader = daf_storage.open_daf(str(data.daf))
        parts = reader.get_sparse_matrix("cell", "gene", "X")
        self.colptr = parts.colptr.astype(np.int64) - 1
        self.rowval = np.memmap(by_gene / "rowval" / "0", parts.rowval.dtype, "r")
        self.nzval = np.memmap(by_gene / "nzval" / "0", np.float32, "r")
        self.age = reader.get_np_vector("cell", "age")

    def gene(self, position: int) -> Any:
        """Return a gene in all cells."""
        start, stop = self.colptr[position : position + 2]
        column = np.zeros(self.cells, np.float32)
        column[self.rowval[start:stop] - 1] = self.nzval[start:stop]
        return column

    def count(self, position: int) -> int:
        """Return how many cells older than 60 have more than 1 of a gene."""
        return int(np.count_nonzero((self.gene(position) > 1) & (self.age > 60)))

    def one_pass(self) -> float:
        """Touch every byte of a layout once."""
        return float(self.rowval.sum(dtype=np.int64)) + float(self.nzval.sum(dtype=np.float64))


class Duck:
    """DuckDB over the long Parquet file."""

    def __init__(self, data: Data) -> None:
        self.scale = data.scale
        self.connection = duckdb.connect()
        for name, path in (("cell", data.cells), ("long", data.long)):
            self.connection.sql(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{path}')")

    def gene(self, gene: str) -> Any:
        """Return a gene in all cells."""
        found = self.connection.sql(
            f"""SELECT "index", value FROM long JOIN cell ON cell.name = long.cell
            WHERE gene = '{gene}'"""
        ).fetchnumpy()
        column = np.zeros(self.scale.cells, np.float32)
        column[found["index"]] = found["value"]
        return column

    def count(self, gene: str) -> int:
        """Return how many cells older than 60 have more than 1 of a gene."""
        [row] = self.connection.sql(
            f"""SELECT count(*) FROM long JOIN cell ON cell.name = long.cell
            WHERE gene = '{gene}' AND value > 1 AND age > 60"""
        ).fetchall()
        return int(row[0])

    def part(self, cells: Any, genes: Any) -> Any:
        """Return some cells and genes, as CSR."""
        rows = pd.DataFrame({"name": [f"cell_{n}" for n in cells], "row_number": range(cells.size)})
        columns = pd.DataFrame(
            {"name": [f"gene_{n}" for n in genes], "column_number": range(genes.size)}
        )
        self.connection.register("rows", rows)
        self.connection.register("columns", columns)
        found = self.connection.sql(
            """SELECT row_number, column_number, value FROM long
            JOIN rows ON rows.name = long.cell JOIN columns ON columns.name = long.gene"""
        ).fetchnumpy()
        places = (found["row_number"], found["column_number"])
        return sp.csr_array((found["value"], places), shape=(cells.size, genes.size))

    def profile(self) -> Any:
        """Return the sums of each type and gene, those that are not zero."""
        found = self.connection.sql(
            """SELECT type, gene, count(*) AS nonzero, sum(value) AS sum, min(value), max(value),
            sum(value * value) FROM long JOIN cell ON cell.name = long.cell GROUP BY ALL"""
        ).fetchnumpy()
        sums = np.zeros((TYPES, self.scale.genes))
        types = [int(name[1:]) for name in found["type"]]
        genes = [int(name[5:]) for name in found["gene"]]
        sums[types, genes] = found["sum"]
        return sums


def backed_part(path: Path, cells: Any, genes: Any) -> Any:
    """Return some cells and genes out of an h5ad file that is not loaded."""
    return sp.csr_array(anndata.read_h5ad(path, backed="r")[cells, genes].to_memory().X)


def profile_sums(profile: Any, scale: Scale) -> Any:
    """Return the sums of a profile by type and gene."""
    return profile.to_arrow_table().column("sum").to_numpy().reshape(TYPES, scale.genes)


# How it is measured.


@dataclass
class Wheel:
    """Runs tasks, prints a line for each comparison, and keeps the ratios that have a target."""

    repeats: int
    verdicts: list[str]

    def best(self, task: Callable[[], Any], repeats: int | None = None) -> tuple[float, Any]:
        """Return the shortest time in seconds, and the last answer."""
        spent, answer = [], None
        for _ in range(repeats or self.repeats):
            started = time.perf_counter()
            answer = task()
            spent.append(time.perf_counter() - started)
        return min(spent), answer

    def line(self, what: str, ours: float, other: str, theirs: float) -> None:
        """Print one comparison."""
        print(
            f"{what:34} {ours * 1000:10.2f} ms   {other:26} {theirs * 1000:10.2f} ms   "
            f"{theirs / ours:8.2f} x"
        )

    def target(
        self, what: str, ratio: float, *, least: float | None = None, most: float | None = None
    ) -> None:
        """Keep whether a ratio is as it should be."""
        wanted = f"at least {least:g}" if least is not None else f"at most {most:g}"
        is_met = ratio >= least if least is not None else ratio <= (most or 0)
        self.verdicts.append(
            f"{what:58} {ratio:8.2f}   {wanted:14} {'met' if is_met else 'MISSED'}"
        )


def equal(found: Any, expected: Any) -> None:
    """Refuse answers that differ."""
    if sp.issparse(found) or sp.issparse(expected):
        assert found.shape == expected.shape
        assert abs(sp.csr_array(found) - sp.csr_array(expected)).sum() == 0
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def genes_of(data: Data) -> list[int]:
    """Return the genes that are asked for: from the most frequent to rare ones."""
    counts = np.diff(Numpy(data).colptr)
    order = np.argsort(-counts, kind="stable")
    return [int(order[int(place)]) for place in np.linspace(0, order.size // 2, 10)]


def one_gene(data: Data, wheel: Wheel) -> None:
    """Genes over all cells; each is read for the first time, by a session that has just begun."""
    genes, numpy, duck = genes_of(data), Numpy(data), Duck(data)
    expected = [numpy.gene(gene) for gene in genes]
    spent: dict[str, list[float]] = {"slice": [], "SQL": []}
    for _ in range(wheel.repeats):
        db = daf_query.connect(data.daf)
        db.sql("SELECT max(age) FROM cell").collect()  # a session that is in use
        ways: dict[str, Callable[[int], Any]] = {
            "slice": lambda gene, db=db: (
                db.matrix("cell", "gene", "X", columns=[f"gene_{gene}"]).to_numpy().ravel()
            ),
            "SQL": lambda gene, db=db: (
                db.sql(f"SELECT X['gene_{gene}'] AS x FROM cell")
                .to_arrow_table()
                .column("x")
                .to_numpy()
            ),
        }
        for way, task in ways.items():
            started = time.perf_counter()
            found = [task(gene) for gene in genes]
            spent[way].append((time.perf_counter() - started) / len(genes))
            equal(found, expected)
    bare, _ = wheel.best(lambda: [numpy.gene(gene) for gene in genes])
    bare /= len(genes)
    adata = anndata.read_h5ad(data.h5ad)
    others: dict[str, Callable[[int], Any]] = {
        "DuckDB, long Parquet": lambda gene: duck.gene(f"gene_{gene}"),
        "anndata, in memory": lambda gene: adata[:, f"gene_{gene}"].X.toarray().ravel(),
        "anndata, backed": lambda gene: (
            backed_part(data.h5ad, slice(None), np.array([gene])).toarray().ravel()
        ),
    }
    vector, _ = wheel.best(lambda: db.sql("SELECT age AS x FROM cell").to_arrow_table())
    for way, seconds in spent.items():
        ours = min(seconds)
        wheel.line(f"one gene of all cells, {way}", ours, "numpy, mapped column", bare)
        wheel.target(f"one gene of all cells, {way}: times numpy", ours / bare, most=3)
    beyond = (min(spent["SQL"]) - vector) / bare
    wheel.line("one gene of all cells, SQL", min(spent["SQL"]), "the same SQL of a vector", vector)
    wheel.target("the same, beyond that of a vector: times numpy", beyond, most=3)
    for other, task in others.items():
        theirs, found = wheel.best(lambda task=task: task(genes[1]), 1)
        equal(found, expected[1])
        wheel.line("one gene of all cells, SQL", min(spent["SQL"]), other, theirs)


def gene_filter(data: Data, wheel: Wheel) -> None:
    """Cells by a gene and a vector."""
    genes, numpy, duck = genes_of(data), Numpy(data), Duck(data)
    expected = [numpy.count(gene) for gene in genes]
    queries = [
        f"SELECT count(*) AS n FROM cell WHERE X['gene_{gene}'] > 1 AND age > 60" for gene in genes
    ]
    spent = []
    for _ in range(wheel.repeats):
        db = daf_query.connect(data.daf)
        db.sql("SELECT max(age) FROM cell").collect()
        started = time.perf_counter()
        found = [db.sql(query).to_pydict()["n"][0] for query in queries]
        spent.append((time.perf_counter() - started) / len(genes))
        equal(found, expected)
    ours = min(spent)
    bare, _ = wheel.best(lambda: [numpy.count(gene) for gene in genes])
    bare /= len(genes)
    query = 'SELECT count(*) AS n FROM cell WHERE "index" > 1 AND age > 60'
    vectors, _ = wheel.best(lambda: db.sql(query).to_pydict())
    adata = anndata.read_h5ad(data.h5ad)
    wheel.line("gene filter in SQL", ours, "numpy, mapped column", bare)
    wheel.target("gene filter in SQL: times numpy", ours / bare, most=3)
    wheel.line("gene filter in SQL", ours, "the same SQL of vectors", vectors)
    wheel.target("the same, beyond that of vectors: times numpy", (ours - vectors) / bare, most=3)
    gene = genes[1]
    others: dict[str, Callable[[], Any]] = {
        "DuckDB, long Parquet": lambda: duck.count(f"gene_{gene}"),
        "anndata, in memory": lambda: int(
            (
                (adata[:, f"gene_{gene}"].X.toarray().ravel() > 1)
                & (adata.obs["age"].to_numpy() > 60)
            ).sum()
        ),
    }
    for other, task in others.items():
        theirs, answer = wheel.best(task, 1)
        equal(answer, expected[1])
        wheel.line("gene filter in SQL", ours, other, theirs)


def slices(data: Data, wheel: Wheel) -> None:
    """Scattered entries, and a block."""
    scale, duck = data.scale, Duck(data)
    random = np.random.default_rng(1)
    adata = anndata.read_h5ad(data.h5ad)
    scattered = (
        np.sort(random.choice(scale.cells, min(1_000, scale.cells // 5), replace=False)),
        np.sort(random.choice(scale.genes, min(50, scale.genes // 5), replace=False)),
    )
    sides = min(500, scale.cells // 5), min(500, scale.genes // 5)
    block = tuple(
        np.arange(n // 3, n // 3 + side)
        for n, side in zip((scale.cells, scale.genes), sides, strict=True)
    )
    for what, (cells, genes) in (("scattered", scattered), ("block", block)):
        title = f"{cells.size:,} x {genes.size:,} {what}"
        db = daf_query.connect(data.daf)

        def with_daf(cells: Any = cells, genes: Any = genes, db: Any = db) -> Any:
            return db.matrix("cell", "gene", "X", rows=cells, columns=genes).to_scipy()

        ours, expected = wheel.best(with_daf)
        others: dict[str, tuple[Callable[[], Any], int]] = {
            "anndata, backed": (lambda c=cells, g=genes: backed_part(data.h5ad, c, g), 2),
            "DuckDB, long Parquet": (lambda c=cells, g=genes: duck.part(c, g), 2),
            "anndata, in memory": (lambda c=cells, g=genes: adata[c, g].X.copy(), wheel.repeats),
        }
        from_disk = []
        for other, (task, repeats) in others.items():
            theirs, found = wheel.best(task, repeats)
            equal(found, expected)
            wheel.line(title, ours, other, theirs)
            if other != "anndata, in memory":
                from_disk.append(theirs)
        if what == "scattered":
            wheel.target(f"{title}: the best from disk", min(from_disk) / ours, least=30)


def profile(data: Data, wheel: Wheel) -> None:
    """Sum, mean, variance and share of non-zeros by type."""
    scale, duck, numpy = data.scale, Duck(data), Numpy(data)
    db = daf_query.connect(data.daf)
    ours, made = wheel.best(
        lambda: db.profile("cell", "gene", "X", by="type", progress="never"), min(wheel.repeats, 3)
    )
    expected = profile_sums(made, scale)
    one_pass, _ = wheel.best(numpy.one_pass, min(wheel.repeats, 3))
    wheel.line(f"profile by {TYPES} types", ours, "numpy, one pass over bytes", one_pass)
    wheel.target("profile: times one pass of numpy", ours / one_pass, most=2)
    adata = anndata.read_h5ad(data.h5ad)
    functions = ["sum", "mean", "var", "count_nonzero"]
    theirs, found = wheel.best(
        lambda: scanpy.get.aggregate(adata, by="type", func=functions), min(wheel.repeats, 2)
    )
    order = np.argsort(found.obs["type"].astype(str).to_numpy())
    equal(np.asarray(found.layers["sum"])[order], expected)
    table = made.to_arrow_table()
    for layer, column in (("mean", "mean"), ("var", "variance"), ("count_nonzero", "nonzero")):
        values = table.column(column).to_numpy().reshape(TYPES, scale.genes)
        np.testing.assert_allclose(
            np.asarray(found.layers[layer])[order], values, rtol=1e-3, atol=1e-5
        )
    wheel.line(f"profile by {TYPES} types", ours, "scanpy, in memory", theirs)
    wheel.target("profile: scanpy in memory", theirs / ours, least=2)
    theirs, sums = wheel.best(duck.profile, 1)
    equal(sums, expected)
    wheel.line(f"profile by {TYPES} types", ours, "DuckDB, long Parquet", theirs)


def main() -> None:
    """Measure, or be one of the processes that are measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0, help="a factor for cells and genes")
    parser.add_argument("--small", action="store_true", help="all of it on little data")
    parser.add_argument("--memory", action="store_true", help="measure peak memory, not time")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(tempfile.gettempdir()) / "daf-query-benchmark-matrix",
        help="where the data are kept",
    )
    options = parser.parse_args()
    if options.small:
        with tempfile.TemporaryDirectory() as name:
            data = prepared(Path(name), SMALL)
            measure(data)
            matrix_memory.measure(Path(name), data.daf, is_small=True)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    data = prepared(options.folder, Scale.of(options.scale))
    if options.memory:
        matrix_memory.measure(options.folder, data.daf, is_small=options.scale < 1)
    else:
        measure(data)


def measure(data: Data) -> None:
    """Run all comparisons."""
    scale = data.scale
    print(
        f"{scale.cells:,} cells x {scale.genes:,} genes, {scale.cells * scale.per_cell:,} non-zeros\n"
    )
    print(f"{'task':34} {'daf-query':>13}   {'compared with':>26} {'':>13}   {'ratio':>8}")
    wheel = Wheel(scale.repeats, [])
    for task in (one_gene, gene_filter, slices, profile):
        task(data, wheel)
    if scale != SMALL:
        print("\n".join(["", "targets", *wheel.verdicts, ""]))


if __name__ == "__main__":
    main()
