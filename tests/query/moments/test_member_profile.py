"""Tests of profiles of a collection: pandas over all rows judges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from daf_query import DafSession
from daf_storage import AnnDataWarning
from tests.query.collection.cases import (
    RUNS,
    daf_of,
    expected_of,
    names_of,
    session_of,
    session_with,
)


@pytest.fixture(scope="module")
def db() -> DafSession:
    """Return a session of a collection of four data sets."""
    return session_of()


def judged(values: pd.DataFrame, codes: list[Any]) -> pd.DataFrame:
    """Return the statistics of each group and gene, by pandas."""
    long = values.astype(float).assign(group=codes).melt("group", var_name="gene")
    long["gene"] = pd.Categorical(long["gene"], values.columns)
    statistics: dict[str, Any] = {
        "count": "size",
        "missing": lambda column: column.isna().sum(),
        "nonzero": lambda column: np.count_nonzero(column.fillna(0)),
        "sum": lambda column: column.sum(min_count=1),
        **{name: name for name in ("mean", "var", "min", "max")},
    }
    grouped = long.groupby(["group", "gene"], observed=True, as_index=False)["value"]
    found = pd.DataFrame(grouped.agg(**statistics))
    return found.rename(columns={"var": "variance"}).astype({"gene": str})


def check(profile: Any, expected: pd.DataFrame) -> None:
    """Compare a profile with what pandas has; the numbers are the same but for rounding."""
    got = profile.to_pandas()
    got = got.rename(columns={got.columns[0]: "group"}).astype({"gene": str})
    pd.testing.assert_frame_equal(got, expected, check_dtype=False, rtol=1e-12)


@pytest.mark.parametrize("join", ["inner", "outer"])
@pytest.mark.parametrize("fill", [None, 0, 2.5])
def test_the_moments_of_all(db: DafSession, join: Any, fill: Any) -> None:
    """What a data set lacks is missing, unless a value is filled in; they combine exactly."""
    values = expected_of(RUNS, join, np.nan if fill is None else fill)
    donors = [f"N{i % 2}" for run in RUNS.values() for i in range(len(run.cells))]
    profile = db.profile(
        "cell", "gene", "X", by="donor", join=join, fill_value=fill, progress="never"
    )
    check(profile, judged(values, donors))
    by_run = db.profile("cell", "gene", "X", by="dataset", join=join, fill_value=fill)
    check(by_run, judged(values, [name for name, _ in values.index]))


def test_sql_has_the_same(db: DafSession) -> None:
    """profile(...) has all genes, and NULL where none was measured; so have gene columns."""
    expected = db.profile("cell", "gene", "X", by="donor", rows="age > 6").to_pandas()
    query = "SELECT * FROM profile('cell', 'gene', 'X', 'donor', 'age > 6')"
    pd.testing.assert_frame_equal(db.sql(query).to_pandas(), expected)
    odd = db.sql("SELECT DISTINCT gene FROM profile('cell', 'gene', 'X', NULL, NULL, 'is_odd')")
    assert sorted(odd.to_pydict()["gene"]) == ["g1", "g3", "g5"]
    query = "SELECT dataset, avg(X['g0']) AS mean FROM cell GROUP BY dataset ORDER BY dataset"
    rows = db.sql(query)
    first = expected_of(RUNS, "outer", np.nan)["g0"].loc["monday"].astype(float).mean()
    assert rows.to_pydict() == {
        "dataset": ["friday", "monday", "tuesday"],
        "mean": [None, pytest.approx(first), None],
    }
    assert db.sql("SELECT name FROM cell WHERE X['g0'] IS NULL").count() == 5


def test_an_anndata_of_a_profile_has_var_of_all(db: DafSession) -> None:
    """The vectors on which all data sets agree; a warning names the others."""
    profile = db.profile("cell", "gene", "X", by="dataset", columns=["g5", "g1"])
    adata = profile.to_anndata()
    assert list(adata.var_names) == ["g5", "g1"]
    assert list(adata.var["rank"]) == [5, 1]
    dafs = {name: daf_of(name, run) for name, run in RUNS.items()}
    dafs["friday"].set_vector("gene", "rank", [1, 1, 1, 1], if_exists="replace")
    with pytest.warns(AnnDataWarning, match=r"var lacks 'rank' \(it differs"):
        other = session_with(dafs).profile("cell", "gene", "X").to_anndata()
    assert list(other.var) == ["is_odd"]
    assert list(other.var_names) == names_of(RUNS, "outer")


def test_categories_are_those_of_all() -> None:
    """In the order in which the data sets have them, where an import noted them."""
    anndata = pytest.importorskip("anndata")
    from daf_storage import from_anndata

    dafs = {}
    for name, categories in (("a", ["z", "y"]), ("b", ["x", "z"])):
        obs = pd.DataFrame(
            {"type": pd.Categorical(categories, categories)}, index=[f"{name}1", f"{name}2"]
        )
        adata = anndata.AnnData(np.eye(2), obs, pd.DataFrame(index=["g1", "g2"]))
        dafs[name] = from_anndata(adata)
    db = session_with(dafs)
    profile = db.profile("obs", "var", "X", by="type", columns=["g1"])
    assert profile.to_pydict()["type"] == ["z", "y", "x"]
    adata = db.matrix("obs", "var", "X").to_anndata()
    assert list(adata.obs["type"].cat.categories) == ["z", "y", "x"]
    assert list(adata.obs["type"]) == ["z", "y", "x", "z"]
