"""Outcomes: what comes of each query of a subject on a path."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from daf_query import DafSession
from daf_storage import DafError
from tests.conformance.cases import LARGE, PATHS, Case, cases_of
from tests.conformance.forms import Forms
from tests.conformance.oracles import Answer, Oracles, answer_of
from tests.conformance.values import in_any_order

_WHOLE = ("directory", "large_directory")
"""Paths whose tables are those of others, but for collections: of small data and of large."""

_CHOSEN = re.compile(r"SELECT name FROM cell WHERE ((?:(?!ORDER BY).)*)")
"""A query that is a condition, as ``rows=`` takes it."""

SHOWN_ROWS = 8


@dataclass(frozen=True)
class Outcome:
    """What came of a case on a path."""

    case: Case
    path: str
    kind: str
    """``equal``, ``refused`` where that is expected, or ``different``."""
    expected: str = ""
    got: str = ""

    @property
    def is_as_marked(self) -> bool:
        """Whether it is right, or known to be wrong."""
        return (self.kind == "different") == bool(self.case.known_wrong(self.path))

    def __str__(self) -> str:
        """Name the query, the path, what was expected, and what came."""
        place = f"queries/{self.case.subject}.sql, line {self.case.line}, {self.path}"
        if self.kind != "different":
            return f"{place}: right now, take the mark away\n  {self.case.text}"
        return f"{place}\n  {self.case.text}\n  expected  {self.expected}\n  got       {self.got}"


def oracles_of(path: str, subject: str) -> Oracles:
    """Return the oracles of a subject, made once."""
    is_shared = not path.endswith("collection")
    return _oracles_of(_WHOLE[path in LARGE] if is_shared else path, subject)


@cache
def _oracles_of(path: str, subject: str) -> Oracles:
    oracles = Oracles(path, subject)
    for case in cases_of(subject):
        if case.creates:
            oracles.execute(case.theirs or case.text)
    return oracles


def outcomes(forms: Forms, path: str, subject: str, *, in_turn: bool) -> Iterator[Outcome]:
    """Ask all queries of a subject on a path in one session, or those whose turn it is."""
    requested = [case for case in cases_of(subject) if case.is_requested(path)]
    if not requested:
        return
    oracles = oracles_of(path, subject)
    with forms.open(path) as session, warnings.catch_warnings(action="ignore"):
        for case in requested:
            if case.creates:
                yield from _created(session, case, path)
            elif case.is_in_turn(path) or not in_turn:
                yield _outcome(session, oracles, case, path)


def predicate_outcomes(
    forms: Forms, path: str, subject: str, in_turn: Sequence[str]
) -> Iterator[Outcome]:
    """Choose rows of a matrix by the conditions of a subject: those that the query has."""
    with forms.open(path) as session, warnings.catch_warnings(action="ignore"):
        for case in cases_of(subject):
            chosen = _CHOSEN.fullmatch(case.text)
            if chosen is None or case.error or case.params or path != case.in_turn(in_turn):
                continue
            expected = in_any_order(oracles_of(path, subject).expected(case).rows)
            try:
                rows = session.matrix("cell", "gene", "X", rows=chosen[1]).rows
                got: object = in_any_order((name,) for name in rows.tolist())
            except Exception as error:  # noqa: BLE001 - it is reported as what came
                got = f"{type(error).__name__}: {error}"
            kind = "equal" if got == expected else "different"
            yield Outcome(case, path, kind, str(expected), str(got))


def _created(session: DafSession, case: Case, path: str) -> Iterator[Outcome]:
    """Execute a statement; it has an outcome if it fails, or should have."""
    try:
        session.sql(case.text, allow="write")
    except DafError as error:
        yield Outcome(case, path, "different", "a view or a table", str(error)[:400])
    else:
        if case.known_wrong(path):
            yield Outcome(case, path, "equal")


def _outcome(session: DafSession, oracles: Oracles, case: Case, path: str) -> Outcome:
    got, is_ours = _answer(session, case)
    if case.error:
        if is_ours and re.search(case.error, got.error):
            return Outcome(case, path, "refused")
        return Outcome(
            case, path, "different", f"an error with {case.error!r}", _shown(got, ordered=True)
        )
    expected = oracles.expected(case)
    if expected.is_like(got, ordered=case.ordered):
        names = oracles.names(case)
        if names in (None, got.names):
            return Outcome(case, path, "equal")
        return Outcome(case, path, "different", f"columns {names}", f"columns {got.names}")
    shown = (_shown(each, ordered=case.ordered) for each in (expected, got))
    return Outcome(case, path, "different", *shown)


def _answer(session: DafSession, case: Case) -> tuple[Answer, bool]:
    """Return the answer of a session, and whether an error is one of ours."""
    try:
        result = session.sql(case.text, params=case.params)
        is_streamed = "UNION" in case.text  # which the engine gives its types late
        return answer_of(pa.table(result) if is_streamed else result.to_arrow_table()), True
    except DafError as error:
        return Answer(error=f"{type(error).__name__}: {error}"), True
    except Exception as error:  # noqa: BLE001 - it is reported as what came
        return Answer(error=f"{type(error).__name__}: {error}"), False


def _shown(answer: Answer, *, ordered: bool) -> str:
    if answer.error:
        return answer.error[:400]
    rows = list(answer.rows) if ordered else in_any_order(answer.rows)
    more = f" and {len(rows) - SHOWN_ROWS} more" if len(rows) > SHOWN_ROWS else ""
    return f"{len(rows)} rows: {rows[:SHOWN_ROWS]}{more}"


def disagreements(subject: str) -> Iterator[str]:
    """Yield the queries whose oracles differ without a reason, or agree with one."""
    for case in cases_of(subject):
        if case.creates or case.error or case.rows is not None:
            continue
        oracles = oracles_of(next(filter(case.is_requested, PATHS)), subject)
        engine, duck = (oracles.answer(case, name) for name in ("datafusion", "duckdb"))
        place = f"queries/{subject}.sql, line {case.line}\n  {case.theirs or case.text}\n"
        if oracles.expected(case).error:
            yield f"{place}  no rows are expected: {oracles.expected(case).error}"
        elif engine.is_like(duck, ordered=case.ordered) == bool(case.oracle):
            engines = (_shown(each, ordered=case.ordered) for each in (engine, duck))
            yield "{}  DataFusion  {}\n  DuckDB      {}".format(place, *engines)
