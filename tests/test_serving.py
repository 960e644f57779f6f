"""Tests of the small server."""

from __future__ import annotations

import http.client
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from daf_storage import DafServer, errors, open_daf
from tests.support import create, fill


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DafServer]:
    """Return a running server of a small data set."""
    (tmp_path / "secret.txt").write_text("secret")
    path = tmp_path / "a b.daf.zarr"
    fill(create(path))
    (path / "link").symlink_to(tmp_path / "secret.txt")
    with DafServer(path) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(
    server: DafServer, path: str, *, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Send a request as it stands; return status, headers and body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    connection.request(method, path, headers=named)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), body


AGE = "/a%20b.daf.zarr/vectors/cell/age/0"


def test_whole_files_and_parts(server: DafServer) -> None:
    """Ranges of every form, with the headers that clients go by."""
    status, headers, body = ask(server, AGE)
    assert (status, body, headers["Content-Length"]) == (200, bytes([30, 60, 90]), "3")
    assert headers["Accept-Ranges"] == "bytes"
    for asked, expected, said in (
        ("bytes=0-1", [30, 60], "bytes 0-1/3"),
        ("bytes=1-", [60, 90], "bytes 1-2/3"),
        ("bytes=-1", [90], "bytes 2-2/3"),
        ("bytes=1-100", [60, 90], "bytes 1-2/3"),
    ):
        status, headers, body = ask(server, AGE, Range=asked)
        assert (status, list(body), headers["Content-Range"]) == (206, expected, said)
    status, headers, body = ask(server, AGE, Range="bytes=3-5")
    assert (status, headers["Content-Range"], body) == (416, "bytes */3", b"")
    assert ask(server, AGE, Range="lines=1-2")[0] == 200


def test_versions(server: DafServer) -> None:
    """A tag that changes with the file, and requests that depend on it."""
    tag = ask(server, AGE)[1]["ETag"]
    assert ask(server, AGE, If_None_Match=tag)[0] == 304
    assert ask(server, AGE, If_Match=tag)[0] == 200
    assert ask(server, AGE, If_Match='"other"')[0] == 412
    (server.root / "vectors/cell/age/0").write_bytes(b"abcd")
    assert ask(server, AGE)[1]["ETag"] != tag
    assert ask(server, AGE, If_Match=tag)[0] == 412


def test_other_methods(server: DafServer) -> None:
    """HEAD has no body, pages of other origins may ask, and nothing can be changed."""
    status, headers, body = ask(server, AGE, method="HEAD")
    assert (status, headers["Content-Length"], body) == (200, "3", b"")
    status, headers, _ = ask(server, AGE, method="OPTIONS", Origin="http://elsewhere")
    assert (status, headers["Access-Control-Allow-Origin"]) == (204, "*")
    assert "Range" in headers["Access-Control-Allow-Headers"]
    for method in ("PUT", "DELETE", "POST"):
        assert ask(server, AGE, method=method)[0] == 501


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/secret.txt",
        "/a%20b.daf.zarr",
        "/a%20b.daf.zarr/vectors",
        "/a%20b.daf.zarr/../secret.txt",
        "/a%20b.daf.zarr/%2e%2e/secret.txt",
        "/a%20b.daf.zarr/..%2fsecret.txt",
        "/a%20b.daf.zarr//etc/passwd",
        "/../../../etc/passwd",
        "/a%20b.daf.zarr/link",
        "/a%20b.daf.zarr/nope",
        "/a%20b.daf.zarr/%00",
    ],
)
def test_nothing_else_can_be_reached(server: DafServer, path: str) -> None:
    """Neither the folder above, nor by a link, nor a listing."""
    status, _, body = ask(server, path)
    assert (status, body) == (404, b"")


def test_it_listens_on_this_machine_only(server: DafServer) -> None:
    """By default; and what it serves opens."""
    assert server.server_address[0] == "127.0.0.1"
    assert open_daf(server.url).get_scalar("n") == 7


def test_nothing_to_serve(tmp_path: Path) -> None:
    """A path without anything is an error."""
    with pytest.raises(errors.SourceNotFoundError, match="no such file or directory"):
        DafServer(tmp_path / "x.daf.zarr")


def test_the_command(tmp_path: Path) -> None:
    """It says where it serves, and stops when it is interrupted."""
    path = tmp_path / "x.daf.zarr.zip"
    fill(create(path)).close()
    with subprocess.Popen(
        [sys.executable, "-m", "daf_query.cli", "serve", str(path), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        # Tests that run in the background of a shell ignore interrupts, and so would the server.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            url = line.split(" at ")[1].split(";")[0]
            assert line == f"serving {path} at {url}; stop with Ctrl-C\n"
            with urllib.request.urlopen(url) as answer:  # noqa: S310 - our own server
                assert answer.read() == path.read_bytes()
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 0
        finally:
            process.kill()
