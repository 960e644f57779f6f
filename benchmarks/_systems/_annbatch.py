"""annbatch: its sharded Zarr, read through zarrs as it advises; a loader of batches, so only rows are asked for."""

from __future__ import annotations

from typing import Any

from benchmarks._systems._anndata import Zarr
from benchmarks._systems._base import NotOfferedError, Place


class Annbatch(Zarr):
    """What `write_sharded` wrote, as a `sparse_dataset`."""

    modules = ("anndata", "annbatch", "zarr", "zarrs", "pandas")
    packages = ("annbatch", "zarr", "zarrs", "anndata")

    def load(self) -> None:
        """Import, and choose the codec pipeline of zarrs."""
        import zarr

        super().load()
        zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})

    def prepare(self, place: Place) -> None:
        """Convert with annbatch."""
        import annbatch
        import anndata
        import zarr

        group = zarr.open_group(place.folder / "x.zarr", mode="w", zarr_format=3)
        annbatch.write_sharded(group, anndata.read_h5ad(place.source))

    def gene(self) -> Any:
        """Not what it is for."""
        raise NotOfferedError

    def mean_by(self) -> Any:
        """Not what it is for."""
        raise NotOfferedError
