"""Tests of the commands that store vectors, axes and matrices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from daf_query.cli import main
from daf_storage import DafWriter, open_daf
from tests.support import contents, dense

COUNTS = np.array([[0, 1], [2, 0], [3, 4]], "i4")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a data set of cells and genes."""
    created = open_daf(tmp_path / "x.daf.zarr", "w")
    assert isinstance(created, DafWriter)
    created.add_axis("cell", ["a", "b", "c"], vectors={"age": [1, 2, 3], "type": ["T", "B", "T"]})
    created.add_axis("gene", ["x", "y"])
    created.set_matrix("cell", "gene", "UMIs", sp.csr_array(COUNTS))
    created.set_matrix("cell", "gene", "logs", COUNTS / 2)
    return str(tmp_path / "x.daf.zarr")


def test_a_vector(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An expression with a parameter; what is there stays without --overwrite."""
    command = ["save-vector", path, "cell", "is_old", "age > $least"]
    assert main([*command, "--param", "least=1"]) == 0
    assert capsys.readouterr().out == f"stored vector is_old of axis cell in {path}\n"
    assert open_daf(path).get_np_vector("cell", "is_old").tolist() == [False, True, True]
    assert main([*command, "--param", "least=2"]) == 1
    assert "exists already; pass --overwrite to replace it" in capsys.readouterr().err
    assert main([*command, "--param", "least=2", "--overwrite", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert open_daf(path).get_np_vector("cell", "is_old").tolist() == [False, False, True]


def test_an_axis(path: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Of a query, or of a file with one; the column of the names can be another."""
    query = "SELECT type, count(*) AS n FROM cell GROUP BY type ORDER BY type"
    assert main(["save-axis", path, "type", query]) == 1
    assert "yields type, n; write AS name, or say which column with --name" in (
        capsys.readouterr().err
    )
    assert main(["save-axis", path, "type", query, "--name", "type"]) == 0
    assert capsys.readouterr().out == f"stored axis type in {path}: 2 entries\n"
    assert open_daf(path).get_np_vector("type", "n").tolist() == [1, 2]
    file = tmp_path / "query.sql"
    file.write_text("SELECT DISTINCT type AS name FROM cell -- types\nORDER BY name DESC")
    assert main(["save-axis", path, "type", "-f", str(file)]) == 1
    assert "pass --overwrite" in capsys.readouterr().err
    assert main(["save-axis", path, "type", "-f", str(file), "--overwrite"]) == 0
    assert open_daf(path).axis_entries("type").tolist() == ["T", "B"]
    assert not open_daf(path).vectors_set("type")


def test_a_matrix_of_a_slice(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of this data set: sparse as it is, dense with what fills the rest."""
    rows = ["--rows", "age > 1", "--columns", "y"]
    assert main(["save-matrix", path, "some", "--matrix", "UMIs", *rows]) == 0
    assert capsys.readouterr().out == f"stored matrix some of axes cell and gene in {path}\n"
    assert main(["save-matrix", path, "logs2", "--matrix", "logs", *rows]) == 1
    assert "pass --fill for the others" in capsys.readouterr().err
    command = ["save-matrix", path, "logs2", "--matrix", "logs", *rows, "--fill", "-1"]
    assert main([*command, "--one-layout"]) == 0
    found = open_daf(path)
    assert dense(found.get_np_matrix("cell", "gene", "some")).tolist() == [[0, 0], [0, 0], [0, 4]]
    assert found.get_np_matrix("cell", "gene", "logs2").tolist() == [[-1, -1], [-1, 0], [-1, 2]]
    assert not found.has_matrix("gene", "cell", "logs2", relayout=False)


def test_a_matrix_of_another_data_set(path: str, tmp_path: Path) -> None:
    """Its axes may have other names."""
    other = open_daf(tmp_path / "other.h5df", "w")
    assert isinstance(other, DafWriter)
    other.add_axis("obs", ["c", "a"])
    other.add_axis("var", ["y"])
    other.set_matrix("obs", "var", "X", sp.csr_array([[5], [6]]))
    other.close()
    command = ["save-matrix", path, "X", "--from", str(tmp_path / "other.h5df"), "--matrix", "X"]
    assert main(command) == 1
    assert main([*command, "--rows-axis", "cell", "--columns-axis", "gene"]) == 0
    found = open_daf(path).get_np_matrix("cell", "gene", "X")
    assert dense(found).tolist() == [[0, 6], [0, 0], [0, 5]]


def test_a_matrix_of_a_query(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows that name a cell and a gene; the axes have to be named."""
    query = "SELECT cell.name AS cell, gene.name AS gene, age FROM cell, gene WHERE age > $least"
    command = ["save-matrix", path, "ages", query, "--param", "least=2"]
    assert main(command) == 1
    assert "--rows-axis and --columns-axis" in capsys.readouterr().err
    axes = ["--rows-axis", "cell", "--columns-axis", "gene"]
    assert main([*command, *axes, "--rows", "age > 1"]) == 1
    assert "--rows is for a slice, which --matrix names" in capsys.readouterr().err
    assert main([*command, *axes]) == 0
    found = open_daf(path).get_np_matrix("cell", "gene", "ages")
    assert dense(found).tolist() == [[0, 0], [0, 0], [3, 3]]


@pytest.mark.parametrize(
    "command",
    [
        ["save-axis", "PATH", "new", "SELECT name, name AS n FROM cell WHERE nope"],
        ["save-axis", "PATH", "new", "SELECT type AS name FROM cell"],
        ["save-vector", "PATH", "cell", "new", "nope"],
        ["save-matrix", "PATH", "new", "--matrix", "nope"],
    ],
)
def test_what_fails_leaves_everything(
    path: str, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    """The exit code is 1, one line says why, and the data set is as before."""
    before = contents(open_daf(path))
    assert main([path if word == "PATH" else word for word in command]) == 1
    assert capsys.readouterr().err.startswith("daf: error: ")
    assert contents(open_daf(path)) == before
