"""Tests of ORDER BY a categorical: in the order of the categories."""

from __future__ import annotations

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
