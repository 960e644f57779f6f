"""Tests of the command `profile`."""

from __future__ import annotations

import json
from pathlib import Path

import anndata
import pyarrow.parquet as pq
import pytest

from daf_query.cli import main


@pytest.fixture
def pbmc(pbmc_path: Path) -> str:
    """Return the path of the real data."""
    return str(pbmc_path)


def test_a_table(pbmc: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The rows are printed, of groups and columns that were chosen."""
    command = ["profile", pbmc, "--matrix", "X", "--columns-axis", "gene_raw", "--quiet"]
    assert main([*command, "--by", "phase, n_genes > $n AS rich", "--param", "n=1200", "--rows", "phase <> 'G1'", "--columns", "CST3,NKG7", "--format", "json"]) == 0  # fmt: skip
    rows = json.loads(capsys.readouterr().out)
    assert {(row["phase"], row["gene_raw"]) for row in rows} == {
        (phase, gene) for phase in ("G2M", "S") for gene in ("CST3", "NKG7")
    }
    assert sum(row["count"] for row in rows) == 2 * 199
    assert main([*command, "--max-rows", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("gene_raw  count")


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--matrix", "Y"], "there is no matrix 'Y'"),
        (["--matrix", "X", "--by", "phse"], "phase"),
        (["--matrix", "X", "--format", "h5ad"], "give -o FILE.h5ad"),
        (["--matrix", "X", "-o", "x.h5ad", "--statistic", "avg"], "statistic= is 'avg'"),
        (["--matrix", "X", "-o", "x.xyz"], "a profile is also written as .h5ad"),
        (["--matrix", "X", "-o", "x.csv", "--statistic", "sum"], "leave it out, or give -o"),
        (["--matrix", "X", "--statistic", "sum"], "--statistic says what X of an .h5ad file is"),
    ],
)
def test_what_is_refused(
    pbmc: str,
    options: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exit code 1 and a message; no file."""
    monkeypatch.chdir(tmp_path)
    assert main(["profile", pbmc, *options]) == 1
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("by", [["--by", "phase"], []])
def test_rows_that_choose_nothing(
    pbmc: str, by: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A note says so, with the command that says why; the output is as it would be without it."""
    command = ["profile", pbmc, "--matrix", "X", "--columns", "CST3", *by, "--format", "csv"]
    assert main([*command, "--rows", "phase = 's'"]) == 0
    output, error = capsys.readouterr()
    assert len(output.splitlines()) == 1
    assert error == (
        f"daf: note: --rows selects no cell; daf diagnose {pbmc} cell 'phase = '\"'\"'s'\"'\"'' says why\n"
    )
    assert main([*command, "--rows", "phase = 'S'"]) == 0
    assert capsys.readouterr().err == ""
