"""The categorical columns that a query may read, for its ORDER BY."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from daf_query.sql._axis_schema import AxisSchema
from daf_query.sql._created_views import is_named
from daf_query.sql._residual_filters import TableName
from daf_query.table import category_columns


def queries_of_named(views: Mapping[TableName, str], query: str) -> list[str]:
    """Return the queries of the views that a query names, itself or by another of these views.

    Parameters
    ----------
    views
        The query of each, in the order in which they were created: a view may name others, but
        none that came after it.

    Examples
    --------
    >>> views = {("db", "old"): "SELECT * FROM cell", ("db", "older"): "SELECT * FROM old"}
    >>> queries_of_named(views, "SELECT * FROM older")
    ['SELECT * FROM old', 'SELECT * FROM cell']
    """
    queries: list[str] = []
    for (_, name), view_query in reversed(list(views.items())):
        if any(is_named(name, each) for each in (query, *queries)):
            queries.append(view_query)
    return queries


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
