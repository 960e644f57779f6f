"""The names in a query of one table, among which are all columns that it can need.  Pure."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from daf_query.scan import INDEX, NAME
from daf_query.sql._residual_filters import TableName
from daf_query.sql._simple_condition import (
    UncertainError,
    name_of,
    names_in,
    require,
    simple_tokens,
)
from daf_query.syntax import Token

_MAX_REMEMBERED: Final = 1 << 8
_CLAUSES: Final = ("WHERE", "GROUP", "ORDER", "LIMIT", "OFFSET", "HAVING")
_NO_COLUMNS: Final = frozenset(
    [
        *("AND", "OR", "NOT", "IN", "IS", "NULL", "BETWEEN", "LIKE", "ILIKE", "TRUE", "FALSE"),
        *("SELECT", "DISTINCT", "AS", "FROM", "WHERE", "GROUP", "BY", "HAVING", "ORDER", "ASC"),
        *("DESC", "LIMIT", "OFFSET", "CASE", "WHEN", "THEN", "ELSE", "END", "CAST"),
    ]
)
"""Words that are no column unless they are quoted."""


@dataclass(frozen=True, slots=True)
class NamedColumns:
    """What a query of one table names."""

    table: TableName
    """Its schema, and its name."""
    names: frozenset[str]
    """Names of columns, and maybe of other things."""


@functools.lru_cache(_MAX_REMEMBERED)
def named_columns(query: str, default: str) -> NamedColumns | None:
    """Return what a query names; None if it may need columns that it does not name.

    Parameters
    ----------
    default
        The schema of tables that are named without one.

    Examples
    --------
    >>> named = named_columns("SELECT count(*) FROM cell WHERE age > 40 AND donor = 'N1'", "runs")
    >>> named.table, sorted(named.names)
    (('runs', 'cell'), ['age', 'donor'])
    >>> named_columns("SELECT * FROM cell", "runs") is None
    True
    >>> named_columns("SELECT name FROM (SELECT * FROM cell)", "runs") is None
    True
    """
    try:
        return _named(query, simple_tokens(query), default)
    except (UncertainError, IndexError, StopIteration):
        return None


def _named(query: str, tokens: Sequence[Token], default: str) -> NamedColumns:
    require(is_so=tokens[0].is_word("SELECT"))
    require(is_so=sum(token.is_word("SELECT", "FROM", "JOIN", "TABLE") for token in tokens) == 2)
    require(is_so=not any(token.is_operator("[") for token in tokens))
    place = next(number for number, token in enumerate(tokens) if token.is_word("FROM"))
    require(is_so=all(_is_count(tokens, n) for n in range(place) if tokens[n].is_operator("*")))
    rest = tokens[place + 1 :]
    schema, table, rest = default, name_of(rest[0], query), rest[1:]
    if rest and rest[0].is_operator("."):
        schema, table, rest = table, name_of(rest[1], query), rest[2:]
    rest = [token for token in rest if not token.is_operator(";")]
    require(is_so=not rest or rest[0].is_word(*_CLAUSES))
    places = _without_aliases(_without_functions([*tokens[1:place], *rest]))
    used = names_in(places, query) - {NAME, INDEX}
    return NamedColumns((schema, table), frozenset(n for n in used if n.upper() not in _NO_COLUMNS))


def _without_functions(tokens: Sequence[Token]) -> list[Token]:
    """Return tokens without the names that a parenthesis follows, which are no columns."""
    following = [*tokens[1:], None]
    is_called = [each is not None and each.is_operator("(") for each in following]
    return [token for token, called in zip(tokens, is_called, strict=True) if not called]


def _without_aliases(tokens: Sequence[Token]) -> list[Token]:
    """Return tokens without the names that follow AS: those that a query gives to its columns."""
    before = [None, *tokens[:-1]]
    is_alias = [each is not None and each.is_word("AS") for each in before]
    return [token for token, given in zip(tokens, is_alias, strict=True) if not given]


def _is_count(tokens: Sequence[Token], star: int) -> bool:
    """Return whether an asterisk is that of ``count(*)``, or multiplies."""
    before = tokens[star - 1]
    if before.is_operator("("):
        return tokens[star - 2].is_word("COUNT")
    return not (before.is_operator(",", ".") or before.is_word("SELECT", "DISTINCT", "ALL"))
