"""Tests of categoricals as dictionaries; their order is in the table of queries."""

from __future__ import annotations

import anndata
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from daf_query import DafSession, connect
from daf_storage import DafWriter, from_anndata

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
    assert all(batch.schema == result.schema for batch in result.batches())
    expected = connect({"tiny": daf}).sql(query).to_arrow_table()
    found = sorted(map(str, table.column(0).to_pylist()))
    assert found == sorted(map(str, expected.column(0).to_pylist()))
    values = result.to_pandas().iloc[:, 0]
    assert values.dtype == pd.CategoricalDtype(STAGES, ordered=True)
    if table.num_rows:
        assert result.to_polars().dtypes[0] == pl.Enum(STAGES)


def test_values_that_are_no_categories_follow(daf: DafWriter, session: DafSession) -> None:
    """A vector that was replaced keeps its values, those without a place at the end."""
    daf.set_vector("obs", "stage", ["b", "adult", "a", "child", "b"], if_exists="replace")
    values = session.sql("SELECT stage FROM obs ORDER BY index").to_pandas()["stage"]
    assert values.tolist() == ["b", "adult", "a", "child", "b"]
    assert values.cat.categories.tolist() == [*STAGES, "a", "b"]
