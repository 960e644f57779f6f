"""The schemas of a session as a DataFusion catalog, and the one of what belongs to no data set."""

from __future__ import annotations

from collections.abc import Mapping

from datafusion.catalog import CatalogProvider, SchemaProvider, Table

from daf_query.sql._axis_schema import (
    PUBLIC,
    AddedTables,
    AxisSchema,
    Names,
    shared_table,
    table_for_query,
)
from daf_query.sql._planning import current_context
from daf_query.table import TableDataset


class SharedSchema(AddedTables):
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
        replacement = current_context().replacements.get((PUBLIC, name))
        if replacement is not None or name in self._added:
            return Table(self._added[name] if replacement is None else replacement)
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
