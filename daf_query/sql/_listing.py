"""The tables of what is connected, as other programs list them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from daf_query.sql._axis_schema import PUBLIC, AxisSchema
from daf_query.sql._collection_schema import CollectionSchema
from daf_query.sql._connections import Connections

TableType: TypeAlias = Literal["TABLE", "VIEW"]
"""What a table is: a view is computed when it is read."""

DATASET: Final = "dataset"
"""The column of a collection that says which data set a row is of."""


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
    key = (DATASET, "name") if isinstance(schema, CollectionSchema) else ("name",)
    axes = schema.axes_set()
    tables = [ListedTable(name, axis, "TABLE", key) for axis in axes if not schema.has_added(axis)]
    descriptions = [each for each in schema.descriptions if each not in axes]
    return tables + [ListedTable(name, each, "VIEW") for each in descriptions]
