"""Tests of what the commands of the prompt show of several data sets."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from daf_query.cli import main
from tests.support import create


def test_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a collection, with a table of one's own; first the longest four axes."""
    for name in "ab":
        daf = create(tmp_path / f"{name}.daf.zarr")
        for number, axis in enumerate(("cell", "gene", "x1", "x2", "x3"), 1):
            daf.add_axis(axis, [f"{name}{each}" for each in range(10 * number)])
        daf.set_matrix("cell", "gene", "X", [[number] * 20 for number in range(10)])
    (tmp_path / "mine.csv").write_text("s\nu\n")
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("PAGER", "cat")
    with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
        typed.send_text(".tables\r.schema mine\r.matrices\r\x04")
        table = ("--table", f"mine={tmp_path}/mine.csv")
        assert main(["sql", f"{tmp_path}/*.daf.zarr", *table]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = [line.split() for line in printed.out.splitlines()]
    assert lines[0][-9:] == ["100", "x3,", "80", "x2,", "60", "x1,", "40", "gene,", "..."]
    assert ["cell", "20", "table"] in lines
    assert ["mine", "NULL", "table"] in lines
    assert ["s", "Utf8", "YES"] in lines
    assert any({"cell", "gene", "X"} <= set(line) for line in lines), printed.out
