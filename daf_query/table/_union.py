"""The tables of a collection: the rows of all, and which data set each is of.

Columns go by name.  One that a data set lacks is null there; numbers of different types become the
smallest type that holds them all.  What is true for no row of a data set is not read.  Of thousands
of data sets, tables are made when they are asked for.

To open a column takes longer than to read a thousand values of it.  Neighbours that are small and
have the same columns are scanned as one table: the values are joined when they are first read, and
cached by what is stored of each, so once one of them changes, they are joined again.

The long form of the matrices of several data sets has the elements of all.  Nothing is aligned and
nothing is filled: what a data set lacks is no row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final, Self, TypeAlias

import numpy as np
import pyarrow as pa

from daf_query import scan
from daf_query._runs import check_cancelled
from daf_query.table._columns import (
    DATASET,
    ConstantColumn,
    MatrixEntry,
    TableColumn,
    TableColumns,
    signature_of,
)
from daf_query.table._dataset import Piece, TableDataset, TableView
from daf_query.table._stored_tables import MatrixDataset
from daf_storage import errors
from daf_storage._lazy import pc
from daf_storage.base import DecodedCache, Span

JoinedRun: TypeAlias = tuple[Span, TableColumns]
"""Which neighbouring members are scanned as one table, and the columns of the union for them."""

_SCRATCH_BYTES: Final = 1 << 16
"""What members decode is joined at once, and not remembered beside it."""


def unified(
    schemas: Mapping[str, pa.Schema],
    table: str,
    broken: Mapping[str, str],
    stored: Mapping[str, set[pa.DataType]],
) -> tuple[list[pa.Field], dict[str, str]]:
    """Return the columns of several tables as one, and why some cannot be.

    A column that is broken in one of them is left out of all: it is not missing there.  Where what
    is shown has no type in common, as counts that are shown as Int64 and UInt64, the type is that
    of what is ``stored``.

    >>> first, second = pa.schema([("n", pa.uint8())]), pa.schema([("n", pa.int16())])
    >>> unified({"a": first, "b": second}, "cell", {}, {})[0][1:]
    [pyarrow.Field<n: int16>]
    """
    names = {name for schema in schemas.values() for name in schema.names} - broken.keys()
    fields = [pa.field(DATASET, pa.string(), nullable=False)]
    problems = dict(broken)
    for name in sorted(names, key=lambda name: (name != scan.NAME, name != scan.INDEX, name)):
        having = {
            key: schema.field(name) for key, schema in schemas.items() if name in schema.names
        }
        shown = {field.type for field in having.values()}
        shared_type = common_type(shown) or common_type(stored.get(name, shown))
        if name == DATASET:
            problems[name] = (
                f"the axis {table!r} has a vector {name!r} of its own, which cannot be seen: the "
                "column of that name says of which data set a row is"
            )
        elif shared_type is None:
            types = ", ".join(f"{key}: {field.type}" for key, field in having.items())
            problems[name] = (
                f"the vector {name!r} of axis {table!r} has types that have none in common "
                f"({types}); connect the data sets one by one, and CAST it"
            )
        else:
            can_be_null = len(having) < len(schemas) or any(f.nullable for f in having.values())
            fields.append(pa.field(name, shared_type, nullable=can_be_null))
    return fields, problems


def common_type(types: set[pa.DataType]) -> pa.DataType | None:
    """Return the smallest type that holds all values of some; ``None`` if there is none.

    >>> common_type({pa.bool_(), pa.int8(), pa.uint8()})  # booleans count as 0 and 1
    DataType(int16)
    """
    if len(types) == 1:
        return next(iter(types))
    numbers = types - {pa.bool_()}
    if not all(pa.types.is_integer(t) or pa.types.is_floating(t) for t in numbers):
        return None
    common = np.result_type(*map(scan.numpy_type, numbers))
    if common.kind == "f" and all(map(pa.types.is_integer, numbers)):  # Int64 with UInt64
        return None
    return pa.from_numpy_dtype(common)


class MemberDataset(TableDataset):
    """The rows of one data set, with the columns of all.

    Parameters
    ----------
    source
        The table of the data set.
    columns
        Its columns as the union has them.
    """

    def __init__(
        self, name: str, source: TableDataset, columns: TableColumns, view: TableView
    ) -> None:
        super().__init__(columns, location=source.location, view=view)
        self.member_name = name
        self._source = source

    def _place(self) -> tuple[Callable[..., TableDataset], tuple[Any, ...]]:
        return _member_table, (self.member_name, self._source, list(self.table_columns.schema))

    def data_version(self, columns: Iterable[str]) -> str | None:
        """Return what differs once its data were changed; None where nothing shows it."""
        return self._source.data_version(columns)


def _member_table(name: str, source: TableDataset, fields: Sequence[pa.Field]) -> TableDataset:
    columns = columns_as(name, source.table_columns, fields)
    return MemberDataset(name, source, columns, TableView(cache=source.view.cache))


def columns_as(name: str, source: TableColumns, fields: Iterable[pa.Field]) -> TableColumns:
    """Return the columns of one data set as a union has them; NULL where it lacks one."""
    columns = {field.name: _column_of(name, source, field) for field in fields}
    return TableColumns(f"{name}.{source.table}", source.length, columns, {})


def _column_of(name: str, source: TableColumns, field: pa.Field) -> TableColumn:
    column = None if field.name == DATASET else source.columns.get(field.name)
    if column is None:
        value = name if field.name == DATASET else None
        return TableColumn(ConstantColumn(field, value, source.length))
    return replace(column, shown=field)


def may_match_by_name(predicate: scan.Predicate, names: Sequence[str]) -> scan.Mask:
    """Return for which data sets a predicate may be true, by their names alone."""
    strings = pa.array(names, pa.string())
    may = np.ones(len(names), np.bool_)
    for condition in scan.conjuncts(predicate):
        if set(scan.columns_of(condition)) <= {DATASET}:
            may &= scan.evaluate(condition, lambda _: strings, len(names))
    return may


def joined_runs(
    of: Mapping[str, TableColumns], union: TableColumns, options: scan.ScanOptions
) -> list[JoinedRun]:
    """Return the runs of members that are worth joining.

    Parameters
    ----------
    of
        The columns of the members.
    union
        The columns of all.
    """
    if len(of) < options.min_joined_members:
        return []
    signatures = [signature_of(columns) for columns in of.values()]
    lengths = [columns.length for columns in of.values()]
    return [
        (span, _joined_columns(dict([*of.items()][span.slice]), union))
        for span in _spans(signatures, lengths, options)
        if span.size >= options.min_joined_members
    ]


def _spans(
    signatures: Sequence[Hashable | None], lengths: Sequence[int], options: scan.ScanOptions
) -> Iterator[Span]:
    """Yield neighbours that have the same columns, and together not too many rows."""
    start, rows, current = 0, 0, None
    for number, (own, length) in enumerate(zip(signatures, lengths, strict=True)):
        signature = own if length <= options.joined_member_rows else None
        if signature is None or signature != current or rows + length > options.joined_rows:
            yield Span(start, number)
            start, rows, current = number, 0, signature
        rows += length
        if signature is None:
            start = number + 1
    yield Span(start, len(lengths))


def _joined_columns(of: Mapping[str, TableColumns], union: TableColumns) -> TableColumns:
    names, first = list(of), next(iter(of.values()))
    length = sum(columns.length for columns in of.values())
    joined = {
        name: TableColumn(
            JoinedColumn(shown.field, of)
            if name == DATASET or name in first.columns
            else ConstantColumn(shown.field, None, length)
        )
        for name, shown in union.columns.items()
    }
    return TableColumns(f"{names[0]} to {names[-1]}.{union.table}", length, joined, {})


@dataclass(frozen=True, eq=False)
class JoinedColumn:
    """A column of several data sets, one after the other."""

    field: pa.Field
    of: Mapping[str, TableColumns]
    """The columns of each data set, by name."""
    chunk_rows = 0

    @cached_property
    def parts(self) -> Sequence[TableColumn]:
        """That of each data set, as the union has it."""
        return [_column_of(name, columns, self.field) for name, columns in self.of.items()]

    def open(self, cache: DecodedCache, options: scan.ScanOptions) -> scan.OpenColumn:
        """Open it for reading; values that were joined count while what is stored is the same."""
        field, table = self.field, next(iter(self.of.values())).table
        is_fixed = field.name == scan.INDEX  # what is in it cannot change
        vectors = [None if is_fixed else column.vector for column in self.parts]
        identity = tuple(vector and vector.identity for vector in vectors)
        how = (options.zone_rows, options.max_distinct_strings)
        of = (table, tuple(self.of), field.name, str(field.type), field.nullable)
        parts = scan.CachedParts(cache, (of, how), identity)
        values = partial(self._joined, options)
        if not pa.types.is_string(field.type):
            return scan.NumberColumn(lambda: lambda span: parts.get("values", values)[span.slice])
        strings = parts.peek("values")

        def codes() -> scan.DictionaryCodes:
            given = values() if strings is None else strings
            is_missing = given.null_count > 0
            return scan.DictionaryCodes.of(
                [given], len(given), options, empty_is_missing=is_missing
            )

        return scan.StringColumn(
            lambda: parts.get("values", values),
            lambda: None if field.name == scan.NAME else parts.get("codes", codes),
            parts.peek("codes"),
            strings,
        )

    def _joined(self, options: scan.ScanOptions) -> Any:
        """Return the values of all data sets: numbers, or strings of Arrow."""
        scratch = DecodedCache(max_bytes=_SCRATCH_BYTES)
        values = [pa.array([], self.field.type)]
        for column, source in zip(self.parts, self.of.values(), strict=True):
            check_cancelled()
            if source.length:
                rows = scan.Rows(Span(0, source.length))
                values.append(scan.plain_array(column.open(scratch, options).to_arrow(rows)))
        joined = pa.concat_arrays(values)
        is_string = pa.types.is_string(joined.type)
        return joined if is_string else joined.to_numpy(zero_copy_only=False)


class UnionDataset(TableDataset):
    """The rows of several tables.

    Parameters
    ----------
    table
        The name of the table: an axis.
    parts
        The table of each data set, by what the column ``dataset`` calls it; or what makes it: to
        make thousands takes longer than to scan them as one.
    columns
        The columns of each table, by the same names, if tables are made when they are asked for.
    location
        Where they are, for messages.
    cache
        Where the values of small data sets are kept that are scanned as one.

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
        parts: Mapping[str, TableDataset] | Callable[[str], TableDataset],
        *,
        columns: Mapping[str, TableColumns] | None = None,
        location: str,
        cache: DecodedCache | None = None,
        view: TableView | None = None,
    ) -> None:
        self._source = parts.__getitem__ if isinstance(parts, Mapping) else parts
        if isinstance(parts, Mapping):
            columns = {name: part.table_columns for name, part in parts.items()}
        self._of = of = columns or {}
        self._names = list(of)
        # What follows from these is shared by the same table with other rows.
        self._shown: dict[int, TableColumns] = {}
        self._runs: dict[scan.ScanOptions, Sequence[JoinedRun]] = {}
        first = self._source(self._names[0]) if of else None
        if first is not None and first.member_name is not None:
            length = sum(each.length for each in of.values())
            union = replace(first.table_columns, length=length)
        else:
            union = _columns_of_all(table, of)
        if view is None and first is not None:
            view = TableView(cache=cache or first.view.cache.part(), options=first.options)
        super().__init__(union, location=location, view=view)

    @property
    def _sources(self) -> dict[str, TableDataset]:
        """The tables of all data sets."""
        return {name: self._source(name) for name in self._names}

    @property
    def runs(self) -> Sequence[JoinedRun]:
        """Neighbouring small data sets that are scanned as one."""
        if self.options not in self._runs:
            self._runs[self.options] = joined_runs(self._of, self.table_columns, self.options)
        return self._runs[self.options]

    def _with_sources(self, sources: Mapping[str, TableDataset]) -> Self:
        location, view = self.location, self.view
        return type(self)(self.table_columns.table, sources, location=location, view=view)

    def _part(self, number: int, names: Sequence[str] | None = None) -> TableDataset:
        """Return the rows of a data set, with the columns of all, or with some of them."""
        name = self._names[number]
        source = self._source(name)
        view = replace(self.view, cache=source.view.cache, rows=source.view.rows)
        if source.member_name is not None:
            return source.with_view(**vars(view))
        shown = self._shown if names is None else {}
        if number not in shown:
            fields = map(self.table_columns.schema.field, names or self.table_columns.columns)
            shown[number] = columns_as(name, self._of[name], fields)
        return MemberDataset(name, source, shown[number], view)

    def _place(self) -> tuple[Callable[..., TableDataset], tuple[Any, ...]]:
        again = partial(UnionDataset, location=self.location)
        return again, (self.table_columns.table, self._sources)

    def readable(self) -> Self:
        """Return the same table: what is unreadable is noted with its data set."""
        return self

    def _members(self) -> Iterator[TableDataset]:
        return map(self._part, range(len(self._names)))

    def _scanned(self, predicate: scan.Predicate) -> Sequence[TableDataset]:
        """Return what is scanned for a predicate: data sets, and runs of small ones as one table.

        Where a condition on the column ``dataset`` leaves few of a run, these are scanned singly.
        """
        may = may_match_by_name(predicate, self._names)
        tables: list[TableDataset] = []
        position = 0
        end = Span(may.size, may.size), self.table_columns
        for members, columns in [*self.runs, end]:
            is_joined = 2 * int(np.count_nonzero(may[members.slice])) > members.size
            singles = np.flatnonzero(may[position : members.start if is_joined else members.stop])
            tables.extend(self._part(position + each) for each in singles.tolist())
            if is_joined:
                tables.append(TableDataset(columns, location=self.location, view=self.view))
            position = members.stop
        return tables

    def pieces(
        self, filter: pc.Expression | None, needed: Sequence[str], rows: int
    ) -> Iterator[Piece]:
        """Yield the pieces of each data set that a filter may leave; see `TableDataset`."""
        may = may_match_by_name(self.predicate_of(filter), self._names)
        for number in np.flatnonzero(may).tolist():
            yield from self._part(number, needed).pieces(filter, needed, rows)

    def with_matrix_columns(self, entries: Mapping[str, MatrixEntry]) -> Self:
        """Return the same table with entries of matrices as columns; NULL where one is lacking.

        Raises
        ------
        ExistsError
            The table has a column of that name.
        MatrixNotFoundError, EntryNotFoundError
            No data set has such a matrix, or such an entry.
        UnsupportedDataError
            The types of a matrix have none in common.
        """
        self._check_free(entries)
        sources = self._sources
        for name, entry in entries.items():
            sources = _with_entry(sources, name, entry)
        table = self._with_sources(sources)
        for name in table.table_columns.problems.keys() & entries.keys():
            raise errors.UnsupportedDataError(table.table_columns.problems[name])
        return table

    def _widened(self, names: AbstractSet[str]) -> Self:
        sources = self._sources.items()
        return self._with_sources({key: each.with_wide_integers(names) for key, each in sources})


def _with_entry(
    sources: Mapping[str, TableDataset], name: str, entry: MatrixEntry
) -> dict[str, TableDataset]:
    """Return tables with an entry of a matrix as a column, where it exists."""
    changed = dict(sources)
    lacking: list[errors.NotFoundError] = []
    for key, source in sources.items():
        try:
            changed[key] = source.with_matrix_columns({name: entry})
        except (
            errors.AxisNotFoundError,
            errors.MatrixNotFoundError,
            errors.EntryNotFoundError,
        ) as error:
            lacking.append(error)
    if len(lacking) == len(sources):
        nearest = [error for error in lacking if isinstance(error, errors.EntryNotFoundError)]
        raise (nearest or lacking)[0]
    return changed


def _columns_of_all(table: str, members: Mapping[str, TableColumns]) -> TableColumns:
    """Return the columns of a union; the parts have what reads them."""
    broken: dict[str, str] = {}
    schemas: dict[str, pa.Schema] = {}
    stored: dict[str, set[pa.DataType]] = defaultdict(set)
    seen: set[Hashable] = set()
    length = 0
    for member, columns in members.items():
        length += columns.length
        broken.update(columns.problems)
        signature = signature_of(columns)
        if signature is not None and signature in seen:
            continue
        seen.add(signature)
        schemas[member] = columns.schema
        for name, column in columns.columns.items():
            stored[name].add(column.own_field.type)
    fields, problems = unified(schemas, table, broken, stored)
    shown = {field.name: TableColumn(ConstantColumn(field, None, length)) for field in fields}
    return TableColumns(table, length, shown, problems)


def matrix_union(tables: Mapping[str, MatrixDataset], location: str) -> UnionDataset:
    """Return the elements of the matrices of several data sets.

    Its columns are ``dataset``, the two axes, and ``value`` in the smallest type that holds those
    of all.  Each data set is scanned by itself, so filters on ``dataset`` leave out whole files,
    and those on the axes become slices.

    Parameters
    ----------
    tables
        The long form of each data set that has the matrix, by name.
    location
        Where they are, for messages.

    Raises
    ------
    UnsupportedDataError
        The values have no type in common.

    Examples
    --------
    >>> import daf_storage
    >>> runs = {}
    >>> for name, value in (("monday", 1), ("tuesday", 2.5)):
    ...     daf = daf_storage.MemoryDaf()
    ...     daf.add_axis("cell", ["A"])
    ...     daf.add_axis("gene", ["CD8A"])
    ...     daf.set_matrix("cell", "gene", "X", [[value]])
    ...     runs[name] = MatrixDataset(daf, "cell", "gene", "X")
    >>> table = matrix_union(runs, location="runs")
    >>> table.to_table().to_pydict()
    {'dataset': ['monday', 'tuesday'], 'cell': ['A', 'A'], 'gene': ['CD8A', 'CD8A'], \
'value': [1.0, 2.5]}
    """
    title = next(iter(tables.values())).table_columns.table
    of_all = tables.values()
    value_type = common_type({each.value_type for each in of_all}) or common_type(
        {each.stored_type for each in of_all}
    )
    if value_type is None:
        types = ", ".join(f"{name}: {each.value_type}" for name, each in tables.items())
        raise errors.UnsupportedDataError(
            f"{location}: {title} has values of types that have none in common ({types}); "
            "connect the data sets one by one"
        )
    members = {name: each.changed(member=(name, value_type)) for name, each in tables.items()}
    return UnionDataset(title, members, location=location)
