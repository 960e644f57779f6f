"""A table as a ``pyarrow.dataset.Dataset``, for DataFusion, DuckDB and polars alike.

The class is a Dataset in name only: the C++ dataset behind it has no rows to give, so every
inherited member is either defined, here or in `ArrowOperations`, or refused.  Filters are applied
exactly, and as SQL has it: a row for which the filter is null is left out.  Those that can be
parsed as predicates are evaluated by the scan; Arrow evaluates the others, on all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from daf_query.scan import (
    Column,
    OpenTable,
    Positions,
    Predicate,
    Scan,
    ScanOptions,
    ScanPlan,
    ScanReport,
    balanced,
    conjunction,
    note_of,
    parse,
    plan_scan,
    with_sql_membership,
)
from daf_query.table._arrow_operations import BATCH_ROWS, ArrowOperations, Fragment, unscannable
from daf_query.table._columns import NullColumn, is_of_few_bits, wide_columns
from daf_query.table._dask_frames import DaskFrames, PartSpan
from daf_query.table._matrix_columns import MatrixEntry
from daf_query.table._table_columns import TableColumns, table_page
from daf_query.table._table_scanner import (
    TableScanner,
    TableView,
    as_expression,
    both,
    cast_batches,
    is_same_filter,
    plain_schema,
    referenced_columns,
    scanned_batches,
    without,
)
from daf_storage import DafError, errors
from daf_storage.base import DecodedCache, Span


class TableDataset(ArrowOperations, ds.UnionDataset, DaskFrames):
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

    def __init__(
        self, columns: TableColumns, *, location: str, view: TableView | None = None
    ) -> None:
        self._columns = columns
        self._location = location
        self._view = view or TableView()
        self._last_filter: tuple[pc.Expression, Predicate | None] | None = None
        # A C++ dataset behind this object, lest pyarrow follow a null pointer.
        ds.UnionDataset.__init__(self, self.schema, [unscannable(self.schema)])

    def _with(self, columns: TableColumns, view: TableView) -> Self:
        """Return another table over the same data."""
        return type(self)(columns, location=self._location, view=view)

    def _with_view(self, **changes: Any) -> Self:
        return self._with(self._columns, replace(self._view, **changes))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._location!r}, {self._columns.table!r})"

    def _repr_html_(self) -> str:
        columns = self._columns
        return table_page(columns, self._location, is_filtered=self.is_filtered)

    def __reduce__(self) -> Any:
        """Pickle the place, not the data; the other process opens it again."""
        return _open_again, (*self._place(), self._view.pickled())

    def _place(self) -> tuple[Callable[..., TableDataset], tuple[Any, ...]]:
        """Return a function and its arguments that open this table in another process."""
        raise errors.InvalidInputError(f"{self!r} cannot be pickled; pickle its to_table()")

    @property
    def table_columns(self) -> TableColumns:
        """The columns, and what cannot be a column."""
        return self._columns

    @property
    def own_columns(self) -> TableColumns:
        """The columns of the data set itself, where those of a union are shown."""
        return self._columns

    @property
    def location(self) -> str:
        """Where it is, for messages."""
        return self._location

    @property
    def member_name(self) -> str | None:
        """What the column ``dataset`` of a union calls it; ``None`` for a table of its own."""
        return None

    @property
    def view(self) -> TableView:
        """Which rows are wanted, and how they are read."""
        return self._view

    @property
    def cache(self) -> DecodedCache:
        """What was decoded, by any scan that shares it."""
        return self._view.cache

    @property
    def options(self) -> ScanOptions:
        """How its rows are cut, pruned and read."""
        return self._view.options

    @property
    def is_filtered(self) -> bool:
        """Whether `filter` leaves only some of the rows."""
        return self._view.is_filtered

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema."""
        return self._columns.schema

    def get_fragments(
        self,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's signature
    ) -> Iterator[TableFragment]:
        """Yield groups of partitions that can be scanned side by side; each ends where chunks end.

        Partitions in which the filter cannot be true are left out.
        """
        expression = as_expression(filter)
        scan = self.scan(self._parsed(both(self._view.base_filter, expression)))
        groups = balanced(
            scan.plan.partitions, lambda span: span.size, max_groups=self._view.options.threads
        )
        return (TableFragment(self, scan, group, expression) for group in groups or [[Span(0, 0)]])

    def fragment(
        self,
        partitions: Sequence[Span],
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
    ) -> TableFragment:
        """Return a fragment of some partitions, of those that a filter has in `get_fragments`.

        Another process may have planned them: the same filter leaves the same partitions.
        """
        expression = as_expression(filter)
        scan = self.scan(self._parsed(both(self._view.base_filter, expression)))
        return TableFragment(self, scan, partitions, expression)

    def scan(self, predicate: Predicate | None) -> Scan:
        """Return the scan for a predicate, planned; no values were read."""
        table = self.open_table()
        return Scan(table, plan_scan(table, predicate))

    def readable(self) -> Self:
        """Return the same table without columns that turned out to be unreadable."""
        columns = self._columns.readable()
        return self if columns is self._columns else self._with(columns, self._view)

    def scanner(
        self,
        columns: Any = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        batch_size: int = BATCH_ROWS,
        **_: Any,
    ) -> ds.Scanner:
        """Return a scanner of all rows; nothing is read until it is consumed."""
        return self.scanner_of(self.scan, None, columns, filter, batch_size)

    def scanner_of(
        self,
        make_scan: Callable[[Predicate | None], Scan],
        partitions: Sequence[Span] | None,
        columns: Any,
        filter: pc.Expression | None,  # noqa: A002 - pyarrow's name
        batch_rows: int,
    ) -> ds.Scanner:
        """Return a scanner of some partitions, by default of those that the plan has.

        Parameters
        ----------
        make_scan
            Makes the scan of a filter, when the first batch is asked for.
        """
        combined = both(self._view.base_filter, as_expression(filter))
        predicate = self._parsed(combined)
        names = self.needed(columns, combined if predicate is None else None)
        if columns is None:
            columns = self.schema.names
        batches = scanned_batches(make_scan, predicate, names, partitions)
        schema = pa.schema([self.schema.field(name) for name in names])
        if predicate is not None and names == list(columns):
            return TableScanner(schema, batches, batch_rows)
        residual = None if predicate is not None else with_sql_membership(combined, self.schema)
        plain = plain_schema(schema)
        scanner = ds.Scanner.from_batches(
            cast_batches(batches, plain),
            schema=plain,
            columns=columns,
            filter=residual,
            batch_size=batch_rows,
        )
        if plain == schema or isinstance(columns, dict):
            return scanner
        projected = pa.schema([schema.field(name) for name in columns])
        return TableScanner(projected, cast_batches(scanner.to_batches(), projected), batch_rows)

    @property
    def has_positions(self) -> bool:
        """Whether the column ``index`` counts the rows of the whole table."""
        return False

    def part_spans(self) -> list[PartSpan]:
        """Return the spans of rows in which the filter of the table may be true."""
        plan = plan_scan(self.open_table(), self._parsed(self._view.base_filter))
        return [PartSpan(0, span.start, span.stop) for span in plan.partitions]

    def read_spans(self, spans: Sequence[PartSpan], columns: Sequence[str]) -> pa.Table:
        """Return the rows of spans for which the filter is true."""
        partitions = [Span(span.start, span.stop) for span in spans if span.start < span.stop]
        scan = Scan(self.open_table(), ScanPlan.unpruned(partitions, None, self._view.rows))
        return self.scanner_of(
            scan.for_filter(partitions), partitions, list(columns), None, BATCH_ROWS
        ).to_table()

    def filter_columns(self) -> list[str]:
        """Return the columns of the filter of the table."""
        base_filter = self._view.base_filter
        return [] if base_filter is None else sorted(self._columns_of(base_filter))

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
        columns, view = self._columns, self._view
        cache = view.cache if view.reports is None else view.cache.counter()
        report = ScanReport(title or columns.table, columns.length, cache=cache)
        if view.reports is not None:
            notes = {name: note_of(column) for name, column in columns.columns.items()}
            report.notes.update({name: note for name, note in notes.items() if note})
            view.reports.append(report)
        return OpenTable(
            opened or columns.columns,
            columns.length,
            cache,
            report,
            rows=view.rows,
            required=required,
            find_point_indexes=columns.point_indexes,
            options=view.options,
        )

    @property
    def _absent(self) -> frozenset[str]:
        """The columns of a union that are lacking here: they are null."""
        columns = self._columns.columns.items()
        return frozenset(name for name, column in columns if isinstance(column, NullColumn))

    def _parsed(self, expression: pc.Expression | None) -> Predicate | None:
        """Return a filter as a predicate; ``None`` if Arrow has to evaluate it.

        An engine passes the same filter to a table and to each of its fragments.
        """
        last = self._last_filter
        if last is not None and expression is not None and expression.equals(last[0]):
            return last[1]
        predicate = parse(expression, self.schema)
        if predicate is not None and self._view.inferred is not None:
            predicate = conjunction([predicate, self._view.inferred])
        if predicate is not None and self._absent:
            predicate = without(predicate, self._absent)
        if expression is not None:
            self._last_filter = (expression, predicate)
        return predicate

    def predicate_of(self, expression: pc.Expression | None) -> Predicate | None:
        """Return what a filter asks of the columns of a union; ``None`` if Arrow evaluates it."""
        return parse(both(self._view.base_filter, as_expression(expression)), self.schema)

    def count_rows(self, filter: pc.Expression | None = None, **kwargs: Any) -> int:  # noqa: A002 - pyarrow's name
        """Return the number of rows; without a filter nothing is read."""
        if filter is None and not self.is_filtered:
            return self._columns.length
        return int(self.scanner(columns=[], filter=filter, **kwargs).count_rows())

    def filter(self, expression: pc.Expression) -> Self:
        """Return the same table with only the rows for which ``expression`` is true."""
        return self._with_view(base_filter=both(self._view.base_filter, expression))

    def restricted(self, rows: Positions | None, inferred: Predicate | None = None) -> Self:
        """Return the same table, of which only some rows are wanted; see `TableView`."""
        return self._with_view(rows=rows, inferred=inferred)

    def first_rows(self, count: int) -> Self:
        """Return a table that reads little for the sake of its first rows; it may have more.

        Of a filtered table it is not known which rows these are.
        """
        length = self._columns.length
        if self.is_filtered or count >= min(length, self.options.partition_rows):
            return self
        return self.restricted(np.arange(count))

    def with_reports(self, reports: list[ScanReport]) -> Self:
        """Return the same table, whose scans leave their reports in a list."""
        return self._with_view(reports=reports)

    def with_pickled(self, view: Mapping[str, Any]) -> Self:
        """Return the same table with the view of one that was pickled."""
        return self._with_view(**view)

    def with_cache(self, cache: DecodedCache) -> Self:
        """Return the same table, which keeps what it decodes in a cache."""
        return self._with_view(cache=cache)

    def with_options(self, options: ScanOptions) -> Self:
        """Return the same table, which is cut, pruned and read in another way."""
        return self._with_view(options=options)

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
        columns = self._columns
        if not any(is_of_few_bits(c.field.type) for n, c in columns.columns.items() if n in names):
            return self
        wide = wide_columns(columns.columns, names)
        return self._with(replace(columns, columns=wide, point_indexes=lambda *_: ()), self._view)

    def _check_free(self, names: Iterable[str]) -> None:
        """Raise if the table has a column of one of some names."""
        taken = [name for name in names if name in self._columns.columns]
        if taken:
            raise errors.ExistsError(
                f"{self._location}: the table {self._columns.table!r} has a column {taken[0]!r} "
                "already; give the entry of the matrix another name"
            )

    def needed(self, columns: Any, filter: pc.Expression | None) -> list[str]:  # noqa: A002 - pyarrow's name
        """Return the columns that a scan has to read, in the order of the schema.

        Raises
        ------
        NotFoundError
            The table lacks one of them.
        """
        known = self._columns.columns
        needed = set() if filter is None else self._columns_of(filter)
        if isinstance(columns, dict):
            for expression in columns.values():
                needed |= self._columns_of(expression)
        else:
            needed |= set(known if columns is None else columns)
        unknown = needed - set(known)
        if unknown:
            raise self.column_not_found(min(unknown))
        return [name for name in known if name in needed]

    def column_not_found(self, name: str) -> DafError:
        """Return an error that names the columns, or why this one cannot be read."""
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
        fields = {name: column.field for name, column in self._columns.columns.items()}
        return referenced_columns(expression, fields, self.column_not_found)


class TableFragment(Fragment):
    """Some partitions of a `TableDataset`."""

    def __init__(
        self,
        dataset: TableDataset,
        scan: Scan,
        partitions: Sequence[Span],
        filter: pc.Expression | None,  # noqa: A002 - pyarrow's name
    ) -> None:
        super().__init__(dataset)
        self.dataset = dataset
        """The table."""
        self._scan = scan
        self._filter = filter
        self.partitions = partitions
        """Ascending."""

    def __repr__(self) -> str:
        first, last = self.partitions[0].start, self.partitions[-1].stop
        return f"TableFragment({self._dataset!r}, {len(self.partitions)} in [{first}, {last}))"

    @property
    def parts(self) -> Sequence[TableFragment]:
        """The fragments of single tables that it consists of: itself."""
        return (self,)

    @property
    def row_count(self) -> int:
        """Number of rows of the partitions, whatever the filter is."""
        return sum(span.size for span in self.partitions)

    def scanner(
        self,
        schema: pa.Schema | None = None,  # noqa: ARG002 - pyarrow's signature
        columns: Any = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        batch_size: int = BATCH_ROWS,
        **_: Any,
    ) -> ds.Scanner:
        """Return a scanner of these rows."""
        dataset, scan, partitions = self._dataset, self._scan, self.partitions
        if not is_same_filter(as_expression(filter), self._filter):
            # Another filter needs another scan: an index may have left out rows for this one.
            again = scan.for_filter(partitions)
            return dataset.scanner_of(again, partitions, columns, filter, batch_size)
        return dataset.scanner_of(lambda _: scan, partitions, columns, filter, batch_size)

    def count_rows(self, filter: pc.Expression | None = None, **kwargs: Any) -> int:  # noqa: A002 - pyarrow's name
        """Return the number of rows; without a filter nothing is read."""
        if filter is None and not self._dataset.is_filtered:
            return self.row_count
        return int(self.scanner(columns=[], filter=filter, **kwargs).count_rows())


def _open_again(
    make: Callable[..., TableDataset], arguments: tuple[Any, ...], view: Mapping[str, Any]
) -> TableDataset:
    """Make a table again, with the same rows left."""
    return make(*arguments).with_pickled(view)
