"""The order of ``ORDER BY stage``: that of the categories of a column, where it has some.

The engine sorts dictionaries by their values, so what a query sorts by is replaced by the place of
each value among its categories (see `category_order`), token by token.  Only columns are replaced,
and names that a query gives to columns; where such a name is that of an expression, or DISTINCT
forbids it, the values are sorted as strings, with a warning.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from daf_query.sql._parameters import literal
from daf_query.syntax import Token, bracketed, quoted_name, tokens_of, unquoted_name
from daf_storage import errors

_DIRECTIONS: Final = ("ASC", "DESC", "NULLS", "FIRST", "LAST")
_BEFORE_NAMES: Final = (
    *("SELECT", "DISTINCT", "ALL", "BY", "WHERE", "AND", "OR", "NOT", "ON", "HAVING", "QUALIFY"),
    *("CASE", "WHEN", "THEN", "ELSE", "IN", "LIKE", "ILIKE", "BETWEEN", "IS", "FROM", "JOIN"),
    *("USING", "FILTER", "OVER", "VALUES", "ANY", "SOME", "ESCAPE", "INTERVAL", "EXISTS"),
)
"""Words after which a name is that of a column, and not one that the query gives."""


class AlphabeticalOrderWarning(errors.DafWarning):
    """A query sorts a categorical as strings, since its order is not known at this place."""


@dataclass(frozen=True, slots=True)
class _Item:
    """An item of ORDER BY that is a column."""

    start: int
    """Where it begins in the query."""
    stop: int
    """Where the column ends."""
    end: int
    """Where the item ends, with its direction."""
    column: str
    """The column, without the name of a table."""
    is_distinct: bool = False
    """Whether it sorts the values of an aggregate that takes each once."""


def sorted_by_categories(
    query: str, categoricals: Mapping[str, str | None], views: Sequence[str] = ()
) -> str:
    """Return a query that sorts categoricals in the order of their categories.

    Parameters
    ----------
    categoricals
        What `category_order` calls the categories of each column; None if tables differ in them.
    views
        The queries of the views that it names; they may give names, too.

    Warns
    -----
    AlphabeticalOrderWarning
        Something that is sorted by has the name of a categorical, and may not be it.

    Examples
    --------
    >>> print(sorted_by_categories("SELECT * FROM obs ORDER BY stage DESC", {"stage": "obs.stage"}))
    SELECT * FROM obs ORDER BY category_order('obs.stage', stage) DESC, stage DESC
    """
    tokens = tuple(tokens_of(query))
    items = tuple(_items(tokens, query))
    if not items:
        return query
    named: dict[str, str | None] = {}
    for text in (query, *views):
        given = _given_names(tuple(tokens_of(text)), text, categoricals)
        named |= {
            name: given[name] if named.get(name, given[name]) == given[name] else None
            for name in given
        }
    is_distinct = any(
        first.is_word("SELECT") and second.is_word("DISTINCT")
        for first, second in itertools.pairwise(tokens)
    )
    for item in reversed(items):
        if item.column not in categoricals and named.get(item.column) is None:
            continue
        categories = named.get(item.column, categoricals.get(item.column))
        column = query[item.start : item.stop]
        if categories is None or is_distinct or item.is_distinct:
            _warn(column, item.column)
            continue
        direction = query[item.stop : item.end]
        key = f"category_order({literal(categories)}, {column}){direction}, {column}{direction}"
        query = query[: item.start] + key + query[item.end :]
    return query


def _items(tokens: Sequence[Token], query: str) -> Iterator[_Item]:
    """Yield the items of each ORDER BY that are columns, in the order of the query."""
    for place, (first, second) in enumerate(itertools.pairwise(tokens)):
        if first.is_word("ORDER") and second.is_word("BY"):
            for item in _split(tokens[place + 2 :]):
                column = _column_of(item, query)
                if column is not None:
                    yield replace(column, is_distinct=_is_of_distinct(tokens[:place]))


def _is_of_distinct(tokens: Sequence[Token]) -> bool:
    """Return whether the bracket that is open after some tokens begins with DISTINCT."""
    depth = 0
    for token, after in itertools.pairwise(reversed(tokens)):
        depth += after.is_operator(")") - after.is_operator("(")
        if depth < 0:
            return token.is_word("DISTINCT")
    return False


def _split(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield the items of the ORDER BY whose first item comes first."""
    item: list[Token] = []
    depth = 0
    for token in tokens:
        depth += token.is_operator("(") - token.is_operator(")")
        is_end = token.is_word("LIMIT", "OFFSET", "FETCH", "ROWS", "RANGE", "GROUPS", "UNION")
        if depth < 0 or token.is_operator(";") or (depth == 0 and is_end):
            break
        if depth == 0 and token.is_operator(","):
            yield item
            item = []
        else:
            item.append(token)
    yield item


def _column_of(item: Sequence[Token], query: str) -> _Item | None:
    """Return an item that is a column, with or without a direction; None if it is not."""
    names = list(itertools.takewhile(lambda token: not token.is_word(*_DIRECTIONS), item))
    if len(names) not in (1, 3, 5) or any(not dot.is_operator(".") for dot in names[1::2]):
        return None
    if any(name.kind not in ("word", "quoted") for name in names[::2]):
        return None
    if any(not token.is_word(*_DIRECTIONS) for token in item[len(names) :]):
        return None
    return _Item(names[0].start, names[-1].stop, item[-1].stop, _name(names[-1], query))


def _name(token: Token, query: str) -> str:
    return unquoted_name(query[token.start : token.stop])


def _given_names(
    tokens: Sequence[Token], query: str, categoricals: Mapping[str, str | None]
) -> dict[str, str | None]:
    """Return which categories the names have that a query gives; None if it is not known."""
    named: dict[str, str | None] = {}
    for place, token in enumerate(tokens[1:], 1):
        if token.kind not in ("word", "quoted"):
            continue
        before = tokens[place - 1]
        is_implied = before.is_operator(")") or (
            before.kind in ("quoted", "string", "number", "word")
            and not before.is_word(*_BEFORE_NAMES, "AS")
        )
        if before.is_word("AS") or is_implied:
            given = _name(token, query)
            categories = None
            source = place - 1 - before.is_word("AS")
            if _is_selected_column(tokens, source):
                categories = categoricals.get(_name(tokens[source], query))
            if given in named and named[given] != categories:
                categories = None
            named[given] = categories
    return named | dict.fromkeys(_names_of_columns(tokens, query))


def _is_selected_column(tokens: Sequence[Token], place: int) -> bool:
    """Return whether nothing but a column, which ends at a place, is selected."""
    while place > 1 and tokens[place - 1].is_operator("."):
        place -= 2
    starts = tokens[max(place - 1, 0)]
    is_name = tokens[place].kind in ("word", "quoted")
    return is_name and (starts.is_operator(",") or starts.is_word("SELECT", "DISTINCT", "ALL"))


def _names_of_columns(tokens: Sequence[Token], query: str) -> Iterator[str]:
    """Yield the names in brackets that a table is given for its columns, ``AS t (a, b)``."""
    for place, token in enumerate(tokens):
        names = bracketed(tokens[place:]) if token.is_operator("(") and place > 1 else ()
        is_list = all(
            name.is_operator(",") if number % 2 else name.kind in ("word", "quoted")
            for number, name in enumerate(names)
        )
        if is_list and _is_of_table(tokens, place, place + len(names) + 2):
            yield from (_name(name, query) for name in names[::2])


def _is_of_table(tokens: Sequence[Token], opens: int, after: int) -> bool:
    """Return whether what is before a bracket is the name that a query gives to a table."""
    table, before = tokens[opens - 1], tokens[opens - 2]
    if table.kind != "quoted" and (table.kind != "word" or table.is_word(*_BEFORE_NAMES, "AS")):
        return False
    if before.is_word("AS") or before.is_operator(")"):
        return True
    if before.kind in ("word", "quoted") and opens > 2:  # FROM obs o (a, b)
        start = tokens[opens - 3]
        if start.is_word("FROM", "JOIN") or start.is_operator(",", "."):
            return not before.is_word(*_BEFORE_NAMES)
    is_defined = after + 1 < len(tokens) and tokens[after].is_word("AS")
    return is_defined and tokens[after + 1].is_operator("(")


def _warn(column: str, name: str) -> None:
    warnings.warn(
        f"ORDER BY {column} sorts strings here, not categories: the query gives the name "
        f"{quoted_name(name)} to something else, or says DISTINCT (write GROUP BY instead); "
        f"ORDER BY category_order('AXIS.COLUMN', {column}) sorts by categories anywhere",
        AlphabeticalOrderWarning,
        stacklevel=2,
    )
