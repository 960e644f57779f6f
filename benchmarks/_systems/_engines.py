"""Engines on Parquet."""

from __future__ import annotations

from typing import Any

from benchmarks._systems._base import Place, SqlSystem


class DuckDb(SqlSystem):
    """DuckDB."""

    modules = ("duckdb", "pyarrow")
    packages = ("duckdb",)
    in_place = True
    _engine: Any

    def open(self, place: Place) -> None:
        """Connect, and make a view of each file."""
        import duckdb

        self.data = place.data
        self._engine = duckdb.connect()
        for table in ("cell", "donor"):
            self._engine.execute(
                f"CREATE VIEW {table} AS SELECT * FROM '{place.source}/{table}.parquet'"
            )

    def sql(self, query: str) -> Any:
        """Return the rows."""
        return self._engine.sql(query).to_arrow_table()

    def close(self) -> None:
        """Close the connection."""
        self._engine.close()


class DataFusion(DuckDb):
    """DataFusion."""

    modules = ("datafusion", "pyarrow")
    packages = ("datafusion",)

    def open(self, place: Place) -> None:
        """Register the files."""
        import datafusion

        self.data = place.data
        self._engine = datafusion.SessionContext()
        for table in ("cell", "donor"):
            self._engine.register_parquet(table, place.source / f"{table}.parquet")

    def close(self) -> None:
        """Forget the context."""
        del self._engine

    def sql(self, query: str) -> Any:
        """Return the rows."""
        return self._engine.sql(query).to_arrow_table()


class Polars(DataFusion):
    """polars."""

    modules = ("polars", "pyarrow")
    packages = ("polars",)

    def open(self, place: Place) -> None:
        """Scan the files."""
        import polars as pl

        self.data = place.data
        tables = {
            name: pl.scan_parquet(place.source / f"{name}.parquet") for name in ("cell", "donor")
        }
        self._engine = pl.SQLContext(tables)

    def sql(self, query: str) -> Any:
        """Return the rows."""
        return self._engine.execute(query).collect().to_arrow()
