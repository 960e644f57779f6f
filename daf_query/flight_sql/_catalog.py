"""The catalog that clients ask for: schemas, tables, columns, and what this server can do.

Rule: ``format/FlightSql.proto`` of Apache Arrow, whose comments have the schemas of the answers;
of the server itself ``SqlInfo``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from importlib.metadata import version
from typing import Any, Final, TypeAlias

import pyarrow as pa

from daf_query.flight_sql._answers import decoded, given
from daf_query.scan import plain_schema
from daf_query.session import DafSession
from daf_query.sql import CATALOG, ListedTable, listed_tables
from daf_query.syntax import quoted_name
from daf_storage import DafError, errors
from daf_storage._lazy import pc

_STRINGS: Final = pa.list_(pa.string())
_CONVERSIONS: Final = pa.map_(pa.int32(), pa.list_(pa.int32()))
_MEMBERS: Final = (
    ("string_value", pa.string()),
    ("bool_value", pa.bool_()),
    ("bigint_value", pa.int64()),
    ("int32_bitmask", pa.int32()),
    ("string_list", _STRINGS),
    ("int32_to_int32_list_map", _CONVERSIONS),
)
_STRING, _BOOL, _BIGINT, _INT32, _STRING_LIST, _MAP = range(6)

INFO_SCHEMA: Final = pa.schema(
    [
        pa.field("info_name", pa.uint32(), nullable=False),
        pa.field("value", pa.dense_union(list(pa.schema(_MEMBERS))), nullable=False),
    ]
)
"""The schema of the answer to ``CommandGetSqlInfo``."""

_COMMON: Final[tuple[tuple[int, Any, Iterable[int]], ...]] = (
    # Substrait, ingestion, DDL, FOR UPDATE, procedures, transactions, batches, LOBs, constraints.
    (_BOOL, False, (5, 10, 11, 500, 501, 502, 519, 527, 536, 537)),
    (_BOOL, False, (556, 563, 565, 566, 572, 573, 574, 575, 576)),
    # Read-only, SQL, cancelling; all tables can be read; aliases, ORDER BY, LIKE, subqueries.
    (_BOOL, True, (3, 4, 9, 506, 515, 516, 518, 520, 521, 523, 524, 532, 539)),
    # Lengths and counts for which there is no limit, which is 0.
    (_BIGINT, 0, (*range(541, 556), *range(558, 562))),
    # No transactions and timeouts; names keep their case; nulls are sorted high: last with ASC.
    (_INT32, 0, (8, 100, 101, 503, 505, 507, 533, 534, 535, 562)),
    # GROUP BY what is not selected, and beyond; UNION and UNION ALL.
    (_INT32, 0b11, (522, 525, 540)),
    (_INT32, 0b10, (567, 569)),  # forward only, and read-only
    (_INT32, 0b1, (526, 564, 568, 570, 571)),
    (_INT32, 2, (528,)),  # all outer joins
    (_INT32, 0b1111, (538,)),  # subqueries in comparisons, EXISTS, IN and with ANY
    (_STRING, "daf-query", (0,)),
    (_STRING, '"', (504,)),
    (_STRING, "\\", (513,)),
    (_STRING, "", (514,)),
    (_STRING, "schema", (529,)),
    (_STRING, "procedure", (530,)),
    (_STRING, "catalog", (531,)),
)
"""The place of a type in the union, a value, and the numbers of what has it."""
_LISTS: Final = {
    508: ["QUALIFY", "ILIKE", "UNNEST"],
    509: ["abs", "ceil", "exp", "floor", "ln", "log10", "log2", "power", "round", "sqrt"],
    510: ["concat", "left", "length", "lower", "regexp_like", "replace", "right", "trim", "upper"],
    511: [],
    512: ["date_bin", "date_part", "date_trunc", "now", "to_timestamp"],
}


def _info(max_query_bytes: int) -> dict[int, tuple[int, Any]]:
    """Return everything, each as the place of its type in the union and a value."""
    values = {number: (place, value) for place, value, numbers in _COMMON for number in numbers}
    values |= {number: (_STRING_LIST, value) for number, value in _LISTS.items()}
    values[1] = (_STRING, version("daf-query"))
    values[2] = (_STRING, pa.__version__)
    values[517] = (_MAP, [])
    values[557] = (_BIGINT, max_query_bytes)
    return dict(sorted(values.items()))


def sql_info(numbers: Collection[int], max_query_bytes: int) -> pa.RecordBatch:
    """Return what is known of some numbers; without numbers, everything.

    >>> sql_info([3, 99_999], 1000).to_pylist()
    [{'info_name': 3, 'value': True}]
    """
    infos = _info(max_query_bytes)
    requested = [number for number in infos if not numbers or number in numbers]
    members: list[list[Any]] = [[] for _ in _MEMBERS]
    types, offsets = [], []
    for number in requested:
        place, value = infos[number]
        types.append(place)
        offsets.append(len(members[place]))
        members[place].append(value)
    union = pa.UnionArray.from_dense(
        pa.array(types, pa.int8()),
        pa.array(offsets, pa.int32()),
        [pa.array(each, member) for each, (_, member) in zip(members, _MEMBERS, strict=True)],
        [name for name, _ in _MEMBERS],
    )
    return pa.record_batch([pa.array(requested, pa.uint32()), union], schema=INFO_SCHEMA)


def _schema(fields: str) -> pa.Schema:
    """Return the schema of fields, strings unless it says otherwise; with ``?``, may be missing.

    >>> _schema("name size?:int32")
    name: string not null
    size: int32
    """
    made = []
    for written in fields.split():
        name, _, kind = written.partition(":")
        data_type = _NAMES if kind == "strings" else pa.type_for_alias(kind or "string")
        made.append(pa.field(name.removesuffix("?"), data_type, nullable=name.endswith("?")))
    return pa.schema(made)


_NAMES: Final = pa.list_(pa.field("item", pa.string(), nullable=False))
_TYPES: Final = _schema(
    """
    type_name data_type:int32 column_size?:int32 literal_prefix? literal_suffix?
    create_params?:strings nullable:int32 case_sensitive:bool searchable:int32
    unsigned_attribute?:bool fixed_prec_scale:bool auto_increment?:bool local_type_name?
    minimum_scale?:int32 maximum_scale?:int32 sql_data_type:int32 datetime_subcode?:int32
    num_prec_radix?:int32 interval_precision?:int32
    """
)
_CATALOGS: Final = _schema("catalog_name")
_SCHEMAS: Final = _schema("catalog_name? db_schema_name")
_TABLES: Final = _schema("catalog_name? db_schema_name? table_name table_type")
_TABLES_WITH_SCHEMAS: Final = _TABLES.append(pa.field("table_schema", pa.binary(), nullable=False))
_TABLE_TYPES: Final = _schema("table_type")
_PRIMARY_KEYS: Final = _schema(
    "catalog_name? db_schema_name? table_name column_name key_name? key_sequence:int32"
)
_FOREIGN_KEYS: Final = _schema(
    """
    pk_catalog_name? pk_db_schema_name? pk_table_name pk_column_name
    fk_catalog_name? fk_db_schema_name? fk_table_name fk_column_name
    key_sequence:int32 fk_key_name? pk_key_name? update_rule:uint8 delete_rule:uint8
    """
)

Answer: TypeAlias = "tuple[pa.Schema, Callable[[], pa.Table]]"
"""The schema of an answer, and what computes it."""


class Catalog:
    """Lists the contents of a session."""

    def __init__(self, session: DafSession, *, max_query_bytes: int) -> None:
        self._session = session
        self._max_query_bytes = max_query_bytes

    def answer(self, name: str, body: bytes) -> Answer:
        """Return the answer to one of the commands of `COMMANDS`."""
        schema, method = COMMANDS[name]
        command = decoded(name, body)
        if name == "CommandGetTables" and command.include_schema:
            schema = _TABLES_WITH_SCHEMAS
        return schema, lambda: method(self, command) if method else schema.empty_table()

    def _listed(self) -> list[ListedTable]:
        return listed_tables(self._session._connections)  # noqa: SLF001 - our own

    def _schemas(self, command: Any) -> pa.Table:
        names = sorted({table.schema for table in self._listed()})
        return _table(_SCHEMAS, [(CATALOG, name) for name in names if _is_requested(command, name)])

    def _tables(self, command: Any) -> pa.Table:
        tables = [
            table
            for table in self._listed()
            if _is_requested(command, table.schema)
            and _is_like(table.name, given(command, "table_name_filter_pattern"))
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
            return plain_schema(self._session.sql(f"SELECT * FROM {name}").schema)  # noqa: S608 - the name is quoted
        except DafError:
            return pa.schema([])

    def _primary_keys(self, command: Any) -> pa.Table:
        rows = [
            (CATALOG, table.schema, table.name, column, None, number)
            for table in self._listed()
            if given(command, "catalog") in (None, CATALOG)
            and given(command, "db_schema") in (None, table.schema)
            and command.table == table.name
            for number, column in enumerate(table.key, 1)
        ]
        return _table(_PRIMARY_KEYS, rows)

    def _sql_info(self, command: Any) -> pa.Table:
        return pa.Table.from_batches([sql_info(command.info, self._max_query_bytes)])


COMMANDS: Final[dict[str, tuple[pa.Schema, Callable[[Catalog, Any], pa.Table] | None]]] = {
    "CommandGetCatalogs": (_CATALOGS, lambda *_: _table(_CATALOGS, [(CATALOG,)])),
    "CommandGetDbSchemas": (_SCHEMAS, Catalog._schemas),  # noqa: SLF001 - methods of this module
    "CommandGetTables": (_TABLES, Catalog._tables),  # noqa: SLF001 - the same
    "CommandGetTableTypes": (
        _TABLE_TYPES,
        lambda *_: _table(_TABLE_TYPES, [("TABLE",), ("VIEW",)]),
    ),
    "CommandGetPrimaryKeys": (_PRIMARY_KEYS, Catalog._primary_keys),  # noqa: SLF001 - the same
    "CommandGetExportedKeys": (_FOREIGN_KEYS, None),
    "CommandGetImportedKeys": (_FOREIGN_KEYS, None),
    "CommandGetCrossReference": (_FOREIGN_KEYS, None),
    "CommandGetXdbcTypeInfo": (_TYPES, None),
    "CommandGetSqlInfo": (INFO_SCHEMA, Catalog._sql_info),  # noqa: SLF001 - the same
}
"""The messages that ask what there is: the schema of the answer, and what computes it, if any."""


def _table(schema: pa.Schema, rows: Iterable[Sequence[Any]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(list(each), field.type) for each, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def _is_like(name: str, pattern: str | None) -> bool:
    r"""Return whether a name is like a pattern of SQL, in linear time.

    >>> _is_like("cell_type", "cell%"), _is_like("cell", r"c\_ll"), _is_like("cell", "c_ll")
    (True, False, True)
    """
    if pattern is None:
        return True
    written = re.sub(r"\\(.)|(.)", _in_regex, pattern, flags=re.DOTALL)
    try:
        return bool(pc.match_substring_regex(pa.scalar(name), f"(?s)^{written}$").as_py())
    except pa.ArrowInvalid:
        raise errors.InvalidInputError("the pattern of names is too long") from None


def _in_regex(part: re.Match[str]) -> str:
    """Return what a character of a pattern, or one that a backslash escapes, is in RE2."""
    escaped, plain = part.groups()
    wildcard = {"%": ".*", "_": "."}.get(plain or "")
    return wildcard or f"\\x{{{ord(escaped or plain):x}}}"


def _is_requested(command: Any, schema: str) -> bool:
    pattern = given(command, "db_schema_filter_pattern")
    return given(command, "catalog") in (None, CATALOG) and _is_like(schema, pattern)
