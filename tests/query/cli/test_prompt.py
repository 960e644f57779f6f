"""Tests of the prompt of ``daf sql``: what is typed, and what it answers."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pexpect
import pyarrow.parquet as pq
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import daf_query
from daf_query.cli import main
from daf_storage.base import install_command
from tests.support import create, data_set


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a small data set."""
    path = tmp_path_factory.mktemp("prompt") / "x.daf.zarr"
    daf = data_set(create(path), cell=[f"C{number}" for number in range(60)], gene=["CD8A", "LYZ"])
    daf.set_vector("cell", "age", list(range(60)))
    daf.set_matrix("cell", "gene", "X", [[number, 2] for number in range(60)])
    return path


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the history of these tests in a folder of their own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


Answer = Callable[..., tuple[str, ...]]


@pytest.fixture
def typing(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Answer:
    """Return what types keys into a prompt, and returns its output, its errors and its welcome."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("PAGER", "cat")

    def answer(keys: str, *options: str, source: str = str(path)) -> tuple[str, ...]:
        for stream in (sys.stdin, sys.stdout):
            monkeypatch.setattr(stream, "isatty", lambda: True)
        with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
            typed.send_text(f"{keys}\x03\x04")
            assert main(["sql", source, *options]) == 0
        printed = capsys.readouterr()
        welcome, _, out = printed.out.partition("Ctrl-D leaves\n")
        return out, printed.err, welcome

    return answer


@pytest.fixture
def answer(typing: Answer) -> Answer:
    """Return what answers lines with its output and its errors."""
    return lambda *lines, options=(): typing("".join(f"{line}\r" for line in lines), *options)[:2]


class TestLine:
    """Keys, with prompt_toolkit's own input and no screen."""

    def test_leaving(self, typing: Answer) -> None:
        """Ctrl-C gives up the line; a command or a word leaves."""
        assert "7" in typing("SELECT\x03SELECT 7 AS seven;\r")[0]
        for word in (".quit", "quit", "EXIT;"):
            assert typing(f"{word}\rSELECT 7 AS seven;\r")[0] == ""

    def test_history(self, typing: Answer, state: Path) -> None:
        """It is kept for the next prompt in a file that others cannot read, once where repeated."""
        typing("SELECT 1\r+ 1 AS two;\r.mode\r.mode\r")
        file = state / "daf" / "sql_history"
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.read_text().count(".mode") == 1
        assert "two" in typing("\x1b[A\x1b[A\x1b[F\r")[0]


class TestAnswers:
    """What is printed."""

    def test_rows(self, answer: Answer) -> None:
        """A table; several statements one after the other."""
        out, err = answer("SELECT age FROM cell WHERE age < 2; SELECT 1 AS one, ';' AS x;")
        assert out.splitlines() == ["age", "---", "  0", "  1", "one  x", "---  -", "  1  ;"]
        assert err == ""

    def test_modes(self, answer: Answer) -> None:
        """As the command prints them."""
        query = "SELECT name, age FROM cell WHERE age < 2;"
        assert answer(".mode csv", query)[0] == '"name","age"\n"C0",0\n"C1",1\n'
        assert json.loads(answer(".mode json", query)[0])[1] == {"name": "C1", "age": 1}
        assert answer(".mode ndjson", ".mode")[0] == "ndjson\n"

    def test_commands(self, answer: Answer) -> None:
        """Tables with their rows, columns with their types, matrices."""
        out, _ = answer(".tables")
        assert ["cell", "60"] in [line.split() for line in out.splitlines()]
        pairs = [line.split()[:2] for line in answer(".schema cell")[0].splitlines()[2:]]
        assert pairs == [["name", "Utf8"], ["index", "Int64"], ["age", "Int64"]]
        rows = [line.split()[1:] for line in answer(".schema")[0].splitlines()]
        assert ["gene", "name", "Utf8"] in rows
        assert "cell       gene          X" in answer(".matrices")[0]
        lines = answer(".help")[0].splitlines()
        assert ".mode table|csv|tsv|json|ndjson  show rows so" in lines
        assert ".timer on|off                    show how long queries take" in lines
        assert lines[-2].startswith("Anything else is SQL")

    def test_a_timer(self, answer: Answer, tmp_path: Path) -> None:
        """On and off, in every mode."""
        assert re.search(r"\ntime: \d\.\d{3} s\n$", answer(".timer on", "SELECT 1;")[0])
        assert "time" not in answer(".timer on", ".timer off", "SELECT 1;")[0]
        for lines in ([".mode csv"], [f".output {tmp_path / 'x.csv'}"]):
            seconds = re.search(
                r"\ntime: (\d\.\d{3}) s\n$", answer(".timer on", *lines, "SELECT 1;")[0]
            )
            assert seconds is not None
            assert float(seconds[1]) < 9

    def test_output(self, answer: Answer, tmp_path: Path) -> None:
        """The rows of the next query go to a file, those of the one after it do not."""
        file = tmp_path / "x.parquet"
        out, _ = answer(f".output {file}", "SELECT age FROM cell;", "SELECT 1 AS one;")
        assert out.startswith(f"wrote {file} (")
        assert out.endswith("one\n---\n  1\n")
        assert pq.read_table(file).num_rows == 60
        assert (daf_query.provenance(file) or {})["sql"] == "SELECT age FROM cell"
        answer(f".output {tmp_path / 'x.txt'}", "SELECT 1 AS one;")
        assert (tmp_path / "x.txt").read_text() == "one\n---\n  1\n"
        _, err = answer(f".output {tmp_path / 'no' / 'x.csv'}", "SELECT 1;")
        assert "no such directory" in err

    def test_long_cells(self, answer: Answer) -> None:
        """They are cut; another mode shows the whole of them."""
        words = " ".join(f"word{number}" for number in range(40))
        query = f"SELECT '{words}' AS long;"
        assert answer(query)[0].splitlines()[2] == f"{words[:59]}…"
        assert words in answer(".mode csv", query)[0]

    def test_parameters(self, answer: Answer) -> None:
        """Those of the command line, in the queries that have them."""
        options = ("--param", "most=1", "--param", "other=2", "--format", "csv")
        out, err = answer("SELECT age FROM cell WHERE age < $most;", options=options)
        assert (out, err) == ('"age"\n0\n', "")

    def test_settings(self, answer: Answer, tmp_path: Path) -> None:
        """A wrong argument changes nothing; an output is for one query."""
        out, err = answer(".mode tsv", ".mode xml", ".mode", ".pager off", ".pager no", ".timer of")
        assert out == "tsv\n"
        assert err.count("error: ") == 3
        out, _ = answer(".output", "SELECT 7 AS seven;", options=("-o", str(tmp_path / "x.csv")))
        assert "seven" in out

    @pytest.mark.parametrize(
        ("line", "sentence"),
        [
            (".foo", "there is no command '.foo'; there are .tables, .schema"),
            (".table", "did you mean '.tables'"),
            (".mode xml", ".mode takes table or csv or tsv or json or ndjson; it was given 'xml'"),
            (".timer", ".timer takes on or off; it was given nothing"),
            (".maxrows x", ".maxrows takes a number of rows, 0 for all; it was given 'x'"),
            (".tables x", ".tables takes no argument; it was given 'x'"),
            (".matrices x", ".matrices takes no argument; it was given 'x'"),
            (".help x", ".help takes no argument; it was given 'x'"),
            (".output x.foo", "(those of text also with .gz)\n"),
            (".schema celll", "there is no table 'celll'"),
            (
                "CREATE TABLE t AS SELECT 1;",
                "queries only read unless asked otherwise; write its rows to a file with .output",
            ),
            ("SELECT $x;", "no values; start daf sql with --param x="),
            ("SELECT 1 / (age - 5) FROM cell;", "Divide by zero"),
        ],
    )
    def test_errors(self, answer: Answer, line: str, sentence: str) -> None:
        """One sentence each, and the prompt goes on."""
        out, err = answer(line, "SELECT 7 AS seven;")
        assert err.startswith("error: ")
        assert sentence in err
        assert "Traceback" not in err
        assert out.endswith("    7\n")

    @pytest.mark.parametrize(
        ("line", "marked"),
        [
            ("SELECT name,\n agee FROM cell;", "   agee FROM cell\n   ^^^^\n"),
            ("SELECT age FROMM cell;", "  SELECT age FROMM cell\n                   ^^^^\n"),
            ("SELECT 1; SELECT 2 FROM celll;", "  SELECT 2 FROM celll\n                ^^^^^\n"),
            ("SELECT X['CD8B'] FROM cell;", "  SELECT X['CD8B'] FROM cell\n           ^^^^^^\n"),
        ],
    )
    def test_the_place_is_marked(self, answer: Answer, line: str, marked: str) -> None:
        """Below its line, once."""
        _, err = answer(line)
        assert err.endswith(marked)
        assert err.count("\n") == 1 + marked.count("\n")

    def test_statements_after_an_error_do_not_run(self, answer: Answer) -> None:
        """Of one line."""
        out, err = answer("SELECT nope; SELECT 7;")
        assert out == ""
        assert "nope" in err


@pytest.mark.parametrize(
    ("extra", "module", "command"),
    [
        ("prompt", "prompt_toolkit", "sql"),
        ("explore", "starlette", "explore"),
        ("explore", "uvicorn", "explore"),
    ],
)
def test_what_to_install(
    extra: str,
    module: str,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The extra, before anything is opened."""
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setitem(sys.modules, module, None)
    assert main([command, "nowhere.daf.zarr"]) == 1
    assert install_command(extra) in capsys.readouterr().err


def test_a_real_terminal(path: Path, state: Path) -> None:
    """Typed, answered, cancelled and left, with exit code 0."""
    environment = {"TERM": "xterm", "PAGER": "cat", "PROMPT_TOOLKIT_NO_CPR": "1"}
    terminal = pexpect.spawn(
        sys.executable,
        ["-m", "daf_query.cli", "sql", str(path)],
        env={**os.environ, **environment, "XDG_STATE_HOME": str(state)},
        dimensions=(30, 100),
        timeout=60,
    )
    for typed, *shown in (
        ("", "Ctrl-D leaves", "daf>"),
        ("SELECT sum(age) AS years FROM cell;\r", "1770", "daf>"),
        ("SELECT X['cd", "CD8A"),
        ("\t FROM cell WHERE age = 59;\r", "X['CD8A']", "59", "daf>"),
        ("SELECT agee FROM cell;\r", "^^^^", "daf>"),
        ("SELECT sum(a.age) FROM cell a, cell b, cell c, cell d, cell e, cell f;\r", "cell f;"),
    ):
        terminal.send(typed)
        for expected in shown:
            terminal.expect_exact(expected)
    time.sleep(0.5)
    terminal.sendintr()
    terminal.expect_exact("cancelled")
    terminal.expect_exact("daf>")
    terminal.sendeof()
    assert terminal.wait() == 0


def test_tables_of_a_collection(tmp_path: Path, typing: Answer) -> None:
    """In a collection, with a table of one's own; first the longest four axes."""
    for name in "ab":
        daf = create(tmp_path / f"{name}.daf.zarr")
        for number, axis in enumerate(("cell", "gene", "x1", "x2", "x3"), 1):
            daf.add_axis(axis, [f"{name}{each}" for each in range(10 * number)])
        daf.set_matrix("cell", "gene", "X", [[number] * 20 for number in range(10)])
    (tmp_path / "mine.csv").write_text("s\nu\n")
    printed, err, welcome = typing(
        ".tables\r.schema mine\r.matrices\r",
        *("--table", f"mine={tmp_path}/mine.csv"),
        source=f"{tmp_path}/*.daf.zarr",
    )
    assert err == ""
    named = ["100", "x3,", "80", "x2,", "60", "x1,", "40", "gene,", "..."]
    assert welcome.splitlines()[0].split()[-9:] == named
    lines = [line.split() for line in printed.splitlines()]
    assert ["cell", "20"] in lines
    assert ["mine", "NULL"] in lines
    assert ["s", "Utf8", "YES"] in lines
    assert any({"cell", "gene", "X"} <= set(line) for line in lines), printed
