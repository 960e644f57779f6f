"""Table functions: what stands in FROM and makes a table out of constants, as ``matrix(...)``.

What they do is what methods of a session do, which hands them to its engine: here is how they are
called.  DataFusion calls a table function while it plans a query, each time that it does so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeAlias, TypedDict, TypeVar

import pyarrow as pa

from daf_query.sql._connections import AxisSchema, Tables
from daf_query.sql._planning import (
    PLANNING,
    PlanningContext,
    datafusion,
    engine_table,
    planning,
    table_for_query,
)
from daf_query.syntax import list_items
from daf_query.table import ComputedDataset, TableDataset
from daf_storage import errors

_T = TypeVar("_T")

_GROUPED: Final = ("profile", "markers")
"""Those whose fourth argument is what the rows are grouped by."""


def _usage(call: str, said: str = "", predicates: str = "'age > 60', 'is_marker'") -> str:
    return f"{call}){said}, or with a predicate for each axis: {call}, {predicates})"


_BY: Final = ", where the last is what the rows are grouped by"

USAGES: Final[Mapping[str, str]] = {
    "matrix": _usage("matrix('cell', 'gene', 'X'"),
    "profile": _usage("profile('cell', 'gene', 'X', 'bulk_labels'", _BY),
    "markers": _usage("markers('cell', 'gene', 'X', 'bulk_labels'", _BY),
    "totals": _usage("totals('cell', 'gene', 'X'", predicates="NULL, 'is_mito'"),
}
"""How each table function is called."""


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
    function: str,
    make: TableFunction,
    tables: Tables,
    reference: Callable[[], Any],
    *arguments: Any,
) -> datafusion.catalog.Table:
    """Return the table that a function makes of the arguments that a query gives to it.

    Parameters
    ----------
    reference
        Returns the engine, as long as its session is there.
    """
    call, engine = _call(tables, function, arguments), reference()
    if engine is None:
        raise errors.QueryError("the session of this context is gone; keep it to plan queries")
    with errors.located(f"{function}()"):
        table = _beside_planning(lambda: make(engine, call))
    if isinstance(table, TableDataset):
        return table_for_query(tables.default, f"{function}()", table)
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
    for name, schema in schemas.items():
        if axis.startswith(f"{name}.") and axis[len(name) + 1 :] in schema.axes_set():
            return schema, axis[len(name) + 1 :]
    if tables.default in schemas:
        return schemas[tables.default], axis
    available = [f"{name}.{each}" for name, schema in schemas.items() for each in schema.axes_set()]
    having = [f"{name}.{axis}" for name in schemas if f"{name}.{axis}" in available]
    if having:
        raise errors.InvalidInputError(
            "several data sets are connected, so the first axis needs its data set's name: "
            f"{' or '.join(map(repr, having))}"
        )
    has = errors.choices(axis, available, none="no axes")
    raise errors.AxisNotFoundError(f"there is no axis {axis!r}; there are {has}")


def _beside_planning(work: Callable[[], _T]) -> _T:
    """Return what a function returns that plans and executes queries of its own.

    The engine cannot do that in the thread in which it is planning; and what is different for the
    tables of the query that is being planned is not so for those of another.
    """
    reports = PLANNING.get().reports

    def in_own_context() -> _T:
        with planning(PlanningContext(reports=reports)):
            return work()

    with ThreadPoolExecutor(max_workers=1) as executor:
        return executor.submit(in_own_context).result()


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
        listed += [text] if text in vectors else map(str.strip, list_items(text))
    if not all(listed):
        raise errors.QueryError(f"{keyword}= is empty; pass a vector, or an expression of SQL")
    return listed
