"""Tests that names and values of data do not write to the terminal what only a program may write."""

from __future__ import annotations

import sys
from pathlib import Path
from unicodedata import category, east_asian_width

import numpy as np
import pytest

from daf_query.cli import main
from daf_storage import copy_all, open_daf
from tests.support import data_set

HOSTILE = "\nfake: line\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\x00\u202eabc\r"
TYPE = "ty\x1b[32mpe\nfake: vector"
CONTROLS = ("\x1b", "\x07", "\x9b", "\x7f", "\x00", "\u202e", "\r")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a data set whose names and values would change a terminal."""
    path = tmp_path_factory.mktemp("hostile") / "hostile.daf.zarr"
    daf = data_set(name="hostile", cell=[HOSTILE, "B"])
    daf.add_axis("ge\x1b[31mne\nfake: axis", ["A"])
    daf.set_vector("cell", TYPE, [HOSTILE, "b"])
    daf.set_scalar("sca\x1b[33mlar\nfake: scalar", HOSTILE)
    daf.set_matrix("cell", "ge\x1b[31mne\nfake: axis", "X", np.eye(2, 1))
    with open_daf(path, "w") as stored:
        copy_all(daf, stored)
    return str(path)


@pytest.mark.parametrize(
    "arguments",
    [
        ["info"],
        ["info", "--values"],
        ["head", "cell"],
        ["describe", "cell"],
        ["sql", "SELECT * FROM cell"],
        ["sql", "EXPLAIN SELECT * FROM cell"],
        ["sql", "SELECT * FROM nothing"],
        ["sql", "SELECT nothing FROM cell"],
        ["verify"],
        ["diagnose", "cell", f"\"{TYPE}\" = 'b' AND name = '{HOSTILE}x'"],
        ["index", "cell", TYPE],
        ["extract", "--matrix", "X", "--rows", f"name = '{HOSTILE}x'", "--dry-run"],
    ],
)
def test_nothing_of_the_data_moves_the_cursor(
    hostile: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Control characters are written as escapes, in tables, descriptions, plans and errors."""
    command, *rest = arguments
    main([command, hostile, *rest])
    printed = "".join(capsys.readouterr())
    assert printed
    assert not [control for control in CONTROLS if control in printed]
    assert not [line for line in printed.splitlines() if line.startswith("fake")]


def test_commands_that_copy(
    hostile: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reports of what is lost or kept, and counts, have one line for each."""
    to = str(tmp_path / "both.daf.zarr")
    command = ["concat", "-o", to, hostile, hostile, "--axis", "cell", "--prefix"]
    assert main([*command, "--names", "a,b\x1b[1m"]) == 0
    printed = "".join(capsys.readouterr())
    assert "concatenated" in printed
    assert "\x1b" not in printed
    assert not [line for line in printed.splitlines() if "fake" in line.split(":")[0][:6]]


@pytest.mark.parametrize("file_format", ["csv", "tsv", "json", "ndjson"])
def test_rows_for_programs(
    hostile: str,
    file_format: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On a terminal they are escaped too; elsewhere they are what they are."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    query = "SELECT name, 'ü' AS letter FROM cell"
    assert main(["sql", hostile, query, "--format", file_format]) == 0
    printed = capsys.readouterr().out
    assert not [control for control in CONTROLS if control in printed]
    assert ("u001b]0;owned" in printed, "ü" in printed) == (True, True)


def test_tables_of_wide_characters_are_aligned(
    hostile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every line takes as many columns as the others, and a name with a line feed is one line."""
    query = "SELECT * FROM (VALUES ('细胞', 1), ('e\u0301x', 22)) AS t(\"type\n\", n)"
    assert main(["sql", hostile, query]) == 0
    lines = capsys.readouterr().out.splitlines()
    columns = {"W": 2, "F": 2}
    widths = {
        sum(0 if category(c) == "Mn" else columns.get(east_asian_width(c), 1) for c in line)
        for line in lines
    }
    assert widths == {9}
    assert lines[0].split() == ["type", "n"]
