"""A campaign against clients: a server on loopback that lies, truncates, stalls and overdoes it."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from daf_query import connect
from daf_storage import DafError, open_daf, verify
from tests.support import in_background
from tests.torture.mutation import Base, base_of, damage_bytes, damage_json
from tests.torture.samples import Form, attempt, is_equal, is_equal_or_filled, properties, read
from tests.torture.tally import WrongAnswerError

_STALL_SECONDS = 0.5
"""Such that `verify`, which asks 63 times, ends well before a case is taken to hang."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answers."""

    status: int
    headers: dict[str, str]
    body: bytes
    whole: bytes
    """The whole file, of which the body may be a part."""
    times: int = 1
    """How often the body is sent, unless the client hangs up before."""

    def with_headers(self, **changes: str | None) -> Reply:
        """Return the reply with other headers; None drops one, an underscore is a hyphen."""
        renamed = {name.replace("_", "-"): value for name, value in changes.items()}
        headers = {**self.headers, **renamed}
        return replace(self, headers={k: v for k, v in headers.items() if v is not None})

    def with_body(self, body: bytes) -> Reply:
        """Return the reply with another body, and its length said truly."""
        return replace(self, body=body).with_headers(Content_Length=str(len(body)))


Trick = Callable[[Reply, random.Random], Reply]


def _huge(reply: Reply, rng: random.Random) -> Reply:
    length = str(rng.choice((2**40, 2**62, 2**63, 2**64)))
    return reply.with_headers(Content_Length=length, Content_Range=f"bytes 0-{2**40}/{2**40 + 1}")


def _status(status: int) -> Trick:
    return lambda reply, _: replace(reply, status=status, headers={}).with_body(b"")


def _stall(reply: Reply, _: random.Random) -> Reply:
    time.sleep(_STALL_SECONDS)
    return reply


def _redirect(status: int, location: str) -> Trick:
    return lambda reply, _: replace(reply, status=status).with_headers(Location=location)


def _other_part(reply: Reply, _: random.Random) -> Reply:
    size = len(reply.body)
    return replace(reply, body=reply.whole[size:][:size].ljust(size, b"?"))


def _whole(reply: Reply, _: random.Random) -> Reply:
    plain = replace(reply, status=200).with_headers(Content_Range=None)
    return plain.with_body(reply.whole)


def _damaged_json(reply: Reply, rng: random.Random) -> Reply:
    is_json = reply.body[:1] in (b"{", b"[")
    return reply.with_body(damage_json(reply.body, rng)) if is_json else reply


TRICKS: dict[str, Trick] = {
    "huge length": _huge,
    "short length": lambda r, _: r.with_headers(Content_Length=str(len(r.body) // 2)),
    "negative length": lambda r, _: r.with_headers(Content_Length="-5"),
    "text length": lambda r, _: r.with_headers(Content_Length="many"),
    "no length": lambda r, _: r.with_headers(Content_Length=None),
    "truncated": lambda r, _: replace(r, body=r.body[: len(r.body) // 2]),
    "longer": lambda r, _: r.with_body(r.body + b"x" * 1000),
    "not found": _status(404),
    "forbidden": _status(403),
    "server error": _status(500),
    "not modified": _status(304),
    "redirect loop": _redirect(302, "loop"),
    "redirect away": _redirect(301, "file:///etc/passwd"),
    "whole instead of part": _whole,
    "other part": _other_part,
    "other range": lambda r, _: r.with_headers(Content_Range="bytes 5-9/10"),
    "endless range": lambda r, _: r.with_headers(Content_Range=f"bytes 0-{'9' * 4300}/1"),
    "no range header": lambda r, _: r.with_headers(Content_Range=None),
    "other tag": lambda r, rng: r.with_headers(ETag=f'"{rng.random()}"'),
    "stall": _stall,
    "long header": lambda r, _: r.with_headers(X_Long="x" * 60_000),
    "damaged json": _damaged_json,
    "deep json": lambda r, _: r.with_body(b"[" * 100_000),
    "huge json": lambda r, _: r.with_body(b'{"metadata": {"a": "' + b"x" * (64 << 20) + b'"}}'),
    "damaged bytes": lambda r, rng: r.with_body(bytes(damage_bytes(bytearray(r.body), rng)[0])),
    "gzip claimed": lambda r, _: r.with_headers(Content_Encoding="gzip"),
    "multipart": lambda r, _: r.with_headers(Content_Type="multipart/byteranges; boundary=x"),
    "empty": lambda r, _: r.with_body(b""),
    "endless": lambda r, _: replace(r.with_headers(Content_Length=None), times=sys.maxsize),
    "other version": lambda r, _: r.with_body(r.body[::-1]).with_headers(ETag='"other"'),
}
_OTHER_BYTES = ("damaged json", "damaged bytes", "other part", "deep json", "other version")
"""Tricks that give other numbers of the right length, which nothing can notice."""
_ABSENT = ("not found", "redirect loop")
"""Tricks that end in a 404, which for a chunk of Zarr v3 means that it has the fill value only."""


class _LyingServer(ThreadingHTTPServer):
    """Serves the files below a folder, and plays a trick on some requests."""

    daemon_threads = True

    def __init__(self, root: Path, trick: str, rng: random.Random) -> None:
        self.root = root
        self.trick = trick
        self.rng = rng
        self.from_request = rng.choice((0, 0, 1, 2, 5, 20))
        self.every = rng.choice((1, 1, 2, 3))
        self.count = 0
        super().__init__(("127.0.0.1", 0), _LyingHandler)

    def is_tricked(self) -> bool:
        """Return whether this request is one of those."""
        self.count += 1
        late = self.count - self.from_request
        return late > 0 and late % self.every == 0


class _LyingHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _LyingServer
    timeout = 5

    def do_HEAD(self) -> None:
        self._answer(has_body=False)

    def do_GET(self) -> None:
        self._answer(has_body=True)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the parent's name
        """Say nothing."""

    def _answer(self, *, has_body: bool) -> None:
        self.close_connection = True
        file = self.server.root / self.path.split("?")[0].lstrip("/")
        if not file.is_file():
            self._send(Reply(404, {"Content-Length": "0"}, b"", b""), has_body=has_body)
            return
        reply = self._honest(file.read_bytes())
        if self.server.is_tricked():
            reply = TRICKS[self.server.trick](reply, self.server.rng)
        self._send(reply, has_body=has_body)

    def _honest(self, whole: bytes) -> Reply:
        start, stop = self._requested(len(whole))
        headers = {"ETag": f'"{len(whole)}"', "Accept-Ranges": "bytes"}
        if not self.headers.get("Range"):
            return Reply(200, headers, whole, whole).with_body(whole)
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(whole)}"
        return Reply(206, headers, b"", whole).with_body(whole[start:stop])

    def _requested(self, size: int) -> tuple[int, int]:
        text = self.headers.get("Range", "")
        first, _, last = text.removeprefix("bytes=").partition("-")
        if not first:
            return max(0, size - int(last or size)), size
        return min(int(first), size), min(int(last) + 1 if last else size, size)

    def _send(self, reply: Reply, *, has_body: bool) -> None:
        with suppress(OSError):  # the client had enough
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            for _ in range(reply.times if has_body else 0):
                self.wfile.write(reply.body)


def lie(form: Form, _folder: Path, rng: random.Random) -> None:
    """Read from a server that plays tricks."""
    base = base_of(form, with_indexes=False)
    trick = rng.choice(sorted(TRICKS))
    server = _LyingServer(base.path.parent, trick, rng)
    with server, in_background(server):
        url = f"http://127.0.0.1:{server.server_port}/{base.path.name}"
        _use(url, base, trick, rng)


def _use(url: str, base: Base, trick: str, rng: random.Random) -> None:
    """Read a few properties; each is as stored, refused, or (where bytes lie) other numbers.

    Chunks of Zarr v3 that the server denies are filled; see "Not promised" in trust.md.
    """
    may_be_filled = trick in _ABSENT and (base.path / "zarr.json").is_file()
    daf = attempt(open_daf, url)
    if isinstance(daf, DafError):
        return
    with daf:
        listed = attempt(properties, daf)
        if isinstance(listed, DafError):
            return
        for one in rng.sample(listed, min(4, len(listed))):
            value = attempt(read, daf, one)
            if isinstance(value, DafError) or trick in _OTHER_BYTES or one not in base.values:
                continue
            stored = base.values[one]
            if may_be_filled and is_equal_or_filled(value, stored):
                continue
            if not is_equal(value, stored):
                raise WrongAnswerError(f"{one.path} through a server with {trick!r}")
        session = attempt(connect, daf)
        if not isinstance(session, DafError):
            attempt(lambda: session.sql("SELECT count(*) FROM cell WHERE int64 > 5").to_pydict())
    if rng.random() < 0.2:
        attempt(verify, url)
