"""The terms of a condition: expressions that are compared with constants.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from daf_query.filter._comparisons import EQUALITIES, ORDERS, Comparison, comparison_of
from daf_query.filter._token_tree import (
    Group,
    Item,
    conjuncts_of,
    disjuncts_of,
    split_at,
    token_tree,
)
from daf_query.syntax import Token

TermForm: TypeAlias = Literal["equal", "order", "pattern", "missing", "boolean"]
"""How an expression is compared: by = or IN, by < and its kin, by LIKE, by IS NULL, or not."""

_CONSTANT: Final = re.compile(r"-?\d[\d.]*|'(?:[^']|'')*'")
_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Term:
    """An expression and the constants that it is compared with."""

    expression: str
    """As SQL."""
    form: TermForm
    operator: str
    """As SQL, with the expression on the left."""
    constants: tuple[str, ...] = ()
    """As SQL: numbers, strings, TRUE and FALSE."""
    is_negated: bool = False
    """Whether rows that satisfy it are left out."""


def string_of(constant: str) -> str | None:
    """Return the value of a constant that is a string.

    >>> string_of("'it''s'"), string_of("3")
    ("it's", None)
    """
    is_string = constant.startswith("'") and constant.endswith("'")
    return constant[1:-1].replace("''", "'") if is_string else None


def terms_of(condition: str) -> list[Term]:
    """Return the terms of a condition, at any depth; those of subqueries are not among them.

    >>> [(t.expression, t.operator, t.constants) for t in terms_of("a = 'x' OR 3 < b")]
    [('a', '=', ("'x'",)), ('b', '>', ('3',))]
    """
    return list(_terms(condition, token_tree(condition) or (), is_negated=False))


def _terms(text: str, items: Sequence[Item], *, is_negated: bool) -> Iterator[Term]:
    for disjunct in disjuncts_of(items):
        for conjunct in conjuncts_of(disjunct):
            rest = list(conjunct)
            negated = is_negated
            while rest and isinstance(rest[0], Token) and rest[0].is_word("NOT"):
                negated = not negated
                rest.pop(0)
            if rest:
                yield from _of_part(text, rest, is_negated=negated)


def _of_part(text: str, items: Sequence[Item], *, is_negated: bool) -> Iterator[Term]:
    comparison = comparison_of(items)
    first = items[0]
    if comparison is not None:
        term = _of_comparison(text, items, comparison, is_negated=is_negated)
        if term is not None:
            yield term
    elif isinstance(first, Group) and len(items) == 1:
        if not first.is_subquery and first.is_bracket("("):
            yield from _terms(text, first.items, is_negated=is_negated)
    elif all(isinstance(item, Token) for item in items) and _constant(text, items) is None:
        yield Term(_sql(text, items), "boolean", "", is_negated=is_negated)


def _of_comparison(
    text: str, items: Sequence[Item], comparison: Comparison, *, is_negated: bool
) -> Term | None:
    if len(comparison.operators) != 1:
        return None
    token, symbol = comparison.operators[0]
    place = items.index(token)
    before = [item for item in items[:place] if not _is_not(item)]
    if not before:
        return None
    expression = _sql(text, before)
    negated = is_negated != (len(before) < place)
    if symbol == "IN":
        constants = _listed(text, items[place + 1 :])
        return Term(expression, "equal", "IN", constants, negated) if constants else None
    if symbol == "IS":
        after = [item.text for item in items[place + 1 :] if isinstance(item, Token)]
        is_positive = after[:1] != ["NOT"]
        is_missing = after[-1:] == ["NULL"]
        return (
            Term(expression, "missing", "IS NULL", (), negated == is_positive)
            if is_missing
            else None
        )
    sides = [part for part in comparison.operands if part]
    return _of_sides(text, sides, symbol, is_negated=negated)


def _of_sides(
    text: str, sides: Sequence[Sequence[Item]], symbol: str, *, is_negated: bool
) -> Term | None:
    """Return the term of an expression and constants, of which one may be on the left."""
    constants = tuple(_constant(text, side) or "" for side in sides)
    is_constant = [bool(constant) for constant in constants]
    if symbol == "BETWEEN" and is_constant == [False, True, True]:
        return Term(_sql(text, sides[0]), "order", symbol, constants[1:], is_negated)
    if sorted(is_constant) != [False, True]:
        return None
    expression = _sql(text, sides[is_constant.index(False)])
    constant = tuple(filter(None, constants))
    if symbol in EQUALITIES:
        return Term(expression, "equal", "=", constant, is_negated != (symbol in ("!=", "<>")))
    if symbol in ORDERS:
        operator = _FLIPPED[symbol] if is_constant[0] else symbol
        return Term(expression, "order", operator, constant, is_negated)
    is_pattern = symbol == "LIKE" and is_constant[1]
    return Term(expression, "pattern", "LIKE", constant, is_negated) if is_pattern else None


def _is_not(item: Item) -> bool:
    return isinstance(item, Token) and item.is_word("NOT")


def _sql(text: str, items: Sequence[Item]) -> str:
    return text[items[0].start : items[-1].stop]


def _constant(text: str, items: Sequence[Item]) -> str | None:
    """Return a constant as it is written; None if items are something else."""
    last = items[-1]
    is_signed = len(items) == 2 and isinstance(items[0], Token) and items[0].is_operator("-", "+")
    if not isinstance(last, Token) or not (len(items) == 1 or is_signed):
        return None
    is_number = last.kind == "number"
    is_other = last.kind == "string" or last.is_word("TRUE", "FALSE")
    return _sql(text, items) if is_number or (is_other and not is_signed) else None


def _listed(text: str, items: Sequence[Item]) -> tuple[str, ...]:
    """Return the constants of a list; none if it has something else, too."""
    group = items[0] if items else None
    if not isinstance(group, Group) or group.is_subquery:
        return ()
    constants: list[str] = []
    for part in split_at(group.items, lambda i: isinstance(i, Token) and i.is_operator(",")):
        rest = list(part)
        if rest and isinstance(rest[0], Token) and rest[0].kind == "constants":
            constants += _CONSTANT.findall(text[rest[0].start : rest[0].stop])
            rest.pop(0)
        constant = _constant(text, rest) if rest else ""
        if constant is None:
            return ()
        constants += [constant] if constant else []
    return tuple(constants)
