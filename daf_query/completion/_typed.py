"""The word that is typed, and what the SQL around it says of it.  Pure.

What is typed is not finished, so it is read by its tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from daf_query.syntax import Token, identifier, tokens_of

Place: TypeAlias = Literal["beginning", "table", "expression", "entry", "value"]
"""What may stand at the cursor."""

BEGINNINGS: Final = ("SELECT", "FROM", "WITH", "EXPLAIN", "DESCRIBE", "SHOW TABLES", "VALUES")
"""What a statement begins with."""

KEYWORDS: Final = tuple(
    (  # noqa: SIM905 - a word a line would be a page
        """
        ALL AND ANTI ANY AS ASC BETWEEN BY CASE CAST CROSS CURRENT DESC DISTINCT ELSE END EXCEPT
        EXCLUDE EXISTS EXPLAIN EXTRACT FALSE FILTER FIRST FOLLOWING FROM FULL GROUP HAVING ILIKE IN
        INNER INTERSECT INTERVAL IS JOIN LAST LATERAL LEFT LIKE LIMIT NATURAL NOT NULL NULLS OFFSET
        ON OR ORDER OUTER OVER PARTITION PRECEDING QUALIFY RANGE RECURSIVE RIGHT ROWS SELECT SEMI
        SIMILAR SOME THEN TO TRUE UNBOUNDED UNION UNNEST USING VALUES WHEN WHERE WINDOW WITH WITHIN
        """
    ).split()
)
"""What may stand within one."""

_TABLE_FOLLOWS: Final = ("FROM", "JOIN", "DESCRIBE")
_CLAUSES: Final = (
    *("SELECT", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "ON", "LIMIT", "QUALIFY"),
    *("JOIN", "DESCRIBE"),
)
_COMPARING: Final = ("=", "<>", "!=", "IN", "NOT", "LIKE", "ILIKE")
_Word: TypeAlias = tuple[str, str]
"""A token as it is written, words in capitals; and the name that it is, empty for no name."""


@dataclass(frozen=True, slots=True)
class Typed:
    """The word that is typed, and where it stands."""

    place: Place
    prefix: str
    """What of the word is before the cursor, without quotes."""
    start: int
    """Where the word begins in the SQL, with its quote."""
    qualifier: tuple[str, ...]
    """The names before it, each with a dot: ``("cell",)`` of ``cell.ag``."""
    owner: str
    """The matrix of whose entry this is the name, or the column of which it is a value."""
    words: tuple[_Word, ...]
    """The statement around it."""

    def tables(self, known: Collection[tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Return the tables of the statement, by their aliases, or else by their names.

        >>> typed = typed_at("SELECT c. FROM cell AS c, gene", 9)
        >>> typed.tables({("cell",), ("gene",)})
        {'c': ('cell',), 'gene': ('gene',)}
        """
        found: dict[str, tuple[str, ...]] = {}
        words, clause = (*self.words, *[("", "")] * 3), ""
        for number, (word, _) in enumerate(self.words):
            clause = word if word in _CLAUSES else clause
            if word not in _TABLE_FOLLOWS and not (word == "," and clause in _TABLE_FOLLOWS):
                continue
            parts: tuple[str, ...] = (words[number + 1][1],)
            place = number + 2
            while words[place][0] == ".":
                parts, place = (*parts, words[place + 1][1]), place + 2
            after, alias = words[place + (words[place][0] == "AS")]
            is_alias = alias and after not in (*KEYWORDS, *_CLAUSES)
            if parts in known:
                found[alias if is_alias else parts[-1]] = parts
        return found


def typed_at(sql: str, cursor: int) -> Typed | None:
    """Return what is typed at a place; None within comments, strings, numbers and parameters.

    Examples
    --------
    >>> typed = typed_at("SELECT X['CD8 FROM cell", 13)
    >>> typed.place, typed.owner, typed.prefix, typed.start
    ('entry', 'X', 'CD8', 10)
    """
    text = f"{sql[:cursor]}x"  # the last token shows where the cursor stands
    tokens = tokens_of(text)
    first = max((n for n, token in enumerate(tokens, 1) if token.is_operator(";")), default=0)
    tokens = tokens[first:]
    opened = next((n for n, t in enumerate(tokens) if t.is_operator("'", '"')), None)
    while opened and _touches(tokens, opened):  # 'it'' is not closed yet
        opened -= 1
    number = len(tokens) - 1 if opened is None else opened
    if number < 0 or (opened is None and not _is_word(tokens, cursor)):
        return None
    start = tokens[number].start
    quote = "" if opened is None else sql[start]
    prefix = (
        sql[start + len(quote) : cursor].replace(quote * 2, quote) if quote else sql[start:cursor]
    )
    words = _words(text, tokens[:number])
    rest = sql[cursor:].removeprefix(quote)
    after = tokens_of(rest)
    end = next((n for n, token in enumerate(after) if token.is_operator(";")), len(after))
    around = (*words, *_words(rest, after[:end]))
    if quote == "'":
        if len(words) > 1 and words[-1][0] == "[":
            return Typed("entry", prefix, start + 1, (), words[-2][1], around)
        column = _compared(words)
        return Typed("value", prefix, start + 1, (), column, around) if column else None
    qualifier: tuple[str, ...] = ()
    while len(words) > 1 and words[-1][0] == "." and words[-2][1]:
        qualifier, words = (words[-2][1], *qualifier), words[:-2]
    return Typed(_place_after(words), prefix, start, qualifier, "", around)


def _compared(words: Sequence[_Word]) -> str:
    """Return the column that a string after some words is compared with; empty if there is none.

    >>> _compared([("AGE", "age"), ("IN", "in"), ("(", ""), ("'1'", ""), (",", "")])
    'age'
    """
    is_compared = False
    for word, name in reversed(words):
        if name and word not in _COMPARING:
            return name if is_compared and word not in (*KEYWORDS, *_CLAUSES) else ""
        is_compared = is_compared or word in _COMPARING
    return ""


def _touches(tokens: Sequence[Token], number: int) -> bool:
    before = tokens[number - 1]
    return before.kind in ("string", "quoted") and before.stop == tokens[number].start


def _is_word(tokens: Sequence[Token], cursor: int) -> bool:
    """Return whether the last token is a word that the cursor is in, or may begin."""
    is_last = tokens[-1].kind == "word" and tokens[-1].stop == cursor + 1
    return is_last and not _touches((tokens[0], *tokens), len(tokens))


def _words(text: str, tokens: Sequence[Token]) -> tuple[_Word, ...]:
    names = (identifier(text[each.start : each.stop]) for each in tokens)
    return tuple(
        (each.text, name if each.kind in ("word", "quoted") else "")
        for each, name in zip(tokens, names, strict=True)
    )


def _place_after(words: Sequence[_Word]) -> Place:
    if not words or [word for word, _ in words] == ["EXPLAIN"]:
        return "beginning"
    if words[-1][0] in (*_TABLE_FOLLOWS, "TABLE"):
        return "table"
    depth = 0
    for word, _ in reversed(words if words[-1][0] == "," else ()):
        depth += (word == ")") - (word == "(")
        if depth < 0 or (depth == 0 and word in _CLAUSES and word != "JOIN"):
            return "table" if word == "FROM" else "expression"
    return "expression"
