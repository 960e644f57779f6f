"""Connections: data sets and tables by name, and the schemas that show them to DataFusion.

A table is made for each query from the metadata of that moment, so what a writer adds shows in the
next query, and one query sees one state.  The columns of an axis are kept while its metadata stay
the same.

Tables that describe a data set, its relations and matrices, are made of metadata alone, whenever a
query names one.  Those of a collection have the rows of all members, and a column ``dataset``.

What a FROM names is found by `Tables`: an axis of a schema, or the query of a view.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, InitVar, asdict, dataclass, field
from functools import partial
from typing import Any, Final, Literal, Self, TypeAlias

import pyarrow as pa

from daf_query import matrix, syntax
from daf_query import table as tables
from daf_query._provenance import DataSets
from daf_query._runs import check_cancelled
from daf_query.scan import DEFAULT_OPTIONS, ScanOptions
from daf_query.sql._planning import (
    PLANNING,
    TableName,
    datafusion,
    engine_table,
    pushed_to,
    table_for_query,
)
from daf_query.table import UserTable
from daf_storage import DafReader, errors
from daf_storage._lazy import ds
from daf_storage.base import DecodedCache
from daf_storage.data import StoredMatrix, axes_in_order
from daf_storage.errors import FormatError, MatrixNotFoundError, ReadOnlyError

MATRICES: Final = "matrices"
"""The table of the matrices, unless an axis has that name."""

RELATIONS: Final = "relations"
"""The table of the relations, unless an axis has that name."""

SCALARS: Final = "scalars"
"""The table of the scalars, unless an axis has that name."""

_Row: TypeAlias = dict[str, Any]


def _relations(daf: DafReader, _: dict[str, str]) -> Iterator[_Row]:
    """Return the relations: ``axis.vector`` has entries of ``to_axis``."""
    return map(asdict, daf.relations())


def _matrices(daf: DafReader, problems: dict[str, str]) -> Iterator[_Row]:
    """Yield the matrices; those of which no layout is whole are problems.

    ``layouts`` is 2 where the transpose is stored as well; if not, the stored one has the columns
    of ``columns_axis``.  ``elements`` are those that one layout stores; ``bytes`` are those of
    the arrays of all layouts without compression, NULL for strings.
    """
    for pair in itertools.combinations_with_replacement(axes_in_order(daf), 2):
        try:
            names = sorted(daf.matrices_set(*pair))
        except (FormatError, ReadOnlyError) as error:
            problems[f"the matrices of {' x '.join(pair)}"] = str(error)
            continue
        for name in names:
            try:
                layouts, _ = matrix.open_layouts(daf, pair, name)
            except (FormatError, MatrixNotFoundError, ReadOnlyError) as error:
                if daf.has_matrix(*pair, name):
                    problems[f"{name!r} of {' x '.join(pair)}"] = str(error)
            else:
                yield _matrix(layouts)


def _matrix(layouts: list[StoredMatrix]) -> _Row:
    info = layouts[0].info
    rows, columns = info.shape
    arrays = [array.info for stored in layouts for array in stored.arrays().values()]
    is_string = any(array.storage_type.is_string for array in arrays)
    return {
        "rows_axis": info.rows_axis,
        "columns_axis": info.columns_axis,
        "name": info.name,
        "type": info.storage_type.value,
        "is_sparse": info.is_sparse,
        "layouts": len(layouts),
        "rows": rows,
        "columns": columns,
        "elements": rows * columns if info.nnz is None else info.nnz,
        "bytes": None
        if is_string
        else sum(array.size * array.storage_type.dtype.itemsize for array in arrays),
    }


def _scalars(daf: DafReader, problems: dict[str, str]) -> Iterator[_Row]:
    """Yield the scalars of a single data set: names, stored types and values as text."""
    for name in sorted(daf.scalars_set()):
        try:
            value = daf.get_scalar(name)
            text = str(value).lower() if isinstance(value, bool) else str(value)
            yield {"name": name, "type": daf.scalar_type(name).value, "value": text}
        except (FormatError, ReadOnlyError) as error:
            problems[f"the scalar {name!r}"] = str(error)


_COUNTS: Final = ("layouts", "rows", "columns", "elements", "bytes")
_DESCRIPTIONS: Final = {
    MATRICES: (_matrices, ("schema", "rows_axis", "columns_axis", "name", "type")),
    RELATIONS: (_relations, ("schema", "axis", "vector", "to_axis", "source")),
    SCALARS: (_scalars, ("name", "type", "value")),
}
"""What yields the rows of each of the tables, and its columns of strings."""


_ColumnsRead: TypeAlias = "tuple[Hashable, frozenset[str] | None, tables.TableColumns | None]"
_Selected: TypeAlias = "matrix.Selection | None"


@dataclass(eq=False, repr=False)
class Member:
    """One of the data sets that a schema shows, or the only one."""

    daf: DafReader
    """The data set."""
    cache: DecodedCache
    """Where values of its tables are cached."""
    options: ScanOptions
    """How they are read."""
    categoricals: tables.Categoricals
    """How its categoricals are shown."""
    _columns_read: dict[str, _ColumnsRead] = field(default_factory=dict, init=False)
    _broken: dict[str, tables.BrokenColumns] = field(default_factory=dict, init=False)

    @property
    def view(self) -> tables.TableView:
        """How its tables are read, and where their values are cached."""
        return tables.TableView(cache=self.cache, options=self.options)

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
        last_identity, last_names, columns = self._columns_read.get(axis, nothing)
        names = None if names is None or last_names is None else names | last_names
        if columns is None or last_identity != identity:
            columns = self._read(axis, names)
        elif names != last_names:
            others = names if names is None or last_names is None else names - last_names
            columns = columns.with_others(self._read(axis, others))
        self._columns_read[axis] = identity, names, columns
        return columns.readable()

    def _read(self, axis: str, names: frozenset[str] | None) -> tables.TableColumns:
        broken = self._broken.setdefault(axis, tables.broken_columns(self.daf, axis))
        return tables.axis_columns(self.daf, axis, broken, self.categoricals, among=names)

    def table(self, axis: str, columns: tables.TableColumns) -> tables.AxisDataset:
        """Return the table of an axis whose columns are known."""
        return tables.AxisDataset(self.daf, axis, columns=columns, view=self.view)

    def matrix_table(
        self, axes: tuple[str, str], name: str, rows: _Selected, columns: _Selected
    ) -> tables.MatrixDataset:
        """Return the long form of a matrix, as it is now; of some entries of its axes."""
        return tables.MatrixDataset(
            self.daf, *axes, name, rows=rows, columns=columns, view=self.view
        )

    @property
    def broken_count(self) -> int:
        """How often a column turned out to be unreadable."""
        return sum(broken.count for broken in list(self._broken.values()))

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


@dataclass(eq=False, repr=False)
class SharedSchema:
    """Tables that belong to no data set, and those that queries create."""

    shared: Mapping[str, SharedTable]
    """Tables that belong to no data set, and can be seen from everywhere."""
    name: str = PUBLIC
    """The schema as queries call it."""
    added: dict[str, Any] = field(default_factory=dict, init=False)
    """The tables and views that queries created, by name."""

    @property
    def table_names(self) -> list[str]:
        """What was registered, then what queries created."""
        return sorted(self.shared) + sorted(self.added)

    def table_exist(self, name: str) -> bool:
        """Return whether there is a table of this name."""
        return name in self.shared or name in self.added

    def table(self, name: str) -> datafusion.catalog.Table | None:
        """Return a table as it is now; None if there is none."""
        made = PLANNING.get().replacements.get((self.name, name), self.added.get(name))
        if made is not None:
            return datafusion.catalog.Table(made)
        table = self.find(name)
        if table is not None:
            return table_for_query(self.name, name, table)
        shared = self.shared.get(name)
        return datafusion.catalog.Table(shared.frame) if isinstance(shared, BroughtTable) else None

    def find(self, name: str) -> tables.TableDataset | None:
        """Return a table that belongs to no data set, of those of its columns that can be read."""
        table = self.shared.get(name)
        if not isinstance(table, tables.TableDataset) or name in self.added:
            return None
        readable = table.readable()
        tables.warn_of_problems(readable.table_columns, readable.table_columns.broken)
        return readable

    def register_table(self, name: str, table: Any) -> None:
        """Add a table for the life of the session (``CREATE TABLE`` and ``CREATE VIEW``)."""
        self.added[name] = table

    def deregister_table(self, name: str, cascade: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - the engine's signature
        """Drop a table that a query created; axes stay."""
        self.added.pop(name, None)


@dataclass(eq=False, repr=False)
class AxisSchema(SharedSchema):
    """Axes as tables, those that describe the data sets, and what queries created.

    The tables of a collection have the rows of all its data sets, with a column ``dataset``.
    """

    _: KW_ONLY
    members: Mapping[str, Member]
    """The data sets: of a collection, by what the column ``dataset`` calls each."""
    location: str
    """Where they are, for messages."""
    is_collection: bool
    """Whether tables have the rows of several data sets, even if there is just one."""
    cache: DecodedCache
    """Where values of small members of a collection are cached."""
    _unions: dict[str, tuple[Any, tables.UnionDataset]] = field(default_factory=dict, init=False)

    @property
    def only(self) -> Member:
        """The data set, if it is a single one; of a collection, the first."""
        return next(iter(self.members.values()))

    def readers(self, *axes: str) -> dict[str, DafReader]:
        """Return the data sets by name; of those that have some axes."""
        return {
            name: member.daf
            for name, member in self.members.items()
            if all(map(member.daf.has_axis, axes))
        }

    def axes_set(self) -> set[str]:
        """Return the axes that some data set has."""
        return {axis for member in self.members.values() for axis in member.daf.axes_set()}

    def has_axis(self, axis: str) -> bool:
        """Return whether some data set has an axis; does not list the others."""
        return any(member.daf.has_axis(axis) for member in self.members.values())

    def having(self, *axes: str) -> Self:
        """Return these tables, in which some data set has each of some axes.

        Raises
        ------
        AxisNotFoundError
            No data set has one of them.
        """
        for axis in axes:
            if not self.has_axis(axis):
                raise errors.axis_not_found(self.location, axis, self.axes_set())
        return self

    def axis_length(self, axis: str) -> int:
        """Return the number of rows of a table."""
        having = self.readers(axis).values() or [self.only.daf]
        return sum(daf.axis_length(axis) for daf in having)

    def dataset(self, axis: str, names: frozenset[str] | None = None) -> tables.TableDataset:
        """Return the table of an axis; it has the columns of before while metadata are the same.

        Parameters
        ----------
        names
            Of the only columns that are needed: the metadata of other vectors are not read, which
            is most of the work of a first query.
        """
        found: dict[str, tables.TableColumns] = {}
        for name, member in self.members.items():
            if not self.is_collection or member.daf.has_axis(axis):
                check_cancelled()
                found[name] = member.columns(axis, names)
                tables.warn_of_problems(found[name], self)

        def table_of(name: str) -> tables.AxisDataset:
            return self.members[name].table(axis, found[name])

        if not self.is_collection:
            return table_of(*found)
        of, union = self._unions.get(axis, ({}, None))
        if union is None or of != found:  # else it is that of the last query
            union = tables.UnionDataset(
                axis, table_of, columns=found, location=self.location, cache=self.cache
            )
            self._unions[axis] = (found, union)
        tables.warn_of_problems(union.table_columns, self)
        return union

    def matrix_readers(self, axes: tuple[str, str], name: str) -> dict[str, DafReader]:
        """Return the data sets that have a matrix over two axes, by name.

        Raises
        ------
        AxisNotFoundError, MatrixNotFoundError
            None has an axis, or the matrix.
        """
        over = self.having(*map(str, axes)).readers(*axes)
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
        rows: Mapping[str, matrix.Selection] | None = None,
        columns: Mapping[str, matrix.Selection] | None = None,
    ) -> tables.TableDataset:
        """Return the long form of a matrix, as it is now; of some entries of its axes.

        Parameters
        ----------
        rows, columns
            The selected entries of each data set of which some are; None for all.
        """
        axes = (rows_axis, columns_axis)

        def of(key: str, member: Member) -> tables.MatrixDataset:
            both = (
                None if some is None else some.get(key, matrix.NONE) for some in (rows, columns)
            )
            return member.matrix_table(axes, name, *both)

        if not self.is_collection:
            return of(self.only.daf.name, self.only)
        found = {key: of(key, self.members[key]) for key in self.matrix_readers(axes, name)}
        return tables.matrix_union(found, self.location)

    def concatenated(self, axis: str) -> matrix.ConcatenatedAxis:
        """Return an axis of all data sets that have it."""
        having, is_alone = self.readers(axis), not self.is_collection
        if is_alone:
            having = {daf.name: daf for daf in having.values()}
        length = sum(daf.axis_length(axis) for daf in having.values())
        return matrix.ConcatenatedAxis(axis, self.location, having, length, is_alone)

    def close(self) -> None:
        """Close the data sets."""
        for member in self.members.values():
            member.close()

    @property
    def descriptions(self) -> tuple[str, ...]:
        """The tables that describe it; an axis of such a name takes precedence."""
        return (MATRICES, RELATIONS, SCALARS)[: 3 - self.is_collection]

    def description(self, name: str) -> pa.dataset.Dataset:
        """Return one of the tables that describe it, as it is now; one of `descriptions`."""
        problems, (rows_of, strings) = dict[str, str](), _DESCRIPTIONS[name]
        rows = [
            {tables.DATASET: dataset, "schema": self.name, **row}
            for dataset, daf in self.readers().items()
            for row in rows_of(daf, problems)
        ]
        for what, problem in problems.items():
            text = f"the table {name!r} lacks {what}: {problem}"
            errors.warn(text, tables.UnreadableVectorWarning, once_for=self)
        types = dict.fromkeys((tables.DATASET,) * self.is_collection + strings, pa.string())
        if name == MATRICES:
            types |= {"is_sparse": pa.bool_(), **dict.fromkeys(_COUNTS, pa.int64())}
        return ds.dataset(pa.Table.from_pylist(rows, pa.schema(types)))

    @property
    def table_names(self) -> list[str]:
        """The axes in alphabetical order, then descriptions, then what queries created."""
        others = sorted({*self.added, *self.shared})
        return list(dict.fromkeys([*sorted(self.axes_set()), *self.descriptions, *others]))

    def table_exist(self, name: str) -> bool:
        """Return whether there is a table of this name; does not list the others."""
        return super().table_exist(name) or name in self.descriptions or self.has_axis(name)

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
        context, key = PLANNING.get(), (self.name, name)
        if context.found is not None and key in context.found:
            return context.found[key]
        is_axis = name not in self.added and self.has_axis(name)
        table = self.dataset(name, context.named_columns) if is_axis else super().find(name)
        if context.found is not None:
            context.found[key] = table
        return table


_RESERVED: Final = (PUBLIC, "information_schema")


@dataclass(frozen=True)
class Collection:
    """Several data sets that are asked as one."""

    location: str
    """Where they are, for messages."""
    members: Mapping[str, DafReader]
    """Each by what the column ``dataset`` calls it."""


Connectable: TypeAlias = "DafReader | Collection | tables.TableDataset | UserTable"
"""What has been opened, and can be connected."""


@dataclass(eq=False, repr=False)
class Connections:
    """Data sets and tables by name; what is connected or disconnected shows in the next query."""

    sources: InitVar[Mapping[str, Connectable]]
    """What is connected first; a data set may have any name."""
    cache_bytes: int
    """How much of what was decoded is cached, of all together."""
    _: KW_ONLY
    scan_options: ScanOptions = DEFAULT_OPTIONS
    """How tables are scanned."""
    categoricals: tables.Categoricals = "string"
    """Whether categoricals of an AnnData are strings or Arrow dictionaries."""
    provenance: bool = True
    """Whether files and AnnData say where they come from, unless a call says otherwise."""
    schemas: dict[str, AxisSchema] = field(default_factory=dict, init=False)
    """The tables of each data set, or of several as one, by schema name."""
    shared: dict[str, SharedTable] = field(default_factory=dict, init=False)
    """Tables that belong to no data set, by name."""

    def __post_init__(self, sources: Mapping[str, Connectable]) -> None:
        if self.categoricals not in ("string", "dictionary"):
            raise errors.InvalidInputError(
                f"categoricals= is 'string' or 'dictionary', not {self.categoricals!r}"
            )
        self.cache = DecodedCache(max_bytes=self.cache_bytes)
        """What was decoded, of all data sets and tables together."""
        self.public = SharedSchema(self.shared)
        """The schema of the tables that belong to no data set."""
        for name, source in sources.items():
            if isinstance(source, DafReader | Collection):
                self._add_schema(name, source)
        for name in [each for each in sources if each not in self.schemas]:
            self.connect(name, sources[name])

    @property
    def names(self) -> list[str]:
        """The names of all that is connected."""
        return [*self.schemas, *self.shared]

    @property
    def default(self) -> str:
        """The schema of unqualified table names: that of the only data set, or of own tables."""
        return next(iter(self.schemas)) if len(self.schemas) == 1 else PUBLIC

    @property
    def table_names(self) -> list[str]:
        """The names of the tables, as queries write them."""
        is_single = len(self.schemas) == 1
        of_schemas = [
            table if is_single else f"{schema}.{table}"
            for schema, found in self.schemas.items()
            for table in found.table_names
            if table not in self.shared
        ]
        return of_schemas + sorted(self.shared)

    def connect(self, name: str, source: Connectable) -> None:
        """Add a data set, several as one, or a table; what was given stays as it is.

        Raises
        ------
        ExistsError
            Something has this name.
        InvalidNameError
            The name is empty.
        """
        if not str(name).strip():
            raise errors.InvalidNameError(f"{name!r} is no name for a table; pass a word")
        if name in {*self.names, *_RESERVED}:
            raise errors.ExistsError(
                f"something is connected as {name!r} already; pass another name, or unregister it"
            )
        if isinstance(source, UserTable):
            if any(schema.table_exist(name) for schema in self.all_schemas.values()):
                raise errors.ExistsError(
                    f"there is a table {name!r} already; register this one under another name"
                )
            self.replace(name, source)
        elif isinstance(source, DafReader | Collection):
            self._add_schema(name, source)
        else:
            self.shared[name] = source.with_view(cache=self.cache.part(), options=self.scan_options)

    def replace(self, name: str, table: UserTable) -> None:
        """Put a table in the place of one of this name; a query sees the one or the other."""
        self.shared[name] = BroughtTable(table.rows, table.location, engine_table(table.rows))

    def disconnect(self, name: str) -> None:
        """Remove a data set or a table, and close what was opened for it.

        Raises
        ------
        NotFoundError
            Nothing has this name.
        """
        if name in self.shared:
            del self.shared[name]
            for schema in self.all_schemas.values():  # which may have what a query put in its place
                schema.deregister_table(name)
        elif name in self.schemas:
            self.schemas.pop(name).close()
        else:
            has = errors.shown_names(self.names, none="nothing")
            raise errors.NotFoundError(f"nothing is connected as {name!r}; there are {has}")

    def schema(self, name: str | None) -> AxisSchema:
        """Return the tables of a data set; without a name, of the only one.

        Raises
        ------
        InvalidInputError
            There are several and none was named, or there is none.
        NotFoundError
            There is none of this name.
        """
        if name is None and len(self.schemas) == 1:
            return next(iter(self.schemas.values()))
        if name is None and not self.schemas:
            raise errors.InvalidInputError(
                f"only tables are connected ({', '.join(sorted(self.shared)) or 'none'}), and no "
                "Daf data set, which has axes and matrices"
            )
        if name is None:
            raise errors.InvalidInputError(
                "several data sets are connected; say which with schema=, one of "
                f"{errors.shown_names(self.schemas)}"
            )
        if name not in self.schemas:
            has = errors.choices(name, self.schemas)
            raise errors.NotFoundError(f"no data set {name!r} is connected; there are {has}")
        return self.schemas[name]

    def reader(self, name: str | None) -> DafReader:
        """Return the reader of the data set behind a schema; without a name, of the only one.

        Raises
        ------
        InvalidInputError
            There are several behind it.
        """
        schema = self.schema(name)
        if schema.is_collection:
            raise errors.InvalidInputError(
                f"{schema.location}: {schema.name!r} is a collection; connect the one that you mean"
            )
        return schema.only.daf

    def readers(self) -> dict[str, DafReader]:
        """Return the readers by schema name, without those of a collection."""
        return {n: each.only.daf for n, each in self.schemas.items() if not each.is_collection}

    def data_sets(self) -> DataSets:
        """Return the data sets by schema name; several that are asked as one by their names."""
        return {
            name: schema.readers() if schema.is_collection else schema.only.daf
            for name, schema in self.schemas.items()
        }

    @property
    def all_schemas(self) -> dict[str, SharedSchema]:
        """The schemas of the data sets, and that of the tables that belong to none, by name."""
        return {**self.schemas, PUBLIC: self.public}

    def find(self, name: TableName) -> tables.TableDataset | None:
        """Return the table of an axis, or one that belongs to no data set; None for any other."""
        schema = self.all_schemas.get(name[0])
        return None if schema is None else schema.find(name[1])

    def columns(self, name: TableName) -> dict[str, pa.DataType]:
        """Return the types of a table's columns; none of another one, or a broken one."""
        with suppress(errors.DafError):
            found, shared = self.find(name), self.shared.get(name[1])
            found = shared.rows if isinstance(shared, UserTable) else found
            fields = () if found is None else found.schema
            return {field.name: field.type for field in fields}
        return {}

    def created(self) -> list[TableName]:
        """Return the tables and views that queries created."""
        return [
            (schema.name, name) for schema in self.all_schemas.values() for name in schema.added
        ]

    def broken_count(self) -> int:
        """Return how often a column turned out to be unreadable while it was read."""
        own = [each for each in self.shared.values() if isinstance(each, tables.TableDataset)]
        members = [each for schema in self.schemas.values() for each in schema.members.values()]
        shared = sum(table.table_columns.broken.count for table in own)
        return shared + sum(member.broken_count for member in members)

    def __reduce__(self) -> Any:
        """Pickle what is connected, by its paths; whoever unpickles it connects it again."""
        data_sets = {
            name: Collection(schema.location, schema.readers())
            if schema.is_collection
            else schema.only.daf
            for name, schema in self.schemas.items()
        }
        names = ("cache_bytes", "scan_options", "categoricals", "provenance")
        options: Any = {name: getattr(self, name) for name in names}
        return partial(Connections, **options), (data_sets,), self.shared

    def __setstate__(self, shared: Mapping[str, tables.TableDataset | UserTable]) -> None:
        """Add the tables of others."""
        for name, table in shared.items():
            self.connect(name, table)

    def close(self) -> None:
        """Close the data sets; arrays and slices handed out earlier stay valid."""
        for schema in self.schemas.values():
            schema.close()

    def _add_schema(self, name: str, source: DafReader | Collection) -> None:
        is_collection = isinstance(source, Collection)
        readers = source.members if isinstance(source, Collection) else {name: source}
        categoricals = "string" if is_collection else self.categoricals
        schema = AxisSchema(
            self.shared,
            name,
            members={
                key: Member(daf, self.cache.part(), self.scan_options, categoricals)
                for key, daf in readers.items()
            },
            location=source.location,
            is_collection=is_collection,
            cache=self.cache.part(),
        )
        for title in (t for t, each in self.shared.items() if isinstance(each, UserTable)):
            if title in schema.descriptions or schema.has_axis(title):
                raise errors.ExistsError(
                    f"{name!r} has a table {title!r}, and so has this session; unregister that one"
                )
        self.schemas[name] = schema


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables that a query can name."""

    schemas: Mapping[str, AxisSchema]
    default: str
    """The schema of tables that are named without one."""
    views: dict[TableName, str] = field(default_factory=dict)
    """The queries of views, which are planned whenever one is used."""

    def named(self, source: syntax.Source) -> TableName:
        """Return the schema and the table that a FROM names, or the function that it calls."""
        schema, table = (self.default, *(source.parts or (f"{source.function}()",)))[-2:]
        return schema, table

    def find(self, source: syntax.Source) -> tuple[AxisSchema, str] | None:
        """Return the schema and the axis that a FROM names; None if it names something else."""
        schema, axis = self.named(source)
        tables = self.schemas.get(schema)
        is_axis = tables is not None and axis not in tables.added and tables.has_axis(axis)
        return (tables, axis) if tables is not None and is_axis else None

    def is_query(self, source: syntax.Source) -> bool:
        """Return whether a FROM names a subquery, one of WITH, or a view."""
        return not source.parts or self.named(source) in self.views


@dataclass(frozen=True, slots=True, order=True)
class ListedTable:
    """A table, by the names that queries have for it."""

    schema: str
    name: str
    type: Literal["TABLE", "VIEW"]
    """A view is computed when it is read."""
    key: tuple[str, ...] = ()
    """The columns whose values together name one row; none if nothing says so."""


def listed_tables(connections: Connections) -> list[ListedTable]:
    """Return the tables of all schemas, in their order: axes, descriptions, and what was added."""
    listed = [ListedTable(PUBLIC, name, "TABLE") for name in connections.shared]
    listed += [ListedTable(*name, "VIEW") for name in connections.created()]
    for name, schema in connections.schemas.items():
        key = (tables.DATASET, "name") if schema.is_collection else ("name",)
        axes = schema.axes_set()
        listed += [ListedTable(name, axis, "TABLE", key) for axis in axes - schema.added.keys()]
        listed += [ListedTable(name, each, "VIEW") for each in {*schema.descriptions} - axes]
    return sorted(listed)
