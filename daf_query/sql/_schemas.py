"""Schemas: data sets as DataFusion sees them, with tables that are their axes and descriptions.

A table is made for each query from the metadata of that moment, so what a writer adds shows in the
next query, and one query sees one state.  The columns of an axis are kept while its metadata stay
the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from daf_query import matrix
from daf_query import table as tables
from daf_query._runs import check_cancelled
from daf_query.scan import ScanOptions
from daf_query.sql._descriptions import DESCRIPTIONS, MATRICES, RELATIONS, SCALARS
from daf_query.sql._planning import current_context, datafusion, pushed_to, table_for_query
from daf_query.table import UserTable
from daf_storage import DafReader, errors
from daf_storage.base import DecodedCache, ForkLock
from daf_storage.errors import FormatError, ReadOnlyError

_ColumnsRead: TypeAlias = "tuple[Hashable, frozenset[str] | None, tables.TableColumns | None]"
_Selected: TypeAlias = "matrix.Selection | None"


class Member:
    """One of the data sets that a schema shows, or the only one."""

    def __init__(
        self,
        daf: DafReader,
        cache: DecodedCache,
        scan_options: ScanOptions,
        categoricals: tables.Categoricals = "string",
    ) -> None:
        self.daf = daf
        """The data set."""
        self.cache = cache
        """Where values of its tables are kept."""
        self.scan_options = scan_options
        """How its tables are cut, pruned and read."""
        self._categoricals: tables.Categoricals = categoricals
        self._columns_read: dict[str, _ColumnsRead] = {}
        self._broken: dict[str, tables.BrokenColumns] = {}
        self._lock = ForkLock()

    def columns(self, axis: str, names: frozenset[str] | None = None) -> tables.TableColumns:
        """Return the columns of an axis; the same as before, unless its metadata changed.

        Parameters
        ----------
        names
            Of the only ones that are needed, of which not all need be there: the metadata of others
            are not looked at, and may be missing, unless some query before needed them.
        """
        # What shows a change is looked at before the metadata: one in between shows the next time.
        identity = self.daf.axis_identity(axis)
        nothing = None, frozenset({tables.DATASET}), None
        with self._lock:
            last_identity, last_names, columns = self._columns_read.get(axis, nothing)
        names = None if names is None or last_names is None else names | last_names
        if columns is None or last_identity != identity:
            columns = self._read(axis, names)
        elif names != last_names:
            others = names if names is None or last_names is None else names - last_names
            columns = columns.with_others(self._read(axis, others))
        with self._lock:
            self._columns_read[axis] = identity, names, columns
        return columns.readable()

    def _read(self, axis: str, names: frozenset[str] | None) -> tables.TableColumns:
        with self._lock:
            broken = self._broken.setdefault(axis, tables.broken_columns(self.daf, axis))
        return tables.axis_columns(self.daf, axis, broken, self._categoricals, among=names)

    def table(self, axis: str, columns: tables.TableColumns) -> tables.AxisDataset:
        """Return the table of an axis whose columns are known."""
        return tables.AxisDataset(self.daf, axis, columns=columns, view=self._view)

    def matrix_table(
        self, axes: tuple[str, str], name: str, rows: _Selected, columns: _Selected
    ) -> tables.MatrixDataset:
        """Return the long form of a matrix, as it is now; of some entries of its axes."""
        return tables.MatrixDataset(
            self.daf, *axes, name, rows=rows, columns=columns, view=self._view
        )

    @property
    def _view(self) -> tables.TableView:
        return tables.TableView(cache=self.cache, options=self.scan_options)

    @property
    def broken_count(self) -> int:
        """How often a column turned out to be unreadable."""
        with self._lock:
            return sum(broken.count for broken in self._broken.values())

    def close(self) -> None:
        """Close the data set, and forget what was decoded of it."""
        self.cache.clear()
        self.daf.close()


PUBLIC = "public"
"""The schema of the tables that belong to no data set."""


@dataclass(frozen=True)
class BroughtTable(UserTable):
    """A table that a user brought, and that the engine knows."""

    frame: datafusion.DataFrame
    """Its rows, for the engine, which could make none of it while it plans a query."""

    def __reduce__(self) -> Any:
        """Pickle what was brought."""
        return UserTable, (self.rows, self.location)


SharedTable: TypeAlias = "tables.TableDataset | BroughtTable"
"""A table that belongs to no data set."""


class SharedSchema:
    """Tables that belong to no data set, and those that queries create.

    Parameters
    ----------
    shared
        Tables that belong to no data set, and can be seen from everywhere.
    """

    name: str = PUBLIC
    """The schema as queries call it."""

    def __init__(self, shared: Mapping[str, SharedTable]) -> None:
        self.added: dict[str, Any] = {}
        """The tables and views that queries created, by name."""
        self._shared = shared

    @property
    def table_names(self) -> list[str]:
        """What was registered, then what queries created."""
        return sorted(self._shared) + sorted(self.added)

    def table_exist(self, name: str) -> bool:
        """Return whether there is a table of this name."""
        return name in self._shared or name in self.added

    def table(self, name: str) -> datafusion.catalog.Table | None:
        """Return a table as it is now; None if there is none."""
        replacement = current_context().replacements.get((self.name, name))
        if replacement is not None or name in self.added:
            return datafusion.catalog.Table(
                self.added[name] if replacement is None else replacement
            )
        table = self.find(name)
        if table is not None:
            return table_for_query(self.name, name, table)
        shared = self._shared.get(name)
        return datafusion.catalog.Table(shared.frame) if isinstance(shared, BroughtTable) else None

    def find(self, name: str) -> tables.TableDataset | None:
        """Return a table that belongs to no data set, of those of its columns that can be read."""
        table = self._shared.get(name)
        if not isinstance(table, tables.TableDataset) or name in self.added:
            return None
        readable = table.readable()
        tables.warn_of_problems(readable.table_columns, readable.table_columns.broken.warned)
        return readable

    def register_table(self, name: str, table: Any) -> None:
        """Add a table for the life of the session (``CREATE TABLE`` and ``CREATE VIEW``)."""
        self.added[name] = table

    def deregister_table(self, name: str, cascade: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - the engine's signature
        """Drop a table that a query created; axes stay."""
        self.added.pop(name, None)


class AxisSchema(SharedSchema):
    """Axes as tables, those that describe the data sets, and what queries created.

    The tables of a collection have the rows of all its data sets, with a column ``dataset``.

    Parameters
    ----------
    name
        The schema as queries call it.
    members
        The data sets: of a collection, by what the column ``dataset`` calls each.
    shared
        Tables that belong to no data set, and can be seen from everywhere.
    location
        Where a collection is, for messages; None for a single data set.
    cache
        Where values of small members of a collection are kept.
    """

    def __init__(
        self,
        name: str,
        members: Mapping[str, Member],
        shared: Mapping[str, SharedTable],
        *,
        location: str | None,
        cache: DecodedCache,
    ) -> None:
        super().__init__(shared)
        self.name = name
        """The schema as queries call it."""
        self.members = members
        """The data sets."""
        self.is_collection = location is not None
        """Whether tables have the rows of several data sets, even if there is just one."""
        self._location = location
        self._cache = cache
        self._warned: set[str] = set()
        self._unions: dict[str, tuple[dict[str, tables.TableColumns], tables.UnionDataset]] = {}
        self._joined: dict[str, DecodedCache] = {}
        self._lock = ForkLock()

    @property
    def location(self) -> str:
        """Where it is, for messages."""
        return self.only.daf.location if self._location is None else self._location

    @property
    def only(self) -> Member:
        """The data set, if it is a single one; of a collection, the first."""
        return next(iter(self.members.values()))

    def readers(self) -> dict[str, DafReader]:
        """Return the data sets by name."""
        return {name: member.daf for name, member in self.members.items()}

    def axes_set(self) -> set[str]:
        """Return the axes that some data set has."""
        return {axis for member in self.members.values() for axis in member.daf.axes_set()}

    def has_axis(self, axis: str) -> bool:
        """Return whether some data set has an axis; does not list the others."""
        return any(member.daf.has_axis(axis) for member in self.members.values())

    def axis_length(self, axis: str) -> int:
        """Return the number of rows of a table."""
        having = [daf for daf in self.readers().values() if daf.has_axis(axis)]
        return sum(daf.axis_length(axis) for daf in having or [self.only.daf])

    def dataset(self, axis: str, names: frozenset[str] | None = None) -> tables.TableDataset:
        """Return the table of an axis; it has the columns of before while metadata are the same.

        Parameters
        ----------
        names
            Of the only columns that are needed: the metadata of other vectors are not read, which
            is most of the work of a first query.
        """
        if not self.is_collection:
            columns = self.only.columns(axis, names)
            tables.warn_of_problems(columns, self._warned)
            return self.only.table(axis, columns)
        found: dict[str, tables.TableColumns] = {}
        for name, member in self.members.items():
            if member.daf.has_axis(axis):
                check_cancelled()
                found[name] = member.columns(axis, names)
                tables.warn_of_problems(found[name], self._warned)
        table = self._union(axis, found)
        tables.warn_of_problems(table.table_columns, self._warned)
        return table

    def _union(self, axis: str, columns: dict[str, tables.TableColumns]) -> tables.UnionDataset:
        """Return the table of an axis: that of the last query, if the columns are its own."""
        with self._lock:
            cached = self._unions.get(axis)
            cache = self._joined.setdefault(axis, self._cache.part())
        if cached is not None and cached[0] == columns:
            return cached[1]
        members = tables.Members(
            axis, columns, lambda name: self.members[name].table(axis, columns[name])
        )
        union = tables.UnionDataset(axis, members, location=self.location, cache=cache)
        with self._lock:
            self._unions[axis] = (columns, union)
        return union

    def matrix_readers(self, axes: tuple[str, str], name: str) -> dict[str, DafReader]:
        """Return the data sets that have a matrix over two axes, by name.

        Raises
        ------
        AxisNotFoundError, MatrixNotFoundError
            None has an axis, or the matrix.
        """
        available_axes = self.axes_set()
        for axis in axes:
            if str(axis) not in available_axes:
                raise errors.axis_not_found(self.location, axis, available_axes)
        over = {key: daf for key, daf in self.readers().items() if all(map(daf.has_axis, axes))}
        having = {key: daf for key, daf in over.items() if daf.has_matrix(*axes, name)}
        if not having:
            available = {each for daf in over.values() for each in daf.matrices_set(*axes)}
            raise errors.matrix_not_found(self.location, *axes, name, available)
        return having

    def matrix_table(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        rows: _Selected = None,
        columns: _Selected = None,
    ) -> tables.TableDataset:
        """Return the long form of a matrix, as it is now; of some entries of its axes.

        Parameters
        ----------
        rows, columns
            Positions along the axes; of a collection, those of the rows of its tables.
        """
        axes = (rows_axis, columns_axis)
        if not self.is_collection:
            return self.only.matrix_table(axes, name, rows, columns)
        having = self.matrix_readers(axes, name)
        of_rows, of_columns = self._of_each(rows_axis, rows), self._of_each(columns_axis, columns)
        of_members = {
            key: self.members[key].matrix_table(axes, name, of_rows.get(key), of_columns.get(key))
            for key in having
        }
        return tables.matrix_union(of_members, self.location)

    def concatenated(self, axis: str) -> matrix.ConcatenatedAxis:
        """Return an axis of all data sets that have it."""
        members, is_alone = self.readers(), not self.is_collection
        if is_alone:
            members = {self.only.daf.name: self.only.daf}
        having = {name: daf for name, daf in members.items() if daf.has_axis(axis)}
        return matrix.ConcatenatedAxis(axis, self.location, having, is_alone)

    def _of_each(self, axis: str, selection: _Selected) -> dict[str, matrix.Selection]:
        """Return the selected entries of each data set; nothing where all are selected."""
        if selection is None:
            return {}
        concatenated = self.concatenated(axis)
        owners, positions = concatenated.split(selection.positions)
        return {
            name: matrix.Selection.of(positions[owners == number], daf.axis_length(axis))
            for number, (name, daf) in enumerate(concatenated.members.items())
        }

    @property
    def broken_count(self) -> int:
        """How often a column turned out to be unreadable while it was read."""
        return sum(member.broken_count for member in self.members.values())

    def close(self) -> None:
        """Close the data sets."""
        for member in self.members.values():
            member.close()

    @property
    def descriptions(self) -> tuple[str, ...]:
        """The tables that describe it; an axis of such a name takes precedence."""
        return (MATRICES, RELATIONS) if self.is_collection else (MATRICES, RELATIONS, SCALARS)

    def description(self, name: str) -> pa.dataset.Dataset:
        """Return one of the tables that describe it, as it is now; one of `descriptions`."""
        described = {key if self.is_collection else None: m.daf for key, m in self.members.items()}
        table, problems = DESCRIPTIONS[name](self.name, described)
        for what, problem in problems.items():
            tables.warn_once(f"the table {name!r} lacks {what}: {problem}", self._warned)
        return table

    @property
    def table_names(self) -> list[str]:
        """The axes in alphabetical order, then descriptions, then what queries created."""
        axes = sorted(self.axes_set())
        descriptions = [name for name in self.descriptions if name not in axes]
        others = sorted({*self.added, *self._shared} - {*axes, *descriptions})
        return axes + descriptions + others

    def table_exist(self, name: str) -> bool:
        """Return whether there is a table of this name; does not list the others."""
        is_own = name in self.added or name in self.descriptions or name in self._shared
        return is_own or self.has_axis(name)

    def table(self, name: str) -> datafusion.catalog.Table | None:
        """Return a table as it is now; None if there is none, or its axis is broken.

        The engine lists all tables by this, and one that raises would hide the others.  Whoever
        queries it gets the reason from `find`.
        """
        try:
            table = super().table(name)
        except (FormatError, ReadOnlyError):
            return None
        is_described = table is None and name in self.descriptions
        return pushed_to(self.description(name)) if is_described else table

    def find(self, name: str) -> tables.TableDataset | None:
        """Return the table of an axis, or one that belongs to no data set; None for any other."""
        context, key = current_context(), (self.name, name)
        if context.found is not None and key in context.found:
            return context.found[key]
        is_axis = name not in self.added and self.has_axis(name)
        table = self.dataset(name, context.named_columns) if is_axis else super().find(name)
        if context.found is not None:
            context.found[key] = table
        return table
