"""The tables of several data sets as one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from daf_query._cancellation import check_cancelled
from daf_query.matrix import ConcatenatedAxis, Selection, concatenated_axis
from daf_query.sql._axis_schema import AxisSchema, shared_table
from daf_query.sql._data_set_schema import DafSchema
from daf_query.sql._descriptions import Described
from daf_query.sql._planning import current_context
from daf_query.table import (
    DATASET,
    MatrixUnionDataset,
    MemberTables,
    TableColumns,
    TableDataset,
    UnionDataset,
    warn_of_problems,
)
from daf_storage import DafReader, errors
from daf_storage.spi import DecodedCache, ForkLock, one_look, paused_collection

MIN_NARROW_MEMBERS: Final = 64
"""Of fewer data sets all columns are looked at, which also says what is wrong with some."""


@dataclass(frozen=True, slots=True, eq=False)
class _NarrowColumns:
    """The columns of an axis that have some names, of each data set."""

    names: frozenset[str]
    """What was looked for; not all of them need be there."""
    identities: Mapping[str, Hashable]
    """What shows that a data set changed, by its name."""
    columns: Mapping[str, TableColumns]
    """Those of each data set."""


@dataclass(frozen=True, slots=True)
class _NarrowTable:
    """The table of an axis, of some columns."""

    columns: _NarrowColumns
    """Those of each data set."""
    table: UnionDataset


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
        self._narrow: dict[str, _NarrowTable] = {}
        self._joined: dict[str, DecodedCache] = {}
        self._lock = ForkLock()

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
        if not self.has_axis(name):
            return shared_table(self._shared, name)
        named = current_context().named_columns.get((self.name, name))
        narrow = None if named is None else self._narrowed(name, named.names)
        if named is None or narrow is None or not named.required <= set(narrow.schema.names):
            return self.dataset(name)  # which also says what is wrong
        return narrow

    def table_exist(self, name: str) -> bool:
        """Return whether there is a table of this name; does not list the others."""
        is_own = name in self._added or name in self.descriptions or name in self._shared
        return is_own or self.has_axis(name)

    def has_axis(self, axis: str) -> bool:
        """Return whether some data set has an axis; does not list the others."""
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
        with paused_collection(len(self.members)), one_look():
            columns = {}
            for name, member in self.members.items():
                check_cancelled()
                if member.daf.has_axis(axis):
                    columns[name] = member.columns(axis)
            known = self._known.get(axis)
            if known is None or not _are_same(known[0], columns):
                known = self._known[axis] = (columns, self._union(axis, columns))
                with self._lock:
                    self._narrow.pop(axis, None)
        warn_of_problems(known[1].table_columns, self._warned)
        return known[1]

    def dataset_among(self, axis: str, names: frozenset[str]) -> UnionDataset:
        """Return the table of an axis with columns of some names; it may have others, too.

        Of many data sets, the metadata of other vectors are not read.
        """
        narrow = self._narrowed(axis, names)
        return self.dataset(axis) if narrow is None else narrow

    def _narrowed(self, axis: str, names: frozenset[str]) -> UnionDataset | None:
        """Return the table of an axis with the columns of some names, and of those of before.

        The metadata of other vectors are not read, which is most of the work of a first query.
        None for few data sets, or where the metadata of all vectors are known already.
        """
        with self._lock:
            known = self._narrow.get(axis)
        is_small = len(self.members) < MIN_NARROW_MEMBERS
        if is_small or axis in self._known or self.broken_count:
            return None
        # One data set of all is often asked for next.
        before = None if known is None else known.columns
        with paused_collection(len(self.members)), one_look():
            having = {n: member for n, member in self.members.items() if member.daf.has_axis(axis)}
            columns = _narrow_columns(having, axis, names | {DATASET}, before)
            if known is None or columns is not known.columns:
                known = _NarrowTable(columns, self._union(axis, columns.columns))
                with self._lock:
                    self._narrow[axis] = known
        warn_of_problems(known.table.table_columns, self._warned)
        return known.table

    def _union(self, axis: str, columns: Mapping[str, TableColumns]) -> UnionDataset:
        """Return the table of an axis, of data sets whose columns are known."""
        tables = MemberTables(columns, lambda name, each: self.members[name].table_of(axis, each))
        return UnionDataset(axis, tables, location=self._location, cache=self._cache_of(axis))

    def _cache_of(self, axis: str) -> DecodedCache:
        """Return where values of small members are kept, by what is stored of each."""
        with self._lock:
            return self._joined.setdefault(axis, self._cache.part())

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


def _narrow_columns(
    members: Mapping[str, DafSchema],
    axis: str,
    names: frozenset[str],
    known: _NarrowColumns | None,
) -> _NarrowColumns:
    """Return the columns of some names, and of those of before; the same if nothing changed.

    Metadata that were read count as long as the data set shows no change; of a new name, only the
    metadata of that vector are read.

    Parameters
    ----------
    members
        The data sets that have the axis.
    known
        What the last query had.
    """
    wanted = names if known is None else names | known.names
    # What shows a change is looked at before the metadata: one in between shows the next time.
    identities = {name: member.daf.axis_identity(axis, wanted) for name, member in members.items()}
    if known is not None and wanted == known.names and identities == known.identities:
        return known
    columns: dict[str, TableColumns] = {}
    for name, member in members.items():
        check_cancelled()
        same = None if known is None else _unchanged(member, axis, name, identities[name], known)
        if same is None or known is None:
            columns[name] = member.columns_among(axis, wanted)
        elif wanted == known.names:
            columns[name] = same
        else:
            columns[name] = member.columns_added(axis, wanted - known.names, same)
    return _NarrowColumns(wanted, identities, columns)


def _unchanged(
    member: DafSchema, axis: str, name: str, identity: Hashable, known: _NarrowColumns
) -> TableColumns | None:
    """Return the columns that are known of a data set; None if it changed since.

    Of an archive, one value shows any change; of a directory, one for the names of before does.
    """
    before = known.identities.get(name)
    if before is None or name not in known.columns:
        return None
    is_same = identity == before or member.daf.axis_identity(axis, known.names) == before
    return known.columns[name] if is_same else None
