"""SLAF: tables of Lance, asked the fastest way that it has: rows by its index of cells, a gene by a filter of Lance."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._systems._base import Place, System

COLUMNS = ["cell_integer_id", "gene_integer_id", "value"]


class Slaf(System):
    """An array of SLAF, without the names that it would join to each element."""

    modules = ("slaf", "slaf.data", "polars", "pandas", "scipy.sparse", "pyarrow")
    packages = ("slafdb", "pylance", "polars")
    _array: Any

    def load(self) -> None:
        """Import, without its messages."""
        from loguru import logger

        super().load()
        logger.remove()

    def prepare(self, place: Place) -> None:
        """Convert the h5ad file."""
        from slaf.data import SLAFConverter

        converter = SLAFConverter()
        converter.convert(str(place.source), str(place.folder / "x.slaf"))

    def open(self, place: Place) -> None:
        """Open the array."""
        from slaf import SLAFArray

        self.data = place.data
        self._array = SLAFArray(str(place.folder / "x.slaf"))

    def filter_slice(self) -> Any:
        """Return the rows of the cells that the filter leaves."""
        import polars as pl

        obs = self._array.obs
        kept = (pl.col("age") > 60) & (pl.col("donor") == "N3") & (pl.col("score") > 0.8)
        return self._rows(obs.filter(kept)["cell_integer_id"].to_numpy())

    def _rows(self, cells: np.ndarray) -> Any:
        elements = self._array.row_mapper.get_cell_row_ranges_by_selector(cells.tolist())
        table = self._array.expression.take(elements, columns=COLUMNS)
        return self._matrix(table, cells)

    def _matrix(self, table: Any, cells: np.ndarray) -> Any:
        import scipy.sparse as sp

        row, column, value = (table.column(name).to_numpy() for name in COLUMNS)
        shape = (cells.size, self.data.genes)
        places = (np.searchsorted(cells, row), column.astype(np.int32))
        return sp.coo_matrix((value.astype(np.float32), places), shape).tocsr()

    def gene(self) -> Any:
        """Return a gene of all cells."""
        place = int(self.data.gene.removeprefix("gene_"))
        table = self._array.expression.to_table(
            columns=["cell_integer_id", "value"], filter=f"gene_integer_id = {place}"
        )
        values = np.zeros(self.data.cells, np.float32)
        values[table.column("cell_integer_id").to_numpy()] = table.column("value").to_numpy()
        return values

    def mean_by(self) -> Any:
        """Return counts and means, as pandas."""
        import polars as pl

        groups = self._array.obs.select(pl.col("donor").cast(pl.String), "score").group_by("donor")
        counted = groups.agg(n=pl.len(), mean=pl.col("score").mean()).sort("donor")
        return counted.to_pandas()

    def scattered(self) -> Any:
        """Return some columns of some rows."""
        cells, genes = self.data.scattered
        return self._rows(cells)[:, genes]

    def many_rows(self) -> Any:
        """Return many rows."""
        return self._rows(self.data.many)

    def close(self) -> None:
        """Forget the array."""
        del self._array
