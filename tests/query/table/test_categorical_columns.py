"""Tests of categoricals as dictionaries, and of their order in SQL."""

from __future__ import annotations

from typing import Any, cast

import anndata
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from daf_query import DafSession, connect
from daf_storage import DafWriter, MemoryDaf, errors, from_anndata

STAGES = ["embryo", "child", "adult", "unused"]
STAGE = ["child", "embryo", None, "adult", "child"]


@pytest.fixture
def daf() -> DafWriter:
    """Return cells with an ordered and an unordered categorical."""
    obs = pd.DataFrame(
        {
            "stage": pd.Categorical(STAGE, STAGES, ordered=True),
            "kind": pd.Categorical(["z", "a", "z", "a", "m"], ["z", "m", "a"]),
        },
        index=list("ABCDE"),
    )
    return from_anndata(anndata.AnnData(obs=obs))


@pytest.fixture
def session(daf: DafWriter) -> DafSession:
    """Return a session that shows dictionaries."""
    return connect({"tiny": daf}, categoricals="dictionary")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT stage FROM obs ORDER BY index",
        "SELECT stage FROM (SELECT stage, min(index) AS i FROM obs GROUP BY stage) ORDER BY i",
        "SELECT a.stage FROM obs a JOIN obs b ON a.stage = b.stage",
        "SELECT stage FROM obs UNION ALL SELECT stage FROM obs",
        "SELECT stage AS s FROM obs WHERE stage <> 'child'",
        "SELECT stage FROM obs WHERE false",
    ],
)
def test_results_keep_the_categories(session: DafSession, daf: DafWriter, query: str) -> None:
    """In Arrow, pandas and polars, whatever the engine did to the codes; the values are the same."""
    result = session.sql(query)
    table = result.to_arrow_table()
    assert table.schema.field(0).type == pa.dictionary(pa.int32(), pa.string(), ordered=True)
    expected = connect({"tiny": daf}).sql(query).to_arrow_table()
    assert sorted(map(str, table.column(0).to_pylist())) == sorted(
        map(str, expected.column(0).to_pylist())
    )
    values = result.to_pandas().iloc[:, 0]
    assert values.dtype == pd.CategoricalDtype(STAGES, ordered=True)
    if table.num_rows:
        assert result.to_polars().dtypes[0] == pl.Enum(STAGES)


@pytest.mark.parametrize(
    "predicate",
    [
        "stage = 'child'",
        "stage <> 'child'",
        "stage IN ('child', 'adult')",
        "stage NOT IN ('child')",
        "stage IS NULL",
        "stage IS NOT NULL",
        "stage LIKE 'c%'",
        "upper(stage) = 'CHILD'",
        "stage > 'b' AND kind = 'z'",
        "stage = kind OR kind = 'm'",
        "stage BETWEEN 'a' AND 'c'",
        "stage = 'gone'",
    ],
)
def test_filters_are_those_of_strings(session: DafSession, daf: DafWriter, predicate: str) -> None:
    """The same rows as a session without dictionaries yields."""
    query = f"SELECT name FROM obs WHERE {predicate} ORDER BY name"
    assert session.sql(query).to_pydict() == connect(daf).sql(query).to_pydict()


@pytest.mark.parametrize("categoricals", ["string", "dictionary"])
def test_the_order_of_the_categories(daf: DafWriter, categoricals: str) -> None:
    """``category_order`` sorts by it, also groups, descending, and with any schema."""
    session = connect({"tiny": daf}, categoricals=categoricals)  # type: ignore[arg-type] # one of both
    by = "category_order('obs.stage', stage)"
    names = session.sql(f"SELECT name FROM obs ORDER BY {by} NULLS LAST, name").to_pydict()
    assert names == {"name": ["B", "A", "E", "D", "C"]}
    groups = f"SELECT stage, count(*) AS n FROM obs GROUP BY stage ORDER BY {by} DESC NULLS LAST"
    assert session.sql(groups).to_pydict() == {
        "stage": ["adult", "child", "embryo", None],
        "n": [1, 2, 1, 1],
    }
    full = "SELECT name FROM obs ORDER BY category_order('tiny.obs.kind', kind), name"
    assert session.sql(full).to_pydict() == {"name": ["A", "C", "E", "B", "D"]}


def test_unknown_categories(session: DafSession) -> None:
    """An unknown column is an error that names those that are known."""
    message = (
        r"no categories of 'obs\.stag'; there are those of obs\.kind, obs\.stage.*did you mean"
    )
    with pytest.raises(errors.QueryError, match=message):
        session.sql("SELECT category_order('obs.stag', stage) FROM obs").to_pydict()


def test_values_that_are_no_categories_follow(daf: DafWriter, session: DafSession) -> None:
    """A vector that was replaced keeps its values, those without a place at the end."""
    daf.set_vector("obs", "stage", ["b", "adult", "a", "child", "b"], if_exists="replace")
    values = session.sql("SELECT stage FROM obs ORDER BY index").to_pandas()["stage"]
    assert values.tolist() == ["b", "adult", "a", "child", "b"]
    assert values.cat.categories.tolist() == [*STAGES, "a", "b"]


def test_an_unknown_choice_is_refused() -> None:
    """It says which there are."""
    with pytest.raises(errors.InvalidInputError, match="'string' or 'dictionary', not 'codes'"):
        connect(MemoryDaf(), categoricals=cast("Any", "codes"))
