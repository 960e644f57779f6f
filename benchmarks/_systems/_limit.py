"""The limit: what numpy and scipy's compiled loops take on arrays that are mapped as they are.

Nothing is looked up by name, strings are codes, and both orders of the matrix lie there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._systems._base import Place, System


class Limit(System):
    """Arrays of `numpy.save`, mapped."""

    modules = ("scipy.sparse", "pandas", "pyarrow")
    packages = ("numpy", "scipy")
    _arrays: dict[str, np.ndarray]
    _rows: Any = None

    def prepare(self, place: Place) -> None:
        """Write the arrays."""
        (_save_matrix if place.data.kind == "matrix" else _save_table)(place.source, place.folder)

    def open(self, place: Place) -> None:
        """Map the arrays."""
        import scipy.sparse as sp

        self.data = place.data
        arrays = {
            path.stem: np.asarray(np.load(path, mmap_mode="r"))
            for path in place.folder.glob("*.npy")
        }
        self._arrays = arrays
        if place.data.kind == "matrix":
            parts = (arrays["data"], arrays["indices"], arrays["indptr"])
            self._rows = sp.csr_matrix(
                parts, shape=(place.data.cells, place.data.genes), copy=False
            )

    def filter_slice(self) -> Any:
        """Return the rows of the cells that the filter leaves."""
        arrays = self._arrays
        chosen = (arrays["age"] > 60) & (arrays["donor"] == 3) & (arrays["score"] > 0.8)
        return self._rows[np.flatnonzero(chosen)]

    def gene(self) -> Any:
        """Return a gene of all cells."""
        arrays, place = self._arrays, int(self.data.gene.removeprefix("gene_"))
        span = slice(*arrays["column_indptr"][place : place + 2])
        values = np.zeros(self.data.cells, arrays["column_data"].dtype)
        values[arrays["column_indices"][span]] = arrays["column_data"][span]
        return values

    def mean_by(self) -> Any:
        """Return counts and means, as pandas."""
        import pandas as pd

        counts = np.bincount(self._arrays["donor"], minlength=8)
        sums = np.bincount(self._arrays["donor"], self._arrays["score"], minlength=8)
        return pd.DataFrame(
            {"donor": [f"N{code}" for code in range(8)], "n": counts, "mean": sums / counts}
        )

    def scattered(self) -> Any:
        """Return some columns of some rows."""
        cells, genes = self.data.scattered
        return self._rows[cells][:, genes]

    def many_rows(self) -> Any:
        """Return many rows."""
        return self._rows[self.data.many]

    def count(self) -> Any:
        """Return how many rows there are."""
        return _table(n=[self._arrays["age"].size])

    def numeric_filter(self) -> Any:
        """Return how many rows two comparisons leave."""
        chosen = (self._arrays["age"] > 98) & (self._arrays["score"] > 0.5)
        return _table(n=[int(np.count_nonzero(chosen))])

    def string_equality(self) -> Any:
        """Return how many rows have a code."""
        return _table(n=[int(np.count_nonzero(self._arrays["donor"] == 7))])

    def group_by(self) -> Any:
        """Return counts and means."""
        counts = np.bincount(self._arrays["donor"], minlength=50)
        sums = np.bincount(self._arrays["donor"], self._arrays["score"], minlength=50)
        order = sorted(range(50), key=lambda code: f"donor{code}")
        return _table(
            donor=[f"donor{code}" for code in order],
            n=counts[order].tolist(),
            mean=(sums / counts)[order].tolist(),
        )

    def join(self) -> Any:
        """Return how many rows there are of each sex."""
        donors = np.bincount(self._arrays["donor"][self._arrays["age"] > 90], minlength=50)
        is_male = self._arrays["is_male"]
        return _table(sex=["f", "m"], n=[int(donors[~is_male].sum()), int(donors[is_male].sum())])

    def look_up(self) -> Any:
        """Return the row of a name, after comparing the bytes of all."""
        wanted = np.frombuffer(self.data.name.encode(), np.uint8)
        starts, names = self._arrays["name_starts"], self._arrays["name_bytes"]
        places = np.flatnonzero(np.diff(starts) == wanted.size)
        # The last characters differ most.
        for offset in reversed(range(wanted.size)):
            places = places[names[starts[places] + offset] == wanted[offset]]
        return _table(
            name=[self.data.name],
            age=self._arrays["age"][places].tolist(),
            score=self._arrays["score"][places].tolist(),
        )

    def close(self) -> None:
        """Let go of the arrays."""
        self._arrays = {}
        self._rows = None


def _table(**columns: Any) -> Any:
    import pyarrow as pa

    return pa.table(columns)


def _save_matrix(source: Path, folder: Path) -> None:
    import h5py
    import scipy.sparse as sp

    with h5py.File(source) as file:
        matrix = file["X"]
        parts = [matrix[name][:] for name in ("data", "indices", "indptr")]
        rows = sp.csr_matrix((*parts[:2], parts[2].astype(np.int32)), matrix.attrs["shape"])
        columns = rows.tocsc()
        arrays = {
            **{name: getattr(rows, name) for name in ("data", "indices", "indptr")},
            **{f"column_{name}": getattr(columns, name) for name in ("data", "indices", "indptr")},
            **{name: file["obs"][name][:] for name in ("age", "score")},
            "donor": file["obs/donor/codes"][:],
        }
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)


def _save_table(source: Path, folder: Path) -> None:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(source / "cell.parquet")
    for name in ("age", "score"):
        np.save(folder / f"{name}.npy", file.read(columns=[name]).column(0).to_numpy())
    donor = file.read(columns=["donor"]).column(0).combine_chunks()
    codes = donor.dictionary_encode()
    numbers = np.array([int(name.as_py().removeprefix("donor")) for name in codes.dictionary], "i1")
    np.save(folder / "donor.npy", numbers[codes.indices.to_numpy()])
    sex = pq.read_table(source / "donor.parquet").column("sex").to_pylist()
    np.save(folder / "is_male.npy", np.array([value == "m" for value in sex]))
    names = file.read(columns=["name"]).column(0).combine_chunks()
    _, offsets, values = names.buffers()
    starts = np.frombuffer(offsets, np.int32)[: len(names) + 1]
    np.save(folder / "name_starts.npy", starts)
    np.save(folder / "name_bytes.npy", np.frombuffer(values, np.uint8)[: starts[-1]])
