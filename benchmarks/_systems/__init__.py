"""The systems, by their names: adapters with one interface."""

from __future__ import annotations

import importlib
from typing import Final

from benchmarks._systems._base import System, SystemInfo

INFOS: Final[dict[str, SystemInfo]] = {
    info.name: info
    for info in [
        SystemInfo("daf", "daf-query", "_daf.Flat", ("matrix", "table")),
        SystemInfo("daf-packed", "daf-query, packed", "_daf.Packed", ("matrix", "table")),
        SystemInfo("daf-archive", "daf-query, one file", "_daf.Archive", ("matrix",)),
        SystemInfo("daf-h5ad", "daf-query, h5ad in place", "_daf.InPlace", ("matrix",)),
        SystemInfo("daf-indexed", "daf-query, strings indexed", "_daf.Indexed", ("table",)),
        SystemInfo("limit", "numpy on np.memmap (the limit)", "_limit.Limit", ("matrix", "table")),
        SystemInfo("anndata", "anndata, in memory", "_anndata.InMemory", ("matrix",)),
        SystemInfo("anndata-backed", "anndata, backed", "_anndata.Backed", ("matrix",)),
        SystemInfo("anndata-zarr", "anndata, Zarr v3", "_anndata.Zarr", ("matrix",)),
        SystemInfo("anndata-lazy", "anndata, read_lazy", "_anndata.Lazy", ("matrix",)),
        SystemInfo("h5py", "h5py", "_plain.Hdf5", ("matrix",)),
        SystemInfo("zarr-python", "zarr-python", "_plain.ZarrPython", ("matrix",)),
        SystemInfo("soma", "TileDB-SOMA", "_soma.Soma", ("matrix",), "soma"),
        SystemInfo("slaf", "SLAF", "_slaf.Slaf", ("matrix",), "slaf"),
        SystemInfo("homeobox", "homeobox", "_homeobox.Homeobox", ("matrix",), "homeobox"),
        SystemInfo("annbatch", "annbatch", "_annbatch.Annbatch", ("matrix",), "annbatch"),
        SystemInfo("duckdb", "DuckDB on Parquet", "_engines.DuckDb", ("table",)),
        SystemInfo("datafusion", "DataFusion on Parquet", "_engines.DataFusion", ("table",)),
        SystemInfo("polars", "polars on Parquet", "_engines.Polars", ("table",)),
        SystemInfo(
            "zarr-search",
            "zarr-datafusion-search",
            "_zarr_tables.ZarrSearch",
            ("table",),
            "zarr_search",
        ),
        SystemInfo("xarray-sql", "xarray-sql", "_zarr_tables.XarraySql", ("table",), "xarray_sql"),
    ]
}


def make(name: str) -> System:
    """Return the adapter of a system, without importing what it measures."""
    module, _, class_name = INFOS[name].adapter.partition(".")
    found: type[System] = getattr(
        importlib.import_module(f"benchmarks._systems.{module}"), class_name
    )
    return found()
