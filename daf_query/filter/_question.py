"""Questions: conditions on the rows of one table, in conjuncts; and what a cache says of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from daf_query.syntax import (
    Scope,
    Statement,
    Term,
    UnparsedError,
    condition_of,
    conjuncts_of,
    edited,
    identifiers_of,
    one_statement,
    parsed,
    python_edits,
    quoted_name,
    terms_of,
)
from daf_query.table import TableDataset, cached_range, cached_strings
from daf_storage import DafError, errors

_ENDS: Final = ("GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "FETCH", "WINDOW", "QUALIFY")
_MOST_STRINGS: Final = 10_000
_NEAREST: Final = 3


@dataclass(frozen=True, slots=True)
class Question:
    """Conditions on the rows of one table."""

    table: str
    """The table as SQL, maybe with an alias."""
    conjuncts: tuple[tuple[str, tuple[Term, ...]], ...]
    """The conditions as SQL, each with its terms."""


def of_predicate(schema: str, axis: str, predicate: str) -> Question:
    """Return the conditions of a predicate, without its ORDER BY and LIMIT."""
    condition = edited(condition_of(predicate), python_edits(predicate))
    table = f"{quoted_name(schema)}.{quoted_name(axis)}"
    if not condition.strip():
        return Question(table, ())
    try:
        statement = parsed(f"SELECT 1 FROM {table} WHERE (\n{condition}\n)")  # noqa: S608 - never run
    except UnparsedError:  # whoever counts its rows says what is wrong
        return Question(table, ((condition, ()),))
    return Question(table, tuple(_conjuncts(statement, statement.queries[-1].scopes[0])))


def of_select(schema: str, axis: str, query: str) -> Question:
    """Return the conditions of the WHERE of a SELECT of one table.

    Raises
    ------
    QueryError
        It is of several tables, of another one, or has no WHERE.
    """
    try:
        statement = parsed(one_statement(query))
    except UnparsedError as error:
        raise errors.QueryError(f"the SELECT is no SQL: {error}") from None
    scopes = statement.queries[-1].scopes
    sources = scopes[0].sources if len(scopes) == 1 else []
    if len(sources) != 1 or not sources[0].parts or not scopes[0].select["selection"]:
        raise errors.QueryError(
            "a diagnosis is of a predicate, or of a SELECT of one table with a WHERE; write the "
            "predicate alone"
        )
    parts = sources[0].parts
    if parts[-1] != axis or parts[-2:-1] not in ((), (schema,)):
        raise errors.QueryError(
            f"the SELECT is of {'.'.join(parts)!r}, and the diagnosis was asked of {axis!r}"
        )
    alias = f" AS {quoted_name(sources[0].name)}" if sources[0].has_alias else ""
    table = f"{quoted_name(schema)}.{quoted_name(axis)}{alias}"
    return Question(table, tuple(_conjuncts(statement, scopes[0])))


def _conjuncts(statement: Statement, scope: Scope) -> Iterator[tuple[str, tuple[Term, ...]]]:
    condition = scope.select["selection"]
    first, last = statement.span(condition)
    start = max(t.stop for t in statement.tokens if t.is_word("WHERE") and t.stop <= first)
    around = [pair.closing for pair in statement.around(start)]
    ends = (
        token.start
        for token in statement.tokens
        if token.start >= last and (token.is_word(*_ENDS) or token.start in around)
    )
    stop = next(ends, len(statement.text))
    for text, node in conjuncts_of(statement, condition, start, stop):
        yield text, tuple(terms_of(statement, node))


def cached_hints(table: TableDataset, schema: str, axis: str, predicate: str) -> list[str]:
    """Return which conjuncts of a predicate no row satisfies, as far as the cache shows it.

    The distinct strings of a column are cached when it was filtered by, and the ranges of numbers.
    """
    try:
        question = of_predicate(schema, axis, predicate)
        terms = [terms for _, terms in question.conjuncts]
        return [hint for each in terms if len(each) == 1 for hint in _of_term(table, each[0])]
    except DafError:  # it was answered already; there is nothing to say beyond that
        return []


def _of_term(table: TableDataset, term: Term) -> Iterator[str]:
    name = (identifiers_of(term.node) or [{"value": ""}])[-1]["value"]
    if term.is_negated or name not in table.schema.names:
        return
    if term.form == "equal" and (known := cached_strings(table, name)) is not None:
        yield from _absent(name, [each for each in term.constants if isinstance(each, str)], known)
    limits = cached_range(table, name)
    if limits is not None and _excludes(term, limits):
        yield f"{name} is from {limits[0]:g} to {limits[1]:g}"


def _absent(name: str, values: list[str], known: pa.Array) -> Iterator[str]:
    """Yield the strings that do not occur, if none of them does."""
    strings = {string for string in known.to_pylist() if string is not None}
    if strings & set(values) or len(strings) > _MOST_STRINGS:
        return
    for value in values[:_NEAREST]:
        near = ", ".join(map(repr, nearest(value, sorted(strings))))
        yield f"{value!r} does not occur in {name}" + (f"; nearest: {near}" if near else "")


def nearest(value: str, known: Iterable[str]) -> list[str]:
    """Return the strings that are like another; first those of other case and blanks around.

    >>> nearest("n13", ["N1", " N13", "x"])
    [' N13', 'N1']
    """
    folded: dict[str, list[str]] = {}
    for name in known:
        folded.setdefault(name.strip().casefold(), []).append(name)
    wanted = value.strip().casefold()
    close = difflib.get_close_matches(wanted, list(folded), n=_NEAREST)
    return [name for each in dict.fromkeys([wanted, *close]) for name in folded.get(each, ())][
        :_NEAREST
    ]


def _excludes(term: Term, limits: tuple[float, float]) -> bool:
    """Return whether no number within limits satisfies a term."""
    low, high = limits
    values = [each for each in term.constants if not isinstance(each, str | bool)]
    if len(values) < len(term.constants) or term.form not in ("equal", "order"):
        return False
    if term.form == "equal":
        return all(not low <= value <= high for value in values)
    if term.operator == "BETWEEN":
        return values[0] > high or values[1] < low
    is_possible = {
        "<": low < values[0],
        "<=": low <= values[0],
        ">": high > values[0],
        ">=": high >= values[0],
    }
    return not is_possible[term.operator]
