"""Table functions: what stands in FROM and makes a table out of constants, as ``matrix(...)``.

DataFusion calls a table function while it plans a query, each time that it does so.  The table is
made as the `PlanningContext` says, like those of the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakMethod

import datafusion
import numpy as np
import pyarrow as pa
from datafusion.catalog import Table

from daf_query.matrix import (
    ConcatenatedAxis,
    EntryAxis,
    Selection,
    aligned_axis,
    concatenated_of,
)
from daf_query.moments import (
    PROFILE_MAX_BYTES,
    STATISTICS,
    GroupValues,
    PreparedProfile,
    PreparedTotals,
    group_rows,
    marker_schema,
    welch_markers,
)
from daf_query.scan import INDEX, NAME
from daf_query.sql._axis_schema import AxisSchema, table_for_query
from daf_query.sql._planning import PlanningContext, computed_table, current_context, planning
from daf_query.syntax import (
    WrappedSql,
    list_items,
    quoted_name,
    unopened_bracket,
    unquoted_name,
    without_name,
)
from daf_query.table import DATASET, ComputedDataset, TableDataset
from daf_storage import errors
from daf_storage.anndata import recorded_types

_T = TypeVar("_T")

Plan: TypeAlias = Callable[[str], datafusion.DataFrame]
"""Plans a query; errors are in the words of the data sets."""

_ALL_ROWS: Final = 1 << 62

MATRIX: Final = "matrix"
PROFILE: Final = "profile"
MARKERS: Final = "markers"
TOTALS: Final = "totals"

USAGES: Final[Mapping[str, str]] = {
    MATRIX: "matrix('cell', 'gene', 'X'), or with a predicate for each axis: "
    "matrix('cell', 'gene', 'X', 'age > 60', 'is_marker')",
    PROFILE: "profile('cell', 'gene', 'X', 'bulk_labels'), where the last is what the rows are "
    "grouped by, or with a predicate for each axis: "
    "profile('cell', 'gene', 'X', 'bulk_labels', 'age > 60', 'is_marker')",
    MARKERS: "markers('cell', 'gene', 'X', 'bulk_labels'), where the last is what the rows are "
    "grouped by, or with a predicate for each axis: "
    "markers('cell', 'gene', 'X', 'bulk_labels', 'age > 60', 'is_marker')",
    TOTALS: "totals('cell', 'gene', 'X'), or with a predicate for each axis: "
    "totals('cell', 'gene', 'X', NULL, 'is_mito')",
}
"""How each table function is called."""


@dataclass(frozen=True, slots=True)
class _MatrixPlace:
    """Which part of which matrix."""

    axes: tuple[str, str]
    name: str
    rows: Selection | None
    """Only these; None for all."""
    columns: Selection | None


def register_table_functions(
    context: datafusion.SessionContext,
    schemas: Mapping[str, AxisSchema],
    default: str,
    plan: Plan,
) -> None:
    """Make the table functions known to a context.

    Parameters
    ----------
    default
        The schema of axes that are named without one.
    plan
        Plans the queries that predicates become; a method, which is not kept alive: its object has
        the context, and Python cannot see a cycle that goes through the engine.
    """
    method = WeakMethod(plan)

    def planned(query: str) -> datafusion.DataFrame:
        plan = method()
        if plan is None:
            raise errors.QueryError("the session of this context is gone; keep it to plan queries")
        return plan(query)

    functions = TableFunctions(schemas, default, planned)
    context.register_udtf(datafusion.udtf(functions.matrix, MATRIX))
    context.register_udtf(datafusion.udtf(functions.profile, PROFILE))
    context.register_udtf(datafusion.udtf(functions.markers, MARKERS))
    context.register_udtf(datafusion.udtf(functions.totals, TOTALS))


@dataclass(frozen=True, eq=False)
class TableFunctions:
    """The functions, over the data sets of an engine."""

    schemas: Mapping[str, AxisSchema]
    """What is connected."""
    default: str
    """The schema of axes that are named without one."""
    plan: Plan
    """Plans a query."""

    def matrix(self, *arguments: Any) -> Table:
        """Return the long form of a matrix."""
        schema, place, _ = self._place(MATRIX, arguments)
        matrix, rows, columns = (*place.axes, place.name), place.rows, place.columns
        return self.for_query(MATRIX, schema.matrix_table(*matrix, rows=rows, columns=columns))

    def profile(self, *arguments: Any) -> Table:
        """Return the moments of groups of rows; the rows are grouped now, the matrix read later."""
        prepared = self._prepared(PROFILE, arguments)
        return _computed(prepared.schema, lambda: prepared.compute(progress="never").to_table())

    def markers(self, *arguments: Any) -> Table:
        """Return how groups of rows differ from the rest, by Welch's t-test of logarithms."""
        prepared = self._prepared(MARKERS, arguments)
        groups = {name: values.type for name, values in prepared.groups.columns.items()}
        return _computed(
            marker_schema(groups, prepared.axes[1].axis),
            lambda: welch_markers(prepared.compute(progress="never"), is_log1p=True),
        )

    def totals(self, *arguments: Any) -> Table:
        """Return what each row has of the chosen columns."""
        schema, place, _ = self._place(TOTALS, arguments)
        prepared = PreparedTotals(*_chosen(schema, place, TOTALS, "totals are of"))
        return _computed(prepared.schema, prepared.compute)

    def _prepared(self, function: str, arguments: Sequence[Any]) -> PreparedProfile:
        """Choose the rows and columns of a profile, and group the rows."""
        schema, place, by = self._place(function, arguments)
        axis = place.axes[0]

        def evaluate(expression: str) -> pa.Table:
            """Return the position of each entry of the axis, and the value of an expression."""
            start, end = f"SELECT {_key_of(schema)}, (\n", f"\n) AS value FROM {_sql(schema, axis)}"
            where = f"by={expression.strip()!r}, on axis {axis!r}"
            values = self._rows(start, expression, end, "expression", where)
            return in_all(axes[0], values) if schema.is_collection else values

        axes, name, rows, columns = _chosen(schema, place, function, "a profile groups")
        found = group_values(
            grouped_axis(schema, axis), place.axes[1], () if by is None else by, evaluate
        )
        prepared = PreparedProfile(axes, name, group_rows(found, rows.positions), columns)
        prepared.check_size(PROFILE_MAX_BYTES)
        return prepared

    def _place(
        self, function: str, arguments: Sequence[Any]
    ) -> tuple[AxisSchema, _MatrixPlace, str | None]:
        """Return what a function is asked for, and what the rows of a profile are grouped by."""
        count = 4 if function in (PROFILE, MARKERS) else 3
        given = constants_of(function, arguments, (count, count + 2))
        first, second, name = (each or "" for each in given[:3])
        if None in given[:3]:
            raise _wrong_use(function, "its first three arguments are names, not NULL")
        schema, axis = self.located(first)
        axes = (axis, second)
        schema.matrix_table(*axes, name)  # before predicates: it knows the axes, and the matrix
        rows, columns = (
            self.selected(schema, axis, predicate, what)
            for axis, predicate, what in zip(
                axes, [*given[count:], None, None], ("rows", "columns"), strict=False
            )
        )
        by = given[3] if count > 3 else None
        return schema, _MatrixPlace(axes, name, rows, columns), by

    def _rows(self, start: str, part: str, end: str, kind: str, where: str) -> pa.Table:
        """Return the rows of a query around SQL that someone wrote.

        Not an injection: the query is read-only, one statement, and the part SQL by design.
        """
        bracket = unopened_bracket(part)
        if bracket is not None:
            raise errors.QueryError(
                f"{where}: no bracket is open that the ) at character {bracket + 1} of {part!r} "
                "could close"
            )
        wrapped = WrappedSql.between(start, part, end)
        try:
            return beside_planning(lambda: computed_table(self.plan(wrapped.query)))
        except errors.DafError as error:
            shown = wrapped.error(error, kind)
            raise errors.with_message(shown, f"{where}: {shown}") from None

    def for_query(self, function: str, table: TableDataset) -> Table:
        """Return a table of a function as the query that is planned needs it."""
        return table_for_query(self.default, f"{function}()", table)

    def located(self, axis: str) -> tuple[AxisSchema, str]:
        """Return the schema and the axis of ``axis`` or ``schema.axis``.

        Raises
        ------
        InvalidInputError
            Several data sets are connected, and the axis is named without one.
        """
        for name, schema in self.schemas.items():
            if axis.startswith(f"{name}.") and axis[len(name) + 1 :] in schema.axes_set():
                return schema, axis[len(name) + 1 :]
        if self.default in self.schemas:
            return self.schemas[self.default], axis
        having = [
            f"{name}.{axis}" for name, each in self.schemas.items() if axis in each.axes_set()
        ]
        if having:
            written = " or ".join(repr(name) for name in having)
            raise errors.InvalidInputError(
                f"several data sets are connected, so the first axis needs its data set's name: "
                f"{written}"
            )
        known = [f"{name}.{each}" for name, s in self.schemas.items() for each in s.axes_set()]
        has = errors.known_names(known, none="no axes")
        raise errors.AxisNotFoundError(
            f"there is no axis {axis!r}; there are {has}{errors.nearest(axis, known)}"
        )

    def selected(
        self, schema: AxisSchema, axis: str, predicate: str | None, what: str
    ) -> Selection | None:
        """Return the entries of an axis for which a predicate is true; ``None`` for all."""
        if predicate is None:
            return None
        if not predicate.strip():
            raise errors.QueryError(f"the predicate of the {what} is empty; pass NULL to take all")
        start = f"SELECT {_key_of(schema)} FROM {_sql(schema, axis)} WHERE (\n"  # noqa: S608 - as `_rows`
        where = f"the predicate of the {what}, on axis {axis!r}"
        rows = self._rows(start, predicate, "\n)", "predicate", where)
        positions = rows.column(rows.num_columns - 1).to_numpy().astype(np.int64)
        if schema.is_collection:
            datasets = rows.column(0).combine_chunks()
            positions = schema.concatenated(axis).joined(datasets, positions)
        return Selection.of(np.sort(positions), schema.axis_length(axis))


def _key_of(schema: AxisSchema) -> str:
    """Return the columns that say which row of the table of an axis it is."""
    index = quoted_name(INDEX)
    return f"{quoted_name(DATASET)}, {index}" if schema.is_collection else index


def _sql(schema: AxisSchema, axis: str) -> str:
    return f"{quoted_name(schema.name)}.{quoted_name(axis)}"


def constants_of(
    function: str, arguments: Sequence[Any], counts: tuple[int, int]
) -> list[str | None]:
    """Return the arguments of a table function, each a string or NULL.

    Parameters
    ----------
    counts
        The fewest and the most arguments that it takes.

    Raises
    ------
    QueryError
        They are too few or too many, or one is not a constant, or of another type.
    """
    least, most = counts
    if not least <= len(arguments) <= most:
        raise _wrong_use(function, f"it takes {least} to {most} arguments, not {len(arguments)}")
    return [_constant(function, argument) for argument in arguments]


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


def beside_planning(work: Callable[[], _T]) -> _T:
    """Return what a function returns that plans and executes queries of its own.

    The engine cannot do that in the thread in which it is planning; and what is different for the
    tables of the query that is being planned is not so for those of another.
    """
    reports = current_context().reports

    def in_own_context() -> _T:
        with planning(PlanningContext(reports=reports)):
            return work()

    with ThreadPoolExecutor(max_workers=1) as executor:
        return executor.submit(in_own_context).result()


def _chosen(
    schema: AxisSchema, place: _MatrixPlace, function: str, what: str
) -> tuple[tuple[ConcatenatedAxis, EntryAxis], str, Selection, Selection]:
    """Return the axes of a matrix, its name, and what is chosen of both.

    Raises
    ------
    InvalidInputError
        In a collection, the rows are of the aligned axis.
    """
    axes, across = place.axes, schema.concatenated(place.axes[1])
    along, columns = schema.concatenated(axes[0]), place.columns
    rows = Selection.all(along.length) if place.rows is None else place.rows
    if not schema.is_collection:
        every = Selection.all(across.length)
        return (along, across), place.name, rows, every if columns is None else columns
    having = schema.matrix_readers(axes, place.name)
    first = concatenated_of(having.values(), axes, None, location=schema.location)
    if first != axes[0]:
        raise errors.InvalidInputError(
            f"{schema.location}: {what} the entries of all data sets, which are those of axis "
            f"{first!r}; write {function}('{first}', '{axes[0]}', '{place.name}', ...)"
        )
    aligned = aligned_axis(having, axes[1], "outer", location=schema.location)
    positions = np.arange(aligned.length)
    if columns is not None:
        positions = np.unique(aligned.among(across, columns.positions))
    return (along, aligned), place.name, rows, Selection(positions, is_all=False)


def _computed(schema: pa.Schema, compute: Callable[[], pa.Table]) -> Table:
    """Return a table whose rows are computed when it is scanned; the engine filters them."""
    dataset = ComputedDataset(schema, compute)
    # No filter gets past a limit: the engine evaluates it.
    return Table(datafusion.SessionContext().read_table(Table(dataset)).limit(_ALL_ROWS))


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


@dataclass(frozen=True, slots=True)
class GroupedAxis:
    """An axis whose entries are grouped: of one data set, or of several as one."""

    axis: str
    length: int
    vectors: frozenset[str]
    """The names of its columns."""
    categories: Callable[[str], pa.Array | None]
    """Returns the categories of a vector in their order, if an import noted them."""


def grouped_axis(tables: AxisSchema, axis: str) -> GroupedAxis:
    """Return an axis; the categories of a collection are those of all that noted some."""
    members = [daf for daf in tables.readers().values() if daf.has_axis(axis)]

    def categories(vector: str) -> pa.Array | None:
        listed: dict[str, None] = {}
        for daf in members:
            recorded = recorded_types(daf, axis, (vector,)).get(vector)
            if recorded is not None and recorded.categories is not None:
                listed.update(dict.fromkeys(recorded.categories.to_pylist()))
        return pa.array(list(listed), pa.string()) if listed else None

    keys = {NAME, INDEX, *([DATASET] if tables.is_collection else [])}
    vectors = keys.union(*(daf.vectors_set(axis) for daf in members))
    return GroupedAxis(axis, tables.axis_length(axis), frozenset(vectors), categories)


def in_all(concatenated: ConcatenatedAxis, table: pa.Table) -> pa.Table:
    """Return positions that count through in place of a data set and a position within it.

    The table has these as its first two columns, and a value.
    """
    datasets, index = (table.column(number).combine_chunks() for number in (0, 1))
    positions = concatenated.joined(datasets, index.to_numpy(zero_copy_only=False).astype(np.int64))
    return pa.table([pa.array(positions), table.column(2)], names=[INDEX, table.column_names[2]])


def group_values(
    source: GroupedAxis, columns_axis: str, by: By, evaluate: Callable[[str], pa.Table]
) -> list[GroupValues]:
    """Evaluate what the rows of a profile are grouped by.

    Parameters
    ----------
    source
        The axis of the rows.
    evaluate
        Returns ``index`` and the value of an expression for the entries of the axis, in any order.

    Raises
    ------
    QueryError, VectorNotFoundError
        An expression is wrong.
    InvalidInputError
        Two columns would have one name.
    """
    written: list[str] = []
    for text in written_items(by):
        written += [text] if text in source.vectors else list_items(text)
    groups: dict[str, GroupValues] = {}
    for text in written:
        expression, called = without_name(text)
        vector = expression.strip()
        vector = vector if vector in source.vectors else unquoted_name(vector)
        is_vector = vector in source.vectors
        name = called or (vector if is_vector else text.strip())
        if not name:
            raise errors.QueryError("by= is empty; pass a vector, or an expression of SQL")
        if name in groups or name in (columns_axis, *STATISTICS):
            what = "another group column" if name in groups else "another column"
            raise errors.InvalidInputError(
                f"a group column and {what} of the profile would both be called {name!r}; rename "
                f"the group column: by={f'{expression.strip()} AS group_1'!r}"
            )
        values = _values_of(source, quoted_name(vector) if is_vector else expression, evaluate)
        categories = source.categories(vector) if is_vector else None
        groups[name] = GroupValues(name, values, categories)
    return list(groups.values())


def _values_of(
    source: GroupedAxis, expression: str, evaluate: Callable[[str], pa.Table]
) -> pa.Array:
    """Return the value of each entry of the axis, in its order."""
    try:
        table = evaluate(expression)
    except errors.QueryError as error:
        if "GROUP BY" not in str(error):
            raise
        raise errors.QueryError(
            f"by={expression.strip()!r} is an aggregate, which has one value for all rows; group "
            "by what each entry has, such as max(age) OVER (PARTITION BY donor)"
        ) from error
    index = table.column(0).to_numpy()
    order = np.argsort(index)
    if not np.array_equal(index[order], np.arange(source.length)):
        raise errors.QueryError(
            f"by={expression.strip()!r} yields {index.size:,} values for {source.length:,} entries "
            f"of axis {source.axis!r}; a group is one value for each"
        )
    values = table.column(1)
    if pa.types.is_dictionary(values.type):
        values = values.unify_dictionaries()
    return values.combine_chunks().take(pa.array(order))
