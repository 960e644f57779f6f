"""Limits of parser and engine: queries that nest too deeply, names that are too long.

Both recurse, and end the process where its stack does.  Brackets and prefixes they count
themselves.  Not so a chain of operators, ``a + b + c``, each of which is an operand of the next:
thousands of them are as deep as as many brackets.

For a name that it does not know, the engine suggests others, which takes the product of both
lengths: for one of a million characters, hours, which nothing can interrupt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from daf_query.syntax._tokens import Token
from daf_storage import errors

_MAX_COST: Final = 3000
_OPERATOR_COST: Final = 3
"""Measured: chains of 4,000 AND or OR are answered, and 3,000 ``||`` end the process."""
_ENGINE_DEPTH: Final = 1000
"""More than the 50 brackets within each other that the engine takes."""
_JOINING: Final = ("AND", "OR", "XOR")
_COMBINING: Final = ("UNION", "EXCEPT", "INTERSECT", "JOIN")
_BRANCHING: Final = ("WHEN", "THEN", "ELSE")
_CHAINING: Final = ("IS", "IN", "LIKE", "ILIKE", "SIMILAR", "BETWEEN", "AT", "COLLATE", "DIV")
_PREFIX_COSTS: Final = {"INTERVAL": 30, "EXPLAIN": 150}
"""Words that may be repeated without end: measured in a thread with a stack of 1 MiB."""
_OPERATORS: Final = tuple("+-*/%|<>=!~^&#:@[")

_MOST: Final = 1000
_SHOWN: Final = 40
_NAMES: Final = ("word", "quoted", "parameter")


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


def check_tokens(tokens: Sequence[Token], text: str) -> None:
    """Refuse a text at which the parser or the engine would end the process, or never end.

    Raises
    ------
    QueryError
        It nests too deeply, or has too long a name; the message says what to write instead.
    """
    _check_names(tokens, text)
    if len(tokens) > _MAX_COST // max(_PREFIX_COSTS.values()):
        _check_nesting(tokens)


def _check_nesting(tokens: Sequence[Token]) -> None:
    levels = [_Level()]
    for token in tokens:
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
    elif token.is_word(*_PREFIX_COSTS):
        level.chained += _PREFIX_COSTS[token.text]


def _check_names(tokens: Sequence[Token], text: str) -> None:
    for token in tokens:
        size = token.stop - token.start
        if size > _MOST and token.kind in _NAMES:
            shown = text[token.start : token.start + _SHOWN]
            raise errors.QueryError(
                f"the query has a name of {size:,} characters, more than {_MOST:,}, that begins "
                f"with {shown!r}; write a shorter one, or a string in single quotes"
            )
