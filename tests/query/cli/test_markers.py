"""Tests of the commands `markers` and `totals`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import daf_query
import daf_storage
from daf_query.cli import main


@pytest.fixture
def cells(tmp_path: Path) -> str:
    """Return the path of six cells of three types."""
    path = tmp_path / "x.daf.zarr"
    with daf_storage.open_daf(path, "w") as daf:
        daf.add_axis("cell", list("ABCDEF"), vectors={"type": list("TTBBUU")})
        daf.add_axis("gene", ["CD8A", "MT-1"])
        daf.set_matrix("cell", "gene", "X", [[8.0, 1], [7, 0], [2, 1], [1, 3], [5, 0], [6, 9]])
    return str(path)


def test_markers_are_those_of_the_session(cells: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The best of each group, compared by another test and with another group."""
    command = ["markers", cells, "--matrix", "X", "--by", "type", "--top", "1", "--format", "json"]
    options = ["--reference", "T", "--method", "wilcoxon", "--counts"]
    assert main([*command, *options]) == 0
    with daf_query.connect(cells) as db:
        expected = db.markers(
            *("cell", "gene", "X"),
            by="type",
            top=1,
            reference="T",
            method="wilcoxon",
            is_log1p=False,
        )
        assert json.loads(capsys.readouterr().out) == expected.to_pylist()


def test_totals_are_written(cells: str, tmp_path: Path) -> None:
    """Of the chosen rows and columns."""
    output = tmp_path / "totals.csv"
    command = ["totals", cells, "--matrix", "X", "--rows", "type = 'T'", "--columns", "MT-1"]
    assert main([*command, "-o", str(output)]) == 0
    lines = output.read_text().replace('"', "").splitlines()
    assert lines[:2] == ["name,index,sum,nonzero,mean,share", "A,0,1,1,1,0.1111111111111111"]
    assert len(lines) == 3
