"""Tests of commands whose standard streams are closed or full, or have a query."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import create

COMMAND = f"{sys.executable} -m daf_query.cli"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a small data set."""
    with create(tmp_path / "x.daf.zarr") as daf:
        daf.add_axis("cell", ["a", "b"])
    return tmp_path / "x.daf.zarr"


def run(line: str) -> tuple[int, str]:
    """Run a line of the shell; return its exit code and its errors."""
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)  # noqa: S602 - only a shell closes streams
    return done.returncode, done.stderr


@pytest.mark.parametrize("kind", ["table", "csv"])
def test_closed_output_is_an_error(path: Path, kind: str) -> None:
    """Output that cannot be printed is an error in one line that names standard output."""
    code, error = run(f"{COMMAND} sql {path} 'SELECT name FROM cell' --format {kind} >&-")
    assert code == 1
    assert error == "daf: error: standard output: no file is open under this number\n"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "arguments",
    [
        *("sql {} 'SELECT 1'", "sql {} 'SELECT 1' -o -", "--help", "sql --help", "--version"),
        *("convert {0} {0}.h5df", "convert {0} {0}.h5df --format json"),
    ],
)
def test_full_output_is_named(path: Path, arguments: str) -> None:
    """It is standard output that is full, not the disk of the data set; one line says so."""
    code, error = run(f"{COMMAND} {arguments.format(path)} > /dev/full")
    assert code == 1
    assert error.startswith("daf: error: standard output: No space left on device")
    assert error.count("\n") == 1


@pytest.mark.parametrize("arguments", ["-", "-f -"])
def test_a_query_is_read_from_standard_input(path: Path, arguments: str) -> None:
    """A lone dash says so."""
    query = "-- how many\nSELECT count(*) AS n FROM cell; -- the end\n"
    line = f"{COMMAND} sql {path} {arguments} --format csv"
    done = subprocess.run(line.split(), input=query, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ('"n"\n2\n', "")


@pytest.mark.parametrize("encoding", ["ascii", "utf-8:strict"])
def test_names_that_the_output_cannot_show_are_escaped(tmp_path: Path, encoding: str) -> None:
    """Entries in a locale of ASCII, and in any locale a file whose name is not UTF-8."""
    with create(tmp_path / b"\xff.daf.zarr".decode(errors="surrogateescape")) as daf:
        daf.add_axis("cell", ["caf\u00e9"])
    command, place = f"PYTHONIOENCODING={encoding} {COMMAND}", f"{tmp_path}/*.daf.zarr"
    lines = f"{command} info {place} && {command} head {place} cell"
    done = subprocess.run(lines, shell=True, capture_output=True, text=True, check=True)  # noqa: S602 - of the shell are the patterns
    assert "\\udcff.daf.zarr" in done.stdout
    assert ("caf\\xe9" if encoding == "ascii" else "caf\u00e9") in done.stdout
