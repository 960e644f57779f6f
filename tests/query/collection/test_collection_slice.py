"""Tests of slices of several data sets: values, forms, files, errors; pandas and anndata judge."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from daf_query import DafSession, DuplicateNamesWarning, connect, provenance
from daf_storage import AnnDataWarning, concatenate, errors, import_h5ad
from tests.limits import lower
from tests.query.collection.cases import (
    RUNS,
    Run,
    daf_of,
    expected_of,
    frame_of,
    names_of,
    same,
    session_of,
    session_with,
    table,
)
from tests.support import by_key, data_set, there


@pytest.fixture(scope="module")
def db() -> DafSession:
    """Return a session of a collection of four data sets."""
    return session_of()


@pytest.mark.parametrize("join", ["inner", "outer"])
@pytest.mark.parametrize("fill", [None, 0, 7, 1.5, np.nan, True])
def test_all_rows_with_columns_by_name(db: DafSession, join: Any, fill: Any) -> None:
    """In the order of the union table; what a data set lacks is the fill value, 0 by default."""
    part = db.matrix("cell", "gene", "X", join=join, fill_value=fill)
    same(part, expected_of(RUNS, join, 0 if fill is None else fill))
    values = part.values()
    assert sp.issparse(values)
    assert values.has_sorted_indices
    is_float = join == "outer" and isinstance(fill, float)
    assert part.dtype == np.result_type("f4", "i2", "u1", "i4", "f4" if is_float else "u1")
    assert values.dtype == part.dtype


def test_the_other_way_round(db: DafSession) -> None:
    """Genes x cells: the cells are concatenated all the same, as the axis of that name."""
    part = db.matrix("gene", "cell", "X", join="outer", rows=["g5", "g0"], columns="age > 5")
    whole = db.matrix("cell", "gene", "X", join="outer", rows="age > 5", columns=["g5", "g0"])
    np.testing.assert_array_equal(part.to_numpy(), whole.to_numpy().T)
    assert list(part.datasets) == list(whole.datasets)
    assert part.to_polars().columns[:2] == ["gene", "a-monday"]
    assert part.to_arrow().sort_by("value").column_names == ["dataset", "gene", "cell", "value"]
    blocks = [block.to_numpy() for block in part.blocks(1)]
    np.testing.assert_array_equal(np.vstack(blocks), part.to_numpy())
    with pytest.warns(DuplicateNamesWarning, match="'a-monday'"):
        assert list(part.to_anndata().var["dataset"]) == list(part.datasets)
    along = db.matrix("gene", "cell", "X", along="gene", join="outer", fill_value=np.nan)
    assert along.shape == (5 + 5 + 5 + 4, 8)


_SESSION = session_of()


@given(data=st.data())
def test_selections_are_those_of_the_whole(data: st.DataObject) -> None:
    """Positions in any order and repeated, of both axes, in blocks of any size: numpy indexes."""
    db = _SESSION
    join: Any = data.draw(st.sampled_from(["inner", "outer"]))
    whole = expected_of(RUNS, join, 3)
    rows = data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=12))
    columns = data.draw(st.lists(st.integers(0, whole.shape[1] - 1), max_size=9))
    options: Any = {"join": join, "fill_value": 3}
    part = db.matrix("cell", "gene", "X", rows=rows, columns=columns, **options)
    expected = whole.iloc[rows, columns]
    bounds = part.explain()
    block_bytes = data.draw(st.sampled_from([1, 40, 1 << 20]))
    with pytest.MonkeyPatch.context() as patch:
        lower(patch, part_bytes=block_bytes)
        same(part, expected)
    assert part.nnz <= bounds.stored_elements
    transposed = db.matrix("gene", "cell", "X", rows=columns, columns=rows, **options)
    np.testing.assert_array_equal(transposed.to_numpy(), part.to_numpy().T)
    heights = [block.shape[0] for block in part.blocks(max_bytes=max(block_bytes, 8))]
    assert sum(heights) == len(rows)


def test_forms(db: DafSession) -> None:
    """Pandas has two levels of labels, tables the column dataset; blocks have what is theirs."""
    part = db.matrix("cell", "gene", "X", join="outer", rows="donor = 'N0' ORDER BY age")
    expected = expected_of(RUNS, "outer", 0)
    order = [("monday", "a"), ("friday", "g"), ("tuesday", "e"), ("monday", "c"), ("tuesday", "f")]
    same(part, expected.loc[order])
    frame = part.to_pandas()
    assert list(frame.index) == order
    assert frame.index.names == ["dataset", "cell"]
    wide = part.to_polars()
    assert wide.columns == ["dataset", "cell", *expected.columns]
    assert wide["dataset"].to_list() == [dataset for dataset, _ in order]
    long = part.to_arrow().to_pylist()
    got = {(row["dataset"], row["cell"], row["gene"]): row["value"] for row in long}
    assert got == {
        (*row, gene): value
        for gene, column in expected.loc[order].items()
        for row, value in zip(order, column, strict=True)
        if value
    }
    both = [table(block) for block in part.blocks(2)]
    pd.testing.assert_frame_equal(pd.concat(both), table(part))
    blocks = [block.to_numpy() for block in part.load().blocks(max_bytes=60)]
    np.testing.assert_array_equal(np.vstack(blocks), part.to_numpy())
    assert "5 cell x 7 gene, sparse float64, of 3 data sets" in repr(part)
    assert "monday 2, tuesday 2, friday 1" in part._repr_html_()


def test_var_is_of_all_data_sets_with_the_matrix(db: DafSession) -> None:
    """Also of those of which no row is selected, and where none is."""
    for rows in ("dataset = 'monday'", "age > 999"):
        part = db.matrix("cell", "gene", "X", join="outer", rows=rows)
        var = part.to_anndata().var
        assert var["rank"].tolist() == [int(gene[1:]) for gene in names_of(RUNS, "outer")]
    runs = {name: daf_of(name, RUNS[name]) for name in ("monday", "friday")}
    part = session_with(runs).matrix("cell", "gene", "X", join="outer")
    runs["friday"].reorder_axis("gene", np.array([3, 2, 1, 0]))
    with pytest.raises(errors.InvalidInputError, match="replaced or reordered"):
        part.to_anndata()


def test_files(db: DafSession, tmp_path: Path) -> None:
    """Every format says of which data set a row is, written as a whole or in blocks."""
    part = db.matrix("cell", "gene", "X", join="outer", rows="donor = 'N0'")
    for block_bytes in (1, 1 << 20):
        path = tmp_path / f"{block_bytes}.h5ad"
        part.save(path, block_bytes=block_bytes)
        again = anndata.read_h5ad(path)
        np.testing.assert_array_equal(again.X.toarray(), part.to_numpy())
        assert list(again.obs["dataset"]) == list(part.datasets)
        part = db.matrix("cell", "gene", "X", join="outer", rows="donor = 'N0'")
        part.save(tmp_path / f"{block_bytes}.parquet", block_bytes=block_bytes)
        part.save(tmp_path / f"{block_bytes}.csv", block_bytes=block_bytes)
    assert pq.read_table(tmp_path / "1.parquet").equals(pq.read_table(tmp_path / "1048576.parquet"))
    assert (tmp_path / "1.csv").read_text() == (tmp_path / "1048576.csv").read_text()
    assert pl.read_csv(tmp_path / "1.csv").to_dicts() == part.to_polars().to_dicts()
    record = there(provenance(tmp_path / "1.parquet"))
    assert set(record["data_sets"]["runs"]) == set(RUNS)
    assert (record["join"], record["along"], record["fill_value"]) == ("outer", "cell", 0)
    assert record["rows"] == "donor = 'N0'"
    part.save(tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as arrays:
        assert arrays["row_datasets"].tolist() == list(part.datasets)
        assert arrays["row_names"].tolist() == list(part.rows)
    np.testing.assert_array_equal(sp.load_npz(tmp_path / "x.npz").toarray(), part.to_numpy())
    part.save(tmp_path / "x.mtx")
    np.testing.assert_array_equal(scipy.io.mmread(tmp_path / "x.mtx").toarray(), part.to_numpy())
    lines = (tmp_path / "x.rows.tsv").read_text().splitlines()
    assert lines == [
        f"{name}\t{dataset}" for name, dataset in zip(part.rows, part.datasets, strict=True)
    ]


def test_names_beside_a_compressed_matrix(db: DafSession, tmp_path: Path) -> None:
    """They are text as ever, and name the data set of whichever side is concatenated."""
    part = db.matrix("gene", "cell", "X", join="outer", rows=["g5", "g0"], columns="age > 5")
    part.save(tmp_path / "x.mtx.gz")
    found = sorted(file.name for file in tmp_path.iterdir())
    assert found == [*("x.columns.tsv", "x.mtx.gz", "x.rows.tsv")]
    np.testing.assert_array_equal(scipy.io.mmread(tmp_path / "x.mtx.gz").toarray(), part.to_numpy())
    assert (tmp_path / "x.rows.tsv").read_text() == "g5\ng0\n"
    assert (tmp_path / "x.columns.tsv").read_text() == "".join(
        f"{name}\t{dataset}\n" for name, dataset in zip(part.columns, part.datasets, strict=True)
    )
    part.save(tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as arrays:
        assert arrays["column_datasets"].tolist() == list(part.datasets)
        assert "row_datasets" not in arrays


def test_a_member_that_lacks_the_matrix() -> None:
    """It has no part in the join."""
    plain = daf_of("plain", Run(["p", "q"], ["g9"]))
    plain.delete_matrix("cell", "gene", "X")
    both = session_with({**{n: daf_of(n, r) for n, r in RUNS.items()}, "plain": plain})
    part = both.matrix("cell", "gene", "X", rows="dataset <> 'plain'")
    same(part, expected_of(RUNS, "inner", 0))


def test_an_obs_axis_of_another_name_is_concatenated() -> None:
    """The scalar obs_is of an import says so, or var_is which is aligned."""
    for scalar in ({"obs_is": "spot"}, {"var_is": "probe"}):
        dafs = []
        for name in ("a", "b"):
            daf = daf_of(name, Run(["c"], ["g1"]))
            data_set(daf, spot=[f"s{name}"], probe=["p1", "p2"])
            daf.set_matrix("spot", "probe", "Y", [[1, 2]])
            for key, value in scalar.items():
                daf.set_scalar(key, value)
            dafs.append(daf)
        part = connect(dafs).matrix("probe", "spot", "Y")
        assert part.to_numpy().tolist() == [[1, 1], [2, 2]]
        assert list(part.columns) == ["sa", "sb"]


def test_the_explanation_has_a_part_for_each(db: DafSession) -> None:
    """With figures that add up, as text, HTML and JSON."""
    explanation = db.matrix("cell", "gene", "X", join="outer", rows=[0, 4, 5]).explain()
    assert list(explanation.members) == ["monday", "tuesday"]  # type: ignore[attr-defined] # of several
    described = json.loads(json.dumps(explanation.to_dict()))
    assert described["members"]["tuesday"]["rows"] == 2
    assert described["read_bytes"] == sum(m["read_bytes"] for m in described["members"].values())
    assert described["filled_elements"] == 1 * 2 + 2 * 2
    text = repr(explanation)
    assert "3 cell x 7 gene" in text
    assert "tuesday: 2 x 5, by cell" in text
    assert explanation._repr_html_().startswith("<pre>")


def test_companions_come_along(tmp_path: Path) -> None:
    """Layers and obsm of all data sets; what one lacks is left out with a warning."""
    dafs = {}
    for name, run in (("one", Run(["a", "b"], ["g1", "g2"])), ("two", Run(["c"], ["g2", "g3"]))):
        daf = daf_of(name, run)
        values = frame_of(name, run).to_numpy()
        daf.set_matrix("cell", "gene", "doubled", sp.csc_array(values * 2))
        daf.add_axis("pc", ["0", "1"] if name == "one" else ["1", "2"])
        daf.set_matrix("cell", "pc", "pca", np.arange(len(run.cells) * 2.0).reshape(-1, 2))
        daf.set_matrix("cell", "cell", "graph", np.eye(len(run.cells)))
        dafs[name] = daf
    dafs["one"].set_matrix("cell", "gene", "only", sp.csc_array((2, 2)))
    db = session_with(dafs)
    part = db.matrix("cell", "gene", "X", join="outer")
    with pytest.warns(AnnDataWarning, match=r"layers\['only'\] is left out: .* two has no layers"):
        adata = part.to_anndata()
    np.testing.assert_array_equal(adata.layers["doubled"].toarray(), adata.X.toarray() * 2)
    expected = [[0, 1, np.nan], [2, 3, np.nan], [np.nan, 0, 1]]
    np.testing.assert_array_equal(adata.obsm["pca"], expected)
    assert "obsp" not in adata.obsp
    with pytest.warns(AnnDataWarning, match="only"):
        db.matrix("cell", "gene", "X", join="outer").save(tmp_path / "x.h5ad", block_bytes=1)
    again = anndata.read_h5ad(tmp_path / "x.h5ad")
    np.testing.assert_array_equal(
        again.layers["doubled"].toarray(), adata.layers["doubled"].toarray()
    )
    with pytest.raises(errors.MatrixNotFoundError, match="obsp belongs to each data set"):
        part.to_anndata(layers=False, obsp=["graph"])
    assert [*by_key(part.to_anndata(layers=["doubled"], obsm=False).layers)] == ["doubled"]
    assert names_of({"one": Run([], ["g1"])}, "inner") == ["g1"]


def test_an_anndata_file_is_a_member_like_any_other(tmp_path: Path) -> None:
    """In place, in HDF5 and Zarr, beside a data set; as anndata.concat and concatenate have it."""
    adatas = {}
    for name, run in RUNS.items():
        obs = pd.DataFrame({"age": np.arange(len(run.cells))}, index=run.cells)
        values = sp.csr_matrix(frame_of(name, run).to_numpy())
        adatas[name] = anndata.AnnData(values, obs, pd.DataFrame(index=run.genes))
    for name in ("empty", "monday"):
        adatas[name].write_h5ad(
            tmp_path / f"{name}.h5ad", compression="gzip" if name == "monday" else None
        )
    with warnings.catch_warnings(action="ignore"):
        adatas["friday"].write_zarr(tmp_path / "friday.zarr")
    adatas["tuesday"].write_h5ad(tmp_path / "x.h5")
    import_h5ad(tmp_path / "x.h5", tmp_path / "tuesday.daf.zarr")
    (tmp_path / "x.h5").unlink()
    db = connect(f"{tmp_path}/*")
    part = db.matrix("obs", "var", "X", join="outer", rows="age > 0")
    assert part.counts == {"friday": 1, "monday": 3, "tuesday": 2}
    order = ["empty", "friday", "monday", "tuesday"]
    judge = anndata.concat({n: adatas[n] for n in order}, join="outer", index_unique="-")
    judge = judge[judge.obs["age"] > 0]
    ours = part.to_anndata()
    assert [name.split("-")[0] for name in judge.obs_names] == list(ours.obs_names)
    np.testing.assert_array_equal(ours.X.toarray(), judge[:, list(ours.var_names)].X.toarray())
    means = db.profile("obs", "var", "X", fill_value=0, rows="age > 0").statistic("mean")
    np.testing.assert_allclose(means[0], ours.X.toarray().mean(axis=0))
    gene = db.sql("SELECT dataset, name, X['g5'] AS g5 FROM obs WHERE X['g5'] > 0").to_pylist()
    assert {(row["dataset"], row["name"], row["g5"]) for row in gene} == {
        ("friday", cell, value)
        for cell, value in frame_of("friday", RUNS["friday"])["g5"].items()
        if value
    }
    options: Any = {"join": "outer", "prefix": True, "progress": "never"}
    concatenate(tmp_path / "all.h5df", "obs", sorted(tmp_path.iterdir()), **options)
    whole = connect(tmp_path / "all.h5df").matrix("obs", "var", "X")
    collected = db.matrix("obs", "var", "X", join="outer")
    assert list(whole.columns) == list(collected.columns)
    np.testing.assert_array_equal(whole.to_numpy(), collected.to_numpy())
