"""The tables of several data sets as one: the rows of all, and which data set each is of.

Columns go by name.  One that a data set lacks is null there; numbers of different types become the
smallest type that holds them all.  Each data set is scanned by itself: what is true for none of its
rows is not read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from daf_query.distributed import token_of
from daf_query.scan import (
    INDEX,
    NAME,
    Column,
    Mask,
    Positions,
    Predicate,
    ScanOptions,
    ScanReport,
    balanced,
    numpy_type,
)
from daf_query.table._arrow_operations import BATCH_ROWS, Fragment
from daf_query.table._columns import DATASET, NullColumn, is_of_few_bits
from daf_query.table._dask_frames import PartSpan
from daf_query.table._dataset import TableDataset, TableFragment
from daf_query.table._joined_members import JoinedRun, JoinedRuns, joined_runs
from daf_query.table._matrix_columns import MatrixColumn, MatrixEntry
from daf_query.table._member_rows import (
    MemberPart,
    MemberParts,
    MemberSpans,
    columns_of_tables,
    may_match_by_name,
    member_spans,
)
from daf_query.table._table_columns import TableColumns, signature_of
from daf_query.table._table_scanner import TableScanner, TableView, as_expression
from daf_storage import errors
from daf_storage.base import DecodedCache, Span, paused_collection


def unified(
    schemas: Mapping[str, pa.Schema],
    table: str,
    broken: Mapping[str, str] = MappingProxyType({}),
    of_matrices: Mapping[str, set[pa.DataType]] = MappingProxyType({}),
) -> tuple[list[pa.Field], dict[str, str]]:
    """Return the columns of several tables as one, and why some cannot be.

    A column that is broken in one of them is left out of all: it is not missing there.

    Parameters
    ----------
    of_matrices
        The columns that are entries of matrices, and the types in which these are stored.

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
        types_of = {field.type for field in having.values()}
        stored = of_matrices.get(name)
        shared_type = (
            common_type(types_of) if stored is None else value_type_of_all(types_of, stored)
        )
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


def value_type_of_all(shown: set[pa.DataType], stored: set[pa.DataType]) -> pa.DataType | None:
    """Return the type of the values of a matrix of several; booleans count as 0 and 1.

    Parameters
    ----------
    shown
        The types in which the table of each has them; see `value_type`.
    stored
        Those in which they are stored.

    Examples
    --------
    >>> value_type_of_all({pa.bool_(), pa.int64()}, {pa.bool_(), pa.int8()})
    DataType(int64)
    >>> value_type_of_all({pa.uint64(), pa.int64()}, {pa.uint64(), pa.uint8()})
    DataType(uint64)
    """
    return common_type(_numbers(shown)) or common_type(_numbers(stored))


def _numbers(types: set[pa.DataType]) -> set[pa.DataType]:
    return types if len(types) == 1 else types - {pa.bool_()}


def common_type(types: set[pa.DataType]) -> pa.DataType | None:
    """Return the smallest type that holds all values of some; ``None`` if there is none."""
    if len(types) == 1:
        return next(iter(types))
    if not all(pa.types.is_integer(t) or pa.types.is_floating(t) for t in types):
        return None
    dtypes = [numpy_type(arrow_type) for arrow_type in types]
    common = np.result_type(*dtypes)
    are_integers = all(dtype.kind in "iu" for dtype in dtypes)
    if common.kind == "f" and are_integers:  # Int64 with UInt64
        return None
    return pa.from_numpy_dtype(common)


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
    columns
        The columns of all, where they are known already.

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
        parts: Mapping[str, TableDataset] | MemberParts,
        *,
        location: str,
        columns: TableColumns | None = None,
        cache: DecodedCache | None = None,
        runs: JoinedRuns | None = None,
    ) -> None:
        if not isinstance(parts, MemberParts):
            columns = columns or _columns_of_all(table, columns_of_tables(parts)[0])
            parts = MemberParts.of(parts, columns.schema)
        columns = columns or _columns_of_all(table, parts.columns)
        # How many fragments there are follows from the first part; each is read in its own way.
        first = parts[0] if parts else None
        view = None if first is None else TableView(options=first.options)
        super().__init__(columns, location=location, view=view)
        self._parts: Sequence[Any] = parts
        self._members = parts
        self._joined_cache = cache or (DecodedCache() if first is None else first.cache.part())
        self._known_runs = runs

    def _with_each(
        self,
        change: Callable[[MemberPart], MemberPart],
        *,
        cache: DecodedCache | None = None,
    ) -> Self:
        """Return the same table with other parts."""
        return type(self)(
            self._columns.table,
            self._members.changed(change),
            location=self._location,
            columns=self._columns,
            cache=cache or self._joined_cache,
            runs=self._known_runs,
        )

    @property
    def _alike(self) -> Sequence[Any]:
        """Parts whose filters are those of all: of parts that are made when needed, the first."""
        return self._parts[:1] if getattr(self._parts, "is_uniform", False) else self._parts

    @property
    def _runs(self) -> Sequence[JoinedRun]:
        """Neighbouring small parts that are scanned as one."""
        known = self._known_runs
        if known is None or known.options != self.options:
            with paused_collection(len(self._members)):
                runs = joined_runs(self._members, self._columns, self.options)
            known = self._known_runs = JoinedRuns(self.options, runs)
        return known.runs

    def _scanned(self, filter: pc.Expression | None) -> Sequence[TableDataset]:  # noqa: A002 - pyarrow's name
        """Return what is scanned for a filter: parts, and runs of small ones as one table.

        Where a filter of the column ``dataset`` leaves few of a run, these are scanned singly.
        """
        if not self._runs or not self._parts:
            return self._parts
        may_match = may_match_by_name(self._members, filter)
        tables: list[TableDataset] = []
        position = 0
        for run in self._runs:
            span = run.members
            tables += self._single(Span(position, span.start), may_match)
            if 2 * int(np.count_nonzero(may_match[span.slice])) > span.size:
                view = self._parts[span.start].view
                location = self._location
                joined = replace(view, cache=self._joined_cache)
                tables.append(TableDataset(run.columns, location=location, view=joined))
            else:
                tables += self._single(span, may_match)
            position = span.stop
        tables += self._single(Span(position, len(self._parts)), may_match)
        return tables or self._parts[:1]

    def _single(self, span: Span, may_match: Mask) -> list[MemberPart]:
        numbers = np.flatnonzero(may_match[span.slice]) + span.start
        return [self._parts[number] for number in numbers.tolist()]

    def __reduce__(self) -> Any:
        """Pickle the places of the parts, not the data; the other process opens them again."""
        tables = {part.name: part.source for part in self._parts}
        views = {part.name: part.view.pickled() for part in self._parts}
        return _open_union, (self._columns.table, tables, self._location, views)

    def get_fragments(
        self,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's signature
    ) -> Iterator[Any]:
        """Yield groups of partitions that can be scanned side by side."""
        fragments = [f for table in self._scanned(filter) for f in table.get_fragments(filter)]
        groups = balanced(
            fragments, lambda fragment: fragment.row_count, max_groups=self.options.threads
        )
        return (UnionFragment(self, group) for group in groups)

    def member_spans(self, filter: pc.Expression | None = None) -> Iterator[MemberSpans]:  # noqa: A002 - pyarrow's name
        """Yield the rows of each data set that a filter may leave, by partitions; none is joined.

        Of small data sets without an index, no column is opened.
        """
        return member_spans(self._members, as_expression(filter))

    def member(self, number: int, fields: Sequence[pa.Field], options: ScanOptions) -> TableDataset:
        """Return the rows of one data set, with some of the columns."""
        part = self._members[number]
        return MemberPart(part.name, part.source, fields, view=TableView(options=options))

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
        tables = self._scanned(filter)
        return _chained([table.scanner(columns, filter, batch_size) for table in tables])

    def filter(self, expression: pc.Expression) -> Self:
        """Return the same table with only the rows for which ``expression`` is true."""
        return self._with_each(lambda part: part.filter(expression))

    def restricted(self, rows: Positions | None, inferred: Predicate | None = None) -> Self:
        """Return the same table, of which only some rows are wanted; see `TableDataset`."""
        if rows is not None:
            raise errors.InvalidInputError(f"{self!r} has no rows of its own to choose from")
        return self._with_each(lambda part: part.restricted(None, inferred))

    def first_rows(self, count: int) -> Self:
        """Return the first parts, which have so many rows, the last of them cut; see above."""
        if self.is_filtered:
            return self
        parts: dict[str, TableDataset] = {}
        for part in self._parts:
            parts[part.name] = part.first_rows(count)
            count -= part.table_columns.length
            if count <= 0:
                break
        return type(self)(
            self._columns.table,
            parts,
            location=self._location,
            columns=self._columns,
            runs=JoinedRuns(self.options, ()),
        )

    def with_reports(self, reports: list[ScanReport]) -> Self:
        """Return the same table, whose scans leave their reports in a list."""
        return self._with_each(lambda part: part.with_reports(reports))

    def with_cache(self, cache: DecodedCache) -> Self:
        """Return the same table; each part keeps what it decodes in a part of a cache."""
        return self._with_each(lambda part: part.with_cache(cache.part()), cache=cache.part())

    def with_options(self, options: ScanOptions) -> Self:
        """Return the same table, which is cut, pruned and read in another way."""
        return self._with_each(lambda part: part.with_options(options))

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
        sources = {part.name: part.source for part in self._parts}
        for name, entry in entries.items():
            sources = _with_entry(sources, name, entry)
        columns = _columns_of_all(self._columns.table, columns_of_tables(sources)[0])
        for name in columns.problems.keys() & entries.keys():
            raise errors.UnsupportedDataError(columns.problems[name])
        return self._of_sources(sources, columns)

    def with_wide_integers(self, names: AbstractSet[str]) -> Self:
        """Return the same table with integers of few bits as Int64, in columns of some names."""
        if not any(field.name in names and is_of_few_bits(field.type) for field in self.schema):
            return self
        sources = {part.name: part.source.with_wide_integers(names) for part in self._parts}
        return self._of_sources(
            sources, _columns_of_all(self._columns.table, columns_of_tables(sources)[0])
        )

    def _of_sources(self, sources: Mapping[str, TableDataset], columns: TableColumns) -> Self:
        parts = {
            part.name: part.with_source(sources[part.name], list(columns.schema))
            for part in self._parts
        }
        return type(self)(self._columns.table, parts, location=self._location, columns=columns)

    def with_pickled_views(self, views: Mapping[str, Mapping[str, Any]]) -> Self:
        """Return the same table with the views of the parts of one that was pickled."""
        return self._with_each(lambda part: part.with_pickled(views[part.name]))

    def part_spans(self) -> list[PartSpan]:
        """Return the spans of rows of each part in which the filter may be true."""
        return [
            replace(span, part=number)
            for number, part in enumerate(self._parts)
            for span in part.part_spans()
        ]

    def read_spans(self, spans: Sequence[PartSpan], columns: Sequence[str]) -> pa.Table:
        """Return the rows of spans for which the filter is true."""
        tables = [self._parts[span.part].read_spans([span], columns) for span in spans]
        return pa.concat_tables(tables)

    def filter_columns(self) -> list[str]:
        """Return the columns of the filter of the table."""
        return sorted({name for part in self._alike for name in part.filter_columns()})

    def data_version(self, columns: Iterable[str]) -> str | None:
        """Return what changes with the values of columns, in any process; None if unknown."""
        named = list(columns)
        versions = [part.source.data_version(named) for part in self._parts]
        known = [version for version in versions if version is not None]
        return token_of(known) if len(known) == len(versions) else None

    @property
    def is_filtered(self) -> bool:
        """Whether `filter` leaves only some of the rows."""
        return any(part.is_filtered for part in self._alike)


class UnionFragment(Fragment):
    """Some partitions of some of the tables."""

    def __init__(self, dataset: UnionDataset, fragments: Sequence[TableFragment]) -> None:
        super().__init__(dataset)
        self.parts = fragments
        """The fragments of single tables."""

    def __repr__(self) -> str:
        return f"UnionFragment({self._dataset!r}, {len(self.parts)} parts)"

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
        return _chained([part.scanner(schema, columns, filter, batch_size) for part in self.parts])

    def count_rows(self, filter: pc.Expression | None = None, **kwargs: Any) -> int:  # noqa: A002 - pyarrow's name
        """Return the number of rows; without a filter nothing is read."""
        return sum(part.count_rows(filter, **kwargs) for part in self.parts)


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
    of_matrices: dict[str, set[pa.DataType]] = {}
    schemas: dict[str, pa.Schema] = {}
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
            if isinstance(column, MatrixColumn):
                of_matrices.setdefault(name, set()).add(column.stored_type)
    fields, problems = unified(schemas, table, broken, of_matrices)
    shown: dict[str, Column] = {field.name: NullColumn(field) for field in fields}
    return TableColumns(table, length, shown, problems)


def _open_union(
    table: str,
    parts: Mapping[str, TableDataset],
    location: str,
    views: Mapping[str, Mapping[str, Any]],
) -> UnionDataset:
    return UnionDataset(table, parts, location=location).with_pickled_views(views)


def _chained(scanners: Sequence[Any]) -> Any:
    """Return a scanner of the rows of several, one after the other."""
    schema = scanners[0].projected_schema
    batches = itertools.chain.from_iterable(scanner.to_batches() for scanner in scanners)
    return TableScanner(schema, batches, BATCH_ROWS)
