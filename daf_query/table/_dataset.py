"""An axis as a ``pyarrow.dataset.Dataset``, for DataFusion, DuckDB and polars alike.

The class is a Dataset in name only: the C++ dataset behind it has no rows to give (`unscannable`),
so every inherited member is either defined here or refused.  Filters are applied exactly, and as
SQL has it: a row for which the filter is null is left out.  Those that can be parsed (`predicates`)
are evaluated by `scanning`; Arrow evaluates the others, on all rows.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NoReturn, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from daf_query.index import StoredIndexes
from daf_query.scan import (
    DEFAULT_OPTIONS,
    INDEX,
    NAME,
    Column,
    Constant,
    FindPoints,
    Positions,
    Predicate,
    Scan,
    ScanOptions,
    ScanReport,
    VectorColumn,
    balanced,
    both,
    cast_to,
    parse,
    with_sql_membership,
)
from daf_query.table._broken_columns import BrokenColumns
from daf_query.table._recorded_columns import RecordedColumn, recorded_columns
from daf_query.table._unscannable import unscannable
from daf_storage import DafError, DafReader, Origin, errors
from daf_storage.spi import DecodedCache, Span, recorded_types

BATCH_ROWS = 1 << 17
_MISSING_FIELD = re.compile(r"No match for FieldRef\.Name\((.*?)\) in ", re.DOTALL)


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table at one moment, and what could not be made a column."""

    table: str
    """The name of the table: an axis."""
    length: int
    """Its number of rows."""
    columns: Mapping[str, Column]
    """By name; of an axis ``name``, ``index``, then the vectors in alphabetical order."""
    problems: Mapping[str, str]
    """What cannot be read, and why."""
    points: FindPoints = lambda *_: ()
    """Returns the indexes over two of some columns."""
    broken: BrokenColumns = field(default_factory=BrokenColumns)
    """Those that turned out to be unreadable since."""

    def readable(self) -> TableColumns:
        """Return the same without columns that turned out to be unreadable."""
        problems, mismatches = self.broken.problems(), self.broken.mismatches()
        if not problems and not mismatches:
            return self
        columns = {
            name: column.stored
            if name in mismatches and isinstance(column, RecordedColumn)
            else column
            for name, column in self.columns.items()
            if name not in problems
        }
        return replace(self, columns=columns, problems={**self.problems, **problems})

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema; engines ask for it several times per query."""
        return pa.schema([column.field for column in self.columns.values()])


class UnreadableVectorWarning(errors.DafWarning):
    """A vector cannot be read, so a table lacks its column."""


def warn_once(text: str, warned: set[str]) -> None:
    """Warn of something that cannot be read, unless that was done."""
    if text not in warned:
        warned.add(text)
        warnings.warn(text, UnreadableVectorWarning, stacklevel=4)


def warn_of_problems(columns: TableColumns, warned: set[str]) -> None:
    """Say once of each column that a table lacks it, and why."""
    for name, problem in columns.problems.items():
        warn_once(f"the table {columns.table!r} lacks the column {name!r}: {problem}", warned)


def broken_columns(daf: DafReader, axis: str) -> BrokenColumns:
    """Return where it is remembered which columns of an axis turned out to be unreadable."""
    return BrokenColumns(partial(daf.vector_identity, axis))


def axis_columns(daf: DafReader, axis: str, broken: BrokenColumns | None = None) -> TableColumns:
    """Return the columns of an axis; reads metadata and sizes of files only."""
    length = daf.axis_length(axis)
    columns: dict[str, Column] = {}
    problems = {}
    indexes = StoredIndexes(daf, axis)
    for name in (NAME, INDEX, *sorted(daf.vectors_set(axis))):
        try:
            columns[name] = VectorColumn(daf, daf.vector_info(axis, name), indexes)
        except DafError as error:
            problems[name] = str(error)
    broken = broken or broken_columns(daf, axis)
    recorded = recorded_types(daf, axis)
    guarded = recorded_columns(broken.guarded(columns), recorded, daf, axis, broken)
    return TableColumns(axis, length, guarded, problems, indexes.points, broken)


class TableDataset(ds.UnionDataset):
    """A table of columns that are read when they are asked for.

    Parameters
    ----------
    columns
        Its columns.
    location
        Where they are, for messages.
    base_filter
        Only the rows for which this is true.
    rows
        Only these rows, ascending.
    cache
        What was decoded and learnt by other scans, to be shared with them.
    reports
        Where to leave a report of each scan.
    options
        How its rows are cut, pruned and read.
    """

    def __init__(
        self,
        columns: TableColumns,
        *,
        location: str,
        base_filter: pc.Expression | None = None,
        rows: Positions | None = None,
        cache: DecodedCache | None = None,
        reports: list[ScanReport] | None = None,
        options: ScanOptions = DEFAULT_OPTIONS,
    ) -> None:
        self._options = options
        self._columns = columns
        self._location = location
        self._base_filter = base_filter
        self._rows = rows
        self._cache = cache or DecodedCache()
        self._reports = reports
        self._implied: Predicate | None = None
        self._last_filter: tuple[pc.Expression, Predicate | None] | None = None
        self._put_behind()

    def _put_behind(self) -> None:
        """Put a C++ dataset behind this object, lest pyarrow follow a null pointer."""
        ds.UnionDataset.__init__(self, self.schema, [unscannable(self.schema)])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._location!r}, {self._columns.table!r})"

    def __reduce__(self) -> Any:
        """Pickle the place, not the data; the other process opens it again."""
        state = {"base_filter": self._base_filter, "rows": self._rows, "implied": self._implied}
        return _open_again, (*self._place(), state)

    def _place(self) -> tuple[Callable[..., TableDataset], tuple[Any, ...]]:
        """Return what makes this table in another process: a function and its arguments."""
        raise errors.InvalidInputError(f"{self!r} cannot be pickled; pickle its to_table()")

    @property
    def table_columns(self) -> TableColumns:
        """The columns, and what cannot be a column."""
        return self._columns

    @property
    def location(self) -> str:
        """Where it is, for messages."""
        return self._location

    @property
    def cache(self) -> DecodedCache:
        """What was decoded, by any scan that shares it."""
        return self._cache

    @property
    def options(self) -> ScanOptions:
        """How its rows are cut, pruned and read."""
        return self._options

    @property
    def is_filtered(self) -> bool:
        """Whether `filter` leaves only some of the rows."""
        own = (self._base_filter, self._rows, self._implied)
        return any(part is not None for part in own)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema."""
        return self._columns.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """Nothing is known of all rows."""
        return pc.scalar(True)  # noqa: FBT003 - an Arrow literal

    def get_fragments(
        self,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's signature
    ) -> Iterator[TableFragment]:
        """Yield row ranges that can be scanned side by side; each ends where chunks end.

        Ranges in which the filter cannot be true are left out.
        """
        expression = _expression(filter)
        scan = self._scan()
        parts = scan.parts(self._parsed(_both(self._base_filter, expression)))
        groups = balanced(parts, lambda part: part.size, max_groups=self._options.threads)
        return (TableFragment(self, scan, group, expression) for group in groups or [[Span(0, 0)]])

    def readable(self) -> Self:
        """Return the same table without columns that turned out to be unreadable."""
        columns = self._columns.readable()
        return self if columns is self._columns else self._changed(columns=columns)

    def new_scan(self) -> Scan:
        """Return a scan of all rows, which knows of no filter."""
        return self._scan()

    def scanner(
        self,
        columns: Any = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        batch_size: int = BATCH_ROWS,
        **_: Any,
    ) -> ds.Scanner:
        """Return a scanner of all rows; nothing is read until it is consumed."""
        return self.scan(self._scan(), None, columns, filter, batch_size)

    def scan(
        self,
        scan: Scan,
        parts: Sequence[Span] | None,
        columns: Any,
        filter: pc.Expression | None,  # noqa: A002 - pyarrow's name
        batch_rows: int,
    ) -> ds.Scanner:
        """Return a scanner of some parts; by default, of all in which the filter may be true."""
        combined = _both(self._base_filter, _expression(filter))
        predicate = self._parsed(combined)
        names = self._needed(columns, combined if predicate is None else None)
        if columns is None:
            columns = self.schema.names
        batches = self._batches(scan, parts, names, predicate)
        schema = pa.schema([self.schema.field(name) for name in names])
        left = None if predicate is not None else with_sql_membership(combined, self.schema)
        if predicate is not None and names == list(columns):
            return TableScanner(schema, batches, batch_rows)
        plain = _plain(schema)
        scanner = ds.Scanner.from_batches(
            _cast(batches, plain), schema=plain, columns=columns, filter=left, batch_size=batch_rows
        )
        if plain == schema or isinstance(columns, dict):
            return scanner
        wanted = pa.schema([schema.field(name) for name in columns])
        return TableScanner(wanted, _cast(scanner.to_batches(), wanted), batch_rows)

    def _batches(
        self,
        scan: Scan,
        parts: Sequence[Span] | None,
        names: list[str],
        predicate: Predicate | None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches; nothing is planned or read before the first is asked for."""
        chosen = scan.parts(predicate) if parts is None else parts
        is_all = predicate is None or predicate == Constant(value=True)
        yield from scan.batches(chosen, names, None if is_all else predicate)

    def _scan(self) -> Scan:
        own = self._columns
        cache = self._cache
        if self._reports is not None:
            cache = cache.counter()
        report = ScanReport(own.table, own.length, cache=cache)
        if self._reports is not None:
            self._reports.append(report)
        return Scan(own.columns, own.length, cache, report, self._rows, own.points, self._options)

    def _parsed(self, expression: pc.Expression | None) -> Predicate | None:
        """Return what a filter says; None if Arrow has to evaluate it.

        An engine passes the same filter to a table and to each of its fragments.
        """
        last = self._last_filter
        if last is not None and expression is not None and expression.equals(last[0]):
            return last[1]
        predicate = parse(expression, self.schema)
        if predicate is not None and self._implied is not None:
            predicate = both(predicate, self._implied)
        if expression is not None:
            self._last_filter = (expression, predicate)
        return predicate

    def count_rows(self, filter: pc.Expression | None = None, **kwargs: Any) -> int:  # noqa: A002
        """Return the number of rows; without a filter nothing is read."""
        if filter is None and not self.is_filtered:
            return self._columns.length
        return int(self.scanner(columns=[], filter=filter, **kwargs).count_rows())

    def filter(self, expression: pc.Expression) -> Self:
        """Return the same table with only the rows for which ``expression`` is true."""
        return self._changed(base_filter=_both(self._base_filter, expression))

    def restricted(self, rows: Positions | None, implied: Predicate | None = None) -> Self:
        """Return the same table, of which only some rows are wanted.

        Parameters
        ----------
        rows
            Given ascending; there are no others.
        implied
            Others may be left out; those that are not known here are kept.
        """
        return self._changed(rows=rows, implied=implied)

    def with_reports(self, reports: list[ScanReport]) -> Self:
        """Return the same table, whose scans leave their reports in a list."""
        return self._changed(reports=reports)

    def with_state(self, state: Mapping[str, Any]) -> Self:
        """Return the same table with only the rows that were left of a pickled one."""
        return self._changed(**state) if any(one is not None for one in state.values()) else self

    def with_cache(self, cache: DecodedCache) -> Self:
        """Return the same table, which keeps what it decodes in a cache."""
        return self._changed(cache=cache)

    def with_options(self, options: ScanOptions) -> Self:
        """Return the same table, which is cut, pruned and read in another way."""
        return self._changed(options=options)

    def _changed(self, **changes: Any) -> Self:
        """Return a copy that differs in something and shares what was decoded."""
        copy = type(self).__new__(type(self))
        for name, value in vars(self).items():
            setattr(copy, name, value)
        for name, value in {**changes, "last_filter": None}.items():
            setattr(copy, f"_{name}", value)
        copy._put_behind()  # noqa: SLF001 - our own
        return copy

    def sort_by(self, sorting: Any, **kwargs: Any) -> ds.InMemoryDataset:
        """Return the sorted table, in memory."""
        return ds.InMemoryDataset(self.to_table().sort_by(sorting, **kwargs))

    def join(self, right_dataset: Any, *args: Any, **kwargs: Any) -> ds.InMemoryDataset:
        """Return this table joined with another, in memory; SQL does it in a stream."""
        right = right_dataset.to_table()
        return ds.InMemoryDataset(self.to_table().join(right, *args, **kwargs))

    def join_asof(self, right_dataset: Any, *args: Any, **kwargs: Any) -> ds.InMemoryDataset:
        """Return this table joined to the nearest rows of another, in memory."""
        right = right_dataset.to_table()
        return ds.InMemoryDataset(self.to_table().join_asof(right, *args, **kwargs))

    @property
    def children(self) -> NoReturn:
        """Refuse: a table is one, even if its rows are of several data sets."""
        raise errors.InvalidInputError(f"{self!r} has no children; see get_fragments()")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand out all rows as a stream of Arrow, for whoever takes one."""
        return self.scanner().__arrow_c_stream__(requested_schema)

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Refuse: the schema is what the data set stores."""
        raise errors.InvalidInputError(
            f"{self!r}: the schema follows from the stored vectors and cannot be replaced; "
            f"cast the result instead (asked for {schema.names})"
        )

    def _get_fragments(self, filter: pc.Expression | None) -> Iterator[TableFragment]:  # noqa: A002
        return self.get_fragments(filter)

    def _needed(self, columns: Any, filter: pc.Expression | None) -> list[str]:  # noqa: A002
        """Return the columns that a scan has to read, in the order of the schema."""
        own = self._columns.columns
        needed = set() if filter is None else self._columns_of(filter)
        if isinstance(columns, dict):
            for expression in columns.values():
                needed |= self._columns_of(expression)
        else:
            needed |= set(own if columns is None else columns)
        unknown = needed - set(own)
        if unknown:
            raise self.column_not_found(min(unknown))
        return [name for name in own if name in needed]

    def column_not_found(self, name: str) -> DafError:
        """Say which columns there are, or why this one cannot be read."""
        if name in self._columns.problems:
            return errors.UnsupportedDataError(self._columns.problems[name])
        return self._unknown_column(name)

    def _unknown_column(self, name: str) -> DafError:
        known = self._columns.columns
        return errors.NotFoundError(
            f"{self._location}: the table {self._columns.table!r} has no column {name!r}; it has "
            f"{errors.known_names(known, none='none')}{errors.nearest(name, known)}"
        )

    def _columns_of(self, expression: pc.Expression) -> set[str]:
        """Return the columns of an expression: those that binding it finds missing."""
        found: list[pa.Field] = []
        while True:
            try:
                ds.Scanner.from_batches(iter(()), schema=pa.schema(found), filter=expression)
            except pa.ArrowInvalid as error:
                name = self._missing_field(str(error))
                if name in {field.name for field in found} or name is None:
                    return set(self._columns.columns)
                if name not in self._columns.columns:
                    raise self.column_not_found(name) from None
                found.append(self._columns.columns[name].field)
            except pa.ArrowNotImplementedError:
                return set(self._columns.columns)
            else:
                return {field.name for field in found}

    def _missing_field(self, message: str) -> str | None:
        """Return the column that Arrow did not find; names may hold any character."""
        own = [c for c in self._columns.columns if f"FieldRef.Name({c}) in " in message]
        if own:
            return max(own, key=len)
        match = _MISSING_FIELD.search(message)
        return match.group(1) if match else None


class AxisDataset(TableDataset):
    """The table of one axis.

    Parameters
    ----------
    daf
        The data set.
    axis
        The axis; its entries are the rows.
    columns
        Its columns, where they are known already.
    cache, reports, options
        See `TableDataset`.

    Examples
    --------
    >>> import daf_storage
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["TATA", "GATA"])
    >>> daf.set_vector("cell", "age", [30, 60])
    >>> AxisDataset(daf, "cell").to_table(columns=["name"], filter=pc.field("age") > 40).to_pylist()
    [{'name': 'GATA'}]
    """

    def __init__(
        self,
        daf: DafReader,
        axis: str,
        *,
        columns: TableColumns | None = None,
        cache: DecodedCache | None = None,
        reports: list[ScanReport] | None = None,
        options: ScanOptions = DEFAULT_OPTIONS,
    ) -> None:
        super().__init__(
            columns or axis_columns(daf, axis),
            location=daf.location,
            cache=cache,
            reports=reports,
            options=options,
        )
        self._daf = daf

    def _place(self) -> tuple[Callable[..., TableDataset], tuple[Any, ...]]:
        return _open_axis, (self._daf.require_origin(), self._columns.table)

    def _unknown_column(self, name: str) -> DafError:
        own = self._columns
        return errors.vector_not_found(self._location, own.table, name, own.columns)


class TableScanner:
    """Batches that are filtered and projected already; what engines ask of a ``ds.Scanner``."""

    def __init__(
        self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], batch_rows: int
    ) -> None:
        self.projected_schema = schema
        self.dataset_schema = schema
        self._batches = batches
        self._batch_rows = batch_rows

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches, none of them with more rows than was asked for."""
        for batch in self._batches:
            if not batch.num_columns:
                yield batch
                continue
            for start in range(0, batch.num_rows, self._batch_rows):
                yield batch.slice(start, self._batch_rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand out the rows as a stream of Arrow, for whoever takes one."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the batches as a stream."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """Return all rows."""
        if len(self.projected_schema):
            return pa.Table.from_batches(self._batches, self.projected_schema)
        return self._rows().to_table()

    def count_rows(self) -> int:
        """Return how many rows there are."""
        return sum(batch.num_rows for batch in self._batches)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows; reads no more than it has to."""
        return self._rows().head(num_rows)

    def take(self, indices: Any) -> pa.Table:
        """Return rows by their positions among those that are left."""
        return self.to_table().take(pa.array(indices))

    def scan_batches(self) -> Iterator[Any]:
        """Yield the batches as pyarrow's own scanner wraps them."""
        yield from self._rows().scan_batches()

    def _rows(self) -> ds.Scanner:
        return ds.Scanner.from_batches(self.to_batches(), schema=self.projected_schema)


class Fragment:
    """Some rows of a table, as engines ask for them: a scanner, and what follows from it."""

    def __init__(self, dataset: TableDataset) -> None:
        self._dataset = dataset

    @property
    def physical_schema(self) -> pa.Schema:
        """The schema of the whole table."""
        return self._dataset.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """Nothing is known of all rows."""
        return self._dataset.partition_expression

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Any = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        batch_size: int = BATCH_ROWS,
        **_: Any,
    ) -> ds.Scanner:
        """Return a scanner of these rows."""
        raise NotImplementedError

    def to_batches(
        self, schema: pa.Schema | None = None, **kwargs: Any
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches."""
        batches: Iterator[pa.RecordBatch] = self.scanner(schema, **kwargs).to_batches()
        return batches

    def to_table(self, schema: pa.Schema | None = None, **kwargs: Any) -> pa.Table:
        """Return the rows as a table."""
        return self.scanner(schema, **kwargs).to_table()


class TableFragment(Fragment):
    """Some row ranges of a `TableDataset`."""

    def __init__(
        self,
        dataset: TableDataset,
        scan: Scan,
        parts: Sequence[Span],
        filter: pc.Expression | None,  # noqa: A002 - pyarrow's name
    ) -> None:
        super().__init__(dataset)
        self._scan = scan
        self._filter = filter
        self.parts = parts
        """The ranges, ascending."""

    def __repr__(self) -> str:
        first, last = self.parts[0].start, self.parts[-1].stop
        return f"TableFragment({self._dataset!r}, {len(self.parts)} in [{first}, {last}))"

    def scanner(
        self,
        schema: pa.Schema | None = None,  # noqa: ARG002 - pyarrow's signature
        columns: Any = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        batch_size: int = BATCH_ROWS,
        **_: Any,
    ) -> ds.Scanner:
        """Return a scanner of these rows."""
        scan = self._scan if _is_same(_expression(filter), self._filter) else self._all_rows()
        return self._dataset.scan(scan, self.parts, columns, filter, batch_size)

    def _all_rows(self) -> Scan:
        """Return a scan for another filter: an index may have left out rows for this one."""
        return self._dataset.new_scan()

    def count_rows(self, filter: pc.Expression | None = None, **kwargs: Any) -> int:  # noqa: A002
        """Return the number of rows; without a filter nothing is read."""
        if filter is None and not self._dataset.is_filtered:
            return sum(part.size for part in self.parts)
        return int(self.scanner(columns=[], filter=filter, **kwargs).count_rows())


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return a schema without views, which Arrow stores and cannot compare."""
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return pa.schema([field.with_type(plain.get(field.type, field.type)) for field in schema])


def _cast(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        arrays = [
            column if column.type == field.type else cast_to(column, field.type)
            for column, field in zip(batch.columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else batch


def _expression(filter: Any) -> pc.Expression | None:  # noqa: A002 - pyarrow's name
    """Return a filter as an expression: DataFusion passes constants as Arrow scalars."""
    if isinstance(filter, pa.Scalar):
        return pc.scalar(bool(filter.as_py()))
    return filter


def _is_same(first: pc.Expression | None, second: pc.Expression | None) -> bool:
    if first is None or second is None:
        return first is second
    return bool(first.equals(second))


def _both(first: pc.Expression | None, second: pc.Expression | None) -> pc.Expression | None:
    if first is None or second is None:
        return second if first is None else first
    return first & second


def _open_again(
    make: Callable[..., TableDataset], arguments: tuple[Any, ...], state: dict[str, Any]
) -> TableDataset:
    """Make a table again, with the same rows left."""
    return make(*arguments).with_state(state)


def _open_axis(origin: Origin, axis: str) -> AxisDataset:
    return AxisDataset(origin.open(), axis)
