"""The data of `matrix.py`: cells and genes out of a seeded generator, as h5ad, Daf and Parquet.

They are written block by block, once for each scale, into a scratch folder.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from anndata.io import write_elem

import daf_query
import daf_storage

TYPES = 30
"""How many types of cells there are."""

BLOCK_CELLS = 1_000


@dataclass(frozen=True)
class Scale:
    """How much data."""

    cells: int
    """Number of cells."""
    genes: int
    """Number of genes."""
    per_cell: int
    """Non-zeros per cell."""
    repeats: int = 5
    """Repetitions of what is fast."""

    @property
    def name(self) -> str:
        """What the folder of the data is called."""
        return f"{self.cells}x{self.genes}x{self.per_cell}"

    @classmethod
    def of(cls, factor: float) -> Scale:
        """Return the full scale, with so many times its cells and its genes."""
        return cls(int(50_000 * factor), int(25_000 * factor), max(int(1_240 * factor), 20))


SMALL = Scale(600, 300, 30, 2)


@dataclass(frozen=True)
class Data:
    """Where the data of a scale are."""

    folder: Path
    scale: Scale

    @property
    def h5ad(self) -> Path:
        """An uncompressed h5ad file, as CSR."""
        return self.folder / "x.h5ad"

    @property
    def daf(self) -> Path:
        """The data set, with both layouts."""
        return self.folder / "x.daf.zarr"

    @property
    def cells(self) -> Path:
        """The cells as Parquet."""
        return self.folder / "cell.parquet"

    @property
    def long(self) -> Path:
        """The non-zeros as Parquet."""
        return self.folder / "long.parquet"


def prepared(scratch: Path, scale: Scale) -> Data:
    """Return the data of a scale, made now if they are not there."""
    data = Data(scratch / scale.name, scale)
    if data.folder.exists():
        return data
    unfinished = Data(scratch / f"{scale.name}.part", scale)
    shutil.rmtree(unfinished.folder, ignore_errors=True)
    unfinished.folder.mkdir(parents=True)
    started = time.perf_counter()
    write_h5ad(unfinished)
    daf_storage.import_h5ad(
        unfinished.h5ad, unfinished.daf, obs_is="cell", var_is="gene", progress="never"
    )
    write_parquet(unfinished)
    unfinished.folder.rename(data.folder)
    print(f"made in {time.perf_counter() - started:.0f} s: {data.folder}\n")
    return data


def write_h5ad(data: Data) -> None:
    """Write the cells, block by block; no more than a block is in memory."""
    scale = data.scale
    random = np.random.default_rng(0)
    obs = pd.DataFrame(
        {
            "age": random.integers(20, 90, scale.cells),
            "type": random.choice([f"T{number:02}" for number in range(TYPES)], scale.cells),
        },
        index=[f"cell_{number}" for number in range(scale.cells)],
    )
    var = pd.DataFrame(
        {"is_marker": random.random(scale.genes) < 50 / scale.genes},
        index=[f"gene_{number}" for number in range(scale.genes)],
    )
    with h5py.File(data.h5ad, "w") as file:
        file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        write_elem(file, "obs", obs)
        write_elem(file, "var", var)
        matrix = file.create_group("X")
        matrix.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0"})
        matrix.attrs["shape"] = np.array([scale.cells, scale.genes])
        count = scale.cells * scale.per_cell
        matrix["indptr"] = np.arange(scale.cells + 1, dtype=np.int64) * scale.per_cell
        matrix.create_dataset("indices", (count,), np.int32)
        matrix.create_dataset("data", (count,), np.float32)
        start = 0
        for indices, values in blocks(scale, random):
            matrix["indices"][start : start + indices.size] = indices
            matrix["data"][start : start + values.size] = values
            start += values.size


def blocks(scale: Scale, random: np.random.Generator) -> Iterator[tuple[Any, Any]]:
    """Yield the genes and values of some cells after the other.

    A few genes are in nearly all cells, most are in few.  The values are quarters, so that sums of
    them are exact.
    """
    share = np.exp(-np.arange(scale.genes) / (0.06 * scale.genes))
    share = np.minimum(share / share.sum() * 0.7 * scale.per_cell, 0.9)
    share += (scale.per_cell - share.sum()) / scale.genes
    bounds = np.cumsum(share)
    bounds[-1] = scale.per_cell
    order = random.permutation(scale.genes).astype(np.int32)
    for start in range(0, scale.cells, BLOCK_CELLS):
        height = min(BLOCK_CELLS, scale.cells - start)
        # One gene out of each unit of the cumulated shares: none is chosen twice.
        points = np.arange(scale.per_cell) + random.random((height, 1))
        indices = order[np.searchsorted(bounds, points, side="right")]
        indices.sort(axis=1)
        yield indices.ravel(), (1 + random.geometric(0.3, indices.size)).astype(np.float32) / 4


def write_parquet(data: Data) -> None:
    """Write what DuckDB reads: the cells, and the non-zeros gene by gene."""
    db = daf_query.connect(data.daf)
    cells = db.sql('SELECT name, "index", age, type FROM cell ORDER BY "index"')
    pq.write_table(cells.to_arrow_table(), data.cells)
    long = db.matrix_table("cell", "gene", "X")
    with pq.ParquetWriter(data.long, long.schema) as writer:
        for batch in long.to_batches():
            writer.write_batch(batch)
