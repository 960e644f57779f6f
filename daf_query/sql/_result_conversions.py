"""Conversions of the rows of a query: data frames, a relation, files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from daf_query._row_files import BINARY, SUFFIXES, Format, Rows, format_of, save_rows
from daf_query.scan import size_bytes
from daf_storage import ShowProgress, errors
from daf_storage.spi import optional_import, progress_bar


class ResultConversions(ABC):
    """The part of a result that needs its rows alone."""

    @abstractmethod
    def to_arrow_table(self, *, provenance: bool = False) -> pa.Table:
        """Return all rows."""

    @abstractmethod
    def rows(self, *, provenance: bool | None = False) -> Rows:
        """Return the schema and the stream of batches."""

    @abstractmethod
    def _refuse_own_files(self, path: Path) -> None:
        """Refuse to write the rows where a data set lies that they come from."""

    def to_pandas(self, *, arrow_backed: bool = False) -> Any:
        """Return the rows as a pandas DataFrame.

        Parameters
        ----------
        arrow_backed
            Whether the columns stay in Arrow (``int64[pyarrow]``), without being copied, and
            all may be missing.  Otherwise they become numpy's, and booleans and whole numbers
            of which some are missing pandas' own nullable types.

        Examples
        --------
        >>> import daf_query, daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA", "CATA"], vectors={"age": [30, 60, 90]})
        >>> db = daf_query.connect(daf)
        >>> db.sql("SELECT name, age FROM cell WHERE age > 40 ORDER BY age").to_pandas()
           name  age
        0  GATA   60
        1  CATA   90
        """
        pandas = optional_import("pandas", extra="pandas")
        table = self.to_arrow_table()
        if arrow_backed:
            return table.to_pandas(types_mapper=pandas.ArrowDtype)
        return pandas_frame(table)

    def to_polars(self) -> Any:
        """Return the rows as a polars DataFrame; numbers are not copied."""
        polars = optional_import("polars", extra="polars")
        table = self.to_arrow_table()
        frame = polars.from_arrow(table, rechunk=False)
        ordered = {
            name: polars.Enum(table.column(name).chunk(0).dictionary.to_pylist())
            for name, kind in zip(table.column_names, table.schema.types, strict=True)
            if pa.types.is_dictionary(kind) and kind.ordered and table.num_rows
        }
        return frame.cast(ordered) if ordered else frame

    def to_duckdb(self, connection: Any = None) -> Any:
        """Return the rows as a DuckDB relation, without copying them.

        Parameters
        ----------
        connection
            A DuckDB connection; by default, the one that ``duckdb.sql`` uses.
        """
        duckdb = optional_import("duckdb", extra="duckdb")
        table = self.to_arrow_table()
        return (duckdb if connection is None else connection).from_arrow(table)

    def save(
        self,
        path: str | Path,
        *,
        format: Format | None = None,  # noqa: A002 - what it is called everywhere
        progress: ShowProgress = "auto",
        provenance: bool | None = None,
    ) -> int:
        """Write the rows to a file as they are computed, and return how many they were.

        Parameters
        ----------
        path
            What is there is replaced when the new file is complete; if something fails, it stays.
            A symbolic link is followed; a pipe or a device is written into.
        format
            ``parquet``, ``arrow`` (IPC file), ``csv``, ``tsv``, ``json`` or ``ndjson``; by default,
            that of the suffix of the path.  Text is compressed if that ends with ``.gz``.
        progress
            Whether to count on stderr.
        provenance
            Whether a Parquet or Arrow file says where the rows come from (`daf_query.provenance`
            reads it); by default as the session was connected.  Text has no place for it.

        Raises
        ------
        InvalidInputError
            The suffix says no format, or there is none of that name; or a data set that is read
            lies there, or around it.
        SourceNotFoundError
            There is no such folder.
        """
        target = Path(path)
        chosen = format_of(target) if format is None else format
        if chosen not in SUFFIXES.values():
            has = ", ".join(dict.fromkeys(SUFFIXES.values()))
            raise errors.InvalidInputError(f"there is no format {chosen!r}; there are {has}")
        self._refuse_own_files(target)
        total = 0
        rows = self.rows(provenance=provenance if chosen in BINARY else False)
        with progress_bar("save", None, show=progress) as bar:

            def counted() -> Iterator[pa.RecordBatch]:
                nonlocal total
                for batch in rows.batches:
                    yield batch
                    total += batch.num_rows
                    bar.add(sum(map(size_bytes, batch.columns)))

            save_rows(Rows(rows.schema, counted()), target, chosen)
        return total


def pandas_frame(table: pa.Table) -> Any:
    """Return a table with numpy's types; of columns with missing ones, pandas' nullable types.

    Numpy has no missing booleans and integers: they would become objects and floats, which round
    beyond 2^53.
    """
    pandas = optional_import("pandas", extra="pandas")
    nullable = {
        pa.bool_(): pandas.BooleanDtype(),
        **{
            pa.from_numpy_dtype(name.lower()): getattr(pandas, f"{name}Dtype")()
            for name in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
        },
    }
    columns = [_each_value_once(column) for column in table.columns]
    frame = pa.table(columns, schema=table.schema).to_pandas()
    for place, name in enumerate(table.column_names):
        column = table.column(place)
        if column.null_count and column.type in nullable:
            frame[name] = column.to_pandas(types_mapper=nullable.get)
    return frame


def _each_value_once(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column whose dictionary has no value twice, which pandas refuses.

    The engine joins the dictionaries of batches end to end.  Those of several chunks become one by
    ``to_pandas``.
    """
    if column.num_chunks != 1 or not pa.types.is_dictionary(column.type):
        return column
    array = column.chunk(0)
    values = array.dictionary.unique()
    if len(values) == len(array.dictionary):
        return column
    codes = pc.index_in(array.dictionary, value_set=values).take(array.indices)
    unique = pa.DictionaryArray.from_arrays(codes, values, ordered=column.type.ordered)
    return pa.chunked_array([unique.cast(column.type)])
