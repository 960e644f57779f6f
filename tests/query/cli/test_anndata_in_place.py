"""Commands on an AnnData that is read in place."""

from __future__ import annotations

import json
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest

from daf_query.cli import main


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
