"""The query engine over connected data sets: one DataFusion context and the schemas it sees."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

import datafusion

from daf_query.scan import DEFAULT_OPTIONS, ScanOptions
from daf_query.sql._catalog import (
    PUBLIC,
    AxisSchema,
    CollectionSchema,
    DafCatalog,
    DafSchema,
    SharedSchema,
    table_of_length,
)
from daf_query.sql._engine_fork import ENGINE
from daf_query.sql._error_translation import translate_planning_error
from daf_query.sql._filter_inference import implied
from daf_query.sql._in_lists import may_merge
from daf_query.sql._names import quoted_name, unquoted_name
from daf_query.sql._never_null import columns_asked_for_null, is_never_null, is_settled, warn
from daf_query.sql._pitfalls import check_plan, safe_sql
from daf_query.sql._planning import Restriction, current_context, planning
from daf_query.sql._residual_filters import TableName, conditions_of
from daf_query.sql._spatial_filters import indexed_rows, settled_rows
from daf_query.sql._unique_columns import (
    check_copied,
    duplicates_in,
    unique_names,
    with_unique_columns,
)
from daf_query.sql._user_tables import engine_table
from daf_query.table import TableDataset, UserTable, ZarrTable
from daf_storage import DafReader, errors
from daf_storage.spi import DecodedCache

Allow: TypeAlias = Literal["read", "write"]
"""What queries may do."""

_CATALOG: Final = "daf"
_MAX_REMEMBERED: Final = 1 << 10

_READING: Final = (
    datafusion.SQLOptions()
    .with_allow_ddl(allow=False)
    .with_allow_dml(allow=False)
    .with_allow_statements(allow=False)
)
_WRITING: Final = (
    datafusion.SQLOptions()
    .with_allow_ddl(allow=True)
    .with_allow_dml(allow=True)
    .with_allow_statements(allow=True)
)

_NAME: Final = r'[^\s."]+|"(?:[^"]|"")*"'
_CREATE_VIEW: Final = re.compile(
    rf"\s*CREATE\s+(?P<replace>OR\s+REPLACE\s+)?VIEW\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    rf"(?:(?:{_NAME})\.(?=(?:{_NAME})\.))?(?:(?P<schema>{_NAME})\.)?(?P<name>{_NAME})\s+"
    rf"AS\s+(?P<query>.*?)\s*;?\s*$",
    re.IGNORECASE | re.DOTALL,
)

_WORD: Final = r'[^\W\d]\w*|"(?:[^"]|"")*"'
_COUNT: Final = re.compile(
    rf"\s*SELECT\s+count\(\s*(?:\*|\d+)\s*\)(?:\s+(?:AS\s+)?(?:{_WORD}))?\s+"
    rf"FROM\s+(?:(?P<schema>{_WORD})\.)?(?P<table>{_WORD})\s*;?\s*$",
    re.IGNORECASE,
)
"""A query for the number of rows of one table."""

_MAY_BE_RESIDUAL: Final = re.compile(r"\d\.|\.\d|\de|like|starts_with|~|st_|cast|::")
"""What is in a query that may have residual filters: to look for them takes time."""


_MAY_BE_UNCONVERTED: Final = re.compile(r"null|case|cast|::|x'")
"""What is in a query that may have a constant that is NULL, or bytes."""

_UNCONVERTED: Final = re.compile(
    r"^ *TableScan: .*(?:unsupported_filters=\[|Boolean\(NULL\)|Binary(?:View)?\()", re.MULTILINE
)
"""A filter that the bindings would fail to convert, or to log if it has bytes, as plans show it."""


@dataclass(frozen=True)
class Collection:
    """Several data sets that are asked as one."""

    location: str
    """Where they are, for messages."""
    members: Mapping[str, DafReader]
    """Each by what the column ``dataset`` calls it."""


@dataclass(frozen=True)
class Planned:
    """The plan of a query."""

    executed: datafusion.DataFrame
    """To be executed as it is."""
    extendable: Callable[[], datafusion.DataFrame] | None = None
    """Plans what is built upon; None if that is the same."""

    @property
    def frame(self) -> datafusion.DataFrame:
        """To be built upon."""
        return self.executed if self.extendable is None else self.extendable()


class Engine:
    """A DataFusion context over data sets; each is a schema, the only one is the default."""

    def __init__(
        self,
        data_sets: Mapping[str, DafReader | Collection],
        cache_bytes: int,
        *,
        default: str | None = None,
        scan_options: ScanOptions = DEFAULT_OPTIONS,
    ) -> None:
        self._cache_bytes = cache_bytes
        self._scan_options = scan_options
        self.cache = DecodedCache(max_bytes=cache_bytes)
        """What was decoded and learnt, of all data sets together."""
        self.shared: dict[str, TableDataset] = {}
        """Tables that belong to no data set, by name."""
        self.user_tables: dict[str, UserTable] = {}
        """Tables that a user brought, by name."""
        self.schemas: dict[str, AxisSchema] = {}
        """The tables of each data set, or of several as one, by schema name."""
        self._public = SharedSchema(self.shared)
        for name, daf in data_sets.items():
            self.add(name, daf)
        if default is None:
            default = next(iter(data_sets)) if len(data_sets) == 1 else PUBLIC
        self._default = default
        self._views: dict[TableName, str] = {}
        self._unrestricted: set[str] = set()
        self._hinted: set[tuple[str, str, str]] = set()
        config = (
            datafusion.SessionConfig()
            .with_information_schema(enabled=True)
            .with_create_default_catalog_and_schema(enabled=False)
            .with_default_catalog_and_schema(_CATALOG, default)
            # UMIs is UMIs, not umis.
            .set("datafusion.sql_parser.enable_ident_normalization", "false")
        )
        ENGINE.note_start()
        self.context = datafusion.SessionContext(config)
        """The DataFusion context."""
        self.context.register_catalog_provider(_CATALOG, DafCatalog(self.schemas, self._public))

    def __reduce__(self) -> Any:
        """Pickle what is connected, by its paths; whoever unpickles it connects it again."""
        views = set(self._views)
        created = [
            f"{schema.name}.{name}"
            for schema in (*self.schemas.values(), self._public)
            for name in schema.added
            if (schema.name, name) not in views and name not in self.user_tables
        ]
        if created:
            raise errors.InvalidInputError(
                f"a session with tables that queries created ({', '.join(created)}) cannot be "
                "pickled, since they are in memory; save their rows to files, or drop them"
            )
        sources = {name: _source_of(schema) for name, schema in self.schemas.items()}
        state = (sources, dict(self.shared), dict(self.user_tables), dict(self._views))
        return _connected_again, (*state, self._cache_bytes, self._default, self._scan_options)

    def share(self, name: str, table: TableDataset) -> None:
        """Add a table that belongs to no data set; the one that was given stays as it is."""
        self.shared[name] = table.with_cache(self.cache.part()).with_options(self._scan_options)

    def add(self, name: str, daf: DafReader | Collection) -> None:
        """Add a data set, or several as one, as a schema."""
        if isinstance(daf, Collection):
            members = {
                key: DafSchema(key, one, self.cache.part(), scan_options=self._scan_options)
                for key, one in daf.members.items()
            }
            self.schemas[name] = CollectionSchema(name, members, daf.location, self.shared)
        else:
            self.schemas[name] = DafSchema(
                name, daf, self.cache.part(), self.shared, scan_options=self._scan_options
            )
        for title, table in self.user_tables.items():
            if self.schemas[name].table_exist(title):
                del self.schemas[name]
                raise errors.ExistsError(
                    f"{name!r} has a table {title!r}, and so has this session; unregister that one"
                )
            self.schemas[name].register_table(title, engine_table(table))

    def add_user_table(self, name: str, table: UserTable) -> None:
        """Add a table that a user brought; every schema has it.

        Raises
        ------
        ExistsError
            An axis, or a table that a query created, has this name.
        """
        for schema in (*self.schemas.values(), self._public):
            if schema.table_exist(name):
                raise errors.ExistsError(
                    f"there is a table {name!r} already; register this one under another name"
                )
        read = engine_table(table)
        self.user_tables[name] = table
        for schema in (*self.schemas.values(), self._public):
            schema.register_table(name, read)

    def drop_user_table(self, name: str) -> None:
        """Let go of a table that a user brought."""
        del self.user_tables[name]
        for schema in (*self.schemas.values(), self._public):
            schema.deregister_table(name)

    def daf(self, name: str) -> DafReader:
        """Return the data set behind a schema.

        Raises
        ------
        InvalidInputError
            There are several behind it.
        """
        schema = self.schemas[name]
        if not isinstance(schema, DafSchema):
            raise errors.InvalidInputError(
                f"{schema.location}: {name!r} is several data sets as one, for SQL; connect the "
                "one whose data you want"
            )
        return schema.daf

    def plan(
        self, query: str, *, allow: Allow = "read", once: tuple[str, ...] = ()
    ) -> datafusion.DataFrame:
        """Plan a query, to be executed as it is; errors are those of `planned`."""
        return self.planned(query, allow=allow, once=once).executed

    def planned(self, query: str, *, allow: Allow = "read", once: tuple[str, ...] = ()) -> Planned:
        """Plan a query; errors are in the words of the data sets.

        Parameters
        ----------
        once
            Names of columns that the result must not have twice; of others, each gets its own.
        """
        try:
            return self._plan_raw(query, allow=allow, once=once)
        except Exception as error:  # noqa: BLE001 - the engine raises plain Exceptions
            raise self.translated(error, query) from None

    def translated(self, error: Exception, query: str) -> errors.DafError:
        """Return an error of planning a query in the words of the data sets."""
        return translate_planning_error(error, query, self.schemas, self.shared)

    def broken_count(self) -> int:
        """Return how often a column turned out to be unreadable while it was read."""
        shared = sum(table.table_columns.broken.count for table in self.shared.values())
        return shared + sum(schema.broken_count for schema in self.schemas.values())

    def plan_raw(
        self, query: str, *, allow: Allow = "read", once: tuple[str, ...] = ()
    ) -> datafusion.DataFrame:
        """Plan a query; errors are the engine's own."""
        return self._plan_raw(query, allow=allow, once=once).executed

    def _plan_raw(self, query: str, *, allow: Allow, once: tuple[str, ...]) -> Planned:
        if allow == "write":
            return Planned(self._plan_to_write(query, once))
        planned = self._plan_to_read(query)
        if "null" in query.lower():
            self._hint_at_missing_strings(query, planned.executed)
        executed, extendable = with_unique_columns(planned.executed, once=once), planned.extendable
        if extendable is None:
            return Planned(executed)
        return Planned(
            executed, lambda: with_unique_columns(extendable(), once=once, is_reported=False)
        )

    def _plan_to_write(self, query: str, once: tuple[str, ...]) -> datafusion.DataFrame:
        """Plan a query that may change something: once, since planning may do so already."""
        pushes_filters = not self._may_be_unconverted(query.lower())
        with planning(replace(current_context(), pushes_filters=pushes_filters)):
            frame = self._plan_sql(self._with_view_columns(query), _WRITING)
        self._remember_view(query)
        check_copied(frame)
        return with_unique_columns(frame, once=once)

    def _plan_to_read(self, query: str) -> Planned:
        """Plan a query: once, unless the plan shows that its tables have to be other ones."""
        lengths = self._lengths(query)
        if lengths:
            with planning(current_context().replacing(lengths)):
                return Planned(self._plan_sql(query))
        frame = self._plan_sql(query)
        lowered = query.lower()
        if self._may_be_unconverted(lowered) and _has_unconverted(frame):
            # Planned again: only the optimised plan shows that a table was given a filter with a
            # constant that the bindings cannot convert.  The engine evaluates all filters then.
            with planning(replace(current_context(), pushes_filters=False)):
                return Planned(self._plan_sql(query))
        if query in self._unrestricted or not self._may_be_residual(query, lowered):
            return Planned(frame)
        restrictions = self._restrictions(frame)
        if restrictions:
            return self._plan_restricted(query, restrictions)
        if not self._views and not self.shared and len(self._unrestricted) < _MAX_REMEMBERED:
            self._unrestricted.add(query)  # if types change, that is missed, and costs time only
        return Planned(frame)

    def _plan_restricted(
        self, query: str, restrictions: Mapping[TableName, Restriction]
    ) -> Planned:
        """Plan a query again, with tables that only read the rows that its residual filters need.

        What such filters are is in the optimised plan alone, and a planned table cannot be changed.
        What is built upon the query is planned a third time if some geometries are not decoded:
        a later sort may be by one that the query itself does not hand on.
        """
        context = replace(current_context(), restrictions=restrictions)
        with planning(context):
            executed = self._plan_sql(query)
        if all(restriction.settled is None for restriction in restrictions.values()):
            return Planned(executed)
        decoded = {name: replace(each, settled=None) for name, each in restrictions.items()}

        def extendable() -> datafusion.DataFrame:
            with planning(replace(context, restrictions=decoded)):
                return self._plan_sql(query)

        return Planned(executed, extendable)

    def _lengths(self, query: str) -> dict[TableName, datafusion.DataFrame]:
        """Return the table of a query that only counts its rows, as one that has just a length."""
        match = _COUNT.match(query)
        if match is None:
            return {}
        schema = self._default if match["schema"] is None else unquoted_name(match["schema"])
        axis = unquoted_name(match["table"])
        tables = self.schemas.get(schema)
        if tables is None or tables.has_added(axis) or axis not in tables.axes_set():
            return {}
        try:
            return {(schema, axis): table_of_length(tables.axis_length(axis))}
        except (errors.FormatError, errors.ReadOnlyError):  # it raises when it is planned
            return {}

    def _hint_at_missing_strings(self, query: str, frame: datafusion.DataFrame) -> None:
        """Warn, once for each column, where IS NULL is asked of strings of which none is NULL."""
        columns = list(columns_asked_for_null(query))
        if not columns or not is_settled(frame):
            return
        for schema in self.schemas.values():
            for axis in (one for one in schema.axes_set() if _is_named(one, query)):
                found = schema.dataset(axis).schema
                for column in (one for one in columns if is_never_null(found, one)):
                    place = (schema.location, axis, column)
                    if place not in self._hinted:
                        self._hinted.add(place)
                        warn(*place, found)

    def _may_be_residual(self, query: str, lowered: str) -> bool:
        if self._views or _MAY_BE_RESIDUAL.search(lowered) is not None:
            return True
        return may_merge(query, is_part=False) and safe_sql(query) != query

    def _may_be_unconverted(self, lowered: str) -> bool:
        return bool(self._views) or _MAY_BE_UNCONVERTED.search(lowered) is not None

    def _plan_sql(
        self,
        query: str,
        options: datafusion.SQLOptions | None = None,
        *,
        is_view: bool = False,
    ) -> datafusion.DataFrame:
        """Plan a query with the views that it may name as they are now."""
        named = {name: sql for name, sql in self._views.items() if _is_named(name[1], query)}
        if not named:
            return self._sql(query, options or _READING, is_part=is_view)
        # A view may name others, but none that was created after it.
        views: dict[TableName, datafusion.DataFrame] = {}
        context = current_context()
        for name, sql in named.items():
            with planning(context.replacing(dict(views))):
                views[name] = with_unique_columns(
                    self._plan_sql(sql, is_view=True), is_reported=False
                )
        with planning(context.replacing(dict(views))):
            return self._sql(query, options or _READING, is_part=True)

    def _sql(
        self, query: str, options: datafusion.SQLOptions, *, is_part: bool
    ) -> datafusion.DataFrame:
        """Plan a query whose views are known."""
        ENGINE.enter()
        safe = safe_sql(query, is_part=is_part)
        try:
            frame = self.context.sql_with_options(safe, options)
        except Exception:
            if safe != query:  # the engine tells where something is wrong in what it was given
                self.context.sql_with_options(query, options)
            raise
        check_plan(query, frame)
        return frame

    def _with_view_columns(self, query: str) -> str:
        """Return a query that creates a view with a name for each of its columns."""
        match = _CREATE_VIEW.match(query)
        if match is None:
            return query
        names = self._plan_sql(match["query"]).schema().names
        if not duplicates_in(names):
            return query
        columns = ", ".join(map(quoted_name, unique_names(names)))
        end = match.end("name")
        return f"{query[:end]} ({columns}){query[end:]}"

    def _remember_view(self, query: str) -> None:
        """Note the query of a view that was created: it is planned anew whenever it is used."""
        for name in [n for n in self._views if not self._has_added(n)]:
            del self._views[name]
        match = _CREATE_VIEW.match(query)
        if match is None:
            return
        schema = self._default if match["schema"] is None else unquoted_name(match["schema"])
        name = (schema, unquoted_name(match["name"]))
        if self._has_added(name) and (match["replace"] or name not in self._views):
            self._views.pop(name, None)
            self._views[name] = match["query"]

    def _has_added(self, name: TableName) -> bool:
        schema = self._public if name[0] == PUBLIC else self.schemas.get(name[0])
        return schema is not None and schema.has_added(name[1])

    def _restrictions(self, frame: datafusion.DataFrame) -> dict[TableName, Restriction]:
        """Return which rows a query can need, by conditions that the engine keeps to itself."""
        found: dict[TableName, Restriction] = {}
        for name, conditions in conditions_of(frame, self._default).items():
            table = self._find(name)
            if table is None:
                continue
            rows = indexed_rows(conditions, table) if isinstance(table, ZarrTable) else None
            predicate = implied(conditions, table.schema)
            if rows is not None or predicate is not None:
                is_indexed = rows is not None and isinstance(table, ZarrTable)
                settled = settled_rows(conditions, table) if is_indexed else None
                found[name] = Restriction(rows, predicate, settled)
        return found

    def _find(self, name: TableName) -> TableDataset | None:
        schema, table = name
        if schema in self.schemas:
            return self.schemas[schema].find(table)
        return self.shared.get(table) if schema == PUBLIC else None


def _source_of(schema: AxisSchema) -> DafReader | Collection:
    """Return what a schema was made of."""
    if isinstance(schema, DafSchema):
        return schema.daf
    if not isinstance(schema, CollectionSchema):
        raise TypeError(f"{type(schema).__name__} was made of nothing that is known here")
    members = {name: member.daf for name, member in schema.members.items()}
    return Collection(schema.location, members)


def _connected_again(
    sources: Mapping[str, DafReader | Collection],
    shared: Mapping[str, TableDataset],
    user_tables: Mapping[str, UserTable],
    views: Mapping[TableName, str],
    cache_bytes: int,
    default: str,
    scan_options: ScanOptions,
) -> Engine:
    """Return an engine over what another had."""
    engine = Engine(sources, cache_bytes, default=default, scan_options=scan_options)
    for name, table in shared.items():
        engine.share(name, table)
    for name, user_table in user_tables.items():
        engine.add_user_table(name, user_table)
    for (schema, name), query in views.items():
        engine.plan(
            f"CREATE VIEW {quoted_name(schema)}.{quoted_name(name)} AS {query}", allow="write"
        )
    return engine


def _has_unconverted(frame: datafusion.DataFrame) -> bool:
    """Return whether a table is handed a filter with a constant that the bindings fail on."""
    plan = str(frame.optimized_logical_plan().display_indent())
    return _UNCONVERTED.search(plan) is not None


def _is_named(name: str, query: str) -> bool:
    """Return whether a query has a name, or something that looks like it."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", query) is not None
