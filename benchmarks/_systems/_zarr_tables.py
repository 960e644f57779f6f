"""zarr-datafusion-search and xarray-sql: SQL over a group of Zarr arrays.

Of the thirty columns only those that are asked for are written, in chunks of 131,072 rows.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from benchmarks._systems._base import Place, SqlSystem

CHUNK_ROWS: Final = 1 << 17
COLUMNS: Final = {"cell": ("name", "age", "score", "donor"), "donor": ("name", "sex")}


class ZarrSearch(SqlSystem):
    """zarr-datafusion-search, in DataFusion."""

    modules = ("zarr_datafusion_search", "datafusion", "obstore.store", "pyarrow", "zarr")
    packages = ("zarr-datafusion-search", "datafusion", "zarr")
    _context: Any

    def prepare(self, place: Place) -> None:
        """Write the arrays with zarr-python."""
        import zarr

        root = zarr.open_group(place.folder / "x.zarr", mode="w")
        for table, columns in _tables(place.source).items():
            group = root.create_group(table)
            for name, values in columns.items():
                is_string = values.dtype.kind == "O"
                kind: Any = str if is_string else values.dtype
                array = group.create_array(
                    name,
                    shape=values.shape,
                    chunks=(min(CHUNK_ROWS, values.size),),
                    dtype=kind,
                )
                array[:] = values

    def open(self, place: Place) -> None:
        """Register the groups."""
        import obstore.store
        from datafusion import SessionContext
        from zarr_datafusion_search import ZarrTable

        self.data = place.data
        store = obstore.store.LocalStore(str(place.folder / "x.zarr"))

        async def tables() -> dict[str, Any]:
            return {name: await ZarrTable.from_obstore(store, f"/{name}") for name in COLUMNS}

        self._context = SessionContext()
        self._tables = asyncio.run(tables())  # the context does not keep them
        for name, table in self._tables.items():
            self._context.register_table(name, table)

    def sql(self, query: str) -> Any:
        """Return the rows."""
        import pyarrow as pa

        return pa.table(self._context.sql(query))

    def close(self) -> None:
        """Forget the context."""
        del self._context


class XarraySql(ZarrSearch):
    """xarray-sql, on what xarray wrote."""

    modules = ("xarray_sql", "xarray", "zarr", "pyarrow")
    packages = ("xarray-sql", "xarray", "datafusion", "zarr")

    def prepare(self, place: Place) -> None:
        """Write the arrays with xarray."""
        import xarray as xr

        for table, columns in _tables(place.source).items():
            chunks = {name: {"chunks": (min(CHUNK_ROWS, v.size),)} for name, v in columns.items()}
            dataset = xr.Dataset({name: ("row", values) for name, values in columns.items()})
            dataset.to_zarr(place.folder / f"{table}.zarr", encoding=chunks, zarr_format=3)

    def open(self, place: Place) -> None:
        """Register the datasets."""
        import xarray as xr
        import xarray_sql as xql

        self.data = place.data
        self._context = xql.Context()
        for table in COLUMNS:
            dataset = xr.open_zarr(place.folder / f"{table}.zarr", chunks=None)
            rows = {"row": min(dataset.sizes["row"], 1 << 20)}
            self._context.from_dataset(table, dataset, chunks=rows)

    def sql(self, query: str) -> Any:
        """Return the rows."""
        return self._context.sql(query).to_arrow_table()


def _tables(source: Path) -> dict[str, dict[str, Any]]:
    import pyarrow.parquet as pq

    return {
        table: {
            name: pq.read_table(source / f"{table}.parquet", columns=[name]).column(0).to_numpy()
            for name in columns
        }
        for table, columns in COLUMNS.items()
    }
