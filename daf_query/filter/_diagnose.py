"""Diagnose a predicate: count what its conjuncts leave, and explain those that leave nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from daf_query.filter._diagnosis import Conjunct, Diagnosis
from daf_query.filter._question import Question, nearest, of_predicate, of_select
from daf_query.sql import STRINGS, Engine, computed_table, is_number, mismatch
from daf_query.syntax import Term, WrappedSql
from daf_storage import DafError, errors

_MOST_CONSTANTS: Final = 5
"""How many of the values that do not occur are explained."""
_MOST_SHOWN: Final = 5
_MOST_CANDIDATES: Final = 100
"""How many strings are compared one by one; the engine chooses them."""


def diagnose(engine: Engine, schema: str, axis: str, predicate: str, *, select: bool) -> Diagnosis:
    """Count the rows that each conjunct of a predicate leaves, and say why it leaves none.

    Parameters
    ----------
    select
        Whether it is a whole SELECT, of whose WHERE is asked.

    Raises
    ------
    QueryError
        It is no SQL, or of several tables.
    """
    if not predicate.strip():
        raise errors.QueryError("the predicate is empty; write a condition, such as age > 60")
    question = (of_select if select else of_predicate)(schema, axis, predicate)
    rows = _Rows(engine, question.table)
    total = rows.count(())
    return Diagnosis(axis, predicate, total, tuple(_counted(rows, question, total)))


@dataclass(frozen=True)
class _Rows:
    """The rows of a table, of which is asked by queries."""

    engine: Engine
    table: str
    """As SQL."""

    def select(self, selected: str, conditions: Sequence[str] = (), end: str = "") -> pa.Table:
        # Not an injection: the query is read-only, one statement, and conditions are SQL by design.
        start = f"SELECT {selected} FROM {self.table} WHERE (\n"  # noqa: S608
        first, *others = conditions or ["TRUE"]
        rest = "".join(f" AND (\n{condition}\n)" for condition in others)
        wrapped = WrappedSql.between(start, first, f"\n){rest} {end}")
        try:
            return computed_table(self.engine.plan_raw(wrapped.query))
        except Exception as error:  # noqa: BLE001 - the engine raises plain Exceptions
            explained = self.engine.translated(error, wrapped.query)
            raise wrapped.error(explained, "predicate") from None

    def count(self, conditions: Sequence[str]) -> int:
        return int(self.select("count(*) AS n", conditions).column(0)[0].as_py())

    def type_of(self, expression: str) -> pa.DataType:
        found = self.select(f"{expression} AS value", ["FALSE"]).schema.field(0).type
        return found.value_type if pa.types.is_dictionary(found) else found

    def counts(self, expression: str, conditions: Sequence[str], end: str) -> dict[str, int]:
        """Return how often strings occur, in some order."""
        known = [*conditions, f"{expression} IS NOT NULL"]
        table = self.select(f"{expression} AS value, count(*) AS n", known, f"GROUP BY 1 {end}")
        return {str(row["value"]): row["n"] for row in table.to_pylist()}

    def described(self, expression: str, conditions: Sequence[str] = ()) -> str:
        """Return which values an expression has, in the rows that satisfy some conditions."""
        type_ = self.type_of(expression)
        if type_ in STRINGS:
            return f"{expression} is {self.strings(expression, conditions)}"
        if pa.types.is_boolean(type_):
            counts = {
                value: self.count([*conditions, f"{expression} IS {value}"])
                for value in ("TRUE", "FALSE", "NULL")
            }
            said = [f"{value.lower()} in {_rows(n)}" for value, n in counts.items() if n]
            return f"{expression} is {' and '.join(said) or 'missing in all rows'}"
        if not _has_order(type_):
            return ""
        selected = f"min({expression}), max({expression}), count({expression}), count(*)"
        table = self.select(selected, conditions)
        low, high, count, total = (column[0].as_py() for column in table.columns)
        if not count:
            return f"{expression} is missing in all {_rows(total)}"
        missing = f", {total - count:,} missing" if total > count else ""
        return f"{expression} is from {_plain(low)} to {_plain(high)} in {_rows(count)}{missing}"

    def strings(self, expression: str, conditions: Sequence[str] = ()) -> str:
        """Return the most frequent strings with their counts, and how many more there are."""
        known = self.counts(expression, conditions, f"ORDER BY 2 DESC, 1 LIMIT {_MOST_SHOWN}")
        if not known:
            return "missing in all rows"
        number = self.select(f"count(DISTINCT {expression})", conditions).column(0)[0].as_py()
        rest = number - len(known)
        return _shown(known) + (f" and {rest:,} more value{'s' * (rest > 1)}" if rest else "")


def _counted(rows: _Rows, question: Question, total: int) -> Iterator[Conjunct]:
    remaining: int | None = total
    before: list[str] = []
    for condition, terms in question.conjuncts:
        count, hints = _alone(rows, condition, terms)
        if total == 0 and count == 0:
            hints = ["the axis has no entries"]
        left = None
        if remaining is not None and count is not None:
            left = 0 if 0 in (count, remaining) else rows.count([*before, condition])
            if left == 0 and count and remaining:
                hints += _together(rows, condition, terms, before)
        remaining = left
        before.append(condition)
        yield Conjunct(condition, count, left, tuple(dict.fromkeys(hints)))


def _alone(rows: _Rows, condition: str, terms: Sequence[Term]) -> tuple[int | None, list[str]]:
    """Return how many rows satisfy a condition, None if it fails, and what is wrong with it."""
    count, said = None, ""
    try:
        count = rows.count([condition])
    except DafError as error:
        if isinstance(error, errors.QueryError) and error.line is not None and not terms:
            raise
        said = str(error)
    hints: list[str] = []
    for term in terms:
        try:
            hints += _of_term(rows, term, count)
        except DafError:  # the expression is wrong, which the condition says itself
            continue
    return count, hints or [said] * bool(said)


def _together(
    rows: _Rows, condition: str, terms: Sequence[Term], before: Sequence[str]
) -> list[str]:
    """Return why a condition leaves none of the rows that the conditions before it leave."""
    among, said, held = "among the rows so far", list[str](), before
    for earlier in before if len(before) > 1 else ():
        if not rows.count([earlier, condition]):
            among, held = f"where {earlier},", [earlier]
            said = [f"no row satisfies both this and {earlier}"]
            break
    described = [rows.described(each.expression, held) for each in terms if each.form != "missing"]
    return [*said, *(f"{among} {each}" for each in described if each)]


def _of_term(rows: _Rows, term: Term, count: int | None) -> Iterator[str]:
    name = term.expression
    type_ = rows.type_of(name)
    is_string = type_ in STRINGS
    wrong = mismatch(term, type_)
    if wrong and count in (None, 0):
        yield (
            _with_cast(rows, term, wrong)
            if is_string
            else wrong + (f"; write a number: {rows.described(name)}" if _has_order(type_) else "")
        )
    elif count is None:
        return
    elif term.form == "equal" and is_string:
        yield from () if term.is_negated else _absent(rows, term)
    elif count == 0 and term.form == "missing":
        yield f"{'each' if term.is_negated else 'no'} value of {name} is missing"
    elif count == 0 and term.form == "pattern" and not term.is_negated:
        folded = rows.count([f"{name} ILIKE {_quoted(term.constants[0])}"])
        if folded:
            yield f"LIKE compares case; ILIKE would match {_rows(folded)}"
    elif count == 0 and not is_string:
        known = rows.described(name)
        yield from [known] if known else ()
        if term.form == "equal" and _has_order(type_) and len(term.constants) == 1:
            yield from _neighbours(rows, name, term.constants[0])


def _with_cast(rows: _Rows, term: Term, wrong: str) -> str:
    """Return what is wrong with a number beside strings; if all of them are numbers, how to ask."""
    name = term.expression
    total = rows.count([f"{name} IS NOT NULL"])
    if not total or rows.count([f"try_cast({name} AS DOUBLE) IS NOT NULL"]) < total:
        return wrong
    number = next(each for each in term.constants if not isinstance(each, str))
    operator = term.operator if term.form == "order" and term.operator != "BETWEEN" else "="
    return (
        f"{name} holds strings, and {number} is a number; all of them are numbers: write "
        f"CAST({name} AS DOUBLE) {operator} {number}"
    )


def _neighbours(rows: _Rows, expression: str, constant: Any) -> Iterator[str]:
    """Yield the next smaller and the next larger value that occur."""
    given = _quoted(constant) if isinstance(constant, str) else constant
    found = [
        rows.select(f"{function}({expression})", [f"{expression} {sign} {given}"])
        for function, sign in (("max", "<"), ("min", ">"))
    ]
    near = [_plain(value) for table in found if (value := table.column(0)[0].as_py()) is not None]
    if near:
        yield f"the nearest value{'s are' if len(near) > 1 else ' is'} {' and '.join(near)}"


def _absent(rows: _Rows, term: Term) -> Iterator[str]:
    """Yield the strings that do not occur, each with the nearest that do."""
    name = term.expression
    strings = [value for value in dict.fromkeys(term.constants) if isinstance(value, str)]
    if not strings:
        return
    present = rows.counts(name, [f"{name} IN ({', '.join(map(_quoted, strings))})"], "")
    absent = [value for value in strings if value not in present]
    for value in absent[:_MOST_CONSTANTS]:
        distance = f"levenshtein(lower(trim({name})), {_quoted(value.strip().lower())})"
        end = f"ORDER BY min({distance}), 1 LIMIT {_MOST_CANDIDATES}"
        known = rows.counts(name, (), end)
        near = {each: known[each] for each in nearest(value, known)}
        rest = f"nearest: {_shown(near)}" if near else f"it has {rows.strings(name)}"
        yield f"{value!r} does not occur in {name}; {rest}"
    if len(absent) > _MOST_CONSTANTS:
        yield f"nor do {len(absent) - _MOST_CONSTANTS:,} more of these values"


def _shown(counts: dict[str, int]) -> str:
    return ", ".join(f"{name!r} ({_rows(count)})" for name, count in counts.items())


def _quoted(string: object) -> str:
    return "'" + str(string).replace("'", "''") + "'"


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"


def _plain(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _has_order(type_: pa.DataType) -> bool:
    return is_number(type_) or bool(pa.types.is_temporal(type_))
