"""Connections: data sets as schemas, and tables that belong to none, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias, get_args

import datafusion
import pyarrow as pa
from datafusion.catalog import Table

from daf_query._provenance import DataSets
from daf_query.scan import DEFAULT_OPTIONS, ScanOptions
from daf_query.sql._axis_schema import PUBLIC, AxisSchema, Member, SharedSchema
from daf_query.sql._planning import TableName
from daf_query.table import DATASET, Categoricals, TableDataset, UserTable
from daf_storage import DafReader, errors
from daf_storage.base import DecodedCache, paused_collection

_RESERVED: Final = (PUBLIC, "information_schema")


@dataclass(frozen=True)
class Collection:
    """Several data sets that are asked as one."""

    location: str
    """Where they are, for messages."""
    members: Mapping[str, DafReader]
    """Each by what the column ``dataset`` calls it."""


Connectable: TypeAlias = DafReader | Collection | TableDataset | UserTable
"""What has been opened, and can be connected."""


_ALL_ROWS: Final = 1 << 62


def engine_table(table: UserTable) -> datafusion.DataFrame:
    """Return a table for the engine.

    No filter gets past a limit, even if it is larger than any table: pyarrow, which reads the
    files, compares NaN otherwise than the engine does.
    """
    context = datafusion.SessionContext()
    if isinstance(table.rows, pa.Table):
        return context.from_arrow(table.rows)
    return context.read_table(Table(table.rows)).limit(_ALL_ROWS)


class Connections:
    """Data sets and tables by name; what is connected or disconnected shows in the next query.

    Parameters
    ----------
    data_sets
        What is connected first; a data set may have any name.
    cache_bytes
        How much of what was decoded is kept, of all together.
    """

    def __init__(
        self,
        data_sets: Mapping[str, DafReader | Collection],
        cache_bytes: int,
        *,
        scan_options: ScanOptions = DEFAULT_OPTIONS,
        categoricals: Categoricals = "string",
        provenance: bool = True,
    ) -> None:
        self.cache_bytes = cache_bytes
        """How much of what was decoded is kept."""
        if categoricals not in get_args(Categoricals):
            raise errors.InvalidInputError(
                f"categoricals= is 'string' or 'dictionary', not {categoricals!r}"
            )
        self.scan_options = scan_options
        """How tables are scanned."""
        self.categoricals: Categoricals = categoricals
        """Whether categoricals of an AnnData are strings or Arrow dictionaries."""
        self.provenance = provenance
        """Whether files and AnnData say where they come from, unless a call says otherwise."""
        self.cache = DecodedCache(max_bytes=cache_bytes)
        """What was decoded, of all data sets and tables together."""
        self.schemas: dict[str, AxisSchema] = {}
        """The tables of each data set, or of several as one, by schema name."""
        self.shared: dict[str, TableDataset] = {}
        """Tables that belong to no data set, by name."""
        self.user_tables: dict[str, UserTable] = {}
        """Tables that a user brought, by name."""
        self.public = SharedSchema(self.shared)
        """The schema of the tables that belong to no data set."""
        for name, source in data_sets.items():
            self._add_schema(name, source)

    @property
    def names(self) -> list[str]:
        """The names of all that is connected."""
        return [*self.schemas, *self.shared, *self.user_tables]

    @property
    def table_names(self) -> list[str]:
        """The names of the tables, as queries write them."""
        others = {*self.shared, *self.user_tables}
        is_single = len(self.schemas) == 1
        of_schemas = [
            table if is_single else f"{schema}.{table}"
            for schema, tables in self.schemas.items()
            for table in tables.table_names
            if table not in others
        ]
        return of_schemas + sorted(others)

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
            self._add_user_table(name, source)
        elif isinstance(source, TableDataset):
            self.shared[name] = source.with_view(cache=self.cache.part(), options=self.scan_options)
        else:
            self._add_schema(name, source)

    def disconnect(self, name: str) -> None:
        """Remove a data set or a table, and close what was opened for it.

        Raises
        ------
        NotFoundError
            Nothing has this name.
        """
        if name in self.shared:
            del self.shared[name]
        elif name in self.user_tables:
            del self.user_tables[name]
            for schema in self._all_schemas():
                schema.deregister_table(name)
        elif name in self.schemas:
            self.schemas.pop(name).close()
        else:
            has = errors.known_names(self.names, none="nothing")
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
                f"{errors.known_names(self.schemas, none='none')}"
            )
        if name not in self.schemas:
            has = errors.known_names(self.schemas, none="none")
            close = errors.nearest(name, self.schemas)
            raise errors.NotFoundError(f"no data set {name!r} is connected; there are {has}{close}")
        return self.schemas[name]

    def reader(self, name: str) -> DafReader:
        """Return the reader of the data set behind a schema.

        Raises
        ------
        InvalidInputError
            There are several behind it.
        """
        schema = self.schemas[name]
        if schema.is_collection:
            raise errors.InvalidInputError(
                f"{schema.location}: {name!r} is a collection; connect the one that you mean"
            )
        return schema.only.daf

    def readers(self) -> dict[str, DafReader]:
        """Return the readers by schema name, without those of a collection."""
        single = {name: each for name, each in self.schemas.items() if not each.is_collection}
        return {name: schema.only.daf for name, schema in single.items()}

    def data_sets(self) -> DataSets:
        """Return the data sets by schema name; several that are asked as one by their names."""
        return {
            name: schema.readers() if schema.is_collection else schema.only.daf
            for name, schema in self.schemas.items()
        }

    def find(self, name: TableName) -> TableDataset | None:
        """Return the table of an axis, or one that belongs to no data set; None for any other."""
        schema, table = name
        if schema in self.schemas:
            return self.schemas[schema].find(table)
        return self.shared.get(table) if schema == PUBLIC else None

    def has_created(self, name: TableName) -> bool:
        """Return whether a query created a table or a view of this name."""
        schema = self.public if name[0] == PUBLIC else self.schemas.get(name[0])
        return schema is not None and name[1] in schema.added

    def created(self) -> list[TableName]:
        """Return the tables and views that queries created."""
        return [
            (schema.name, name)
            for schema in self._all_schemas()
            for name in schema.added
            if name not in self.user_tables
        ]

    def broken_count(self) -> int:
        """Return how often a column turned out to be unreadable while it was read."""
        shared = sum(table.table_columns.broken.count for table in self.shared.values())
        return shared + sum(schema.broken_count for schema in self.schemas.values())

    def __reduce__(self) -> Any:
        """Pickle what is connected, by its paths; whoever unpickles it connects it again."""
        again = partial(
            Connections,
            scan_options=self.scan_options,
            categoricals=self.categoricals,
            provenance=self.provenance,
        )
        data_sets = {
            name: Collection(schema.location, schema.readers())
            if schema.is_collection
            else schema.only.daf
            for name, schema in self.schemas.items()
        }
        return again, (data_sets, self.cache_bytes), {**self.shared, **self.user_tables}

    def __setstate__(self, tables: Mapping[str, TableDataset | UserTable]) -> None:
        """Add the tables of others."""
        for name, table in tables.items():
            self.connect(name, table)

    def close(self) -> None:
        """Close the data sets; arrays and slices handed out earlier stay valid."""
        for schema in self.schemas.values():
            schema.close()

    def _all_schemas(self) -> Iterator[AxisSchema | SharedSchema]:
        yield from self.schemas.values()
        yield self.public

    def _add_schema(self, name: str, source: DafReader | Collection) -> None:
        schema = self._schema_of(name, source)
        for title in self.user_tables:
            if schema.table_exist(title):
                raise errors.ExistsError(
                    f"{name!r} has a table {title!r}, and so has this session; unregister that one"
                )
        for title, table in self.user_tables.items():
            schema.register_table(title, engine_table(table))
        self.schemas[name] = schema

    def _schema_of(self, name: str, source: DafReader | Collection) -> AxisSchema:
        is_collection = isinstance(source, Collection)
        readers = source.members if isinstance(source, Collection) else {name: source}
        with paused_collection(len(readers)):
            members = {
                key: Member(
                    daf,
                    self.cache.part(),
                    self.scan_options,
                    "string" if is_collection else self.categoricals,
                )
                for key, daf in readers.items()
            }
        location = source.location if isinstance(source, Collection) else None
        cache = self.cache.part()
        return AxisSchema(name, members, self.shared, location=location, cache=cache)

    def _add_user_table(self, name: str, table: UserTable) -> None:
        """Add a table that a user brought; every schema has it."""
        for schema in self._all_schemas():
            if schema.table_exist(name):
                raise errors.ExistsError(
                    f"there is a table {name!r} already; register this one under another name"
                )
        readable = engine_table(table)
        self.user_tables[name] = table
        for schema in self._all_schemas():
            schema.register_table(name, readable)


TableType: TypeAlias = Literal["TABLE", "VIEW"]
"""What a table is: a view is computed when it is read."""


@dataclass(frozen=True, slots=True, order=True)
class ListedTable:
    """A table, by the names that queries have for it."""

    schema: str
    name: str
    type: TableType
    key: tuple[str, ...] = ()
    """The columns whose values together name one row; none if nothing says so."""


def listed_tables(connections: Connections) -> list[ListedTable]:
    """Return the tables of all schemas, in their order: axes, descriptions, and what was added."""
    listed = [
        table for name, schema in connections.schemas.items() for table in _tables_of(name, schema)
    ]
    brought = {*connections.shared, *connections.user_tables}
    listed += [ListedTable(PUBLIC, name, "TABLE") for name in brought]
    listed += [
        ListedTable(schema, name, "VIEW")
        for schema, name in connections.created()
        if name not in brought
    ]
    return sorted(listed)


def _tables_of(name: str, schema: AxisSchema) -> list[ListedTable]:
    """Return the axes of a schema, and the tables that describe it."""
    key = (DATASET, "name") if schema.is_collection else ("name",)
    axes = schema.axes_set()
    tables = [ListedTable(name, axis, "TABLE", key) for axis in axes if axis not in schema.added]
    descriptions = [each for each in schema.descriptions if each not in axes]
    return tables + [ListedTable(name, each, "VIEW") for each in descriptions]
