"""Comparisons of a condition: their operators and their operands.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from daf_query.filter._token_tree import Item, ends_operand
from daf_query.syntax import Token

EQUALITIES: Final = ("=", "==", "!=", "<>")
ORDERS: Final = ("<", "<=", ">", ">=")
_PATTERNS: Final = ("~*", "!~", "!~*", "~~", "~~*", "!~~", "!~~*")
_SYMBOLS: Final = (*EQUALITIES, *ORDERS, "<=>", "@>", "<@", *_PATTERNS)
_WORDS: Final = ("IN", "LIKE", "ILIKE", "SIMILAR", "BETWEEN", "IS", "RLIKE", "REGEXP")
_PARTS: Final = ("NOT", "TO", "AND", "ESCAPE", "DISTINCT", "FROM", "SYMMETRIC")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Operators that compare, and what is between them."""

    operators: tuple[tuple[Token, str], ...]
    """The first token of each, and its symbol or words."""
    operands: tuple[tuple[Item, ...], ...]
    """One more than the operators; what follows IN and IS is none, and empty here."""


def comparison_of(items: Sequence[Item]) -> Comparison | None:
    """Return the comparison that items without AND, OR and NOT in front are; None if they are none.

    A chain, ``a < b < c``, is one comparison with two operators.
    """
    operators: list[tuple[Token, str]] = []
    operands: list[list[Item]] = [[]]
    is_skipped = False
    for place, item in enumerate(items):
        symbol = _symbol(items, place)
        if symbol is None:
            if not is_skipped:
                operands[-1].append(item)
        elif isinstance(item, Token):
            is_part = symbol in _PARTS
            if is_part and operands[-1]:
                operands.append([])
            elif not is_part:
                operators.append((item, symbol))
                if operands[-1] or len(operators) == 1:
                    operands.append([])
                is_skipped = symbol in ("IN", "IS")
    if not operators:
        return None
    return Comparison(tuple(operators), tuple(tuple(part) for part in operands))


def is_chain(comparison: Comparison) -> bool:
    """Return whether several comparisons follow each other without AND."""
    symbols = [symbol for _, symbol in comparison.operators]
    return len(symbols) > 1 and all(symbol in (*EQUALITIES, *ORDERS) for symbol in symbols)


def _symbol(items: Sequence[Item], place: int) -> str | None:
    """Return the operator of comparison, or the word of one, that an item is."""
    item = items[place]
    if not isinstance(item, Token):
        return None
    if item.kind == "operator":
        is_infix = item.text == "~" and place > 0 and _ends_operand(items[place - 1])
        return item.text if item.text in _SYMBOLS or is_infix else None
    return item.text if item.is_word(*_WORDS, *_PARTS) else None


def _ends_operand(item: Item) -> bool:
    return not isinstance(item, Token) or ends_operand(item)
