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


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])  # noqa: S104 - for a moment
def test_a_server_says_where_it_is_and_ends_in_order(
    paths: list[str], tmp_path: Path, host: str
) -> None:
    """One line of JSON; clients with a token of the file ask, which others may read; SIGTERM ends it."""
    (tmp_path / "tokens").write_text(f"\n{TOKEN}\n")
    command = [sys.executable, "-m", "daf_query.cli", "serve", "--flight-sql", *paths[:2]]
    command += ["--port", "0", "--format", "json", "--token-file", str(tmp_path / "tokens")]
    command += ["--host", host]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            _ask_and_end(process)
            _, said = process.communicate()
        finally:
            process.kill()
    assert ("tokens and rows are sent in clear: give --tls-cert" in said) is (host == "0.0.0.0")  # noqa: S104


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


def test_arrow_in_a_pipe_is_a_stream(tiny_path: Path) -> None:
    """Which its reader need not have whole, and which says where its rows come from."""
    command = [sys.executable, "-m", "daf_query.cli", "sql", str(tiny_path)]
    query = "SELECT name FROM cell ORDER BY name"
    done = subprocess.run([*command, query, "--format", "arrow"], capture_output=True, check=True)
    table = pa.ipc.open_stream(done.stdout).read_all()
    assert table.column_names == ["name"]
    assert b"daf_query" in (table.schema.metadata or {})
