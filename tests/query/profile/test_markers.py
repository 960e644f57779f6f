"""Tests of markers and totals, beside scanpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scanpy
import scipy.sparse as sp

import daf_query
import daf_storage
from daf_storage import errors
from tests.support import data_set

pytestmark = pytest.mark.filterwarnings(
    "ignore::RuntimeWarning", "ignore::pandas.errors.PerformanceWarning", "ignore:.*whole numbers"
)


def _cells(n_cells: int = 240, *, seed: int = 1) -> anndata.AnnData:
    """Return logarithms of counts, of genes that differ between types, are constant (in each), and are zero."""
    random = np.random.default_rng(seed)
    types = random.choice(["B", "NK", "T"], n_cells)
    rates = np.where(types == "T", 3.0, 1.0)[:, np.newaxis] * random.uniform(0.05, 1.5, 40)
    values = np.log1p(random.poisson(rates)).astype(np.float64)
    values[:, 0], values[:, 1], values[:, 2] = 0.0, 1.0, np.where(types == "T", 2.0, 1.0)
    obs = pd.DataFrame(
        {"type": pd.Categorical(types)}, index=[f"c{seed}-{n}" for n in range(n_cells)]
    )
    var = pd.DataFrame(index=[f"g{number}" for number in range(39)] + ["MT-1"])
    return anndata.AnnData(sp.csr_matrix(values), obs, var)


def _session(adata: anndata.AnnData, path: Path, form: str) -> daf_query.DafSession:
    """Return a session over an AnnData: in place, imported, or cut into two files."""
    if form == "in place":
        adata.write_h5ad(path / "x.h5ad")
        return daf_query.connect(path / "x.h5ad")
    if form == "imported":
        return daf_query.connect(daf_storage.from_anndata(adata))
    for number, half in enumerate((slice(None, 100), slice(100, None))):
        adata[half].copy().write_h5ad(path / f"x{number}.h5ad")
    return daf_query.connect(str(path / "*.h5ad"))


FORMS = pytest.mark.parametrize("form", ["in place", "imported", "two files"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("form", "reference", "method", "tie_correct"),
    [
        ("in place", "rest", "t-test", False),
        ("imported", "rest", "t-test", False),
        ("two files", "NK", "t-test", False),
        ("imported", "rest", "wilcoxon", False),
        ("two files", "rest", "wilcoxon", True),
        ("in place", "NK", "wilcoxon", True),
    ],
)
def test_markers_are_those_of_scanpy(
    tmp_path: Path, *, form: str, reference: str, method: Any, tie_correct: bool
) -> None:
    """Scores, p-values, fold changes and fractions, of every group and gene, in one file and two.

    A cell without a group belongs to the rest.
    """
    adata = _cells()
    if form == "imported":
        adata.obs["type"] = adata.obs["type"].where(np.arange(240) % 7 > 0)
    options: dict[str, Any] = {"tie_correct": tie_correct} if method == "wilcoxon" else {}
    scanpy.tl.rank_genes_groups(
        adata, "type", method=method, reference=reference, pts=True, use_raw=False, **options
    )
    with _session(adata, tmp_path, form) as db:
        ask: Any = {"reference": reference, "method": method, "memory_bytes": "64kB", **options}
        frame = db.markers("obs", "var", "X", by="type", **ask).to_pandas()
    groups = [name for name in ("B", "NK", "T") if name != reference]
    assert frame["type"].unique().tolist() == groups
    for group in groups:
        expected = scanpy.get.rank_genes_groups_df(adata, group).set_index("names")
        mine = frame[frame["type"] == group].set_index("var")
        expected = expected.loc[mine.index.astype(str)]
        np.testing.assert_allclose(mine["score"], expected["scores"], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(mine["pvalue"], expected["pvals"], rtol=1e-9)
        np.testing.assert_allclose(mine["pvalue_adjusted"], expected["pvals_adj"], rtol=1e-9)
        np.testing.assert_allclose(
            mine["log_fold_change"], expected["logfoldchanges"], rtol=1e-5, atol=1e-5
        )
        pct = adata.uns["rank_genes_groups"]["pts"].loc[mine.index.astype(str), group]
        np.testing.assert_allclose(mine["fraction"], pct, rtol=1e-12)
        assert mine["score"].is_monotonic_decreasing


def _grouped(values: list[list[float]], **vectors: Any) -> daf_query.DafSession:
    """Return a session over cells with vectors to group them by, and genes x and y."""
    cells = {"name": list("ABCDEFG"[: len(values)]), **vectors}
    found = {("cell", "gene", "n"): values}
    return daf_query.connect(
        data_set(cell=cells, gene=["x", "y"][: len(values[0])], matrices=found)
    )


def test_a_chosen_part_is_compared_alone() -> None:
    """Rows, columns and parameters choose what is compared; numbers that are no logarithms stay so."""
    values: list[list[float]] = [[8, 0], [8, 0], [2, 1], [2, 3], [50, 0], [60, 9]]
    db = _grouped(values, type=list("TTBBUU"), age=[1, 2, 3, 4, 5, 6])
    chosen: Any = {"rows": "age < $most", "columns": ["x"], "params": {"most": 5}}
    found = db.markers("cell", "gene", "n", by="type", is_log1p=False, **chosen)
    assert found.select(
        "type", "gene", "round(log_fold_change, 3) AS change", "mean", "mean_rest"
    ).to_pylist() == [
        {"type": "B", "gene": "x", "change": -2.0, "mean": 2.0, "mean_rest": 8.0},
        {"type": "T", "gene": "x", "change": 2.0, "mean": 8.0, "mean_rest": 2.0},
    ]


def test_ranks_leave_out_what_is_missing() -> None:
    """A value that is NaN is none of its group, and none of the rest."""
    db = _grouped([[1.0], [2.0], [2.0], [4.0], [0.0], [np.nan], [np.nan]], type=list("TTBBBTB"))
    ask: dict[str, Any] = {"by": "type", "method": "wilcoxon", "tie_correct": True}
    found, expected = (
        db.markers("cell", "gene", "n", rows=rows, **ask).select("score", "pvalue").to_pydict()
        for rows in (None, range(5))
    )
    assert found == expected


@pytest.mark.parametrize("method", ["t-test", "wilcoxon"])
def test_nothing_to_compare_is_no_row(method: Any) -> None:
    """Without columns, or where the one group that has a name is the reference."""
    db = _grouped([[1.0], [2.0], [4.0]], type=list("TTB"))
    ask: dict[str, Any] = {"method": method, "is_log1p": False}
    assert db.markers("cell", "gene", "n", by="type", columns=[], **ask).to_pylist() == []
    only = "CASE WHEN type = 'T' THEN 'T' END AS only"
    assert db.markers("cell", "gene", "n", by=only, reference="T", **ask).to_pylist() == []


def test_too_few_values_have_no_score() -> None:
    """A group of one cell has no variance: NULL, and no p-value that would count for others."""
    db = _grouped([[1.0], [2.0], [4.0]], type=list("TBB"))
    rows = db.markers("cell", "gene", "n", by="type").to_pylist()
    assert [row["score"] for row in rows] == [None, None]
    assert [row["mean"] for row in rows] == [3.0, 1.0]


FOUR = [[1.0], [2.0], [4.0], [7.0]]


@pytest.mark.parametrize(
    ("values", "reference"),
    [
        ([1, 1, 2, 3], 1),
        ([1, 1, 2, 3], "1"),
        ([1, 1, 2, 3], np.int64(1)),
        ([0.5, 0.5, 2.0, 3.0], 0.5),
        ([0.5, 0.5, 2.0, 3.0], "0.5"),
        ([True, True, False, False], True),
        ([True, True, False, False], "true"),
        ([True, True, False, False], "True"),
        (["1", "1", "2", "3"], 1),
    ],
)
def test_a_reference_is_a_value_or_its_text(values: Any, reference: Any) -> None:
    """Groups of numbers and truth values have one, too."""
    found = _grouped(FOUR, key=values).markers("cell", "gene", "n", by="key", reference=reference)
    assert set(found.to_pydict()["key"]) == set(values) - {values[0]}
    assert set(found.to_pydict()["mean_rest"]) == {1.5}


def test_a_reference_is_one_group() -> None:
    """Where two groups of several columns would be written alike, their values tell them apart."""
    db = _grouped(FOUR, key=["a_b", "a", "a", "c"], other=["c", "b_c", "d", "c"])
    ask: dict[str, Any] = {"by": ["key", "other"]}
    with pytest.raises(errors.InvalidInputError, match="'a_b_c' is the name of 2 groups") as raised:
        db.markers("cell", "gene", "n", reference="a_b_c", **ask)
    assert "('a', 'b_c')" in str(raised.value)
    found = db.markers("cell", "gene", "n", reference=("a", "b_c"), **ask).to_pydict()
    assert sorted(zip(found["key"], found["other"], strict=True)) == [
        ("a", "d"),
        ("a_b", "c"),
        ("c", "c"),
    ]
    assert set(found["mean_rest"]) == {2.0}


@FORMS
def test_totals_are_the_quality_control_of_scanpy(tmp_path: Path, form: str) -> None:
    """Counts, genes and the share of mitochondrial ones, in one call for each."""
    adata = _cells()
    adata.X.data = np.expm1(adata.X.data).round()
    adata.var["mito"] = [name.startswith("MT-") for name in adata.var_names]
    scanpy.pp.calculate_qc_metrics(
        adata, qc_vars=["mito"], percent_top=None, log1p=False, inplace=True
    )
    expected = adata.obs.copy()
    adata.obs = adata.obs[["type"]]
    with _session(adata, tmp_path, form) as db:
        every = db.totals("obs", "var", "X").to_pandas().set_index("name").loc[adata.obs_names]
        mito = db.totals("obs", "var", "X", columns="name LIKE 'MT-%'").to_pandas()
        part = db.totals("obs", "var", "X", rows="type = 'T'", columns="mito")
        assert part.count() == int((adata.obs["type"] == "T").sum())
    mito = mito.set_index("name").loc[adata.obs_names]
    np.testing.assert_allclose(every["sum"], expected["total_counts"])
    assert every["nonzero"].tolist() == expected["n_genes_by_counts"].tolist()
    np.testing.assert_allclose(every["mean"], expected["total_counts"] / 40)
    np.testing.assert_allclose(mito["share"] * 100, expected["pct_counts_mito"])
    assert np.all(every["share"] == 1)


@FORMS
def test_sql_has_markers_and_totals_as_tables(tmp_path: Path, form: str) -> None:
    """With the rows of the calls of Python, and conditions upon them."""
    with _session(_cells(), tmp_path, form) as db:
        expected = db.markers("obs", "var", "X", by="type", rows="name > 'c1-2'").to_pandas()
        query = "SELECT * FROM markers('obs', 'var', 'X', 'type', 'name > ''c1-2''')"
        found = db.sql(query).to_pandas()
        keys = ["type", "var"]
        pd.testing.assert_frame_equal(
            found.astype({"var": str}).sort_values(keys, ignore_index=True),
            expected.astype({"var": str}).sort_values(keys, ignore_index=True),
            check_categorical=False,
        )
        query = "SELECT type, var FROM markers('obs', 'var', 'X', 'type') WHERE score > 5 AND pvalue_adjusted < 0.01"
        best = db.sql(query)
        assert best.count() > 0
        totals = db.totals("obs", "var", "X", columns="name LIKE 'MT-%'").to_pandas()
        query = "SELECT * FROM totals('obs', 'var', 'X', NULL, 'name LIKE ''MT-%''')"
        requested = db.sql(query).to_pandas()
        pd.testing.assert_frame_equal(requested, totals)
