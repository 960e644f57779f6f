"""Diagnose a predicate: count what its conjuncts leave, and explain those that leave nothing."""

from __future__ import annotations

from daf_query.filter._diagnosis import Conjunct, Diagnosis
from daf_query.filter._facts import Facts
from daf_query.filter._hints import hints_among, hints_of
from daf_query.filter._operands import value_types
from daf_query.filter._question import Question, question_of_predicate, question_of_select
from daf_query.sql import Engine
from daf_storage import DafError, errors


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
    columns = value_types(engine.connections.schemas[schema].dataset(axis).schema)
    if select:
        question = question_of_select(schema, axis, predicate)
    else:
        question = question_of_predicate(schema, axis, predicate, columns)
    facts = Facts(engine, question.table)
    total = facts.count(())
    return Diagnosis(axis, predicate, total, tuple(_counted(facts, question, total)))


def _counted(facts: Facts, question: Question, total: int) -> list[Conjunct]:
    counted: list[Conjunct] = []
    remaining: int | None = total
    for place, condition in enumerate(question.conjuncts):
        before = question.conjuncts[:place]
        rows, hints = _alone(facts, condition)
        if total == 0 and rows == 0:
            hints = ["the axis has no entries"]
        left = None
        if remaining is not None and rows is not None:
            left = 0 if 0 in (rows, remaining) else facts.count([*before, condition])
            if left == 0 and rows and remaining:
                hints = [*hints, *_together(facts, condition, before)]
        remaining = left
        counted.append(Conjunct(condition, rows, left, tuple(hints)))
    return counted


def _alone(facts: Facts, condition: str) -> tuple[int | None, list[str]]:
    """Return how many rows satisfy a condition, None if it fails, and what is wrong with it."""
    try:
        rows = facts.count([condition])
    except DafError as error:
        if isinstance(error, errors.QueryError) and error.line is not None:
            raise
        hints = hints_of(facts, condition, count=None)
        return None, hints or [str(error)]
    return rows, hints_of(facts, condition, count=rows)


def _together(facts: Facts, condition: str, before: tuple[str, ...]) -> list[str]:
    """Return why a condition leaves none of the rows that the conditions before it leave."""
    for earlier in before if len(before) > 1 else ():
        if not facts.count([earlier, condition]):
            among = hints_among(facts, condition, [earlier], among=f"where {earlier},")
            return [f"no row satisfies both this and {earlier}", *among]
    return hints_among(facts, condition, before, among="among the rows so far")
