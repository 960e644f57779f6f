"""A table as a ``pyarrow.dataset.Dataset``, for DataFusion, DuckDB and polars alike.

`TableDataset` is a Dataset in name only: the C++ dataset behind it has no rows to give, so every
inherited member is either defined here or refused.  Some functions of pyarrow hand a dataset to
C++, which knows nothing of Python: `UnionDataset`, `Scanner.from_dataset`, the right side of a
join.  Without a C++ dataset they would crash the interpreter; the one behind a table has the
schema, and refuses to be scanned by an error that says what to pass instead.

Filters are applied exactly, and as SQL has it: a row for which the filter is null is left out.

What is scanned for a filter is the table itself or, of several data sets, those that it consists
of: the rest is the same for both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Final, NoReturn, Self, TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds

from daf_query.distributed import Source
from daf_query.index import RTree
from daf_query.scan import (
    BATCH_ROWS,
    DEFAULT_OPTIONS,
    NAME,
    Column,
    OpenTable,
    Positions,
    Predicate,
    Scan,
    ScanOptions,
    ScanReport,
    balanced,
    columns_of,
    conjunction,
    field_names,
    first_rows,
    parse,
    plan_scan,
)
from daf_query.table._columns import (
    MatrixEntry,
    TableColumn,
    TableColumns,
    is_of_few_bits,
    wide_columns,
)
from daf_query.table._fragments import (
    Fragmented,
    Piece,
    TableFragment,
    TableScanner,
    is_same,
    until_interpreter_ends,
)
from daf_storage import DafError, errors
from daf_storage._lazy import pc
from daf_storage.base import DecodedCache, ForkLock
from daf_storage.display import Markup, html_element, html_page, html_table, shortened
from daf_storage.stores import ReadEstimate

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
        self._compute = compute
        self._table: pa.Table | None = None
        self._lock = ForkLock()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        with self._lock:
            if self._table is None:
                self._table = self._compute().cast(self._schema)
        yield from self._table.to_batches()

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

    base_filter: pc.Expression | None = None
    """Only the rows for which this is true."""
    rows: Positions | None = None
    """Only these rows, ascending."""
    inferred: Predicate | None = None
    """Other rows may be left out; those for which it is not known are kept."""
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

    @property
    def is_filtered(self) -> bool:
        """Whether some rows may be left out."""
        parts = (self.base_filter, self.rows, self.inferred)
        return any(part is not None for part in parts)


class TableDataset(Fragmented, EngineTable):
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
        cells = [(shortened(each.name), str(each.type)) for each in self.table_columns.schema]
        return html_page(table_heading(self), html_table(("column", "type"), cells))

    def __reduce__(self) -> Any:
        """Pickle the place, not the data; the other process opens it again."""
        names = ("base_filter", "rows", "inferred", "options")  # not the cache, nor the reports
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
        return self.view.is_filtered

    def predicate_of(self, expression: Any) -> Predicate:
        """Return what a filter, and that of the table, ask of the rows.

        DataFusion passes constants as Arrow scalars, and each filter several times: the last one
        is parsed once.  It asks from several threads.
        """
        last = self._last
        if last is None or not is_same(expression, last[0]):
            self._last = last = expression, self._parsed(expression)
        return last[1]

    def _parsed(self, expression: Any) -> Predicate:
        if isinstance(expression, pa.Scalar):
            expression = pc.scalar(bool(expression.as_py()))
        predicate = parse(_both(self.view.base_filter, expression), self.table_columns.schema)
        if self.view.inferred is None:
            return predicate
        return conjunction([predicate, self.view.inferred]) or predicate

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

        def read(schema: pa.Schema) -> Iterator[pa.RecordBatch]:
            for table in self._scanned(predicate):
                yield from table.scan(predicate).batches(schema)

        return self.scanner_of(read, predicate, columns, batch_size)

    def scanner_of(
        self, read: Read, predicate: Predicate, columns: Any, batch_rows: int
    ) -> ds.Scanner:
        """Return a scanner of columns; nothing is read so far."""
        needed = self._needed(columns, columns_of(predicate))
        reports = self.view.reports
        if reports is not None and (notes := self._downloads({*needed, *columns_of(predicate)})):
            reports.append(ScanReport(self.table_columns.table, 0, notes=notes))
        names = self.schema.names if columns is None else columns
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

    def count_rows(self, filter: pc.Expression | None = None, **kwargs: Any) -> int:
        """Return the number of rows; without a filter nothing is read."""
        if filter is None and not self.is_filtered:
            return self.table_columns.length
        return int(self.scanner(columns=[], filter=filter, **kwargs).count_rows())

    def filter(self, expression: pc.Expression) -> Self:
        """Return the same table with only the rows for which ``expression`` is true."""
        return self.with_view(base_filter=_both(self.view.base_filter, expression))

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
        found = field_names(filter)
        filtered = self.table_columns.columns if found is None else found  # Arrow may not tell them
        needed = {*self._needed(columns, filtered), *filtered}
        return [name for name in self.table_columns.columns if name in needed]

    def _downloads(self, names: Iterable[str]) -> dict[str, str]:
        """Return what columns download that are on a server, by name; metadata are read at most."""
        notes = {}
        for name in sorted(names):
            read = ReadEstimate()
            for table in self._members():
                column = table.table_columns.columns.get(name)
                stored = column.stored if isinstance(column, TableColumn) else column
                estimate = getattr(stored, "estimate", None)  # vectors and entries of matrices
                if estimate is not None:
                    estimate(read)
            if read.is_remote:
                size = f"about {read.size_bytes:,} bytes in {read.requests:,} requests"
                notes[name] = f"downloads {size}"
        return notes

    def _needed(self, columns: Any, filtered: Iterable[str]) -> list[str]:
        """Return the columns that are passed on, after checking these and others."""
        available = self.table_columns.columns
        if isinstance(columns, Mapping):  # as datasets of pyarrow take them
            raise errors.UnsupportedInputError("columns= are names, not expressions: write SQL")
        needed = set(available if columns is None else columns)
        unknown = (needed | set(filtered)) - set(available)
        if unknown:
            raise self.column_not_found(min(unknown))
        return [name for name in available if name in needed]

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


def table_heading(table: TableDataset) -> Markup:
    """Return the first line of the page of a table."""
    columns = table.table_columns
    strong = html_element("strong", shortened(columns.table))
    which = " before its filter" if table.is_filtered else ""
    return html_element("div", strong, f": {columns.length:,} rows{which}, of {table.location}")


def _both(first: pc.Expression | None, second: pc.Expression | None) -> pc.Expression | None:
    """Return what is true where two filters are; None is no filter."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


def _open_again(
    make: Callable[..., TableDataset], arguments: tuple[Any, ...], view: Mapping[str, Any]
) -> TableDataset:
    """Make a table again, with the same rows left."""
    return make(*arguments).with_view(**view)
