"""The tokens of a SQL text: words, literals, quoted identifiers and operators, without comments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

TokenKind: TypeAlias = Literal[
    "word", "string", "quoted", "number", "parameter", "constants", "operator"
]
"""What a token is.

A ``parameter`` stands for a value; ``constants`` are many at the beginning of a bracket, with
their commas.
"""

_TOKEN: Final = re.compile(
    r"""
      (?P<space> \s+ | --[^\n]* )
    | (?P<comment> /\* )
    | (?P<string> [eE]'(?:[^'\\]|\\.|'')*' | (?:[nNxXbB]|[uU]&)?'(?:[^']|'')*'
                | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$ )
    | (?P<parameter> \$\w+ | \? )
    | (?P<quoted> "(?:[^"]|"")*" | `(?:[^`]|``)*` )
    | (?P<word> [^\W\d][\w$]* )
    | (?P<number> \d[\w.]* )
    | (?P<operator> \^@ | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_CONSTANTS: Final = re.compile(r"(?:\s*+(?:-?\d[\d.]*+|'(?:[^']|'')*+')\s*+,){16,}+")
_COMMENT_ENDS: Final = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a query."""

    kind: TokenKind
    """What it is; a character of an operator is a token each."""
    text: str
    """As it is written; words in capitals."""
    start: int
    """Where it begins in the query."""
    stop: int
    """Where it ends."""

    def is_word(self, *words: str) -> bool:
        """Return whether it is one of some words, given in capitals."""
        return self.kind == "word" and self.text in words

    def is_operator(self, *operators: str) -> bool:
        """Return whether it is one of some operators or brackets."""
        return self.kind == "operator" and self.text in operators


class Brackets(NamedTuple):
    """A pair of brackets: ``()``, ``[]`` or ``{}``."""

    opening: int
    """Where the first one stands."""
    closing: int
    """Where the second one stands."""
    before: str
    """The word or operator before the first one, in capitals; empty at the beginning."""


def tokens_of(query: str) -> tuple[Token, ...]:
    """Return the tokens of a query.

    >>> [token.text for token in tokens_of("SELECT 'a b' /* OR */ FROM t -- AND")]
    ['SELECT', "'a b'", 'FROM', 'T']
    """
    return tuple(read_tokens(query))


def read_tokens(query: str) -> Iterator[Token]:
    """Yield the tokens of a query, each as it is asked for."""
    place = 0
    while match := _TOKEN.match(query, place):
        place = match.end()
        group = match.lastgroup
        if group == "comment":
            place = _after_comment(query, place)
        elif group not in ("space", None):
            yield _token(match)
            if match.group() == "(" and (constants := _CONSTANTS.match(query, place)):
                yield Token("constants", "", place, constants.end())
                place = constants.end()


def pairs_of(tokens: Iterable[Token]) -> list[Brackets]:
    """Return the pairs of brackets, by where they open.

    >>> [(pair.opening, pair.closing) for pair in pairs_of(tokens_of("f(a[1])"))]
    [(1, 6), (3, 5)]
    """
    pairs, opened, before = [], list[tuple[int, str]](), ""
    for token in tokens:
        if token.is_operator("(", "[", "{"):
            opened.append((token.start, before))
        elif token.is_operator(")", "]", "}") and opened:
            opening, word = opened.pop()
            pairs.append(Brackets(opening, token.start, word))
        before = token.text
    return sorted(pairs)


def _token(match: re.Match[str]) -> Token:
    for kind in ("string", "parameter", "quoted", "word", "number"):
        text = match[kind]
        if text is not None:
            written = text.upper() if kind == "word" else text
            return Token(kind, written, match.start(), match.end())
    return Token("operator", match.group(), match.start(), match.end())


def _after_comment(query: str, place: int) -> int:
    """Return where a comment ends; comments may be nested, and need not end."""
    depth = 1
    while depth:
        match = _COMMENT_ENDS.search(query, place)
        if match is None:
            return len(query)
        depth += 1 if match.group() == "/*" else -1
        place = match.end()
    return place
