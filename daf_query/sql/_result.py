"""The rows of a query, in the shapes that people work with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import datafusion
import pyarrow as pa

from daf_query._row_files import SUFFIXES, Format, Rows, format_of, save_rows
from daf_query.scan import size_bytes
from daf_query.sql._engine_fork import ENGINE
from daf_storage import DafError, ShowProgress, errors
from daf_storage.spi import optional_import, progress_bar

_T = TypeVar("_T")


class QueryResult(datafusion.DataFrame):
    """The rows of a query, computed each time that they are asked for; `DafSession.sql` makes one.

    It is a ``datafusion.DataFrame``, with all of its methods; those here raise errors in the words
    of the data set.  Numbers are not copied on their way from the mapped file into Arrow.

    Examples
    --------
    >>> import daf_query, daf_storage
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["A", "B"])
    >>> daf.set_vector("cell", "age", [30, 60])
    >>> result = daf_query.connect(daf).sql("SELECT name, age FROM cell ORDER BY age")
    >>> result.to_pydict()
    {'name': ['A', 'B'], 'age': [30, 60]}
    >>> result.to_pandas(arrow_backed=True).dtypes["age"]
    int64[pyarrow]
    """

    def __init__(
        self,
        frame: datafusion.DataFrame,
        explain: Callable[[Exception], Exception],
        again: Callable[[], datafusion.DataFrame | None] | None = None,
        *,
        final: datafusion.DataFrame | None = None,
    ) -> None:
        super().__init__(frame.df)
        self._final = final
        self._explain = explain
        self._again = again

    @property
    def df(self) -> Any:
        """The engine's own frame; refused in a process that lacks the engine's threads."""
        ENGINE.check()
        return self._own_frame

    @df.setter
    def df(self, frame: Any) -> None:
        self._own_frame = frame

    def __reduce__(self) -> NoReturn:
        """Refuse: a result is a plan of this process."""
        raise errors.InvalidInputError(
            "the result of a query cannot be pickled; pickle its to_arrow_table(), or the session "
            "and the SQL"
        )

    def _run(self, work: Callable[[], _T]) -> _T:
        """Run something, and say what went wrong in our words.

        Where a column turns out to be unreadable that the query does not name (``SELECT *``), it
        is run again without it.
        """
        while True:
            try:
                return work()
            except Exception as error:  # noqa: BLE001 - the engine raises plain Exceptions
                if not self._is_planned_again():
                    raise self._explain(error) from None

    def _is_planned_again(self) -> bool:
        """Plan the query without columns that turned out to be unreadable; say if that worked."""
        try:
            frame = None if self._again is None else self._again()
        except DafError:  # it names them
            return False
        if frame is None:
            return False
        self.df = frame.df
        self._final = None
        return True

    def _executed(self) -> datafusion.DataFrame:
        """Return what is executed for the rows of the query itself; `df` is for building upon."""
        ENGINE.check()
        return datafusion.DataFrame(self.df) if self._final is None else self._final

    def collect(self) -> list[pa.RecordBatch]:
        """Return the rows as batches of Arrow."""
        return self._run(lambda: self._executed().collect())

    def count(self) -> int:
        """Return the number of rows."""
        return self._run(lambda: self._executed().count())

    def to_arrow_table(self) -> pa.Table:
        """Return the rows as an Arrow table; whole columns are views of the mapped file."""
        return self._run(lambda: self._executed().to_arrow_table())

    def to_pydict(self) -> dict[str, list[Any]]:
        """Return a list of Python values per column."""
        return self._run(lambda: self._executed().to_pydict())

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return a dictionary of Python values per row."""
        return self._run(lambda: self._executed().to_pylist())

    def to_pandas(self, *, arrow_backed: bool = False) -> Any:
        """Return the rows as a pandas DataFrame.

        Parameters
        ----------
        arrow_backed
            Whether the columns stay in Arrow (``int64[pyarrow]``), without being copied, and
            whole numbers with missing ones stay whole.  Otherwise they become numpy's.
        """
        pandas = optional_import("pandas", extra="pandas")
        table = self.to_arrow_table()
        if arrow_backed:
            return table.to_pandas(types_mapper=pandas.ArrowDtype)
        return table.to_pandas()

    def to_polars(self) -> Any:
        """Return the rows as a polars DataFrame; numbers are not copied."""
        return optional_import("polars", extra="polars").from_arrow(
            self.to_arrow_table(), rechunk=False
        )

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

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows batch by batch as they are computed: together they may exceed memory.

        They come in any order, unless the query has one.
        """
        yield from self.rows().batches

    def rows(self) -> Rows:
        """Return the schema and the stream of batches, of which the first is computed."""
        stream: Iterator[Any] = iter(())

        def begin() -> Any:
            nonlocal stream
            stream = iter(self._executed().execute_stream())
            return next(stream, None)

        def batches(batch: Any) -> Iterator[pa.RecordBatch]:
            while batch is not None:
                yield batch.to_pyarrow()
                try:
                    batch = next(stream, None)
                except Exception as error:  # noqa: BLE001 - as above
                    raise self._explain(error) from None

        first = self._run(begin)
        return Rows(self.schema(), batches(first))

    def save(
        self,
        path: str | Path,
        *,
        format: Format | None = None,  # noqa: A002 - what it is called everywhere
        progress: ShowProgress = "auto",
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

        Raises
        ------
        InvalidInputError
            The suffix says no format, or there is none of that name.
        SourceNotFoundError
            There is no such folder.
        """
        target = Path(path)
        kind = format_of(target) if format is None else format
        if kind not in SUFFIXES.values():
            has = ", ".join(dict.fromkeys(SUFFIXES.values()))
            raise errors.InvalidInputError(f"there is no format {kind!r}; there are {has}")
        total = 0
        rows = self.rows()
        with progress_bar("save", None, show=progress) as bar:

            def counted() -> Iterator[pa.RecordBatch]:
                nonlocal total
                for batch in rows.batches:
                    yield batch
                    total += batch.num_rows
                    bar.add(sum(map(size_bytes, batch.columns)))

            save_rows(Rows(rows.schema, counted()), target, kind)
        return total
