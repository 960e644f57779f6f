"""Tests of ORDER BY a categorical: in the order of the categories."""

from __future__ import annotations

import warnings
from typing import Literal

import anndata
import pandas as pd
import pytest

from daf_query import AlphabeticalOrderWarning, DafSession, connect
from daf_storage import DafWriter, from_anndata

STAGES = ["embryo", "child", "adult"]
STAGE = ["child", "embryo", None, "adult", "child", "embryo"]
KINDS = ["z", "m", "a"]
OBS = pd.DataFrame(
    {
        "stage": pd.Categorical(STAGE, STAGES, ordered=True),
        "kind": pd.Categorical(["z", "a", "z", "a", "m", "m"], KINDS),
        "n": [1, 2, 3, 4, 5, 6],
    },
    index=list("ABCDEF"),
)


@pytest.fixture(scope="module")
def daf() -> DafWriter:
    """Return cells with an ordered and an unordered categorical."""
    var = pd.DataFrame({"stage": ["embryo", "adult", "child"]}, index=["g1", "g2", "g3"])
    return from_anndata(anndata.AnnData(obs=OBS, var=var))


@pytest.fixture(scope="module")
def session(daf: DafWriter) -> DafSession:
    """Return a session that shows dictionaries."""
    return connect({"tiny": daf}, categoricals="dictionary")


@pytest.mark.parametrize("column", ["stage", "kind"])
@pytest.mark.parametrize("is_ascending", [True, False])
@pytest.mark.parametrize("missing", ["first", "last"])
def test_rows_are_sorted_as_pandas_does(
    session: DafSession,
    column: str,
    missing: Literal["first", "last"],
    *,
    is_ascending: bool,
) -> None:
    """In both directions, missing values at either end, with a second key."""
    direction = "ASC" if is_ascending else "DESC"
    query = f"SELECT name FROM obs ORDER BY {column} {direction} NULLS {missing.upper()}, n DESC LIMIT 5"
    expected = OBS.sort_values("n", ascending=False).sort_values(
        column, ascending=is_ascending, na_position=missing, kind="stable"
    )
    assert session.sql(query).to_pydict() == {"name": expected.index.tolist()[:5]}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT stage FROM obs WHERE n < 5 ORDER BY stage", ["embryo", "child", "adult", None]),
        ("SELECT o.stage FROM tiny.obs o WHERE n > 3 ORDER BY o.stage", STAGES),
        ("SELECT stage FROM obs WHERE n > 3 AND n IS DISTINCT FROM 1 ORDER BY stage", STAGES),
        (
            "SELECT stage, array_agg(DISTINCT n ORDER BY n) FROM obs GROUP BY stage ORDER BY stage",
            [*STAGES, None],
        ),
        ("SELECT stage s FROM obs WHERE n > 3 ORDER BY s", STAGES),
        ('SELECT stage FROM obs WHERE n > 3 ORDER BY "stage"', STAGES),
        ("SELECT o.stage, n FROM obs o WHERE n > 3 ORDER BY 1, 2 DESC", STAGES),
        ("SELECT stage AS s FROM obs WHERE n > 3 ORDER BY ((s))", STAGES),
        ("SELECT stage s FROM obs WHERE n > 3 ORDER BY 1 DESC", STAGES[::-1]),
        ("SELECT s FROM (SELECT stage AS s, n FROM obs) WHERE n > 3 ORDER BY s", STAGES),
        (
            "SELECT stage FROM obs WHERE n > 3 ORDER BY row_number() OVER (ORDER BY stage)",
            STAGES,
        ),
        (
            "SELECT stage FROM obs WHERE n = 4 UNION ALL SELECT stage FROM obs WHERE n = 5 ORDER BY stage",
            ["child", "adult"],
        ),
    ],
)
def test_wherever_a_query_sorts(session: DafSession, query: str, expected: list[object]) -> None:
    """Groups, aliases, subqueries, windows, aggregates and unions."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = next(iter(session.sql(query).to_pydict().values()))
    assert values == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT stage FROM obs WHERE n > 3 ORDER BY stage",
        "SELECT DISTINCT stage AS s FROM obs WHERE n > 3 ORDER BY s",
        "SELECT DISTINCT stage FROM obs WHERE n > 3 ORDER BY 1",
        "WITH o(m, stage) AS (SELECT n, name FROM obs) SELECT stage FROM o ORDER BY stage",
        "SELECT stage FROM (SELECT n, kind FROM obs) AS o (m, stage) ORDER BY stage",
        "WITH w AS (SELECT n, kind FROM obs) SELECT stage FROM w o (m, stage) ORDER BY stage",
        "SELECT v.stage FROM var v JOIN obs o ON o.n = 1 ORDER BY v.stage",
        "SELECT upper(stage) AS stage FROM obs WHERE n > 3 ORDER BY stage",
    ],
)
def test_what_is_sorted_as_strings_says_so(session: DafSession, query: str) -> None:
    """Where the name is that of something else, or DISTINCT forbids another key."""
    with pytest.warns(AlphabeticalOrderWarning, match="category_order"):
        values = next(iter(session.sql(query).to_pydict().values()))
    assert values == sorted(values)


def test_views_have_the_categories_of_their_columns(daf: DafWriter) -> None:
    """Also views of views; a name that a view gives to something else is sorted as strings."""
    session = connect({"tiny": daf}, categoricals="dictionary")
    session.sql(
        "CREATE VIEW late AS SELECT stage, n, stage AS s FROM obs WHERE n > 3", allow="write"
    )
    session.sql("CREATE VIEW later AS SELECT * FROM late", allow="write")
    session.sql("CREATE VIEW other AS SELECT upper(stage) AS stage FROM late", allow="write")
    for query in (
        "SELECT stage FROM late ORDER BY stage",
        "SELECT stage FROM later ORDER BY stage",
        "SELECT s FROM later ORDER BY s",
    ):
        assert next(iter(session.sql(query).to_pydict().values())) == STAGES
    with pytest.warns(AlphabeticalOrderWarning):
        values = session.sql("SELECT stage FROM other ORDER BY stage").to_pydict()["stage"]
    assert values == sorted(values)


def test_two_tables_with_different_categories() -> None:
    """A column of both is sorted as strings, with a warning."""
    data_sets = {}
    for name, categories in (("one", ["b", "a"]), ("two", ["a", "b"])):
        obs = pd.DataFrame({"kind": pd.Categorical(["a", "b"], categories)}, index=["A", "B"])
        data_sets[name] = from_anndata(anndata.AnnData(obs=obs))
    session = connect(data_sets, categoricals="dictionary")
    query = "SELECT kind FROM one.obs ORDER BY kind"
    assert session.sql(query).to_pydict() == {"kind": ["b", "a"]}
    with pytest.warns(AlphabeticalOrderWarning):
        session.sql("SELECT o.kind FROM one.obs o JOIN two.obs t USING (name) ORDER BY o.kind")


def test_values_that_are_no_categories_come_last() -> None:
    """Before missing ones."""
    obs = pd.DataFrame({"kind": pd.Categorical(["a", "b"], ["b", "a"])}, index=["A", "B"])
    daf = from_anndata(anndata.AnnData(obs=obs))
    daf.set_vector("obs", "kind", ["x", "a"], if_exists="replace")
    session = connect(daf, categoricals="dictionary")
    assert session.sql("SELECT kind FROM obs ORDER BY kind").to_pydict() == {"kind": ["a", "x"]}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT name FROM obs ORDER BY n DESC LIMIT 2", ["F", "E"]),
        ("SELECT stage FROM obs WHERE n > 3 ORDER BY upper(stage)", sorted(STAGES)),
        ("SELECT stage FROM obs WHERE n > 3 ORDER BY stage || 'x'", sorted(STAGES)),
        ("SELECT name FROM obs -- ORDER BY stage\nORDER BY 1 LIMIT 2", ["A", "B"]),
        ("SELECT *, 1 AS one FROM obs WHERE n > 3 ORDER BY 1", list("DEF")),
    ],
)
def test_what_else_is_sorted_by_stays(
    session: DafSession, query: str, expected: list[object]
) -> None:
    """Expressions, numbers of other columns, comments."""
    assert next(iter(session.sql(query).to_pydict().values())) == expected
