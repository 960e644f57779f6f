"""Tests of writing what is in memory as an h5ad file: what becomes of the rest is reported."""

from __future__ import annotations

from pathlib import Path

import anndata
import numpy as np
import pandas as pd

from daf_storage.h5ad import write_anndata


def test_columns_that_a_file_cannot_hold_are_reported(tmp_path: Path) -> None:
    """Of both frames, in their order; without any, nothing is."""
    labels = [f"c{number}" for number in range(3)]
    dates = pd.period_range("2020", periods=3, freq="Y")
    obs = pd.DataFrame({"n": [1, 2, 3], "year": dates}, index=labels)
    var = pd.DataFrame({"when": pd.to_datetime(["2020-01-01"])}, index=["g"])
    report = write_anndata(anndata.AnnData(np.ones((3, 1)), obs, var), tmp_path / "x.h5ad")
    assert [item.what for item in report.items] == ["obs['year']", "var['when']"]
    plain = anndata.AnnData(np.ones((3, 1)), obs[["n"]])
    assert write_anndata(plain, tmp_path / "y.h5ad").items == []
    assert anndata.read_h5ad(tmp_path / "y.h5ad").obs["n"].tolist() == [1, 2, 3]
