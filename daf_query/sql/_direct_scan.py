"""Queries that are a scan of one table and nothing else, which the engine need not plan.

``SELECT columns FROM axis WHERE condition`` and ``SELECT count(*)`` of the same, where the columns
are written by their names and the condition is a simple one; the first rows, too (``LIMIT``).
Rows, names and types are those that the engine would give, in the order of the axis.  It takes
milliseconds to plan what takes less than one to answer; and for a few rows, the engine would read
whole partitions.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

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
from daf_query.sql._collection_schema import CollectionSchema
from daf_query.sql._data_set_schema import DafSchema
from daf_query.sql._direct_groups import DirectGroups
from daf_query.sql._engine_context import ENGINE
from daf_query.sql._planning import PlanningContext, current_context, planning
from daf_query.sql._simple_condition import (
    ColumnNames,
    UncertainError,
    name_of,
    names_in,
    require,
    simple_condition,
    simple_tokens,
)
from daf_query.sql._simple_groups import SimpleGroups, simple_groups
from daf_query.syntax import Token
from daf_query.table import TableColumns, cast_batches, nullable
from daf_storage import DafError, errors

MAX_ROWS: Final = 1 << 20
"""Of a longer axis the engine scans several partitions side by side, which saves more."""
_MAX_FIRST_ROWS: Final = 1 << 16
_MAX_REMEMBERED: Final = 1 << 8
_WHOLE: Final = re.compile(r"\d{1,9}")
_PLANNED: Final = PlanningContext()


@dataclass(frozen=True, slots=True)
class FirstRows:
    """Which of the matching rows are selected, in the order of the axis."""

    limit: int
    """How many of them."""
    offset: int = 0
    """How many are passed over before."""
    by_index: bool = False
    """Whether they are sorted by index; of several data sets that is another order."""


@dataclass(frozen=True, slots=True)
class SimpleSelect:
    """A query of one table, as it is written."""

    columns: tuple[str, ...] | Literal["*"]
    """What is selected; nothing if rows are counted."""
    schema: str | None
    """The schema that it names."""
    table: str
    sql: str
    """The query, of which the condition has the tokens."""
    condition: tuple[Token, ...]
    """What stands after WHERE; empty for all rows."""
    used: frozenset[str]
    """Names that it has, of columns and maybe others."""
    count: str | None = None
    """What the number of rows is called, if they are counted."""
    first: FirstRows | None = None
    """Which rows are selected; None for all."""


@functools.lru_cache(_MAX_REMEMBERED)
def simple_select(query: str) -> SimpleSelect | None:
    """Return the parts of a query of one table; None if it has others.  Parsed once.

    >>> simple_select("SELECT name, age FROM cell WHERE age > 60").columns
    ('name', 'age')
    >>> simple_select("SELECT name FROM cell ORDER BY index LIMIT 3").first
    FirstRows(limit=3, offset=0, by_index=True)
    >>> simple_select("SELECT name FROM cell ORDER BY name") is None
    True
    """
    try:
        return _select_of(query, simple_tokens(query))
    except (UncertainError, IndexError):
        return None


@functools.lru_cache(_MAX_REMEMBERED)
def _condition_of(sql: str) -> tuple[tuple[Token, ...], frozenset[str]]:
    """Return the tokens of a condition, and its names; none if the engine is to be asked."""
    try:
        tokens = simple_tokens(sql)
    except UncertainError:
        tokens = ()
    return tokens, names_in(tokens, sql)


def _select_of(query: str, tokens: Sequence[Token]) -> SimpleSelect:
    require(is_so=tokens[0].is_word("SELECT"))
    if tokens[-1].is_operator(";"):
        tokens = tokens[:-1]
    place = next((n for n, token in enumerate(tokens) if token.is_word("FROM")), len(tokens))
    columns, count = _selected(query, tokens[1:place])
    rest = tokens[place + 1 :]
    table, schema = name_of(rest[0], query), None
    rest = rest[1:]
    if rest and rest[0].is_operator("."):
        schema, table, rest = table, name_of(rest[1], query), rest[2:]
    rest, first = _first_rows(query, rest)
    require(is_so=first is None or count is None)
    if rest:
        require(is_so=rest[0].is_word("WHERE") and len(rest) > 1)
        require(is_so=not any(token.is_word("GROUP", "ORDER", "LIMIT", "OFFSET") for token in rest))
    used = names_in(rest, query).union(() if columns == "*" else columns)
    return SimpleSelect(columns, schema, table, query, tuple(rest[1:]), used, count, first)


def _first_rows(query: str, tokens: Sequence[Token]) -> tuple[Sequence[Token], FirstRows | None]:
    """Return the tokens before LIMIT, and before ORDER BY index; and what these ask for."""
    place = next((n for n, token in enumerate(tokens) if token.is_word("LIMIT")), None)
    if place is None:
        return tokens, None
    numbers, before = tokens[place + 1 :], tokens[:place]
    if len(numbers) == 3:
        require(is_so=numbers[1].is_word("OFFSET"))
        numbers = numbers[::2]
    require(is_so=len(numbers) in (1, 2) and all(_WHOLE.fullmatch(n.text) for n in numbers))
    limit, *offset = (int(number.text) for number in numbers)
    first = FirstRows(limit, sum(offset))
    require(is_so=first.limit <= _MAX_FIRST_ROWS)
    if len(before) > 2 and before[-3].is_word("ORDER") and before[-2].is_word("BY"):
        require(is_so=name_of(before[-1], query) == INDEX)
        before, first = before[:-3], replace(first, by_index=True)
    return before, first


def _selected(
    query: str, tokens: Sequence[Token]
) -> tuple[tuple[str, ...] | Literal["*"], str | None]:
    """Return the selected columns, and what the number of rows is called if it is that."""
    written = [token.text for token in tokens]
    if written == ["*"]:
        return "*", None
    if (
        written[:4] == ["COUNT", "(", "*", ")"]
        and query[slice(tokens[0].start, tokens[0].stop)] == "count"
    ):
        rest = tokens[4:]
        if not rest:
            return (), "count(*)"
        require(is_so=len(rest) == 2 and rest[0].is_word("AS"))
        return (), name_of(rest[1], query)
    names = tuple(name_of(token, query) for token in tokens[::2])
    require(is_so=len(tokens) % 2 == 1 and all(t.is_operator(",") for t in tokens[1::2]))
    require(is_so=len(set(names)) == len(names))
    return names, None


@dataclass(frozen=True, slots=True)
class DirectScan:
    """A scan of the table of an axis that answers a query."""

    tables: DafSchema | CollectionSchema
    """Of several data sets as one, the first rows are scanned: those of the first of them."""
    known: TableColumns
    """The columns of the table, as they are known."""
    names: tuple[str, ...]
    """Those that are selected."""
    predicate: Predicate | None
    count: str | None = None
    """What the number of rows is called, if they are counted."""
    first: FirstRows | None = None
    """Which rows are selected; None for all."""

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
        what = "the rows" if self.first is None else f"the first {self.first.limit:,} rows"
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
        if isinstance(self.tables, CollectionSchema):
            yield from self._first_of_members(self.tables)
            return
        cache = self.tables.cache
        report = ScanReport(self.known.table, self.known.length, cache=cache)
        table = OpenTable(
            self.known.columns,  # all: rows are cut where the engine cuts them, into what is cached
            self.known.length,
            cache,
            report,
            point_indexes=self.known.point_indexes,
            options=self.tables.scan_options,
        )
        scan = Scan(table, plan_scan(table, self.predicate))
        if self.first is not None:
            rows = scan.first(self.names, self.first.limit, self.first.offset)
            yield from cast_batches(rows, self.schema)
            return
        if self.count is None:
            yield from cast_batches(scan.batches(self.names), self.schema)
            return
        yield pa.record_batch([pa.array([scan.count()], pa.int64())], schema=self.schema)

    def _first_of_members(self, tables: CollectionSchema) -> Iterator[pa.RecordBatch]:
        first = self.first or FirstRows(self.known.length)
        table = tables.dataset_among(self.known.table, frozenset(self.names))
        members = table.first_rows(first.offset + first.limit)
        rows = members.to_table(columns=list(self.names))
        batches = rows.slice(first.offset, first.limit).to_batches()
        yield from cast_batches(iter(batches), self.schema)

    def to_table(self) -> pa.Table:
        """Return the rows as a table; errors are those of `batches`."""
        return pa.Table.from_batches(list(self.batches()), self.schema)


DirectRows: TypeAlias = DirectScan | DirectGroups
"""What answers a query without the engine."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    """The predicate of a condition, for the columns of one moment."""

    known: TableColumns
    joined: TableColumns | None
    """Those of the table that is joined."""
    predicate: Predicate | None
    """None if the engine is to be asked."""


@dataclass
class DirectScans:
    """Finds the queries that are a scan of one table and nothing else.

    What a condition means is worked out once, as long as the columns of the table stay the same.
    """

    schemas: dict[str, AxisSchema]
    """The tables of each data set."""
    default: str
    """The schema of tables that are named without one."""
    analysed: int = 0
    """How many conditions were worked out."""
    _remembered: dict[tuple[str, str, str], _Remembered] = field(default_factory=dict)
    _refused: dict[str, tuple[TableColumns, TableColumns | None]] = field(default_factory=dict)

    def of_query(self, query: str) -> DirectRows | None:
        """Return what answers a query; None if the engine is to be asked."""
        select = simple_select(query)
        if select is None:
            return self._groups_of(query)
        schema = self.default if select.schema is None else select.schema
        first = None if select.condition else select.first
        used = None if select.columns == "*" else select.used
        found: tuple[DafSchema | CollectionSchema, TableColumns] | None
        found = self._table(schema, select.table, used)
        if found is None and first is not None and not first.by_index:
            found = self._of_members(schema, select.table, used)
        if found is None:
            return None
        tables, known = found
        is_bounded = select.count is not None or first is not None
        if known.length > MAX_ROWS and not is_bounded:
            return None
        names = tuple(known.schema.names) if select.columns == "*" else select.columns
        if not all(name in known.columns and _is_plain(known, name) for name in names):
            return None
        predicate = None
        if select.condition:
            predicate = self._predicate(schema, known, select.sql, select.condition)
            if predicate is None:
                return None
        return DirectScan(tables, known, names, predicate, select.count, select.first)

    def first_of_query(self, query: str, count: int) -> pa.Table | None:
        """Return the first rows of a query for all of them; None if the engine is to be asked.

        Raises
        ------
        DafError
            A column cannot be read.
        """
        direct = self.of_query(f"{query.rstrip().removesuffix(';')}\nLIMIT {count}")
        return direct.to_table() if isinstance(direct, DirectScan) else None

    def description(self, query: str) -> str:
        """Return how a query is answered without the engine; empty if the engine is asked."""
        with planning(_PLANNED):  # not that of a query whose scans report
            direct = self.of_query(query)
        return "" if direct is None else direct.description

    def _groups_of(self, query: str) -> DirectGroups | None:
        groups = simple_groups(query)
        if groups is None:
            return None
        schema = self.default if groups.item.schema is None else groups.item.schema
        found = self._table(schema, groups.item.table, groups.used)
        if found is None:
            return None
        tables, known = found
        joined = self._joined(groups, schema)
        if groups.join is not None and joined is None:
            return None
        refused = self._refused.get(query)
        if refused is not None and refused[0] is known and refused[1] is joined:
            return None
        predicate = None
        if groups.condition:
            predicate = self._predicate(
                schema, known, query, groups.condition, _names(groups, joined), joined
            )
            if predicate is None:
                return None
        return DirectGroups.of(tables, known, groups, predicate, joined)

    def _joined(self, groups: SimpleGroups, schema: str) -> TableColumns | None:
        """Return the columns of the table that is joined, of the same data set."""
        if groups.join is None:
            return None
        item = groups.join.item
        other = self.default if item.schema is None else item.schema
        found = self._table(other, item.table, groups.used) if other == schema else None
        return None if found is None else found[1]

    def refuse(self, query: str, direct: DirectRows) -> None:
        """Note that a query is one for the engine, as long as the columns stay the same."""
        if len(self._refused) >= _MAX_REMEMBERED:
            self._refused.clear()
        joined = direct.joined if isinstance(direct, DirectGroups) else None
        self._refused[query] = (direct.known, joined)

    def of_rows(self, schema: str, axis: str, condition: str) -> DirectScan | None:
        """Return the scan for the positions of a condition's rows; None as above."""
        tokens, used = _condition_of(condition)
        found = self._table(schema, axis, used) if tokens else None
        if found is None:
            return None
        tables, known = found
        if known.length > MAX_ROWS:
            return None
        predicate = self._predicate(schema, known, condition, tokens)
        return None if predicate is None else DirectScan(tables, known, (INDEX,), predicate)

    def _table(
        self, schema: str, axis: str, used: frozenset[str] | None
    ) -> tuple[DafSchema, TableColumns] | None:
        tables = self.schemas.get(schema)
        if not isinstance(tables, DafSchema) or current_context() != _PLANNED:
            return None
        try:
            if tables.has_added(axis):
                return None
            known = tables.columns(axis) if used is None else tables.columns_for(axis, used)
        except (DafError, errors.DafWarning):  # the engine's path says it, or goes on without it
            return None
        return tables, known

    def _of_members(
        self, schema: str, axis: str, used: frozenset[str] | None
    ) -> tuple[CollectionSchema, TableColumns] | None:
        """Return the table of several data sets as one; None as above."""
        tables = self.schemas.get(schema)
        if not isinstance(tables, CollectionSchema) or current_context() != _PLANNED:
            return None
        try:
            if tables.has_added(axis) or not tables.has_axis(axis):
                return None
            table = tables.dataset(axis) if used is None else tables.dataset_among(axis, used)
            return tables, table.table_columns
        except (DafError, errors.DafWarning):
            return None

    def _predicate(
        self,
        schema: str,
        known: TableColumns,
        sql: str,
        tokens: Sequence[Token],
        names: ColumnNames | None = None,
        joined: TableColumns | None = None,
    ) -> Predicate | None:
        """Return the predicate of a condition; None if the engine is to be asked."""
        key = (schema, known.table, sql)
        remembered = self._remembered.get(key)
        if remembered is None or remembered.known is not known or remembered.joined is not joined:
            self.analysed += 1
            try:
                predicate = simple_condition(sql, tokens, known.schema, names)
            except UncertainError:
                predicate = None
            remembered = _Remembered(known, joined, predicate)
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[key] = remembered
        return remembered.predicate


def _names(groups: SimpleGroups, joined: TableColumns | None) -> ColumnNames:
    """Return how the condition of a query may write the columns of its first table."""
    ambiguous = frozenset[str]() if joined is None else frozenset(joined.columns)
    return ColumnNames(groups.item.qualifiers, ambiguous)


def _is_plain(known: TableColumns, name: str) -> bool:
    """Return whether the engine hands a column on in the type that the table has."""
    kind = known.columns[name].field.type
    is_number = pa.types.is_integer(kind) or kind in (pa.float32(), pa.float64())
    return bool(is_number) or kind in (pa.bool_(), pa.string())
