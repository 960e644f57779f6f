"""The order of categories: in ``ORDER BY stage``, and as the function ``category_order``.

The engine sorts dictionaries by their values, so what a query sorts by is replaced by the place of
each value among the categories of a column.  A column may be given by its name, by one that the
query gives to it, or by its position.  Where such a name is that of an expression, too, or DISTINCT
forbids another key, the values are sorted as strings, with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import datafusion
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.sql._axis_schema import AxisSchema
from daf_query.sql._corrections import given_names
from daf_query.sql._parameters import literal
from daf_query.syntax import (
    Edit,
    Node,
    Query,
    Statement,
    identifiers_of,
    kind_of,
    quoted_name,
    whole_number_of,
)
from daf_query.table import category_columns
from daf_storage import errors
from daf_storage.anndata import recorded_types

NAME: Final = "category_order"


def register_category_order(
    context: datafusion.SessionContext, schemas: Mapping[str, AxisSchema]
) -> None:
    """Make ``category_order('cell.stage', stage)`` a function of SQL.

    The engine sorts strings and dictionaries by their values: ORDER BY needs a number.
    """

    def category_order(names: pa.Array, values: pa.Array) -> pa.Array:
        if not len(names):
            return pa.array([], pa.int32())
        categories = _categories(schemas, str(names[0]))
        places = pc.index_in(values, value_set=categories)
        after = pa.scalar(len(categories), pa.int32())  # of values that are no category
        return pc.if_else(pc.and_(pc.is_null(places), pc.is_valid(values)), after, places)

    function = datafusion.udf(
        category_order, [pa.string(), pa.string()], pa.int32(), "stable", NAME
    )
    context.register_udf(function)


def _categories(schemas: Mapping[str, AxisSchema], name: str) -> pa.Array:
    """Return the categories of ``axis.column``, or of ``schema.axis.column``."""
    known: dict[str, pa.Array] = {}
    for schema in (each for each in schemas.values() if not each.is_collection):
        for axis in sorted(schema.axes_set()):
            for column, recorded in recorded_types(schema.only.daf, axis).items():
                if recorded.categories is not None:
                    known.setdefault(f"{axis}.{column}", recorded.categories)
                    known[f"{schema.name}.{axis}.{column}"] = recorded.categories
    if name not in known:
        listed = [each for each in known if each.count(".") == 1]
        has = errors.known_names(listed, none="none")
        raise errors.QueryError(
            f"{NAME}() knows no categories of {name!r}; there are those of {has}"
            f"{errors.nearest(name, listed)}"
        )
    return known[name]


_KEY: Final = "with_fill"
"""What only items of ORDER BY have."""


class AlphabeticalOrderWarning(errors.DafWarning):
    """A query sorts a categorical as strings, since its order is not known at this place."""


def category_keys(
    statement: Statement, categoricals: Mapping[str, str | None], views: Sequence[Statement] = ()
) -> Iterator[Edit]:
    """Yield what to sort by, so that categoricals are in the order of their categories.

    Parameters
    ----------
    categoricals
        What `category_order` calls the categories of each column; None if tables differ in them.
    views
        Those that it names; they may give names, too.

    Warns
    -----
    AlphabeticalOrderWarning
        Something that is sorted by has the name of a categorical, and may not be it.

    Examples
    --------
    >>> from daf_query.syntax import edited, parsed
    >>> query = "SELECT * FROM obs ORDER BY stage DESC"
    >>> print(edited(query, category_keys(parsed(query), {"stage": "obs.stage"})))
    SELECT * FROM obs ORDER BY category_order('obs.stage', "stage") DESC
    """
    known: dict[str, str | None] = dict(categoricals)
    for given in (each for every in (*views, statement) for each in given_names(every)):
        name = known.get(next(iter(given.columns), ""), "") if given.is_column else ""
        known[given.name] = name if known.get(given.name, name) == name else None
    owners = {id(item): query for query in statement.queries for item in _items(query)}
    calls = [node["Function"]["args"] for _, node in statement.nodes if kind_of(node) == "Function"]
    distinct = {
        id(item)
        for call in (args["List"] for args in calls if kind_of(args) == "List")
        for clause in call["clauses"]
        for item in clause.get("OrderBy", ())
        if call["duplicate_treatment"] == "Distinct"
    }
    for _, node in statement.nodes:
        if _KEY not in node:
            continue
        query = owners.get(id(node))
        parts, (start, stop) = _column(statement, node["expr"], query)
        name = parts[-1]["value"] if parts else ""
        if known.get(name, "") == "":
            continue
        written = ".".join(quoted_name(part["value"]) for part in parts)
        is_distinct = id(node) in distinct or (
            query is not None and any(scope.select["distinct"] for scope in query.scopes)
        )
        if is_distinct or known[name] is None:
            _warn(written)
        else:
            yield Edit(start, stop, f"{NAME}({literal(known[name])}, {written})")


def _column(
    statement: Statement, key: Node, query: Query | None
) -> tuple[list[Node], tuple[int, int]]:
    """Return the column of an item of ORDER BY, in parts, and where it is; or no parts."""
    parts, position = identifiers_of(key), whole_number_of(key)
    items = query.scopes[0].select["projection"] if query is not None and query.scopes else ()
    if position is not None and not any("Wildcard" in kind_of(item) for item in items[:position]):
        for item in items[position - 1 : position]:
            aliased = item.get("ExprWithAlias")
            parts = [aliased["alias"]] if aliased else identifiers_of(item["UnnamedExpr"])
    return parts or [], (statement.span(parts if position is None else key) if parts else (0, 0))


def _items(query: Query) -> list[Node]:
    """Return what a query is sorted by."""
    order: Any = query.node["order_by"]
    return list(order["kind"].get("Expressions") or ()) if order is not None else []


def _warn(column: str) -> None:
    warnings.warn(
        f"ORDER BY {column} sorts strings here, not categories: the query gives the name to "
        "something else, too, or says DISTINCT (write GROUP BY instead); "
        f"ORDER BY category_order('AXIS.COLUMN', {column}) sorts by categories anywhere",
        AlphabeticalOrderWarning,
        stacklevel=2,
    )


def known_categories(axes: Iterable[tuple[AxisSchema, str]]) -> dict[str, str | None]:
    """Return what `category_order` calls the categories of each categorical column of some axes.

    None for a column of several of the axes, each of which may have categories of its own.
    """
    owners: dict[str, list[str | None]] = {}
    for schema, axis in axes:
        fields = schema.dataset(axis).schema
        categorical = category_columns(fields)
        for column in fields.names:
            full_name = f"{schema.name}.{axis}.{column}"
            owners.setdefault(column, []).append(full_name if column in categorical else None)
    return {
        column: names[0] if len(names) == 1 else None
        for column, names in owners.items()
        if any(names)
    }
