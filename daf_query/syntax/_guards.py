"""Limits of parser and engine: queries that nest too deeply, names that are too long.

Both recurse, and end the process where its stack does.  Brackets and prefixes they count
themselves.  Not so a chain of operators, ``a + b + c``, each of which is an operand of the next:
thousands of them are as deep as as many brackets.

For a name that it does not know, the engine suggests others, which takes the product of both
lengths: for one of a million characters, hours, which nothing can interrupt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from daf_query.syntax._tokens import Token, tokens_of
from daf_storage import errors

_MAX_COST: Final = 3000
_OPERATOR_COST: Final = 3
"""Measured: chains of 4,000 AND or OR are answered, and 3,000 ``||`` end the process."""
_ENGINE_DEPTH: Final = 1000
"""More than the 50 brackets within each other that the engine takes."""
_SHORT_BYTES: Final = 2 * _MAX_COST // _OPERATOR_COST
"""Shorter queries cannot have that many operators."""
_JOINING: Final = ("AND", "OR", "XOR")
_COMBINING: Final = ("UNION", "EXCEPT", "INTERSECT", "JOIN")
_BRANCHING: Final = ("WHEN", "THEN", "ELSE")
_CHAINING: Final = ("IS", "IN", "LIKE", "ILIKE", "SIMILAR", "BETWEEN", "AT", "COLLATE", "DIV")
_OPERATORS: Final = tuple("+-*/%|<>=!~^&#:@[")

_MOST: Final = 1000
_SHOWN: Final = 40
_NAMES: Final = ("word", "quoted", "parameter")
_FEWEST: Final = (_MOST - 1) // 2
"""How many characters a long name has between its quotes; if it is of quotes, which are doubled."""
_MAY_BE_LONG: Final = re.compile(
    rf'\w{{{_MOST}}}|"(?:[^"]|""){{{_FEWEST}}}|`(?:[^`]|``){{{_FEWEST}}}'
)


@dataclass(slots=True)
class _Level:
    """What is between two brackets, as far as it was read."""

    combined: int = 0
    """Queries that were combined, and tables that were joined."""
    joined: int = 0
    """Conditions that were joined, of this expression."""
    chained: int = 0
    """The cost of the operators of this condition."""
    inner: int = 0
    """The most that a bracket of this condition costs."""
    condition: int = 0
    """The most that a condition of this expression costs."""
    expression: int = 0
    """The most that an expression costs."""

    def end_condition(self) -> None:
        self.condition = max(self.condition, self.chained + self.inner)
        self.chained = self.inner = 0

    def end_expression(self) -> None:
        self.end_condition()
        self.expression = max(self.expression, self.joined + self.condition)
        self.joined = self.condition = 0

    @property
    def cost(self) -> int:
        conditions = max(self.condition, self.chained + self.inner)
        return self.combined + max(self.expression, self.joined + conditions)


def check_nesting(query: str) -> None:
    """Refuse a query that nests so deeply that the engine would end the process.

    Raises
    ------
    QueryError
        The message says what to write instead.

    Examples
    --------
    >>> check_nesting("SELECT " + "+".join(["age"] * 10_000) + " FROM cell")
    Traceback (most recent call last):
        ...
    daf_storage.errors.QueryError: the query has too many operators in one chain: more than 1,000,
    or 3,000 of AND and OR; write IN (...) for many values, or give them as a table
    """
    if len(query) < _SHORT_BYTES:
        return
    levels = [_Level()]
    for token in tokens_of(query):
        if token.is_operator("("):
            levels.append(_Level())
        elif token.is_operator(")"):
            _close(levels)
        else:
            _count(levels[-1], token)
        if len(levels) > _ENGINE_DEPTH:
            return  # the engine refuses it
    while len(levels) > 1:
        _close(levels)
    if levels[0].cost > _MAX_COST:
        raise errors.QueryError(
            f"the query has too many operators in one chain: more than "
            f"{_MAX_COST // _OPERATOR_COST:,}, or {_MAX_COST:,} of AND and OR; write IN (...) for "
            "many values, or give them as a table"
        )


def _close(levels: list[_Level]) -> None:
    """Count a bracket, which has ended, to the condition that it is in."""
    cost = levels.pop().cost + 1
    if not levels:
        levels.append(_Level())
    levels[-1].inner = max(levels[-1].inner, cost)


def _count(level: _Level, token: Token) -> None:
    if token.is_operator(","):
        level.end_expression()
    elif token.is_word(*_JOINING):
        level.end_condition()
        level.joined += 1
    elif token.is_word(*_BRANCHING):
        level.end_condition()
    elif token.is_word(*_COMBINING):
        level.end_expression()
        level.combined += 1
    elif token.is_operator(*_OPERATORS) or token.is_word(*_CHAINING):
        level.chained += _OPERATOR_COST


def check_names(query: str) -> None:
    """Refuse a query with a name that is too long; strings may have any length.

    Raises
    ------
    QueryError
        The message shows how the name begins.

    Examples
    --------
    >>> check_names("SELECT age AS " + "a" * 2000)
    Traceback (most recent call last):
        ...
    daf_storage.errors.QueryError: the query has a name of 2,000 characters, more than 1,000, that
    begins with 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'; write a shorter one, or a string in
    single quotes
    """
    if len(query) <= _MOST or _MAY_BE_LONG.search(query) is None:
        return
    for token in tokens_of(query):
        size = token.stop - token.start
        if token.kind in _NAMES and size > _MOST:
            shown = query[token.start : token.start + _SHOWN]
            raise errors.QueryError(
                f"the query has a name of {size:,} characters, more than {_MOST:,}, that begins "
                f"with {shown!r}; write a shorter one, or a string in single quotes"
            )
