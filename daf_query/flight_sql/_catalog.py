"""The catalogs, schemas, tables and keys of a session, as tables themselves.

Rule: ``format/FlightSql.proto`` of Apache Arrow, whose comments have the schemas of the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from daf_query.flight_sql._batches import wire_schema
from daf_query.flight_sql._messages import (
    CommandGetCatalogs,
    CommandGetCrossReference,
    CommandGetDbSchemas,
    CommandGetExportedKeys,
    CommandGetImportedKeys,
    CommandGetPrimaryKeys,
    CommandGetSqlInfo,
    CommandGetTables,
    CommandGetTableTypes,
    CommandGetXdbcTypeInfo,
)
from daf_query.flight_sql._sql_info import INFO_SCHEMA, TYPE_SCHEMA, required, sql_info, type_info
from daf_query.session import DafSession
from daf_query.sql import CATALOG, ListedTable, listed_tables
from daf_query.syntax import quoted_name
from daf_storage import DafError

_ESCAPE: Final = "\\"


_CATALOGS: Final = pa.schema([required("catalog_name", pa.string())])
_SCHEMAS: Final = pa.schema(
    [pa.field("catalog_name", pa.string()), required("db_schema_name", pa.string())]
)
_TABLES: Final = pa.schema(
    [
        pa.field("catalog_name", pa.string()),
        pa.field("db_schema_name", pa.string()),
        required("table_name", pa.string()),
        required("table_type", pa.string()),
    ]
)
_TABLES_WITH_SCHEMAS: Final = _TABLES.append(required("table_schema", pa.binary()))
_TABLE_TYPES: Final = pa.schema([required("table_type", pa.string())])
_PRIMARY_KEYS: Final = pa.schema(
    [
        pa.field("catalog_name", pa.string()),
        pa.field("db_schema_name", pa.string()),
        required("table_name", pa.string()),
        required("column_name", pa.string()),
        pa.field("key_name", pa.string()),
        required("key_sequence", pa.int32()),
    ]
)
_FOREIGN_KEYS: Final = pa.schema(
    [
        pa.field("pk_catalog_name", pa.string()),
        pa.field("pk_db_schema_name", pa.string()),
        required("pk_table_name", pa.string()),
        required("pk_column_name", pa.string()),
        pa.field("fk_catalog_name", pa.string()),
        pa.field("fk_db_schema_name", pa.string()),
        required("fk_table_name", pa.string()),
        required("fk_column_name", pa.string()),
        required("key_sequence", pa.int32()),
        pa.field("fk_key_name", pa.string()),
        pa.field("pk_key_name", pa.string()),
        required("update_rule", pa.uint8()),
        required("delete_rule", pa.uint8()),
    ]
)

Answer: TypeAlias = "tuple[pa.Schema, Callable[[], pa.Table]]"
"""The schema of an answer, and what computes it."""


def like(value: str, pattern: str) -> bool:
    r"""Return whether a name is like a pattern: ``%`` is any string, ``_`` any character.

    In a time that grows with the product of their lengths, whatever the pattern.

    >>> like("cell_type", "cell%"), like("cell", r"c\_ll"), like("cell", "c_ll")
    (True, False, True)
    """
    places = {0}
    position = 0
    while position < len(pattern) and places:
        character = pattern[position]
        if character == "%":
            places = set(range(min(places), len(value) + 1))
        else:
            is_escaped = character == _ESCAPE and position + 1 < len(pattern)
            position += is_escaped
            character = pattern[position]
            is_any = character == "_" and not is_escaped
            places = {
                place + 1
                for place in places
                if place < len(value) and (is_any or value[place] == character)
            }
        position += 1
    return len(value) in places


class Catalog:
    """Answers what there is in a session."""

    def __init__(self, session: DafSession, *, max_query_bytes: int) -> None:
        self._session = session
        self._max_query_bytes = max_query_bytes

    def answer(self, command: Any) -> Answer:
        """Return the answer to one of the commands of `COMMANDS`."""
        schema, method = _ANSWERS[type(command)]
        if isinstance(command, CommandGetTables) and command.include_schema:
            schema = _TABLES_WITH_SCHEMAS
        return schema, lambda: method(self, command)

    def _listed(self) -> list[ListedTable]:
        return listed_tables(self._session._connections)  # noqa: SLF001 - our own

    def _catalogs(self, _: CommandGetCatalogs) -> pa.Table:
        return _table(_CATALOGS, [(CATALOG,)])

    def _schemas(self, command: CommandGetDbSchemas) -> pa.Table:
        names = sorted({table.schema for table in self._listed()})
        rows = [
            (CATALOG, name)
            for name in names
            if _is_asked(command.catalog, command.db_schema_filter_pattern, name)
        ]
        return _table(_SCHEMAS, rows)

    def _tables(self, command: CommandGetTables) -> pa.Table:
        tables = [
            table
            for table in self._listed()
            if _is_asked(command.catalog, command.db_schema_filter_pattern, table.schema)
            and _is_like(table.name, command.table_name_filter_pattern)
            and (not command.table_types or table.type in command.table_types)
        ]
        rows: list[tuple[Any, ...]] = [
            (CATALOG, table.schema, table.name, table.type) for table in tables
        ]
        if not command.include_schema:
            return _table(_TABLES, rows)
        schemas = [self._schema_of(table).serialize().to_pybytes() for table in tables]
        with_schemas = [(*row, schema) for row, schema in zip(rows, schemas, strict=True)]
        return _table(_TABLES_WITH_SCHEMAS, with_schemas)

    def _schema_of(self, table: ListedTable) -> pa.Schema:
        """Return the columns of a table; none of one that cannot be read, as a query says."""
        name = f"{quoted_name(table.schema)}.{quoted_name(table.name)}"
        try:
            return wire_schema(self._session.sql(f"SELECT * FROM {name}").schema)  # noqa: S608 - the name is quoted
        except DafError:
            return pa.schema([])

    def _table_types(self, _: CommandGetTableTypes) -> pa.Table:
        return _table(_TABLE_TYPES, [("TABLE",), ("VIEW",)])

    def _primary_keys(self, command: CommandGetPrimaryKeys) -> pa.Table:
        rows = [
            (CATALOG, table.schema, table.name, column, None, number)
            for table in self._listed()
            if command.catalog in (None, CATALOG)
            and command.db_schema in (None, table.schema)
            and command.table == table.name
            for number, column in enumerate(table.key, 1)
        ]
        return _table(_PRIMARY_KEYS, rows)

    def _no_keys(self, _: Any) -> pa.Table:
        return _FOREIGN_KEYS.empty_table()

    def _sql_info(self, command: CommandGetSqlInfo) -> pa.Table:
        return pa.Table.from_batches([sql_info(command.info, self._max_query_bytes)])

    def _type_info(self, command: CommandGetXdbcTypeInfo) -> pa.Table:
        return pa.Table.from_batches([type_info(command.data_type)])


_ANSWERS: Final[dict[type, tuple[pa.Schema, Callable[[Catalog, Any], pa.Table]]]] = {
    CommandGetCatalogs: (_CATALOGS, Catalog._catalogs),  # noqa: SLF001 - methods of this module
    CommandGetDbSchemas: (_SCHEMAS, Catalog._schemas),  # noqa: SLF001 - the same
    CommandGetTables: (_TABLES, Catalog._tables),  # noqa: SLF001 - the same
    CommandGetTableTypes: (_TABLE_TYPES, Catalog._table_types),  # noqa: SLF001 - the same
    CommandGetPrimaryKeys: (_PRIMARY_KEYS, Catalog._primary_keys),  # noqa: SLF001 - the same
    CommandGetExportedKeys: (_FOREIGN_KEYS, Catalog._no_keys),  # noqa: SLF001 - the same
    CommandGetImportedKeys: (_FOREIGN_KEYS, Catalog._no_keys),  # noqa: SLF001 - the same
    CommandGetCrossReference: (_FOREIGN_KEYS, Catalog._no_keys),  # noqa: SLF001 - the same
    CommandGetSqlInfo: (INFO_SCHEMA, Catalog._sql_info),  # noqa: SLF001 - the same
    CommandGetXdbcTypeInfo: (TYPE_SCHEMA, Catalog._type_info),  # noqa: SLF001 - the same
}

COMMANDS: Final = {command.__name__: command for command in _ANSWERS}
"""The messages that ask what there is, by name."""


def _table(schema: pa.Schema, rows: Iterable[Sequence[Any]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(list(each), field.type) for each, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def _is_like(name: str, pattern: str | None) -> bool:
    return pattern is None or like(name, pattern)


def _is_asked(catalog: str | None, pattern: str | None, schema: str) -> bool:
    return catalog in (None, CATALOG) and _is_like(schema, pattern)
