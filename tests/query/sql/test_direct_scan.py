"""Tests of queries that are answered without the engine: they are answered as the engine would."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import anndata
import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_query import DafSession, connect
from daf_query.sql import computed_table
from daf_storage import MemoryDaf, errors, from_anndata
from tests.support import data_set

N = 30
NUMBERS = ("small", "wide", "unsigned", "huge", "single", "double", "type", "nullable")
STRINGS = ("donor", "batch id", "gaps")
TRUTHS = ("is_old", "maybe")
TIMES = ("day", "moment")
CONSTANTS = {
    **dict.fromkeys(NUMBERS, ("0", "-1", "3", "7", "2.5", "0.1", "-0.5", "1e2", "200", "70000")),
    **dict.fromkeys(STRINGS, ("'a'", "'b'", "''", "'é'", "'it''s'", "'z'")),
    **dict.fromkeys(TRUTHS, ("TRUE", "false")),
    **dict.fromkeys(TIMES, ("'2020-01-02'", "DATE '2020-01-03'", "'2020-01-02T00:00:00'")),
}
ODD = ("NULL", "'7'", "18446744073709551615", "16777217", "9223372036854775807", "007", "1e400")


@pytest.fixture(scope="module")
def session() -> Iterator[DafSession]:
    """Return a session over columns of all kinds, some with gaps."""
    numbers = np.arange(N)
    floats = np.where(numbers % 5 == 0, np.nan, numbers / 4)
    obs = pd.DataFrame(
        {
            "day": pd.to_datetime("2020-01-01") + pd.to_timedelta(numbers, "D"),
            "moment": pd.array(pd.to_datetime(pd.Series(["2020-01-02", None] * (N // 2)))),
            "nullable": pd.array([None if n % 4 == 0 else n % 9 for n in numbers], "Int64"),
            "maybe": pd.array([None if n % 4 == 0 else n % 3 == 0 for n in numbers], "boolean"),
        },
        index=[f"c{n}" for n in numbers],
    )
    var = pd.DataFrame(index=["g"])
    daf = MemoryDaf(name="x")
    from_anndata(anndata.AnnData(np.ones((N, 1), "f4"), obs, var), daf, obs_is="cell")
    daf.set_vector("cell", "small", (numbers % 9 - 4).astype("i1"))
    daf.set_vector("cell", "wide", numbers * 3_000 - 4)
    daf.set_vector("cell", "type", (numbers % 9).astype("i4"))
    daf.set_vector("cell", "unsigned", (numbers * 7).astype("u1"))
    daf.set_vector("cell", "huge", numbers.astype("u8"))
    daf.set_vector("cell", "single", floats.astype("f4") * np.float32(0.1))
    daf.set_vector("cell", "double", floats)
    daf.set_vector("cell", "is_old", numbers % 3 == 0)
    daf.set_vector("cell", "donor", [("a", "b", "", "é", "it's")[n % 5] for n in numbers])
    daf.set_vector("cell", "batch id", [f"{n % 7}" for n in numbers])
    gaps = [("", "a", "z")[n % 3] for n in numbers]
    daf.set_vector("cell", "gaps", gaps, empty_is_missing=True)
    with warnings.catch_warnings(action="ignore"), connect({"x": daf}) as connected:
        yield connected


def is_direct(session: DafSession, query: str) -> bool:
    """Return whether a query is answered without the engine; not if it is wrong."""
    with warnings.catch_warnings(action="ignore"):
        try:
            return bool(session.explain(query).direct)
        except errors.DafError:
            return False


def check(session: DafSession, query: str) -> bool:
    """Compare the answer with the engine's; say whether it was answered without it."""
    if not is_direct(session, query):
        return False
    result = session.sql(query)
    schema, found = result.schema, result.to_arrow_table()
    expected = computed_table(result.frame)
    if not found.equals(expected, check_metadata=True):  # it may be one of its documented errors
        cell = session.sql("SELECT * FROM cell").to_arrow_table()
        with duckdb.connect() as other:  # what is registered without one stays for all tests
            other.register("cell", cell)
            assert found.to_pydict() == other.sql(query).to_arrow_table().to_pydict(), query
    assert schema.equals(expected.schema, check_metadata=True)
    return True


def quoted(name: str) -> str:
    """Return a name as SQL has it; some without quotes."""
    return f'"{name}"' if " " in name or name == "wide" else name


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    """Return a condition on one column."""
    name = draw(st.sampled_from(sorted(CONSTANTS)))
    constant = st.sampled_from(ODD if draw(st.integers(0, 9)) == 0 else CONSTANTS[name])
    column, first, second = quoted(name), draw(constant), draw(constant)
    operator = draw(st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="]))
    forms = [
        f"{column} {operator} {first}",
        f"{first}{operator}{column}",
        f"{column} IN ({first}, {second})",
        f"{column} NOT IN ({first})",
        f"{column} BETWEEN {first} AND {second}",
        f"{column} not between {first} and {second}",
        f"{column} IS NULL",
        f"{column} IS NOT NULL",
        *([column, f"NOT {column}"] if name in TRUTHS else []),
    ]
    return draw(st.sampled_from(forms))


def joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return conditions that consist of others."""
    return st.one_of(
        st.builds("{} AND {}".format, parts, parts),
        st.builds("{} or {}".format, parts, parts),
        st.builds("NOT ({})".format, parts),
        st.builds("NOT {}".format, parts),
        st.builds("({})".format, parts),
    )


@given(st.recursive(comparisons(), joined, max_leaves=4))
def test_any_condition_is_true_for_the_rows_of_the_engine(
    session: DafSession, condition: str
) -> None:
    """Whatever is not left to the engine: gaps, NaN, strings, truth values, dates."""
    with warnings.catch_warnings(action="ignore"):
        check(session, f"SELECT name, single FROM cell WHERE {condition}")


@given(
    st.sampled_from(["", "WHERE is_old", "WHERE donor = 'a' AND small > 0", "WHERE small > 99"]),
    st.integers(0, N + 2),
    st.one_of(st.none(), st.integers(0, N + 2)),
)
def test_any_first_rows_are_those_of_the_engine(
    session: DafSession, condition: str, limit: int, offset: int | None
) -> None:
    """However many are asked for and passed over, up to more than there are."""
    skipped = "" if offset is None else f" OFFSET {offset}"
    assert check(
        session, f"SELECT name, donor, double FROM cell {condition} LIMIT {limit}{skipped}"
    )


QUOTED = "'it''s', 'x, y', "
DIRECT = [
    "SELECT name FROM cell WHERE huge > 3",
    "SELECT name FROM cell WHERE single = 0.1",
    "SELECT name FROM cell WHERE wide > 60 AND donor = 'a'",
    "select index, name from x.cell where is_old",
    'SELECT "batch id", type FROM "x"."cell";',
    "SELECT * FROM cat WHERE n = 1",
    "SELECT name FROM cell WHERE NOT (is_old OR small IN (1, -2)) -- few",
    "SELECT small FROM cell WHERE double BETWEEN 1.5 AND 3 OR single > 0.1",
    "SELECT donor FROM cell WHERE gaps IS NOT NULL AND nullable <> 3 AND maybe = TRUE",
    "SELECT name FROM cell WHERE 5 <= small AND ((wide < 3)) AND unsigned < 7.5",
    "SELECT name, donor, gaps FROM cell LIMIT 3",
    "SELECT name, donor FROM cell WHERE is_old LIMIT 3 OFFSET 2;",
    "SELECT name FROM cell LIMIT 7 OFFSET 30",
    "SELECT name FROM cell WHERE NOT ((double = 1 OR double = 2) AND (double = 3 OR double = 4))",
    "SELECT c.name, donor FROM cell c WHERE c.small > 1 AND is_old",
    "SELECT cell.name FROM x.cell WHERE x.cell.small > 1 LIMIT 2",
    "SELECT small FROM cell WHERE TRUE = is_old AND `batch id` = '3'",
    f"SELECT name FROM cell WHERE wide IN ({', '.join(map(str, range(-4, 60_000, 3_000)))})",
    f"SELECT name FROM cell WHERE double NOT IN ({', '.join(['-1', '2.5', '0.25'] * 20)}) AND small > 0",
    f"SELECT name FROM cell WHERE donor IN ({QUOTED * 20} 'a')",
]


@pytest.mark.parametrize("query", DIRECT)
def test_what_is_answered_without_the_engine(session: DafSession, query: str) -> None:
    """The rows, their order, and the names, types and metadata of the columns are the engine's."""
    if "cat" in query:
        session = connect(data_set(cat={"name": ["A", "B"], "n": [1, 2]}))
    assert check(session, query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT name AS n FROM cell",
        "SELECT name FROM cell ORDER BY name",
        "SELECT name FROM cell LIMIT 2 OFFSET small",
        "SELECT name FROM cell LIMIT 2 + 1",
        "SELECT name FROM cell LIMIT 2, 1",
        "SELECT name FROM cell OFFSET 3",
        "SELECT name FROM cell ORDER BY index LIMIT 3",
        "SELECT name FROM cell WHERE X['g'] > 1",
        "SELECT name FROM cell WHERE small > wide",
        "SELECT name FROM cell WHERE small + 1 > 3",
        "SELECT name FROM cell WHERE donor LIKE 'a%'",
        "SELECT name FROM cell WHERE donor IS NULL",
        "SELECT name FROM cell WHERE donor = 3",
        "SELECT name FROM cell WHERE day > '2020-01-05'",
        "SELECT name FROM matrices",
        "SELECT name FROM cell WHERE true",
        "SELECT name FROM daf.x.cell",
        "SELECT name FROM cell WHERE donor = E'a'",
        "SELECT nope FROM cell",
    ],
)
def test_what_is_left_to_the_engine(session: DafSession, query: str) -> None:
    """All that is not certain to mean the same, and all that is wrong."""
    assert not is_direct(session, query)
