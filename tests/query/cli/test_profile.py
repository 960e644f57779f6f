"""Tests of the command `profile`."""

from __future__ import annotations

from pathlib import Path

import anndata
import pyarrow.parquet as pq
import pytest

from daf_query.cli import main


@pytest.fixture
def pbmc(pbmc_path: Path) -> str:
    """Return the path of the real data."""
    return str(pbmc_path)


def test_files(pbmc: str, tmp_path: Path) -> None:
    """Parquet and CSV have the rows, h5ad groups x genes with the chosen statistic as X."""
    command = ["profile", pbmc, "--matrix", "X", "--by", "bulk_labels", "--quiet", "-o"]
    assert main([*command, str(tmp_path / "p.parquet")]) == 0
    assert pq.read_table(tmp_path / "p.parquet").num_rows == 10 * 765
    assert main([*command, str(tmp_path / "p.csv")]) == 0
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 10 * 765 + 1
    assert main([*command, str(tmp_path / "p.h5ad"), "--statistic", "sum"]) == 0
    adata = anndata.read_h5ad(tmp_path / "p.h5ad")
    assert adata.shape == (10, 765)
    assert (adata.layers["sum"] == adata.X).all()
