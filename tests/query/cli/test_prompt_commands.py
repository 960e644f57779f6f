"""Tests of what the commands of the prompt show and change, and of how the prompt reads."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import daf_query
from daf_query.cli import _prompt
from daf_query.cli._prompt import Prompt, PromptSettings
from daf_query.completion import SqlCompleter
from daf_query.session import DafSession
from daf_storage import DafWriter, MemoryDaf


@pytest.fixture
def daf() -> DafWriter:
    """Return a small data set."""
    daf = MemoryDaf(name="prompt commands")
    daf.add_axis("cell", [f"C{number}" for number in range(60)])
    daf.add_axis("gene", ["CD8A", "LYZ"])
    daf.set_matrix("cell", "gene", "X", [[number, 2] for number in range(60)])
    return daf


@pytest.fixture
def session(daf: DafWriter) -> Iterator[DafSession]:
    """Return the data set, connected."""
    with daf_query.connect({"a": daf}) as session:
        yield session


def answered(session: DafSession, *lines: str, settings: PromptSettings | None = None) -> None:
    """Answer some lines."""
    prompt = Prompt(session, settings or PromptSettings(), SqlCompleter(session))
    for line in lines:
        prompt.answer(line)


def test_tables_of_two_data_sets(daf: DafWriter, capsys: pytest.CaptureFixture[str]) -> None:
    """They are named as queries name them, in every command, and matrices by their schema."""
    with daf_query.connect({"a": daf, "b": daf}) as session:
        session.register(pa.table({"s": pa.array(["u"]).dictionary_encode()}), "mine")
        answered(session, ".tables")
        listed = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert listed[0] == ["table", "rows", "type"]
        assert ["b.cell", "60", "table"] in listed
        assert ["a.gene", "2", "table"] in listed
        assert ["mine", "NULL", "table"] in listed
        answered(session, ".schema b.gene", ".schema mine")
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert lines[0] == ["column", "type"]
        assert lines[2:4] == [["name", "string"], ["index", "int64"]]
        assert lines[-1] == ["s", "string", "(categorical)"]
        answered(session, ".matrices")
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert lines[0][:4] == ["schema", "rows_axis", "columns_axis", "name"]
        assert [line[:4] for line in lines[2:]] == [
            ["a", "cell", "gene", "X"],
            ["b", "cell", "gene", "X"],
        ]


def test_settings_that_commands_change(
    session: DafSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each its own; a wrong argument changes nothing."""
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("PAGER", "sort -r")
    settings = PromptSettings()

    def after(*lines: str) -> PromptSettings:
        answered(session, *lines, settings=settings)
        return dataclasses.replace(settings)

    assert after(".pager on") == PromptSettings(pager="sort -r")
    assert after(".pager ", ".pager no") == PromptSettings(pager="sort -r")
    assert after(".pager off;") == PromptSettings()
    assert after("  .mode   tsv  ", ".mode xml") == PromptSettings(mode="tsv")
    assert after(".mode table", ".timer on", ".timer of") == PromptSettings(timer=True)
    assert after(".timer off", ".maxrows 7", ".maxrows -1") == PromptSettings(max_rows=7)
    assert after(".maxrows 0", ".maxrows 1.5", ".maxrows") == PromptSettings(max_rows=0)
    monkeypatch.setenv("HOME", str(tmp_path))
    settings.max_rows = None
    assert after(".output ~/x.txt", ".output x.y") == PromptSettings(output=tmp_path / "x.txt")
    assert after(".output -") == PromptSettings()
    assert after(".output x.csv") == PromptSettings(output=Path("x.csv"))
    assert after(".output") == PromptSettings()


def test_all_that_is_read(session: DafSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C gives up a line, and the next one is answered; what leaves is the last that is read."""
    read = iter(["", "SELECT 7 AS seven;", ".quit", "SELECT 8 AS eight;"])

    def line() -> str:
        if not (each := next(read)):
            raise KeyboardInterrupt
        return each

    Prompt(session, PromptSettings(), SqlCompleter(session)).run(line)
    assert capsys.readouterr().out.splitlines() == ["seven", "-----", "    7"]
    assert next(read) == "SELECT 8 AS eight;"


def test_what_is_connected() -> None:
    """The longest four axes, and that there are more."""
    for most in range(1, 6):
        daf = MemoryDaf(name="prompt connected")
        for length in range(1, most + 1):
            daf.add_axis(f"x{length}", [f"{number}" for number in range(length * 1000)])
        shown = [f"{each * 1000:,} x{each}" for each in range(most, max(most - 4, 0), -1)]
        with daf_query.connect({"b": daf}) as session:
            expected = f"b: {', '.join(shown)}{', ...' if most > 4 else ''}"
            assert _prompt._connected(session) == expected


def test_a_traceback_if_asked_for(
    session: DafSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With DAF_DEBUG, before the sentence."""
    monkeypatch.setenv("DAF_DEBUG", "1")
    answered(session, "SELECT nope FROM cell;")
    err = capsys.readouterr().err
    assert err.startswith("Traceback")
    assert "\nerror: " in err
