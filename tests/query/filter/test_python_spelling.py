"""Tests of Python's spellings in predicates, against pandas and Python itself."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daf_query import DafSession, connect
from daf_query.filter import as_sql
from daf_query.filter._operands import ValueType
from daf_storage import MemoryDaf, errors

RELAXED = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
COLUMNS: dict[str, ValueType] = {
    "age": "number",
    "n": "number",
    "x": "number",
    "donor": "string",
    "old": "boolean",
    "sick": "boolean",
}
SIZE = 60


def _frame() -> pd.DataFrame:
    """Return a frame with columns of each type; x has missing values."""
    random = np.random.default_rng(7)
    x = random.integers(-3, 5, SIZE) / 2
    x[random.random(SIZE) < 0.3] = np.nan
    return pd.DataFrame(
        {
            "name": np.array([f"c{i}" for i in range(SIZE)], dtype=object),
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
    daf = MemoryDaf(name="x")
    daf.add_axis("cell", FRAME["name"].astype(str).tolist())
    daf.add_axis("gene", ["A"])
    for column in COLUMNS:
        daf.set_vector("cell", column, FRAME[column].to_numpy())
    daf.set_matrix("cell", "gene", "X", np.ones((SIZE, 1)))
    return connect(daf)


def rows(session: DafSession, predicate: str) -> list[int]:
    """Return the positions that a predicate chooses."""
    part = session.matrix("cell", "gene", "X", rows=predicate)
    return [int(position) for position in part.row_positions]


def of_pandas(predicate: str, frame: pd.DataFrame = FRAME) -> list[int]:
    """Return the positions that pandas chooses."""
    mask: Any = frame.eval(predicate, engine="python")
    if np.ndim(mask) == 0:
        mask = np.full(len(frame), bool(mask))
    return [int(p) for p in np.flatnonzero(pd.Series(mask).fillna(False).astype(bool))]


def of_python(predicate: str) -> list[int] | None:
    """Return the positions that Python chooses row by row; None if it cannot evaluate that."""
    chosen = []
    for position in range(SIZE):
        values = {name: FRAME[name].to_numpy()[position] for name in COLUMNS}
        try:
            if eval(predicate, {}, values):  # noqa: S307 - of our own
                chosen.append(position)
        except TypeError:
            return None
    return chosen


@pytest.mark.parametrize(
    ("predicate", "sql"),
    [
        ("30 < age <= 60", "(30 < age AND age <= 60)"),
        ("30 < age + 1 < n < 60", "(30 < age + 1 AND age + 1 < n AND n < 60)"),
        ("(age > 3) & (n < 2)", "((age > 3) AND (n < 2))"),
        ("(age>3)&(n<2)|old", "((age>3) AND (n<2) OR old)"),
        ("old & ~sick", "(old AND (NOT sick))"),
        ("(age > 3) & TRUE", "((age > 3) AND TRUE)"),
        ("false | old", "(false OR old)"),
        ("~(old)&~(sick)", "((NOT (old)) AND (NOT (sick)))"),
        ("~~old", "(NOT (NOT old))"),
        ("(age > 3) & ~~old and ~~(sick)", "((age > 3) AND (NOT (NOT old))) and (NOT (NOT (sick)))"),
        ("starts_with(name, 'c1') & old", "(starts_with(name, 'c1') AND old)"),
        ("not (old | sick)", "not ((old OR sick))"),
        ("donor in ['N1', \"n1\"]", "donor in ('N1', 'n1')"),
        ("age not in [1, 2,]", "age not in (1, 2)"),
        ("age in (1,)", "age in (1)"),
        ("age in []", "age in (NULL) IS TRUE"),
        ("age not in ()", "age not in (NULL) IS NOT FALSE"),
        ('donor == "it\'s"', "donor == 'it''s'"),
        ('"N1" != donor', "'N1' != donor"),
        ('lower(donor) = "n1"', "lower(donor) = 'n1'"),
        ('"a" < donor < "z"', "('a' < donor AND donor < 'z')"),
        ("x is None", "x is NULL"),
        ("x is not None", "x is not NULL"),
        ("x == None", "x IS NULL"),
        ("x != None and old", "x IS NOT NULL and old"),
        ("n > 1_000", "n > 1000"),
        ('X["A"] > 2', "X['A'] > 2"),
        ("CASE WHEN old & sick THEN 1 ELSE 2 END = 1", "CASE WHEN (old AND sick) THEN 1 ELSE 2 END = 1"),
        ("(age > 3) & old ORDER BY x LIMIT 3", "((age > 3) AND old) ORDER BY x LIMIT 3"),
        (f"age in [{', '.join(map(str, range(40)))},]", f"age in ({', '.join(map(str, range(40)))})"),
        (f"age in ({', '.join(map(str, range(40)))},)", f"age in ({', '.join(map(str, range(40)))})"),
    ],
)  # fmt: skip
def test_pythons_spellings_become_sql(predicate: str, sql: str) -> None:
    """Each of them, and nothing around it."""
    assert as_sql(predicate, COLUMNS) == sql


@pytest.mark.parametrize(
    "predicate",
    [
        "age == 3 AND old = TRUE",
        "n & 4 = 4",
        "n | 4 > age & 1",
        "(n + 1) & (age + 1) = 1",
        "age > 3 = old",
        "(age > 3) == old",
        "old = age IN (3)",
        "name ~ '^c1' AND name !~* 'C2'",
        "name LIKE 'c%' || '1'",
        "name ~~ 'c%' AND name !~~ 'd%' AND name ~~* 'C%' AND name !~~* 'D%'",
        "position('1' IN donor) > 0",
        "age IS DISTINCT FROM 3 & 1",
        "(age > 3) || 'x' = 'truex'",
        "{'a': 1}['a'] = 1 AND age = ANY(ARRAY[3, 4])",
        "age IN (SELECT age FROM cell WHERE (age > 3) = old)",
        "age BETWEEN 3 AND 5 AND NOT old",
        "age NOT BETWEEN 3 AND 5 OR x IS NOT DISTINCT FROM 1",
        '"age" > 3 AND `n` < 2 AND cell.age > 1',
        "'a & b == None' = donor -- (old) & sick",
        "donor IN ('None', '~', 'a, b',\n'c') /* [ */",
        "CAST(age AS VARCHAR) = '3' AND x::int = 1",
        "substring(name FROM 1 FOR 2) = 'c1'",
        "age IN ($a) AND x IN (?)",
        "X['A'] > 2 AND \"gene.X\"['A'] < 3",
        "name = 'c1",
        "(age > 3",
        "",
        "age > 3 ORDER BY x & 3 LIMIT 2",
    ],
)
def test_sql_stays_as_it_is(predicate: str) -> None:
    """Whatever of it looks like Python."""
    assert as_sql(predicate, COLUMNS) == predicate


@pytest.mark.parametrize(
    ("predicate", "advice"),
    [
        ("age > 3 & donor == 'N1'", "put each condition in brackets"),
        ("age > 3 & n > 1", "put each condition in brackets"),
        ("WHERE age > 3", "leave out WHERE"),
        ("old & age > 3", "put each condition in brackets"),
        ("age in [3] & (old)", "put each condition in brackets"),
        ("x is None | (old)", "put each condition in brackets"),
        ("not old & sick", "Python and pandas read this differently"),
        ("old | sick and (age > 3)", "Python and pandas read this differently"),
        ("old & sick == old", "brackets around each side"),
        ("age > 3 == old", "chain"),
        ("old == age in [3]", "chain"),
        ("x == n is None", "chain"),
        ("x == n == None", "chain"),
        ("0.2 < random() < 0.5", "twice"),
        ("~n", r"write ~\(...\) or NOT"),
        ("~age > 3", r"write ~\(...\) or NOT"),
        ("donor in ['N1', None]", r"IN \(...\) OR ... IS NULL"),
        ("None == x", "IS NULL"),
        ("'N' in donor", "after IN comes a list"),
        ("donor in donors", "IN \\$names"),
        ("@limit < age", r"write \$limit, and pass params=\{'limit': ...\}"),
        ("donor.str.startswith('N')", r"write starts_with\(donor, 'N'\)"),
        ("age.between(1, 61)", "write age BETWEEN"),
        ("age.between(1, 61) and old", "write age BETWEEN"),
        ("donor.isin(['N1'])", r"write donor IN \(...\)"),
        ("donor.str.swapcase() = 'N1'", "a function of SQL"),
        ("n ** 2 > 3", "power"),
        ("n // 2 > 3", "floor"),
        ("old && sick", "write AND"),
        ("(old) || (sick)", "write OR"),
        ("!old", "write NOT"),
        ('donor == "a\\n"', "single quotes"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(
    session: DafSession, predicate: str, advice: str
) -> None:
    """The sentence says what to write, and a mark where."""
    with pytest.raises(errors.QueryError, match=advice) as caught:
        rows(session, predicate)
    assert str(caught.value).startswith("rows= on axis 'cell': SQL syntax error in the predicate")
    assert str(caught.value).rstrip().endswith("^")


def test_a_mark_is_below_the_line_of_the_fault(session: DafSession) -> None:
    """Also where lines before it are empty."""
    for before in ("", "\n", "\n\n", "old AND\n"):
        with pytest.raises(errors.QueryError, match="power") as caught:
            rows(session, f"{before}n ** 2 > 3")
        assert str(caught.value).endswith("n ** 2 > 3\n    ^")


@pytest.mark.parametrize("predicate", ["age > 3) OR (age = 3", "age > 3)", "age > 3) LIMIT (1"])
def test_no_bracket_closes_that_around_the_predicate(session: DafSession, predicate: str) -> None:
    """What begins after it would be no part of the condition."""
    with pytest.raises(errors.QueryError, match="no bracket is open") as caught:
        rows(session, predicate)
    assert str(caught.value).endswith("         ^")


def test_a_name_in_double_quotes_stays_a_name(session: DafSession) -> None:
    """If an axis has it, or if it is nearly the name of a column."""
    assert rows(session, '"age" == "n"') == of_pandas("age == n")
    for predicate in ('donor == "Donor"', 'donor == "sicks"', "\"agee\" == 'N1'", 'age > "N1"'):
        with pytest.raises(errors.VectorNotFoundError, match="has no vector"):
            rows(session, predicate)


def test_a_syntax_error_points_at_what_was_written(session: DafSession) -> None:
    """Behind what was written differently, too."""
    with pytest.raises(errors.QueryError) as caught:
        rows(session, "donor in ['N1'] and 1 < age < 5 and\n~(old) > > 3")
    assert (caught.value.line, caught.value.column) == (2, 10)
    with pytest.raises(errors.VectorNotFoundError, match="no vector 'agee'; it has .*age"):
        rows(session, "(agee > 3) & (old)")


def test_deep_and_long_predicates(session: DafSession) -> None:
    """Neither a traceback from the depths, nor a long wait."""
    with pytest.raises(errors.QueryError):
        rows(session, "(" * 2000 + "old" + ")" * 2000)
    assert rows(session, "(" * 20 + "age == None" + ")" * 20) == []
    assert as_sql("~" * 1001 + "old", COLUMNS).count("NOT") == 1001
    assert rows(session, "~" * 11 + "old") == of_pandas("~old")
    many = ", ".join(f'"d{i}"' for i in range(20_000))
    assert rows(session, f'donor in [{many}, "N1"]') == of_pandas("donor == 'N1'")
    assert rows(session, " and ".join(["(age > 3)"] * 300)) == of_pandas("age > 3")


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    """Return a comparison that pandas, Python and SQL agree about."""
    number = st.sampled_from(["age", "n", "3", "5", "age + 1", "(n - 1)"])
    operator = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
    form = draw(st.integers(0, 4))
    if form == 0:
        return f"{draw(st.sampled_from(['age', 'n']))} {draw(operator)} {draw(number)}"
    if form == 1:
        lower = draw(st.integers(0, 4))
        return f"{lower} {draw(st.sampled_from(['<', '<=']))} age {draw(operator)} {draw(number)}"
    if form == 2:
        quote = draw(st.sampled_from("'\""))
        value = draw(st.sampled_from(["N1", "n1", "b c", "none"]))
        return f"donor {draw(st.sampled_from(['==', '!=']))} {quote}{value}{quote}"
    if form == 3:
        values = draw(st.lists(st.sampled_from(["1", "2", "7", "9"]), min_size=1, max_size=4))
        return f"age {draw(st.sampled_from(['in', 'not in']))} [{', '.join(values)}]"
    return draw(st.sampled_from(["old", "sick"]))


@st.composite
def bracketed(draw: st.DrawFn, depth: int = 2) -> str:
    """Return a condition with brackets around all that & and | join."""
    if depth == 0 or draw(st.booleans()):
        return draw(comparisons())
    left, right = draw(bracketed(depth - 1)), draw(bracketed(depth - 1))
    form = draw(st.sampled_from(["({}) & ({})", "({})|({})", "~({})", "not ({})", "({}) and ({})", "({}) or ~({})", "(({}) & ({}) | (old))"]))  # fmt: skip
    return form.format(left, right)


@RELAXED
@given(bracketed())
def test_bracketed_conditions_are_those_of_pandas(session: DafSession, predicate: str) -> None:
    """None of them is refused."""
    assert rows(session, predicate) == of_pandas(predicate)


@st.composite
def loose(draw: st.DrawFn) -> str:
    """Return conditions that are joined without brackets."""
    predicate = draw(comparisons())
    for _ in range(draw(st.integers(1, 3))):
        joined = draw(st.sampled_from([" and ", " or ", " & ", " | "]))
        sign = draw(st.sampled_from(["", "", "not "])) if joined in (" and ", " or ") else ""
        part = draw(comparisons())
        part = draw(st.sampled_from([part, f"({part})"]))
        predicate = f"{predicate}{joined}{sign}{part}"
    return predicate


@RELAXED
@given(loose())
def test_no_condition_is_answered_otherwise_than_in_python(
    session: DafSession, predicate: str
) -> None:
    """It is refused, unless pandas and Python both say what we say."""
    try:
        chosen = rows(session, predicate)
    except errors.QueryError:
        assert "&" in predicate or "|" in predicate
        return
    assert chosen == of_pandas(predicate)
    assert chosen == of_python(predicate)


@pytest.mark.parametrize(
    "predicate",
    [
        "(x > 1) & (age > 2)",
        "~(x > 1)",
        "~(x > 1) | (age == 3)",
        "(x != 1) & ~((x < 0) | (n > 4))",
        "not (x == 1 and age > 1)",
        "0 < x <= 2",
    ],
)
def test_missing_values_are_those_of_nullable_types(session: DafSession, predicate: str) -> None:
    """A comparison with a missing value is neither true nor false, as in pandas' Float64."""
    nullable = FRAME.assign(x=FRAME["x"].astype("Float64"))
    assert rows(session, predicate) == of_pandas(predicate, nullable)


@pytest.mark.parametrize(
    ("predicate", "mask"),
    [
        ("x is None", FRAME["x"].isna()),
        ("x == None", FRAME["x"].isna()),
        ("~(x is not None) & old", FRAME["x"].isna() & FRAME["old"]),
        ("x in []", FRAME["x"] > 1000),
        ("x not in []", FRAME["x"].isna() | FRAME["x"].notna()),
        ("not age in []", FRAME["age"] > -1),
        ("old == True", FRAME["old"]),
    ],
)
def test_none_and_lists_of_nothing(session: DafSession, predicate: str, mask: Any) -> None:
    """They mean what Python means."""
    assert rows(session, predicate) == np.flatnonzero(mask).tolist()


@st.composite
def sql(draw: st.DrawFn, depth: int = 2) -> str:
    """Return a predicate in SQL."""
    form = draw(st.integers(0, 8 if depth else 5))
    if form == 0:
        return draw(st.sampled_from(["age & 3 = 2", "n | 4 > 5", "(age & 1) <> (n & 1)"]))
    if form == 1:
        return (
            f"age {draw(st.sampled_from(['=', '<>', '!=', '<', '>=']))} {draw(st.integers(0, 8))}"
        )
    if form == 2:
        return draw(st.sampled_from(["old", "age > 3 = old", "old = (n < 3)", "sick IS TRUE"]))
    if form == 3:
        return draw(st.sampled_from(["name LIKE 'c1%'", "name ~ 'c[12]$'", "donor > 'b'"]))
    if form == 4:
        return draw(st.sampled_from(["age IN (1, 2)", "n NOT IN (3)", "age BETWEEN 2 AND 5"]))
    if form == 5:
        return draw(st.sampled_from(["x IS NULL", "x IS NOT NULL", '"n" = 3']))
    if form == 6:
        return f"NOT {draw(sql(depth - 1))}"
    joined = draw(st.sampled_from(["AND", "OR"]))
    return f"({draw(sql(depth - 1))}) {joined} {draw(sql(depth - 1))}"


@RELAXED
@given(sql())
def test_sql_means_what_it_means_elsewhere(session: DafSession, predicate: str) -> None:
    """It is left as it is, and as a whole query it yields the same rows."""
    assert as_sql(predicate, COLUMNS) == predicate
    whole = session.sql(f"SELECT index FROM cell WHERE {predicate} ORDER BY index")
    assert rows(session, predicate) == whole.to_pydict()["index"]
    frame = FRAME  # noqa: F841 - DuckDB finds it by its name
    if not any(part in predicate for part in ("~", "x", "3 = old")):
        names = duckdb.sql(f"SELECT name FROM frame WHERE {predicate}").fetchall()
        assert {FRAME["name"][row] for row in rows(session, predicate)} == {n for (n,) in names}
