"""The rows of the data sets of a union, with the columns of all.

Of thousands of data sets tables are made when they are asked for, and which rows a filter may leave
is found without opening small ones.  To plan the scan of a data set opens the columns of its
filter.  Of one that is small, and has no index, that leaves out hardly more than its name does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Self, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan import (
    Column,
    Mask,
    Zones,
    evaluate,
    may_match,
)
from daf_query.table._columns import DATASET, ConstantColumn, column_as, vector_of
from daf_query.table._dataset import TableDataset
from daf_query.table._table_columns import TableColumns, signature_of
from daf_query.table._table_scanner import TableView
from daf_storage.base import Span
from daf_storage.upkeep import IndexStorage


class MemberTables(Mapping[str, TableDataset]):
    """Tables by the names of their data sets, of which the columns are known.

    To make a table of each of thousands takes longer than to scan them as one.

    Parameters
    ----------
    columns
        Those of each table.
    make
        Makes a table, by the name of its data set; in each the same rows are wanted: all.
    """

    def __init__(
        self,
        columns: Mapping[str, TableColumns],
        make: Callable[[str, TableColumns], TableDataset],
    ) -> None:
        self.columns = columns
        self._make = make

    def __getitem__(self, name: str) -> TableDataset:
        return self._make(name, self.columns[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


def columns_of_tables(
    tables: Mapping[str, TableDataset],
) -> tuple[Mapping[str, TableColumns], bool]:
    """Return the columns of tables; and whether these are known without making the tables."""
    if isinstance(tables, MemberTables):
        return tables.columns, True
    return {name: table.own_columns for name, table in tables.items()}, False


class MemberPart(TableDataset):
    """The rows of one data set, with the columns of all.

    Parameters
    ----------
    source
        The table of the data set.
    fields
        The columns of all, and ``dataset``.
    columns, view
        Those of a part of which only the view was changed.
    """

    def __init__(
        self,
        name: str,
        source: TableDataset,
        fields: Iterable[pa.Field],
        *,
        columns: TableColumns | None = None,
        view: TableView | None = None,
    ) -> None:
        view = view or TableView(cache=source.cache, options=source.options)
        columns = columns or _columns_as(name, source.table_columns, fields)
        super().__init__(columns, location=source.location, view=view)
        self.name = name
        self.source = source

    def _with(self, columns: TableColumns, view: TableView) -> Self:
        return type(self)(self.name, self.source, (), columns=columns, view=view)

    def _place(self) -> tuple[Callable[..., TableDataset], tuple[Any, ...]]:
        return member_table, (self.name, self.source, list(self.schema))

    def data_version(self, columns: Iterable[str]) -> str | None:
        """Return what differs once its data were changed; None where nothing shows it."""
        return self.source.data_version(columns)

    @property
    def member_name(self) -> str | None:
        """What the column ``dataset`` calls it."""
        return self.name

    @property
    def own_columns(self) -> TableColumns:
        """The columns of the data set itself."""
        return self.source.table_columns

    def with_source(self, source: TableDataset, fields: Sequence[pa.Field]) -> Self:
        """Return the same rows of another table."""
        return type(self)(self.name, source, fields, view=self._view)


class MemberParts(Sequence[MemberPart]):
    """The parts of a union; of thousands that are scanned as one, most are never made.

    Parameters
    ----------
    columns
        Those of the table of each data set, by what the column ``dataset`` calls it.
    make
        Makes one of the parts, by its number.
    is_uniform
        Whether all have the same view, and parts are made when they are asked for.
    """

    def __init__(
        self,
        columns: Mapping[str, TableColumns],
        make: Callable[[int], MemberPart],
        *,
        is_uniform: bool,
    ) -> None:
        self.columns = columns
        self.is_uniform = is_uniform
        self._make = make
        self._made: dict[int, MemberPart] = {}
        # The first one says what is wrong with a change; those of few are made at once.
        for number in range(min(len(columns), 1) if is_uniform else len(columns)):
            self._part(number)

    @classmethod
    def of(cls, tables: Mapping[str, TableDataset], fields: Iterable[pa.Field]) -> Self:
        """Return the parts of a union of some tables."""
        columns, is_lazy = columns_of_tables(tables)
        names, fields = list(tables), list(fields)

        def make(number: int) -> MemberPart:
            table = tables[names[number]]
            is_part = isinstance(table, MemberPart)
            return table if is_part else MemberPart(names[number], table, fields)

        return cls(columns, make, is_uniform=is_lazy)

    def changed(self, change: Callable[[MemberPart], MemberPart]) -> Self:
        """Return other parts of the same data sets."""
        return type(self)(
            self.columns, lambda number: change(self[number]), is_uniform=self.is_uniform
        )

    @cached_property
    def names(self) -> list[str]:
        """What the column ``dataset`` calls them."""
        return list(self.columns)

    @cached_property
    def signatures(self) -> list[Hashable | None]:
        """What data sets with the same columns have in common; None for those with others."""
        return [signature_of(columns) for columns in self.columns.values()]

    @overload
    def __getitem__(self, number: int) -> MemberPart: ...
    @overload
    def __getitem__(self, number: slice) -> list[MemberPart]: ...
    def __getitem__(self, number: int | slice) -> MemberPart | list[MemberPart]:
        if isinstance(number, slice):
            return [self._part(each) for each in range(*number.indices(len(self)))]
        return self._part(range(len(self))[number])

    def __len__(self) -> int:
        return len(self.columns)

    def _part(self, number: int) -> MemberPart:
        part = self._made.get(number)
        return self._made.setdefault(number, self._make(number)) if part is None else part


def member_table(name: str, source: TableDataset, fields: Sequence[pa.Field]) -> TableDataset:
    """Return the table of one data set as a union of several has it.

    Parameters
    ----------
    name
        What the column ``dataset`` calls it.
    fields
        The columns of the union; those that this data set lacks are NULL.
    """
    return MemberPart(name, source, fields)


def _columns_as(name: str, source: TableColumns, fields: Iterable[pa.Field]) -> TableColumns:
    """Return the columns of one data set as the union has them."""
    columns: dict[str, Column] = {
        field.name: ConstantColumn(field, name, source.length)
        if field.name == DATASET
        else column_as(source.columns.get(field.name), field)
        for field in fields
    }
    table = f"{name}.{source.table}"
    return TableColumns(table, source.length, columns, {}, source.point_indexes)


MIN_WHOLE_MEMBERS: Final = 64
"""Of fewer members the scan of each is planned."""


@dataclass(frozen=True, slots=True)
class MemberSpans:
    """Spans of rows of a member that belong together: those of one partition."""

    number: int
    """Which member it is."""
    name: str
    """What the column ``dataset`` calls it."""
    table_rows: int
    """How many rows it has."""
    spans: tuple[Span, ...]
    """Which of them are left; none of these is empty."""


def member_spans(parts: MemberParts, filter: pc.Expression | None) -> Iterator[MemberSpans]:  # noqa: A002 - pyarrow's name
    """Yield the rows of each member for which a filter may be true, by partitions."""
    names = iter(may_match_by_name(parts, filter).tolist())
    is_worth_it = parts.is_uniform and len(parts) >= MIN_WHOLE_MEMBERS
    options = parts[0].options if is_worth_it else None
    most = min(options.joined_member_rows, options.partition_rows) if options else -1
    for number, (name, columns) in enumerate(parts.columns.items()):
        is_left = next(names) and columns.length > 0
        if not is_left:
            continue
        if columns.length <= most and not _has_index(columns):
            yield MemberSpans(number, name, columns.length, (Span(0, columns.length),))
            continue
        for fragment in parts[number].get_fragments(filter):
            spans = tuple(span for span in fragment.partitions if span.size)
            if spans:
                yield MemberSpans(number, name, columns.length, spans)


def _has_index(columns: TableColumns) -> bool:
    """Return whether a column of a data set has an index, fit or not."""
    vectors = (vector_of(column) for column in columns.columns.values())
    vector = next((each for each in vectors if each is not None), None)
    return vector is not None and IndexStorage(vector.daf).has_any(vector.info.axis)


def may_match_by_name(parts: MemberParts, filter: pc.Expression | None) -> Mask:  # noqa: A002 - pyarrow's name
    """Return for which members a filter may be true, by their names alone.

    A member is a zone, whose name is all that is known.
    """
    count = len(parts)
    known = np.ones(count, np.bool_)
    predicate = parts[0].predicate_of(filter) if count else None
    if predicate is None:  # it is evaluated by Arrow
        return known
    strings = pa.array(parts.names, pa.string())
    numbers = np.arange(count)
    zones = Zones(
        numbers,
        numbers,
        is_known=known,
        has_null=~known,
        has_value=known,
        table=lambda part: evaluate(part, lambda _: strings, count),
    )
    return may_match(predicate, {DATASET: zones}.get, count)
