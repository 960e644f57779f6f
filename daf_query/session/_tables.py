"""The table of an axis, for other engines: a pyarrow Dataset, or a lazy frame of polars."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from daf_query.dataframes import scan_polars
from daf_query.session._connected import Connected
from daf_query.table import TableDataset, with_matrix_columns
from daf_storage import errors

if TYPE_CHECKING:
    import polars as pl


class Tables(Connected):
    """What a session hands to other engines."""

    def table(
        self,
        axis: str,
        *,
        schema: str | None = None,
        matrix_columns: Mapping[str, tuple[str, str, str]] | None = None,
        columns: Collection[str] | None = None,
    ) -> TableDataset:
        """Return the table of an axis as a pyarrow Dataset, for DuckDB, polars and pyarrow.

        Parameters
        ----------
        schema
            Which data set, where several are connected.
        matrix_columns
            More columns, by name: the other axis of a matrix, its name, and an entry of that axis,
            such as ``("gene", "X", "CD8A")``.  Of several data sets as one, it is NULL for those
            that lack it.
        columns
            The only columns of the axis that are needed, also for filters.  Of many data sets as
            one, the metadata of others are not read, and the table may lack these.

        Raises
        ------
        AxisNotFoundError, MatrixNotFoundError, EntryNotFoundError
            There is no such axis, matrix or entry.
        ExistsError
            The table has a column of that name.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B"])
        >>> daf.add_axis("gene", ["CD8A", "CST3"])
        >>> daf.set_matrix("cell", "gene", "X", [[0.0, 5.0], [2.0, 0.0]])
        >>> table = connect(daf).table("cell", matrix_columns={"cd8": ("gene", "X", "CD8A")})
        >>> table.to_table(columns=["name", "cd8"]).to_pydict()
        {'name': ['A', 'B'], 'cd8': [0.0, 2.0]}
        """
        tables = self._connections.schema(schema)
        if not tables.has_axis(axis):
            raise errors.axis_not_found(tables.location, axis, tables.axes_set())
        found = tables.dataset(axis, None if columns is None else frozenset(columns))
        return with_matrix_columns(found, matrix_columns or {})

    def lazy_frame(
        self,
        axis: str,
        *,
        schema: str | None = None,
        matrix_columns: Mapping[str, tuple[str, str, str]] | None = None,
    ) -> pl.LazyFrame:
        """Return the table of an axis as a LazyFrame of polars; nothing is read until it is used.

        It reads the columns, the rows of the filter, and the first rows that its query needs.

        Parameters
        ----------
        schema, matrix_columns
            As for `table`.

        Raises
        ------
        AxisNotFoundError, MatrixNotFoundError, EntryNotFoundError
            There is no such axis, matrix or entry.
        MissingDependencyError
            polars is not installed.

        Examples
        --------
        >>> import daf_storage, polars as pl
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 2, 3])
        >>> frame = connect(daf).lazy_frame("cell")
        >>> frame.filter(pl.col("age") > 1).select("name").collect().to_dict(as_series=False)
        {'name': ['B', 'C']}
        """
        table = self.table(axis, schema=schema, matrix_columns=matrix_columns)
        frame: pl.LazyFrame = scan_polars(table)
        return frame
