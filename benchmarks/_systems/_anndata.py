"""anndata: in memory, backed, and on Zarr."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._systems._base import Place, System


class InMemory(System):
    """The h5ad file, read whole."""

    modules = ("anndata", "scipy.sparse", "pandas")
    packages = ("anndata", "h5py", "zarr", "scipy", "pandas")
    in_place = True
    _adata: Any

    def open(self, place: Place) -> None:
        """Read the file."""
        import anndata

        self.data = place.data
        self._adata = anndata.read_h5ad(place.source)

    def _kept(self) -> Any:
        obs = self._adata.obs
        return ((obs["age"] > 60) & (obs["donor"] == "N3") & (obs["score"] > 0.8)).to_numpy()

    def _rows(self, rows: Any) -> Any:
        return self._adata.X[rows]

    def filter_slice(self) -> Any:
        """Return the rows of the cells that the filter leaves."""
        return self._rows(self._kept())

    def gene(self) -> Any:
        """Return a gene of all cells."""
        return self._adata.X[:, self._adata.var_names.get_loc(self.data.gene)].toarray().ravel()

    def mean_by(self) -> Any:
        """Return counts and means, as pandas."""
        return _mean_by(self._adata.obs[["donor", "score"]])

    def scattered(self) -> Any:
        """Return some columns of some rows."""
        cells, genes = self.data.scattered
        return self._rows(cells)[:, genes]

    def many_rows(self) -> Any:
        """Return many rows."""
        return self._rows(self.data.many)

    def close(self) -> None:
        """Forget the data."""
        del self._adata


class Backed(InMemory):
    """The h5ad file, with the matrix left there."""

    def open(self, place: Place) -> None:
        """Read all but the matrix."""
        import anndata

        self.data = place.data
        self._adata = anndata.read_h5ad(place.source, backed="r")

    def gene(self) -> Any:
        """Return a gene of all cells."""
        return self._adata[:, [self.data.gene]].to_memory().X.toarray().ravel()

    def close(self) -> None:
        """Close the file."""
        self._adata.file.close()


class Zarr(InMemory):
    """AnnData in Zarr v3: the columns read, and a `sparse_dataset`."""

    in_place = False

    def prepare(self, place: Place) -> None:
        """Convert with anndata, in shards."""
        import anndata

        with anndata.settings.override(zarr_write_format=3, auto_shard_zarr_v3=True):
            anndata.read_h5ad(place.source).write_zarr(place.folder / "x.zarr")

    def open(self, place: Place) -> None:
        """Read the columns."""
        import zarr
        from anndata.io import read_elem, sparse_dataset

        self.data = place.data
        group: Any = zarr.open_group(place.folder / "x.zarr", mode="r")
        self._obs, self._var = read_elem(group["obs"]), read_elem(group["var"])
        self._matrix = sparse_dataset(group["X"])

    def _kept(self) -> Any:
        obs = self._obs
        return ((obs["age"] > 60) & (obs["donor"] == "N3") & (obs["score"] > 0.8)).to_numpy()

    def _rows(self, rows: Any) -> Any:
        return self._matrix[rows]

    def gene(self) -> Any:
        """Return a gene of all cells."""
        place = self._var.index.get_loc(self.data.gene)
        return self._matrix[:, [place]].toarray().ravel()

    def mean_by(self) -> Any:
        """Return counts and means, as pandas."""
        return _mean_by(self._obs[["donor", "score"]])

    def close(self) -> None:
        """Forget the group."""
        del self._matrix


class Lazy(Zarr):
    """AnnData in Zarr v3 by `read_lazy`, with xarray and dask."""

    modules = ("anndata", "dask.array", "xarray")
    packages = ("anndata", "zarr", "dask", "xarray")

    def open(self, place: Place) -> None:
        """Read metadata."""
        from anndata.experimental import read_lazy

        self.data = place.data
        self._adata = read_lazy(place.folder / "x.zarr")

    def _kept(self) -> Any:
        obs = self._adata.obs
        age, donor, score = (np.asarray(obs[name]) for name in ("age", "donor", "score"))
        return (age > 60) & (donor == "N3") & (score > 0.8)

    def _rows(self, rows: Any) -> Any:
        return self._adata[rows].X.compute()

    def gene(self) -> Any:
        """Return a gene of all cells."""
        return self._adata[:, [self.data.gene]].X.compute().toarray().ravel()

    def scattered(self) -> Any:
        """Return some columns of some rows."""
        cells, genes = self.data.scattered
        return self._adata[cells][:, genes].X.compute()

    def mean_by(self) -> Any:
        """Return counts and means, as pandas."""
        import pandas as pd

        obs = self._adata.obs
        return _mean_by(pd.DataFrame({name: np.asarray(obs[name]) for name in ("donor", "score")}))

    def close(self) -> None:
        """Forget the data."""
        del self._adata


def _mean_by(obs: Any) -> Any:
    groups = obs.groupby("donor", observed=True)["score"].agg(n="count", mean="mean")
    frame = groups.reset_index()
    frame["donor"] = frame["donor"].astype(str)
    return frame
