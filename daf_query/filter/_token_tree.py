"""The tokens of a condition as a tree of brackets, and its parts.  Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from daf_query.syntax import Token, tokens_of

_MERGED: Final = frozenset(
    {
        *("==", "!=", "<>", "<=", ">=", "<=>"),
        *("~*", "!~", "!~*", "~~", "~~*", "!~~", "!~~*", "||", "&&", "<<", ">>", "::"),
        *("->", "->>", "@>", "<@", "=>", "**", "//"),
    }
)
"""Operators of several characters."""
_MOST_LEVELS: Final = 50
_LONGEST: Final = 4
_CLOSING: Final = {"(": ")", "[": "]"}
_BEFORE_OPERANDS: Final = ("AND", "OR", "NOT", "WHEN", "THEN", "ELSE")
_SUBQUERY: Final = ("SELECT", "WITH", "VALUES")


@dataclass(frozen=True, slots=True)
class Group:
    """What stands in brackets, or between CASE and END."""

    opening: Token
    items: tuple[Item, ...]
    closing: Token

    @property
    def start(self) -> int:
        """Where the bracket opens."""
        return self.opening.start

    @property
    def stop(self) -> int:
        """Where what closes it ends."""
        return self.closing.stop

    @property
    def is_subquery(self) -> bool:
        """Whether it is a query of its own."""
        first = self.items[0] if self.items else None
        return isinstance(first, Token) and first.is_word(*_SUBQUERY)

    def is_bracket(self, *openings: str) -> bool:
        """Return whether it is in brackets of some form."""
        return self.opening.is_operator(*openings)


Item: TypeAlias = Token | Group


def token_tree(condition: str) -> tuple[Item, ...] | None:
    """Return the tokens of a condition by brackets; None if a bracket is not closed.

    Also None if more brackets are within each other than the engine takes.

    Characters of an operator are one token here.

    >>> [type(item).__name__ for item in token_tree("a >= (b + 1)")]
    ['Token', 'Token', 'Group']
    """
    levels: list[tuple[Token, list[Item]]] = []
    items: list[Item] = []
    for token in _without_keywords(_with_operators(tokens_of(condition)), condition):
        if token.is_operator("(", "[") or token.is_word("CASE"):
            levels.append((token, items))
            items = []
            if len(levels) > _MOST_LEVELS:
                return None
        elif token.is_operator(")", "]") or _ends_case(token, levels):
            if not levels or _closing(levels[-1][0]) != token.text:
                return None
            opening, outer = levels.pop()
            outer.append(Group(opening, tuple(items), token))
            items = outer
        else:
            items.append(token)
    return None if levels else tuple(items)


def _without_keywords(tokens: Iterable[Token], condition: str) -> Iterator[Token]:
    """Yield tokens of which a word after a dot is a name, as in ``age.between(1, 2)``."""
    is_name = False
    for token in tokens:
        if is_name and token.kind == "word":
            yield replace(token, kind="quoted", text=condition[token.start : token.stop])
        else:
            yield token
        is_name = token.is_operator(".")


def _ends_case(token: Token, levels: Sequence[tuple[Token, list[Item]]]) -> bool:
    return token.is_word("END") and bool(levels) and levels[-1][0].is_word("CASE")


def _closing(opening: Token) -> str:
    return _CLOSING.get(opening.text, "END")


def _with_operators(tokens: Iterable[Token]) -> list[Token]:
    """Return tokens of which adjacent characters that are one operator are one token."""
    merged: list[Token] = []
    pending = list(tokens)
    place = 0
    while place < len(pending):
        size = _operator_size(pending[place : place + _LONGEST])
        if pending[place].is_operator("~") and not (merged and ends_operand(merged[-1])):
            size = 1  # of two in front of an operand, each negates it
        first, last = pending[place], pending[place + size - 1]
        text = "".join(token.text for token in pending[place : place + size])
        merged.append(first if size == 1 else Token("operator", text, first.start, last.stop))
        place += size
    return merged


def ends_operand(token: Token) -> bool:
    """Return whether an operator after a token is between two operands, not in front of one."""
    is_closing = token.is_operator(")", "]")
    return is_closing or (token.kind != "operator" and not token.is_word(*_BEFORE_OPERANDS))


def _operator_size(tokens: Sequence[Token]) -> int:
    """Return how many tokens at the beginning are one operator, or 1."""
    for size in range(len(tokens), 1, -1):
        part = tokens[:size]
        is_adjacent = all(a.stop == b.start for a, b in itertools.pairwise(part))
        is_operator = all(token.kind == "operator" for token in part)
        if is_adjacent and is_operator and "".join(token.text for token in part) in _MERGED:
            return size
    return 1


def split_at(items: Sequence[Item], is_separator: Callable[[Item], bool]) -> list[tuple[Item, ...]]:
    """Return the parts between separators, at least one."""
    parts: list[list[Item]] = [[]]
    for item in items:
        if is_separator(item):
            parts.append([])
        else:
            parts[-1].append(item)
    return [tuple(part) for part in parts]


def conjuncts_of(items: Sequence[Item]) -> list[tuple[Item, ...]]:
    """Return what is joined by AND; the AND of BETWEEN joins nothing.

    >>> len(conjuncts_of(token_tree("a BETWEEN 1 AND 2 AND b")))
    2
    """
    betweens = 0
    parts: list[list[Item]] = [[]]
    for item in items:
        is_between = isinstance(item, Token) and item.is_word("BETWEEN")
        is_and = isinstance(item, Token) and item.is_word("AND")
        betweens += is_between
        if is_and and not betweens:
            parts.append([])
            continue
        betweens -= is_and
        parts[-1].append(item)
    return [tuple(part) for part in parts]


def disjuncts_of(items: Sequence[Item]) -> list[tuple[Item, ...]]:
    """Return what is joined by OR."""
    return split_at(items, lambda item: isinstance(item, Token) and item.is_word("OR"))


def clauses_of(predicate: str) -> list[Token]:
    """Return the first tokens of ORDER BY, LIMIT and OFFSET, outside of brackets."""
    clauses = []
    depth = 0
    tokens = tuple(tokens_of(predicate))
    for token, after in itertools.zip_longest(tokens, tokens[1:]):
        if token.is_operator("("):
            depth += 1
        elif token.is_operator(")"):
            depth -= 1
        elif depth == 0 and after is not None:
            is_count = after.kind == "number"
            is_order = token.is_word("ORDER") and after.is_word("BY")
            if is_order or (token.is_word("LIMIT", "OFFSET") and is_count):
                clauses.append(token)
    return clauses


def condition_of(predicate: str) -> str:
    """Return a predicate without its ORDER BY, LIMIT and OFFSET.

    >>> condition_of("age > 60 ORDER BY age")
    'age > 60 '
    """
    clauses = clauses_of(predicate)
    return predicate[: clauses[0].start] if clauses else predicate
