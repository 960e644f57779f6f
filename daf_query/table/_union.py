"""The tables of several data sets as one: the rows of all, and which data set each is of.

Columns go by name.  One that a data set lacks is null there; numbers of different types become the
smallest type that holds them all.  Each data set is scanned by itself: what is true for none of its
rows is not read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from daf_query.scan import (
    DEFAULT_OPTIONS,
    INDEX,
    NAME,
    And,
    Column,
    Constant,
    DictionaryCodes,
    IsNull,
    OpenColumn,
    Or,
    Positions,
    Predicate,
    ScanOptions,
    ScanReport,
    Values,
    balanced,
    columns_of,
    number_array,
)
from daf_query.table._dataset import (
    BATCH_ROWS,
    Fragment,
    TableColumns,
    TableDataset,
    TableFragment,
    TableScanner,
)
from daf_storage import errors
from daf_storage.spi import DecodedCache, Span

DATASET = "dataset"
"""The column that says of which data set a row is."""


class UnionDataset(TableDataset):
    """The rows of several tables.

    Parameters
    ----------
    table
        The name of the table: an axis.
    parts
        The table of each data set, by what the column ``dataset`` calls it.
    location
        Where they are, for messages.

    Examples
    --------
    >>> import daf_storage
    >>> from daf_query import AxisDataset
    >>> runs = {}
    >>> for name in ("monday", "tuesday"):
    ...     daf = daf_storage.MemoryDaf()
    ...     daf.add_axis("cell", [f"{name} 1", f"{name} 2"])
    ...     runs[name] = AxisDataset(daf, "cell")
    >>> table = UnionDataset("cell", runs, location="runs")
    >>> table.to_table(columns=["dataset", "name"]).to_pydict()
    {'dataset': ['monday', 'monday', 'tuesday', 'tuesday'], \
'name': ['monday 1', 'monday 2', 'tuesday 1', 'tuesday 2']}
    """

    def __init__(
        self,
        table: str,
        parts: Mapping[str, TableDataset],
        *,
        location: str,
    ) -> None:
        broken: dict[str, str] = {}
        for part in parts.values():
            broken.update(part.table_columns.problems)
        schemas = {name: part.schema for name, part in parts.items()}
        fields, problems = unified(schemas, table, broken)
        length = sum(part.table_columns.length for part in parts.values())
        options = next((part.options for part in parts.values()), DEFAULT_OPTIONS)
        columns: dict[str, Column] = {field.name: _Absent(field) for field in fields}
        super().__init__(
            TableColumns(table, length, columns, problems), location=location, options=options
        )
        self._parts: list[_Part] = [_Part(name, part, fields) for name, part in parts.items()]

    def _place(self) -> tuple[Callable[..., TableDataset], tuple[Any, ...]]:
        tables = {part.name: part.source for part in self._parts}
        states = [part.state for part in self._parts]
        return _open_union, (self._columns.table, tables, self._location, states)

    def get_fragments(
        self,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's signature
    ) -> Iterator[Any]:
        """Yield groups of row ranges that can be scanned side by side."""
        fragments = [one for part in self._parts for one in part.get_fragments(filter)]
        groups = balanced(fragments, _row_count, max_groups=self._options.threads)
        return (UnionFragment(self, group) for group in groups)

    def scanner(
        self,
        columns: Any = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        batch_size: int = BATCH_ROWS,
        **_: Any,
    ) -> ds.Scanner:
        """Return a scanner of all rows; nothing is read until it is consumed."""
        if columns is None:
            columns = self.schema.names
        return _chained([part.scanner(columns, filter, batch_size) for part in self._parts])

    def filter(self, expression: pc.Expression) -> Self:
        """Return the same table with only the rows for which ``expression`` is true."""
        return self._with([part.filter(expression) for part in self._parts])

    def restricted(self, rows: Positions | None, implied: Predicate | None = None) -> Self:
        """Return the same table, of which only some rows are wanted; see `TableDataset`."""
        if rows is not None:
            raise errors.InvalidInputError(f"{self!r} has no rows of its own to choose from")
        return self._with([part.restricted(None, implied) for part in self._parts])

    def with_reports(self, reports: list[ScanReport]) -> Self:
        """Return the same table, whose scans leave their reports in a list."""
        return self._with([part.with_reports(reports) for part in self._parts])

    def with_cache(self, cache: DecodedCache) -> Self:
        """Return the same table; each part keeps what it decodes in a part of a cache."""
        return self._with([part.with_cache(cache.part()) for part in self._parts])

    def with_options(self, options: ScanOptions) -> Self:
        """Return the same table, which is cut, pruned and read in another way."""
        changed = self._with([part.with_options(options) for part in self._parts])
        changed._options = options  # noqa: SLF001 - our own
        return changed

    @property
    def is_filtered(self) -> bool:
        """Whether `filter` leaves only some of the rows."""
        return any(part.is_filtered for part in self._parts)

    def with_states(self, states: Sequence[Mapping[str, Any]]) -> Self:
        """Return the same table with only the rows that were left of a pickled one."""
        parts = zip(self._parts, states, strict=True)
        return self._with([part.with_state(state) for part, state in parts])

    def _with(self, parts: list[_Part]) -> Self:
        copy = self._changed()
        copy._parts = parts  # noqa: SLF001 - our own
        return copy


class UnionFragment(Fragment):
    """Some row ranges of some of the tables."""

    def __init__(self, dataset: UnionDataset, fragments: Sequence[TableFragment]) -> None:
        super().__init__(dataset)
        self._fragments = fragments

    def __repr__(self) -> str:
        return f"UnionFragment({self._dataset!r}, {len(self._fragments)} parts)"

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Any = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        batch_size: int = BATCH_ROWS,
        **_: Any,
    ) -> ds.Scanner:
        """Return a scanner of these rows."""
        if columns is None:
            columns = self._dataset.schema.names
        return _chained(
            [one.scanner(schema, columns, filter, batch_size) for one in self._fragments]
        )

    def count_rows(self, filter: pc.Expression | None = None, **kwargs: Any) -> int:  # noqa: A002
        """Return the number of rows; without a filter nothing is read."""
        return sum(one.count_rows(filter, **kwargs) for one in self._fragments)


class _Part(TableDataset):
    """The rows of one data set, with the columns of all."""

    def __init__(self, name: str, table: TableDataset, fields: Sequence[pa.Field]) -> None:
        own = table.table_columns
        self.name = name
        self.source = table
        columns: dict[str, Column] = {}
        for field in fields:
            found = own.columns.get(field.name)
            if field.name == DATASET:
                columns[field.name] = _Same(field, name, own.length)
            elif found is None:
                columns[field.name] = _Absent(field)
            elif found.field.type != field.type:
                columns[field.name] = _Converted(found, field)
            else:
                columns[field.name] = _Nullable(found, field)
        super().__init__(
            TableColumns(f"{name}.{own.table}", own.length, columns, {}, own.points),
            location=table.location,
            cache=table.cache,
            options=table.options,
        )
        self._absent = frozenset(n for n, one in columns.items() if isinstance(one, _Absent))

    @property
    def state(self) -> dict[str, Any]:
        """Which rows are left."""
        return {"base_filter": self._base_filter, "implied": self._implied}

    def _parsed(self, expression: pc.Expression | None) -> Predicate | None:
        predicate = super()._parsed(expression)
        if predicate is None or not self._absent.intersection(columns_of(predicate)):
            return predicate
        return without(predicate, self._absent)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema."""
        return self._columns.schema


def _open_union(
    table: str,
    parts: Mapping[str, TableDataset],
    location: str,
    states: Sequence[Mapping[str, Any]],
) -> UnionDataset:
    return UnionDataset(table, parts, location=location).with_states(states)


def without(predicate: Predicate, absent: frozenset[str]) -> Predicate:
    """Return what is left of a predicate where some columns are null in all rows.

    >>> without(Both((Null("age"), Null("name"))), frozenset({"age"}))
    Both(parts=(Constant(value=True), Null(column='name', is_negated=False)))
    """
    if isinstance(predicate, And | Or):
        return type(predicate)(tuple(without(part, absent) for part in predicate.parts))
    if isinstance(predicate, Constant) or predicate.column not in absent:
        return predicate
    return Constant(value=isinstance(predicate, IsNull) and not predicate.is_negated)


def unified(
    schemas: Mapping[str, pa.Schema], table: str, broken: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[pa.Field], dict[str, str]]:
    """Return the columns of several tables as one, and which cannot be, and why.

    A column that is broken in one of them is left out of all: it is not missing there.

    >>> first, second = pa.schema([("n", pa.uint8())]), pa.schema([("n", pa.int16())])
    >>> unified({"a": first, "b": second}, "cell")[0][1:]
    [pyarrow.Field<n: int16>]
    """
    names = dict.fromkeys(name for schema in schemas.values() for name in schema.names)
    first = [name for name in (NAME, INDEX) if name in names]
    fields = [pa.field(DATASET, pa.string(), nullable=False)]
    problems = dict(broken)
    for name in (*first, *sorted(set(names) - {*first, *broken})):
        having = {
            key: schema.field(name) for key, schema in schemas.items() if name in schema.names
        }
        kind = _common({field.type for field in having.values()})
        if name == DATASET:
            problems[name] = (
                f"the axis {table!r} has a vector {name!r} of its own, which cannot be seen: the "
                "column of that name says of which data set a row is"
            )
        elif kind is None:
            kinds = ", ".join(f"{key}: {field.type}" for key, field in having.items())
            problems[name] = (
                f"the vector {name!r} of axis {table!r} has types that have none in common "
                f"({kinds}); connect the data sets one by one, and CAST it"
            )
        else:
            can_be_null = len(having) < len(schemas) or any(f.nullable for f in having.values())
            fields.append(pa.field(name, kind, nullable=can_be_null))
    return fields, problems


def _common(kinds: set[pa.DataType]) -> pa.DataType | None:
    """Return the smallest type that holds all values of some; None if there is none."""
    if len(kinds) == 1:
        return next(iter(kinds))
    if not all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
        return None
    dtypes = [np.dtype(kind.to_pandas_dtype()) for kind in kinds]
    found = np.result_type(*dtypes)
    are_whole = all(dtype.kind in "iu" for dtype in dtypes)
    if found.kind == "f" and are_whole:  # Int64 with UInt64
        return None
    return pa.from_numpy_dtype(found)


def _row_count(fragment: TableFragment) -> int:
    return sum(part.size for part in fragment.parts)


def _chained(scanners: Sequence[Any]) -> Any:
    """Return a scanner of the rows of several, one after the other."""
    schema = scanners[0].projected_schema
    batches = itertools.chain.from_iterable(one.to_batches() for one in scanners)
    return TableScanner(schema, batches, BATCH_ROWS)


# Columns


@dataclass(frozen=True, eq=False)
class _Same:
    """A column with the same text in all rows."""

    field: pa.Field
    text: str
    length: int
    is_string = True
    chunk_rows = 0

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:  # noqa: ARG002 - nothing to decode
        """Begin to read it."""
        return _OpenSame(self.text, self.length, options)


class _OpenSame:
    """A column with the same text in all rows, being read."""

    def __init__(self, text: str, length: int, options: ScanOptions) -> None:
        self._strings = pa.array([text], pa.string())
        self._codes = DictionaryCodes.of_constant(self._strings, length, options)
        self.zones = self._codes.zones

    def find(self, conditions: Sequence[Predicate], max_rows: int) -> None:  # noqa: ARG002
        """Return nothing: the ranges do as well."""
        return

    def load(self) -> None:
        """Do nothing."""

    def values(self, span: Span) -> Values:
        """Return the codes of a range."""
        return self._codes.values(span)

    def array(self, span: Span) -> pa.Array:
        """Return a range."""
        return pa.repeat(self._strings[0], span.size)

    def pick(self, span: Span, places: Positions) -> Values:  # noqa: ARG002 - all are the same
        """Return the codes of some rows."""
        return self._codes.values(Span(0, places.size))

    def take(self, span: Span, places: Positions) -> pa.Array:  # noqa: ARG002 - as above
        """Return some rows."""
        return pa.repeat(self._strings[0], places.size)


@dataclass(frozen=True, eq=False)
class _Absent:
    """A column that a data set lacks: null in all rows."""

    field: pa.Field
    is_string = True  # nothing that could be counted in bytes
    chunk_rows = 0

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:  # noqa: ARG002 - nothing to decode
        """Begin to read it."""
        return _OpenAbsent(self.field.type)


class _OpenAbsent:
    """A column of nulls, being read."""

    zones = None

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind

    def find(self, conditions: Sequence[Predicate], max_rows: int) -> None:  # noqa: ARG002
        """Return nothing."""
        return

    def load(self) -> None:
        """Do nothing."""

    def values(self, span: Span) -> Values:
        """Refuse: filters are freed of such columns before."""
        raise TypeError(f"a column of nulls has no values to compare ({span})")

    def array(self, span: Span) -> pa.Array:
        """Return nulls."""
        return pa.nulls(span.size, self._kind)

    def pick(self, span: Span, places: Positions) -> Values:
        """Refuse, as `values` does."""
        raise TypeError(f"a column of nulls has no values to compare ({span}, {places.size})")

    def take(self, span: Span, places: Positions) -> pa.Array:  # noqa: ARG002 - all are the same
        """Return nulls."""
        return pa.nulls(places.size, self._kind)


@dataclass(frozen=True, eq=False)
class _Nullable:
    """A column that is as it is, and null in other data sets."""

    column: Column
    field: pa.Field

    @property
    def chunk_rows(self) -> int:
        """How many rows are stored together."""
        return self.column.chunk_rows

    @property
    def is_string(self) -> bool:
        """Whether its values are strings."""
        return self.column.is_string

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Begin to read it."""
        return self.column.open(cache, options)


@dataclass(frozen=True, eq=False)
class _Converted:
    """A column of numbers that has another type in other data sets."""

    column: Column
    field: pa.Field
    is_string = False

    @property
    def chunk_rows(self) -> int:
        """How many rows are stored together."""
        return self.column.chunk_rows

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Begin to read it."""
        return _OpenConverted(self.column.open(cache, options), self.field.type)


class _OpenConverted:
    """A column of numbers that is converted as it is read."""

    zones = None

    def __init__(self, column: OpenColumn, kind: pa.DataType) -> None:
        self._column = column
        self._dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())

    def find(self, conditions: Sequence[Predicate], max_rows: int) -> None:  # noqa: ARG002
        """Return nothing: the constants are of another type than the column."""
        return

    def load(self) -> None:
        """Get ready to be read."""
        self._column.load()

    def values(self, span: Span) -> npt.NDArray[Any]:
        """Return a range, converted."""
        return np.asarray(self._column.values(span)).astype(self._dtype)

    def array(self, span: Span) -> pa.Array:
        """Return a range, converted; NaN as null."""
        return number_array(self.values(span))

    def pick(self, span: Span, places: Positions) -> npt.NDArray[Any]:
        """Return some rows, converted."""
        return np.asarray(self._column.pick(span, places)).astype(self._dtype)

    def take(self, span: Span, places: Positions) -> pa.Array:
        """Return some rows, converted; NaN as null."""
        return number_array(self.pick(span, places))
