"""Helpers shared by the tests: real data, recorded reads, and data sets to compare with."""

from __future__ import annotations

import json
import linecache
import operator
import os
import pkgutil
import subprocess
import sys
import threading
import time
import weakref
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socketserver import BaseServer
from types import FrameType
from typing import Any, Self

import pytest

from daf_query.demo import find_pbmc
from daf_query.matrix import SlicePlan
from daf_storage import DafServer, DafWriter, MemoryDaf, ZarrDaf, open_daf
from daf_storage.stores import _directory
from tests.suites.examples import (
    CELLS,
    GENES,
    UMIS,
    contents,
    csc_parts,
    dense,
    fill,
    fill_served,
    filled,
    there,
)

__all__ = [
    "CELLS",
    "GENES",
    "UMIS",
    "contents",
    "csc_parts",
    "dense",
    "fill",
    "fill_served",
    "filled",
    "new_daf",
    "there",
]

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""Comparisons as Python has them, of Arrow's expressions too."""
PBMC = find_pbmc()
"""Real data: 700 blood cells, an h5ad file that scanpy ships."""


def every(step: int) -> int:
    """Return 1 where all points are wanted (`make test-every`), else the step between those tried."""
    return 1 if "DAF_TEST_EVERY" in os.environ else step


def create(path: Path) -> DafWriter:
    """Return a new empty data set at ``path``."""
    return ZarrDaf(path, "w")


def reopen(path: Path) -> DafWriter:
    """Open an existing data set for writing."""
    return ZarrDaf(path, "r+")


def data_set(
    daf: DafWriter | None = None,
    *,
    name: str | None = None,
    matrices: Mapping[tuple[str, str, str], Any] | None = None,
    **axes: Any,
) -> DafWriter:
    """Return a data set, in memory if no other is given, with axes, their vectors and matrices.

    Parameters
    ----------
    matrices
        By rows, columns and name.
    axes
        The entries of each, or how many: c0, c1 and so on of ``cell``; or a mapping of its vectors
        that has these as ``name``, as in queries.
    """
    daf = MemoryDaf(name=name) if daf is None else daf
    for axis, given in axes.items():
        vectors = dict(given) if isinstance(given, Mapping) else {"name": given}
        names = vectors.pop("name")
        numbered = isinstance(names, int)
        daf.add_axis(axis, [f"{axis[0]}{i}" for i in range(names)] if numbered else names)
        for vector, values in vectors.items():
            daf.set_vector(axis, vector, values)
    for (rows, columns, matrix), values in (matrices or {}).items():
        daf.set_matrix(rows, columns, matrix, values)
    return daf


def new_daf(folder: Path, name: str, **options: Any) -> DafWriter:
    """Return a new empty data set in the form that its name says: in a folder, in memory if none."""
    return open_daf(folder / name, "w", **options) if name else MemoryDaf()


@contextmanager
def in_background(server: BaseServer) -> Iterator[None]:
    """Let a server answer in a thread while the block runs."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


@contextmanager
def served(path: Path) -> Iterator[DafServer]:
    """Serve a path on loopback while the block runs."""
    with DafServer(path) as server:
        yield server


@contextmanager
def running(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run a program from where it has printed ``ready`` to the end of the block, if it runs on."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert there(process.stdout).readline() == "ready\n"
        yield process
        process.kill()


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def in_threads(call: Callable[..., Any], arguments: Iterable[Any]) -> None:
    """Call a function with each argument, in threads that run at the same time."""
    threads = [threading.Thread(target=call, args=(each,)) for each in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


_PEAKS = (
    "import sys, threading, time, re, json, pkgutil\n"
    "from daf_storage import Packing, settings\n"
    "import anndata, h5py, pandas\n"
    "copy = pkgutil.resolve_name(sys.argv[2])\n"
    "def anonymous():\n"
    "    return int(re.search(r'RssAnon:\\s+(\\d+)', open('/proc/self/status').read()).group(1))\n"
    "start, peak, stop = anonymous(), [0], threading.Event()\n"
    "def watch():\n"
    "    while not stop.is_set():\n"
    "        peak[0] = max(peak[0], anonymous()); time.sleep(0.01)\n"
    "watcher = threading.Thread(target=watch); watcher.start()\n"
    "options = json.loads(sys.argv[1])\n"
    "if options.pop('packs', False): options['packed'] = Packing(level=1)\n"
    "settings.DAF_COPY_MAX_BYTES = options.pop('copy_bytes', 1 << 30)\n"
    "for target in sys.argv[4:]:\n"
    "    copy(sys.argv[3], target, **options)\n"
    "    print((peak[0] - start) // 1024)\n"
    "stop.set(); watcher.join()\n"
)
"""Calls a function of two paths, and prints after each how much memory there was in use, in MiB."""


def peaks(copy: Callable[..., Any], source: Path, targets: list[Path], **options: Any) -> list[int]:
    """Return how much memory a copy or an import takes at most, up to each of several targets, in MiB."""
    place = f"{copy.__module__}:{copy.__qualname__}"
    arguments = [json.dumps(options), place, str(source), *map(str, targets)]
    command = [sys.executable, "-c", _PEAKS, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = [int(line) for line in done.stdout.split()]
    assert len(found) == len(targets)
    return found


_TRACED = ("contextlib.py", "/threading.py")


class Interruption:
    """Raises KeyboardInterrupt at a line of this software that the main thread comes to.

    Also at one of what starts threads.  Not at one of ``__del__`` or of a finalizer, out of which
    Python lets no exception, nor at a ``with``: there it comes by once more before it leaves, where
    it notices no signal.

    Parameters
    ----------
    line
        Which one, counted from 1; none if there are fewer.
    """

    def __init__(self, line: int) -> None:
        self._line = line
        self.lines = 0
        """How many lines there were."""
        self.where = "nowhere"
        """Where it was raised."""

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        code = frame.f_code
        is_ours = "/daf_query/" in code.co_filename or "/daf_storage/" in code.co_filename
        is_freeing = code.co_name == "__del__" or (
            frame.f_back is not None and frame.f_back.f_code.co_filename == weakref.__file__
        )
        if is_freeing or not (is_ours or code.co_filename.endswith(_TRACED)):
            return None
        is_with = linecache.getline(code.co_filename, frame.f_lineno).lstrip().startswith("with ")
        if event == "line" and not is_with:
            self.lines += 1
            if self.lines == self._line:
                self.where = f"{Path(code.co_filename).name}:{frame.f_lineno}"
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._trace


def recorded_calls(
    monkeypatch: pytest.MonkeyPatch, place: str | tuple[Any, str], what: Callable[..., Any]
) -> list[Any]:
    """Note something of each call of a function, before the call is made; return the list of it.

    Parameters
    ----------
    place
        Of the function: one of `tests.seams`, or an object and a name.
    what
        Is given the arguments, and returns what is noted.
    """
    found: list[Any] = []
    if isinstance(place, str):
        owner, _, name = place.rpartition(".")
        place = (pkgutil.resolve_name(owner), name)
    real = getattr(*place)

    def call(*arguments: Any, **options: Any) -> Any:
        found.append(what(*arguments, **options))
        return real(*arguments, **options)

    monkeypatch.setattr(*place, call)
    return found


class RecordedReads:
    """The keys whose bytes were read or mapped, in order."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.n_bytes = 0

    def chunks(self) -> list[str]:
        """Return the keys that are no metadata."""
        return [key for key in self.keys if not key.rsplit("/", 1)[-1].startswith(".z")]

    def clear(self) -> None:
        """Forget what was read so far."""
        self.keys.clear()


@contextmanager
def recorded_reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordedReads]:
    """Record what any `DirectoryStore` reads while the block runs."""
    reads = RecordedReads()
    snapshot_of = _directory.DirectoryStore.snapshot

    def snapshot(self: _directory.DirectoryStore, prefix: str) -> Any:
        found = snapshot_of(self, prefix)
        return None if found is None else _RecordingPin(found, prefix, reads)

    with monkeypatch.context() as patch:
        patch.setattr(_directory.DirectoryStore, "snapshot", snapshot)
        yield reads


class _RecordingPin:
    """A pin around a pin that writes down what is read."""

    def __init__(
        self, snapshot: _directory.DirectorySnapshot, prefix: str, reads: RecordedReads
    ) -> None:
        self._snapshot = snapshot
        self._prefix = prefix
        self._reads = reads

    def __getattr__(self, name: str) -> Any:
        """Return what the pin has: what is not below reads nothing."""
        return getattr(self._snapshot, name)

    def map_within(self, key: str, *_: Any, **__: Any) -> memoryview | None:
        return self.map(key)

    def read_ranges(self, key: str, ranges: list[tuple[int, int]]) -> list[memoryview]:
        self._reads.keys.append(f"{self._prefix}/{key}".lstrip("/"))
        views = self._snapshot.read_ranges(key, ranges)
        self._reads.n_bytes += sum(view.nbytes for view in views)
        return views

    def read(self, key: str) -> bytes | None:
        self._reads.keys.append(f"{self._prefix}/{key}".lstrip("/"))
        return self._snapshot.read(key)

    def map(self, key: str) -> memoryview | None:
        self._reads.keys.append(f"{self._prefix}/{key}".lstrip("/"))
        return self._snapshot.map(key)


@dataclass(frozen=True, slots=True)
class TakenElements:
    """How many elements were taken from a stored array of a sparse matrix at a time."""

    count: int
    item_bytes: int


def taken_elements(monkeypatch: pytest.MonkeyPatch) -> list[TakenElements]:
    """Record what slices take of sparse matrices; the list is filled while they are read."""
    taken: list[TakenElements] = []

    def recorded(name: str) -> Callable[..., Any]:
        method = getattr(SlicePlan, name)

        def call(plan: SlicePlan, ranges: Any) -> Any:
            for part in plan.stored.element_arrays()[name == "values" :][:1]:
                item_bytes = part.info.storage_type.dtype.itemsize
                taken.append(TakenElements(ranges.size, item_bytes))
            return method(plan, ranges)

        return call

    for name in ("row_numbers", "values"):
        monkeypatch.setattr(SlicePlan, name, recorded(name))
    return taken


def open_descriptors() -> int:
    """Return how many files this process has open."""
    return len(os.listdir("/proc/self/fd"))


def mapped_ranges(path: Path) -> list[tuple[int, int]]:
    """Return the address ranges at which this process maps a file, or one in a directory."""
    ranges = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        if Path(f"/{line.partition(' /')[2]}").is_relative_to(path):
            start, stop = line.split(" ", 1)[0].split("-")
            ranges.append((int(start, 16), int(stop, 16)))
    return ranges


def still_open(folder: Path) -> list[Any]:
    """Return the files and mappings of files of a directory that this process has, where it can."""
    if sys.platform != "linux":
        return []
    links = (os.path.realpath(each.path) for each in os.scandir("/proc/self/fd"))
    return [*(link for link in links if link.startswith(str(folder))), *mapped_ranges(folder)]


def is_mapped(address: int, path: Path) -> bool:
    """Return whether an address lies in a mapping of the file."""
    return any(start <= address < stop for start, stop in mapped_ranges(path))


def zip_folder(folder: Path, archive: Path, method: int = zipfile.ZIP_STORED) -> Path:
    """Put what is in a folder into an archive, as other programs do; return the archive's path."""
    with zipfile.ZipFile(archive, "w", method) as packed:
        for file in sorted(folder.rglob("*")):
            packed.write(file, file.relative_to(folder))
    return archive


@contextmanager
def edited_bytes(file: Path) -> Iterator[bytearray]:
    """Yield what is in a file, and write it back as the block has changed it."""
    data = bytearray(file.read_bytes())
    yield data
    file.write_bytes(data)


@contextmanager
def edited_json(file: Path) -> Iterator[Any]:
    """Yield the document in a file, and write it back as the block has changed it."""
    document = json.loads(file.read_bytes())
    yield document
    file.write_text(json.dumps(document))


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Return a certificate of this machine in a folder, and its key."""
    paths = folder / "server.pem", folder / "server.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=IP:127.0.0.1,DNS:localhost", "-out", paths[0], "-keyout", paths[1]],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return paths


def by_key(parts: Mapping[Any, Any]) -> dict[str, Any]:
    """Return what an AnnData has by keys; from anndata 0.13 on, X is a layer without one."""
    return {key: parts[key] for key in sorted(key for key in parts if key is not None)}
