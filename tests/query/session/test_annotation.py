"""Vectors out of tables with a key, and overlays of sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp

from daf_query import UnreadableVectorWarning, connect
from daf_storage import DafWriter, MemoryDaf, ZarrDaf, complete_daf, errors, open_daf, to_anndata
from tests.support import CELLS, contents, dense, fill


@pytest.fixture
def daf() -> DafWriter:
    """Return a data set in memory."""
    return fill(MemoryDaf())


@pytest.mark.parametrize("form", ["csv", "tsv.gz", "parquet", "pandas.parquet", "frame", "query"])
def test_columns_find_their_entries(tmp_path: Path, daf: DafWriter, form: str) -> None:
    """Rows in another order, some unknown, some entries without: as a join of pandas has it."""
    frame = pd.DataFrame({"barcode": ["CATA", "NADA", "TATA"], "label": ["t", "x", "b"]})
    frame["n"], frame["score"] = [5, 6, 7], [0.5, 1.5, 2.5]
    rows: Any = tmp_path / f"labels.{form}"
    params = None
    db = connect(daf)
    if "parquet" in form:
        (frame.set_index("barcode") if "pandas" in form else frame).to_parquet(rows)
    elif form == "frame":
        rows = frame
    elif form == "query":
        db.register(frame, "labels")
        rows, params = "SELECT * FROM labels WHERE barcode <> $no", {"no": "nothing"}
    else:
        frame.to_csv(rows, sep="\t" if "tsv" in form else ",", index=False)
    found = db.annotate("cell", rows, key=None if "pandas" in form else "barcode", params=params)
    assert found.to_dict() == {
        "axis": "cell",
        "vectors": {"label": "String", "n": "Float64", "score": "Float64"},
        "entries": 3,
        "matched": 2,
        "unmatched_keys": 1,
        "examples": ["NADA"],
    }
    joined = pd.DataFrame({"barcode": CELLS}).merge(frame, how="left", on="barcode")
    for name in ("n", "score"):
        assert np.array_equal(daf.get_np_vector("cell", name), joined[name], equal_nan=True)
    assert db.sql("SELECT label FROM cell").to_pydict() == {"label": ["b", None, "t"]}


def test_types_of_what_is_complete(daf: DafWriter) -> None:
    """Integers and booleans stay what they are; dates are strings; ``fill=`` completes a column."""
    table = pa.table(
        {
            "name": ["TATA", "GATA", "CATA"],
            "n": pa.array([1, 2, 3], pa.int8()),
            "flag": [True, False, True],
            "day": pa.array([0, 1, 2], pa.date32()),
            "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
        }
    )
    db = connect(daf)
    found = db.annotate("cell", table).vectors
    assert found == {"n": "Int8", "flag": "Bool", "day": "String", "kind": "String"}
    assert daf.get_np_vector("cell", "day").tolist() == ["1970-01-01", "1970-01-02", "1970-01-03"]
    options: Any = {"columns": ["flag", "n"], "fill": {"flag": True, "n": 9}}
    db.annotate("cell", table.slice(1), if_exists="replace", **options)
    assert daf.get_np_vector("cell", "flag").tolist() == [True, False, True]
    assert daf.vector_info("cell", "n").storage_type.value == "Int8"
    assert daf.get_np_vector("cell", "n").tolist() == [9, 2, 3]


def test_categoricals_come_back(tmp_path: Path, atlas: Path) -> None:
    """With their categories and order, in slices, exports, groups and overlays; what is noted stays."""
    column = pd.Categorical(["mid", "low", None], ["low", "unused", "mid"], ordered=True)
    frame = pd.DataFrame({"name": CELLS, "level": column, "plain": ["x", "y", "z"]})
    for db in (connect(fill(MemoryDaf())), connect(atlas, overlay=tmp_path / "mine.daf.zarr")):
        db.annotate("cell", frame)
        db.annotate("cell", frame[["name", "plain"]].astype("category"), if_exists="replace")
        expected = frame["level"].array
        slices = db.matrix("cell", "gene", "UMIs").to_anndata().obs
        for obs in (slices, to_anndata(db.reader(), obs_is="cell", var_is="gene", X_is="UMIs").obs):
            assert obs["level"].array.equals(expected)
            assert list(obs["plain"].cat.categories) == ["x", "y", "z"]
        profile = db.profile("cell", "gene", "UMIs", by="level", columns=[0])
        assert profile.to_pydict()["level"] == ["low", "mid", None]
    with ZarrDaf(tmp_path / "x.daf.zarr.zip", "w") as archive:
        db = connect(fill(archive))
        db.annotate("cell", frame)
        db.annotate("cell", frame[["name", "plain"]].astype("category"), columns={"p": "plain"})
        obs = db.matrix("cell", "gene", "UMIs").to_anndata().obs
        assert obs["level"].array.equals(expected)
        assert obs["p"].tolist() == ["x", "y", "z"]  # nothing in an archive is replaced


@pytest.fixture
def atlas(tmp_path: Path) -> Path:
    """Return the path of a data set that is not to be changed."""
    with ZarrDaf(tmp_path / "atlas.daf.zarr", "w") as daf:
        fill(daf)
    return tmp_path / "atlas.daf.zarr"


def test_a_session_writes_into_its_overlay(tmp_path: Path, atlas: Path) -> None:
    """Whatever is saved; the base is as it was, and complete_daf has both."""
    mine = tmp_path / "mine.daf.zarr"
    with open_daf(atlas) as base:
        before = contents(base)
    with connect(str(atlas.with_name("atlas*")), overlay=mine) as db:  # which matches it alone
        assert list(db.schemas) == ["atlas"]
        assert db.tables() == ["cell", "gene", "matrices", "relations", "scalars"]
        db.save_vector("cell", "is_old", "age > 30")
        db.save_axis("type", "SELECT type AS name, count(*) AS n FROM cell GROUP BY 1 ORDER BY 1")
        db.save_matrix(db.profile("cell", "gene", "UMIs", by="is_old"))
        part = db.matrix("cell", "gene", "UMIs", rows="is_old")
        db.save_matrix(part, name="old", fill=0)
        assert db.build_index("cell", "age") == ["age"]
        with pytest.raises(errors.ExistsError, match="vector 'age' of axis 'cell' exists already"):
            db.save_vector("cell", "age", "age + 1")
        db.save_vector("cell", "age", "age + 1", if_exists="replace")
        query = "SELECT name FROM cell WHERE is_old AND age > 61"
        assert db.sql(query).to_pydict() == {"name": ["CATA"]}
        with pytest.raises(errors.ReadOnlyError, match="atlas.daf.zarr has it, and only"):
            db.reorder_axis("cell", "name")
        expected = contents(db.reader())
    with open_daf(atlas) as base:
        assert contents(base) == before
    with complete_daf(mine) as both:
        assert contents(both) == expected
    with connect(atlas, overlay=mine, mode="r") as db:
        assert contents(db.reader()) == expected
        with pytest.raises(errors.ReadOnlyError):
            db.save_vector("cell", "more", "age")
    with connect(atlas, overlay=mine, mode="r+") as db:
        db.save_vector("cell", "more", "age")


def test_an_h5ad_file_is_annotated_in_place(tmp_path: Path) -> None:
    """It is the base of an overlay as any data set is, and stays as it was."""
    path, mine = tmp_path / "atlas.h5ad", tmp_path / "mine.daf.zarr"
    random = np.random.default_rng(2)
    counts = sp.random_array((30, 3), density=0.5, rng=random, dtype="f4", format="csr")
    adata = anndata.AnnData(counts)
    adata.obs["n_genes"] = random.integers(900, 2000, 30)
    adata.obs["louvain"] = pd.Categorical(random.choice(["1", "3"], 30))
    adata.write_h5ad(path)
    before = path.read_bytes()
    with connect([path], overlay=mine) as db:
        assert list(db.schemas) == ["atlas"]
        db.save_vector("obs", "rich", "n_genes > 1600")
        labels = db.sql("SELECT name, 'x' || louvain AS label FROM obs WHERE rich")
        assert db.annotate("obs", labels).matched == len(labels)
        made = db.matrix("obs", "var", "X", rows="label = 'x3'").to_anndata()
    whole = anndata.read_h5ad(path)
    wanted = whole[(whole.obs["n_genes"] > 1600) & (whole.obs["louvain"] == "3")]
    assert made.obs["louvain"].astype(str).equals(wanted.obs["louvain"].astype(str))
    assert np.array_equal(dense(made.X), dense(wanted.X))
    assert path.read_bytes() == before
    with complete_daf(mine) as both:
        assert both.get_scalar("base_daf_repository") == "atlas.h5ad"
        exported = to_anndata(both)
    assert exported.obs.drop(columns=["rich", "label"]).equals(whole.obs)
    assert exported.obs["rich"].tolist() == (whole.obs["n_genes"] > 1600).tolist()
    whole[::-1].write_h5ad(path)
    refused = "its entries of axis 'obs' are not those of .*atlas.h5ad: at position 0"
    with connect(path, overlay=mine, mode="r") as db:
        with (
            pytest.warns(UnreadableVectorWarning, match=refused),
            pytest.raises(errors.DafError, match=refused),
        ):
            db.sql("SELECT count(*) FROM obs WHERE rich").to_pydict()
        assert db.reader().get_np_vector("obs", "n_genes")[0] == whole.obs["n_genes"].iloc[-1]
