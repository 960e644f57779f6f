"""Tests of the pager and of colours: on a terminal only, and where nobody refused them."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from daf_query.cli import main
from tests.support import create, data_set


@pytest.fixture
def query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a query of 100 rows, and pretend that there is a terminal of 20 lines."""
    for name, value in {"LINES": "20", "COLUMNS": "30", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    data_set(create(tmp_path / "x.daf.zarr"), cell=[f"C{number}" for number in range(100)])
    return ["sql", str(tmp_path / "x.daf.zarr"), "SELECT name FROM cell"]


def lines_of(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> list[str]:
    """Run a command, and return the lines that it and its pager print."""
    with pytest.MonkeyPatch.context() as patch:
        for stream in (sys.stdin, sys.stdout):
            patch.setattr(stream, "isatty", lambda: True)
        assert main(arguments) == code
    return "".join(capfd.readouterr()).splitlines()


def test_a_long_table(
    query: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A pager is given more rows than the screen has, in colours unless refused."""
    monkeypatch.setenv("PAGER", "sed s/^/paged:/")
    lines = lines_of(capfd, *query)
    assert len(lines) == 102
    assert lines[:2] == ["paged:\x1b[1mname\x1b[0m", "paged:----"]
    monkeypatch.setenv("NO_COLOR", "1")
    lines = lines_of(capfd, *query, "--no-pager")
    assert (len(lines), lines[0]) == (43, "name")
    assert lines[-1] == "... 100 rows; 40 shown, --max-rows 0 shows all"
    assert len(lines_of(capfd, *query, "--no-pager", "--max-rows", "0")) == 102
    (said,) = lines_of(capfd, *query, "--format", "parquet", code=1)
    assert "binary; write it to a file with -o FILE" in said
    assert main(query) == 0  # in a pipe
    assert len(capfd.readouterr().out.splitlines()) == 102


@pytest.mark.parametrize(("sql", "is_paged"), [("LIMIT 17", False), ("LIMIT 18", True)])
def test_what_fits_is_not_paged(
    query: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    sql: str,
    *,
    is_paged: bool,
) -> None:
    """What is longer or wider than the screen, without its colours."""
    monkeypatch.setenv("PAGER", "sed s/^/paged:/")
    assert lines_of(capfd, *query[:2], f"{query[2]} {sql}")[-1].startswith("paged") == is_paged
    for width, wide in ((30, False), (31, True)):
        lines = lines_of(capfd, *query[:2], f"SELECT repeat('x', {width}) AS a")
        assert lines[-1].startswith("paged") == wide


def test_a_pager_that_is_left(
    query: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Before it has read all; Ctrl-C is ours afterwards."""
    monkeypatch.setenv("PAGER", "head -n 1")
    before = signal.getsignal(signal.SIGINT)
    long = "SELECT repeat(a.name, 50) AS x FROM cell a, cell b"
    assert len(lines_of(capfd, *query[:2], long)) == 1
    assert signal.getsignal(signal.SIGINT) is before
