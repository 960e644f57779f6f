"""The tables of several data sets as one: the rows of all, and which data set each is of.

Columns go by name.  One that a data set lacks is null there; numbers of different types become the
smallest type that holds them all.  Each data set is scanned by itself: what is true for none of its
rows is not read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from daf_query.dask_blocks import token_of
from daf_query.scan import (
    And,
    Column,
    Constant,
    IsNull,
    Mask,
    Or,
    Positions,
    Predicate,
    ScanOptions,
    ScanReport,
    balanced,
    columns_of,
    conjuncts,
    evaluate,
)
from daf_query.table._common_types import unified
from daf_query.table._dask_frames import PartSpan
from daf_query.table._dataset import TableDataset, TableFragment
from daf_query.table._filter_expressions import as_expression, both
from daf_query.table._fragment import BATCH_ROWS, Fragment
from daf_query.table._joined_members import JoinedRun, JoinedRuns, joined_runs
from daf_query.table._matrix_columns import MatrixColumn, MatrixEntry
from daf_query.table._table_columns import TableColumns
from daf_query.table._table_scanner import TableScanner
from daf_query.table._table_view import TableView
from daf_query.table._union_columns import DATASET, ConstantColumn, NullColumn, column_as
from daf_storage import errors
from daf_storage.spi import DecodedCache, Span


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
        parts: Mapping[str, TableDataset],
        *,
        location: str,
        columns: TableColumns | None = None,
        cache: DecodedCache | None = None,
        runs: JoinedRuns | None = None,
    ) -> None:
        columns = columns or _columns_of_all(table, parts)
        fields = list(columns.schema)
        # How many fragments there are follows from the first part; each is read in its own way.
        first = next(iter(parts.values()), None)
        view = None if first is None else TableView(options=first.options)
        super().__init__(columns, location=location, view=view)
        self._parts = [
            part if isinstance(part, _Part) else _Part(name, part, fields)
            for name, part in parts.items()
        ]
        self._joined_cache = cache or (DecodedCache() if first is None else first.cache.part())
        self._known_runs = runs

    def _with_each(
        self, change: Callable[[_Part], _Part], *, cache: DecodedCache | None = None
    ) -> Self:
        """Return the same table with other parts."""
        return type(self)(
            self._columns.table,
            {part.name: change(part) for part in self._parts},
            location=self._location,
            columns=self._columns,
            cache=cache or self._joined_cache,
            runs=self._known_runs,
        )

    @property
    def _runs(self) -> Sequence[JoinedRun]:
        """Neighbouring small parts that are scanned as one."""
        known = self._known_runs
        if known is None or known.options != self.options:
            members = [(part.name, part.table_columns) for part in self._parts]
            runs = joined_runs(members, self._columns.table, self.options)
            known = self._known_runs = JoinedRuns(self.options, runs)
        return known.runs

    def _scanned(self, filter: pc.Expression | None) -> Sequence[_MemberRows]:  # noqa: A002 - pyarrow's name
        """Return what is scanned for a filter: parts, and runs of small ones as one table.

        Where a filter of the column ``dataset`` leaves few of a run, these are scanned singly.
        """
        if not self._runs or not self._parts:
            return self._parts
        may_match = self._may_match(as_expression(filter))
        tables: list[_MemberRows] = []
        position = 0
        for run in self._runs:
            span = run.members
            tables += self._single(Span(position, span.start), may_match)
            if 2 * int(np.count_nonzero(may_match[span.slice])) > span.size:
                view = self._parts[span.start].view
                location = self._location
                joined = replace(view, cache=self._joined_cache)
                tables.append(_MemberRows(run.columns, location=location, view=joined))
            else:
                tables += self._single(span, may_match)
            position = span.stop
        tables += self._single(Span(position, len(self._parts)), may_match)
        return tables or self._parts[:1]

    def _single(self, span: Span, may_match: Mask) -> list[_Part]:
        parts = self._parts[span.start : span.stop]
        return list(itertools.compress(parts, may_match[span.slice]))

    def _may_match(self, expression: pc.Expression | None) -> Mask:
        """Return which parts have rows for which a filter may be true, by their name alone."""
        count = len(self._parts)
        mask = np.ones(count, np.bool_)
        predicate = self._parts[0].predicate_of(expression)
        names = pa.array([part.name for part in self._parts], pa.string())
        for condition in conjuncts(predicate):
            if columns_of(condition) == [DATASET]:
                mask &= evaluate(condition, lambda _: names, count)
        return mask

    def __reduce__(self) -> Any:
        """Pickle the places of the parts, not the data; the other process opens them again."""
        tables = {part.name: part.source for part in self._parts}
        views = {part.name: part.pickled_view for part in self._parts}
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
        columns = _columns_of_all(self._columns.table, sources)
        for name in columns.problems.keys() & entries.keys():
            raise errors.UnsupportedDataError(columns.problems[name])
        return self._of_sources(sources, columns)

    def with_wide_integers(self, names: AbstractSet[str]) -> Self:
        """Return the same table with integers of few bits as Int64, in columns of some names."""
        sources = {part.name: part.source.with_wide_integers(names) for part in self._parts}
        return self._of_sources(sources, _columns_of_all(self._columns.table, sources))

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
        return sorted({name for part in self._parts for name in part.filter_columns()})

    def data_version(self, columns: Iterable[str]) -> str | None:
        """Return what changes with the values of columns, in any process; None if unknown."""
        named = list(columns)
        versions = [part.source.data_version(named) for part in self._parts]
        known = [version for version in versions if version is not None]
        return token_of(known) if len(known) == len(versions) else None

    @property
    def is_filtered(self) -> bool:
        """Whether `filter` leaves only some of the rows."""
        return any(part.is_filtered for part in self._parts)


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


class _MemberRows(TableDataset):
    """The rows of some data sets, with the columns of all."""

    @property
    def view(self) -> TableView:
        """Which rows are wanted, and how they are read."""
        return self._view

    @property
    def _absent(self) -> frozenset[str]:
        columns = self._columns.columns.items()
        return frozenset(name for name, column in columns if isinstance(column, NullColumn))

    def predicate_of(self, expression: pc.Expression | None) -> Predicate | None:
        """Return what is evaluated for a filter; ``None`` if Arrow has to do it."""
        return super()._parsed(both(self._view.base_filter, expression))

    def _parsed(self, expression: pc.Expression | None) -> Predicate | None:
        predicate = super()._parsed(expression)
        absent = self._absent if predicate is not None else frozenset()
        if predicate is None or not absent.intersection(columns_of(predicate)):
            return predicate
        return without(predicate, absent)


class _Part(_MemberRows):
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
        fields: Sequence[pa.Field],
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

    @property
    def member_name(self) -> str:
        """What the column ``dataset`` calls it."""
        return self.name

    def with_source(self, source: TableDataset, fields: Sequence[pa.Field]) -> Self:
        """Return the same rows of another table."""
        return type(self)(self.name, source, fields, view=self._view)

    @property
    def pickled_view(self) -> dict[str, Any]:
        """Which rows are left."""
        return self._view.pickled()


def member_table(name: str, source: TableDataset, fields: Sequence[pa.Field]) -> TableDataset:
    """Return the table of one data set as a union of several has it.

    Parameters
    ----------
    name
        What the column ``dataset`` calls it.
    fields
        The columns of the union; those that this data set lacks are NULL.
    """
    return _Part(name, source, fields)


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


def _columns_of_all(table: str, parts: Mapping[str, TableDataset]) -> TableColumns:
    """Return the columns of a union; the parts have what reads them."""
    broken: dict[str, str] = {}
    for part in parts.values():
        broken.update(part.table_columns.problems)
    schemas = {name: part.schema for name, part in parts.items()}
    of_matrices: dict[str, set[pa.DataType]] = {}
    for part in parts.values():
        for name, column in part.table_columns.columns.items():
            if isinstance(column, MatrixColumn):
                of_matrices.setdefault(name, set()).add(column.stored_type)
    fields, problems = unified(schemas, table, broken, of_matrices)
    length = sum(part.table_columns.length for part in parts.values())
    columns: dict[str, Column] = {field.name: NullColumn(field) for field in fields}
    return TableColumns(table, length, columns, problems)


def _columns_as(name: str, source: TableColumns, fields: Sequence[pa.Field]) -> TableColumns:
    """Return the columns of one data set as the union has them."""
    columns: dict[str, Column] = {
        field.name: ConstantColumn(field, name, source.length)
        if field.name == DATASET
        else column_as(source.columns.get(field.name), field)
        for field in fields
    }
    table = f"{name}.{source.table}"
    return TableColumns(table, source.length, columns, {}, source.point_indexes)


def _open_union(
    table: str,
    parts: Mapping[str, TableDataset],
    location: str,
    views: Mapping[str, Mapping[str, Any]],
) -> UnionDataset:
    return UnionDataset(table, parts, location=location).with_pickled_views(views)


def without(predicate: Predicate, absent: frozenset[str]) -> Predicate:
    """Return a predicate where some columns are null in all rows.

    >>> without(And((IsNull("age"), IsNull("name"))), frozenset({"age"}))
    And(parts=(Constant(value=True), IsNull(column='name', is_negated=False)))
    """
    if isinstance(predicate, And | Or):
        return type(predicate)(tuple(without(part, absent) for part in predicate.parts))
    if isinstance(predicate, Constant) or predicate.column not in absent:
        return predicate
    return Constant(value=isinstance(predicate, IsNull) and not predicate.is_negated)


def _chained(scanners: Sequence[Any]) -> Any:
    """Return a scanner of the rows of several, one after the other."""
    schema = scanners[0].projected_schema
    batches = itertools.chain.from_iterable(scanner.to_batches() for scanner in scanners)
    return TableScanner(schema, batches, BATCH_ROWS)
