"""Measure how slices of sparse matrices are gathered beside copies of as many bytes, in one run.

    python benchmarks/gather.py             100,000 cells x 2,000 genes, 10 million non-zeros
    python benchmarks/gather.py --small     little data, to see that it works
    python benchmarks/gather.py --fit       also fit the constants by which layouts are chosen

Each line is a slice in a session that is in use, in processor milliseconds: planning, gathering, what scipy
takes for the same rows and columns of a matrix in memory, a copy of as many bytes of memory, and the ratio of
gathering to that copy. Each slice is compared with scipy's first. The best of several repetitions counts.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls

import daf_query
import daf_storage
from daf_query.matrix import Selection, find_layouts

PER_CELL = 100
GENES = 2000


def matrix(cells: int) -> Any:
    """Return counts with about a hundred stored elements in each row, whose order has no meaning."""
    random = np.random.default_rng(1)
    places = np.unique(
        np.repeat(np.arange(cells), PER_CELL) * GENES + random.integers(0, GENES, cells * PER_CELL)
    )
    indptr = np.searchsorted(places // GENES, np.arange(cells + 1)).astype(np.int32)
    values = random.integers(1, 20, places.size).astype(np.float32)
    parts = (values, (places % GENES).astype(np.int32), indptr)
    return sp.csr_array(parts, shape=(cells, GENES))


def written(folder: Path, values: Any) -> Path:
    """Return a data set with a matrix in both layouts."""
    path = folder / "gather.daf.zarr"
    daf = daf_storage.ZarrDaf(path, "w")
    assert isinstance(daf, daf_storage.DafWriter)
    daf.add_axis("cell", [f"c{i}" for i in range(values.shape[0])])
    daf.add_axis("gene", [f"g{i}" for i in range(GENES)])
    daf.set_matrix("cell", "gene", "X", values)
    return path


def best(task: Callable[[], Any], repeats: int) -> float:
    """Return the least processor milliseconds of a task."""
    spent = []
    for _ in range(repeats):
        started = time.process_time()
        result = task()
        spent.append(time.process_time() - started)
        del result
    return min(spent) * 1e3


def slices(cells: int) -> dict[str, tuple[Any, Any]]:
    """Return the rows and columns of each slice; None for all."""
    random = np.random.default_rng(2)

    def some(count: int, of: int) -> Any:
        return np.sort(random.choice(of, count, replace=False))

    few, many, genes = max(cells // 100, 1), cells * 6 // 100, some(GENES // 40, GENES)
    return {
        "everything": (None, None),
        "half of the cells": (some(cells // 2, cells), None),
        "half, in any order": (random.permutation(cells)[: cells // 2], None),
        "neighbours": (np.arange(cells // 5, cells // 5 + cells // 10), None),
        "scattered cells": (some(cells * 1559 // 100_000 + 1, cells), None),
        "few cells x 50 genes": (some(few, cells), genes),
        "more cells x 50 genes": (some(many, cells), genes),
        "50 genes": (None, genes),
        "one gene": (None, genes[:1]),
        "half x half": (some(cells // 2, cells), some(GENES // 2, GENES)),
    }


def compare(path: Path, values: Any, repeats: int) -> None:
    """Print a line for each slice."""
    db = daf_query.connect(path)
    print(
        f"{'slice':24}{'elements':>12}{'plan':>8}{'gather':>9}{'scipy':>9}{'copy':>8}  gather / copy"
    )
    for name, (rows, columns) in slices(values.shape[0]).items():

        def part(rows: Any = rows, columns: Any = columns) -> Any:
            return db.matrix("cell", "gene", "X", rows=rows, columns=columns)

        def in_memory(rows: Any = rows, columns: Any = columns) -> Any:
            taken = values.copy() if rows is None else values[rows]
            return taken if columns is None else taken[:, columns]

        found, expected = part().to_scipy(), in_memory()
        expected.sort_indices()
        assert found.nnz == expected.nnz
        assert (found != expected).nnz == 0, name
        whole = best(lambda: part().values(), repeats)
        plan = best(part, repeats)
        nbytes = found.data.nbytes + found.indices.nbytes
        source = np.ones(max(nbytes, 1), np.uint8)
        copy = best(source.copy, repeats)
        print(
            f"{name:24}{found.nnz:12,}{plan:8.2f}{whole - plan:9.2f}{best(in_memory, repeats):9.2f}"
            f"{copy:8.2f}  {(whole - plan) / max(copy, 1e-3):.1f}"
        )


def fit(path: Path, cells: int, repeats: int) -> None:
    """Print the constants of `daf_query.matrix._layouts` that fit this machine, in nanoseconds."""
    daf = daf_storage.open_daf(str(path))
    random = np.random.default_rng(3)
    features, spent = [], []
    for n_rows in (None, cells // 1000, cells // 100, cells * 6 // 100, cells * 3 // 10):
        for n_columns in (None, 1, 50, 300, 1000):
            rows, columns = (
                Selection.all(length)
                if count is None
                else Selection.of(np.sort(random.choice(length, count, replace=False)), length)
                for count, length in ((n_rows, cells), (n_columns, GENES))
            )
            for plan in find_layouts(daf, ("cell", "gene"), "X", rows, columns).found:
                elements = int(plan.ranges()[1].sum())
                is_filtered, width = not plan.minor.is_all, plan.stored.info.shape[0]
                likely = elements * plan.minor.size / width
                ranges = 1 if plan.major.is_all else plan.major.size
                transposed = 0 if plan.rows_are_major else likely
                minors = is_filtered * width
                row = [
                    1,
                    ranges,
                    8 * elements,
                    is_filtered * elements,
                    is_filtered * likely,
                    transposed,
                ]
                features.append([*row, minors])
                spent.append(best(lambda plan=plan: plan.gather(lambda _: None), repeats) * 1e6)
    table, times = np.array(features, float), np.array(spent)
    constants, _ = nnls(table / times[:, np.newaxis], np.ones(times.size))
    names = [
        "slice",
        "range",
        "copied_byte",
        "filtered_element",
        "selected_element",
        "turned_element",
        "minor",
    ]
    for name, nanoseconds in zip(names, constants, strict=True):
        print(f"{name + '_ns':24}{nanoseconds:10.2f}")
    off = np.abs(table @ constants / times - 1)
    print(
        f"of {times.size} slices, the times are off by {np.median(off):.0%}, at most {off.max():.0%}"
    )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="little data")
    parser.add_argument("--fit", action="store_true", help="fit the constants of the costs")
    parser.add_argument("--folder", type=Path, help="where the data are made")
    options = parser.parse_args()
    cells, repeats = (2000, 1) if options.small else (100_000, 9)
    values = matrix(cells)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = written(Path(folder), values)
        compare(path, values, repeats)
        if options.fit:
            fit(path, cells, repeats)


if __name__ == "__main__":
    main()
