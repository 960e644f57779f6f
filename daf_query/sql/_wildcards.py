"""Wildcards that leave out columns which a query names, but the table does not have by itself.

``SELECT *`` is written as ``SELECT * EXCLUDE (...)``.  The engine refuses to leave out a column
that is not there, or that two tables have; so the tables of each SELECT decide how it is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from daf_query.sql._from_items import FromItem, Select, Star, items_called
from daf_query.sql._names import quoted_name
from daf_storage import errors

Edit: TypeAlias = tuple[int, int, str]
"""Where a part of a query begins and ends, and what it is replaced by."""

ColumnsOf: TypeAlias = Callable[[FromItem], Sequence[str]]
"""Returns the names of the columns that are to be left out of a table."""


def wildcard_edits(selects: Sequence[Select], columns_of: ColumnsOf) -> Iterator[Edit]:
    """Yield what to change in a query, so that no wildcard has some columns of its tables.

    Raises
    ------
    QueryError
        Where that cannot be written; the message says what to write instead.
    """
    for select in selects:
        _check_natural(select, columns_of)
        for star in select.stars:
            if star.qualifier:
                yield from _qualified(star, select, columns_of)
            else:
                yield from _unqualified(star, select, columns_of)


def _check_natural(select: Select, columns_of: ColumnsOf) -> None:
    """Refuse a NATURAL JOIN that would compare such columns."""
    if not select.is_natural:
        return
    counts = Counter(name for item in select.items for name in columns_of(item))
    is_exposed = any(item.exposes for item in select.items)
    shared = [name for name, count in counts.items() if count > 1 or is_exposed]
    if shared:
        raise errors.QueryError(
            f"NATURAL JOIN would compare {shared[0]} of both tables as well; write JOIN ... USING "
            "(...) with the columns that you mean"
        )


def _qualified(star: Star, select: Select, columns_of: ColumnsOf) -> Iterator[Edit]:
    items = items_called(select.items, star.qualifier)
    names = [name for item in items[:1] for name in columns_of(item)]
    _check_names(items[:1], names)
    yield from _excluding(star, names)


def _unqualified(star: Star, select: Select, columns_of: ColumnsOf) -> Iterator[Edit]:
    shown = [item for item in select.items if not item.is_hidden]
    providing = [item for item in shown if columns_of(item)]
    if not providing:
        return
    names = [name for item in providing for name in columns_of(item)]
    _check_names(providing, names)
    is_exposed = any(item.exposes for item in shown)
    if len(set(names)) == len(names) and not is_exposed:
        yield from _excluding(star, names)
        return
    if select.is_merged or star.is_changed or not all(item.qualifier for item in shown):
        raise errors.QueryError(
            f"SELECT * of several tables that have {names[0]} cannot leave it out of each here; "
            "name the columns, or write a wildcard for each table (a.*, b.*), with an alias for "
            "each subquery"
        )
    stars = [f"{item.qualifier}.*{_exclude(columns_of(item))}" for item in shown]
    yield star.start, star.stop, ", ".join(stars)


def _check_names(items: Sequence[FromItem], names: Sequence[str]) -> None:
    if names and any(item.has_column_names for item in items):
        raise errors.QueryError(
            "a table whose columns are given other names, as in AS c (a, b), cannot have "
            f"{names[0]}; give the columns other names in SELECT, with AS"
        )


def _excluding(star: Star, names: Sequence[str]) -> Iterator[Edit]:
    """Yield what to change, so that a wildcard leaves out some more columns."""
    left = [name for name in names if name not in star.excluded]
    if not left:
        return
    quoted = ", ".join(map(quoted_name, left))
    if star.list_start is not None:
        yield star.list_start, star.list_start, f"{quoted}, "
    elif star.single is not None:
        start, stop = star.single
        yield start, start, f"({quoted}, "
        yield stop, stop, ")"
    else:
        yield star.stop, star.stop, _exclude(left)


def _exclude(names: Sequence[str]) -> str:
    return f" EXCLUDE ({', '.join(map(quoted_name, names))})" if names else ""
