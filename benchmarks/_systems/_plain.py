"""h5py and zarr-python: the arrays of an AnnData, read as a careful user would by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._systems._anndata import Zarr
from benchmarks._systems._base import Place, System


class Hdf5(System):
    """The h5ad file, by h5py."""

    whole_share = 8
    """If more than one in so many rows is wanted, the arrays are read whole."""
    modules = ("h5py", "scipy.sparse", "pandas")
    packages = ("h5py", "scipy")
    in_place = True
    _root: Any

    def open(self, place: Place) -> None:
        """Open the file."""
        import h5py

        self.data = place.data
        self._root = h5py.File(place.source)

    def _donors(self) -> tuple[np.ndarray, list[str]]:
        donor = self._root["obs/donor"]
        names = [
            name.decode() if isinstance(name, bytes) else name for name in donor["categories"][:]
        ]
        return donor["codes"][:], names

    def filter_slice(self) -> Any:
        """Return the rows of the cells that the filter leaves."""
        obs = self._root["obs"]
        codes, names = self._donors()
        kept = (obs["age"][:] > 60) & (codes == names.index("N3")) & (obs["score"][:] > 0.8)
        return self._rows(np.flatnonzero(kept))

    def _rows(self, rows: np.ndarray) -> Any:
        import scipy.sparse as sp

        matrix = self._root["X"]
        indptr = matrix["indptr"][:]
        if rows.size * self.whole_share > self.data.cells:
            parts = (matrix["data"][:], matrix["indices"][:], indptr)
            return sp.csr_matrix(parts, (self.data.cells, self.data.genes))[rows]
        breaks = np.flatnonzero(np.diff(rows) != 1) + 1
        runs = [(run[0], run[-1] + 1) for run in np.split(rows, breaks)] if rows.size else []
        spans = [slice(int(indptr[start]), int(indptr[stop])) for start, stop in runs]
        data, indices = (
            np.concatenate([matrix[name][span] for span in spans]) if spans else matrix[name][:0]
            for name in ("data", "indices")
        )
        sizes = np.diff(indptr)[rows]
        parts = (data, indices, np.concatenate([[0], np.cumsum(sizes)]))
        return sp.csr_matrix(parts, (rows.size, self.data.genes))

    def gene(self) -> Any:
        """Return a gene of all cells; as they are stored by rows, all indices are read."""
        matrix = self._root["X"]
        place = int(self.data.gene.removeprefix("gene_"))
        elements = np.flatnonzero(matrix["indices"][:] == place)
        rows = np.searchsorted(matrix["indptr"][:], elements, side="right") - 1
        values = np.zeros(self.data.cells, matrix["data"].dtype)
        values[rows] = matrix["data"][:][elements]
        return values

    def mean_by(self) -> Any:
        """Return counts and means, as pandas."""
        import pandas as pd

        codes, names = self._donors()
        counts = np.bincount(codes)
        sums = np.bincount(codes, self._root["obs/score"][:])
        return pd.DataFrame({"donor": names, "n": counts, "mean": sums / counts})

    def scattered(self) -> Any:
        """Return some columns of some rows."""
        cells, genes = self.data.scattered
        return self._rows(cells)[:, genes]

    def many_rows(self) -> Any:
        """Return many rows."""
        return self._rows(self.data.many)

    def close(self) -> None:
        """Close the file."""
        self._root.close()


class ZarrPython(Hdf5):
    """What anndata wrote as Zarr v3, by zarr-python."""

    modules = ("anndata", "zarr", "scipy.sparse", "pandas")
    packages = ("zarr", "scipy")
    in_place = False
    whole_share = 1_000
    """A range of rows costs milliseconds here, and the arrays a fifth of a second."""
    prepare = Zarr.prepare

    def open(self, place: Place) -> None:
        """Open the group."""
        import zarr

        self.data = place.data
        self._root = zarr.open_group(place.folder / "x.zarr", mode="r")

    def close(self) -> None:
        """Close the store."""
        self._root.store.close()
