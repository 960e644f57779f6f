"""The data of `attach.py`: one AnnData in the forms that anndata writes, and converted to Daf.

The cells come out of a seeded generator, block by block; anndata itself writes the files, once for
each scale, into a scratch folder.
"""

from __future__ import annotations

import shutil
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sp
from matrix_data import Scale, blocks

import daf_storage

COLUMNS = 100
"""How many columns obs has."""
CHOSEN_CELLS = 2_000
"""About how many cells the filter leaves."""
TYPES = 10

FULL = (Scale(200_000, 2_000, 100), Scale(50_000, 25_000, 1_250))
SMALL = (Scale(3_000, 400, 20, 1),)


@dataclass(frozen=True)
class Data:
    """Where the data of a scale are."""

    folder: Path
    scale: Scale

    @property
    def h5ad(self) -> Path:
        """An uncompressed h5ad file, X as CSR."""
        return self.folder / "plain.h5ad"

    @property
    def gzip(self) -> Path:
        """The same, compressed."""
        return self.folder / "gzip.h5ad"

    @property
    def zarr(self) -> Path:
        """Zarr v3 in shards."""
        return self.folder / "sharded.zarr"

    @property
    def daf(self) -> Path:
        """What the h5ad file was converted to, with both layouts."""
        return self.folder / "converted.daf.zarr"

    @property
    def limit(self) -> float:
        """The limit of the score of a filter."""
        return min(CHOSEN_CELLS * TYPES / self.scale.cells, 0.5)

    @property
    def genes(self) -> list[str]:
        """Names of fifty genes, or of a tenth of all if they are fewer."""
        count = min(50, self.scale.genes // 10)
        places = np.random.default_rng(2).choice(self.scale.genes, count, replace=False)
        return [f"gene_{place}" for place in np.sort(places)]


def prepared(scratch: Path, scale: Scale) -> Data:
    """Return the data of a scale, made now if they are not there."""
    data = Data(scratch / f"attach-{scale.name}", scale)
    if data.folder.exists():
        return data
    unfinished = Data(data.folder.with_suffix(".part"), scale)
    shutil.rmtree(unfinished.folder, ignore_errors=True)
    unfinished.folder.mkdir(parents=True)
    started = time.perf_counter()
    _write(unfinished)
    unfinished.folder.rename(data.folder)
    sizes = ", ".join(f"{path.name} {_megabytes(path):,.0f} MB" for path in _paths(data))
    print(f"made in {time.perf_counter() - started:.0f} s: {sizes}\n")
    return data


def _write(data: Data) -> None:
    adata = adata_of(data.scale)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that an experimental form is written
        adata.write_h5ad(data.h5ad)
        adata.write_h5ad(data.gzip, compression="gzip")
        with anndata.settings.override(zarr_write_format=3, auto_shard_zarr_v3=True):
            adata.write_zarr(data.zarr)
    del adata
    daf_storage.import_h5ad(data.h5ad, data.daf, progress="never")


def adata_of(scale: Scale) -> Any:
    """Return the data in memory: only X is large, 8 bytes for each element."""
    random = np.random.default_rng(0)
    count = scale.cells * scale.per_cell
    indices, values = np.empty(count, np.int32), np.empty(count, np.float32)
    start = 0
    for block_indices, block_values in blocks(scale, random):
        stop = start + block_values.size
        indices[start:stop], values[start:stop] = block_indices, block_values
        start = stop
    indptr = np.arange(scale.cells + 1, dtype=np.int64) * scale.per_cell
    matrix = sp.csr_matrix((values, indices, indptr), shape=(scale.cells, scale.genes))
    var = pd.DataFrame(
        {"is_marker": random.random(scale.genes) < 0.05},
        index=[f"gene_{number}" for number in range(scale.genes)],
    )
    return anndata.AnnData(matrix, obs=_obs(scale.cells, random), var=var)


def _obs(cells: int, random: np.random.Generator) -> pd.DataFrame:
    """Return a hundred columns: categories, integers, floats and flags."""
    columns: dict[str, Any] = {
        "type": pd.Categorical.from_codes(
            random.integers(0, TYPES, cells), [f"T{number}" for number in range(TYPES)]
        ),
        "score": random.random(cells),
    }
    for number in range(len(columns), COLUMNS):
        name = f"column_{number}"
        if number % 4 == 0:
            codes = random.integers(-1, 30, cells)
            columns[name] = pd.Categorical.from_codes(codes, [f"c{code}" for code in range(30)])
        elif number % 4 == 1:
            columns[name] = random.integers(0, 1_000, cells)
        elif number % 4 == 2:
            columns[name] = random.random(cells)
        else:
            columns[name] = random.random(cells) < 0.5
    return pd.DataFrame(columns, index=[f"cell_{number}" for number in range(cells)])


def _paths(data: Data) -> list[Path]:
    return [data.h5ad, data.gzip, data.zarr, data.daf]


def _megabytes(path: Path) -> float:
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6
