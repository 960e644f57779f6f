"""Tests of the commands that look at an axis: `head` and `describe`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from daf_query.cli import main
from tests.support import create


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return the path of a small data set."""
    daf = create(tmp_path / "x.daf.zarr")
    daf.add_axis("cell", [f"C{number}" for number in range(7)])
    daf.set_vector("cell", "age", [5, 1, 2, 2, 9, 2, 7])
    daf.set_vector("cell", "score", np.array([0.1, np.nan, 3, 4, np.nan, 0.1, 2], np.float32))
    daf.set_vector("cell", "donor", ["b", "a", "b", "c", "a", "d", "e"])
    daf.set_vector("cell", "is_old", [True, False, True, True, True, False, False])
    return str(tmp_path / "x.daf.zarr")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that succeeds, and return what it prints."""
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_head(capsys: pytest.CaptureFixture[str], path: str) -> None:
    """The first entries in their order, with all vectors or some."""
    records = json.loads(run(capsys, "head", path, "cell", "--format", "json"))
    assert [record["name"] for record in records] == [f"C{number}" for number in range(7)]
    out = run(capsys, "head", path, "cell", "-n", "2", "--columns", "age,donor", "--format", "csv")
    assert out == '"name","age","donor"\n"C0",5,"b"\n"C1",1,"a"\n'
    assert run(capsys, "head", path, "cell", "-n", "1").splitlines()[-1].startswith("C0        0")


def test_describe(capsys: pytest.CaptureFixture[str], path: str) -> None:
    """Numbers as pandas has them, missing values, and the most frequent value."""
    records = json.loads(run(capsys, "describe", path, "cell", "--format", "json"))
    by_name = {record["column"]: record for record in records}
    assert list(by_name) == ["age", "donor", "is_old", "score"]
    expected = pd.Series([5, 1, 2, 2, 9, 2, 7]).describe()
    found = by_name["age"]
    assert found["mean"] == pytest.approx(expected["mean"])
    assert [found[key] for key in ("min", "q1", "median", "q3", "max")] == [
        expected[key] for key in ("min", "25%", "50%", "75%", "max")
    ]
    assert (found["top"], found["top_count"]) == (2, 3)
    score = by_name["score"]
    assert (score["count"], score["missing"], score["distinct"], score["min"]) == (5, 2, 4, 0.1)
    donor = by_name["donor"]
    assert (donor["min"], donor["max"], donor["top"], donor["top_count"]) == ("a", "e", "a", 2)
    assert donor["mean"] is None
    assert (by_name["is_old"]["top"], by_name["is_old"]["top_count"]) == (True, 4)


def test_describe_for_people(capsys: pytest.CaptureFixture[str], path: str) -> None:
    """A table, of the columns that are asked for; CSV for programs."""
    lines = run(capsys, "describe", path, "cell", "--columns", "name,score").splitlines()
    heads = "column type count missing distinct min max mean q1 median q3 top top_count"
    assert lines[0].split() == heads.split()
    assert lines[2].split()[:7] == ["name", "string", "7", "0", "7", "C0", "C6"]
    assert lines[3].split()[:7] == ["score", "float", "5", "2", "4", "0.1", "4"]
    out = run(capsys, "describe", path, "cell", "--columns", "age", "--format", "csv")
    assert out.splitlines()[1].startswith('"age","int64",7,0,5,"1","9",4')


@pytest.mark.parametrize("seed", range(3))
def test_quartiles_are_those_of_numpy(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of values with many repetitions, and of few; of nothing there are none."""
    random = np.random.default_rng(seed)
    numbers = random.integers(0, 9, random.integers(1, 40)).astype(np.float64) / 3
    daf = create(tmp_path / "y.daf.zarr")
    daf.add_axis("cell", [f"C{number}" for number in range(numbers.size)])
    daf.set_vector("cell", "x", numbers)
    daf.set_vector("cell", "none", [""] * numbers.size, empty_is_missing=True)
    found = json.loads(
        run(capsys, "describe", f"{tmp_path}/y.daf.zarr", "cell", "--format", "json")
    )
    by_name = {record["column"]: record for record in found}
    quartiles = [by_name["x"][name] for name in ("q1", "median", "q3")]
    assert quartiles == pytest.approx(list(np.quantile(numbers, [0.25, 0.5, 0.75])))
    assert by_name["x"]["mean"] == pytest.approx(numbers.mean())
    none = by_name["none"]
    assert (none["count"], none["missing"], none["distinct"]) == (0, numbers.size, 0)
    assert none["mean"] is none["min"] is none["top"] is None


def test_values_of_a_data_set(capsys: pytest.CaptureFixture[str], path: str) -> None:
    """Ranges are drawn and top values named; plain `info` reads none."""
    plain = run(capsys, "info", path)
    assert "values of" not in plain
    out = run(capsys, "info", path, "--values")
    assert out.startswith(plain)
    lines = [line.split() for line in out.removeprefix(plain).splitlines()[2:]]
    assert lines[0] == ["age", "▄█▁▁▄▁▄▁▄", "1", "to", "9"]
    assert lines[1] == ["donor", "b", "2,", "a", "2,", "c", "1,", "d", "1,", "1", "more"]
    assert lines[2] == ["is_old", "true", "4,", "false", "3"]
    assert lines[3][2:] == ["0.1", "to", "4", "2", "missing"]
