"""Tests of the command diagnose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from daf_query.cli import main
from daf_storage import open_daf


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a data set of cells."""
    created = open_daf(tmp_path / "x.daf.zarr", "w")
    created.add_axis("cell", ["a", "b", "c"])
    created.set_vector("cell", "age", [1, 2, 3])
    created.set_vector("cell", "donor", ["N1", "N3", "N3"])
    return str(tmp_path / "x.daf.zarr")


def test_why_a_predicate_matches_nothing(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As a table, with parameters; an empty answer is no failure."""
    command = ["diagnose", path, "cell", "(age > 1) & (donor == $who)", "--param", "who=n3"]
    assert main(command) == 0
    assert capsys.readouterr().out.splitlines() == [
        "0 of 3 rows of cell match",
        "  alone  so far  condition",
        "      2       2  age > 1",
        "      0       0  donor == 'n3'",
        "                   'n3' does not occur in donor; nearest: 'N3' (2 rows)",
    ]
    assert main([*command, "--format", "json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert (plain["total"], plain["matched"]) == (3, 0)
    assert [each["rows"] for each in plain["conjuncts"]] == [2, 0]


def test_what_cannot_be_diagnosed(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown axis, and SQL of several tables."""
    assert main(["diagnose", path, "cells", "age > 1"]) == 1
    assert "there is no axis 'cells'; it has cell" in capsys.readouterr().err
    assert main(["diagnose", path, "cell", "SELECT * FROM cell a JOIN cell b ON true"]) == 1
    assert "a diagnosis is of a predicate" in capsys.readouterr().err
