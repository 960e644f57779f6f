"""Measure imports of an h5ad file beside copies of their results, in one run.

    python -m benchmarks.imports                     20,000 cells x 25,000 genes, 25 million stored elements
    python -m benchmarks.imports --cells 240000      300 million of them: 2.4 GB of source, 10 GB of disk
    python -m benchmarks.imports --small             little data, to see that it works

Each line is a way in which the elements are stored in the file, and how much memory is allowed: processor and
elapsed milliseconds of the import, both layouts, those of copying the result, and the ratio of the elapsed ones.
The least of several repetitions counts; the last result is compared with the source.
"""

from __future__ import annotations

import argparse
import functools
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
import pandas as pd
from anndata.io import write_elem

import daf_storage
from benchmarks.matrix_data import Scale, blocks

STORED: Final[dict[str, dict[str, Any]]] = {
    "contiguous": {},
    "lzf": {"chunks": True, "compression": "lzf"},
    "gzip": {"chunks": True, "compression": "gzip", "compression_opts": 1},
}
MEMORY_BYTES: Final = (1 << 26, 1 << 30)


def write_source(path: Path, scale: Scale, options: dict[str, Any]) -> None:
    """Write a matrix in rows."""
    with h5py.File(path, "w") as file:
        file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        for part, length in (("obs", scale.cells), ("var", scale.genes)):
            frame = pd.DataFrame(index=[f"{part}_{number}" for number in range(length)])
            write_elem(file, part, frame)
        group = file.create_group("X")
        group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0"})
        group.attrs["shape"] = np.array([scale.cells, scale.genes])
        group["indptr"] = np.arange(scale.cells + 1, dtype=np.int64) * scale.per_cell
        count = scale.cells * scale.per_cell
        indices = group.create_dataset("indices", (count,), np.int32, **options)
        data = group.create_dataset("data", (count,), np.float32, **options)
        start = 0
        for places, values in blocks(scale, np.random.default_rng(0)):
            indices[start : start + places.size] = places
            data[start : start + values.size] = values
            start += values.size


def least(
    task: Callable[[], object], clean: Callable[[], object], repeats: int
) -> tuple[float, float]:
    """Return the least processor and elapsed milliseconds of a task."""
    spent = []
    for _ in range(repeats):
        clean()
        elapsed, processor = time.perf_counter(), time.process_time()
        task()
        spent.append((time.process_time() - processor, time.perf_counter() - elapsed))
    return min(each[0] for each in spent) * 1e3, min(each[1] for each in spent) * 1e3


def check(path: Path, target: Path) -> None:
    """Compare a few rows of both layouts with the source."""
    daf = daf_storage.open_daf(target)
    with h5py.File(path) as file:
        indptr = file["X/indptr"][:]
        by_rows = daf.open_matrix("var", "obs", "X").entries("rowval").read()
        by_columns = daf.open_matrix("obs", "var", "X").colptr()
        for row in (0, len(indptr) // 2, len(indptr) - 2):
            part = slice(int(indptr[row]), int(indptr[row + 1]))
            assert np.array_equal(by_rows[part] - 1, file["X/indices"][part])
        counts = np.bincount(by_rows - 1, minlength=by_columns.size - 1)
        assert np.array_equal(np.diff(by_columns), counts)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=20_000)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    scale = Scale(200, 300, 30) if options.small else Scale(options.cells, 25_000, 1_240)
    print(f"{scale.cells * scale.per_cell:,} stored elements, milliseconds")
    print(
        "| stored as | memory | import, processor | import | cp -r | ratio |\n| --- | --- | --- | --- | --- | --- |"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, target, copy = folder / "x.h5ad", folder / "x.daf.zarr", folder / "copy"
        for stored, how in STORED.items():
            write_source(source, scale, how)
            for memory_bytes in MEMORY_BYTES:
                daf_storage.settings.DAF_COPY_MAX_BYTES = memory_bytes
                processor, elapsed = least(
                    functools.partial(daf_storage.import_h5ad, source, target, progress="never"),
                    lambda: shutil.rmtree(target, ignore_errors=True),
                    options.repeats,
                )
                check(source, target)
                copied = least(
                    lambda: shutil.copytree(target, copy),
                    lambda: shutil.rmtree(copy, ignore_errors=True),
                    options.repeats,
                )[1]
                print(
                    f"| {stored} | {memory_bytes >> 20} MiB | {processor:,.0f} | {elapsed:,.0f} "
                    f"| {copied:,.0f} | {elapsed / copied:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
