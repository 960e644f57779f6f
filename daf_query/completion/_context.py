"""The word that is typed, and what the SQL before it says of it.  Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from daf_query.completion._keywords import CLAUSES, TABLE_FOLLOWS
from daf_query.syntax import Token, tokens_of, unquoted_name

Place: TypeAlias = Literal["beginning", "table", "expression", "entry", "nothing"]
"""What may stand at the cursor; nothing within comments and strings."""

_CLOSED_COMMENT: Final = re.compile(r"--[^\n]*\n|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Context:
    """The word that is typed, and where it stands."""

    place: Place
    prefix: str
    """What of the word is before the cursor, without quotes."""
    start: int
    """Where the word begins in the SQL, with its quote."""
    qualifier: tuple[str, ...] = ()
    """The names before it, each with a dot: ``("cell",)`` of ``cell.ag``."""
    matrix: str = ""
    """The matrix of whose entry this is the name."""
    statement: tuple[int, int] = (0, 0)
    """Where the statement begins and ends in the SQL."""


def context_of(sql: str, cursor: int) -> Context:
    """Return what is typed at a place.

    Examples
    --------
    >>> context = context_of("SELECT X['CD8 FROM cell", 13)
    >>> context.place, context.matrix, context.prefix, context.start
    ('entry', 'X', 'CD8', 10)
    >>> context = context_of("SELECT c.ag", 11)
    >>> context.place, context.qualifier, context.prefix
    ('expression', ('c',), 'ag')
    """
    begin, before = _statement_start(sql[:cursor])
    statement = (begin, _statement_end(sql, cursor, begin))
    opened = next((n for n, token in enumerate(before) if token.is_operator("'", '"')), None)
    if opened is not None:
        while opened and _touch(before[opened - 1], before[opened]):  # 'it'' is not closed yet
            opened -= 1
        return _in_quotes(sql, cursor, before, opened, statement)
    last = before[-1] if before else None
    rest = _CLOSED_COMMENT.sub("", sql[last.stop if last else begin : cursor])
    if "--" in rest or "/*" in rest:
        return Context("nothing", "", cursor, statement=statement)
    is_typed = last is not None and last.stop == cursor and last.kind in ("word", "number")
    if last is not None and last.stop == cursor and last.kind in ("number", "string", "parameter"):
        return Context("nothing", "", cursor, statement=statement)
    start = last.start if last is not None and is_typed else cursor
    words = before[:-1] if is_typed else before
    return _of_words(sql, words, sql[start:cursor], start, statement)


def _touch(first: Token, second: Token) -> bool:
    return first.kind in ("string", "quoted") and first.stop == second.start


def _in_quotes(
    sql: str, cursor: int, before: Sequence[Token], opened: int, statement: tuple[int, int]
) -> Context:
    """Return the context within a string, or a quoted name, that is not closed yet."""
    start = before[opened].start
    quote, typed = sql[start], sql[start + 1 : cursor]
    words = before[:opened]
    if quote == '"':
        return _of_words(sql, words, typed.replace('""', '"'), start, statement)
    is_entry = (
        len(words) > 1 and words[-1].is_operator("[") and words[-2].kind in ("word", "quoted")
    )
    if not is_entry:
        return Context("nothing", "", cursor, statement=statement)
    matrix = unquoted_name(sql[words[-2].start : words[-2].stop])
    prefix = typed.replace("''", "'")
    return Context("entry", prefix, start + 1, matrix=matrix, statement=statement)


def _of_words(
    sql: str, words: Sequence[Token], prefix: str, start: int, statement: tuple[int, int]
) -> Context:
    qualifier: tuple[str, ...] = ()
    while len(words) > 1 and words[-1].is_operator(".") and words[-2].kind in ("word", "quoted"):
        qualifier = (unquoted_name(sql[words[-2].start : words[-2].stop]), *qualifier)
        words = words[:-2]
    place: Place = "expression"
    if not words or (len(words) == 1 and words[0].is_word("EXPLAIN")):
        place = "beginning"
    elif words[-1].is_word(*TABLE_FOLLOWS) or (
        words[-1].is_operator(",") and _clause(words) == "FROM"
    ):
        place = "table"
    return Context(place, prefix, start, qualifier, statement=statement)


def _clause(words: Sequence[Token]) -> str:
    """Return the keyword that begins the part in which the last word is."""
    depth = 0
    for token in reversed(words):
        depth += token.is_operator(")") - token.is_operator("(")
        if depth < 0:
            return ""
        if depth == 0 and token.is_word(*CLAUSES):
            return token.text
    return ""


def _statement_start(before: str) -> tuple[int, list[Token]]:
    """Return where the last statement begins, and its tokens."""
    start = 0
    tokens: list[Token] = []
    for token in tokens_of(before):
        if token.is_operator(";"):
            start, tokens = token.stop, []
        else:
            tokens.append(token)
    return start, tokens


def _statement_end(sql: str, cursor: int, begin: int) -> int:
    """Return where the statement ends, as far as its quotes are closed."""
    for token in tokens_of(sql[begin:]):
        if token.is_operator(";") and begin + token.start >= cursor:
            return begin + token.start
    return len(sql)
