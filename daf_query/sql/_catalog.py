"""Data sets as DataFusion schemas: each axis a table, and a few that describe the data set.

A table is made for each query from the metadata of that moment, so what a writer adds shows
in the next query, and one query sees one state.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import datafusion
import pyarrow as pa
from datafusion.catalog import CatalogProvider, SchemaProvider, Table

from daf_query.matrix import ConcatenatedAxis, Selection, concatenated_axis
from daf_query.scan import DEFAULT_OPTIONS, ScanOptions
from daf_query.sql._descriptions import (
    MATRICES,
    RELATIONS,
    Described,
    matrices_table,
    relations_table,
)
from daf_query.sql._planning import current_context
from daf_query.sql._scalars import scalars_table
from daf_query.table import (
    AxisDataset,
    BrokenColumns,
    Categoricals,
    MatrixDataset,
    MatrixUnionDataset,
    TableColumns,
    TableDataset,
    TableView,
    UnionDataset,
    ZarrTable,
    axis_columns,
    broken_columns,
    warn_of_problems,
    warn_once,
)
from daf_storage import DafReader, errors
from daf_storage.errors import FormatError, ReadOnlyError
from daf_storage.spi import DecodedCache, ForkLock

CATALOG = "daf"
"""The catalog of all schemas."""

PUBLIC = "public"
"""The schema of the tables that belong to no data set."""

SCALARS = "scalars"
"""The table of the scalars, unless an axis has that name."""


_ALL_ROWS = 1 << 62


def table_of_length(length: int) -> datafusion.DataFrame:
    """Return a table of which only the number of rows is right.

    The engine knows it, and answers ``count(*)`` without scanning.
    """
    rows = pa.record_batch([pa.nulls(length)], names=["none"])
    return datafusion.SessionContext().create_dataframe([[rows]])


def shared_table(shared: Mapping[str, TableDataset], name: str) -> TableDataset | None:
    """Return a table that belongs to no data set, of those of its columns that can be read."""
    table = shared.get(name)
    if table is None:
        return None
    readable = table.readable()
    warn_of_problems(readable.table_columns, readable.table_columns.broken.warned)
    return readable


class Names(list[str]):
    """Names as a sequence that can also be called: the engine does both."""

    def __call__(self) -> set[str]:
        """Return the names as a set."""
        return set(self)


class _Adding(SchemaProvider):
    """Tables and views that queries create."""

    name: str
    """The schema as queries call it."""

    def __init__(self) -> None:
        self._added: dict[str, Any] = {}

    @property
    def added(self) -> list[str]:
        """The names of tables and views that queries created."""
        return list(self._added)

    def has_added(self, name: str) -> bool:
        """Return whether a query created a table or a view of this name."""
        return name in self._added

    def register_table(self, name: str, table: Any) -> None:
        """Add a table for the life of the session (``CREATE TABLE`` and ``CREATE VIEW``)."""
        self._added[name] = table

    def deregister_table(self, name: str, cascade: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - the engine's signature
        """Drop a table that a query created; axes stay."""
        self._added.pop(name, None)


class AxisSchema(_Adding):
    """Axes as tables, those that describe the data set, and what queries created.

    Parameters
    ----------
    name
        The schema as queries call it.
    shared
        Tables that belong to no data set, and can be seen from everywhere.
    """

    def __init__(self, name: str, shared: Mapping[str, TableDataset]) -> None:
        super().__init__()
        self.name = name
        """The schema as queries call it."""
        self._shared = shared
        self._warned: set[str] = set()

    @property
    def location(self) -> str:
        """Where it is, for messages."""
        raise NotImplementedError

    def axes_set(self) -> set[str]:
        """Return the axes."""
        raise NotImplementedError

    def axis_length(self, axis: str) -> int:
        """Return the number of rows of a table."""
        raise NotImplementedError

    def dataset(self, axis: str) -> TableDataset:
        """Return the table of an axis, as it is now."""
        raise NotImplementedError

    def matrix_table(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        rows: Selection | None = None,
        columns: Selection | None = None,
    ) -> TableDataset:
        """Return the long form of a matrix, as it is now; of some entries of its axes."""
        raise NotImplementedError

    def data_sets(self) -> Sequence[tuple[DafReader, DecodedCache]]:
        """Return the data sets behind it, each with the cache of its tables."""
        raise NotImplementedError

    descriptions: tuple[str, ...] = (MATRICES, RELATIONS)
    """The tables that describe it; an axis of such a name takes precedence."""

    def description(self, name: str) -> pa.dataset.Dataset:
        """Return one of the tables that describe it, as it is now; one of `descriptions`."""
        if name == RELATIONS:
            return relations_table(self.described())
        table, problems = matrices_table(self.described())
        for matrix, problem in problems.items():
            warn_once(f"the table {MATRICES!r} lacks {matrix}: {problem}", self._warned)
        return table

    def described(self) -> Described:
        """Return the data sets that are described."""
        raise NotImplementedError

    @property
    def broken_count(self) -> int:
        """How often a column turned out to be unreadable while it was read."""
        raise NotImplementedError

    def close(self) -> None:
        """Close what was opened for it."""
        raise NotImplementedError

    @property
    def table_names(self) -> Names:
        """The axes in alphabetical order, then descriptions, then what queries created."""
        axes = sorted(self.axes_set())
        descriptions = [name for name in self.descriptions if name not in axes]
        others = sorted({*self._added, *self._shared} - {*axes, *descriptions})
        return Names(axes + descriptions + others)

    def table_exist(self, name: str) -> bool:
        """Return whether there is a table of this name."""
        return name in self.table_names

    def table(self, name: str) -> Table | None:
        """Return a table as it is now; None if there is none, or its axis is broken.

        The engine lists all tables by this, and one that raises would hide the others.  Whoever
        queries it gets the reason from `find`, or from `check_table`.
        """
        try:
            return self._table(name)
        except (FormatError, ReadOnlyError):
            return None

    def check_table(self, name: str) -> None:
        """Raise why a table cannot be had for the query that is planned, if it cannot."""
        self._table(name)

    def _table(self, name: str) -> Table | None:
        replacement = current_context().replacements.get((self.name, name))
        if replacement is not None:
            return Table(replacement)
        if name in self._added:
            return Table(self._added[name])
        table = self.find(name)
        if table is not None:
            return table_for_query(self.name, name, table)
        return _pushed_to(self.description(name)) if name in self.descriptions else None

    def find(self, name: str) -> TableDataset | None:
        """Return the table of an axis, or one that belongs to no data set; None for any other."""
        if name in self._added:
            return None
        return self.dataset(name) if name in self.axes_set() else shared_table(self._shared, name)


class DafSchema(AxisSchema):
    """The tables of one data set."""

    descriptions = (MATRICES, RELATIONS, SCALARS)

    def __init__(
        self,
        name: str,
        daf: DafReader,
        cache: DecodedCache,
        shared: Mapping[str, TableDataset] = MappingProxyType({}),
        *,
        scan_options: ScanOptions = DEFAULT_OPTIONS,
        categoricals: Categoricals = "string",
    ) -> None:
        super().__init__(name, shared)
        self._categoricals: Categoricals = categoricals
        self._scan_options = scan_options
        self._daf = daf
        self.cache = cache
        self._known: dict[str, tuple[Hashable, TableColumns]] = {}
        self._broken: dict[str, BrokenColumns] = {}
        self._lock = ForkLock()

    @property
    def daf(self) -> DafReader:
        """The data set."""
        return self._daf

    @property
    def location(self) -> str:
        """Where it is, for messages."""
        return self._daf.location

    def data_sets(self) -> Sequence[tuple[DafReader, DecodedCache]]:
        """Return the data set, and the cache of its tables."""
        return [(self._daf, self.cache)]

    def axes_set(self) -> set[str]:
        """Return the axes."""
        return self._daf.axes_set()

    def axis_length(self, axis: str) -> int:
        """Return the number of entries."""
        return self._daf.axis_length(axis)

    def find(self, name: str) -> TableDataset | None:
        """Return the table of an axis, or one that belongs to no data set; None for any other."""
        if name in self._added:
            return None
        if self._daf.has_axis(name):
            return self.dataset(name)
        return shared_table(self._shared, name)

    def table_exist(self, name: str) -> bool:
        """Return whether there is a table of this name; does not list the others."""
        is_own = name in self._added or name in self.descriptions or self._daf.has_axis(name)
        return is_own or name in self._shared

    def columns(self, axis: str) -> TableColumns:
        """Return the columns of an axis; the same as before, unless its metadata changed."""
        identity = self._daf.axis_identity(axis)
        with self._lock:
            known = self._known.get(axis)
        if known is None or known[0] != identity:
            with self._lock:
                broken = self._broken.setdefault(axis, broken_columns(self._daf, axis))
            known = (identity, axis_columns(self._daf, axis, broken, self._categoricals))
            with self._lock:
                self._known[axis] = known
        columns = known[1].readable()
        warn_of_problems(columns, self._warned)
        return columns

    def dataset(self, axis: str) -> AxisDataset:
        """Return the table of an axis; its metadata is read only if it changed."""
        return self.table_of(axis, self.columns(axis))

    def table_of(self, axis: str, columns: TableColumns) -> AxisDataset:
        """Return the table of an axis whose columns are known."""
        view = TableView(cache=self.cache, options=self._scan_options)
        return AxisDataset(self._daf, axis, columns=columns, view=view)

    def matrix_table(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        rows: Selection | None = None,
        columns: Selection | None = None,
    ) -> MatrixDataset:
        """Return the long form of a matrix, as it is now; of some entries of its axes."""
        view = TableView(cache=self.cache, options=self._scan_options)
        return MatrixDataset(
            self._daf, rows_axis, columns_axis, name, rows=rows, columns=columns, view=view
        )

    @property
    def broken_count(self) -> int:
        """How often a column turned out to be unreadable."""
        with self._lock:
            return sum(broken.count for broken in self._broken.values())

    def description(self, name: str) -> pa.dataset.Dataset:
        """Return one of the tables that describe it; of the scalars, those that can be read."""
        if name != SCALARS:
            return super().description(name)
        table, problems = scalars_table(self._daf)
        for scalar, problem in problems.items():
            warn_once(f"the table {SCALARS!r} lacks the scalar {scalar!r}: {problem}", self._warned)
        return table

    def described(self) -> Described:
        """Return the data sets that are described."""
        return Described(self.name, {None: self._daf})

    def close(self) -> None:
        """Close the data set, and forget what was decoded of it."""
        self.cache.clear()
        self._daf.close()


class CollectionSchema(AxisSchema):
    """The tables of several data sets as one: the rows of all, with a column ``dataset``.

    Parameters
    ----------
    members
        The schema of each data set, by what the column ``dataset`` calls it.
    """

    def __init__(
        self,
        name: str,
        members: Mapping[str, DafSchema],
        location: str,
        cache: DecodedCache,
        shared: Mapping[str, TableDataset] = MappingProxyType({}),
    ) -> None:
        super().__init__(name, shared)
        self.members = members
        """The schema of each data set, by what the column ``dataset`` calls it."""
        self._location = location
        self._cache = cache
        self._known: dict[str, tuple[dict[str, TableColumns], UnionDataset]] = {}

    @property
    def location(self) -> str:
        """Where they are, for messages."""
        return self._location

    def data_sets(self) -> Sequence[tuple[DafReader, DecodedCache]]:
        """Return the data sets, each with the cache of its tables."""
        return [pair for member in self.members.values() for pair in member.data_sets()]

    def readers(self) -> dict[str, DafReader]:
        """Return the data sets by name."""
        return {name: member.daf for name, member in self.members.items()}

    def matrix_readers(self, axes: tuple[str, str], name: str) -> dict[str, DafReader]:
        """Return the data sets that have a matrix over two axes, by name.

        Raises
        ------
        AxisNotFoundError, MatrixNotFoundError
            None has an axis, or the matrix.
        """
        known_axes = self.axes_set()
        for axis in axes:
            if axis not in known_axes:
                raise errors.axis_not_found(self._location, axis, known_axes)
        over = {key: daf for key, daf in self.readers().items() if all(map(daf.has_axis, axes))}
        having = {key: daf for key, daf in over.items() if daf.has_matrix(*axes, name)}
        if not having:
            known = {each for daf in over.values() for each in daf.matrices_set(*axes)}
            raise errors.matrix_not_found(self._location, *axes, name, known)
        return having

    def find(self, name: str) -> TableDataset | None:
        """Return the table of an axis, or one that belongs to no data set; None for any other."""
        if name in self._added:
            return None
        return self.dataset(name) if self._has_axis(name) else shared_table(self._shared, name)

    def table_exist(self, name: str) -> bool:
        """Return whether there is a table of this name; does not list the others."""
        is_own = name in self._added or name in self.descriptions or name in self._shared
        return is_own or self._has_axis(name)

    def _has_axis(self, axis: str) -> bool:
        return any(member.daf.has_axis(axis) for member in self.members.values())

    def axes_set(self) -> set[str]:
        """Return the axes that some data set has."""
        return {axis for member in self.members.values() for axis in member.axes_set()}

    def axis_length(self, axis: str) -> int:
        """Return the number of entries of an axis, together."""
        having = [member for member in self.members.values() if member.daf.has_axis(axis)]
        return sum(member.axis_length(axis) for member in having)

    def dataset(self, axis: str) -> UnionDataset:
        """Return the table of an axis: the rows of all data sets that have it.

        It is the one of the last query as long as the metadata of all of them are the same.
        """
        columns = {
            name: member.columns(axis)
            for name, member in self.members.items()
            if member.daf.has_axis(axis)
        }
        known = self._known.get(axis)
        if known is None or not _are_same(known[0], columns):
            parts = {
                name: self.members[name].table_of(axis, each) for name, each in columns.items()
            }
            union = UnionDataset(axis, parts, location=self._location, cache=self._cache.part())
            known = self._known[axis] = (columns, union)
        warn_of_problems(known[1].table_columns, self._warned)
        return known[1]

    def matrix_table(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        rows: Selection | None = None,
        columns: Selection | None = None,
    ) -> MatrixUnionDataset:
        """Return the long form of a matrix: the elements of all data sets that have it.

        Parameters
        ----------
        rows, columns
            Positions along the concatenated axes: those of the rows of the union tables.
        """
        axes = (rows_axis, columns_axis)
        having = self.matrix_readers(axes, name)
        chosen = [
            self._of_each(axis, selection)
            for axis, selection in zip(axes, (rows, columns), strict=True)
        ]
        tables = {
            key: self.members[key].matrix_table(
                *axes, name, rows=chosen[0].get(key), columns=chosen[1].get(key)
            )
            for key in having
        }
        return MatrixUnionDataset(tables, location=self._location)

    def concatenated(self, axis: str) -> ConcatenatedAxis:
        """Return an axis of all data sets that have it."""
        return concatenated_axis(self.readers(), axis, location=self._location)

    def _of_each(self, axis: str, selection: Selection | None) -> dict[str, Selection]:
        """Return the selected entries of each data set; nothing where all are selected."""
        if selection is None:
            return {}
        concatenated = self.concatenated(axis)
        owners, positions = concatenated.split(selection.positions)
        return {
            name: Selection.of(positions[owners == number], daf.axis_length(axis))
            for number, (name, daf) in enumerate(concatenated.members.items())
        }

    @property
    def broken_count(self) -> int:
        """How often a column turned out to be unreadable."""
        return sum(member.broken_count for member in self.members.values())

    def described(self) -> Described:
        """Return the data sets that are described."""
        return Described(self.name, {name: member.daf for name, member in self.members.items()})

    def close(self) -> None:
        """Close all data sets."""
        for member in self.members.values():
            member.close()


def _are_same(known: Mapping[str, TableColumns], columns: Mapping[str, TableColumns]) -> bool:
    """Return whether columns are those of before, of the same data sets."""
    return known.keys() == columns.keys() and all(
        known[name] is each for name, each in columns.items()
    )


class SharedSchema(_Adding):
    """Tables that belong to no data set."""

    name = PUBLIC

    def __init__(self, shared: Mapping[str, TableDataset]) -> None:
        super().__init__()
        self._shared = shared

    @property
    def table_names(self) -> Names:
        """What was registered, then what queries created."""
        return Names(sorted(self._shared) + sorted(self._added))

    def table_exist(self, name: str) -> bool:
        """Return whether there is a table of this name."""
        return name in self._shared or name in self._added

    def table(self, name: str) -> Table | None:
        """Return a table; None if there is none."""
        if name in self._added:
            return Table(current_context().replacements.get((PUBLIC, name), self._added[name]))
        table = shared_table(self._shared, name)
        return None if table is None else table_for_query(PUBLIC, name, table)


class DafCatalog(CatalogProvider):
    """The schemas of a session; what is added to or removed from the mappings shows at once."""

    def __init__(self, schemas: Mapping[str, AxisSchema], public: SharedSchema) -> None:
        self._schemas = schemas
        self._public = public

    def schema_names(self) -> set[str]:
        """Return the names of the data sets."""
        return {*self._schemas, PUBLIC}

    def schema(self, name: str) -> SchemaProvider | None:  # type: ignore[override] # a provider will do
        """Return one data set's schema."""
        return self._schemas.get(name) or (self._public if name == PUBLIC else None)


def table_for_query(schema: str, name: str, table: TableDataset) -> Table:
    """Return a table as the query that is planned needs it."""
    context = current_context()
    columns = context.matrix_columns.get((schema, name))
    if columns:
        table = table.with_matrix_columns(columns)
    positions = context.position_columns.get((schema, name))
    if positions and isinstance(table, AxisDataset):
        table = table.with_entry_positions(positions)
    restriction = context.restrictions.get((schema, name))
    if restriction is not None:
        table = table.restricted(restriction.rows, restriction.predicate)
        if restriction.settled is not None and isinstance(table, ZarrTable):
            table = table.with_settled(restriction.settled)
    return _pushed_to(table if context.reports is None else table.with_reports(context.reports))


def _pushed_to(dataset: pa.dataset.Dataset) -> Table:
    """Return a table that is handed filters, unless the engine is to keep them.

    No filter gets past a limit, even if it is larger than any table.
    """
    if current_context().pushes_filters:
        return Table(dataset)
    return Table(datafusion.SessionContext().read_table(Table(dataset)).limit(_ALL_ROWS))
