"""Hints on why a predicate matches nothing, of what the cache holds already: nothing is read."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

import pyarrow as pa

from daf_query.filter._operands import value_types
from daf_query.filter._question import question_of_predicate
from daf_query.filter._terms import Term, string_of, terms_of
from daf_query.syntax import unquoted_name
from daf_query.table import TableDataset, cached_range, cached_strings
from daf_storage import DafError

_MOST_STRINGS = 10_000
_NEAREST = 3


def cached_hints(table: TableDataset, schema: str, axis: str, predicate: str) -> list[str]:
    """Return which conjuncts of a predicate no row satisfies, as far as the cache shows it.

    The distinct strings of a column are cached when it was filtered by, and the ranges of numbers.
    """
    try:
        question = question_of_predicate(schema, axis, predicate, value_types(table.schema))
        terms = [terms_of(conjunct) for conjunct in question.conjuncts]
        return [hint for each in terms if len(each) == 1 for hint in _of_term(table, each[0])]
    except DafError:  # it was answered already; there is nothing to say beyond that
        return []


def _of_term(table: TableDataset, term: Term) -> Iterator[str]:
    name = unquoted_name(term.expression)
    if term.is_negated or name not in table.schema.names:
        return
    if term.form == "equal":
        known = cached_strings(table, name)
        values = [string_of(constant) for constant in term.constants]
        if known is not None and len(known) <= _MOST_STRINGS:
            yield from _absent(name, [value for value in values if value is not None], known)
    limits = cached_range(table, name)
    if limits is not None and _excludes(term, limits):
        yield f"{name} is from {limits[0]:g} to {limits[1]:g}"


def _absent(name: str, values: Sequence[str], known: pa.Array) -> Iterator[str]:
    """Yield the strings that do not occur, if none of them does."""
    strings = {string for string in known.to_pylist() if string is not None}
    if strings & set(values):
        return
    folded = {string.strip().casefold(): string for string in sorted(strings)}
    for value in values[:_NEAREST]:
        near = difflib.get_close_matches(value.strip().casefold(), list(folded), n=_NEAREST)
        nearest = ", ".join(repr(folded[each]) for each in near)
        yield f"{value!r} does not occur in {name}" + (f"; nearest: {nearest}" if near else "")


def _excludes(term: Term, limits: tuple[float, float]) -> bool:
    """Return whether no number within limits satisfies a term."""
    if term.form not in ("equal", "order"):
        return False
    try:
        constants = [float(constant) for constant in term.constants]
    except ValueError:
        return False
    low, high = limits
    if term.form == "equal":
        return all(not low <= constant <= high for constant in constants)
    if term.operator == "BETWEEN":
        return constants[0] > high or constants[1] < low
    excluded = {
        "<": constants[0] <= low,
        "<=": constants[0] < low,
        ">": constants[0] >= high,
        ">=": constants[0] > high,
    }
    return excluded[term.operator]
