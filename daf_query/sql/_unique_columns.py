"""A name of its own for each column of a result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final

import datafusion

from daf_query._runs import warn_caller
from daf_query.sql._planning import node_type
from daf_query.syntax import quoted_name
from daf_storage import errors

_PASSED_THROUGH: Final = ("Limit", "Sort", "Filter", "Distinct")
"""Plan nodes that have the columns of what is below them."""


class DuplicateColumnsWarning(errors.DafWarning):
    """A query yields several columns of one name, so some were renamed."""


def unique_names(names: Sequence[str]) -> list[str]:
    """Return names of which each occurs once: later ones get a number that is free.

    >>> unique_names(["name", "name_1", "name", "index", "name"])
    ['name', 'name_1', 'name_2', 'index', 'name_3']
    """
    taken = set(names)
    seen: set[str] = set()
    numbers: Counter[str] = Counter()
    unique = []
    for name in names:
        candidate = name
        while candidate in seen or (candidate != name and candidate in taken):
            numbers[name] += 1
            candidate = f"{name}_{numbers[name]}"
        seen.add(candidate)
        unique.append(candidate)
    return unique


def with_unique_columns(
    frame: datafusion.DataFrame, *, once: Collection[str] = (), is_reported: bool = True
) -> datafusion.DataFrame:
    """Return a frame of which each column has a name of its own.

    Parameters
    ----------
    once
        Names that decide what the result means, and must not occur twice.
    is_reported
        Whether to warn of columns that are renamed.

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
    columns = _columns_of(frame.logical_plan())
    twice = [name for name, count in Counter(names).items() if count > 1]
    shown = [name for name in twice if name in once]
    if shown or columns is None or len(columns) != len(names):
        name = (shown or twice)[0]
        raise errors.QueryError(_ambiguous(name, names, columns))
    unique = unique_names(names)
    if is_reported:
        renamed = [
            f"{_shown(column, name)} is {new!r}"
            for column, name, new in zip(columns, names, unique, strict=True)
            if name != new
        ]
        warn_of_names(twice, renamed)
    chosen = [
        _chosen(column, name).alias(new)
        for column, name, new in zip(columns, names, unique, strict=True)
    ]
    return frame.select(*chosen)


def warn_of_names(names: Sequence[str], renamed: Sequence[str]) -> None:
    """Warn that several columns have some names, and say what each is called now."""
    warn_caller(
        f"the query yields more than one column named {', '.join(map(repr, names))}: "
        f"{', '.join(renamed)}; name them with AS",
        DuplicateColumnsWarning,
    )


def _ambiguous(name: str, names: Sequence[str], columns: Sequence[Any] | None) -> str:
    having = [
        _shown(column, name)
        for column, other in zip(columns or [], names, strict=False)
        if other == name and column is not None
    ]
    listed = f" ({', '.join(having)})" if having else ""
    return (
        f"the query yields more than one column named {name!r}{listed}; choose one, or name them "
        "with AS"
    )


def _columns_of(plan: Any) -> list[Any] | None:
    """Return the columns of a plan: those with a table of their own, and None for others.

    None if they are unknown.
    """
    while node_type(plan) in _PASSED_THROUGH:
        plan = plan.inputs()[0]
    if node_type(plan) != "Projection":
        return None
    expressions = plan.to_variant().projections()
    return [each if each.variant_name() == "Column" else None for each in expressions]


def _chosen(column: Any, name: str) -> datafusion.Expr:
    """Return a column of a frame: by its table, if it has one, and otherwise by its name."""
    return datafusion.col(quoted_name(name)) if column is None else datafusion.Expr(column)


def _shown(column: Any, name: str) -> str:
    return repr(name) if column is None else str(column.schema_name())
