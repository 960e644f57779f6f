"""Diagnoses of predicates: what each conjunct leaves, and why none; and what a cache says of that.

Conjuncts are counted by queries, and those that leave nothing are explained by others.
"""

from __future__ import annotations

import difflib
import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

from daf_query.sql._engine import Engine
from daf_query.sql._messages import STRINGS, is_number, mismatch
from daf_query.syntax import (
    Scope,
    Statement,
    Term,
    UnparsedError,
    WrappedSql,
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
from daf_storage._terminal_text import visible_name

_MOST_CONSTANTS: Final = 5
"""How many of the values that do not occur are explained."""
_MOST_SHOWN: Final = 5
_MOST_CANDIDATES: Final = 100
"""How many strings are compared one by one; the engine chooses them."""
_ENDS: Final = ("GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "FETCH", "WINDOW", "QUALIFY")
_MOST_STRINGS: Final = 10_000
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
class Diagnosis:
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

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{_or_fails(each.rows)}</td><td>{_or_fails(each.remaining)}</td>"
            f"<td><code>{html.escape(each.sql)}</code>"
            + "".join(f"<br>{html.escape(hint)}" for hint in each.hints)
            + "</td></tr>"
            for each in self.conjuncts
        )
        head = "<tr><th>alone</th><th>so far</th><th>condition</th></tr>"
        return f"<p>{html.escape(self._headline())}</p><table>{head}{rows}</table>"

    def _headline(self) -> str:
        if self.matched is None:
            return f"the predicate fails on {self.axis}, which has {self.total:,} rows"
        return f"{self.matched:,} of {self.total:,} rows of {self.axis} match"

    def _lines(self) -> Iterator[str]:
        yield self._headline()
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
    condition = "" if select else edited(condition_of(text), python_edits(text))
    if not select and not condition.strip():
        return table, []
    query = one_statement(text) if select else f"SELECT 1 FROM {table} WHERE (\n{condition}\n)"  # noqa: S608 - never run
    try:
        statement = parsed(query)
    except UnparsedError as error:  # whoever counts the rows of a predicate says what is wrong
        if select:
            raise errors.QueryError(f"the SELECT is no SQL: {error}") from None
        return table, [(condition, ())]
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
    return f"{table}{alias}", list(_conjuncts(statement, scopes[0]))


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
        _, conditions = _question(schema, axis, predicate, select=False)
        terms = [terms[0] for _, terms in conditions if len(terms) == 1]
        return [hint for each in terms for hint in _of_cached(table, each)]
    except DafError:  # it was answered already; there is nothing to say beyond that
        return []


def _of_cached(table: TableDataset, term: Term) -> Iterator[str]:
    name = (identifiers_of(term.node) or [{"value": ""}])[-1]["value"]
    if term.is_negated or name not in table.schema.names:
        return
    if term.form == "equal" and (known := cached_strings(table, name)) is not None:
        yield from _not_cached(
            name, [each for each in term.constants if isinstance(each, str)], known
        )
    limits = cached_range(table, name)
    if limits is not None and _excludes(term, limits):
        yield f"{name} is from {limits[0]:g} to {limits[1]:g}"


def _not_cached(name: str, values: list[str], known: pa.Array) -> Iterator[str]:
    """Yield the strings that do not occur, if none of them does."""
    strings = {string for string in known.to_pylist() if string is not None}
    if strings & set(values) or len(strings) > _MOST_STRINGS:
        return
    for value in values[:_NEAREST]:
        near = ", ".join(map(repr, _nearest(value, sorted(strings))))
        yield f"{value!r} does not occur in {name}" + (f"; nearest: {near}" if near else "")


def _nearest(value: str, known: Iterable[str]) -> list[str]:
    """Return the strings that are like another; first those of other case and blanks around.

    >>> _nearest("n13", ["N1", " N13", "x"])
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
    nearest, value = (low, values[0]) if term.operator[0] == "<" else (-high, -values[0])
    return nearest > value or (nearest == value and "=" not in term.operator)


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
        near = {each: known[each] for each in _nearest(value, known)}
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
