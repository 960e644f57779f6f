"""Diagnoses of predicates: what each conjunct leaves, and why none.

Conjuncts are counted by queries, and those that leave nothing are explained by others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

from daf_query.scan import show_pandas_for
from daf_query.sql._engine import Engine
from daf_query.sql._messages import STRINGS, is_number, mismatch
from daf_query.sql._result import Printed
from daf_query.syntax import (
    Term,
    WrappedSql,
    condition_of,
    conjuncts_of,
    edited,
    one_statement,
    parsed,
    python_edits,
    quoted_name,
    quoted_string,
    terms_of,
)
from daf_storage import DafError, errors
from daf_storage._lazy import pc
from daf_storage._terminal_text import visible_name

_MOST_CONSTANTS: Final = 5
"""How many of the values that do not occur are explained."""
_MOST_SHOWN: Final = 5
_NEAREST: Final = 3


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A condition of a predicate that is joined with the others by AND."""

    sql: str
    """As SQL."""
    rows: int | None
    """How many rows satisfy it; None if it fails."""
    remaining: int | None
    """How many satisfy it and all conjuncts before it; None if one of them fails."""
    hints: tuple[str, ...] = ()
    """What is wrong with it, as far as that is known, and what to write."""


@dataclass(frozen=True, slots=True)
class Diagnosis(Printed):
    """How many rows each conjunct of a predicate leaves, and why; see `DafSession.diagnose`."""

    axis: str
    """The table."""
    predicate: str
    """As it was written."""
    total: int
    """Number of rows of the table."""
    conjuncts: tuple[Conjunct, ...]
    """In the order in which they are written."""

    @property
    def matched(self) -> int | None:
        """How many rows satisfy all conjuncts; None if one of them fails."""
        return self.conjuncts[-1].remaining if self.conjuncts else self.total

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python, for machines."""
        return {**asdict(self), "matched": self.matched}

    def __repr__(self) -> str:
        return "\n".join(map(visible_name, self._lines()))

    def _lines(self) -> Iterator[str]:
        if self.matched is None:
            yield f"the predicate fails on {self.axis}, which has {self.total:,} rows"
        else:
            yield f"{self.matched:,} of {self.total:,} rows of {self.axis} match"
        counts = [(_or_fails(each.rows), _or_fails(each.remaining)) for each in self.conjuncts]
        widths = [
            max(map(len, column)) for column in zip(("alone", "so far"), *counts, strict=True)
        ]
        yield f"  {'alone':>{widths[0]}}  {'so far':>{widths[1]}}  condition"
        for each, (alone, remaining) in zip(self.conjuncts, counts, strict=True):
            yield f"  {alone:>{widths[0]}}  {remaining:>{widths[1]}}  {' '.join(each.sql.split())}"
            indent = " " * (sum(widths) + 6)
            yield from (f"{indent}  {hint}" for hint in each.hints)


def _or_fails(count: int | None) -> str:
    return "fails" if count is None else f"{count:,}"


_Conditions: TypeAlias = list[tuple[str, tuple[Term, ...]]]
"""Conditions as SQL, each with its terms."""


def _question(schema: str, axis: str, text: str, *, select: bool) -> tuple[str, _Conditions]:
    """Return the table of a predicate, maybe with an alias, and its conditions.

    Those of a SELECT are of its WHERE; ORDER BY and LIMIT are left out.

    Raises
    ------
    QueryError
        A SELECT is of several tables, of another one, or has no WHERE.
    """
    table = f"{quoted_name(schema)}.{quoted_name(axis)}"
    if not select:
        condition = edited(condition_of(text), python_edits(text))
        if not condition.strip():
            return table, []
        text = f"SELECT 1 FROM {table} WHERE (\n{condition}\n)"  # noqa: S608 - never run
        if parsed(text) is None:  # whoever counts the rows says what is wrong
            return table, [(condition, ())]
    statement = parsed(one_statement(text))
    scopes = statement.queries[-1].scopes if statement is not None else []
    sources = scopes[0].sources if len(scopes) == 1 else []
    is_one = len(sources) == 1 and sources[0].parts and scopes[0].select["selection"]
    if statement is None or not is_one:
        raise errors.QueryError(
            "a diagnosis is of a predicate, or of a SELECT of one table with a WHERE; write the "
            "predicate alone"
        )
    named = sources[0].parts
    if named[-1] != axis or named[-2:-1] not in ((), (schema,)):
        raise errors.QueryError(
            f"the SELECT is of {'.'.join(named)!r}, and the diagnosis was asked of {axis!r}"
        )
    alias = f" AS {quoted_name(sources[0].name)}" if sources[0].has_alias else ""
    parts = conjuncts_of(statement, scopes[0].select["selection"])
    return f"{table}{alias}", [(part, tuple(terms_of(statement, node))) for part, node in parts]


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
    table, conditions = _question(schema, axis, predicate, select=select)
    rows = _Rows(engine, table)
    total = rows.count(())
    return Diagnosis(axis, predicate, total, tuple(_counted(rows, conditions, total)))


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
        return self.engine.rows_of(wrapped, "predicate")

    def count(self, conditions: Sequence[str]) -> int:
        return int(self.select("count(*) AS n", conditions).column(0)[0].as_py())

    def values(self, expression: str, conditions: Sequence[str] = ()) -> pa.ChunkedArray:
        """Return the values of an expression."""
        values = self.select(f"{expression} AS value", conditions).column(0)
        show_pandas_for(values.type)
        is_encoded = pa.types.is_dictionary(values.type)
        return values.cast(values.type.value_type) if is_encoded else values

    def near(self, expression: str, value: str) -> dict[str, int]:
        """Return the strings that differ in the fewest characters from one, with their counts."""
        plain, wanted = f"lower(trim({expression}))", quoted_string(value.strip().lower())
        distance = f"levenshtein({plain}, {wanted})"
        is_close = f"2 * {distance} < greatest(length({plain}), length({wanted}))"
        end = f"GROUP BY 1 ORDER BY min({distance}), 1 LIMIT {_NEAREST}"
        table = self.select(f"{expression} AS value, count(*) AS n", [is_close], end)
        return {str(row["value"]): row["n"] for row in table.to_pylist()}


def _described(expression: str, values: pa.ChunkedArray) -> str:
    """Return which values an expression has; empty if that has no meaning."""
    present, total = values.drop_null(), len(values)
    if pa.types.is_boolean(values.type):
        trues, falses = (pc.sum(each).as_py() or 0 for each in (present, pc.invert(present)))
        counts = {"true": trues, "false": falses, "null": total - len(present)}
        said = [f"{name} in {_rows(count)}" for name, count in counts.items() if count]
        return f"{expression} is {' and '.join(said) or 'missing in all rows'}"
    if values.type in STRINGS:
        return f"{expression} is {_strings(values)}"
    if not _has_order(values.type):
        return ""
    if not present:
        return f"{expression} is missing in all {_rows(total)}"
    low, high = (_plain(value.as_py()) for value in pc.min_max(present).values())
    missing = f", {total - len(present):,} missing" if total > len(present) else ""
    return f"{expression} is from {low} to {high} in {_rows(len(present))}{missing}"


def _strings(values: pa.ChunkedArray) -> str:
    """Return the most frequent strings with their counts, and how many more there are."""
    counted = pa.table(pc.value_counts(values.drop_null()).flatten(), ["value", "count"])
    keys = [("count", "descending"), ("value", "ascending")]
    most = counted.take(pc.select_k_unstable(counted, _MOST_SHOWN, sort_keys=keys))
    rest = len(counted) - len(most)
    more = f" and {rest:,} more value{'s' * (rest > 1)}" if rest else ""
    said = _shown({each["value"]: each["count"] for each in most.to_pylist()})
    return said + more if len(most) else "missing in all rows"


def _counted(rows: _Rows, conditions: _Conditions, total: int) -> Iterator[Conjunct]:
    remaining: int | None = total
    before: list[str] = []
    for condition, terms in conditions:
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
        with suppress(DafError):  # the expression is wrong, which the condition says itself
            hints += _of_term(rows, term, count)
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
    names = [each.expression for each in terms if each.form != "missing"]
    described = [_described(name, rows.values(name, held)) for name in names]
    return [*said, *(f"{among} {each}" for each in described if each)]


def _of_term(rows: _Rows, term: Term, count: int | None) -> Iterator[str]:
    name, values = term.expression, rows.values(term.expression)
    is_string, has_order = values.type in STRINGS, _has_order(values.type)
    wrong = "" if count else mismatch(term, values.type)
    if wrong:
        described = _described(name, values) if has_order else ""
        yield f"{wrong}; write a number: {described}" if described else wrong
    elif count is None:
        return
    elif term.form == "equal" and is_string:
        yield from () if term.is_negated else _absent(rows, term, values)
    elif count == 0 and term.form == "missing":
        yield f"{'each' if term.is_negated else 'no'} value of {name} is missing"
    elif count == 0 and term.form == "pattern" and not term.is_negated:
        folded = rows.count([f"{name} ILIKE {quoted_string(term.values[0])}"])
        if folded:
            yield f"LIKE compares case; ILIKE would match {_rows(folded)}"
    elif count == 0 and not is_string:
        described = _described(name, values)
        yield from [described] * bool(described)
        if term.form == "equal" and has_order and len(term.values) == 1:
            yield from _neighbours(values, term.values[0])


def _neighbours(values: pa.ChunkedArray, constant: str | float) -> Iterator[str]:
    """Yield the next smaller and the next larger value that occur."""
    with suppress(pa.ArrowInvalid, pa.ArrowTypeError):
        given = pa.scalar(constant)
        given = given.cast(values.type) if isinstance(constant, str) else given
        below, above = (values.filter(each(values, given)) for each in (pc.less, pc.greater))
        found = [value.as_py() for value in (pc.max(below), pc.min(above)) if value.is_valid]
        if found:
            is_are = "s are" if len(found) > 1 else " is"
            yield f"the nearest value{is_are} {' and '.join(map(_plain, found))}"


def _absent(rows: _Rows, term: Term, values: pa.ChunkedArray) -> Iterator[str]:
    """Yield the strings that do not occur, each with the nearest that do."""
    strings = [value for value in dict.fromkeys(term.values) if isinstance(value, str)]
    absent = [value for value in strings if pc.index(values, value).as_py() < 0]
    for value in absent[:_MOST_CONSTANTS]:
        near = rows.near(term.expression, value)
        rest = f"nearest: {_shown(near)}" if near else f"it has {_strings(values)}"
        yield f"{value!r} does not occur in {term.expression}; {rest}"
    if len(absent) > _MOST_CONSTANTS:
        yield f"nor do {len(absent) - _MOST_CONSTANTS:,} more of these values"


def _shown(counts: dict[str, int]) -> str:
    return ", ".join(f"{name!r} ({_rows(count)})" for name, count in counts.items())


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"


def _plain(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _has_order(type_: pa.DataType) -> bool:
    return is_number(type_) or bool(pa.types.is_temporal(type_))
