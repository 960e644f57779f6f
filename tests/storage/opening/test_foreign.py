"""Tests of what others write: forms that hold several data sets, and files that are not read."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr

import daf_query
from daf_storage import errors, import_h5ad, open_daf, to_anndata, write_sidecar
from tests.support import served


def _anndata() -> anndata.AnnData:
    counts = sp.random(5, 3, 0.5, format="csr", random_state=1, dtype=np.float32)
    obs = pd.DataFrame({"kind": pd.Categorical(list("ababa"))}, index=list("vwxyz"))
    return anndata.AnnData(counts, obs, pd.DataFrame(index=["g1", "g2", "g3"]), {"a": {"b": 1}})


def _write_zarr(path: Path, version: Any) -> None:
    with anndata.settings.override(zarr_write_format=version), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of versions of Zarr, and of shards
        _anndata().write_zarr(path)


@pytest.fixture(params=[2, 3])
def spatial(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Write what a SpatialData with one table has, in a version of Zarr."""
    path = tmp_path / "sample.zarr"
    root = zarr.open_group(path, mode="w", zarr_format=request.param)
    root.attrs["spatialdata_attrs"] = {"version": "0.2"}
    for name in ("images/he", "shapes/cells", "tables"):
        root.require_group(name)
    _write_zarr(path / "tables" / "table", request.param)
    return path


def test_the_table_of_a_spatial_data(spatial: Path) -> None:
    """One table is the data set; what is not read is named by summaries."""
    db = daf_query.connect(spatial)
    counted = db.sql("SELECT kind, count(*) AS n FROM obs GROUP BY 1 ORDER BY 1").to_arrow_table()
    assert counted.to_pylist() == [{"kind": "a", "n": 3}, {"kind": "b", "n": 2}]
    daf = open_daf(spatial)
    assert "not read: he" in str(daf.summary().remarks)
    with open_daf(f"{spatial}#/tables/table") as named, served(spatial / "tables/table") as server:
        assert named.axis_entries("var").tolist() == daf.axis_entries("var").tolist()
        assert to_anndata(open_daf(server.url)).uns["a"] == {"b": 1}  # zarr-python says a is empty
    import_h5ad(spatial, spatial.parent / "x.daf.zarr", progress="never")
    with pytest.raises(errors.ReadOnlyError, match="read in place"):
        open_daf(spatial, "r+")


def test_the_tables_of_a_spatial_data(spatial: Path) -> None:
    """Of several tables the error says how each is opened; so it does where there is none."""
    (spatial / "tables" / "table").rename(spatial / "tables" / "one")
    root = zarr.open_group(spatial, mode="r+", use_consolidated=False)
    _write_zarr(spatial / "tables" / "two", root.metadata.zarr_format)
    with pytest.raises(errors.NotADafError, match=r"2 tables; .*zarr#/tables/one or .*tables/two"):
        open_daf(spatial)
    assert open_daf(f"{spatial}#/tables/two").axis_length("obs") == 5
    del root["tables"]
    with pytest.raises(errors.NotADafError, match=r"no tables; what else .* images \(he\)"):
        open_daf(spatial)


def test_a_file_is_known_by_its_contents(tmp_path: Path) -> None:
    """An AnnData is read in place whatever its name, and a group of a file by its path."""
    _anndata().write_h5ad(tmp_path / "atlas")
    assert open_daf(tmp_path / "atlas").axis_length("obs") == 5
    with h5py.File(tmp_path / "both.h5ad", "w") as file:
        anndata.io.write_elem(file, "one/rna", _anndata())
    assert open_daf(f"{tmp_path}/both.h5ad#/one/rna").axis_length("obs") == 5


def test_a_sidecar_is_of_a_whole_file(tmp_path: Path) -> None:
    """That beside a file is not taken for one of a group in it."""
    path = tmp_path / "all.h5ad"
    with h5py.File(path, "w") as file:
        for number, name in enumerate(("one", "two")):
            adata = _anndata()
            adata.X = adata.X + sp.csr_matrix(np.full(adata.shape, number, np.float32))
            anndata.io.write_elem(file, name, adata)
    with (
        open_daf(f"{path}#/one") as one,
        pytest.raises(errors.InvalidInputError, match="opened without its sidecar"),
    ):
        write_sidecar(one, "X", progress="never")
    sidecar = tmp_path / "one.daf.zarr"
    with open_daf(f"{path}#/one", sidecar=sidecar) as one:
        assert write_sidecar(one, "X", progress="never").is_used
    with open_daf(f"{path}#/two") as two:
        wanted = two.get_np_matrix("obs", "var", "X").toarray()
        assert np.array_equal(two.get_np_matrix("var", "obs", "X").toarray().T, wanted)
        assert wanted.min() == 1
