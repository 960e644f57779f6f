"""Commands on an AnnData that is read in place."""

from __future__ import annotations

import json
from pathlib import Path

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest

from daf_query import connect
from daf_query.cli import main
from daf_storage.errors import ReadOnlyError


@pytest.fixture
def atlas(tmp_path: Path) -> str:
    """Write a small AnnData; return its path."""
    obs = pd.DataFrame({"kind": pd.Categorical(["a", "b", "a"])}, index=["c0", "c1", "c2"])
    adata = anndata.AnnData(np.arange(6, dtype=np.float32).reshape(3, 2), obs=obs)
    adata.obsm["cube"] = np.ones((3, 2, 2))
    adata.write_h5ad(tmp_path / "atlas.h5ad")
    return str(tmp_path / "atlas.h5ad")


def test_commands_that_read(atlas: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """info, sql, extract, profile, verify, convert and export take an h5ad."""

    def run(*arguments: str) -> str:
        assert main(list(arguments)) == 0
        return capsys.readouterr().out

    assert "obsm['cube']" in run("info", atlas)
    summary = json.loads(run("info", atlas, "--format", "json"))
    assert summary["remarks"] == [
        {
            "what": "obsm['cube']",
            "message": "only in exports: it has 3 dimensions; matrices have two",
        }
    ]
    rows = run("sql", atlas, "SELECT name FROM obs WHERE kind = 'a'", "--format", "csv")
    assert rows.replace('"', "").split() == ["name", "c0", "c2"]
    run("extract", atlas, "--matrix", "X", "--rows", "kind = 'b'", "-o", str(tmp_path / "b.csv"))
    assert (tmp_path / "b.csv").read_text().split()[1] == '"c1",2,3'
    profile = run("profile", atlas, "--matrix", "X", "--by", "kind", "--format", "csv")
    assert len(profile.split()) == 5
    run("verify", atlas)
    run("convert", atlas, str(tmp_path / "copy.daf.zarr"), "--quiet")
    run("export", str(tmp_path / "copy.daf.zarr"), str(tmp_path / "again.h5ad"), "--quiet")
    again = anndata.read_h5ad(tmp_path / "again.h5ad")
    assert again.obsm["cube"].shape == (3, 2, 2)
    assert again.obs["kind"].tolist() == ["a", "b", "a"]


def test_commands_that_write(atlas: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They are refused, and say how to write beside the file."""
    before = Path(atlas).read_bytes()
    assert main(["save-vector", atlas, "obs", "n", "index + 1", "--quiet"]) != 0
    assert "daf annotate" in capsys.readouterr().err
    assert Path(atlas).read_bytes() == before


def test_mistakes(atlas: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is an error that says what to write, and misuse of the command line exits with 2."""

    def message(*arguments: str) -> str:
        assert main(list(arguments)) == 1
        return capsys.readouterr().err

    assert "did you mean 'obs'?" in message("sql", atlas, "SELECT * FROM cell")
    assert "did you mean 'var'?" in message("diagnose", atlas, "gene", "index > 1")
    pattern = str(tmp_path / "*.h5ad")
    assert "a pattern is taken by connect() and the commands info, sql" in message(
        "export", pattern, str(tmp_path / "x.h5ad")
    )
    new = str(tmp_path / "new.h5ad")
    assert f"daf export OUT.daf.zarr {new}" in message("convert", atlas, new)
    written = message("save-vector", atlas, "obs", "n", "index + 1")
    assert f"write beside it: daf annotate {atlas} mine.daf.zarr" in written
    (tmp_path / "labels.csv").write_text("barcode,label\nc0,b\n")
    notes = ("annotate", atlas, str(tmp_path / "n.daf.zarr"), "--axis", "obs")
    assert "which column has the entries with --key;" in message(
        *notes, "--csv", str(tmp_path / "labels.csv")
    )
    folder = message("sql", str(tmp_path), "SELECT 1")
    assert "<stem>.h5ad" in folder
    assert f"it is a directory: a pattern takes what is in it, as {tmp_path}/*.h5ad" in folder
    with h5py.File(tmp_path / "plain.h5ad", "w") as file:
        file["x"] = 1
    plain = message("info", str(tmp_path / "plain.h5ad"))
    assert "no AnnData, which is a group with obs and var" in plain
    with pytest.raises(SystemExit) as ended:
        main(["index", atlas])
    assert ended.value.code == 2
    assert "give AXIS or --matrix or" in capsys.readouterr().err


def test_a_stale_sidecar(atlas: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A query warns that it is not used; the remedies that the warning names do not warn."""
    assert main(["index", atlas, "--matrix", "X", "--quiet"]) == 0
    anndata.read_h5ad(atlas)[:2].copy().write_h5ad(atlas)
    assert main(["sql", atlas, "SELECT name FROM obs"]) == 0
    assert "this sidecar is ignored" in capsys.readouterr().err
    assert main(["index", atlas, "--refresh", "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["sql", atlas, "SELECT name FROM obs"]) == 0
    assert capsys.readouterr().err == ""


def test_saving_into_it_names_the_overlay(atlas: str) -> None:
    """A session says where its labels can go, not a mode that is refused."""
    with connect(atlas) as session, pytest.raises(ReadOnlyError, match=r"overlay=") as raised:
        session.save_vector("obs", "n", "index + 1")
    assert "r+" not in str(raised.value)
