"""Tests of Python's spellings in predicates, against Python and SQL."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_query import DafSession, connect
from daf_storage import errors
from tests.support import data_set

SIZE = 60


def _frame() -> pd.DataFrame:
    """Return a frame with columns of each type; x has missing values."""
    random = np.random.default_rng(7)
    x = random.integers(-3, 5, SIZE) / 2
    x[random.random(SIZE) < 0.3] = np.nan
    return pd.DataFrame(
        {
            "age": random.integers(0, 8, SIZE),
            "n": random.integers(0, 8, SIZE),
            "x": x,
            "donor": random.choice(np.array(["N1", "n1", "it's", "b c"], dtype=object), SIZE),
            "old": random.random(SIZE) < 0.5,
            "sick": random.random(SIZE) < 0.5,
        }
    )


FRAME = _frame()


@pytest.fixture(scope="module")
def session() -> DafSession:
    """Return a session over the frame as an axis."""
    cell = {name: FRAME[name].to_numpy() for name in FRAME}
    values = {("cell", "gene", "X"): np.ones((SIZE, 1))}
    return connect(data_set(cell={"name": SIZE, **cell}, gene=["A"], matrices=values))


def rows(session: DafSession, predicate: str) -> list[int]:
    """Return the positions that a predicate chooses."""
    part = session.matrix("cell", "gene", "X", rows=predicate)
    return [int(position) for position in part.row_positions]


def of_sql(session: DafSession, condition: str) -> list[int]:
    """Return the positions that a whole query chooses."""
    query = f"SELECT index FROM cell WHERE {condition} ORDER BY index"
    chosen: list[int] = session.sql(query).to_pydict()["index"]
    return chosen


def of_python(predicate: str) -> list[int] | None:
    """Return the positions that Python chooses row by row; None if it cannot evaluate that."""
    chosen = []
    for position in range(SIZE):
        values = {str(name): FRAME[name].to_numpy()[position] for name in FRAME}
        try:
            if eval(predicate, {}, values):  # noqa: S307 - of our own
                chosen.append(position)
        except TypeError:
            return None
    return chosen


@pytest.mark.parametrize(
    ("predicate", "sql"),
    [
        ("(age > 3) & (n < (SELECT 2))", "age > 3 AND n < 2"),
        ("(age>3)&(n<2)|(old)", "age > 3 AND n < 2 OR old"),
        ("~(old)&~(sick)", "NOT old AND NOT sick"),
        ("~(~(old)) & ~ (sick)", "old AND NOT sick"),
        ("not (old) and ~(sick)", "NOT old AND NOT sick"),
        ("((age > 3) | (n < 2)) and old == True", "(age > 3 OR n < 2) AND old"),
        ("donor in ['N1', 'n1']", "donor IN ('N1', 'n1')"),
        ("age not in [1, 2]", "age NOT IN (1, 2)"),
        ("~(age in [1, 2]) & (X['A'] > 0)", "age NOT IN (1, 2)"),
        ("(n & 4 = 4) & (age | 4 > n & 1)", "n & 4 = 4 AND age | 4 > n & 1"),
        ("(n + 1) & (age + 1) = 1", "((n + 1) & (age + 1)) = 1"),
        ("(age > 3) || 'x' = 'truex'", "age > 3"),
        ("name ~ ('^c1') and (name !~* 'C2')", "name LIKE 'c1%' AND name NOT LIKE 'c2%'"),
        ("'(a) & ~(b) in [1]' <> donor -- (old) & (sick)", "TRUE"),
        ("(age > 3) & (old) ORDER BY index LIMIT 300", "age > 3 AND old"),
        (f"age in [{', '.join(map(str, range(3, 40)))}]", "age >= 3"),
    ],
)
def test_pythons_spellings_are_those_of_sql(session: DafSession, predicate: str, sql: str) -> None:
    """``) & (``, ``) | (``, ``~(`` and ``in [...]``; what is SQL means what it means there."""
    assert rows(session, predicate) == of_sql(session, sql)


@pytest.mark.sampled(0)
def test_deep_and_long_predicates(session: DafSession) -> None:
    """Neither a traceback from the depths, nor a long wait."""
    many = ", ".join(f"'d{i}'" for i in range(20_000))
    for predicate, sql in (
        ("~(" * 11 + "old" + ")" * 11, "NOT old"),
        (f"donor in [{many}, 'N1']", "donor = 'N1'"),
        (" & ".join(["(age > 3)"] * 300), "age > 3"),
    ):
        assert rows(session, predicate) == of_sql(session, sql)


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    """Return a comparison that pandas, Python and SQL agree about."""
    number = st.sampled_from(["age", "n", "3", "5", "age + 1", "(n - 1)"])
    operator = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
    form = draw(st.integers(0, 3))
    if form == 0:
        return f"{draw(st.sampled_from(['age', 'n']))} {draw(operator)} {draw(number)}"
    if form == 1:
        value = draw(st.sampled_from(["N1", "n1", "b c", "none"]))
        return f"donor {draw(st.sampled_from(['==', '!=']))} '{value}'"
    if form == 2:
        values = draw(st.lists(st.sampled_from(["1", "2", "7", "9"]), min_size=1, max_size=4))
        return f"age {draw(st.sampled_from(['in', 'not in']))} [{', '.join(values)}]"
    return draw(st.sampled_from(["old", "sick"]))


@st.composite
def loose(draw: st.DrawFn) -> str:
    """Return conditions that are joined without brackets."""
    predicate = draw(comparisons())
    for _ in range(draw(st.integers(1, 3))):
        joined = draw(st.sampled_from([" and ", " or ", " & ", " | "]))
        sign = draw(st.sampled_from(["", "", "not "]))
        part = draw(comparisons())
        part = draw(st.sampled_from([part, f"({part})"]))
        predicate = f"{draw(st.sampled_from(['', '', 'not ']))}{predicate}{joined}{sign}{part}"
    return predicate


@given(loose())
def test_no_condition_is_answered_otherwise_than_in_python(
    session: DafSession, predicate: str
) -> None:
    """It is refused, unless Python says what we say."""
    try:
        chosen = rows(session, predicate)
    except errors.QueryError:
        assert any(sign in predicate for sign in "&|~")
        return
    try:
        assert chosen == of_python(predicate)
    except SyntaxError:  # a & not b
        assert "not" in predicate
