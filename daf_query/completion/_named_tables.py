"""The tables of a statement, with what else they are called in it.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise

from daf_query.completion._keywords import CLAUSES, KEYWORDS
from daf_query.syntax import Token, tokens_of, unquoted_name

_BEFORE_TABLES = ("FROM", "JOIN", "DESCRIBE")


def tables_in(statement: str, known: Collection[tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the tables that a statement names, by their aliases, or else by their names.

    Parameters
    ----------
    known
        The tables that there are, as the parts of their names.

    Examples
    --------
    >>> tables_in("SELECT c. FROM cell AS c, gene", {("cell",), ("gene",)})
    {'c': ('cell',), 'gene': ('gene',)}
    """
    tokens = list(tokens_of(statement))
    named: dict[str, tuple[str, ...]] = {}
    for place in _places(tokens):
        parts, after = _name_at(statement, tokens, place)
        if parts not in known:
            continue
        named[_alias(statement, tokens, after) or parts[-1]] = parts
    return named


def _places(tokens: list[Token]) -> Iterator[int]:
    """Yield where a table may be named: after FROM and JOIN, and after a comma in FROM."""
    clause = ""
    for place, (before, _) in enumerate(pairwise(tokens), start=1):
        if before.is_word(*CLAUSES, "JOIN", "DESCRIBE"):
            clause = before.text
        is_first = before.is_word(*_BEFORE_TABLES)
        if is_first or (before.is_operator(",") and clause in _BEFORE_TABLES):
            yield place


def _name_at(sql: str, tokens: list[Token], place: int) -> tuple[tuple[str, ...], int]:
    """Return the parts of the name at a place, and where it ends."""
    parts: tuple[str, ...] = ()
    while place < len(tokens) and tokens[place].kind in ("word", "quoted"):
        parts = (*parts, unquoted_name(sql[tokens[place].start : tokens[place].stop]))
        place += 1
        if place == len(tokens) or not tokens[place].is_operator("."):
            break
        place += 1
    return parts, place


def _alias(sql: str, tokens: list[Token], place: int) -> str:
    """Return the alias that begins at a place; empty if there is none."""
    if place < len(tokens) and tokens[place].is_word("AS"):
        place += 1
    if place == len(tokens) or tokens[place].kind not in ("word", "quoted"):
        return ""
    if tokens[place].is_word(*KEYWORDS, *CLAUSES):
        return ""
    return unquoted_name(sql[tokens[place].start : tokens[place].stop])
