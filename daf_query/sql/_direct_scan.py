"""Queries that are a scan of one table and nothing else, which the engine need not plan.

``SELECT columns FROM axis WHERE condition`` and ``SELECT count(*)`` of the same, where the columns
are written by their names and the condition is a simple one; the first rows, too (``LIMIT``).
Rows, names and types are those that the engine would give, in the order of the axis.  It takes
milliseconds to plan what takes less than one to answer; and for a few rows, the engine would read
whole partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from daf_query.scan import (
    INDEX,
    Predicate,
    Scan,
    describe,
    plan_scan,
)
from daf_query.sql._axis_schema import AxisSchema
from daf_query.sql._direct_groups import DirectGroups, opened
from daf_query.sql._engine_context import ENGINE
from daf_query.sql._planning import PlanningContext, current_context, planning
from daf_query.sql._simple_condition import UncertainError, require, simple_condition
from daf_query.sql._simple_queries import Named, SimpleQuery, name_in, simple_query
from daf_query.syntax import Source, quoted_name
from daf_query.table import TableColumns, cast_batches, nullable
from daf_storage import DafError, errors

MAX_ROWS: Final = 1 << 20
"""Of a longer axis the engine scans several partitions side by side, which saves more."""
_MAX_FIRST_ROWS: Final = 1 << 16
_MAX_REMEMBERED: Final = 1 << 8
_PLANNED: Final = PlanningContext()


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

    def check(self) -> None:
        """Do nothing: it is certain that the engine is not to be asked."""

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
        table = opened(self.tables.only, self.known)
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


DirectRows: TypeAlias = DirectScan | DirectGroups
"""What answers a query without the engine."""


class _Remembered(NamedTuple):
    """What answers a query, for the columns of one moment."""

    known: TableColumns
    joined: TableColumns | None
    """Those of the table that is joined."""
    direct: DirectRows | None
    """None if the engine is to be asked."""


@dataclass
class DirectScans:
    """Finds the queries that are a scan of one table and nothing else, or groups of it.

    What a query means is worked out once, as long as the columns of the table stay the same.
    """

    schemas: dict[str, AxisSchema]
    """The tables of each data set."""
    default: str
    """The schema of tables that are named without one."""
    _remembered: dict[tuple[str, int | None], _Remembered] = field(default_factory=dict)

    def of_query(self, query: str) -> DirectRows | None:
        """Return what answers a query; None if the engine is to be asked."""
        simple = simple_query(query)
        if simple is None:
            return None
        if simple.is_grouped and simple.count is None:
            return self._groups(query, simple)
        return self._scan(query, simple, simple.limit)

    def _scan(self, text: str, query: SimpleQuery, limit: int | None) -> DirectRows | None:
        """Return the scan of a query, or of its first rows; None as above."""
        is_first = limit is not None and limit <= _MAX_FIRST_ROWS
        if (limit is not None and not is_first) or (limit is None and query.offset):
            return None
        if query.joined is not None or (query.order and not (is_first and query.is_by_index)):
            return None
        is_whole = query.condition is None and not query.order
        of_members = is_whole and (is_first or query.count is not None)
        used = query.used if query.outputs else None
        found = self._table(query.source, used, of_members=of_members)
        if found is None:
            return None
        tables, known = found
        if known.length > MAX_ROWS and query.count is None and (not is_first or query.condition):
            return None

        def scan() -> DirectScan:
            names = [] if query.outputs else known.schema.names
            for output in query.outputs:
                if isinstance(output.expression, Named):  # else rows are counted
                    name = name_in(query.source, output.expression.parts, known.columns)
                    require(is_so=name == output.name)
                    names.append(output.name)
            require(is_so=all(_is_plain(known, name) for name in names))
            predicate = _predicate(query, known)
            return DirectScan(
                tables, known, tuple(names), predicate, query.count, limit, query.offset
            )

        return self._answer((text, limit), known, None, scan)

    def _answer(
        self,
        key: tuple[str, int | None],
        known: TableColumns,
        joined: TableColumns | None,
        make: Callable[[], DirectRows],
    ) -> DirectRows | None:
        """Return what answers a query, as it is known, or made now."""
        remembered = self._remembered.get(key)
        if remembered is None or remembered.known is not known or remembered.joined is not joined:
            try:
                direct = make()
            except UncertainError:
                direct = None
            remembered = self._remember(key, _Remembered(known, joined, direct))
        return remembered.direct

    def _remember(self, key: tuple[str, int | None], answer: _Remembered) -> _Remembered:
        if len(self._remembered) >= _MAX_REMEMBERED:
            self._remembered.clear()
        self._remembered[key] = answer
        return answer

    def first_of_query(self, query: str, count: int) -> pa.Table | None:
        """Return the first rows of a query for all of them; None if the engine is to be asked.

        Raises
        ------
        DafError
            A column cannot be read.
        """
        simple = simple_query(query)
        if simple is None or simple.is_grouped:
            return None
        limit = count if simple.limit is None else min(count, simple.limit)
        direct = self._scan(query, simple, limit)
        return None if direct is None else direct.to_table()

    def description(self, query: str) -> str:
        """Return how a query is answered without the engine; empty if the engine is asked."""
        with planning(_PLANNED):  # not that of a query whose scans report
            direct = self.of_query(query)
        return "" if direct is None else direct.description

    def _groups(self, text: str, query: SimpleQuery) -> DirectGroups | None:
        found = self._table(query.source, query.used)
        if found is None:
            return None
        (tables, known), joined = found, None
        if query.joined is not None:
            other = self._table(query.joined, query.used)
            if other is None or other[0] is not tables:
                return None
            joined = other[1]

        def groups() -> DirectGroups:
            predicate = _predicate(query, known, joined)
            return DirectGroups.of(tables.only, known, query, predicate, joined)

        direct = self._answer((text, query.limit), known, joined, groups)
        return direct.unprepared() if isinstance(direct, DirectGroups) else None

    def refuse(self, query: str, direct: DirectRows) -> None:
        """Note that a query is one for the engine, as long as the columns stay the same."""
        if isinstance(direct, DirectGroups):
            refused = _Remembered(direct.known, direct.joined, None)
            self._remember((query, direct.query.limit), refused)

    def of_rows(self, schema: str, axis: str, condition: str) -> DirectRows | None:
        """Return the scan for the positions of a condition's rows; None as above."""
        table = f"{quoted_name(schema)}.{quoted_name(axis)}"
        # Not an injection: what is more than a condition makes a query of another kind.
        text = f"SELECT {quoted_name(INDEX)} FROM {table} WHERE {condition}"  # noqa: S608
        query = simple_query(text)
        if query is None or query.is_grouped or query.order or query.limit is not None:
            return None
        return self._scan(text, query, None)

    def _table(
        self, source: Source, used: frozenset[str] | None, *, of_members: bool = False
    ) -> tuple[AxisSchema, TableColumns] | None:
        """Return the columns of a table; None as above.

        Parameters
        ----------
        used
            The names of those that are needed; None for all.
        of_members
            Whether it may be that of several data sets as one.
        """
        schema, axis = (self.default, *source.parts)[-2:]
        tables = self.schemas.get(schema)
        if tables is None or current_context() != _PLANNED:
            return None
        try:
            if tables.has_added(axis):
                return None
            if tables.is_collection and not (of_members and tables.has_axis(axis)):
                return None
            table = tables.dataset(axis, used)
            if not table.options.direct:
                return None
        except (DafError, errors.DafWarning):  # the engine's path says it, or goes on without it
            return None
        return tables, table.table_columns


def _predicate(
    query: SimpleQuery, known: TableColumns, joined: TableColumns | None = None
) -> Predicate | None:
    """Return the predicate of a condition, whose columns are all of the first table."""

    def field(parts: tuple[str, ...]) -> pa.Field:
        name = name_in(query.source, parts, known.columns)
        is_ambiguous = joined is not None and len(parts) == 1 and parts[0] in joined.columns
        if name is None or is_ambiguous:
            raise UncertainError
        return known.schema.field(name)

    condition = query.condition
    return None if condition is None else simple_condition(query.statement, condition, field)


def _is_plain(known: TableColumns, name: str) -> bool:
    """Return whether the engine hands a column on in the type that the table has."""
    if name not in known.columns:
        return False
    kind = known.columns[name].field.type
    is_number = pa.types.is_integer(kind) or kind in (pa.float32(), pa.float64())
    return bool(is_number) or kind in (pa.bool_(), pa.string())
