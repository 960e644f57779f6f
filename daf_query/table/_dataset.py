"""A table as a ``pyarrow.dataset.Dataset``, for DataFusion, DuckDB and polars alike.

**Nouns.** A *fragment* says which rows of a table are to be read, which columns, and with which
filter.  It holds no values: it is pickled, and whoever has it opens the paths and reads.  A *piece*
is the rows of a fragment that are of one data set, with the source that is opened to read them.
What an engine scans side by side in this process are table fragments.

`TableDataset` is a Dataset in name only: the C++ dataset behind it has no rows to give, so every
inherited member is either defined here or refused.  Some functions of pyarrow hand a dataset to
C++, which knows nothing of Python: `UnionDataset`, `Scanner.from_dataset`, the right side of a
join.  Without a C++ dataset they would crash the interpreter; the one behind a table has the
schema, and refuses to be scanned by an error that says what to pass instead.

Filters are applied exactly, and as SQL has it: a row for which the filter is null is left out.

What is scanned for a filter is the table itself or, of several data sets, those that it consists
of: the rest is the same for both.

Engines read tables in threads of their own, and go on for a moment after their consumer has all
that it wants (``LIMIT 3``).  A thread that asks for Python while the interpreter is torn down is
ended by it in the middle of native code, which aborts the process.  So the end of the interpreter
waits until no batch is being made, and none is made after that.
"""

from __future__ import annotations

import atexit
import functools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds

from daf_query._calls import positive_number
from daf_query.distributed import Source, reading, series_of, token_of
from daf_query.index import RTree
from daf_query.matrix import Selection
from daf_query.scan import (
    BATCH_ROWS,
    DEFAULT_OPTIONS,
    INDEX,
    NAME,
    And,
    Column,
    Constant,
    Once,
    OpenTable,
    Positions,
    Predicate,
    Scan,
    ScanOptions,
    ScanReport,
    balanced,
    columns_of,
    field_names,
    first_rows,
    joined,
    parse,
    plan_scan,
)
from daf_query.table._columns import (
    MatrixEntry,
    TableColumns,
    is_of_few_bits,
    wide_columns,
)
from daf_storage import DafError, errors
from daf_storage._lazy import pc
from daf_storage.base import DecodedCache, Span, optional_import
from daf_storage.display import html_element, html_page, html_table, shortened
from daf_storage.stores import ReadEstimate

if TYPE_CHECKING:
    import dask.dataframe as dd

_T = TypeVar("_T")

_QUIET_SECONDS: Final = 0.02
_QUIET_WHILE_OPEN_SECONDS: Final = 0.1
_POLL_SECONDS: Final = 0.002


class _Readers:
    """Which batches are being made, by any thread; single steps are atomic as they are."""

    def __init__(self) -> None:
        self.is_ending = False
        self.opened: set[object] = set()
        self.running: set[object] = set()
        self.last_step = float("-inf")

    def end(self) -> None:
        """Let no more batches be made, and wait for those that are being made.

        A reader that nobody asks for more stays open; one that is asked again is at its end.
        """
        self.is_ending = True
        while self.running or self._is_recent():
            time.sleep(_POLL_SECONDS)

    def _is_recent(self) -> bool:
        quiet = _QUIET_WHILE_OPEN_SECONDS if self.opened else _QUIET_SECONDS
        return time.monotonic() - self.last_step < quiet

    def forget(self) -> None:
        """Forget the readers of the process that was forked: their threads are not here."""
        self.opened.clear()
        self.running.clear()


_readers = _Readers()
atexit.register(_readers.end)
os.register_at_fork(after_in_child=_readers.forget)


def until_interpreter_ends(batches: Iterator[_T]) -> Iterator[_T]:
    """Yield what an engine reads; the end of the interpreter waits for it, and stops it.

    Raises
    ------
    InUseError
        The interpreter is ending.

    Examples
    --------
    >>> list(until_interpreter_ends(iter([1, 2])))
    [1, 2]
    """
    reader = object()
    end: Any = object()
    _readers.opened.add(reader)
    try:
        while True:
            _readers.running.add(reader)
            try:
                if _readers.is_ending:
                    raise errors.InUseError(
                        "the interpreter is ending, so this query is not read to its end"
                    )
                batch = next(batches, end)
            finally:
                _readers.last_step = time.monotonic()
                _readers.running.discard(reader)
            if batch is end:
                return
            yield batch
    finally:
        _readers.opened.discard(reader)


@dataclass(frozen=True, eq=False, repr=False)
class TableScanner:
    """Batches that are filtered and projected already, read as they are asked for.

    All else that engines ask of a ``ds.Scanner`` is asked of one over them, which reads ahead in
    threads of its own.
    """

    projected_schema: pa.Schema
    """The columns that leave."""
    batches: Iterator[pa.RecordBatch]
    """The rows, which are read once."""
    batch_rows: int
    """How many rows a batch may have that leaves."""

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches, none of them with more rows than was asked for."""
        for batch in self.batches:
            for start in range(0, batch.num_rows, self.batch_rows):
                yield batch.slice(start, self.batch_rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows as an Arrow stream."""
        batches = pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())
        return batches.__arrow_c_stream__(requested_schema)

    def to_table(self) -> pa.Table:
        """Return all rows; Ctrl-C ends it between two batches, as it would not end pyarrow's."""
        batches, schema = self.to_batches(), self.projected_schema
        if len(schema):
            return pa.Table.from_batches(batches, schema)
        return pa.table({"none": pa.nulls(self.count_rows())}).select([])

    def count_rows(self) -> int:
        """Return how many rows there are; Ctrl-C ends it as well."""
        return sum(batch.num_rows for batch in self.batches)

    def __getattr__(self, name: str) -> Any:
        """Return a method of pyarrow's scanner: ``head``, ``take``, ``scan_batches``."""
        if name.startswith("_") or not hasattr(ds.Scanner, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        rows = ds.Scanner.from_batches(self.to_batches(), schema=self.projected_schema)
        return getattr(rows, name)


class FileRows(ds.FileSystemDataset):
    """Rows of Parquet or Arrow files as they are when a query begins.

    A dataset of pyarrow remembers of each file how many rows it has, and where they begin.

    Parameters
    ----------
    path
        A file, or a folder of files, of which names such as ``key=value`` are columns.
    file_format
        ``parquet`` or ``ipc``.
    """

    def __init__(self, path: str, file_format: str) -> None:
        self._opening = (os.path.abspath(path), file_format)
        rows = self._opened()
        super().__init__([*rows.get_fragments()], rows.schema, rows.format, rows.filesystem)

    def __reduce__(self) -> Any:
        """Pickle where the files are."""
        return FileRows, self._opening

    def _opened(self) -> ds.FileSystemDataset:
        path, file_format = self._opening
        return ds.dataset(path, format=file_format, partitioning="hive")

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Any]:
        """Yield the parts of the files, of which nothing is known so far.

        Raises
        ------
        InvalidInputError
            The file lacks a column that it had, or has one of another type.
        """
        try:
            rows = self._opened()
        except (OSError, pa.ArrowException):  # a scan of what there was says what is wrong
            return iter(super().get_fragments(filter))
        before, now = ({(f.name, f.type) for f in each.schema} for each in (self, rows))
        is_one = rows.files == [self._opening[0]]  # in a folder, files may lack some
        if is_one and not before <= now:
            other = ", ".join(sorted(f"{name!r} ({kind})" for name, kind in before - now))
            raise errors.InvalidInputError(
                f"{rows.files[0]}: it was replaced by a file without {other}; register it again"
            )
        return iter(rows.replace_schema(self.schema).get_fragments(filter))


ROWS_PER_FRAGMENT: Final = 1 << 20
"""The most rows of a fragment, about, unless it is said."""

_LABEL: Final = "daf-table"


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of the table of one data set."""

    source: Source
    """How the table is opened."""
    row_count: int
    """Number of rows, whatever the filter is."""
    table_rows: int
    """How many rows the table had when the piece was planned."""
    spans: tuple[Span, ...] = ()
    """The rows, ascending; none if they are those of a block."""
    block: tuple[Selection, Selection] | None = None
    """The rows and the columns of a matrix."""


@dataclass(frozen=True, slots=True, eq=False)
class Fragment:
    """Some rows of a table, to be read in any process that sees the same paths.

    Pickled, it is paths, names, numbers and the filter; it never holds values of columns.
    """

    pieces: tuple[Piece, ...]
    """The rows, by data set."""
    schema: pa.Schema
    """The schema of the batches: the columns that are read."""
    filter: pc.Expression | None = None
    """Only rows for which it is true are read; it may name other columns."""

    def __dask_tokenize__(self) -> Any:
        """Return what the keys of a graph follow from."""
        return token_of(self)

    def of(self, columns: Iterable[str]) -> Fragment:
        """Return the same rows with some of the columns."""
        return replace(self, schema=pa.schema([self.schema.field(name) for name in columns]))

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; zones and indexes leave out what the filter excludes.

        Raises
        ------
        SourceNotFoundError
            A path is not there, such as on a worker that does not share the file system.
        InvalidInputError
            The table was changed or replaced since the fragment was planned.
        """
        for piece in self.pieces:
            with reading(piece.source) as table:
                if table.table_columns.length != piece.table_rows:
                    raise piece.source.changed()
                rows = table.rows_of(piece, self.filter)
                yield from rows.to_batches(columns=self.schema.names, filter=self.filter)


@dataclass(frozen=True, eq=False, repr=False)
class TableFragment:
    """Some partitions of a table, or of those that it consists of; a Fragment of pyarrow."""

    dataset: Any
    """The table."""
    pieces: Sequence[tuple[Scan, Span]]
    """Which rows of which scans, ascending of each."""
    filter: pc.Expression | None
    """What the scans were planned for."""

    def scanner(
        self,
        schema: pa.Schema | None = None,  # noqa: ARG002 - pyarrow's signature
        columns: Any = None,
        filter: pc.Expression | None = None,
        batch_size: int = BATCH_ROWS,
        **_: Any,
    ) -> ds.Scanner:
        """Return a scanner of these rows."""
        predicate = self.dataset.predicate_of(filter)
        # Another filter needs another scan: an index may have left out rows for this one.
        is_planned = is_same(filter, self.filter)

        def read(schema: pa.Schema) -> Iterator[pa.RecordBatch]:
            for scan, pieces in groupby(self.pieces, itemgetter(0)):
                spans = [span for _, span in pieces]
                chosen = scan if is_planned else scan.again(predicate, spans)
                yield from chosen.batches(schema, spans)

        if self.dataset.view.engine_strings is not None:
            batch_size = BATCH_ROWS
        return self.dataset.scanner_of(read, predicate, columns, batch_size)

    def to_batches(
        self, schema: pa.Schema | None = None, **kwargs: Any
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches."""
        batches: Iterator[pa.RecordBatch] = self.scanner(schema, **kwargs).to_batches()
        return batches

    def to_table(self, schema: pa.Schema | None = None, **kwargs: Any) -> pa.Table:
        """Return the rows as a table."""
        return self.scanner(schema, **kwargs).to_table()


def is_same(first: Any, second: Any) -> bool:
    """Return whether two filters are written alike; None is no filter."""
    return first is second or (type(first) is type(second) and bool(first.equals(second)))


Read: TypeAlias = Callable[[pa.Schema], Iterator[pa.RecordBatch]]
"""Yields the rows that match, with the columns of a schema in its types."""


class _RefusingFile:
    """A file that cannot be read."""

    closed = False

    def close(self) -> None:
        """Do nothing."""

    def read(self, *_: object) -> NoReturn:
        """Refuse."""
        raise errors.InvalidInputError(
            "a table of a data set cannot be scanned by pyarrow's C++ code; pass its to_table(), "
            "its scanner() or pyarrow.RecordBatchReader.from_stream(table) instead"
        )

    seek = tell = read


_FORMAT: Final = ds.IpcFileFormat()
_FRAGMENT: Final = _FORMAT.make_fragment(_RefusingFile())


@functools.lru_cache(maxsize=64)
def unscannable(schema: pa.Schema) -> ds.Dataset:
    """Return a C++ dataset with a schema, of which no row can be read; that of equal ones is one.

    >>> unscannable(pa.schema([("n", pa.int64())])).schema.names
    ['n']
    """
    return ds.FileSystemDataset([_FRAGMENT], schema, _FORMAT)


def nullable(schema: pa.Schema) -> pa.Schema:
    """Return a schema whose columns may all be NULL."""
    return pa.schema([field.with_nullable(True) for field in schema], schema.metadata)  # noqa: FBT003 - of Arrow


def engine_schema(schema: pa.Schema, strings: pa.DataType) -> pa.Schema:
    """Return a schema as the engine sees it: columns may be NULL, and strings are of some type.

    Names stay as they are: all of them are different, so to make views of them brings nothing.
    """
    fields = [
        field.with_type(strings) if field.type == pa.string() and field.name != NAME else field
        for field in schema
    ]
    return nullable(pa.schema(fields, schema.metadata))


class EngineTable(ds.UnionDataset):
    """A Dataset in name: it has a schema, and no rows in C++."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        # A C++ dataset behind this object, lest pyarrow follow a null pointer.
        ds.UnionDataset.__init__(self, schema, [unscannable(schema)])

    # Not a line of Python: of a Ctrl-C at one the engine would die here.
    schema = property(attrgetter("_schema"), doc="The Arrow schema.")


class ComputedDataset(EngineTable):
    """Rows that a function returns, once; for an engine that evaluates filters itself.

    Parameters
    ----------
    schema
        The names and types of the columns, which are known before.
    compute
        Returns the rows.
    """

    def __init__(self, schema: pa.Schema, compute: Callable[[], pa.Table]) -> None:
        super().__init__(nullable(schema))
        self._rows: Once[pa.Table] = Once(lambda: compute().cast(self._schema))

    def _batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._rows().to_batches()

    def get_fragments(
        self,
        filter: pc.Expression | None = None,  # noqa: ARG002 - pyarrow's signature
    ) -> Iterator[Any]:
        """Yield one fragment, which has all rows; nothing is computed so far."""
        yield self

    def scanner(
        self,
        schema: pa.Schema | None = None,  # noqa: ARG002 - that of a fragment
        columns: Any = None,
        filter: pc.Expression | None = None,
        **_: Any,
    ) -> Any:
        """Return a scanner of all rows; nothing is computed until it is consumed."""
        return ds.Scanner.from_batches(
            until_interpreter_ends(self._batches()),
            schema=self._schema,
            columns=self._schema.names if columns is None else columns,
            filter=filter,
        )


@dataclass(frozen=True, eq=False)
class TableView:
    """Which rows of a table are wanted, and how they are read."""

    condition: Predicate = Constant(value=True)  # noqa: RUF009 - it is frozen
    """Only the rows for which this is true."""
    rows: Positions | None = None
    """Only these rows, ascending."""
    cache: DecodedCache = field(default_factory=DecodedCache)
    """What was decoded by any scan that shares it."""
    reports: list[ScanReport] | None = None
    """Where to leave a report of each scan."""
    options: ScanOptions = DEFAULT_OPTIONS
    """How rows are cut, pruned and read."""
    engine_strings: pa.DataType | None = None
    """The type of strings for DataFusion; None if it is another engine that scans the table.

    Arrow's views of strings are made of the distinct ones by their codes, and DataFusion groups and
    joins them twice as fast.  For it all columns may have NULL (`engine_schema`): over those that
    are declared to have none, it answers ``(SELECT ...) IS NULL`` of no rows, ``NOT IN (SELECT
    ...)`` with NULL on the left and ``x & -x`` wrongly, and fails on a filter above an outer join.
    Batches have our size, not that which it asks for: to hand over so few rows takes longer than to
    make them.
    """


class TableDataset(EngineTable):
    """A table of columns that are read when they are asked for; immutable.

    Parameters
    ----------
    columns
        Its columns.
    location
        Where they are, for messages.
    view
        Which rows are wanted, and how they are read; by default all.
    """

    member_name: str | None = None
    """What the column ``dataset`` of a union calls it; ``None`` for a table of its own."""
    has_positions = False
    """Whether the column ``index`` counts the rows of the whole table."""

    def __init__(
        self, columns: TableColumns, *, location: str, view: TableView | None = None
    ) -> None:
        self.table_columns = columns
        """The columns, and what cannot be a column."""
        self.location = location
        """Where it is, for messages."""
        self.view = view or TableView()
        """Which rows are wanted, and how they are read."""
        self._last: tuple[Any, Predicate] | None = None
        strings, schema = self.view.engine_strings, columns.schema
        super().__init__(schema if strings is None else engine_schema(schema, strings))

    def _with(self, columns: TableColumns, view: TableView) -> Self:
        """Return another table over the same data."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        TableDataset.__init__(other, columns, location=self.location, view=view)
        return other

    def with_view(self, **changes: Any) -> Self:
        """Return the same table, of which other rows are wanted, or read in another way.

        Parameters
        ----------
        **changes
            The fields of `TableView` that are others, by name.
        """
        return self._with(self.table_columns, replace(self.view, **changes))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.location!r}, {self.table_columns.table!r})"

    def _repr_html_(self) -> str:
        columns = self.table_columns
        which = " before its filter" if self.is_filtered else ""
        strong = html_element("strong", shortened(columns.table))
        rows = html_element("div", strong, f": {columns.length:,} rows{which}, of {self.location}")
        cells = [(shortened(each.name), str(each.type)) for each in columns.schema]
        return html_page(rows, html_table(("column", "type"), cells))

    def __reduce__(self) -> Any:
        """Pickle the place, not the data; the other process opens it again."""
        names = ("condition", "rows", "options")  # not the cache, nor the reports
        return _open_again, (*self._place(), {name: getattr(self.view, name) for name in names})

    def _place(self) -> tuple[Callable[..., TableDataset], tuple[Any, ...]]:
        """Return a function and its arguments that open this table in another process."""
        raise errors.InvalidInputError(f"{self!r} cannot be pickled; pickle its to_table()")

    @property
    def options(self) -> ScanOptions:
        """How its rows are cut, pruned and read."""
        return self.view.options

    @property
    def is_filtered(self) -> bool:
        """Whether `filter` leaves only some of the rows."""
        return self.view.condition != Constant(value=True) or self.view.rows is not None

    def predicate_of(self, expression: Any) -> Predicate:
        """Return what a filter, and that of the table, ask of the rows.

        DataFusion passes constants as Arrow scalars, and each filter several times: the last one
        is parsed once.  It asks from several threads.
        """
        last = self._last
        if last is None or not is_same(expression, last[0]):
            is_constant = isinstance(expression, pa.Scalar)
            requested = pc.scalar(bool(expression.as_py())) if is_constant else expression
            parts = [self.view.condition, parse(requested, self.table_columns.schema)]
            self._last = last = expression, joined(And, parts)
        return last[1]

    def _members(self) -> Iterator[TableDataset]:
        """Yield the tables whose rows it has, one after the other."""
        yield self

    def _scanned(self, predicate: Predicate) -> Iterable[TableDataset]:  # noqa: ARG002 - of unions
        """Return the tables that are scanned for a predicate; others have no row for it."""
        return self._members()

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[TableFragment]:
        """Yield groups of partitions that can be scanned side by side; each ends where chunks end.

        Partitions in which the filter cannot be true are left out; there is one group at least.
        """
        predicate = self.predicate_of(filter)
        scans = [table.scan(predicate) for table in self._scanned(predicate)]
        pieces = [(scan, span) for scan in scans for span in scan.plan.partitions]
        groups = balanced(pieces, lambda piece: piece[1].size, max_groups=self.options.threads)
        return (TableFragment(self, group, filter) for group in groups or [[]])

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export all rows as an Arrow stream."""
        stream: object = self.scanner().__arrow_c_stream__(requested_schema)
        return stream

    def scan(self, predicate: Predicate | None) -> Scan:
        """Return the scan for a predicate, planned; no values were read."""
        table = self.open_table()
        return Scan(table, plan_scan(table, predicate))

    def readable(self) -> Self:
        """Return the same table without columns that turned out to be unreadable."""
        columns = self.table_columns.readable()
        return self if columns is self.table_columns else self._with(columns, self.view)

    def scanner(
        self,
        columns: Any = None,
        filter: pc.Expression | None = None,
        batch_size: int = BATCH_ROWS,
        **_: Any,
    ) -> ds.Scanner:
        """Return a scanner of all rows; nothing is read until it is consumed."""
        predicate = self.predicate_of(filter)
        scans = (table.scan(predicate) for table in self._scanned(predicate))

        def read(schema: pa.Schema) -> Iterator[pa.RecordBatch]:
            return chain.from_iterable(scan.batches(schema) for scan in scans)

        return self.scanner_of(read, predicate, columns, batch_size)

    def scanner_of(
        self, read: Read, predicate: Predicate, columns: Any, batch_rows: int
    ) -> ds.Scanner:
        """Return a scanner of columns; nothing is read so far."""
        if isinstance(columns, Mapping):  # as datasets of pyarrow take them
            raise errors.UnsupportedInputError("columns= are names, not expressions: write SQL")
        names = self.schema.names if columns is None else columns
        needed = self._available({*names, *columns_of(predicate)})
        reports = self.view.reports
        if reports is not None and (notes := self._downloads(needed)):
            reports.append(ScanReport(self.table_columns.table, 0, notes=notes))
        schema = pa.schema([self.schema.field(name) for name in names])
        return TableScanner(schema, until_interpreter_ends(read(schema)), batch_rows)

    def pieces(
        self, filter: pc.Expression | None, needed: Sequence[str], rows: int
    ) -> Iterator[Piece]:
        """Yield the rows that a filter may leave, in pieces of about so many that end with chunks.

        Parameters
        ----------
        needed
            The columns whose version counts, those of filters among them.
        """
        options = replace(self.options, partition_rows=rows, min_partition_rows=rows)
        predicate, length = self.predicate_of(filter), self.table_columns.length
        left = self.with_options(options).scan(predicate).plan.partitions if length else ()
        source = None
        for span in left:
            if span.size:
                source = source or Source.of(
                    self, f"the table {self.table_columns.table!r}", needed
                )
                yield Piece(source, span.size, length, (span,))

    def rows_of(self, piece: Piece, filter: pc.Expression | None) -> TableDataset | TableFragment:
        """Return the rows of a piece, which another process may have planned; nothing is read."""
        scan = self.scan(self.predicate_of(filter))
        return TableFragment(self, [(scan, span) for span in piece.spans], filter)

    def data_version(self, columns: Iterable[str]) -> str | None:  # noqa: ARG002 - of an axis
        """Return what changes with the values of columns, in any process; None if unknown."""
        return None

    def open_table(
        self,
        title: str | None = None,
        opened: Mapping[str, Column] | None = None,
        required: Sequence[Predicate] = (),
    ) -> OpenTable:
        """Return the table as one query reads it.

        Parameters
        ----------
        title
            What a report calls it; by default its name.
        opened
            What reads the columns of this query; by default the columns of the table.
        required
            Only the rows for which these are true.
        """
        columns, view = self.table_columns, self.view
        cache = view.cache if view.reports is None else view.cache.counter()
        report = ScanReport(title or columns.table, columns.length, cache=cache)
        if view.reports is not None:
            notes = {name: getattr(each, "note", "") for name, each in columns.columns.items()}
            report.notes.update({name: str(note) for name, note in notes.items() if note})
            view.reports.append(report)
        return OpenTable(
            opened or columns.columns,
            columns.length,
            cache,
            report,
            rows=view.rows,
            required=required,
            find_indexes=columns.indexes,
            options=view.options,
        )

    def fragments(
        self,
        columns: Sequence[str],
        filter: pc.Expression | None = None,
        *,
        rows: int = ROWS_PER_FRAGMENT,
    ) -> list[Fragment]:
        """Cut the table into fragments that end where chunks end, without those that cannot match.

        Parameters
        ----------
        columns
            Which columns are read, in this order.
        filter
            Only rows for which it is true.
        rows
            The most rows of a fragment, about: chunks are not cut, and small data sets are joined.

        Raises
        ------
        NotFoundError
            There is no such column.
        """
        needed = self._available({*columns, *columns_of(self.predicate_of(filter))})
        schema = pa.schema([self.schema.field(name) for name in columns])
        pieces = self.pieces(filter, sorted(needed), rows)
        return [Fragment(tuple(group), schema, filter) for group in _joined(pieces, rows)]

    def to_dask_dataframe(
        self,
        *,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        rows_per_partition: int = ROWS_PER_FRAGMENT,
    ) -> dd.DataFrame:
        """Return a ``dask.dataframe.DataFrame`` whose partitions are read when they are computed.

        Each task carries the path, the filter and a range of rows: workers of a cluster open the
        path themselves.  Partitions in which the filter cannot be true are left out; of the others
        only the columns are read that a computation needs.

        Parameters
        ----------
        columns
            All by default; the position of a row, ``index``, is the index of the frame.
        filter
            Only the rows for which this is true.
        rows_per_partition
            About how many rows a partition has, before they are filtered; it ends where chunks do.

        Returns
        -------
        dask.dataframe.DataFrame
            Indexed by the positions of the rows, so its divisions are known.  Of several data sets
            as one, whose positions begin again in each, the index of each partition counts from 0,
            and divisions are unknown.  Integers and booleans that may be missing are pandas'
            nullable ones, strings and categories strings of Arrow.

        Raises
        ------
        MissingDependencyError
            Dask is not installed.
        NotFoundError
            There is no such column.
        InvalidInputError
            ``rows_per_partition`` is no number of rows.

        Examples
        --------
        >>> import daf_query, daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [30, 60, 90])
        >>> frame = daf_query.connect(daf).table("cell").to_dask_dataframe(columns=["age"])
        >>> frame.divisions, frame["age"].sum().compute(scheduler="threads").item()
        ((0, 2), 180)
        """
        size = positive_number(rows_per_partition, "rows_per_partition")
        names, has_positions = self.schema.names, self.has_positions
        if columns is not None:
            names = list(columns)
        elif has_positions:
            names.remove(INDEX)
        read = names if not has_positions or INDEX in names else [*names, INDEX]
        fragments = self.fragments(read, filter, rows=size)
        nothing = Fragment((), pa.schema([self.schema.field(name) for name in read]))
        reads, divisions = ReadFragment(tuple(names), INDEX if has_positions else None), None
        if has_positions:
            starts = [each.pieces[0].spans[0].start for each in fragments] or [0]
            end = fragments[-1].pieces[-1].spans[-1].stop if fragments else 0
            divisions = (*starts, max(end - 1, starts[-1]))
        return optional_import("dask.dataframe", extra="dask").from_map(
            reads, fragments or [nothing], meta=reads(nothing), divisions=divisions, label=_LABEL
        )

    def count_rows(self, filter: pc.Expression | None = None, **kwargs: Any) -> int:
        """Return the number of rows; without a filter nothing is read."""
        if filter is None and not self.is_filtered:
            return self.table_columns.length
        return int(self.scanner(columns=[], filter=filter, **kwargs).count_rows())

    def filter(self, expression: pc.Expression) -> Self:
        """Return the same table with only the rows for which ``expression`` is true."""
        return self.with_view(condition=self.predicate_of(expression))

    def first(
        self, schema: pa.Schema, predicate: Predicate | None, count: int, offset: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """Yield the first rows for which a predicate is true, after some others, in their order."""
        scans = (table.scan(predicate) for table in self._members())
        return until_interpreter_ends(first_rows(scans, schema, count, offset))

    def with_options(self, options: ScanOptions) -> Self:
        """Return the same table, which is cut, pruned and read in another way."""
        return self.with_view(options=options)

    def rtree(self, column: str) -> RTree | None:  # noqa: ARG002 - of a Zarr table
        """Return the R-tree of a column of geometries, checked; None without one."""
        return None

    def with_matrix_columns(self, entries: Mapping[str, MatrixEntry]) -> Self:
        """Return the same table with entries of matrices as columns, by their names.

        Raises
        ------
        ExistsError
            The table has a column of that name.
        MatrixNotFoundError, EntryNotFoundError
            There is no such matrix over the axis, or its other axis has no such entry.
        """
        raise errors.InvalidInputError(
            f"{self!r} is not the table of an axis, so no matrix is over it ({', '.join(entries)})"
        )

    def with_wide_integers(self, names: AbstractSet[str]) -> Self:
        """Return the same table, in which integers of few bits are Int64 in columns of some names.

        Arithmetic with them is exact then; the columns of other names stay as they are.

        Raises
        ------
        UnsupportedDataError
            When rows are read: one of the values is above 2^63 - 1.

        Examples
        --------
        >>> import daf_query, daf_storage, numpy
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A"], vectors={"age": numpy.array([3], "u1")})
        >>> table = daf_query.connect(daf).table("cell")
        >>> table.with_wide_integers({"age"}).schema.field("age").type
        DataType(int64)
        """
        if not any(each.name in names and is_of_few_bits(each.type) for each in self.schema):
            return self
        return self._widened(names)

    def _widened(self, names: AbstractSet[str]) -> Self:
        wide = wide_columns(self.table_columns.columns, names)
        return self._with(replace(self.table_columns, columns=wide), self.view)

    def _check_free(self, names: Iterable[str]) -> None:
        """Raise if the table has a column of one of some names."""
        taken = [name for name in names if name in self.table_columns.columns]
        if taken:
            raise errors.ExistsError(
                f"{self.location}: the table {self.table_columns.table!r} has a column "
                f"{taken[0]!r} already; give the entry of the matrix another name"
            )

    def needed(self, columns: Any, filter: pc.Expression | None) -> list[str]:
        """Return the columns that a scan has to read, in the order of the schema.

        Raises
        ------
        NotFoundError
            The table lacks one of them.
        """
        names, found = self.table_columns.columns.keys(), field_names(filter)
        filtered = names if found is None else found  # Arrow may not tell them
        return self._available({*(names if columns is None else columns), *filtered})

    def _downloads(self, names: Iterable[str]) -> dict[str, str]:
        """Return what columns download that are on a server, by name; metadata are read at most."""
        notes = {}
        for name in names:
            read = ReadEstimate()
            for table in self._members():
                column = table.table_columns.columns.get(name)
                # Vectors and entries of matrices have it.
                estimate = getattr(column and column.stored, "estimate", None)
                if estimate is not None:
                    estimate(read)
            if read.is_remote:
                size = f"about {read.size_bytes:,} bytes in {read.requests:,} requests"
                notes[name] = f"downloads {size}"
        return notes

    def _available(self, names: AbstractSet[str]) -> list[str]:
        """Return columns in the order of the schema, all of which have to be there."""
        available = self.table_columns.columns
        if unknown := names - available.keys():
            raise self.column_not_found(min(unknown))
        return [name for name in available if name in names]

    def column_not_found(self, name: str) -> DafError:
        """Return an error that names the columns, or why this one cannot be read."""
        if name in self.table_columns.problems:
            return errors.UnsupportedDataError(self.table_columns.problems[name])
        return self._unknown_column(name)

    def _unknown_column(self, name: str) -> DafError:
        available = self.table_columns.columns
        return errors.NotFoundError(
            f"{self.location}: the table {self.table_columns.table!r} has no column {name!r}; "
            f"it has {errors.choices(name, available)}"
        )


def _open_again(
    make: Callable[..., TableDataset], arguments: tuple[Any, ...], view: Mapping[str, Any]
) -> TableDataset:
    """Make a table again, with the same rows left."""
    return make(*arguments).with_view(**view)


@dataclass(frozen=True, slots=True)
class ReadFragment:
    """Reads a partition of a data frame; what a task of a graph does."""

    names: tuple[str, ...]
    """The columns."""
    index: str | None
    """A column of the positions of the rows, which the index of the frame has; None without."""

    def __dask_tokenize__(self) -> Any:
        """Return what the keys of the graph follow from; the rest a fragment has."""
        return token_of(self.names, self.index)

    def __call__(self, fragment: Fragment, columns: Sequence[str] | None = None) -> Any:
        """Return the rows of a fragment as a DataFrame of pandas; Dask says which columns."""
        names = list(self.names if columns is None else columns)
        chosen = fragment.of(dict.fromkeys([*names, *filter(None, [self.index])]))
        rows = pa.Table.from_batches(chosen.read(), chosen.schema)
        pandas = optional_import("pandas", extra="dask")
        index = pandas.RangeIndex(rows.num_rows)
        if self.index is not None:
            index = pandas.Index(rows.column(self.index).to_numpy(), dtype="int64")
        series = {
            name: series_of(pandas, rows.column(name), chosen.schema.field(name)).set_axis(index)
            for name in names
        }
        return pandas.DataFrame(series, index=index, columns=pandas.Index(names, dtype=object))


def _joined(pieces: Iterable[Piece], rows: int) -> Iterator[list[Piece]]:
    """Yield groups of neighbouring pieces of about so many rows; those of one data set as one."""
    group: list[Piece] = []
    count = 0
    for piece in pieces:
        if group and count + piece.row_count > rows:
            yield group
            group, count = [], 0
        count += piece.row_count
        last = group[-1] if group else None
        if last is None or last.source is not piece.source or piece.block is not None:
            group.append(piece)
        else:
            together = last.row_count + piece.row_count
            group[-1] = replace(piece, spans=(*last.spans, *piece.spans), row_count=together)
    if group:
        yield group
