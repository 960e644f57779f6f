"""Groups of one table that are counted and aggregated without the engine, by dictionary codes.

Names, types, nulls and order are those that the engine would give.  Sums and means of floats may
differ in the last digits, as they do between two runs of the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

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
from daf_query.sql._data_set_schema import DafSchema
from daf_query.sql._engine_context import ENGINE
from daf_query.sql._simple_condition import UncertainError
from daf_query.sql._simple_groups import SimpleGroups
from daf_query.table import TableColumns
from daf_storage.spi import Span

_FLOATS: Final = (pa.float32(), pa.float64())
_MAX_KEYS: Final = 2
_MAX_ENTRIES: Final = 1 << 16
"""Of a longer axis, looking up entries takes longer than the rest."""


@dataclass(frozen=True, slots=True, eq=False)
class JoinedKey:
    """A column of the table that is joined, to group by."""

    vector: str
    """The column of the first table whose values are entries."""
    column: str
    joined: TableColumns
    """The columns of the table that is joined."""


@dataclass(frozen=True, slots=True)
class DirectGroups:
    """Groups of the rows of an axis that answer a query."""

    tables: DafSchema
    known: TableColumns
    """The columns of the table, as they are known."""
    groups: SimpleGroups
    """The query."""
    keys: tuple[str | JoinedKey, ...]
    """The columns to group by."""
    order: tuple[int, ...]
    """The outputs to sort by."""
    predicate: Predicate | None
    joined: TableColumns | None = None
    """The columns of the table that is joined."""
    _prepared: list[tuple[GroupScan, list[GroupKey]]] = field(default_factory=list, compare=False)

    @classmethod
    def of(
        cls,
        tables: DafSchema,
        known: TableColumns,
        groups: SimpleGroups,
        predicate: Predicate | None,
        joined: TableColumns | None = None,
    ) -> DirectGroups | None:
        """Return the groups of a query; None if the engine is to be asked, as far as is known."""
        sides = _Sides(groups, known.columns, {} if joined is None else joined.columns)
        try:
            keys = groups.keys_of(sides.columns)
            order = tuple(groups.sorted_by(key, sides.columns) for key in groups.order)
        except UncertainError:
            return None
        if len(keys) > _MAX_KEYS or not (sides.have(keys) and sides.compute_aggregates()):
            return None
        join = groups.join
        if join is None or joined is None:
            return cls(tables, known, groups, keys, order, predicate)
        if not sides.joins_few(joined.length) or not any(map(sides.is_joined, keys)):
            return None
        all_keys = tuple(
            JoinedKey(join.vector, key, joined) if sides.is_joined(key) else key for key in keys
        )
        return cls(tables, known, groups, all_keys, order, predicate, joined)

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns."""
        fields = []
        for output in self.groups.outputs:
            expression = output.expression
            if isinstance(expression, str):
                is_joined = expression in self._joined_names
                known = self.joined if is_joined and self.joined is not None else self.known
                key = known.columns[expression].field
                fields.append(pa.field(output.name, key.type, metadata=key.metadata))
            else:
                kind = _result_type(expression, self.known.columns)
                fields.append(pa.field(output.name, kind, nullable=expression.function != "count"))
        return pa.schema(fields)

    @property
    def _joined_names(self) -> list[str]:
        """The keys that are of the table that is joined."""
        return [key.column for key in self.keys if isinstance(key, JoinedKey)]

    @property
    def _key_names(self) -> list[str]:
        return [key.column if isinstance(key, JoinedKey) else key for key in self.keys]

    @property
    def description(self) -> str:
        """What is done, in words."""
        where = "" if self.predicate is None else f" where {describe(self.predicate)}"
        by = f" by {', '.join(self._key_names)}" if self.keys else ""
        how = ", unless these have too many different values" if self.keys else ""
        return f"the rows of {self.known.table}{where} aggregated{by} as numbers{how}"

    def check(self) -> None:
        """Look at the keys; what they have is kept until the rows are asked for.

        Raises
        ------
        UncertainError
            There may be too many groups: the engine is to be asked.
        DafError
            A column cannot be read.
        """
        if not self._prepared:
            self._prepared.append(self._prepare())

    def _prepare(self) -> tuple[GroupScan, list[GroupKey]]:
        """Return the scan, and its keys."""
        ENGINE.check()
        cache = self.tables.cache
        table = OpenTable(
            self.known.columns,
            self.known.length,
            cache,
            ScanReport(self.known.table, self.known.length, cache=cache),
            point_indexes=self.known.point_indexes,
            options=self.tables.scan_options,
        )
        plan = plan_scan(table, self.predicate)
        scan = GroupScan(
            table,
            plan,
            [key.vector if isinstance(key, JoinedKey) else key for key in self.keys],
            self.groups.aggregates,
        )
        keys = scan.keys()
        if keys is None:
            raise UncertainError
        return scan, [
            self._joined_key(source, key) if isinstance(source, JoinedKey) else key
            for source, key in zip(self.keys, keys, strict=True)
        ]

    def _joined_key(self, source: JoinedKey, key: GroupKey) -> GroupKey:
        """Return the numbers of a vector as those of the values that its entries have."""
        known, cache = source.joined, self.tables.cache
        report = ScanReport(known.table, known.length, cache=cache)
        table = OpenTable(
            known.columns, known.length, cache, report, options=self.tables.scan_options
        )
        rows = Rows(Span(0, known.length))
        names = table.column(NAME).to_arrow(rows)
        values = table.column(source.column).to_arrow(rows)
        return key.mapped(pc.index_in(key.labels, value_set=names, skip_nulls=True), values)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the groups; errors are those of `check`."""
        try:
            scan, keys = self._prepared.pop()
        except IndexError:  # other threads may have taken it
            scan, keys = self._prepare()
        arrays = scan.arrays(keys)
        expressions = (*self._key_names, *self.groups.aggregates)
        by_expression = dict(zip(expressions, arrays, strict=True))
        schema = self.schema
        columns = [by_expression[output.expression] for output in self.groups.outputs]
        columns = [column.cast(kind) for column, kind in zip(columns, schema.types, strict=True)]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        if self.order:
            batch = batch.take(pa.array(self._places(columns)))
        groups = self.groups
        if groups.limit is not None or groups.offset:
            batch = batch.slice(groups.offset, groups.limit)
        yield batch

    def to_table(self) -> pa.Table:
        """Return the groups; errors are those of `check`."""
        return pa.Table.from_batches(list(self.batches()), self.schema)

    def _places(self, columns: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
        """Return the places of the rows in their order."""
        ranks: list[npt.NDArray[Any]] = []
        for key, place in zip(self.groups.order, self.order, strict=True):
            column = columns[place]
            is_null = column.is_null().to_numpy(zero_copy_only=False)
            rank = _ranks(column)
            rank = ~rank if key.is_descending else rank
            ranks += [is_null != key.nulls_first, np.where(is_null, 0, rank)]
        order: npt.NDArray[np.int64] = np.lexsort(ranks[::-1])
        return order


@dataclass(frozen=True, slots=True)
class _Sides:
    """The columns of a table, and of the one that is joined, as a query may name them."""

    groups: SimpleGroups
    """The query."""
    own: Mapping[str, Column]
    joined: Mapping[str, Column]
    """Empty if there is no other table."""

    @property
    def columns(self) -> dict[str, Column]:
        """Those of both; where they share a name, that of the table that is joined."""
        return {**self.own, **self.joined}

    def is_joined(self, name: str) -> bool:
        """Return whether a column is one of the table that is joined."""
        groups = self.groups
        item = groups.sides.get(name)
        if item is not None:
            return groups.join is not None and item == groups.join.item
        return name in self.joined and name not in self.own

    def have(self, keys: Sequence[str]) -> bool:
        """Return whether each key is a column by which can be grouped, and of one table alone."""
        if any(name in self.own and name in self.joined for name in self.groups.bare):
            return False
        sides = [(key, self.joined if self.is_joined(key) else self.own) for key in keys]
        return all(key in side and _is_key(side[key].field.type) for key, side in sides)

    def compute_aggregates(self) -> bool:
        """Return whether all aggregates are of the first table, and certain to be the engine's."""
        return all(
            _is_computed(each, self.own) and not self.is_joined(str(each.column))
            for each in self.groups.aggregates
        )

    def joins_few(self, length: int) -> bool:
        """Return whether the join is by a vector of strings, of an axis of few entries."""
        vector = None if self.groups.join is None else self.own.get(self.groups.join.vector)
        is_of_strings = vector is not None and vector.field.type == pa.string()
        return is_of_strings and length <= _MAX_ENTRIES


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
