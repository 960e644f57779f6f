"""Tests of daf serve --flight-sql: its arguments, what it prints, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight as fl

from daf_query.cli import main
from daf_storage import open_daf
from tests.flight_messages import packed

TOKEN = "correct-horse-battery-staple"  # noqa: S105 - of these tests alone


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the paths of two data sets, and of one with the name of the first."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "other").mkdir()
    names = ["one.daf.zarr", "two.daf.zarr", "other/one.daf.zarr"]
    for name in names:
        with open_daf(folder / name, "w+") as daf:
            daf.add_axis("cell", [f"{name}-a", "b"])
    return [str(folder / name) for name in names]


def _failed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["serve", *arguments]) == 1
    return capsys.readouterr().err.removeprefix("daf: error: ").strip()


def test_a_server_says_where_it_is_and_ends_in_order(paths: list[str], tmp_path: Path) -> None:
    """One line of JSON; clients with a token of the file ask; SIGTERM ends it."""
    (tmp_path / "tokens").write_text(f"\n{TOKEN}\n")
    command = [sys.executable, "-m", "daf_query.cli", "serve", "--flight-sql", *paths[:2]]
    command += ["--port", "0", "--format", "json", "--token-file", str(tmp_path / "tokens")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            _ask_and_end(process)
        finally:
            process.kill()


def _ask_and_end(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    address: dict[str, Any] = json.loads(process.stdout.readline())
    assert address["schemas"] == ["one", "two"]
    assert (address["needs_token"], address["tls"]) == (True, False)
    assert TOKEN not in Path(f"/proc/{process.pid}/cmdline").read_text()
    headers = [(b"authorization", f"Bearer {TOKEN}".encode())]
    options = fl.FlightCallOptions(headers=headers)
    query = packed("CommandStatementQuery", query="SELECT count(*) AS n FROM one.cell, two.cell")
    with fl.connect(address["uri"]) as client:
        info = client.get_flight_info(fl.FlightDescriptor.for_command(query), options)
        rows = client.do_get(info.endpoints[0].ticket, options).read_all()
        assert rows.to_pylist() == [{"n": 4}]
        with pytest.raises(fl.FlightUnauthenticatedError):
            client.get_flight_info(fl.FlightDescriptor.for_command(query))
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 143


def test_arguments_that_do_not_fit_are_refused(
    capsys: pytest.CaptureFixture[str],
    paths: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each with a sentence that says what to do."""
    first, flight_sql = paths[0], ["--flight-sql", paths[0], "--port", "0"]
    missing, empty, short = (str(tmp_path / name) for name in ("missing", "empty", "short"))
    Path(empty).touch()
    Path(short).write_text("secret")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("DAF_TOKEN", TOKEN)
    for arguments, message in [
        ([first, paths[1]], "one data set is served, not 2; --flight-sql serves several"),
        ([first, "--max-rows", "3"], "--max-rows is for --flight-sql, and not for HTTP"),
        ([first, "--token-env", "X"], "--token-env is for --flight-sql"),
        ([*flight_sql, "--allow-origin", "*"], "--allow-origin is for HTTP"),
        (["--flight-sql", first, paths[2]], "would both be called 'one'"),
        ([*flight_sql, "--token-file", missing], f"{missing}: there is no such file"),
        ([*flight_sql, "--token-file", empty], f"{empty}: it has no token"),
        ([*flight_sql, "--token-file", short], "the token has 6 characters, and needs 16"),
        ([*flight_sql, "--token-env", "EMPTY"], "variable EMPTY is not set, or empty"),
        ([*flight_sql, "--tls-key", short], "--tls-cert and --tls-key belong together"),
        (
            [*flight_sql, "--tls-cert", short, "--tls-key", missing],
            f"{missing}: there is no such file",
        ),
        ([*flight_sql, "--tls-cert", short, "--tls-key", short], "a certificate and its key?"),
        ([*flight_sql, "--max-queries", "0"], "max_queries= has to be positive, not 0"),
        ([*flight_sql, "--host", "0.0.0.0"], "everyone there could ask: give a token"),  # noqa: S104 - refused
        (["--flight-sql", first, "--port", "99999"], "ports are from 0 to 65535"),
        (["--flight-sql", missing], "missing"),
    ]:
        assert message in _failed(capsys, *arguments), arguments


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--query", "SELECT agee FROM cell"], "no vector 'agee'"),
        (["--color", "agee"], "--color: "),
        (["--color", "age +"], "--color: "),
    ],
)
def test_what_a_page_starts_with_is_checked(
    tiny_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    """Before anything is served."""
    assert main(["explore", str(tiny_path), "--no-browser", *options]) == 1
    assert sentence in capsys.readouterr().err


def test_nothing_is_written_to_a_bucket(
    tiny_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason is said, and no folder of this name is looked for."""
    for command in (
        ["sql", str(tiny_path), "SELECT 1", "-o", "s3://b/x.csv"],
        ["convert", str(tiny_path), "s3://b/x.daf.zarr"],
    ):
        assert main(command) == 1
        assert "nothing is written to a server or a bucket" in capsys.readouterr().err


def test_arrow_in_a_pipe_is_a_stream(tiny_path: Path) -> None:
    """Which its reader need not have whole."""
    command = [sys.executable, "-m", "daf_query.cli", "sql", str(tiny_path)]
    query = "SELECT name FROM cell ORDER BY name"
    done = subprocess.run([*command, query, "--format", "arrow"], capture_output=True, check=True)
    assert pa.ipc.open_stream(done.stdout).read_all().column_names == ["name"]
