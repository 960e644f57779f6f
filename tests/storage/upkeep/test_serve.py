"""Tests of the small server."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from email.message import Message
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path

import pytest

from daf_storage import DafServer, errors, open_daf
from tests.limits import lower
from tests.support import filled, wait_until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DafServer]:
    """Return a running server of a small data set."""
    (tmp_path / "secret.txt").write_text("secret")
    path = tmp_path / "a b.daf.zarr"
    filled(path)
    (path / "link").symlink_to(tmp_path / "secret.txt")
    with DafServer(path) as server:
        yield server


def ask(
    server: DafServer, path: str, *, method: str = "GET", **headers: str
) -> tuple[int, Message, bytes]:
    """Send a request as it stands; return status, headers and body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    connection.request(method, path, headers=named)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers, body


AGE = "/a%20b.daf.zarr/vectors/cell/age/0"


def test_whole_files_and_parts(server: DafServer) -> None:
    """Ranges of every form, with the headers that clients go by."""
    status, headers, body = ask(server, AGE)
    assert (status, body, headers["Content-Length"]) == (200, bytes([30, 60, 90]), "3")
    assert headers["Accept-Ranges"] == "bytes"
    assert headers["Content-Type"] == "application/octet-stream"
    changed = (server.root / "vectors/cell/age/0").stat().st_mtime
    assert parsedate_to_datetime(headers["Last-Modified"]).timestamp() == int(changed)
    for requested, expected, said in (
        ("bytes=0-1", [30, 60], "bytes 0-1/3"),
        ("bytes=1-", [60, 90], "bytes 1-2/3"),
        ("bytes=-1", [90], "bytes 2-2/3"),
        ("bytes=-9", [30, 60, 90], "bytes 0-2/3"),
        ("Bytes=1-100", [60, 90], "bytes 1-2/3"),
    ):
        status, headers, body = ask(server, AGE, Range=requested)
        assert (status, list(body), headers["Content-Range"]) == (206, expected, said)
    status, headers, body = ask(server, AGE, Range="bytes=3-5")
    assert (status, headers["Content-Range"], body) == (416, "bytes */3", b"")


def test_versions(server: DafServer) -> None:
    """A tag that changes with the file, and requests that depend on it."""
    tag = ask(server, AGE)[1]["ETag"]
    for sent in (tag, f'"other", {tag}', f"W/{tag}", "*"):
        status, headers, _ = ask(server, AGE, If_None_Match=sent)
        assert (status, headers["ETag"], "Content-Length" in headers) == (304, tag, False)
    for sent, status in ((tag, 200), (f'"other", {tag}', 200), ("*", 200), ('"other"', 412)):
        assert ask(server, AGE, If_Match=sent)[0] == status
    assert ask(server, AGE, method="HEAD", Range="bytes=1-")[0] == 200
    (server.root / "vectors/cell/age/0").write_bytes(b"abcd")
    assert ask(server, AGE)[1]["ETag"] != tag
    assert ask(server, AGE, If_Match=tag)[0] == 412


def test_a_download_goes_on_only_with_the_same_version(server: DafServer) -> None:
    """Of a file that was changed meanwhile, browsers get the whole, and no part for the old one."""
    tag = ask(server, AGE)[1]["ETag"]
    status, _, part = ask(server, AGE, Range="bytes=2-", If_Range=tag)
    whole = ask(server, AGE)[2]
    assert (status, part) == (206, whole[2:])
    (server.root / "vectors/cell/age/0").write_bytes(b"new bytes")
    for earlier in (tag, "Mon, 23 Nov 2026 06:00:00 GMT"):
        assert ask(server, AGE, Range="bytes=2-", If_Range=earlier)[::2] == (200, b"new bytes")


LARGE = b"old!" * (16 << 20)


def replaced(file: Path) -> None:
    """Put another file in place of one."""
    file.with_name("other").write_bytes(b"new!" * (16 << 20))
    file.with_name("other").replace(file)


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.write_bytes(b"new!" * (16 << 20)),
        lambda file: os.truncate(file, 0),
        lambda file: os.truncate(file, 80 << 20),
        replaced,
    ],
)
def test_old_and_new_bytes_are_not_mixed(
    server: DafServer, change: Callable[[Path], object], capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is changed while it is sent, as archives are: the server hangs up, and says so."""
    file = server.root / "large"
    file.write_bytes(LARGE)
    with connected(server, sending=LARGE_REQUEST) as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"
        change(file)
        body = rest(connection).partition(b"\r\n\r\n")[2]
    assert len(body) < len(LARGE)
    assert body == LARGE[: len(body)]
    assert ask(server, AGE)[0] == 200
    said = capsys.readouterr().err
    assert said == f"daf serve: OSError: {file} was changed while it was sent\n"


def test_other_methods(server: DafServer) -> None:
    """HEAD has no body, and nothing can be changed."""
    status, headers, body = ask(server, AGE, method="HEAD")
    assert (status, headers["Content-Length"], body) == (200, "3", b"")
    for method in ("OPTIONS", "PUT", "DELETE", "POST"):
        assert ask(server, AGE, method=method)[0] == 405


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
        f"/a%20b.daf.zarr/{'x' * 300}",
        f"/a%20b.daf.zarr{'/a' * 2100}",
    ],
)
def test_nothing_else_can_be_reached(server: DafServer, path: str) -> None:
    """Neither the folder above, nor by a link, nor a listing."""
    status, _, body = ask(server, path)
    assert (status, body) == (404, b"")


def test_pages_of_other_origins_are_let_in_on_request(server: DafServer) -> None:
    """By default no page of another origin may read; with ``allow_origin``, that one may."""
    origin = {"Origin": "http://elsewhere"}
    preflight = {**origin, "Access-Control-Request-Method": "GET"}
    for method in ("GET", "OPTIONS"):
        _, headers, _ = ask(server, AGE, method=method, **preflight)
        assert not [name for name in headers if name.lower().startswith("access-control")]
    with DafServer(server.root, allow_origin="http://elsewhere") as other:
        status, headers, _ = ask(other, AGE, method="OPTIONS", **preflight)
        assert (status, headers["Access-Control-Allow-Origin"]) == (200, "http://elsewhere")
        assert "Range" in headers["Access-Control-Allow-Headers"]
        preflight["Access-Control-Request-Method"] = "HEAD"
        assert ask(other, AGE, method="OPTIONS", **preflight)[0] == 200
        assert ask(other, AGE, **origin)[1]["Access-Control-Allow-Origin"] == "http://elsewhere"
        strange = ask(other, AGE, Origin="http://attacker.example")[1]
        assert "Access-Control-Allow-Origin" not in strange


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8000", 200),
        ("localhost", 200),
        ("LocalHost:80", 200),
        ("[::1]:80", 200),
        ("192.0.2.7", 200),
        ("atlas.example.org", 200),
        ("attacker.example", 421),
        ("attacker.example:80", 421),
        ("127.0.0.1.attacker.example", 421),
        ("", 421),
    ],
)
def test_the_host_is_checked(tmp_path: Path, host: str, status: int) -> None:
    """A page whose name was made to point at this machine cannot read from the server."""
    path = tmp_path / "a b.daf.zarr"
    filled(path)
    with DafServer(path, host_names=["atlas.example.org"]) as server:
        assert ask(server, AGE, Host=host)[0] == status


def rest(connection: socket.socket) -> bytes:
    """Return all that a connection still receives."""
    return b"".join(iter(partial(connection.recv, 1 << 20), b""))


def send(server: DafServer, request: bytes) -> bytes:
    """Send bytes as they are; return all that comes back."""
    with connected(server, sending=request) as connection:
        return rest(connection)


@pytest.mark.parametrize(
    "request_",
    [
        b"GET @AGE HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-" + b"9" * 4301 + b"\r\n\r\n",
        b"GET @AGE HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc",
        b"GET @AGE HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET @AGE HTTP/1.1\r\n\r\n",
        b"GET @AGE HTTP/1.1\r\nHost: localhost\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET @AGE HTTP/9.9.9\r\n\r\n",
        b"banana\r\n\r\n",
        b"GET @AGE HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nContent-Length: 3\r\n\r\nabc",
        b"GET @AGE HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"GET @AGE HTTP/1.1\r\nHost: localhost\r\nbanana\r\n\r\n",
    ],
)
def test_odd_requests_are_bad_requests(
    server: DafServer, capfd: pytest.CaptureFixture[str], request_: bytes
) -> None:
    """Each gets a 400 and nothing is printed; the next request is answered."""
    answer = send(
        server,
        request_.replace(b"@AGE", AGE.encode()).replace(
            b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1
        ),
    )
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert ask(server, AGE)[0] == 200
    assert capfd.readouterr().err == ""


def test_dot_files_are_not_served(server: DafServer) -> None:
    """But for the metadata of Zarr: neither what a writer prepares, nor what others put there."""
    for name in (".daf.staging/x", ".git/config", ".hidden", ".cell/age"):
        file = server.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("secret")
        for way in ("", "vectors/../", "vectors/%2e%2e/"):
            assert ask(server, f"/a%20b.daf.zarr/{way}{name}")[0] == 404
    for name in (".zgroup", ".zmetadata", "vectors/cell/age/.zarray"):
        assert ask(server, f"/a%20b.daf.zarr/{name}")[0] == 200


def test_it_answers_within_a_block(tmp_path: Path) -> None:
    """Without a thread of one's own; `serve_forever` waits there until it is shut down."""
    path = tmp_path / "x.daf.zarr"
    filled(path)
    with DafServer(path) as server:
        assert server.url.startswith("http://127.0.0.1:"), "on this machine only"
        assert open_daf(server.url).axes_set() == open_daf(path).axes_set()
        waiting = threading.Thread(target=server.serve_forever, daemon=True)
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        server.shutdown()
        waiting.join(20)
        assert not waiting.is_alive()
    with pytest.raises(errors.RemoteError):
        open_daf(server.url)


LARGE_REQUEST = b"GET /a%20b.daf.zarr/large HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_idle_connections_are_closed(server: DafServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever says nothing, or takes nothing, is not waited for; whoever takes little is."""
    lower(monkeypatch, server_idle_seconds=1)
    assert send(server, b"") == b""
    assert send(server, b"GET /a") == b""
    with connected(server, sending=b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") as connection:
        assert connection.recv(12) == b"HTTP/1.1 404"
        connection.sendall(b"GET /a")
        assert b"HTTP/" not in rest(connection)
    (server.root / "large").write_bytes(LARGE)
    with connected(server, sending=LARGE_REQUEST) as connection:
        time.sleep(2)
        with suppress(ConnectionResetError):
            assert len(rest(connection)) < len(LARGE)
    with connected(server, sending=LARGE_REQUEST) as connection:
        received = 0
        while received < len(LARGE):
            if received < 10 << 20:
                time.sleep(0.2)
            block = connection.recv(1 << 20)
            assert block
            received += len(block)


@contextmanager
def connected(server: DafServer, *, sending: bytes) -> Iterator[socket.socket]:
    """Connect, and send something."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(sending)
        yield connection


def test_too_many_connections(server: DafServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """One too many is asked to come again, and answered when there is room."""
    lower(monkeypatch, server_connections=8)
    with DafServer(server.root) as small, ExitStack() as stack:
        slow = [stack.enter_context(connected(small, sending=b"GET / HT")) for _ in range(8)]
        deadline = time.monotonic() + 10
        while not send(small, LARGE_REQUEST).startswith(b"HTTP/1.1 503 Service Unavailable"):
            assert time.monotonic() < deadline
        slow[-1].sendall(b"TP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert slow[-1].recv(12) == b"HTTP/1.1 404"
        stack.close()
        wait_until(lambda: ask(small, AGE)[0] == 200)


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without starlette, a server says which extra brings it."""
    monkeypatch.setitem(sys.modules, "starlette", None)
    with pytest.raises(errors.MissingDependencyError, match=r"'starlette'.*\[serve\]"):
        DafServer(filled(tmp_path / "x.daf.zarr").location)


def test_the_command(tmp_path: Path) -> None:
    """It says where it serves, and stops when it is interrupted."""
    path = tmp_path / "x.daf.zarr.zip"
    filled(path).close()
    with subprocess.Popen(
        [sys.executable, "-m", "daf_query.cli", "serve", str(path), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        # Tests that run in the background of a shell ignore interrupts, and so would the server.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - only a signal is set
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
