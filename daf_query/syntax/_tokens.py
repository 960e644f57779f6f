"""The tokens of a SQL text, words, literals, quoted names and operators; and edits of it."""

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


def quoted_name(name: str) -> str:
    """Return a name as SQL quotes it.

    >>> quoted_name('a "b" c')
    '"a ""b"" c"'
    """
    return '"' + name.replace('"', '""') + '"'


def plain_name(name: str) -> str:
    """Return a name as people write it: in quotes only where it has to be.

    >>> plain_name("age"), plain_name("n counts")
    ('age', '"n counts"')
    """
    return name if name.isascii() and name.isidentifier() else quoted_name(name)


def quoted_string(value: object) -> str:
    """Return a string as SQL writes it.

    >>> quoted_string("it's")
    "'it''s'"
    """
    return "'" + str(value).replace("'", "''") + "'"


def unquoted_name(name: str) -> str:
    """Return a name without the quotes that SQL may have around it.

    >>> unquoted_name('"a ""b"" c"'), unquoted_name("age"), unquoted_name('""'), unquoted_name('"')
    ('a "b" c', 'age', '', '"')
    """
    is_quoted = len(name) > 1 and name.startswith('"') and name.endswith('"')
    return name[1:-1].replace('""', '"') if is_quoted else name


def identifier(written: str) -> str:
    """Return the name that a token of a query stands for: a word, or in double quotes or backticks.

    >>> identifier("`a ``b`` c`"), identifier('"age"'), identifier("age")
    ('a `b` c', 'age', 'age')
    """
    if len(written) > 1 and written.startswith("`") and written.endswith("`"):
        return written[1:-1].replace("``", "`")
    return unquoted_name(written)


class Edit(NamedTuple):
    """A part of a text, and what stands there instead; an insertion where both places are one."""

    start: int
    stop: int
    new: str


def edited(text: str, edits: Iterable[Edit], start: int = 0, stop: int | None = None) -> str:
    """Return a text, or a part of it, after some edits.

    Of insertions at one place, those given first come first.

    Raises
    ------
    ValueError
        Two edits overlap: a rule is wrong.

    Examples
    --------
    >>> edited("a - b", [Edit(0, 0, "("), Edit(4, 5, "c"), Edit(5, 5, ")")])
    '(a - c)'
    """
    stop = len(text) if stop is None else stop
    pieces, done = [], start
    within = [edit for edit in edits if start <= edit.start <= edit.stop <= stop]
    for first, last, new in sorted(within, key=lambda edit: (edit.start, edit.stop)):
        if first < done:
            raise ValueError(f"edits overlap at {first} of {text!r}")
        pieces += [text[done:first], new]
        done = last
    return "".join([*pieces, text[done:stop]])


def place_before(edits: Iterable[Edit], place: int) -> int | None:
    """Return where a place of an edited text was in the original; None if it was inserted.

    Of what stands instead of something else, it is where that began.

    >>> [place_before([Edit(0, 0, "("), Edit(4, 5, "cd")], place) for place in (0, 1, 4, 6, 7)]
    [None, 0, 3, 4, 5]
    """
    shift = 0
    for start, stop, new in sorted(edits, key=lambda edit: (edit.start, edit.stop)):
        if place < start + shift:
            break
        if place < start + shift + len(new):
            return start if stop > start else None
        shift += len(new) - (stop - start)
    return place - shift
