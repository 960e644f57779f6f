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
from anndata.tests.helpers import assert_equal
from hypothesis import given
from hypothesis import strategies as st

from daf_query import DafSession, DuplicateNamesWarning, connect, provenance
from daf_storage import AnnDataWarning, copy_all, errors, from_anndata
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
from tests.support import by_key, create, data_set, there


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
    """Every format says of which data set a row is, written as a whole or in blocks.

    test_members.py has files of AnnData.
    """
    for block_bytes in (1, 1 << 20):
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
    flipped = db.matrix("gene", "cell", "X", join="outer", columns="donor = 'N0'")
    for each, side, other, matrix in (
        (part, "row", "column", tmp_path / "x.mtx"),
        (flipped, "column", "row", tmp_path / "y.mtx.gz"),
    ):
        each.save(tmp_path / "x.npz")
        with np.load(tmp_path / "x.npz") as arrays:
            assert arrays[f"{side}_datasets"].tolist() == list(part.datasets)
            assert arrays[f"{side}_names"].tolist() == list(part.rows)
            assert f"{other}_datasets" not in arrays
        np.testing.assert_array_equal(sp.load_npz(tmp_path / "x.npz").toarray(), each.to_numpy())
        each.save(matrix)
        np.testing.assert_array_equal(scipy.io.mmread(matrix).toarray(), each.to_numpy())
        labels = {side: zip(part.rows, part.datasets, strict=True), other: zip(part.columns)}
        for name, rows in labels.items():
            file = tmp_path / f"{matrix.name[0]}.{name}s.tsv"  # text as ever
            assert file.read_text() == "".join("\t".join(row) + "\n" for row in rows)


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
            daf = data_set(spot=[f"s{name}"], probe=["p1", "p2"], cell=["c"])
            daf.set_matrix("spot", "probe", "Y", [[1, 2]])
            for key, value in scalar.items():
                daf.set_scalar(key, value)
            dafs.append(daf)
        part = connect(dafs).matrix("probe", "spot", "Y")
        assert part.to_numpy().tolist() == [[1, 1], [2, 2]]
        assert list(part.columns) == ["sa", "sb"]


def test_what_is_shown_has_a_part_for_each(db: DafSession) -> None:
    """Of an explanation with figures that add up, as text, HTML and JSON."""
    explanation = db.matrix("cell", "gene", "X", join="outer", rows=[0, 4, 5]).explain()
    assert list(explanation.members) == ["monday", "tuesday"]  # type: ignore[attr-defined] # of several
    described = json.loads(json.dumps(explanation.to_dict()))
    assert described["members"]["tuesday"]["rows"] == 2
    assert described["read_bytes"] == sum(m["read_bytes"] for m in described["members"].values())
    assert described["filled_elements"] == 1 * 2 + 2 * 2
    text = repr(explanation)
    assert "3 cell x 7 gene" in text
    assert "tuesday: 2 x 5, by cell" in text
    part = db.matrix("cell", "gene", "X", join="outer", rows="donor = 'N0' ORDER BY age")
    order = [("monday", "a"), ("friday", "g"), ("tuesday", "e"), ("monday", "c"), ("tuesday", "f")]
    same(part, expected_of(RUNS, "outer", 0).loc[order])
    assert "5 cell x 7 gene, sparse float64, of 3 data sets" in repr(part)
    assert "monday 2, tuesday 2, friday 1" in part._repr_html_()


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
    assert len(adata.obsp) == 0
    with pytest.warns(AnnDataWarning, match="only"):
        db.matrix("cell", "gene", "X", join="outer").save(tmp_path / "x.h5ad", block_bytes=1)
    again = anndata.read_h5ad(tmp_path / "x.h5ad")
    assert_equal(again.layers["doubled"], adata.layers["doubled"])
    with pytest.raises(errors.MatrixNotFoundError, match="obsp belongs to each data set"):
        part.to_anndata(layers=False, obsp=["graph"])
    assert [*by_key(part.to_anndata(layers=["doubled"], obsm=False).layers)] == ["doubled"]


def test_an_anndata_file_is_a_member_like_any_other(db: DafSession, tmp_path: Path) -> None:
    """In place, in HDF5 and Zarr, beside a data set: slices, gene columns and means are the same."""
    for name, suffix in zip(RUNS, ("h5ad", "daf.zarr", "h5ad", "zarr"), strict=True):
        frame = frame_of(name, RUNS[name])
        obs = pd.DataFrame({"age": np.arange(len(frame)) * 10 + len(name)}, index=frame.index)
        var = pd.DataFrame(index=frame.columns)
        adata = anndata.AnnData(sp.csr_matrix(frame.to_numpy()), obs, var)
        path = tmp_path / f"{name}.{suffix}"
        with warnings.catch_warnings(action="ignore"):
            if suffix == "daf.zarr":
                copy_all(from_anndata(adata), create(path))
            elif suffix == "zarr":
                adata.write_zarr(path)
            else:
                adata.write_h5ad(path, compression="gzip" if name == "monday" else None)
    files = connect([next(tmp_path.glob(f"{name}.*")) for name in RUNS])
    part = files.matrix("obs", "var", "X", join="outer", rows="age > 6")
    expected = db.matrix("cell", "gene", "X", join="outer", rows="age > 6")
    assert part.counts == expected.counts == {"monday": 3, "tuesday": 3, "friday": 1}
    same(part, table(expected))
    options: Any = {"fill_value": 0, "rows": "age > 6"}
    means = files.profile("obs", "var", "X", **options).statistic("mean")
    profile = db.profile("cell", "gene", "X", **options)
    np.testing.assert_allclose(means, profile.statistic("mean"))
    query = "SELECT dataset, name, X['g5'] AS g5 FROM {} WHERE X['g5'] > 0 ORDER BY name"
    found = files.sql(query.format("obs")).to_pylist()
    assert found == db.sql(query.format("cell")).to_pylist()
    assert {row["dataset"] for row in found} == {"friday"}
