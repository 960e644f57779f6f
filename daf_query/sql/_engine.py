"""The planner of queries: one DataFusion context over what is connected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import datafusion
import pyarrow as pa

from daf_query._runs import attended
from daf_query.sql._axis_schema import CATALOG, PUBLIC, DafCatalog
from daf_query.sql._bounded_sizes import register_size_checks, with_bounded_sizes
from daf_query.sql._categories import category_keys, known_categories, register_category_order
from daf_query.sql._connections import Connections, engine_table
from daf_query.sql._corrections import (
    as_subquery,
    computed_names,
    corrections,
    limit_barriers,
    list_barriers,
    signed_ranks,
)
from daf_query.sql._direct_scan import DirectScans
from daf_query.sql._engine_context import ENGINE, computed_table, copy_functions, new_context
from daf_query.sql._hints import hint_at_missing_strings, with_unique_columns
from daf_query.sql._matrix_entries import Rule, Tables, with_entries
from daf_query.sql._messages import translated
from daf_query.sql._missing_names import Asked
from daf_query.sql._planning import (
    EntryRewriting,
    NamedColumns,
    TableName,
    current_context,
    planning,
    scans_of,
)
from daf_query.sql._restrictions import restrictions_of, small_tables
from daf_query.sql._simple_queries import named_columns
from daf_query.sql._table_functions import register_table_functions
from daf_query.syntax import (
    Edit,
    Statement,
    UnparsedError,
    WrappedSql,
    kind_of,
    name_of,
    one_statement,
    parsed,
    quoted_name,
)
from daf_query.table import TableDataset, table_format, user_table
from daf_storage import errors
from daf_storage.base import ForkLock

Allow: TypeAlias = Literal["read", "write"]
"""What queries may do."""

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


class _CreatedView(NamedTuple):
    """What a statement says that creates a view."""

    parts: tuple[str, ...]
    """What it is called: with its schema, if that is said."""
    query: str
    """What it is of."""
    replaces: bool
    """Whether it takes the place of another one."""


def _created_view(text: str) -> _CreatedView | None:
    """Return the view that a statement creates; None if it creates none.

    >>> _created_view("CREATE VIEW old AS (SELECT name FROM cell);")
    _CreatedView(parts=('old',), query='(SELECT name FROM cell)', replaces=False)
    >>> _created_view("SELECT name FROM cell") is None
    True
    """
    for statement in _parsed([text]):
        view = statement.tree[0].get("CreateView") if len(statement.tree) == 1 else None
        if view and not (view["columns"] or view["materialized"] or view["temporary"]):
            query = one_statement(text)[statement.start_of(view["query"]) :]
            return _CreatedView(name_of(view["name"]), query, view["or_replace"])
    return None


def _named_views(views: Mapping[TableName, str], query: str) -> dict[TableName, str]:
    """Return the views that a query names itself, with their queries.

    >>> views = {("db", "age"): "SELECT name FROM cell"}
    >>> [len(_named_views(views, f"SELECT age FROM {each}")) for each in ("cell", "db.age")]
    [0, 1]
    """
    statements = _parsed([query] if views else [])
    tables = {parts[-2:] for statement in statements for parts in statement.tables}
    return {name: sql for name, sql in views.items() if (name in tables or (name[1],) in tables)}


def _all_named_views(views: Mapping[TableName, str], query: str) -> dict[TableName, str]:
    """Return the views that a query names, itself or by another of these views.

    >>> views = {("db", "old"): "SELECT * FROM cell", ("db", "older"): "SELECT * FROM old"}
    >>> [name for _, name in _all_named_views(views, "SELECT * FROM older")]
    ['older', 'old']
    """
    found: dict[TableName, str] = {}
    queries = [query]
    while queries:
        new = _named_views(views, queries.pop())
        queries += [sql for name, sql in new.items() if name not in found]
        found.update(new)
    return found


class Engine:
    """A DataFusion context over what is connected, and how queries are planned.

    Parameters
    ----------
    default
        The schema of tables that are named without one; by default the only one.
    memory_bytes
        How much memory sorts, joins and groups may take; None is no limit.
    origin
        The engine whose tables and views a service answers queries over.
    """

    def __init__(
        self,
        connections: Connections,
        *,
        default: str | None = None,
        memory_bytes: int | None = None,
        origin: Engine | None = None,
    ) -> None:
        self.connections = connections
        """What queries can name."""
        if default is None:
            schemas = connections.schemas
            default = next(iter(schemas)) if len(schemas) == 1 else PUBLIC
        self._default = default
        self.direct = DirectScans(connections.schemas, default)
        """Finds the queries that need no planning."""
        self._views: dict[TableName, str] = {}
        self._hinted: set[tuple[str, str, str]] = set()
        self._memory_bytes = memory_bytes
        self._context: datafusion.SessionContext | None = None
        self._lock = ForkLock()
        self._origin = origin
        ENGINE.note_start()

    @property
    def context(self) -> datafusion.SessionContext:
        """The DataFusion context; made when it is first asked for, which most slices never do."""
        with self._lock:
            if self._context is None:
                self._context = self._new_context()
            if self._origin is not None:
                self._origin.copy_functions_to(self._context)
            return self._context

    def copy_functions_to(self, context: datafusion.SessionContext) -> None:
        """Make the functions that its user registered known to another context."""
        if self._context is not None:
            copy_functions(self._context, context)

    def _new_context(self) -> datafusion.SessionContext:
        context = new_context(self._default, memory_bytes=self._memory_bytes)
        schemas = self.connections.schemas
        catalog = DafCatalog(schemas, self.connections.public)
        context.register_catalog_provider(CATALOG, catalog)
        register_category_order(context, schemas)
        register_size_checks(context)
        register_table_functions(context, schemas, self._default, self.plan)
        return context

    def served(self, memory_bytes: int | None) -> Engine:
        """Return an engine over the same tables and views for a service: it reads no other files.

        Parameters
        ----------
        memory_bytes
            How much sorts, joins and groups may take there, of all queries together.
        """
        origin = self._origin or self
        engine = Engine(
            self.connections, default=self._default, memory_bytes=memory_bytes, origin=origin
        )
        engine.direct, engine._views = self.direct, self._views
        engine._hinted = self._hinted
        return engine

    def __reduce__(self) -> Any:
        """Pickle what is connected, and the views; not the tables that queries created."""
        connections = self.connections
        created = [".".join(name) for name in connections.created() if name not in self._views]
        if created:
            raise errors.InvalidInputError(
                f"a session with tables that queries created ({', '.join(created)}) cannot be "
                "pickled, since they are in memory; save their rows to files, or drop them"
            )
        return partial(Engine, default=self._default), (connections,), dict(self._views)

    def __setstate__(self, views: Mapping[TableName, str]) -> None:
        """Create the views of another one."""
        for (schema, name), query in views.items():
            view = f"{quoted_name(schema)}.{quoted_name(name)}"
            self.plan(f"CREATE VIEW {view} AS {query}", allow="write")

    @attended
    def plan(
        self, query: str, *, allow: Allow = "read", once: tuple[str, ...] = ()
    ) -> datafusion.DataFrame:
        """Plan a query; errors are in the words of the data sets.

        Parameters
        ----------
        once
            Names of columns that the result must not have twice; of others, each gets its own.
        """
        try:
            return self.plan_raw(query, allow=allow, once=once)
        except Exception as error:  # noqa: BLE001 - the engine raises plain Exceptions
            raise self.translated(error, query) from None

    def rows_of(self, wrapped: WrappedSql, what: str) -> pa.Table:
        """Return the rows of a query around SQL that someone wrote; errors say where in that.

        Parameters
        ----------
        what
            How messages call what was written.
        """
        try:
            return computed_table(self.plan_raw(wrapped.query))
        except Exception as error:  # noqa: BLE001 - the engine raises plain Exceptions
            raise wrapped.error(self.translated(error, wrapped.query), what) from None

    def translated(self, error: Exception, query: str) -> errors.DafError:
        """Return an error of planning or running a query in the words of the data sets."""
        return translated(error, Asked(query, self._tables(), self.connections))

    def plan_raw(
        self,
        query: str,
        *,
        allow: Allow = "read",
        once: tuple[str, ...] = (),
    ) -> datafusion.DataFrame:
        """Plan a query; errors are the engine's own."""
        statements = self._statements(query)  # held, so that a long text is parsed once
        context = replace(
            current_context(),
            rewritings={},
            found={},
            wide_columns=computed_names(statements),
            named_columns={} if allow == "write" else self._naming(query),
        )
        with planning(context.replacing(self._files(statements))):
            if allow == "write":  # once, since planning may change something already
                frame = self._plan_sql(query, _WRITING)
                self._remember_view(query)
            else:
                frame = self._plan_to_read(query)
        if allow == "read" and statements and statements[0].text == query:
            hint_at_missing_strings(statements[0], self._tables(), self._hinted)
        return with_unique_columns(frame, once=once)

    def _files(self, statements: Sequence[Statement]) -> dict[TableName, datafusion.DataFrame]:
        """Return the tables of the files that FROM names, by their suffixes.

        Raises
        ------
        QueryError
            The queries are those of a service.
        """
        files: dict[TableName, datafusion.DataFrame] = {}
        schema = self.connections.schemas.get(self._default, self.connections.public)
        for source in (each for statement in statements for each in statement.sources):
            path = "".join(source.parts) if len(source.parts) == 1 else ""
            if table_format(path) is None or schema.table_exist(path):
                continue
            if self._origin is not None:
                raise errors.QueryError(
                    f"FROM names the file {path!r}, and a service reads no files but its data "
                    "sets; start it over a session in which the file is a table"
                )
            files[self._default, path] = engine_table(user_table(path))
        return files

    def _tables(self) -> Tables:
        views = {name: sql for (_, name), sql in self._views.items()}
        return Tables(self.connections.schemas, self._default, views)

    def _statements(self, query: str) -> list[Statement]:
        """Return a query, and the views that it names, as trees; of what is no SQL, none."""
        return _parsed([query, *_all_named_views(self._views, query).values()])

    def _naming(self, query: str) -> dict[TableName, NamedColumns]:
        """Return the columns of a query, if it is of several data sets as one."""
        has_several = any(each.is_collection for each in self.connections.schemas.values())
        named = named_columns(query, self._default) if has_several and not self._views else None
        return {} if named is None else dict([named])

    def _plan_to_read(self, query: str) -> datafusion.DataFrame:
        """Plan a query: once, unless the plan shows that its tables have to be other ones."""
        function_tables: list[tuple[str, TableDataset]] = []
        with planning(replace(current_context(), function_tables=function_tables)):
            frame = self._plan_sql(query)
        if self._has_hidden_scans(query):
            return frame
        scans = scans_of(frame, self._default)
        small = small_tables(scans, self.connections)
        others = [scan for scan in scans if scan.table not in small]
        restrictions = restrictions_of(others, self.connections, function_tables)
        if restrictions or small:
            # Residual filters are in the optimised plan alone, and that cannot be changed.
            context = current_context().replacing(small)
            with planning(replace(context, restrictions=restrictions)):
                return self._plan_sql(query)
        return frame

    def _has_hidden_scans(self, query: str) -> bool:
        """Return whether a query may have scalar subqueries: plans do not show what they scan."""
        statements = self._statements(query)
        return not statements or any(
            kind_of(node) == "Subquery" for each in statements for _, node in each.nodes
        )

    def _plan_sql(
        self,
        query: str,
        options: datafusion.SQLOptions | None = None,
    ) -> datafusion.DataFrame:
        """Plan a query with the views that it names as they are now."""
        options = options or _READING
        named = _named_views(self._views, query)
        if not named:
            return self._rewritten_sql(query, options)
        views: dict[TableName, datafusion.DataFrame] = {}
        context = replace(current_context(), is_part=True)
        for name, sql in named.items():
            with planning(context.replacing(dict(views))):
                frame = self._plan_sql(as_subquery(sql))
                views[name] = with_unique_columns(frame, is_reported=False)
        with planning(context.replacing(dict(views))):
            return self._rewritten_sql(query, options)

    def _rewritten_sql(self, query: str, options: datafusion.SQLOptions) -> datafusion.DataFrame:
        """Plan a query whose views are known, with a column for each entry of a matrix."""
        rewriting = self._rewriting(query)
        with planning(replace(current_context(), matrix_columns=rewriting.columns)):
            try:
                return self._sql(rewriting.query, options)
            except Exception:
                for schema, table in rewriting.columns:  # the engine says that there is no table
                    self.connections.schemas[schema].check_table(table)
                raise

    def _rewriting(self, query: str) -> EntryRewriting:
        """Return how a query, or a view that it names, is planned; found out once per planning."""
        known = current_context().rewritings
        if known is None or query not in known:
            rules = (limit_barriers, signed_ranks, corrections, *self._rules)
            rewriting = with_entries(query, self._tables(), rules)
            if known is None:
                return rewriting
            known[query] = rewriting
        return known[query]

    def _sql(self, query: str, options: datafusion.SQLOptions) -> datafusion.DataFrame:
        """Plan a query whose views are known."""
        ENGINE.enter()
        context = self.context
        bounded = with_bounded_sizes(query) if options is _READING else query
        try:
            return context.sql_with_options(bounded, options)
        except Exception:
            if bounded != query:  # the engine names functions and types as they were written
                context.sql_with_options(query, options)
            raise

    @property
    def _rules(self) -> tuple[Rule, Rule]:
        """The rules that depend on what is connected, and on the query around."""
        is_part = current_context().is_part
        return lambda each: list_barriers(each, is_part=is_part), self._category_keys

    def _category_keys(self, statement: Statement) -> Iterator[Edit]:
        """Yield what to sort by where categoricals are shown: their categories."""
        if self.connections.categoricals == "string" or "order" not in statement.text.lower():
            return
        views = _parsed(_all_named_views(self._views, statement.text).values())
        tables = self._tables()
        read = {tables.find(each) for every in (statement, *views) for each in every.sources}
        axes = [(tables.schemas[name[0]], name[1]) for name in read if name is not None]
        yield from category_keys(statement, known_categories(axes), views)

    def _remember_view(self, query: str) -> None:
        """Note the query of a view that was created: it is planned again whenever it is used."""
        for name in [n for n in self._views if not self.connections.has_created(n)]:
            del self._views[name]
        view = _created_view(query)
        if view is None:
            return
        schema, title = (self._default, *view.parts)[-2:]
        name = (schema, title)
        if self.connections.has_created(name) and (view.replaces or name not in self._views):
            self._views.pop(name, None)
            self._views[name] = view.query
            if name in _all_named_views(self._views, view.query):
                del self._views[name]  # it is of the one that it replaced: as it was planned


def _parsed(queries: Iterable[str]) -> list[Statement]:
    """Return queries as trees, without those that are no SQL: the engine says what is wrong."""
    statements = []
    for each in queries:
        with suppress(UnparsedError):
            statements.append(parsed(each))
    return statements
