"""Tests of diagnoses: the counts against pandas, and what is said of each condition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_query import DafSession, connect
from tests.support import data_set

SIZE = 40


def _frame() -> pd.DataFrame:
    """Return a frame with a column of each type; x has missing values."""
    random = np.random.default_rng(3)
    x = random.integers(-3, 5, SIZE) / 2
    x[::7] = np.nan
    donors = np.array(["N1", "N2", " N3", "it's", "b c", "CD14+ Monocyte"], dtype=object)
    return pd.DataFrame(
        {
            "age": random.integers(20, 60, SIZE),
            "x": x,
            "donor": donors[np.arange(SIZE) % 6],
            "code": np.array(["1", "2", "10", "20"], dtype=object)[np.arange(SIZE) % 4],
            "old": np.arange(SIZE) % 3 == 0,
            "never": np.zeros(SIZE, bool),
        }
    )


FRAME = _frame()


@pytest.fixture(scope="module")
def session() -> DafSession:
    """Return a session over the frame as an axis."""
    columns = {name: FRAME[name].to_numpy() for name in FRAME.columns}
    return connect(data_set(name="x", cell={"name": SIZE, **columns}, gene=["A", "B"]))


def hints(session: DafSession, predicate: str, axis: str = "cell") -> list[str]:
    """Return what is said of each condition of a predicate."""
    return [hint for each in session.diagnose(axis, predicate).conjuncts for hint in each.hints]


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """Return a condition that pandas and SQL agree about, for x too, which is never negated."""
    age, x = draw(st.integers(15, 65)), draw(st.integers(-2, 4))
    donors = draw(st.lists(st.sampled_from(["N1", "n1", "b c", "Q"]), min_size=1))
    forms = [
        f"age {draw(st.sampled_from(['<', '>', '==']))} {age}",
        f"x {draw(st.sampled_from(['<', '>=', '==']))} {x}",
        f"donor in {donors}",
        *("old", "~(never)", "never", "age > 20 and age < 50"),
        f"(age < {age} or donor == 'N2')",
    ]
    return draw(st.sampled_from(forms))


@given(st.lists(conditions(), min_size=1, max_size=4), st.sampled_from([" and ", " & "]))
def test_counts_are_those_of_pandas(session: DafSession, parts: list[str], joined: str) -> None:
    """Of each condition alone, and with all that are before it."""
    predicate = joined.join(f"({part})" for part in parts)
    diagnosis = session.diagnose("cell", predicate)
    masks: list[Any] = [pd.Series(FRAME.eval(part, engine="python")) for part in parts]
    expected: list[tuple[int, int]] = []
    left: Any = pd.Series(np.ones(SIZE, bool))
    for part, mask in zip(parts, masks, strict=True):
        pieces = (
            [FRAME["age"] > 20, FRAME["age"] < 50] if "20" in part and "and" in part else [mask]
        )
        for piece in pieces:
            left &= piece
            expected.append((int(piece.sum()), int(left.sum())))
    assert [(each.rows, each.remaining) for each in diagnosis.conjuncts] == expected
    assert diagnosis.total == SIZE
    assert diagnosis.matched == len(FRAME.query(predicate, engine="python"))


DONORS = """' N3' (7 rows), 'N1' (7 rows), 'N2' (7 rows), "it's" (7 rows), 'CD14+ Monocyte' (6 rows) and 1 more value"""


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("donor = 'n1'", ["'n1' does not occur in donor; nearest: 'N1' (7 rows)"]),
        ("donor = 'N3'", ["'N3' does not occur in donor; nearest: ' N3' (7 rows)"]),
        ("donor = 'Monocyte'", ["'Monocyte' does not occur in donor; nearest: 'CD14+ Monocyte' (6 rows)"]),
        ("donor = 'zzz' OR old", [f"'zzz' does not occur in donor; it has {DONORS}"]),
        ("donor IN ('N1', 'its')", ["'its' does not occur in donor; nearest: \"it's\" (7 rows)"]),
        ("donor <> 'n1'", []),
        ("donor NOT IN ('n1')", []),
        ("NOT donor IN ('n1')", []),
        (f"donor IN {tuple('uvwxyz')}", [*(f"{absent!r} does not occur in donor; it has {DONORS}" for absent in "uvwxy"), "nor do 1 more of these values"]),
        ("age > 100", [f"age is from {FRAME.age.min()} to {FRAME.age.max()} in 40 rows"]),
        ("NOT age < 100", [f"age is from {FRAME.age.min()} to {FRAME.age.max()} in 40 rows"]),
        ("age BETWEEN 1 AND 3", [f"age is from {FRAME.age.min()} to {FRAME.age.max()} in 40 rows"]),
        ("x > 100", ["x is from -1.5 to 2 in 34 rows, 6 missing"]),
        ("x = 0.25", ["x is from -1.5 to 2 in 34 rows, 6 missing", "the nearest values are 0 and 0.5"]),
        ("x = 9", ["x is from -1.5 to 2 in 34 rows, 6 missing", "the nearest value is 2"]),
        ("nullif(x, x) = 3", ["nullif(x, x) is missing in all 40 rows"]),
        ("age IS NULL", ["no value of age is missing"]),
        ("never", ["never is false in 40 rows"]),
        ("old AND NOT old", ["among the rows so far old is true in 14 rows"]),
        ("age > 1", []),
        ("donor LIKE 'n%'", ["LIKE compares case; ILIKE would match 14 rows"]),
        ("donor LIKE 'q%'", []),
        ("age = 'old'", [f"'old' is no number, and age holds int64; write a number: age is from {FRAME.age.min()} to {FRAME.age.max()} in 40 rows"]),
        ("age = '1'", [f"age is from {FRAME.age.min()} to {FRAME.age.max()} in 40 rows", f"the nearest value is {FRAME.age.min()}"]),
        ("old = 1", ["old is true or false: write old, or NOT old"]),
        ("old = 'yes'", ["old is true or false: write old, or NOT old"]),
        ("donor = 1", ["donor holds strings, and 1 is no string: write '1', or compare TRY_CAST(donor AS DOUBLE)"]),
        ("code > 50", ["code holds strings, and 50 is no string: write '50', or compare TRY_CAST(code AS DOUBLE)"]),
        ("code > 5", []),
        ("lower(donor) = 'N1'", ["'N1' does not occur in lower(donor); nearest: 'n1' (7 rows)"]),
    ],
)  # fmt: skip
def test_what_is_said_of_a_condition(
    session: DafSession, predicate: str, expected: list[str]
) -> None:
    """Values that do not occur, ranges, missing values, and types."""
    assert hints(session, predicate) == expected


def test_conditions_that_exclude_each_other(session: DafSession) -> None:
    """Each has rows, but together they have none; so where it ends is explained."""
    diagnosis = session.diagnose("cell", "age > 1 AND donor = 'N1' AND age > 0 AND donor = 'N2'")
    assert diagnosis.matched == 0
    assert diagnosis.conjuncts[2].hints == ()
    assert diagnosis.conjuncts[3].hints[0] == "no row satisfies both this and donor = 'N1'"
    assert diagnosis.conjuncts[3].hints[1] == "where donor = 'N1', donor is 'N1' (7 rows)"
    ages = FRAME["age"][FRAME["donor"] == "N1"]
    [hint] = hints(session, f"donor = 'N1' AND age > {ages.max()}")
    assert hint == f"among the rows so far age is from {ages.min()} to {ages.max()} in 7 rows"


def test_a_condition_that_fails(session: DafSession) -> None:
    """It is reported, and the others are counted; of no rows nothing is explained."""
    diagnosis = session.diagnose("cell", "agee > 3 AND old")
    assert diagnosis.matched is None
    found = [(each.rows, each.remaining) for each in diagnosis.conjuncts]
    assert found == [(None, None), (14, None)]
    assert "has no vector 'agee'; it has" in diagnosis.conjuncts[0].hints[0]
    assert "fails" in repr(diagnosis)
    assert hints(connect(data_set(none=[])), "index > 3", "none") == ["the axis has no entries"]


def test_a_select_of_one_table(session: DafSession) -> None:
    """Its WHERE, with an alias, a schema, and what comes after it."""
    [schema] = session.schemas
    for query in (
        "SELECT name FROM cell WHERE old AND donor = 'n1'",
        f"(SELECT name FROM {schema}.cell AS c WHERE c.old AND c.donor = 'n1' ORDER BY name LIMIT 3);",
        "SELECT donor, count(*) FROM cell c WHERE old AND c.donor = 'n1' GROUP BY donor",
    ):
        diagnosis = session.diagnose("cell", query)
        assert [each.rows for each in diagnosis.conjuncts] == [14, 0]
        assert diagnosis.matched == 0


def test_parameters_and_order(session: DafSession) -> None:
    """Values are put in, ORDER BY and LIMIT are left out."""
    condition = "old AND age > $age ORDER BY age LIMIT 1"
    diagnosis = session.diagnose("cell", condition, params={"age": 0})
    assert diagnosis.matched == 14
    assert session.diagnose("cell", "LIMIT 3").matched == SIZE
