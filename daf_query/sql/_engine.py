"""The planner of queries: one DataFusion context over what is connected, and its table functions.

A table function stands in FROM and makes a table out of constants, as ``matrix(...)``.  What it
does is what a method of a session does, which hands it to its engine: here is how it is called.
DataFusion calls it while it plans a query, each time that it does so.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, Literal, TypeAlias, TypedDict
from weakref import ref

import pyarrow as pa

from daf_query._runs import attended, without_panics
from daf_query.sql._conditions import named_columns, placed_tables, restrictions_of, small_tables
from daf_query.sql._connections import AxisSchema, Connections, Tables
from daf_query.sql._messages import USAGES, translated
from daf_query.sql._names import FailedQuery, Rule, with_entries
from daf_query.sql._planning import (
    CATALOG,
    ENGINE,
    PLANNING,
    MatrixEntries,
    PlanningContext,
    TableName,
    computed_table,
    copy_functions,
    datafusion,
    engine_table,
    new_context,
    node_type,
    planning,
    table_for_query,
)
from daf_query.sql._rules import (
    category_keys,
    computed_names,
    corrections,
    limit_barriers,
    list_barriers,
    recorded_categories,
    register_category_order,
    register_size_checks,
    signed_ranks,
    with_bounded_sizes,
)
from daf_query.syntax import (
    Edit,
    Scope,
    Statement,
    WrappedSql,
    identifiers_of,
    list_items,
    one_statement,
    parsed,
    quoted_name,
    string_of,
    values_of,
)
from daf_query.table import ComputedDataset, TableDataset, table_format, user_table
from daf_storage import errors
from daf_storage.base import ForkLock

Allow: TypeAlias = Literal["read", "write"]
"""What queries may do."""

_GROUPED: Final = ("profile", "markers")
"""Those whose fourth argument is what the rows are grouped by."""


class TableCall(TypedDict):
    """What a table function is asked for: which part of which matrix."""

    tables: AxisSchema
    axes: tuple[str, str]
    name: str
    rows: str | None
    """A predicate; None for all."""
    columns: str | None
    by: By
    """What the rows are grouped by; empty for one group."""


TableFunction: TypeAlias = Callable[[Any, TableCall], TableDataset | ComputedDataset]
"""Returns the table of a call, over what an engine has."""


def table_of_call(
    reference: Callable[[], Engine | None], function: str, *arguments: Any
) -> datafusion.catalog.Table:
    """Return the table that a function makes of the arguments that a query gives to it.

    What it plans and executes are queries of its own.  The engine cannot do that in the thread in
    which it is planning; and what is different for the tables of the query that is being planned is
    not so for those of another.

    Parameters
    ----------
    reference
        Returns the engine, as long as its session is there.
    """
    engine, reports = reference(), PLANNING.get().reports
    if engine is None:
        raise errors.QueryError("the session of this context is gone; keep it to plan queries")
    call, make = _call(engine.tables, function, arguments), engine.functions[function]

    def in_own_context() -> TableDataset | ComputedDataset:
        with planning(PlanningContext(reports=reports)):
            return make(engine, call)

    with errors.located(f"{function}()"), ThreadPoolExecutor(max_workers=1) as executor:
        table = executor.submit(in_own_context).result()
    if isinstance(table, TableDataset):
        return table_for_query(engine.tables.default, f"{function}()", table)
    return datafusion.catalog.Table(engine_table(table))


def _call(tables: Tables, function: str, arguments: Sequence[Any]) -> TableCall:
    """Return what a function is asked for.

    Raises
    ------
    QueryError
        The arguments are too few or too many, or one is not a constant, or of another type.
    """
    least = 3 + (function in _GROUPED)
    if not least <= len(arguments) <= least + 2:
        problem = f"it takes {least} to {least + 2} arguments, not {len(arguments)}"
        raise _wrong_use(function, problem)
    first, second, name, *given = (_constant(function, argument) for argument in arguments)
    if first is None or second is None or name is None:
        raise _wrong_use(function, "its first three arguments are names, not NULL")
    schema, axis = _located(tables, first)
    by, rows, columns = [*[None][: function not in _GROUPED], *given, None, None][:3]
    return {
        "tables": schema,
        "axes": (axis, second),
        "name": name,
        "rows": rows,
        "columns": columns,
        "by": by or (),
    }


def _constant(function: str, argument: Any) -> str | None:
    if argument.variant_name() != "Literal":
        written = str(argument).removeprefix("Expr(").removesuffix(")")
        raise _wrong_use(function, f"its arguments are constants in single quotes, not {written}")
    value = argument.python_value()
    value = value.as_py() if isinstance(value, pa.Scalar) else value
    if value is not None and not isinstance(value, str):
        raise _wrong_use(function, f"its arguments are strings, not {value!r}")
    return value


def _wrong_use(function: str, problem: str) -> errors.QueryError:
    return errors.QueryError(f"{function}(): {problem}; write {USAGES[function]}")


def _located(tables: Tables, axis: str) -> tuple[AxisSchema, str]:
    """Return the schema and the axis of ``axis`` or ``schema.axis``.

    Raises
    ------
    InvalidInputError
        Several data sets are connected, and the axis is named without one.
    """
    schemas = tables.schemas
    axes = {
        f"{name}.{each}": (schema, each)
        for name, schema in schemas.items()
        for each in schema.axes_set()
    }
    if axis in axes or tables.default in schemas:
        return axes[axis] if axis in axes else (schemas[tables.default], axis)
    having = [each for name in schemas if (each := f"{name}.{axis}") in axes]
    if having:
        raise errors.InvalidInputError(
            "several data sets are connected, so the first axis needs its data set's name: "
            f"{' or '.join(map(repr, having))}"
        )
    has = errors.choices(axis, axes, none="no axes")
    raise errors.AxisNotFoundError(f"there is no axis {axis!r}; there are {has}")


By: TypeAlias = str | Sequence[str]
"""A vector, an expression of SQL, or several; each may end in ``AS name``."""


def written_items(by: object, keyword: str = "by") -> list[str]:
    """Return what is passed as ``by=``, or by another keyword, as a list of SQL.

    Raises
    ------
    InvalidInputError
        It is something else.
    """
    items: object = [by] if isinstance(by, str) else by
    if not isinstance(items, Sequence) or not all(isinstance(item, str) for item in items):
        raise errors.InvalidInputError(
            f"{keyword}= is the name of a vector, an expression of SQL or a list of such, not "
            f"{type(by).__name__}; values of your own become a vector with set_vector()"
        )
    return list(items)


def listed_expressions(by: object, vectors: Collection[str], keyword: str = "by") -> list[str]:
    """Return vectors and expressions, of which a string may have several, with commas between them.

    Raises
    ------
    QueryError
        One is empty.
    """
    listed: list[str] = []
    for text in written_items(by, keyword):
        listed += [text] if text in vectors else list_items(text)
    if not all(listed):
        raise errors.QueryError(f"{keyword}= is empty; pass a vector, or an expression of SQL")
    return listed


def _created_view(text: str) -> tuple[tuple[str, ...], str] | None:
    """Return the name and the query of a view that a statement creates.

    >>> _created_view("CREATE VIEW old AS (SELECT name FROM cell);")
    (('old',), '(SELECT name FROM cell)')
    >>> _created_view("SELECT name FROM cell") is None
    True
    """
    for statement in _parsed([text]):
        view = statement.tree[0].get("CreateView") if len(statement.tree) == 1 else None
        if view and not (view["columns"] or view["materialized"] or view["temporary"]):
            return values_of(view["name"]), one_statement(text)[statement.start_of(view["query"]) :]
    return None


def _named_views(views: Mapping[TableName, str], query: str) -> dict[TableName, str]:
    """Return the views that a query names, each behind those that its own query names.

    >>> views = {("db", "older"): "SELECT * FROM db.old", ("db", "old"): "SELECT * FROM cell"}
    >>> [name for _, name in _named_views(views, "SELECT * FROM older")]
    ['old', 'older']
    """
    found, seen = dict[TableName, str](), set[TableName]()

    def add(query: str) -> None:
        sources = (source for statement in _parsed([query]) for source in statement.sources)
        tables = {source.parts[-2:] for source in sources}
        for name, sql in views.items():
            if name not in seen and not tables.isdisjoint((name, name[1:])):
                seen.add(name)
                add(sql)
                found[name] = sql

    if views:
        add(query)
    return found


@dataclass(eq=False, repr=False)
class Engine:
    """A DataFusion context over what is connected, and how queries are planned."""

    connections: Connections
    """What queries can name."""
    functions: Mapping[str, TableFunction]
    """The table functions that queries can call, by name."""
    tables: Tables
    """The axes and views that queries can name."""
    memory_bytes: int | None = None
    """How much memory sorts, joins and groups may take; None is no limit."""
    origin: Engine | None = None
    """The engine whose tables and views a service answers queries over."""
    _context: datafusion.SessionContext | None = field(default=None, init=False)
    _lock: ForkLock = field(default_factory=ForkLock, init=False)

    @property
    def context(self) -> datafusion.SessionContext:
        """The DataFusion context; made when it is first asked for, which most slices never do."""
        with self._lock:
            if self._context is None:
                self._context = self._new_context()
            registered = None if self.origin is None else self.origin._context  # noqa: SLF001 - as this one
            if registered is not None:
                copy_functions(registered, self._context)
            return self._context

    def _new_context(self) -> datafusion.SessionContext:
        context = new_context(self.tables.default, memory_bytes=self.memory_bytes)
        connections = self.connections
        # It asks a catalog for both each time, so that what is added shows at once.
        catalog: Any = SimpleNamespace(
            schema_names=lambda: set(connections.all_schemas),
            schema=lambda name: connections.all_schemas.get(name),  # noqa: PLW0108 - they change
        )
        context.register_catalog_provider(CATALOG, catalog)
        register_size_checks(context)
        register_category_order(context, connections.schemas)
        for name in self.functions:
            # A reference: Python cannot see a cycle that goes through DataFusion.
            context.register_udtf(datafusion.udtf(partial(table_of_call, ref(self), name), name))
        return context

    def served(self, memory_bytes: int | None) -> Engine:
        """Return an engine over the same tables and views for a service: it reads no other files.

        Parameters
        ----------
        memory_bytes
            How much sorts, joins and groups may take there, of all queries together.
        """
        return replace(self, memory_bytes=memory_bytes, origin=self.origin or self)

    def __getstate__(self) -> Any:
        """Pickle what is connected, and the views; not the tables that queries created."""
        connections = self.connections
        created = [
            ".".join(name) for name in connections.created() if name not in self.tables.views
        ]
        if created:
            raise errors.InvalidInputError(
                f"a session with tables that queries created ({', '.join(created)}) cannot be "
                "pickled, since they are in memory; save their rows to files, or drop them"
            )
        return connections, self.functions, self.tables.default, self._views()

    def __setstate__(self, state: Any) -> None:
        """Connect the same again, and create the views."""
        connections, functions, default, views = state
        Engine.__init__(self, connections, functions, Tables(connections.schemas, default))
        ENGINE.note_start()
        for (schema, name), query in views.items():
            view = f"{quoted_name(schema)}.{quoted_name(name)}"
            self.plan(f"CREATE OR REPLACE VIEW {view} AS {query}", allow="write")

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
        except errors.DafWarning:  # where warnings are errors
            raise
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
        return translated(error, FailedQuery(query, self.tables, self.connections))

    def plan_raw(
        self, query: str, *, allow: Allow = "read", once: tuple[str, ...] = ()
    ) -> datafusion.DataFrame:
        """Plan a query; errors are the engine's own."""
        views = _named_views(self._views(), query)
        statements = _parsed([query, *views.values()])  # kept, so that a long query is parsed once
        are_views = allow == "read" and not _needs_strings(query, statements)
        may_need_all = allow == "write" or self.tables.views
        context = replace(
            PLANNING.get(),
            strings=pa.string_view() if are_views else pa.string(),
            found={},
            wide_columns=computed_names(statements),
            named_columns=None if may_need_all else named_columns(parsed(query)),
        )
        with planning(context.replacing(self._files(statements))):
            frame = self._planned(query, views, allow)
        if allow == "write":
            self._remember_view(query)
        elif statements and statements[0].text == query:
            for said, kind in hints(statements[0], self._has_column):
                errors.warn(said, kind, once_for=self.connections)
        return with_unique_columns(frame, once=once)

    def _has_column(self, scope: Scope, name: str) -> bool:
        """Return whether a table that a FROM names has a column."""
        tables = map(self.tables.named, scope.sources)
        return any(name in self.connections.columns(table) for table in tables)

    def _files(self, statements: Sequence[Statement]) -> dict[TableName, datafusion.DataFrame]:
        """Return the tables of the files that FROM names, by their suffixes.

        Raises
        ------
        QueryError
            The queries are those of a service.
        """
        files: dict[TableName, datafusion.DataFrame] = {}
        schema = self.connections.schemas.get(self.tables.default, self.connections.public)
        for source in (each for statement in statements for each in statement.sources):
            path = "".join(source.parts) if len(source.parts) == 1 else ""
            if "." not in path or table_format(path) is None or schema.table_exist(path):
                continue
            if self.origin is not None:
                raise errors.QueryError(
                    f"FROM names the file {path!r}, and a service reads no files but its data "
                    "sets; start it over a session in which the file is a table"
                )
            files[self.tables.default, path] = engine_table(user_table(path).rows)
        return files

    def _planned(
        self, query: str, views: Mapping[TableName, str], allow: Allow
    ) -> datafusion.DataFrame:
        """Plan a query with the views that it names as they are now; each of them once."""
        subqueries = {name: f"SELECT * FROM ({sql}\n)" for name, sql in views.items()}  # noqa: S608 - of the session
        written = {name: self._rewriting(sql, views) for name, sql in subqueries.items()}
        own = self._rewriting(query, views, is_part=False)
        context = PLANNING.get()
        if allow == "read":
            placed = placed_tables([*written.values(), own], self.connections, self.tables)
            context = replace(context, restrictions=restrictions_of(placed))
            context = context.replacing(small_tables(placed, self.connections))
        for name, (sql, columns) in written.items():
            with planning(replace(context, matrix_columns=columns)):
                frame = self._sql(sql, "read")
            context = context.replacing({name: with_unique_columns(frame)})
        with planning(replace(context, matrix_columns=own[1])):
            return self._sql(own[0], allow)

    def _rewriting(
        self, query: str, views: Mapping[TableName, str], *, is_part: bool = True
    ) -> tuple[str, MatrixEntries]:
        """Return how a query, or a view that it names, is planned; and columns that tables get.

        Parameters
        ----------
        is_part
            Whether conditions of other queries may meet those of this one: a view is among them.
        """
        rules: tuple[Rule, ...] = (
            signed_ranks,
            corrections,
            partial(list_barriers, is_part=is_part),
            partial(self._category_keys, views=views),
            limit_barriers,  # the last: what it adds stands behind all of a query
        )
        rewritten, columns = with_entries(query, self.tables, rules)
        for schema, table in columns:
            self.connections.schemas[schema].find(table)  # where it is broken, it says how
        return rewritten, columns

    def _sql(self, query: str, allow: Allow) -> datafusion.DataFrame:
        """Plan a query whose views are known."""
        ENGINE.enter()
        context, may_write = self.context, allow == "write"
        options = datafusion.SQLOptions().with_allow_ddl(allow=may_write)
        options = options.with_allow_dml(allow=may_write).with_allow_statements(allow=may_write)
        bounded = query if may_write else with_bounded_sizes(query)
        return without_panics(lambda: context.sql_with_options(bounded, options))

    def _category_keys(
        self, statement: Statement, views: Mapping[TableName, str]
    ) -> Iterator[Edit]:
        """Yield what to sort by where categoricals are shown: their categories."""
        if self.connections.categoricals == "string" or "order" not in statement.text.lower():
            return
        others, tables = _parsed(views.values()), self.tables
        read = {tables.find(each) for every in (statement, *others) for each in every.sources}
        axes = recorded_categories(axis for axis in read if axis is not None)
        yield from category_keys(statement, axes, others)

    def _views(self) -> dict[TableName, str]:
        """Return the queries of the views that there are: some were dropped or unregistered."""
        created = self.connections.created() if self.tables.views else ()
        for name in [each for each in self.tables.views if each not in created]:
            self.tables.views.pop(name, None)
        return dict(self.tables.views)

    def _remember_view(self, query: str) -> None:
        """Note the query of a view that was created: it is planned again whenever it is used."""
        created = _created_view(query)
        if created is None:
            return
        views, (parts, text) = self.tables.views, created
        schema, title = (self.tables.default, *parts)[-2:]
        views.pop((schema, title), None)
        views[schema, title] = text
        if (schema, title) in _named_views(self._views(), text):
            del views[schema, title]  # it is of the one that it replaced: as it was planned


def _needs_strings(query: str, statements: Iterable[Statement]) -> bool:
    """Return whether a query says of which types columns are, which are those of results.

    Or LIKE has a pattern that is no constant: of categoricals the engine takes no view for one.
    """
    nodes = [each for one in statements for _, each in one.nodes]
    if any(string_of(each["pattern"]) is None for each in nodes if "pattern" in each):
        return True
    is_described = any("ExplainTable" in each for one in statements for each in one.tree)
    return is_described or "arrow_typeof" in query.lower()


def _parsed(queries: Iterable[str]) -> list[Statement]:
    """Return queries as trees, without those that are no SQL: the engine says what is wrong."""
    return [statement for each in queries if (statement := parsed(each)) is not None]


_PASSED_THROUGH: Final = ("Limit", "Sort", "Filter", "Distinct")
"""Plan nodes that have the columns of what is below them."""


class DuplicateColumnsWarning(errors.DafWarning):
    """A query yields several columns of one name, so some were renamed."""


def unique_names(names: Sequence[str]) -> list[str]:
    """Return names of which each occurs once: later ones get a number that is free.

    >>> unique_names(["name", "name_1", "name", "index", "name"])
    ['name', 'name_1', 'name_2', 'index', 'name_3']
    """
    taken, unique = set(names), dict[str, None]()
    for name in names:
        numbered = (f"{name}_{number}" for number in itertools.count(1))
        free = (each for each in numbered if each not in unique and each not in taken)
        unique[next(free) if name in unique else name] = None
    return list(unique)


def with_unique_columns(
    frame: datafusion.DataFrame, *, once: Collection[str] = ()
) -> datafusion.DataFrame:
    """Return a frame of which each column has a name of its own.

    Parameters
    ----------
    once
        Names that decide what the result means, and must not occur twice.

    Raises
    ------
    QueryError
        A name of ``once`` occurs twice, or the columns cannot be distinguished.

    Warns
    -----
    DuplicateColumnsWarning
        Some were renamed.
    """
    names = list(frame.schema().names)
    if len(set(names)) == len(names):
        return frame
    selected = _columns_of(frame.logical_plan())
    is_known = len(selected) == len(names)
    columns = [
        datafusion.col(quoted_name(name)) if column is None else datafusion.Expr(column)
        for column, name in itertools.zip_longest(selected if is_known else (), names)
    ]
    shown = [each.schema_name() for each in columns]
    twice = [name for name, count in Counter(names).items() if count > 1]
    for name in [name for name in twice if name in once or not is_known][:1]:
        having = [each for each, other in zip(shown, names, strict=True) if other == name]
        raise errors.QueryError(
            f"the query yields more than one column named {name!r} ({', '.join(having)}); choose "
            "one, or name them with AS"
        )
    unique = unique_names(names)
    both = zip(shown, names, unique, strict=True)
    renamed = [f"{each} is {new!r}" for each, name, new in both if name != new]
    errors.warn(
        f"the query yields more than one column named {', '.join(map(repr, twice))}: "
        f"{', '.join(renamed)}; name them with AS",
        DuplicateColumnsWarning,
    )
    return frame.select(*(column.alias(new) for column, new in zip(columns, unique, strict=True)))


def _columns_of(plan: Any) -> list[Any]:
    """Return the columns of a plan, None for those that are computed; nothing if unknown."""
    while node_type(plan) in _PASSED_THROUGH:
        plan = plan.inputs()[0]
    expressions = plan.to_variant().projections() if node_type(plan) == "Projection" else ()
    return [each if each.variant_name() == "Column" else None for each in expressions]


class NeverNullWarning(errors.DafWarning):
    """A query compares with NULL by ``=`` or ``<>``, which is true for no row."""


class QuotedColumnWarning(errors.DafWarning):
    """A query compares strings, or sorts by one, that is the name of a column in single quotes."""


_COMPARING: Final = {"list", "pattern", "low", "options"}
"""What nodes have beside what they compare, or sort by."""


def hints(
    statement: Statement, has_column: Callable[[Scope, str], bool]
) -> Iterator[tuple[str, type[errors.DafWarning]]]:
    """Yield warnings of what a query says and hardly means, each with its class."""
    for scope, node in statement.nodes:
        operands = [node[key] for key in ("left", "right", "expr") if key in node]
        is_equation = node.get("op") in ("Eq", "NotEq")
        for side, other in itertools.permutations(operands) if is_equation else ():
            if other.get("Value", {}).get("value") == "Null" and identifiers_of(side):
                written, negation = statement.written(side), " NOT" * (node["op"] == "NotEq")
                said = (
                    f"{written} is compared with NULL, which equals nothing, and is unequal to "
                    f"nothing; write {written} IS{negation} NULL"
                )
                yield said, NeverNullWarning
        names = [string_of(each) for each in operands]
        is_compared = is_equation or not _COMPARING.isdisjoint(node)
        for name in names if is_compared and None not in names else ():
            if scope and name and has_column(scope, name):
                yield f"'{name}' is text; the column is {quoted_name(name)}", QuotedColumnWarning
