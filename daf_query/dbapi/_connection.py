"""Connections and cursors of PEP 249 over a session, in the same process."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeAlias

import pyarrow as pa

from daf_query.dbapi import _exceptions as exceptions
from daf_query.dbapi._exceptions import pep_249
from daf_query.sql import QueryResult, pandas_frame
from daf_query.syntax import quoted_name
from daf_storage.spi import optional_import

Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any] | None
"""Values for ``?`` or ``$1`` in their order, or for ``$name`` by name."""
Column: TypeAlias = tuple[str, pa.DataType, None, None, int | None, int | None, bool]
"""Name, type, display size, internal size, precision, scale, and whether it may be NULL."""

_ROWS_AT_ONCE: Final = 1024


class Queries(Protocol):
    """A session, as far as a connection needs one."""

    def sql(self, query: str, *, params: Any = None) -> QueryResult:
        """Plan a query."""


class _Closing:
    """What is closed at the end of ``with``, and refuses everything from then on."""

    def __init__(self) -> None:
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close it; the session stays open."""
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            name = type(self).__name__.lower()
            raise exceptions.InterfaceError(f"the {name} is closed; make another one")


class Connection(_Closing):
    """A connection of PEP 249, read-only; `DafSession.adbc` makes one.

    Threads may share it, each with cursors of its own.

    Examples
    --------
    >>> import daf_query, daf_storage
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["A", "B"])
    >>> daf.set_vector("cell", "age", [30, 60])
    >>> with daf_query.connect(daf).adbc() as connection, connection.cursor() as cursor:
    ...     cursor.execute("SELECT name, age FROM cell WHERE age > ?", (40,)).fetchall()
    [('B', 60)]
    """

    Warning = exceptions.Warning
    Error = exceptions.Error
    InterfaceError = exceptions.InterfaceError
    DatabaseError = exceptions.DatabaseError
    ProgrammingError = exceptions.ProgrammingError
    NotSupportedError = exceptions.NotSupportedError
    OperationalError = exceptions.OperationalError
    DataError = exceptions.DataError
    IntegrityError = exceptions.IntegrityError
    InternalError = exceptions.InternalError

    def __init__(self, session: Queries) -> None:
        super().__init__()
        self._session = session

    def cursor(self) -> Cursor:
        """Return a cursor."""
        self._check_open()
        return Cursor(self)

    def execute(self, operation: str, parameters: Parameters = None) -> Cursor:
        """Return a cursor that has executed a query."""
        return self.cursor().execute(operation, parameters)

    def commit(self) -> None:
        """Do nothing: nothing is written."""
        self._check_open()

    def rollback(self) -> None:
        """Do nothing: nothing is written."""
        self._check_open()

    def adbc_get_table_types(self) -> list[str]:
        """Return the types of tables, as a server of Flight SQL has them."""
        self._check_open()
        return ["TABLE", "VIEW"]

    def adbc_get_table_schema(
        self, table_name: str, *, db_schema_filter: str | None = None
    ) -> pa.Schema:
        """Return the columns of a table.

        Parameters
        ----------
        db_schema_filter
            The schema that it is in, where several data sets are connected.
        """
        parts = [table_name] if db_schema_filter is None else [db_schema_filter, table_name]
        return self._result(f"SELECT * FROM {'.'.join(map(quoted_name, parts))}", None).schema  # noqa: S608 - names are quoted

    def _result(self, operation: str, parameters: Parameters) -> QueryResult:
        self._check_open()
        with pep_249():
            return self._session.sql(operation, params=parameters)


class Cursor(_Closing):
    """A cursor of PEP 249: its rows are computed as they are fetched, and never held together."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection
        """The connection that made it."""
        self.arraysize = 1
        """How many rows `fetchmany` returns, unless it is asked for another number."""
        self._schema: pa.Schema | None = None
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._rows: Iterator[tuple[Any, ...]] = iter(())

    @property
    def description(self) -> list[Column] | None:
        """The columns of the result; the type of each is that of Arrow."""
        if self._schema is None:
            return None
        return [_column(field) for field in self._schema]

    @property
    def rowcount(self) -> int:
        """-1: how many rows there are, is known when all were fetched."""
        return -1

    def execute(self, operation: str, parameters: Parameters = None) -> Self:
        """Execute a query, as far as its first rows; it replaces the result of the one before.

        Parameters
        ----------
        parameters
            A sequence for ``?`` or ``$1``, a mapping for ``$name``.

        Raises
        ------
        ProgrammingError
            The SQL, a name or the parameters are wrong.
        NotSupportedError
            The statement would change something.
        """
        self._check_open()
        self._schema, self._batches, self._rows = None, iter(()), iter(())
        given = list(parameters) if isinstance(parameters, tuple) else parameters
        result = self.connection._result(operation, given)  # noqa: SLF001 - made by it
        with pep_249():
            rows = result.rows()
        self._schema, self._batches = rows.schema, _translated(rows.batches)
        self._rows = _Rows(self._batches)
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Parameters]) -> None:
        """Refuse: it is for statements that write."""
        self._check_open()
        raise exceptions.NotSupportedError(
            f"executemany() is for statements that write, and {len(seq_of_parameters)} sets of "
            f"parameters were given for {operation[:40]!r}; execute a query for each of them"
        )

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row; None if there is none."""
        self._check_result()
        return next(self._rows, None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Return the next rows; fewer, or none, at the end."""
        self._check_result()
        return list(itertools.islice(self._rows, self.arraysize if size is None else size))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows that are left."""
        self._check_result()
        return list(self._rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        self._check_result()
        return self._rows

    def fetch_record_batch(self) -> pa.RecordBatchReader:
        """Return the rows that are left as a stream of Arrow.

        Raises
        ------
        ProgrammingError
            Some rows were fetched one by one.
        """
        schema = self._check_result()
        if isinstance(self._rows, _Rows) and self._rows.has_begun:
            raise exceptions.ProgrammingError(
                "some rows were fetched one by one, so the others cannot be had as Arrow; execute "
                "the query again"
            )
        return pa.RecordBatchReader.from_batches(schema, self._batches)

    def fetch_arrow_table(self) -> pa.Table:
        """Return the rows that are left as an Arrow table."""
        reader = self.fetch_record_batch()
        return pa.Table.from_batches(list(self._batches), reader.schema)

    def fetch_df(self) -> Any:
        """Return the rows that are left as a DataFrame of pandas."""
        with pep_249():
            optional_import("pandas", extra="pandas")
        return pandas_frame(self.fetch_arrow_table())

    def fetch_polars(self) -> Any:
        """Return the rows that are left as a DataFrame of polars."""
        with pep_249():
            polars = optional_import("polars", extra="polars")
        return polars.from_arrow(self.fetch_arrow_table())

    def setinputsizes(self, sizes: object) -> None:
        """Do nothing, as PEP 249 allows."""

    def setoutputsize(self, size: object, column: object = None) -> None:
        """Do nothing, as PEP 249 allows."""

    def close(self) -> None:
        """Let go of the result, and end the query if it computes more rows."""
        super().close()
        self._schema, self._batches, self._rows = None, iter(()), iter(())

    def _check_result(self) -> pa.Schema:
        self._check_open()
        self.connection._check_open()  # noqa: SLF001 - made by it
        if self._schema is None:
            raise exceptions.ProgrammingError("there are no rows to fetch; execute a query first")
        return self._schema


class _Rows(Iterator[tuple[Any, ...]]):
    """The rows of batches as tuples of Python values, made a thousand at a time."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._made: Iterator[tuple[Any, ...]] = iter(())
        self._batch: pa.RecordBatch | None = None
        self._start = 0
        self.has_begun = False
        """Whether a row was asked for."""

    def __next__(self) -> tuple[Any, ...]:
        self.has_begun = True
        while (row := next(self._made, None)) is None:
            part = self._next_part()
            self._made = zip(*(column.to_pylist() for column in part.columns), strict=True)
        return row

    def _next_part(self) -> pa.RecordBatch:
        while self._batch is None or self._start >= self._batch.num_rows:
            self._batch, self._start = next(self._batches), 0
        part = self._batch.slice(self._start, _ROWS_AT_ONCE)
        self._start += _ROWS_AT_ONCE
        return part


def _translated(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches; errors of computing them are those of PEP 249."""
    with pep_249():
        yield from batches


def _column(field: pa.Field) -> Column:
    is_decimal = pa.types.is_decimal(field.type)
    precision = field.type.precision if is_decimal else None
    scale = field.type.scale if is_decimal else None
    return field.name, field.type, None, None, precision, scale, field.nullable


def connect(session: Queries) -> Connection:
    """Return a connection to a session, which stays open when the connection is closed.

    Examples
    --------
    >>> import daf_query, daf_storage
    >>> from daf_query import dbapi
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["A", "B"])
    >>> dbapi.connect(daf_query.connect(daf)).execute("SELECT count(*) FROM cell").fetchone()
    (2,)
    """
    return Connection(session)
