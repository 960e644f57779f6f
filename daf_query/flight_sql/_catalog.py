"""The catalog that clients ask for: schemas, tables, columns, and what this server can do.

Rule: ``format/FlightSql.proto`` of Apache Arrow, whose comments have the schemas of the answers;
of the server itself ``SqlInfo``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
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

_OF_NUMBERS: Final = "abs ceil exp floor ln log10 log2 power round sqrt".split()  # noqa: SIM905 - a page else
_OF_STRINGS: Final = "concat left length lower regexp_like replace right trim upper".split()  # noqa: SIM905 - the same
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
    (_STRING_LIST, ["QUALIFY", "ILIKE", "UNNEST"], (508,)),
    (_STRING_LIST, _OF_NUMBERS, (509,)),
    (_STRING_LIST, _OF_STRINGS, (510,)),
    (_STRING_LIST, [], (511,)),
    (_STRING_LIST, ["date_bin", "date_part", "date_trunc", "now", "to_timestamp"], (512,)),
    (_MAP, [], (517,)),
)
"""The place of a type in the union, a value, and the numbers of what has it."""


def sql_info(numbers: Collection[int], max_query_bytes: int) -> pa.Table:
    """Return what is known of some numbers; without numbers, everything.

    >>> sql_info([3, 99_999], 1000).to_pylist()
    [{'info_name': 3, 'value': True}]
    """
    own = (
        (_STRING, version("daf-query"), (1,)),
        (_STRING, pa.__version__, (2,)),
        (_BIGINT, max_query_bytes, (557,)),
    )
    infos = {each: (place, value) for place, value, every in (*_COMMON, *own) for each in every}
    requested = [number for number in sorted(infos) if not numbers or number in numbers]
    places = [infos[number][0] for number in requested]
    offsets = [places[:number].count(place) for number, place in enumerate(places)]
    members = [
        pa.array([infos[each][1] for each in requested if infos[each][0] == place], kind)
        for place, (_, kind) in enumerate(_MEMBERS)
    ]
    union = pa.UnionArray.from_dense(
        pa.array(places, pa.int8()),
        pa.array(offsets, pa.int32()),
        members,
        [name for name, _ in _MEMBERS],
    )
    return pa.table([pa.array(requested, pa.uint32()), union], schema=INFO_SCHEMA)


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

_Rows: TypeAlias = Iterable[tuple[Any, ...]]
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
        if method is None:
            return schema, lambda: sql_info(command.info, self._max_query_bytes)
        if name == "CommandGetTables" and command.include_schema:
            schema = _TABLES_WITH_SCHEMAS

        def table() -> pa.Table:
            rows = [dict(zip(schema.names, row, strict=True)) for row in method(self, command)]
            return pa.Table.from_pylist(rows, schema)

        return schema, table

    def _listed(self) -> list[ListedTable]:
        return listed_tables(self._session._connections)  # noqa: SLF001 - our own

    def _schemas(self, command: Any) -> _Rows:
        names = sorted({table.schema for table in self._listed()})
        return ((CATALOG, name) for name in names if _is_requested(command, name))

    def _tables(self, command: Any) -> _Rows:
        for table in self._listed():
            if (
                _is_requested(command, table.schema)
                and _is_like(table.name, given(command, "table_name_filter_pattern"))
                and (not command.table_types or table.type in command.table_types)
            ):
                columns = [self._columns_of(table)] if command.include_schema else []
                yield (CATALOG, table.schema, table.name, table.type, *columns)

    def _columns_of(self, table: ListedTable) -> bytes:
        """Return the columns of a table; none of one that cannot be read, as a query says."""
        name = f"{quoted_name(table.schema)}.{quoted_name(table.name)}"
        schema = pa.schema([])
        with suppress(DafError):
            schema = plain_schema(self._session.sql(f"SELECT * FROM {name}").schema)  # noqa: S608 - the name is quoted
        columns: bytes = schema.serialize().to_pybytes()
        return columns

    def _primary_keys(self, command: Any) -> _Rows:
        return (
            (CATALOG, table.schema, table.name, column, None, number)
            for table in self._listed()
            if given(command, "catalog") in (None, CATALOG)
            and given(command, "db_schema") in (None, table.schema)
            and command.table == table.name
            for number, column in enumerate(table.key, 1)
        )


def _none(*_: Any) -> _Rows:
    return ()


COMMANDS: Final[dict[str, tuple[pa.Schema, Callable[[Catalog, Any], _Rows] | None]]] = {
    "CommandGetCatalogs": (_CATALOGS, lambda *_: [(CATALOG,)]),
    "CommandGetDbSchemas": (_SCHEMAS, Catalog._schemas),  # noqa: SLF001 - methods of this module
    "CommandGetTables": (_TABLES, Catalog._tables),  # noqa: SLF001 - the same
    "CommandGetTableTypes": (_TABLE_TYPES, lambda *_: [("TABLE",), ("VIEW",)]),
    "CommandGetPrimaryKeys": (_PRIMARY_KEYS, Catalog._primary_keys),  # noqa: SLF001 - the same
    "CommandGetExportedKeys": (_FOREIGN_KEYS, _none),
    "CommandGetImportedKeys": (_FOREIGN_KEYS, _none),
    "CommandGetCrossReference": (_FOREIGN_KEYS, _none),
    "CommandGetXdbcTypeInfo": (_TYPES, _none),
    "CommandGetSqlInfo": (INFO_SCHEMA, None),
}
"""The messages that ask what there is: the schema of the answer, and the rows; None: `sql_info`."""


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
