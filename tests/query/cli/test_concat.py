"""Tests of `daf concat`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from daf_query.cli import main
from daf_storage import open_daf


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder with two data sets of partly different genes."""
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    for number, genes in enumerate((["g", "f"], ["f", "h"])):
        with open_daf(f"runs/run{number}.daf.zarr", "w") as daf:
            daf.add_axis("cell", ["A", "B"])
            daf.add_axis("gene", genes)
            daf.set_scalar("lab", "X")
            daf.set_scalar("day", number)
            daf.set_matrix("cell", "gene", "UMIs", [[1, 2], [3, 4]])
    with open_daf("runs/run0.daf.zarr", "r+") as daf:
        daf.set_vector("cell", "age", [3, 4])
    return tmp_path


def test_a_pattern_and_options(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pattern stands for the paths that match it; properties are written with slashes."""
    command = ["concat", "runs/*.daf.zarr", "-o", "all.daf.zarr", "--join", "outer", "--prefix"]
    options = ["--fill-value", "0", "--empty", "cell/age=-1", "--merge", "day=collect"]
    assert main([*command, *options]) == 0
    out = capsys.readouterr().out
    assert "concatenated 2 data sets into all.daf.zarr" in out
    assert "4 cell" in out
    with open_daf(runs / "all.daf.zarr") as daf:
        assert daf.axis_entries("cell").tolist() == ["run0.A", "run0.B", "run1.A", "run1.B"]
        assert daf.get_np_vector("cell", "dataset").tolist() == ["run0"] * 2 + ["run1"] * 2
        assert daf.get_np_vector("cell", "age").tolist() == [3, 4, -1, -1]
        assert daf.get_np_vector("dataset", "day").tolist() == [0, 1]
        assert daf.get_scalar("lab") == "X"
        found = daf.get_np_matrix("cell", "gene", "UMIs")
        np.testing.assert_array_equal(found, [[1, 2, 0], [3, 4, 0], [0, 1, 2], [0, 3, 4]])


def test_other_names_and_forms(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names of the data sets, no axis of them, one orientation, packed, and an existing target."""
    paths = ["runs/run0.daf.zarr", "runs/run1.daf.zarr"]
    command = ["concat", *paths, "-o", "all.daf.zarr", "--join", "inner", "--make-unique"]
    assert main([*command, "--names", "a, b", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    with open_daf("all.daf.zarr") as daf:
        assert daf.axis_entries("dataset").tolist() == ["a", "b"]
        assert daf.axis_entries("cell").tolist() == ["A", "B", "A-1", "B-1"]
    assert main(command) == 1
    assert "pass --overwrite to replace it" in capsys.readouterr().err
    options = ["--dataset-axis", "", "--one-layout", "--packed", "--axis", "cell", "--overwrite"]
    assert main([*command, *options, "--merge", "skip"]) == 0
    assert "lost: scalar 'lab'" in capsys.readouterr().out
    with open_daf(runs / "all.daf.zarr") as daf:
        assert daf.axes_set() == {"cell", "gene"}
        assert not daf.has_matrix("cell", "gene", "UMIs", relayout=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "pass --prefix to write the name of the data set before each entry, or --make-unique"),
        (["--prefix"], "pass --join inner for the entries that all have"),
        (["--prefix", "--join", "inner", "--empty", "age"], "--empty 'age' is no PROPERTY=VALUE"),
        (["--prefix", "--join", "inner", "--axis", "sell"], "did you mean 'cell'?"),
        (["--prefix", "--names", "a"], "there are 1 names for 2 data sets"),
    ],
)
def test_errors_name_options(
    runs: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    """What to pass is said in the words of the command line, and nothing is written."""
    assert main(["concat", "runs/*.daf.zarr", "-o", "all.daf.zarr", *options]) == 1
    assert message in capsys.readouterr().err
    assert [path.name for path in runs.iterdir()] == ["runs"]


def test_errors_before_anything_is_opened(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pattern that nothing matches, no axis to concatenate, and a vector that one lacks."""
    assert main(["concat", "run/*", "-o", "all.daf.zarr"]) == 1
    assert "no file or directory matches 'run/*'" in capsys.readouterr().err
    with open_daf("runs/x.daf.zarr", "w") as daf:
        daf.add_axis("spot", ["S"])
    assert main(["concat", "runs/x.daf.zarr", "-o", "all.daf.zarr"]) == 1
    assert "pass --axis, one of spot" in capsys.readouterr().err
    with open_daf("runs/run1.daf.zarr", "r+") as daf:
        daf.delete_axis("gene")
    assert main(["concat", "runs/run*", "-o", "all.daf.zarr", "--prefix"]) == 1
    assert "pass --empty cell/gene/UMIs=VALUE" in capsys.readouterr().err
    assert not (runs / "all.daf.zarr").exists()


def test_what_was_concatenated_before(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A vector `dataset` is refused with the option that there is."""
    with open_daf(runs / "runs/run0.daf.zarr", "r+") as daf:
        daf.set_vector("cell", "dataset", ["a", "b"])
    assert main(["concat", "runs/run*", "-o", "all.daf.zarr", "--prefix"]) == 1
    error = capsys.readouterr().err
    assert "pass another --dataset-axis" in error
    assert "dataset_property" not in error
