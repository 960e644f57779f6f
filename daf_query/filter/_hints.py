"""Hints about the terms of a condition: values that do not occur, ranges, and types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from daf_query.filter._facts import Facts, Range
from daf_query.filter._terms import Term, string_of, terms_of
from daf_query.filter._type_mismatch import type_mismatch
from daf_storage import DafError

_MOST_CONSTANTS: Final = 5
"""How many of the values that do not occur are explained."""
_MOST_SHOWN: Final = 5
_TRUTH_VALUES: Final = ("TRUE", "FALSE", "NULL")


def hints_of(facts: Facts, condition: str, *, count: int | None) -> list[str]:
    """Return what is wrong with a condition, as far as that is known.

    Parameters
    ----------
    count
        How many rows satisfy it; None if it fails.
    """
    hints: list[str] = []
    for term in terms_of(condition):
        try:
            hints += _of_term(facts, term, count)
        except DafError:  # the expression is wrong, which the condition says itself
            continue
    return list(dict.fromkeys(hints))


def hints_among(facts: Facts, condition: str, before: Sequence[str], *, among: str) -> list[str]:
    """Return what the expressions of a condition are where conditions before it hold.

    Parameters
    ----------
    among
        How the hints call these rows.
    """
    hints = []
    for term in terms_of(condition):
        value_type = facts.type_of(term.expression)
        if value_type is None or term.form == "missing":
            continue
        if _is_string(value_type):
            known = facts.frequent(term.expression, before)
            if known is not None:
                hints.append(f"{among} {term.expression} is {_shown(known)}")
        elif _has_order(value_type):
            hints.append(f"{among} {_range(facts.range_of(term.expression, before), term)}")
        elif pa.types.is_boolean(value_type):
            hints.append(f"{among} {_truths(facts, term.expression, before)}")
    return list(dict.fromkeys(hints))


def _of_term(facts: Facts, term: Term, count: int | None) -> Iterator[str]:
    value_type = facts.type_of(term.expression)
    if value_type is None:
        return
    mismatch = _mismatch(facts, term, value_type)
    if mismatch and count in (None, 0):
        yield mismatch
        return
    if count is None:
        return
    if term.form == "equal" and _is_string(value_type):
        if not term.is_negated:
            yield from _absent(facts, term)
    elif count == 0 and term.form in ("equal", "order") and _has_order(value_type):
        known = facts.range_of(term.expression)
        yield _range(known, term)
        if term.form == "equal" and known.count and len(term.constants) == 1:
            near = facts.neighbours(term.expression, term.constants[0])
            verb = "value is" if len(near) == 1 else "values are"
            yield f"the nearest {verb} {' and '.join(_plain(value) for value in near)}"
    elif count == 0:
        yield from _of_others(facts, term, value_type)


def _of_others(facts: Facts, term: Term, value_type: pa.DataType) -> Iterator[str]:
    if term.form == "pattern" and not term.is_negated:
        folded = facts.count([f"{term.expression} ILIKE {term.constants[0]}"])
        if folded:
            yield f"LIKE compares case; ILIKE would match {_rows(folded)}"
    elif term.form == "missing":
        is_any = "no value" if not term.is_negated else "each value"
        yield f"{is_any} of {term.expression} is missing"
    elif pa.types.is_boolean(value_type):
        yield _truths(facts, term.expression, ())


def _truths(facts: Facts, expression: str, conditions: Sequence[str]) -> str:
    """Return how often an expression is true and false."""
    counts = {
        value: facts.count([*conditions, f"{expression} IS {value}"]) for value in _TRUTH_VALUES
    }
    shown = " and ".join(f"{value.lower()} in {_rows(n)}" for value, n in counts.items() if n)
    return f"{expression} is {shown or 'missing in all rows'}"


def _mismatch(facts: Facts, term: Term, value_type: pa.DataType) -> str:
    """Return what to write where a value is compared with a constant of another type."""
    said = type_mismatch(term, value_type)
    name = term.expression
    if not said or pa.types.is_boolean(value_type):
        return said
    if not _is_string(value_type):
        return f"{said}; write a number: {_range(facts.range_of(name), term)}"
    total = facts.count([f"{name} IS NOT NULL"])
    if not total or facts.count([f"try_cast({name} AS DOUBLE) IS NOT NULL"]) < total:
        return said
    number = next(each for each in term.constants if string_of(each) is None)
    operator = term.operator if term.form == "order" and term.operator != "BETWEEN" else "="
    numeric = f"CAST({name} AS DOUBLE) {operator} {number}"
    return (
        f"{name} holds strings, and {number} is a number; all of them are numbers: write {numeric}"
    )


def _absent(facts: Facts, term: Term) -> Iterator[str]:
    """Yield the strings that do not occur, each with the nearest that do."""
    quoted = {c: string_of(c) for c in dict.fromkeys(term.constants)}
    strings = {c: value for c, value in quoted.items() if value is not None}
    if not strings:
        return
    present = facts.counts_of(term.expression, list(strings))
    absent = [value for value in strings.values() if value not in present]
    for value in absent[:_MOST_CONSTANTS]:
        near = facts.nearest(term.expression, value)
        if near:
            yield f"{value!r} does not occur in {term.expression}; nearest: {_shown(near)}"
        else:
            known = facts.frequent(term.expression)
            has = f"; it has {_shown(known)}" if known is not None else ""
            yield f"{value!r} does not occur in {term.expression}{has}"
    if len(absent) > _MOST_CONSTANTS:
        yield f"nor do {len(absent) - _MOST_CONSTANTS:,} more of these values"


def _shown(counts: Mapping[str, int]) -> str:
    """Return strings with their counts, some of them."""
    if not counts:
        return "missing in all rows"
    shown = [f"{name!r} ({_rows(count)})" for name, count in list(counts.items())[:_MOST_SHOWN]]
    rest = len(counts) - _MOST_SHOWN
    more = f" and {rest:,} more value{'s' * (rest > 1)}" if rest > 0 else ""
    return ", ".join(shown) + more


def _range(known: Range, term: Term) -> str:
    missing = f", {known.missing:,} missing" if known.missing else ""
    if not known.count:
        return f"{term.expression} is missing in all {_rows(known.missing)}"
    return (
        f"{term.expression} is from {_plain(known.low)} to {_plain(known.high)} "
        f"in {_rows(known.count)}{missing}"
    )


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"


def _plain(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _is_string(value_type: pa.DataType) -> bool:
    return value_type in (pa.string(), pa.large_string(), pa.string_view())


def _is_number(value_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(value_type) or pa.types.is_floating(value_type))


def _has_order(value_type: pa.DataType) -> bool:
    return _is_number(value_type) or bool(pa.types.is_temporal(value_type))
