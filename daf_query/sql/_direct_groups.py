"""Groups of one table that are counted and aggregated without the engine, by dictionary codes.

Names, types, nulls and order are those that the engine would give.  Sums and means of floats may
differ in the last digits, as they do between two runs of the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan import (
    NAME,
    Aggregate,
    Column,
    GroupKey,
    GroupScan,
    OpenTable,
    Predicate,
    Rows,
    ScanReport,
    describe,
    plan_scan,
)
from daf_query.sql._axis_schema import Member
from daf_query.sql._engine_context import ENGINE
from daf_query.sql._simple_queries import (
    Expression,
    Named,
    SimpleQuery,
    UncertainError,
    name_in,
    require,
)
from daf_query.table import TableColumns
from daf_storage.base import Span

_FLOATS: Final = (pa.float32(), pa.float64())
_MAX_KEYS: Final = 2
_MAX_ENTRIES: Final = 1 << 16
"""Of a longer axis, looking up entries takes longer than the rest."""


class Key(NamedTuple):
    """A column to group by."""

    is_joined: bool
    """Whether it is of the table that is joined."""
    column: str


Computed: TypeAlias = Key | Aggregate
"""What a column of the result has."""


@dataclass(frozen=True, slots=True)
class DirectGroups:
    """Groups of the rows of an axis that answer a query."""

    tables: Member
    known: TableColumns
    """The columns of the table, as they are known."""
    query: SimpleQuery
    outputs: tuple[Computed, ...]
    """What its columns have."""
    keys: tuple[Key, ...]
    """The columns to group by."""
    order: tuple[int, ...]
    """The outputs to sort by."""
    predicate: Predicate | None
    joined: TableColumns | None = None
    """The columns of the table that is joined."""

    @classmethod
    def of(
        cls,
        tables: Member,
        known: TableColumns,
        query: SimpleQuery,
        predicate: Predicate | None,
        joined: TableColumns | None = None,
    ) -> DirectGroups:
        """Return the groups of a query; raise `UncertainError` if the engine is to be asked."""
        reader = _Reader(query, known.columns, {} if joined is None else joined.columns)
        keys, order = reader.keys(), tuple(reader.place(key.by) for key in query.order)
        if joined is not None:
            vector = known.columns.get(query.vector)
            require(is_so=vector is not None and vector.field.type == pa.string())
            require(is_so=joined.length <= _MAX_ENTRIES and any(key.is_joined for key in keys))
        return cls(tables, known, query, reader.outputs, keys, order, predicate, joined)

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns."""
        fields = []
        for output, computed in zip(self.query.outputs, self.outputs, strict=True):
            if isinstance(computed, Key):
                column = self._columns_of(computed).columns[computed.column].field
                fields.append(pa.field(output.name, column.type, metadata=column.metadata))
            else:
                kind = _result_type(computed, self.known.columns)
                fields.append(pa.field(output.name, kind, nullable=computed.function != "count"))
        return pa.schema(fields)

    def _columns_of(self, key: Key) -> TableColumns:
        return self.joined if key.is_joined and self.joined is not None else self.known

    @property
    def _aggregates(self) -> list[Aggregate]:
        """The aggregates, each once."""
        return list(dict.fromkeys(each for each in self.outputs if isinstance(each, Aggregate)))

    @property
    def description(self) -> str:
        """What is done, in words."""
        where = "" if self.predicate is None else f" where {describe(self.predicate)}"
        by = f" by {', '.join(key.column for key in self.keys)}" if self.keys else ""
        how = ", unless these have too many different values" if self.keys else ""
        return f"the rows of {self.known.table}{where} aggregated{by} as numbers{how}"

    def _prepare(self) -> tuple[GroupScan, list[GroupKey]]:
        """Return the scan, and its keys.

        Raises
        ------
        UncertainError
            There may be too many groups: the engine is to be asked.
        DafError
            A column cannot be read.
        """
        ENGINE.check()
        table = opened(self.tables, self.known)
        plan = plan_scan(table, self.predicate)
        sources = [self.query.vector if key.is_joined else key.column for key in self.keys]
        scan = GroupScan(table, plan, sources, self._aggregates)
        keys = scan.keys()
        if keys is None:
            raise UncertainError
        return scan, [
            self._joined_key(source, key) if source.is_joined else key
            for source, key in zip(self.keys, keys, strict=True)
        ]

    def _joined_key(self, source: Key, key: GroupKey) -> GroupKey:
        """Return the numbers of a vector as those of the values that its entries have."""
        known = self._columns_of(source)
        table, rows = opened(self.tables, known), Rows(Span(0, known.length))
        names = table.column(NAME).to_arrow(rows)
        values = table.column(source.column).to_arrow(rows)
        return key.mapped(pc.index_in(key.labels, value_set=names, skip_nulls=True), values)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the groups; errors are those of `_prepare`."""
        scan, keys = self._prepare()
        computed = dict(zip((*self.keys, *self._aggregates), scan.arrays(keys), strict=True))
        schema = self.schema
        columns = [
            computed[output].cast(kind)
            for output, kind in zip(self.outputs, schema.types, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        if self.order:
            batch = batch.take(pa.array(self._places(columns)))
        query = self.query
        if query.limit is not None or query.offset:
            batch = batch.slice(query.offset, query.limit)
        yield batch

    def to_table(self) -> pa.Table:
        """Return the groups; errors are those of `_prepare`."""
        return pa.Table.from_batches(list(self.batches()), self.schema)

    def _places(self, columns: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
        """Return the places of the rows in their order."""
        ranks: list[npt.NDArray[Any]] = []
        for key, place in zip(self.query.order, self.order, strict=True):
            column = columns[place]
            is_null = column.is_null().to_numpy(zero_copy_only=False)
            rank = _ranks(column)
            rank = ~rank if key.is_descending else rank
            ranks += [is_null != key.nulls_first, np.where(is_null, 0, rank)]
        order: npt.NDArray[np.int64] = np.lexsort(ranks[::-1])
        return order


def opened(tables: Member, known: TableColumns) -> OpenTable:
    """Return a table as one query reads it."""
    return OpenTable(
        known.columns,  # all: rows are cut where the engine cuts them, into what is cached
        known.length,
        tables.cache,
        ScanReport(known.table, known.length, cache=tables.cache),
        find_point_indexes=known.point_indexes,
        options=tables.scan_options,
    )


class _Reader:
    """Finds out what the names of a query mean; raises `UncertainError` if that is not certain.

    Parameters
    ----------
    own
        The columns of the table.
    joined
        Those of the one that is joined.
    """

    def __init__(
        self, query: SimpleQuery, own: Mapping[str, Column], joined: Mapping[str, Column]
    ) -> None:
        self._query, self._own, self._joined = query, own, joined
        self.outputs = tuple(self._computed(each.expression) for each in query.outputs)
        """What the columns of the result have."""

    def _found(self, named: Named) -> list[Key]:
        """Return the columns that may be meant."""
        query, found = self._query, list[Key]()
        if name_in(query.source, named.parts, self._own) is not None:
            found.append(Key(is_joined=False, column=named.parts[-1]))
        if query.joined is not None and name_in(query.joined, named.parts, self._joined):
            found.append(Key(is_joined=True, column=named.parts[-1]))
        return found

    def _computed(self, expression: Expression) -> Computed:
        if isinstance(expression, Named):
            found = self._found(expression)
            require(is_so=len(found) == 1)
            return found[0]
        if expression.column is None:
            return Aggregate("count")
        column = self._computed(expression.column)
        require(is_so=isinstance(column, Key) and not column.is_joined)
        aggregate = Aggregate(expression.function, expression.column.parts[-1])
        require(is_so=_is_computed(aggregate, self._own))
        return aggregate

    def keys(self) -> tuple[Key, ...]:
        """Return the columns to group by; a column comes before an output of its name."""
        keys = list[Key]()
        for key in self._query.keys:
            if isinstance(key, Named) and self._found(key):
                computed = self._computed(key)
            else:
                computed = self.outputs[self.place(key)]
            if not isinstance(computed, Key):
                raise UncertainError
            columns = self._joined if computed.is_joined else self._own
            require(is_so=_is_key(columns[computed.column].field.type))
            keys.append(computed)
        require(is_so=len(set(keys)) == len(keys) <= _MAX_KEYS)
        require(is_so=all(each in keys for each in self.outputs if isinstance(each, Key)))
        return tuple(keys)

    def place(self, by: Expression | int) -> int:
        """Return the place of an output: given by that, from 1, or by its name or what it has."""
        if isinstance(by, int):
            require(is_so=1 <= by <= len(self.outputs))
            return by - 1
        names = [output.name for output in self._query.outputs]
        if isinstance(by, Named) and by.parts[-1] in names and len(by.parts) == 1:
            place = names.index(by.parts[-1])
            require(is_so=self._found(by) in ([], [self.outputs[place]]))
            return place
        computed = self._computed(by)
        require(is_so=computed in self.outputs)
        return self.outputs.index(computed)


def _is_key(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind)) or kind in (pa.bool_(), pa.string())


def _is_computed(aggregate: Aggregate, columns: Mapping[str, Column]) -> bool:
    """Return whether an aggregate of a column is certain to be what the engine would make of it."""
    name = aggregate.column
    if name is None:
        return True
    if name not in columns:
        return False
    kind = columns[name].field.type
    is_number = bool(pa.types.is_integer(kind)) or kind in _FLOATS
    return is_number or (aggregate.function == "count" and kind in (pa.bool_(), pa.string()))


def _result_type(aggregate: Aggregate, columns: Mapping[str, Column]) -> pa.DataType:
    if aggregate.function == "count":
        return pa.int64()
    if aggregate.function == "avg":
        return pa.float64()
    kind = columns[str(aggregate.column)].field.type
    if aggregate.function != "sum":
        return kind
    if kind in _FLOATS:
        return pa.float64()
    return pa.uint64() if pa.types.is_unsigned_integer(kind) else pa.int64()


def _ranks(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return integers in the order of values; of floats -NaN, -inf, ..., -0.0, 0.0, ..., NaN.

    >>> _ranks(pa.array([0.0, -0.0, float("inf"), -2.5])).argsort().tolist()
    [3, 1, 0, 2]
    """
    if column.type in _FLOATS:
        doubles = column.cast(pa.float64()).fill_null(0.0).to_numpy()
        bits = doubles.view(np.int64)
        ranks: npt.NDArray[np.int64] = bits ^ ((bits >> 63) & np.int64(2**63 - 1))
    else:
        ranks = pc.rank(column, tiebreaker="dense").to_numpy().astype(np.int64)
    return ranks
