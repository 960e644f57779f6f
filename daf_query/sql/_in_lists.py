"""Lists of values, ``x IN (1, 2)``, written so that the engine does not merge two of them.

The engine's simplifier treats two lists for one expression as sets: it makes
``x IN (1, 2) AND x NOT IN (2, NULL)`` into ``x IN (1)``, without regard to NULL, to columns within
a list, and to rows in which ``x`` is missing.  A cast of the result to BOOLEAN, which it is anyway,
keeps the simplifier away from a list.  It keeps the list from the tables as well, so only a list
that could be merged gets one.

What could be merged is judged by the tokens, and rather too much than too little: lists for
operands that share the name of a column, or that comparisons connect (``a.x = b.y``); all lists of
a query in which a column may have a second name.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from daf_query.syntax import Token, bracketed

_LIST: Final = re.compile(r"\bin\b\s*(?:\(|--|/\*)", re.IGNORECASE)
_OTHER_LIST: Final = re.compile(r"\bor\b|~", re.IGNORECASE)
_BARRIER: Final = "::BOOLEAN"

_ENDS: Final = (
    *("SELECT", "DISTINCT", "FROM", "WHERE", "GROUP", "BY", "HAVING", "ORDER", "LIMIT", "OFFSET"),
    *("UNION", "EXCEPT", "INTERSECT", "WINDOW", "QUALIFY"),
    *("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "ON", "USING"),
    *("AND", "OR", "NOT", "CASE", "WHEN", "THEN", "ELSE", "AS", "ASC", "DESC", "NULLS"),
)
"""Words around the operands of a comparison."""
_NO_NAMES: Final = ("NULL", "TRUE", "FALSE", "IS", "NOT", "LIKE", "ILIKE", "SIMILAR", "TO", "CAST")
_RENAMING: Final = ("WITH", "HAVING", "QUALIFY", "INTERSECT", "EXCEPT", "MINUS")
"""Words of queries in which conditions that meet in the plan may use two names for one column."""


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A list, or a comparison that can become one or connect two columns."""

    names: frozenset[str]
    """The columns of its operands, and perhaps more, in capitals."""
    stop: int | None = None
    """Where the bracket of the list ends; None for other comparisons."""
    is_constant: bool = False
    """Whether it is a list of numbers and strings, or a comparison with a constant."""


def may_merge(query: str, *, is_part: bool) -> bool:
    """Return whether lists of a query could be merged, judged by a quick look at its text.

    Parameters
    ----------
    is_part
        Conditions of other queries may meet those of this one: it is a view, or names one.

    Examples
    --------
    >>> may_merge("SELECT name FROM cell WHERE x IN (1, 2)", is_part=False)
    False
    >>> may_merge("SELECT name FROM cell", is_part=True)
    False
    """
    lists = _LIST.finditer(query)
    if next(lists, None) is None:
        return False
    return is_part or next(lists, None) is not None or _OTHER_LIST.search(query) is not None


def barriers(tokens: Sequence[Token], *, is_part: bool) -> list[tuple[int, str]]:
    """Return what to insert where, so that no list is merged.

    Of lists that could be merged with each other only, one of constants stays as it is, for the
    tables to use.

    Parameters
    ----------
    is_part
        Conditions of other queries may meet those of this one: it is a view, or names one.
    """
    apart: list[_Comparison] = []
    for branch in _branches(tokens):
        lists = list(_lists(branch))
        if is_part or not lists:
            apart += lists
            continue
        # A comparison becomes a list if OR joins it with another, or if it is a pattern.
        is_other = any(token.is_word("OR") or token.is_operator("~") for token in branch)
        for group in _groups(branch, lists):
            apart += _to_keep_apart(group, is_other=is_other)
    return [(each.stop, _BARRIER) for each in apart if each.stop is not None]


def _to_keep_apart(group: Sequence[_Comparison], *, is_other: bool) -> Iterator[_Comparison]:
    lists = [each for each in group if each.stop is not None]
    if is_other and any(each.stop is None and each.is_constant for each in group):
        yield from lists
    elif len(lists) > 1:
        kept = next((each for each in lists if each.is_constant), None)
        yield from (each for each in lists if each is not kept)


def _branches(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the queries that UNION joins: their conditions never meet."""
    if any(token.is_word("WITH") for token in tokens):
        yield tokens
        return
    depth = start = 0
    for place, token in enumerate(tokens):
        depth += token.is_operator("(") - token.is_operator(")")
        if depth == 0 and token.is_word("UNION"):
            yield tokens[start:place]
            start = place + 1
    yield tokens[start:]


def _groups(
    tokens: Sequence[Token], lists: Sequence[_Comparison]
) -> Iterator[Sequence[_Comparison]]:
    """Yield lists, and what else is compared, so that each group has its own columns."""
    everything = [*lists, *_comparisons(tokens)]
    has_second_names = sum(token.is_word("SELECT") for token in tokens) > 1 or any(
        token.is_word(*_RENAMING) for token in tokens
    )
    if has_second_names or any(not each.names or "END" in each.names for each in lists):
        yield everything
        return
    while everything:
        group, names = [], everything[0].names
        while near := [each for each in everything if each.names & names]:
            everything = [each for each in everything if not each.names & names]
            group += near
            names = names.union(*(each.names for each in near))
        if not group:
            everything.pop(0)
        yield group


def _lists(tokens: Sequence[Token]) -> Iterator[_Comparison]:
    for place, token in enumerate(tokens[:-1]):
        if not token.is_word("IN") or not tokens[place + 1].is_operator("("):
            continue
        inside = bracketed(tokens[place + 1 :])
        end = place + 2 + len(inside)
        left = _before(tokens, place - 1 if tokens[place - 1].is_word("NOT") else place)
        if end < len(tokens) and not _is_subquery(inside) and not _is_position(tokens, left):
            is_constant = all(
                part.kind in ("number", "string", "constants") or part.is_operator(",", "-")
                for part in inside
            )
            yield _Comparison(_names(left), tokens[end].stop, is_constant)


def _is_subquery(inside: Sequence[Token]) -> bool:
    """Return whether a bracket begins with a query; the engine has no lists that do."""
    first = next((token for token in inside if not token.is_operator("(")), None)
    return first is not None and first.is_word("SELECT", "WITH", "VALUES", "TABLE")


def _is_position(tokens: Sequence[Token], left: Sequence[Token]) -> bool:
    """Return whether an IN is that of ``position('a' IN (s))``."""
    if not left:
        return False
    before = [token for token in tokens if token.stop <= left[0].start][-2:]
    return len(before) == 2 and before[0].is_word("POSITION") and before[1].is_operator("(")


def _comparisons(tokens: Sequence[Token]) -> Iterator[_Comparison]:
    """Yield what may become a list, or make a condition on one column one on another."""
    for place, token in enumerate(tokens):
        before = tokens[place - 1] if place else token
        is_distinct = token.is_word("FROM") and before.is_word("DISTINCT")
        is_equality = token.is_operator("=") and not before.is_operator("<", ">", "!")
        is_pattern = token.is_operator("~") or token.is_word("LIKE", "ILIKE")
        if is_equality or is_pattern or is_distinct:
            left = _names(_before(tokens, place - 1 if is_distinct else place))
            right = _names(_after(tokens, place + 1))
            yield _Comparison(left | right, is_constant=not left or not right)


def _before(tokens: Sequence[Token], stop: int) -> Sequence[Token]:
    """Return the operand that ends before a place."""
    depth = 0
    for place in reversed(range(stop)):
        token = tokens[place]
        if token.is_operator(")", "]"):
            depth += 1
        elif token.is_operator("(", "["):
            depth -= 1
        if depth < 0 or (depth == 0 and _is_end(token) and place < stop - 1):
            return tokens[place + 1 : stop]
    return tokens[:stop]


def _after(tokens: Sequence[Token], start: int) -> Sequence[Token]:
    """Return the operand that begins at a place."""
    depth = 0
    for place in range(start, len(tokens)):
        token = tokens[place]
        if token.is_operator("(", "["):
            depth += 1
        elif token.is_operator(")", "]"):
            depth -= 1
        if depth < 0 or (depth == 0 and _is_end(token) and place > start):
            return tokens[start:place]
    return tokens[start:]


def _is_end(token: Token) -> bool:
    return token.is_word(*_ENDS) or token.is_operator(",", ";")


def _names(tokens: Sequence[Token]) -> frozenset[str]:
    """Return the names within an operand, without those of tables and functions."""
    return frozenset(
        token.text.strip('"`').upper()
        for token, after in itertools.zip_longest(tokens, tokens[1:])
        if token.kind in ("word", "quoted")
        and not token.is_word(*_NO_NAMES)
        and not (after is not None and after.is_operator(".", "("))
    )
