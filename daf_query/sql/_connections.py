"""Connections: data sets and tables by name, and the catalog that shows them to DataFusion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from daf_query import table as tables
from daf_query._provenance import DataSets
from daf_query.scan import DEFAULT_OPTIONS, ScanOptions
from daf_query.sql._planning import TableName, engine_table
from daf_query.sql._schemas import (
    PUBLIC,
    AxisSchema,
    BroughtTable,
    Member,
    SharedSchema,
    SharedTable,
)
from daf_query.table import UserTable
from daf_storage import DafReader, errors
from daf_storage.base import DecodedCache

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


class Connections:
    """Data sets and tables by name; what is connected or disconnected shows in the next query.

    Parameters
    ----------
    sources
        What is connected first; a data set may have any name.
    cache_bytes
        How much of what was decoded is kept, of all together.
    """

    def __init__(
        self,
        sources: Mapping[str, Connectable],
        cache_bytes: int,
        *,
        scan_options: ScanOptions = DEFAULT_OPTIONS,
        categoricals: tables.Categoricals = "string",
        provenance: bool = True,
    ) -> None:
        self.cache_bytes = cache_bytes
        """How much of what was decoded is kept."""
        if categoricals not in ("string", "dictionary"):
            raise errors.InvalidInputError(
                f"categoricals= is 'string' or 'dictionary', not {categoricals!r}"
            )
        self.scan_options = scan_options
        """How tables are scanned."""
        self.categoricals: tables.Categoricals = categoricals
        """Whether categoricals of an AnnData are strings or Arrow dictionaries."""
        self.provenance = provenance
        """Whether files and AnnData say where they come from, unless a call says otherwise."""
        self.cache = DecodedCache(max_bytes=cache_bytes)
        """What was decoded, of all data sets and tables together."""
        self.schemas: dict[str, AxisSchema] = {}
        """The tables of each data set, or of several as one, by schema name."""
        self.shared: dict[str, SharedTable] = {}
        """Tables that belong to no data set, by name."""
        self.public = SharedSchema(self.shared)
        """The schema of the tables that belong to no data set."""
        others = dict(sources)
        for name, source in sources.items():
            if isinstance(source, DafReader | Collection):
                self._add_schema(name, source)
                del others[name]
        for name, source in others.items():
            self.connect(name, source)

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

    @property
    def over(self) -> Callable[[Mapping[str, Connectable]], Connections]:
        """What makes connections of other data sets and tables, with the options of these."""
        return partial(
            Connections,
            cache_bytes=self.cache_bytes,
            scan_options=self.scan_options,
            categoricals=self.categoricals,
            provenance=self.provenance,
        )

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
                f"{errors.shown_names(self.schemas, none='none')}"
            )
        if name not in self.schemas:
            has = errors.shown_names(self.schemas, none="none")
            close = errors.nearest(name, self.schemas)
            raise errors.NotFoundError(f"no data set {name!r} is connected; there are {has}{close}")
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

    def created(self) -> list[TableName]:
        """Return the tables and views that queries created."""
        return [
            (schema.name, name) for schema in self.all_schemas.values() for name in schema.added
        ]

    def broken_count(self) -> int:
        """Return how often a column turned out to be unreadable while it was read."""
        own = [each for each in self.shared.values() if isinstance(each, tables.TableDataset)]
        shared = sum(table.table_columns.broken.count for table in own)
        return shared + sum(schema.broken_count for schema in self.schemas.values())

    def __reduce__(self) -> Any:
        """Pickle what is connected, by its paths; whoever unpickles it connects it again."""
        data_sets = {
            name: Collection(schema.location, schema.readers())
            if schema.is_collection
            else schema.only.daf
            for name, schema in self.schemas.items()
        }
        return self.over, (data_sets,), self.shared

    def __setstate__(self, shared: Mapping[str, tables.TableDataset | UserTable]) -> None:
        """Add the tables of others."""
        for name, table in shared.items():
            self.connect(name, table)

    def close(self) -> None:
        """Close the data sets; arrays and slices handed out earlier stay valid."""
        for schema in self.schemas.values():
            schema.close()

    def _add_schema(self, name: str, source: DafReader | Collection) -> None:
        readers = source.members if isinstance(source, Collection) else {name: source}
        location = source.location if isinstance(source, Collection) else None
        categoricals = self.categoricals if location is None else "string"
        members = {
            key: Member(daf, self.cache.part(), self.scan_options, categoricals)
            for key, daf in readers.items()
        }
        schema = AxisSchema(name, members, self.shared, location=location, cache=self.cache.part())
        for title in (t for t, each in self.shared.items() if isinstance(each, UserTable)):
            if title in schema.descriptions or schema.has_axis(title):
                raise errors.ExistsError(
                    f"{name!r} has a table {title!r}, and so has this session; unregister that one"
                )
        self.schemas[name] = schema


class DafCatalog:
    """The schemas of connections, as the engine asks for them; what is added shows at once."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def schema_names(self) -> set[str]:
        """Return the names of the schemas."""
        return set(self._connections.all_schemas)

    def schema(self, name: str) -> SharedSchema | None:
        """Return a schema."""
        return self._connections.all_schemas.get(name)


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
    listed = [ListedTable(PUBLIC, name, "TABLE") for name in connections.shared]
    listed += [ListedTable(*name, "VIEW") for name in connections.created()]
    for name, schema in connections.schemas.items():
        key = (tables.DATASET, "name") if schema.is_collection else ("name",)
        axes = schema.axes_set()
        listed += [ListedTable(name, axis, "TABLE", key) for axis in axes - schema.added.keys()]
        listed += [ListedTable(name, each, "VIEW") for each in {*schema.descriptions} - axes]
    return sorted(listed)
