"""Tests of the ways to give ``daf sql`` its query and tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from daf_query.cli import main
from tests.support import create

QUERY = "-- how many\nSELECT count(*) AS n FROM cell; -- the end\n"


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a data set with three cells of two donors."""
    daf = create(tmp_path / "tiny.daf.zarr")
    daf.add_axis("cell", ["A", "B", "C"])
    daf.set_vector("cell", "donor", ["N1", "N2", "N1"])
    return str(tmp_path / "tiny.daf.zarr")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command; return its exit code, its output and its errors."""
    code = main(arguments)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_a_file(capsys: pytest.CaptureFixture[str], path: str, tmp_path: Path) -> None:
    """Comments, a byte order mark and a semicolon at the end are allowed."""
    (tmp_path / "q.sql").write_text("\ufeff" + QUERY, "utf-8")
    assert run(capsys, "sql", path, "-f", str(tmp_path / "q.sql"), "--format", "csv") == (
        0,
        '"n"\n3\n',
        "",
    )


@pytest.mark.parametrize("arguments", [["-"], ["-f", "-"]])
def test_standard_input(path: str, arguments: list[str]) -> None:
    """A lone dash reads the query from standard input."""
    done = subprocess.run(
        [sys.executable, "-m", "daf_query.cli", "sql", path, *arguments, "--format", "csv"],
        input=QUERY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, '"n"\n3\n', "")


def test_bad_files(capsys: pytest.CaptureFixture[str], path: str, tmp_path: Path) -> None:
    """Several statements, none, no file and no text: one line that names the file."""
    cases = {
        "two.sql": (b"SELECT 1;\nSELECT 2;", "two.sql has several statements, the second begins"),
        "none.sql": (b"-- nothing\n", "none.sql has no SQL"),
        "bytes.sql": (b"SELECT '\xff'", "bytes.sql: this is not UTF-8 text (byte 8)"),
    }
    for name, (data, what) in cases.items():
        (tmp_path / name).write_bytes(data)
        code, _, error = run(capsys, "sql", path, "-f", str(tmp_path / name))
        assert (code, error.count("\n")) == (1, 1)
        assert what in error
    code, _, error = run(capsys, "sql", path, "-f", str(tmp_path / "gone.sql"))
    assert code == 1
    assert "gone.sql: there is no such file" in error
    assert "line 1, column 11" in run(capsys, "sql", path, "SELECT 1; SELECT 2")[2]


@pytest.mark.parametrize(
    "arguments", [[], ["SELECT 1", "-f", "q.sql"], ["-f", "q.sql", "SELECT 1"]]
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], path: str, arguments: list[str]) -> None:
    """No query, or two, is wrong usage."""
    with pytest.raises(SystemExit) as ended:
        main(["sql", path, *arguments])
    assert ended.value.code == 2
    assert "give one of QUERY and --file" in capsys.readouterr().err


def test_tables(capsys: pytest.CaptureFixture[str], path: str, tmp_path: Path) -> None:
    """Each --table is joinable; without a name it has that of the file."""
    (tmp_path / "samples.csv").write_text("id,centre\nN1,Basel\nN2,Oslo\n")
    (tmp_path / "towns.tsv").write_text("town\tland\nBasel\tCH\n")
    query = (
        "SELECT name, land FROM cell JOIN s ON donor = id JOIN towns ON town = centre ORDER BY 1"
    )
    tables = ["--table", f"s={tmp_path / 'samples.csv'}", "--table", str(tmp_path / "towns.tsv")]
    code, text, _ = run(capsys, "sql", path, *tables, query, "--format", "csv")
    assert (code, text) == (0, '"name","land"\n"A","CH"\n"C","CH"\n')
    code, _, error = run(capsys, "sql", path, "--table", "cell=x.csv", "SELECT 1")
    assert (code, "no such file: x.csv" in error) == (1, True)
    code, _, error = run(capsys, "sql", path, "--table", "x.h5ad", "SELECT 1")
    assert (code, "--table x.h5ad" in error) == (1, True)
