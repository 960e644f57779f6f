"""Tests of data sets on a server: a real one on loopback, and one that misbehaves."""

from __future__ import annotations

import http.server
import itertools
import math
import pickle
import socket
import threading
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daf_query import connect
from daf_storage import (
    DafReader,
    DafServer,
    MemoryDaf,
    ZarrDaf,
    convert,
    errors,
    open_daf,
    repair,
    verify,
)
from daf_storage.base import Span
from daf_storage.opening import open_remote_tree
from daf_storage.stores import RemoteFiles, _remote, shown_url
from tests.limits import lower
from tests.support import (
    contents,
    create,
    data_set,
    edited_bytes,
    fill_served,
    filled,
    in_background,
    there,
    wait_until,
    zip_folder,
)

Fault = Callable[[Request], ASGIApp | None]
"""Answers a request wrongly, or leaves it to the server."""


class Watched(DafServer):
    """A server that writes down what is asked, and misbehaves on request."""

    def __init__(self, path: Path, fault: Fault | None = None) -> None:
        super().__init__(path)
        self.requested: list[tuple[str, str, str | None]] = []
        self.sent_bytes = 0
        self.fault = fault
        self._files, self._server.application = self._server.application, self._watched

    def files(self) -> set[str]:
        """Return the files that were asked for, below the data set."""
        return {path.split(".daf.zarr", 1)[-1].lstrip("/") for _, path, _ in self.requested}

    @contextmanager
    def at_most(self, requests: int, sent_bytes: float = math.inf) -> Iterator[None]:
        """Check how much is asked for and sent while the block runs."""
        before = len(self.requested), self.sent_bytes
        yield
        assert len(self.requested) - before[0] <= requests
        assert self.sent_bytes - before[1] <= sent_bytes

    def connections(self) -> int:
        """Return how many are open."""
        return len(self._server._server.server_state.connections)

    async def _watched(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            self.sent_bytes += len(message.get("body", b""))
            await send(message)

        request = Request(scope)
        path = str(request.url).removeprefix(str(request.base_url))
        self.requested.append((request.method, path, request.headers.get("Range")))
        wrong = None if self.fault is None else await run_sync(self.fault, request)
        if wrong is None:
            await self._files(scope, receive, counted)
        else:
            await wrong(scope, receive, send)


@contextmanager
def served(path: Path, fault: Fault | None = None) -> Iterator[Watched]:
    """Serve a path while the block runs."""
    with Watched(path, fault) as server:
        yield server


def impatient(url: str) -> RemoteFiles:
    """Return files that are not waited for."""
    with pytest.MonkeyPatch.context() as patch:
        lower(patch, silent_seconds=0.5, retries=1)
        return RemoteFiles(url)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a directory with one of every encoding."""
    path = tmp_path / "x.daf.zarr"
    filled(path, fill_served).close()
    return path


def check_filled(url: str) -> DafReader:
    """Check that a URL reads as what `fill_served` fills, in every way; return a reader."""
    daf = open_daf(url)
    assert contents(daf) == contents(fill_served(MemoryDaf()))
    rows = connect(url).sql("SELECT name FROM cell WHERE type = 'TCell'").to_pydict()
    assert rows == {"name": ["GATA", "CATA"]}
    part = connect(url).matrix("cell", "gene", "sparse_UMIs", rows=["CATA"]).to_numpy()
    assert part.tolist() == [[2, 3, 0, 1]]
    again = pickle.loads(pickle.dumps(daf))
    assert again.axis_entries("cell").tolist() == daf.axis_entries("cell").tolist()
    return daf


@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf.zarr.zip", "s.dafs.zarr.zip#/a/b"])
def test_everything_reads_as_from_the_disk(folder: Path, name: str) -> None:
    """Directories, archives, and one of several data sets in an archive."""
    path = f"{folder.parent}/{name}"
    if path != str(folder):
        convert(folder, path)
    container, _, group = path.partition("#")
    with served(Path(container)) as server:
        url = f"{server.url}#{group}" if group else server.url
        daf = check_filled(url)
        assert type(daf) is DafReader
        assert daf.name.startswith("served!.read_only")
        assert "cell" in daf.description()


N_LARGE = 20_000


def write_large(path: Path) -> Path:
    """Write a directory with 16 MB of matrix, of which each row has 800 bytes, and wide columns."""
    numbers = {name: np.arange(N_LARGE, dtype="f8") for name in "abcd"}
    indices = np.tile(np.arange(0, 200, 2), N_LARGE)
    parts = np.arange(indices.size).astype("f4"), indices, np.arange(N_LARGE + 1) * 100
    matrix = sp.csr_array(parts, shape=(N_LARGE, 200))
    cells = {"name": [f"c{n}" for n in range(N_LARGE)], **numbers}
    data_set(create(path), cell=cells, gene=200, matrices={("cell", "gene", "X"): matrix}).close()
    return path


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return such a directory, and beside it an archive."""
    path = write_large(tmp_path_factory.mktemp("large") / "x.daf.zarr")
    convert(path, path.with_name("x.daf.zarr.zip"))
    return path


@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf.zarr.zip"])
def test_only_what_is_asked_for_is_downloaded(large: Path, name: str) -> None:
    """Opening reads metadata, a query its columns, a slice the ranges of its rows."""
    with served(large.with_name(name)) as server:
        session = connect(server.url)
        assert len(server.requested) <= 5
        assert server.sent_bytes < 200_000
        before = server.sent_bytes
        session.sql("SELECT count(*) FROM cell WHERE a > 5 AND b < 100").to_pylist()
        assert 320_000 <= server.sent_bytes - before < 600_000
        if name == "x.daf.zarr":
            chunks = {f for f in server.files() if f.endswith("/0")}
            assert chunks == {"daf/0", "vectors/cell/a/0", "vectors/cell/b/0"}
        with server.at_most(11, 700_000):
            part = session.matrix("cell", "gene", "X", rows=np.arange(5000, 5100)).to_scipy()
        assert part.nnz == 10_000
        with server.at_most(5, 0):
            session.sql("SELECT sum(a + b) FROM cell").to_pylist()


@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf.zarr.zip"])
def test_rows_that_lie_near_are_downloaded_together(large: Path, name: str) -> None:
    """With the small gaps between them, in few requests; of rows that lie apart only a little."""
    rows, far = np.arange(0, 20_000, 100), np.arange(0, 20_000, 1_000)
    with served(large.with_name(name)) as server, connect(server.url) as session:
        part = session.matrix("cell", "gene", "X", rows=far)
        before = len(server.requested)
        with server.at_most(49, 600_000):
            assert part.to_scipy().nnz == 2_000
        assert len(server.requested) - before > 20
    with served(large.with_name(name)) as server, connect(server.url) as session:
        part = session.matrix("cell", "gene", "X", rows=rows)
        assert (part.explain().requests or 99) <= 8
        with server.at_most(8):
            assert part.to_scipy().nnz == 20_000
        local = connect(large).matrix("cell", "gene", "X", rows=rows)
        assert np.array_equal(part.to_numpy(), local.to_numpy())


def test_zarr_reads_what_is_served(folder: Path) -> None:
    """zarr-python finds the same, through its own store."""
    from obstore.store import HTTPStore

    with served(folder) as server:
        remote = HTTPStore.from_url(server.url, client_options={"allow_http": True})
        store = zarr.storage.ObjectStore(remote, read_only=True)
        found = zarr.open_array(store, path="vectors/cell/score", mode="r", zarr_format=2)
        assert np.asarray(found[:2]).tolist() == [1, 2]


# What is refused


def test_missing_data_sets(folder: Path) -> None:
    """404 for the metadata, the archive, a group that is not there, and the root of a server."""
    archive = folder.with_name("s.dafs.zarr.zip")
    convert(folder, f"{archive}#/a")
    (folder / ".zmetadata").unlink()
    with served(folder) as server:
        with pytest.raises(errors.NotADafError, match="without a consolidated .zmetadata"):
            open_daf(server.url)
        base = server.url.rsplit("/", 1)[0]
        for root in (base, f"{base}/"):
            with pytest.raises(errors.NotADafError, match=r"there is nothing, or a directory"):
                open_daf(root)
        with pytest.raises(errors.SourceNotFoundError, match="no such file"):
            open_daf(f"{base}/nope.daf.zarr.zip")
    with served(archive) as server, pytest.raises(errors.NotADafError, match="#/nope"):
        open_daf(f"{server.url}#/nope")


def _other_shape(data: bytes) -> bytes:
    """Return metadata of matrices with more columns than there are bytes anywhere."""
    return data.replace(b'"shape":[4,3]', b'"shape":[4,3000000000000]')


@pytest.mark.parametrize(
    ("file", "change", "kind", "message"),
    [
        (".zmetadata", lambda _: b"{", errors.FormatError, "zmetadata"),
        (".zmetadata", lambda _: b"[]", errors.FormatError, "zmetadata"),
        (".zmetadata", lambda _: b'{"metadata": 5}', errors.FormatError, "zmetadata"),
        (".zmetadata", lambda _: b'{"metadata": {}}', errors.FormatError, "zarr"),
        (".zmetadata", lambda _: b"[" * 100_000, errors.FormatError, "zmetadata"),
        (".zmetadata", _other_shape, errors.CorruptDataError, "stored shape"),
        ("daf/0", lambda _: b"\2\0", errors.VersionError, r"incompatible format version: 2\.0"),
        ("vectors/cell/score/0", lambda _: b"12", errors.CorruptDataError, "score.*truncated"),
        ("matrices/cell/gene/UMIs/0.0", None, errors.CorruptDataError, "UMIs.*is missing"),
    ],
)
def test_damage_is_told(folder: Path, file: str, change: Any, kind: Any, message: str) -> None:
    """Nothing is guessed, and nothing is allocated that is not there."""
    path = folder / file
    path.write_bytes(change(path.read_bytes())) if change else path.unlink()
    with served(folder) as server, pytest.raises(kind, match=message):
        contents(open_daf(server.url))


def test_a_damaged_archive(folder: Path) -> None:
    """What is no archive, or no longer one, says so."""
    archive = folder.with_name("x.daf.zarr.zip")
    zipfile.ZipFile(archive, "w").close()
    with served(archive) as server:
        archive.write_bytes(b"no archive" * 1000)
        with pytest.raises(errors.CorruptDataError, match="not a complete"):
            open_daf(server.url)


def test_compressed_archives_are_read(folder: Path) -> None:
    """Entries of other programs are downloaded whole and decompressed."""
    archive = zip_folder(folder, folder.with_name("x.daf.zarr.zip"), zipfile.ZIP_DEFLATED)
    with served(archive) as server:
        assert contents(open_daf(server.url)) == contents(ZarrDaf(folder))


@pytest.mark.parametrize("flags", [0x1, 0x2000])
def test_an_encrypted_entry_of_an_archive(folder: Path, flags: int) -> None:
    """It is refused, whole or in part, and never handed out as it is; the others are read."""
    archive = zip_folder(folder, folder.with_name("x.daf.zarr.zip"))
    with zipfile.ZipFile(archive) as packed:
        at = packed.getinfo("vectors/cell/score/0").header_offset
    with edited_bytes(archive) as data:
        directory = data.index(b"PK\1\2")
        for flags_at in (at + 6, data.index(b"vectors/cell/score/0", directory) - 46 + 8):
            data[flags_at : flags_at + 2] = flags.to_bytes(2, "little")
    with served(archive) as server:
        daf = open_daf(server.url)
        with pytest.raises(errors.UnsupportedDataError, match="score/0' is encrypted; decrypt"):
            daf.get_np_vector("cell", "score")
        with pytest.raises(errors.UnsupportedDataError, match="is encrypted"):
            daf.tree.node("vectors/cell/score").snapshot.map("0")  # type: ignore[union-attr] # it is there
        assert daf.get_np_vector("cell", "type").size == 3


# Servers that misbehave


def failing(status: int, times: int) -> Fault:
    """Return a fault: so many answers with this status."""
    left = itertools.repeat(status, times)
    return at_score(lambda _: Response(status_code=s) if (s := next(left, 0)) else None)


def at_score(fault: Fault) -> Fault:
    """Return a fault that concerns the requests for one file."""
    return lambda request: fault(request) if request.url.path.endswith("/score/0") else None


def ignore_ranges(request: Request) -> None:
    """Answer with the whole file."""
    headers = request.scope["headers"]
    headers[:] = [each for each in headers if each[0] != b"range"]


@at_score
def hang(_: Request) -> None:
    """Do not answer in time."""
    time.sleep(1.5)


def saying(header: str, value: str, sent: bytes = b"1" * 12) -> Fault:
    """Return a fault: a part of a file, of which a header says something."""
    said = {"Content-Length": "12", "Content-Range": "bytes 0-11/12", header: value}
    return at_score(lambda _: Response(sent, 206, said))


@at_score
def hang_up(_: Request) -> ASGIApp:
    """Close the connection without a word."""

    async def answer(_scope: Scope, _receive: Receive, send: Any) -> None:
        send.__self__.transport.abort()

    return answer


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        (failing(500, 99), errors.RemoteError, "with status 500, also when asked again"),
        (failing(403, 99), errors.RemoteError, "answered with status 403"),
        (hang, errors.RemoteError, "did not answer in time"),
        (failing(401, 99), errors.AccessDeniedError, "401: it refuses access, or has nothing of"),
        (failing(409, 99), errors.RemoteError, "answered with status 409$"),
        (saying("Content-Length", "12", b"1"), errors.RemoteError, "cannot be reached, or hung up"),
        (saying("Content-Length", "4", b"1234"), errors.RemoteError, "12 bytes .* sends 4; n"),
        (saying("Content-Range", "bytes 0-11/*"), errors.RemoteError, "used .*0-11/...; download"),
        (saying("Content-Range", "bytes 0-11/99"), errors.RemoteError, "used .Requested 0"),
        (saying("Last-Modified", "today"), errors.RemoteError, "used .Invalid last modified"),
        (hang_up, errors.RemoteError, "cannot be reached, or hung up"),
    ],
)
def test_failures_are_named(folder: Path, fault: Fault, kind: Any, message: str) -> None:
    """Each is an error that names the file; other vectors stay readable where the server lets."""
    with served(folder, fault) as server:
        daf = DafReader(open_remote_tree(server.url, impatient), name="x!")
        with pytest.raises(kind, match=message) as caught:
            daf.get_np_vector("cell", "score")
        assert "vectors/cell/score" in str(caught.value)
        assert daf.get_np_vector("cell", "type").tolist() == ["Bcell", "TCell", "TCell"]


def test_servers_that_refuse_what_is_absent(folder: Path) -> None:
    """As a bucket that nobody may list, by its web address: what is there is found all the same."""
    path = folder.with_name("v3.daf.zarr")
    convert(folder, path, zarr_format=3)

    def refuse(request: Request) -> Response | None:
        is_there = (folder.parent / request.url.path.lstrip("/")).is_file()
        return None if is_there else Response(status_code=403)

    with served(path, refuse) as server:
        assert contents(open_daf(server.url)) == contents(ZarrDaf(path))
        with pytest.raises(errors.AccessDeniedError, match="403: it refuses access, or has noth"):
            open_daf(server.url.replace("v3", "none"))


# Servers without ranges, and answers that are too long


class _Plain(http.server.SimpleHTTPRequestHandler):
    """What ``python -m http.server`` runs: it ignores ranges."""

    downloads: ClassVar[Counter[str]] = Counter()
    """How often each file was downloaded."""

    def do_GET(self) -> None:
        """Count a download."""
        self.downloads[self.path] += 1
        super().do_GET()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the parent's name
        """Say nothing."""


@contextmanager
def plainly_served(folder: Path) -> Iterator[str]:
    """Serve a folder as ``python -m http.server`` does while the block runs."""
    handler = partial(_Plain, directory=str(folder))
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        in_background(server),
    ):
        yield f"http://127.0.0.1:{server.server_port}"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf.zarr.zip", "v3.daf.zarr", "p.daf.zarr.zip"])
def test_servers_without_ranges_are_good_enough(folder: Path, name: str) -> None:
    """Whole files are downloaded instead, and remembered."""
    path = folder.with_name(name)
    if path != folder:
        convert(folder, path, zarr_format=3 if name[0] in "vp" else None, packed=name[0] == "p")
    _Plain.downloads.clear()
    with plainly_served(folder.parent) as base:
        daf = open_daf(f"{base}/{name}")
        assert contents(daf) == contents(ZarrDaf(folder))
        assert connect(daf).sql("SELECT count(*) AS n FROM cell").to_pydict() == {"n": [3]}
    if name.endswith(".zip"):
        assert _Plain.downloads[f"/{name}"] <= 2  # once to see that there are no ranges


def test_large_files_of_servers_without_ranges(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond a bound they are not downloaded; the message names the remedy, others are read."""
    lower(monkeypatch, whole_file_bytes=100)
    big = ZarrDaf(folder, "r+")
    big.set_vector("batch", "big", np.arange(20.0))
    with plainly_served(folder.parent) as base:
        daf = open_daf(f"{base}/x.daf.zarr")
        with pytest.raises(
            errors.UnsupportedDataError, match="big/0: the server ignores.*160 bytes.*daf serve"
        ):
            daf.get_np_vector("batch", "big")
        assert daf.get_np_vector("gene", "marker").tolist() == [True, False, True, False]


def announcing(length: int, sent: int = 1 << 16) -> Fault:
    """Return a fault: an answer that announces a length and sends something."""

    def fault(request: Request) -> Response | None:
        if not request.url.path.endswith(("/score/0", ".zmetadata")):
            return None
        requested = request.headers.get("Range", "bytes=0-0").removeprefix("bytes=")
        said = {"Content-Length": str(length), "Content-Range": f"bytes {requested}/{length}"}
        return Response(b"x" * sent, 206 if "Range" in request.headers else 200, said)

    return fault


@pytest.mark.parametrize("length", [2**27, 2**40, 2**62])
def test_announced_lengths_take_no_memory(folder: Path, length: int) -> None:
    """A server that announces a TiB is refused; the interpreter lives."""
    with served(folder) as server:
        daf = DafReader(open_remote_tree(server.url, impatient), name="x!")
        server.fault = announcing(length)
        with pytest.raises(errors.DafError, match="vectors/cell/score"):
            daf.get_np_vector("cell", "score")
        with pytest.raises(errors.DafError, match=r"zmetadata.*expected there|hung up"):
            open_remote_tree(server.url, impatient)


def test_files_that_are_said_to_be_endless(folder: Path) -> None:
    """What a server says of the length of a file makes nobody plan a million requests."""
    with served(folder) as server, pytest.raises(errors.CorruptDataError, match="at most"):
        impatient(server.url).read_ranges("vectors/cell/score/0", [(0, 2**40)])


def test_answers_longer_than_asked_are_not_received(folder: Path) -> None:
    """A part of 8 KiB that arrives with 64 KiB is refused, and nothing of it is used."""
    with served(folder) as server:
        files = impatient(server.url)
        server.fault = announcing(1 << 16)
        with pytest.raises(errors.RemoteError, match="8,192 bytes were asked for"):
            files.read_ranges("vectors/cell/score/0", [(0, 12)])


def test_a_short_file_is_one_request(folder: Path) -> None:
    """Its length comes with its bytes; of one that is not there, that is said at once."""
    with served(folder) as server:
        files = RemoteFiles(server.url)
        assert files.size("vectors/cell/score/0") == 12
        assert bytes(files.read_ranges("vectors/cell/score/0", [(0, 12)])[0]) == (
            (folder / "vectors/cell/score/0").read_bytes()
        )
        assert len(server.requested) == 1
        assert files.size("vectors/cell/none/0") is None
        assert len(server.requested) == 2


@pytest.mark.parametrize("suffix", [".daf", ".daf.zarr"])
def test_the_requests_for_strings_are_said(tmp_path: Path, suffix: str) -> None:
    """One, and another for what is beyond its first bytes: one was said also of long vectors."""
    path = tmp_path / f"x{suffix}"
    with open_daf(path, "w") as daf:
        for axis, length in (("gene", 500), ("cell", 5000)):
            names = [f"a name of {n:,}" for n in range(length)]
            daf.add_axis(axis, names, vectors={"s": names})
    with served(path) as server, connect(server.url) as db:
        for requests, axis in enumerate(("gene", "cell"), 1):
            said = db.explain(f"SELECT s FROM {axis}").notes["s"]
            server.requested.clear()
            db.sql(f"SELECT max(s) FROM {axis}").to_pylist()
            assert said.endswith(f"in {len(server.requested)} requests")
            assert len(server.requested) == requests


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("suffix", ["", ".zip"])
def test_a_handful_of_requests_for_many_vectors(
    tmp_path: Path, zarr_format: Literal[2, 3], suffix: str
) -> None:
    """The metadata of fifty vectors is not asked for one by one."""
    path = tmp_path / "x.daf.zarr"
    daf = data_set(create(path), cell=500)
    for i in range(50):
        daf.set_vector("cell", f"v{i}", np.arange(500.0) + i)
    target = tmp_path / f"y.daf.zarr{suffix}"
    convert(path, target, zarr_format=zarr_format)
    with served(target) as server:
        session = connect(server.url)
        assert session.reader().description().count("Float64") == 50
        found = session.sql("SELECT sum(v7) AS s FROM cell WHERE v9 > 20").to_pydict()
        assert found == {"s": [float(np.arange(12, 500).sum() + 7 * 488)]}
        assert len(server.requested) <= 12


@pytest.mark.parametrize("name", ["data", "data.zip", "atlas.v2"])
def test_urls_need_no_suffix(folder: Path, name: str) -> None:
    """What is there is found out: the metadata of a directory, or the end of an archive."""
    target = folder.with_name("x.daf.zarr.zip" if name.endswith(".zip") else "x.daf.zarr")
    if target != folder:
        convert(folder, target)
    target.rename(folder.with_name(name))
    with served(folder.with_name(name)) as server:
        assert open_daf(server.url).get_scalar("depth") == 1
        nowhere = server.url.replace(name, "nothing")
        with pytest.raises(errors.NotADafError, match="nor is there an archive"):
            open_daf(nowhere)


def test_a_passing_failure_is_asked_again(folder: Path) -> None:
    """A server that fails once is not the end of it."""
    with served(folder, failing(503, 1)) as server:
        assert open_daf(server.url).get_np_vector("cell", "score")[:2].tolist() == [1, 2]


def test_nobody_listens() -> None:
    """The message says where nobody was."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(errors.RemoteError, match=f"127.0.0.1:{port}/x.daf.zarr.*cannot be reached"):
        open_remote_tree(f"http://127.0.0.1:{port}/x.daf.zarr", impatient)


@contextmanager
def answering(pieces: list[bytes]) -> Iterator[str]:
    """Yield the URL of a server that sends pieces of one answer, now and then, and no more."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        held: list[socket.socket] = []

        def answer(connection: socket.socket) -> None:
            connection.recv(1 << 16)
            with suppress(OSError):
                for piece in pieces:
                    connection.sendall(piece)
                    time.sleep(0.25)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    held.append(listening.accept()[0])
                    threading.Thread(target=answer, args=(held[-1],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/x.daf.zarr"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            for connection in held:
                connection.close()


def test_silence_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a server that accepts and says nothing, and of one that stops within an answer."""
    assert _remote.SILENT_SECONDS == 10
    lower(monkeypatch, silent_seconds=1, retries=0)

    def lasted(pieces: list[bytes]) -> float:
        with answering(pieces) as url:
            start = time.monotonic()
            with pytest.raises(errors.RemoteError, match="x.daf.zarr"):
                RemoteFiles(url).read("n")
            return time.monotonic() - start

    servers: tuple[list[bytes], ...] = ([], [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", b"{"])
    with ThreadPoolExecutor(2) as pool:
        assert all(0.9 < seconds < 9 for seconds in pool.map(lasted, servers))


def test_a_slow_answer_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as something comes of it, however long it takes as a whole."""
    lower(monkeypatch, silent_seconds=1, retries=0)
    pieces = [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", *(b"%d" % i for i in range(9))]
    with answering(pieces) as url:
        assert RemoteFiles(url).read("n") == b"012345678"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf.zarr.zip", "x.files.daf"])
def test_what_is_closed_keeps_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Neither threads nor connections nor blocks; a slice that was handed out reads its values."""
    # What is in the first bytes needs no thread.
    lower(monkeypatch, remote_block_bytes=8, remote_first_bytes=8)
    path = tmp_path / name
    if path != folder:
        convert(folder, path)

    def threads() -> int:
        return sum(each.name.startswith("daf-remote") for each in threading.enumerate())

    before = threads()
    with served(path) as server:
        sessions = [connect(server.url) for _ in range(4)]
        for session in sessions:
            session.sql("SELECT * FROM cell").to_arrow_table()
        part = sessions[0].matrix("cell", "gene", "UMIs")
        assert threads() > before
        assert server.connections()
        for session in sessions:
            session.close()
        wait_until(lambda: (threads(), server.connections()) == (before, 0))
        requested = len(server.requested)
        assert part.to_numpy().shape == part.shape
        assert len(server.requested) > requested


@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf.zarr.zip"])
def test_versions_are_not_mixed(large: Path, tmp_path: Path, name: str) -> None:
    """What changes on the server while it is open is an error, not a mixture."""
    path = tmp_path / name
    convert(large, path)
    with served(path) as server:
        daf = open_daf(server.url)
        stored = daf.open_matrix("gene", "cell", "X")
        array = stored.entries("nzval")
        assert array.read_rows(Span(0, 10)).tolist() == [*range(10)]
        writer = open_daf(path, "r+")
        if name == "x.daf.zarr":
            other = sp.eye_array(200, N_LARGE, format="csc", dtype="f4")
            writer.set_matrix("gene", "cell", "X", other, if_exists="replace")
        else:
            writer.set_scalar("new", 1)
        with pytest.raises(errors.DafError, match="open it again|none .404."):
            array.read_rows(Span(1_000_000, 1_000_100))


@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf.zarr.zip", "x.h5df", "plain"])
def test_secrets_are_not_shown(folder: Path, name: str) -> None:
    """Neither user nor password nor query, which is sent along, is in a name or a message."""
    assert shown_url("https://me:hunter2@h/x.daf.zarr?sig=abc#f") == "https://h/x.daf.zarr"
    path = folder.with_name(name)
    if path != folder:
        convert(folder, path.with_name("x.h5df" if name == "plain" else name))
        path.with_name("x.h5df").rename(path) if name == "plain" else None
    with served(path) as server:
        url = f"{server.url.replace('//', '//me:hunter2@')}?sig=hunter2"
        daf = open_daf(url)
        assert contents(daf) == contents(ZarrDaf(folder))
        assert "hunter2" not in daf.location + daf.name + daf.description()
        assert all(path.endswith("?sig=hunter2") for _, path, _ in server.requested)
        server.fault = lambda _: Response(status_code=500)
        with pytest.raises(errors.RemoteError) as caught:
            open_remote_tree(url, impatient)
        assert "hunter2" not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(errors.RemoteError) as refused:
        open_remote_tree(f"http://me:hunter2@127.0.0.1:9/{name}?sig=hunter2", impatient)
    assert "hunter2" not in str(refused.value)


def test_many_threads(large: Path) -> None:
    """Readers share what was downloaded."""
    with served(large) as server, ThreadPoolExecutor(8) as pool:
        daf = open_daf(server.url)
        found = pool.map(lambda _: daf.get_np_vector("cell", "a").sum(), range(8))
        assert [*found] == [np.arange(20_000).sum()] * 8


@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf.zarr.zip"])
def test_downloading_and_verifying(folder: Path, tmp_path: Path, name: str) -> None:
    """A conversion from a URL is a download; a server's data set can be verified, not changed."""
    path = folder.parent / name
    if path != folder:
        convert(folder, path)
    with served(path) as server:
        convert(server.url, tmp_path / "down.h5df")
        assert contents(open_daf(tmp_path / "down.h5df")) == contents(ZarrDaf(folder))
        assert verify(server.url) == []
        with pytest.raises(errors.ReadOnlyError, match="repair it there"):
            repair(server.url)
        with pytest.raises(errors.ReadOnlyError, match="upload"):
            convert(folder, server.url)


def test_remembered_blocks_take_a_bounded_part_of_memory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest are forgotten, and downloaded again when they are wanted."""
    lower(monkeypatch, remote_block_bytes=16)
    monkeypatch.setattr(_remote, "_CACHE_BYTES", 64)
    expected = (folder / ".zmetadata").read_bytes()
    with served(folder) as server:
        files = RemoteFiles(server.url)
        for start in (*range(0, 320, 40), 0):
            (part,) = files.read_ranges(".zmetadata", [(start, start + 30)])
            assert bytes(part) == expected[start : start + 30]
            assert files._blocks.nbytes <= 64
        before = len(server.requested)
        files.read_ranges(".zmetadata", [(0, 30)])
        assert len(server.requested) == before


def test_pins_of_one_place_are_the_same(folder: Path) -> None:
    """As long as the server answers the same; those of other places are others."""
    with served(folder) as server:
        tree = open_remote_tree(server.url)
        names = ("score", "score", "type")
        one, again, other = (there(tree.node(f"vectors/cell/{name}")) for name in names)
        assert [one.place == each.place for each in (again, other)] == [True, False]


def test_files_that_change_on_the_server(folder: Path) -> None:
    """Another size, or another time, is an error wherever it is seen; what was read is kept."""
    path = folder / ".zmetadata"
    before = path.read_bytes()
    asks: list[Callable[[RemoteFiles], Any]] = [
        lambda files: files.read(".zmetadata"),
        lambda files: files.read_ranges(".zmetadata", [(0, 10)]),
    ]
    for first, second in itertools.product(asks, [asks[0]]):
        with served(folder) as server:
            path.write_bytes(before)
            files = RemoteFiles(server.url)
            first(files)
            assert files.size(".zmetadata") == len(before)
            path.write_bytes(before + b" ")
            with pytest.raises(errors.CorruptDataError, match=r"\.zmetadata was changed on the s"):
                second(files)
            assert files.size(".zmetadata") == len(before)


def test_ranges_of_nothing_and_behind_the_end(folder: Path) -> None:
    """No bytes are asked for where none are wanted; where there are none, it is an error."""
    (folder / "empty").touch()
    size = (folder / ".zmetadata").stat().st_size
    with served(folder) as server:
        files = RemoteFiles(server.url)
        assert [bytes(part) for part in files.read_ranges(".zmetadata", [(5, 5)])] == [b""]
        assert not server.requested
        assert files.size(".zmetadata") == size
        for start in (size - 1, 1 << 30):
            with pytest.raises(errors.CorruptDataError, match="ends too early"):
                files.read_ranges(".zmetadata", [(start, start + 5)])
        assert files.size("empty") == 0
        with server.at_most(0), pytest.raises(errors.CorruptDataError, match="empty ends too ear"):
            files.read_ranges("empty", [(0, 5)])
        assert files.size("absent") is None
        assert files.read("absent") is None
