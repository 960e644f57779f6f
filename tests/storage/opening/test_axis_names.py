"""Tests of AnnData that are read in place with other names of their axes."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from daf_query import connect
from daf_query.cli import main
from daf_storage import ZarrDaf, errors, open_daf, sidecar_status, to_anndata, write_sidecar
from tests.storage.anndata.example import write


def _anndata() -> Any:
    obs = pd.DataFrame({"type": pd.Categorical(["T", "B", "T"])}, index=["a", "b", "c"])
    var = pd.DataFrame(index=["g", "h"])
    return anndata.AnnData(np.arange(6, dtype=np.float32).reshape(3, 2), obs, var)


@pytest.fixture
def h5ad(tmp_path: Path) -> Path:
    """Return the path of an h5ad."""
    path = tmp_path / "atlas.h5ad"
    _anndata().write_h5ad(path)
    return path


def test_each_form_has_the_names(tmp_path: Path, h5ad: Path) -> None:
    """Files, directories and mappings; values are those of before, also after pickling."""
    write(_anndata(), tmp_path, "zarr3")
    (tmp_path / "atlas.h5").hardlink_to(h5ad)
    for path in (h5ad, tmp_path / "atlas.zarr", tmp_path / "atlas.h5"):
        with open_daf(path, obs_is="cell", var_is="gene") as daf:
            for each in (daf, pickle.loads(pickle.dumps(daf))):
                assert each.axes_set() == {"cell", "gene"}
                assert each.get_scalar("obs_is") == "cell"
                assert each.get_np_matrix("cell", "gene", "X").tolist() == [[0, 1], [2, 3], [4, 5]]
            assert to_anndata(daf).obs["type"].tolist() == ["T", "B", "T"]
    with open_daf(h5ad, var_is="gene") as daf:
        assert daf.axes_set() == {"obs", "gene"}


def test_what_a_file_says_of_itself_is_not_trusted(h5ad: Path) -> None:
    """A name that cannot be one is none."""
    with h5py.File(h5ad, "r+") as file:
        file["uns"]["obs_is"] = "a/b"
    with open_daf(h5ad) as daf:
        assert daf.axes_set() == {"obs", "var"}


def test_a_sidecar_is_of_its_names(h5ad: Path, tmp_path: Path) -> None:
    """The one beside the file has other axes, and is used only if it is named."""
    with open_daf(h5ad) as daf:
        write_sidecar(daf, "X")
    with open_daf(h5ad, obs_is="cell") as daf:
        assert sidecar_status(daf) is None
        with pytest.raises(errors.InvalidInputError, match="opened without its sidecar"):
            write_sidecar(daf, "X")
    other = tmp_path / "other.daf.zarr"
    for _ in range(2):
        with open_daf(h5ad, obs_is="cell", sidecar=other) as daf:
            status = sidecar_status(daf) or write_sidecar(daf, "X")
            assert status.is_used
            assert "axes/cell" in status.properties


def test_sessions_and_the_command_line(
    h5ad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder of h5ad and of data sets of Daf is one table; an overlay has the names."""
    with ZarrDaf(tmp_path / "mine.daf.zarr", "w") as daf:
        daf.add_axis("cell", ["d"])
    pattern = f"{tmp_path}/[am]*"
    with connect(pattern, obs_is="cell", var_is="gene") as db:
        found = db.sql("SELECT dataset, name, type FROM cell ORDER BY name").to_pydict()
    assert found["name"] == ["a", "b", "c", "d"]
    assert found["type"] == ["T", "B", "T", None]
    with connect(h5ad, overlay=tmp_path / "notes.daf.zarr", obs_is="cell") as db:
        db.save_vector("cell", "one", "SELECT name, 1 AS one FROM cell")
        assert db.sql("SELECT sum(one) AS n FROM cell").to_pydict() == {"n": [3]}
    options = ["--obs-is", "cell", "--var-is", "gene", "--format", "json"]
    assert main(["info", pattern, *options]) == 0
    listed = json.loads(capsys.readouterr().out)["data_sets"]
    assert sorted(listed) == ["atlas", "mine"]
    assert main(["info", pattern]) == 0
    assert capsys.readouterr().out.startswith(f"{pattern}: 2 data sets\n\natlas\n")


def test_what_stores_the_other_layout_under_other_names(h5ad: Path) -> None:
    """`daf index` would write a sidecar for the names of the file, which is not used for others."""
    adata = _anndata()
    adata.X = sp.csr_matrix(adata.X)
    adata.write_h5ad(h5ad)
    with connect(h5ad, obs_is="cell", var_is="gene") as db:
        said = str(db.matrix("cell", "gene", "X", columns=["g"]).explain())
    assert "daf index" not in said
    assert "obs_is=..., sidecar='other.daf.zarr'" in said
    other = h5ad.with_name("other.daf.zarr")
    with connect(open_daf(h5ad, obs_is="cell", var_is="gene", sidecar=other)) as db:
        db.accelerate("X")
        said = str(db.matrix("cell", "gene", "X", columns=["g"]).explain())
    assert "by gene: not stored" not in said


@pytest.mark.parametrize("package", ["h5py", "pandas"])
def test_what_an_anndata_needs_is_one_extra(
    h5ad: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    """Whichever package is missed first, the extra that is named brings all of them."""
    adata = _anndata()
    adata.obsm["scores"] = pd.DataFrame({"s": [1.0, 2.0, 3.0]}, index=adata.obs_names)
    adata.write_h5ad(h5ad)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(errors.MissingDependencyError, match=r"pip install .*\[anndata\]"):
        open_daf(h5ad)
