"""Queries that are a scan of one table and nothing else, which the engine need not plan.

``SELECT columns FROM axis WHERE condition`` and ``SELECT count(*)`` of the same, where the columns
are written by their names and the condition is a simple one; the first rows, too (``LIMIT``).
Rows, names and types are those that the engine would give, in the order of the axis.  It takes
milliseconds to plan what takes less than one to answer; and for a few rows, the engine would read
whole partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from daf_query.scan import (
    INDEX,
    OpenTable,
    Predicate,
    Scan,
    ScanReport,
    describe,
    plan_scan,
)
from daf_query.sql._axis_schema import AxisSchema
from daf_query.sql._engine_context import ENGINE
from daf_query.sql._planning import current_context
from daf_query.sql._simple_queries import (
    SimpleQuery,
    UncertainError,
    name_in,
    require,
    simple_condition,
    simple_query,
)
from daf_query.syntax import Source, quoted_name
from daf_query.table import TableColumns, cast_batches, nullable
from daf_storage import DafError, errors

MAX_ROWS: Final = 1 << 20
"""Of a longer axis the engine scans several partitions side by side, which saves more."""
_MAX_FIRST_ROWS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class DirectScan:
    """A scan of the table of an axis that answers a query."""

    tables: AxisSchema
    """Of several data sets as one, the first rows are scanned: those of the first of them."""
    known: TableColumns
    """The columns of the table, as they are known."""
    names: tuple[str, ...]
    """Those that are selected."""
    predicate: Predicate | None
    count: str | None = None
    """What the number of rows is called, if they are counted."""
    limit: int | None = None
    """How many of the matching rows are selected, in the order of the axis; None for all."""
    offset: int = 0
    """How many are passed over before."""

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns."""
        if self.count is not None:
            return pa.schema([pa.field(self.count, pa.int64(), nullable=False)])
        return nullable(pa.schema([self.known.columns[name].field for name in self.names]))

    @property
    def description(self) -> str:
        """What is done, in words."""
        where = "" if self.predicate is None else f" where {describe(self.predicate)}"
        what = "the rows" if self.limit is None else f"the first {self.limit:,} rows"
        what = what if self.count is None else "the number of rows"
        return f"{what} of {self.known.table}{where}"

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, in the order of the axis.

        Raises
        ------
        DafError
            A column cannot be read.
        """
        ENGINE.check()
        if self.count is not None and self.predicate is None:
            yield self._counted(self.known.length)
            return
        if self.tables.is_collection:
            yield from self._first_of_members()
            return
        member = self.tables.only
        table = OpenTable(
            self.known.columns,  # all: rows are cut where the engine cuts them, into what is cached
            self.known.length,
            member.cache,
            ScanReport(self.known.table, self.known.length, cache=member.cache),
            find_point_indexes=self.known.point_indexes,
            options=member.scan_options,
        )
        scan = Scan(table, plan_scan(table, self.predicate))
        if self.count is not None:
            yield self._counted(scan.count())
        elif self.limit is None:
            yield from cast_batches(scan.batches(self.names), self.schema)
        else:
            rows = scan.first(self.names, self.limit, self.offset)
            yield from cast_batches(rows, self.schema)

    def _counted(self, count: int) -> pa.RecordBatch:
        return pa.record_batch([pa.array([count], pa.int64())], schema=self.schema)

    def _first_of_members(self) -> Iterator[pa.RecordBatch]:
        limit = self.known.length if self.limit is None else self.limit
        table = self.tables.dataset(self.known.table, frozenset(self.names))
        rows = table.first_rows(self.offset + limit).to_table(columns=list(self.names))
        batches = rows.slice(self.offset, limit).to_batches()
        yield from cast_batches(iter(batches), self.schema)

    def to_table(self) -> pa.Table:
        """Return the rows as a table; errors are those of `batches`."""
        return pa.Table.from_batches(list(self.batches()), self.schema)


@dataclass
class DirectScans:
    """Finds the queries that are a scan of one table and nothing else."""

    schemas: dict[str, AxisSchema]
    """The tables of each data set."""
    default: str
    """The schema of tables that are named without one."""

    def of_query(self, query: str, first: int | None = None) -> DirectScan | None:
        """Return what answers a query; None if the engine is to be asked.

        Parameters
        ----------
        first
            Of how many rows, at most; None for all.
        """
        simple = simple_query(query)
        if simple is None or (first is not None and simple.count is not None):
            return None
        limits = [each for each in (first, simple.limit) if each is not None]
        try:
            return self._scan(simple, min(limits, default=None))
        except UncertainError:
            return None

    def _scan(self, query: SimpleQuery, limit: int | None) -> DirectScan:
        """Return the scan of a query, or of its first rows."""
        is_first = limit is not None and limit <= _MAX_FIRST_ROWS
        require(is_so=is_first or (limit is None and not query.offset))
        require(is_so=is_first or not query.is_by_index)
        is_counted = query.count is not None
        is_whole = query.condition is None and not query.is_by_index
        of_members = is_whole and (is_first or is_counted)
        used = query.used if query.columns or is_counted else None
        tables, known = self._table(query.source, used, of_members=of_members)
        require(is_so=known.length <= MAX_ROWS or of_members)
        names = [] if query.columns or is_counted else known.schema.names
        names += [name_in(query.source, parts, known.columns) for parts in query.columns]
        require(is_so=all(_is_plain(known, name) for name in names))
        predicate = _predicate(query, known)
        return DirectScan(tables, known, tuple(names), predicate, query.count, limit, query.offset)

    def of_rows(self, schema: str, axis: str, condition: str) -> DirectScan | None:
        """Return the scan for the positions of a condition's rows; None as above."""
        table = f"{quoted_name(schema)}.{quoted_name(axis)}"
        # Not an injection: what is more than a condition makes a query of another kind.
        text = f"SELECT {quoted_name(INDEX)} FROM {table} WHERE {condition}"  # noqa: S608
        query = simple_query(text)
        if query is None or query.is_by_index or query.limit is not None:
            return None
        return None if current_context().reports is not None else self.of_query(text)

    def _table(
        self, source: Source, used: frozenset[str] | None, *, of_members: bool = False
    ) -> tuple[AxisSchema, TableColumns]:
        """Return the columns of a table.

        Parameters
        ----------
        used
            The names of those that are needed; None for all.
        of_members
            Whether it may be that of several data sets as one.
        """
        schema, axis = (self.default, *source.parts)[-2:]
        tables = self.schemas.get(schema)
        if tables is None:
            raise UncertainError
        try:
            require(is_so=axis not in tables.added)
            require(is_so=not tables.is_collection or (of_members and tables.has_axis(axis)))
            table = tables.dataset(axis, used)
        except (DafError, errors.DafWarning):  # the engine's path says it, or goes on without it
            raise UncertainError from None
        require(is_so=table.options.direct)
        return tables, table.table_columns


def _predicate(query: SimpleQuery, known: TableColumns) -> Predicate | None:
    """Return the predicate of a condition."""

    def field(parts: tuple[str, ...]) -> pa.Field:
        name = name_in(query.source, parts, known.columns)
        if name is None:
            raise UncertainError
        return known.schema.field(name)

    condition = query.condition
    return None if condition is None else simple_condition(query.statement, condition, field)


def _is_plain(known: TableColumns, name: str | None) -> bool:
    """Return whether the engine hands a column on in the type that the table has."""
    if name is None or name not in known.columns:
        return False
    kind = known.columns[name].field.type
    is_number = pa.types.is_integer(kind) or kind in (pa.float32(), pa.float64())
    return bool(is_number) or kind in (pa.bool_(), pa.string())
