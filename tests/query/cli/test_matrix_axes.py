"""Tests of commands over a pattern of paths: extract, profile and sql of a collection."""

from __future__ import annotations

import json
from pathlib import Path

import anndata
import pytest

from daf_query.cli import main
from daf_storage import open_daf
from tests.query.collection.cases import RUNS, daf_of, names_of


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a pattern of the paths of three data sets, of which two have the matrix."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("monday", "friday", "plain"):
        with open_daf(folder / f"{name}.daf.zarr", "w") as target:
            source = daf_of(name, RUNS[name if name in RUNS else "empty"])
            for axis in ("cell", "gene"):
                target.add_axis(axis, source.axis_entries(axis))
                for vector in source.vectors_set(axis):
                    target.set_vector(axis, vector, source.get_np_vector(axis, vector))
            if name in RUNS:
                target.set_matrix("cell", "gene", "X", source.get_np_matrix("cell", "gene", "X"))
    return f"{folder}/*.daf.zarr"


def test_extract(pattern: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The axis of cells is that of the rows; the summary says how many are of each data set."""
    path = tmp_path / "x.h5ad"
    command = ["extract", pattern, "--matrix", "X", "--rows", "age > 10", "--join", "outer"]
    assert main([*command, "--fill-value", "NaN", "-o", str(path)]) == 0
    runs = {name: RUNS[name] for name in ("friday", "monday")}
    adata = anndata.read_h5ad(path)
    assert list(adata.var_names) == names_of(runs, "outer")
    assert list(adata.obs["dataset"]) == ["friday"] + ["monday"] * 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("wrote 4 cell x 6 gene (")
    assert lines[1:] == ["  friday: 1", "  monday: 3"]
    assert main([*command, "--dry-run", "--format", "json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert {name: each["rows"] for name, each in described["members"].items()} == {
        "friday": 1,
        "monday": 3,
    }
    turned = ["--rows-axis", "gene", "--rows", "g1", "--columns", "age > 10", "--along", "cell"]
    target = tmp_path / "x.csv"
    assert main(["extract", pattern, "--matrix", "X", *turned, "--quiet", "-o", str(target)]) == 0
    assert target.read_text().splitlines()[0] == '"gene","h","b","c","d"'
    assert main([*command[:4], "--rows", "age > 999", "-o", str(path)]) == 0
    assert "--rows selects no cell; daf diagnose" in capsys.readouterr().err
    assert main(["extract", pattern, "--matrix", "X", "--rows", "zz,b", "-o", str(path)]) != 0
    assert "no data set has an entry 'zz'" in capsys.readouterr().err


def test_profile_and_sql(pattern: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Over all data sets, with the data set as a group like any other."""
    command = ["profile", pattern, "--matrix", "X", "--by", "dataset", "--columns", "g1"]
    assert main([*command, "--format", "json", "--quiet"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["dataset"], row["count"]) for row in rows] == [("friday", 2), ("monday", 4)]
    assert main([*command[:-1], "g5", "--fill-value", "0", "--format", "json", "--quiet"]) == 0
    assert [row["missing"] for row in json.loads(capsys.readouterr().out)] == [0, 0]
    query = "SELECT dataset, count(*) AS n FROM matrix('cell', 'gene', 'X') GROUP BY 1 ORDER BY 1"
    assert main(["sql", pattern, query, "--format", "json"]) == 0
    assert [row["dataset"] for row in json.loads(capsys.readouterr().out)] == ["friday", "monday"]
