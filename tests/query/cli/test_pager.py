"""Tests of the pager and of colours: on a terminal only, and where nobody refused them."""

from __future__ import annotations

import io
import signal
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from daf_query.cli import main
from daf_query.cli._terminal import (
    coloured,
    coloured_table,
    has_colours,
    pager,
    pager_of,
    print_lines,
)
from tests.support import create


def pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that there is a terminal of 20 lines."""
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    for name, value in {"LINES": "20", "COLUMNS": "30", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_which_pager(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the environment, with its arguments; none where it is empty, cat, or not there."""
    pretend(monkeypatch)
    monkeypatch.setenv("PAGER", "sed -n p")
    assert pager() == "sed -n p"
    assert pager_of(Namespace(no_pager=False)) == "sed -n p"
    assert pager_of(Namespace(no_pager=True)) is None
    for chosen in ("", "cat", "no-such-program -x"):
        monkeypatch.setenv("PAGER", chosen)
        assert pager() is None
    monkeypatch.delenv("PAGER")
    monkeypatch.setattr("daf_query.cli._terminal.shutil.which", lambda program: f"/bin/{program}")
    assert pager() == "less"
    monkeypatch.setenv("TERM", "dumb")
    assert pager() is None


def test_no_pager_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """In pipes and files."""
    monkeypatch.setenv("PAGER", "sed -n p")
    assert pager() is None


@pytest.mark.parametrize(
    ("lines", "is_paged"),
    [
        (["x"] * 19, False),
        (["x"] * 20, True),
        (["x" * 31], True),
        (["\x1b[1m" + "x" * 30 + "\x1b[0m"], False),
    ],
)
def test_what_is_paged(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    lines: list[str],
    is_paged: bool,
) -> None:
    """What is longer or wider than the screen, without its colours; the pager gets all of it."""
    pretend(monkeypatch)
    print_lines(lines, "sed s/^/paged:/")
    shown = capfd.readouterr().out.splitlines()
    assert shown == [f"paged:{line}" for line in lines] if is_paged else lines


def test_a_pager_that_is_left(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it has read all; Ctrl-C is its own meanwhile, and ours afterwards."""
    pretend(monkeypatch)
    before = signal.getsignal(signal.SIGINT)
    print_lines(["x" * 100] * 10_000, "head -n 1; kill -INT $PPID")
    assert capfd.readouterr().out == "x" * 100 + "\n"
    assert signal.getsignal(signal.SIGINT) is before


def test_rows_of_a_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A pager is given more of them than the screen is, in colours unless refused."""
    pretend(monkeypatch)
    daf = create(tmp_path / "x.daf.zarr")
    daf.add_axis("cell", [f"C{number}" for number in range(100)])
    query = ("sql", str(tmp_path / "x.daf.zarr"), "SELECT name FROM cell")
    monkeypatch.setenv("PAGER", "sed -n p")
    main(query)
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 102
    assert lines[0] == "\x1b[1mname\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    main([*query, "--no-pager"])
    lines = capfd.readouterr().out.splitlines()
    assert (len(lines), lines[0]) == (43, "name")


def test_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a terminal; none in pipes, with NO_COLOR, and where the terminal has none."""
    pretend(monkeypatch)
    assert has_colours(sys.stdout)
    assert not has_colours(io.StringIO())
    assert coloured("x", "error", io.StringIO()) == "x"
    assert coloured_table(["a", "-", "1"], sys.stdout) == [
        "\x1b[1ma\x1b[0m",
        "\x1b[2m-\x1b[0m",
        "1",
    ]
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured_table(["a", "-", "1"], sys.stdout) == ["a", "-", "1"]
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "dumb")
    assert not has_colours(sys.stdout)
