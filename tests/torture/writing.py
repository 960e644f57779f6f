"""Campaigns against writers: a change of the file system that fails, a full disk, kill -9, races.

Every case does one thing to a stored data set, and asks whether each property is as before or as
after; what was reported as done must be there.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import random
import resource
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import scipy.sparse as sp

from daf_query import DafSession, connect
from daf_query.demo import find_pbmc
from daf_query.index import build_index
from daf_storage import (
    DafError,
    DafReader,
    DafWriter,
    convert,
    errors,
    export_h5ad,
    import_h5ad,
    open_daf,
    repair,
)
from tests.torture.mutation import Base, base_of
from tests.torture.samples import FORMS, Form, Property, attempt, is_equal, properties, read
from tests.torture.tally import ChildCrashError, ChildHangError, LossError, WrongAnswerError

Operation = Callable[[Path], None]
"""Does one thing to the data set at a path."""


def _writing(work: Callable[[DafWriter], Any]) -> Operation:
    def operation(path: Path) -> None:
        with open_daf(path, "r+") as daf:
            work(daf)

    return operation


def _asking(work: Callable[[DafSession], Any]) -> Operation:
    def operation(path: Path) -> None:
        with connect(path, mode="r+") as session:
            work(session)

    return operation


def _save(path: Path, name: str) -> None:
    with connect(path) as session:
        session.sql("SELECT * FROM cell").save(path.parent / name)


def _fill_in_place(daf: DafWriter) -> None:
    with daf.empty_dense_vector("cell", "filled", np.float64) as values:
        values[:] = 1.5


def _export(path: Path) -> None:
    with open_daf(path) as daf:
        export_h5ad(daf, path.parent / "out.h5ad", obs_is="cell", var_is="gene", progress="never")


def _import(path: Path) -> None:
    import_h5ad(find_pbmc(), path.parent / "pbmc.daf.zarr", progress="never")


def _repair(path: Path) -> None:
    repair(path)


CELLS = 400
_CHILD_SECONDS = 25
_COUNTS = np.arange(CELLS * 12).reshape(CELLS, 12)

ADDING: dict[str, Operation] = {
    "set_scalar": _writing(lambda daf: daf.set_scalar("new", 5)),
    "set_vector": _writing(lambda daf: daf.set_vector("cell", "new", np.arange(CELLS))),
    "set_strings": _writing(lambda daf: daf.set_vector("cell", "s", ["é" * 9] * CELLS)),
    "set_sparse": _writing(
        lambda daf: daf.set_matrix("cell", "gene", "new", sp.csc_array(_COUNTS % 3))
    ),
    "set_dense": _writing(lambda daf: daf.set_matrix("cell", "gene", "new", _COUNTS)),
    "add_axis": _writing(lambda daf: daf.add_axis("batch", ["x", "y"])),
    "save_axis": _asking(
        lambda session: session.save_axis(
            "kind",
            "SELECT type AS name, count(*) AS n, max(x) AS x FROM cell GROUP BY type ORDER BY name",
        )
    ),
    "save_matrix": _asking(
        lambda session: session.save_matrix(
            session.matrix("cell", "gene", "UMIs", rows="x > 0.5"), name="some"
        )
    ),
    "relayout": _writing(lambda daf: daf.relayout_matrix("cell", "gene", "mask")),
    "fill": _writing(_fill_in_place),
    "index": _writing(lambda daf: build_index(daf, "cell", ["id", "sorted"], progress="never")),
    "save": lambda path: _save(path, "rows.parquet"),
    "export": _export,
    "convert": lambda path: convert(path, path.parent / "copy.daf.zarr.zip", progress="never"),
    "convert-hdf5": lambda path: convert(path, path.parent / "copy.h5df", progress="never"),
    "import": _import,
}
CHANGING: dict[str, Operation] = {
    "replace_vector": _writing(
        lambda daf: daf.set_vector("cell", "int64", ["t"] * CELLS, if_exists="replace")
    ),
    "replace_matrix": _writing(
        lambda daf: daf.set_matrix("cell", "gene", "dense", _COUNTS, if_exists="replace")
    ),
    "replace_axis": _writing(
        lambda daf: daf.add_axis("none", ["x"], vectors={"something": [1]}, if_exists="replace")
    ),
    "delete_vector": _writing(lambda daf: daf.delete_vector("cell", "type")),
    "delete_matrix": _writing(lambda daf: daf.delete_matrix("cell", "gene", "UMIs")),
    "delete_axis": _writing(lambda daf: daf.delete_axis("gene")),
    "reorder": _writing(lambda daf: daf.reorder_axis("cell", np.arange(CELLS)[::-1].copy())),
    "repair": _repair,
}


def operations(form: Form) -> dict[str, Operation]:
    """Return what can be done to a form; archives cannot be changed."""
    return ADDING | ({} if form.startswith("archive") else CHANGING)


def contents(path: Path) -> dict[Property, Any]:
    """Return everything in a data set."""
    with open_daf(path) as daf:
        return {one: read(daf, one) for one in properties(daf)}


@cache
def contents_after(form: Form, name: str) -> dict[Property, Any]:
    """Return what a data set holds once an operation is done."""
    base = base_of(form, with_indexes=False)
    folder = base.path.parent.parent / f"{base.path.parent.name}-{name}"
    folder.mkdir(exist_ok=True)
    path = base.copy(folder)
    operations(form)[name](path)
    found = contents(path)
    shutil.rmtree(folder)
    return found


def check_state(
    daf: DafReader, before: dict[Property, Any], after: dict[Property, Any], what: str
) -> None:
    """Each property is as before or as after, whole, and there if both have it.

    A matrix that is replaced may be there in one orientation instead of two: its transpose is
    taken away first, and written again last.
    """
    listed = properties(daf)
    for one in listed:
        value = attempt(read, daf, one)
        if isinstance(value, DafError):
            raise LossError(f"{what}: {one.path} is listed and unreadable: {value}")
        if not any(one in side and is_equal(value, side[one]) for side in (before, after)):
            raise WrongAnswerError(f"{what}: {one.path} is neither as before nor as after")
    kept = {*listed, *(one.flipped for one in listed)}
    missing = [one.path for one in before if one in after and one not in kept]
    if missing:
        raise LossError(f"{what}: {missing} are gone")


def check_recovered(path: Path, form: Form, name: str, *, is_done: bool) -> None:
    """Check a data set after an operation that may have failed: to a reader, and to a writer."""
    base = base_of(form, with_indexes=False)
    before, after = base.values, contents_after(form, name)
    daf = attempt(open_daf, path)
    if isinstance(daf, DafReader):
        with daf:
            check_state(daf, before, after, f"{form} {name}, to a reader")
    elif not isinstance(daf, errors.DafError) or "repair" not in str(daf):
        raise LossError(f"{form} {name}: cannot be opened: {daf}")
    with open_daf(path, "r+") as writer:
        check_state(writer, before, after, f"{form} {name}, to the next writer")
        if is_done and {one for one in after if one not in properties(writer)}:
            raise LossError(f"{form} {name}: it was done, and is not there")
    for product in ("copy.daf.zarr.zip", "copy.h5df", "pbmc.daf.zarr"):
        if (path.parent / product).exists():
            contents(path.parent / product)


# A change of the file system that fails, or after which nothing happens any more


class Crash(BaseException):
    """The process ends here."""


class _FaultyFile(io.FileIO):
    """A file whose writes count as changes."""

    faults: Faults

    def write(self, data: Any) -> int:
        return int(self.faults.step("write", partial(super().write, data)) or 0)

    def truncate(self, size: int | None = None) -> int:
        return int(self.faults.step("truncate", partial(super().truncate, size)) or 0)


class Faults:
    """Lets the changes of the file system work until one of them."""

    def __init__(self, at: int, kind: str) -> None:
        self.count = 0
        self._at = at
        self._kind = kind

    def step(self, name: str, work: Callable[[], Any]) -> Any:
        """Do one change, or fail."""
        self.count += 1
        if self.count < self._at or (self.count > self._at and self._kind == "EIO"):
            return work()
        if self._kind == "crash":
            raise Crash
        number = errno.EIO if self._kind == "EIO" else errno.ENOSPC
        if name in _NEEDS_SPACE or self.count == self._at:
            raise OSError(number, os.strerror(number))
        return work()

    def open(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        """Open a file; what is written to it without Python's buffers counts."""
        if not set(mode) & set("wax+") or "b" not in mode or isinstance(file, int):
            return _OPEN(file, mode, *args, **kwargs)
        raw = _FaultyFile(file, mode.replace("b", ""))
        raw.faults = self
        return io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Count changes while the block runs."""
        with mock.patch.object(builtins, "open", self.open):
            patches = [mock.patch.object(os, name, self._counted(name)) for name in _CHANGES]
            for patch in patches:
                patch.start()
            try:
                yield
            finally:
                for patch in patches:
                    patch.stop()

    def _counted(self, name: str) -> Callable[..., Any]:
        function = getattr(os, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            return self.step(name, partial(function, *args, **kwargs))

        return counted


_OPEN = builtins.open
_CHANGES = (
    "rename", "replace", "pwrite", "pwritev", "truncate", "ftruncate", "posix_fallocate", "mkdir",
    "unlink", "remove", "rmdir", "link", "symlink", "copy_file_range", "sendfile", "fsync",
)  # fmt: skip
_NEEDS_SPACE = {"write", "pwrite", "pwritev", "posix_fallocate", "mkdir", "link", "symlink"}


def fault(form: Form, folder: Path, rng: random.Random) -> None:
    """Let the n-th change of the file system fail."""
    base = base_of(form, with_indexes=False)
    name = rng.choice(sorted(operations(form)))
    kind = rng.choice(("ENOSPC", "EIO", "crash"))
    contents_after(form, name)
    most = _steps(form, name)
    path = base.copy(folder)
    faults = Faults(rng.randint(1, max(most, 1)), kind)
    is_done = _attempt_with(faults, operations(form)[name], path)
    check_recovered(path, form, name, is_done=is_done)


@cache
def _steps(form: Form, name: str) -> int:
    """Return how many changes of the file system an operation makes."""
    base = base_of(form, with_indexes=False)
    folder = base.path.parent.parent / f"{base.path.parent.name}-{name}-steps"
    folder.mkdir(exist_ok=True)
    faults = Faults(1 << 40, "crash")
    with faults.patched():
        operations(form)[name](base.copy(folder))
    shutil.rmtree(folder)
    return faults.count


def _attempt_with(faults: Faults, operation: Operation, path: Path) -> bool:
    """Try an operation; return whether it says that it is done."""
    with faults.patched():
        try:
            operation(path)
        except (DafError, Crash):
            return False
    return True


# A disk that is full, for C libraries too: files may not grow beyond a limit


def full_disk(form: Form, folder: Path, rng: random.Random) -> None:
    """Let no file grow beyond a random size."""
    base = base_of(form, with_indexes=False)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    name = rng.choice(sorted(operations(form)))
    contents_after(form, name)
    path = base.copy(folder)
    size = path.stat().st_size if path.is_file() else 0
    limit = size + int(10 ** rng.uniform(0, 5.5))
    is_done = in_child(partial(_limited, operations(form)[name], path, limit))
    check_recovered(path, form, name, is_done=is_done)


def _limited(operation: Operation, path: Path, limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    operation(path)


def in_child(work: Callable[[], None]) -> bool:
    """Run something in a child process; return whether it was done rather than refused.

    A fork is enough: the parent has started no threads of an engine.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 3
        signal.alarm(_CHILD_SECONDS)
        try:
            work()
            status = 0
        except DafError:
            status = 2
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}"[:500].encode())
        finally:
            os._exit(status)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    message = os.read(reading, 500).decode(errors="replace")
    os.close(reading)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
        raise ChildHangError(f"it took more than {_CHILD_SECONDS} s")
    if os.WIFSIGNALED(status):
        raise ChildCrashError(signal.Signals(os.WTERMSIG(status)).name)
    if os.WEXITSTATUS(status) == 3:
        raise ForeignError(message)
    return os.WEXITSTATUS(status) == 0


class ForeignError(RuntimeError):
    """A forked child raised what is no `DafError`."""


# Kill -9


def kill(form: Form, folder: Path, rng: random.Random) -> None:
    """Kill a writer at a random moment.

    HDF5 changes its file in place, so that one may be refused as damaged afterwards; see trust.md.
    """
    refusals = (errors.StorageError, errors.FormatError) if form.startswith("hdf5") else ()
    base = base_of(form, with_indexes=False)
    path = base.copy(folder)
    committed = _killed_writer(path, form, rng.uniform(0.0, 0.12))
    with suppress(*refusals):
        _check_killed(path, base, committed)


def _killed_writer(path: Path, form: Form, delay: float) -> int:
    """Let a child write versions until it is killed; return the last one that it reported."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)  # so that it ends with its parent: a pipe that nobody reads is an error
        with suppress(BaseException):
            _write_versions(path, form, writing)
        os._exit(0)
    os.close(writing)
    os.read(reading, 4)  # it has begun
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    reported = b""
    while data := os.read(reading, 1 << 16):
        reported += data
    os.close(reading)
    whole = reported[: len(reported) - len(reported) % 4]
    return int(np.frombuffer(whole, "<u4")[-1]) if whole else 0


def _write_versions(path: Path, form: Form, report: int) -> None:
    is_archive = form.startswith("archive")
    how: Any = {"if_exists": "error" if is_archive else "replace"}
    with open_daf(path, "r+") as daf:
        os.write(report, bytes(4))
        for version in range(1, 100_000):
            suffix = str(version) if is_archive else ""
            values = np.full((CELLS, 12), version)
            daf.set_vector("cell", f"v{suffix}", values[:, 0], **how)
            matrix = sp.csc_array(values) if version % 2 else values
            daf.set_matrix("cell", "gene", f"m{suffix}", matrix, **how)
            daf.set_vector("cell", f"t{suffix}", [str(version)] * CELLS, **how)
            os.write(report, version.to_bytes(4, "little"))


def _check_killed(path: Path, base: Base, committed: int) -> None:
    with open_daf(path, "r+") as daf:
        found = {one: read(daf, one) for one in properties(daf)}
        for one, value in base.values.items():
            if not is_equal(found.get(one), value):
                raise LossError(f"{one.path} after kill -9")
        latest = dict.fromkeys("vmt", 0)
        for one, value in found.items():
            if one in base.values:
                continue
            versions = {int(v) for v in np.unique(np.asarray(value).ravel())}
            if len(versions) != 1:
                raise WrongAnswerError(f"{one.path} is torn after kill -9: {versions}")
            letter = one.names[-1][0]
            latest[letter] = max(latest[letter], *versions)
        if min(latest.values()) < committed:
            raise LossError(f"version {committed} was committed, and {latest} are there")


# Readers against a writer


def race(form: Form, folder: Path, rng: random.Random) -> None:
    """Let two threads read what another one replaces."""
    _race(base_of(form, with_indexes=False).copy(folder), rng.uniform(0.05, 0.3))


def _race(path: Path, seconds: float) -> None:
    problems: list[BaseException] = []
    stop = threading.Event()
    with open_daf(path, "r+") as writer:
        _write_pair(writer, 0)
        with open_daf(path) as other:
            readers = [writer, writer] if path.suffix == ".h5df" else [writer, other]
            threads = [
                threading.Thread(target=_read_pairs, args=(reader, stop, problems))
                for reader in readers
            ]
            for thread in threads:
                thread.start()
            end = time.monotonic() + seconds
            for version in range(1, 10_000):
                if time.monotonic() > end or problems:
                    break
                _write_pair(writer, version)
            stop.set()
            for thread in threads:
                thread.join()
    if problems:
        raise problems[0]


def _write_pair(writer: DafWriter, version: int) -> None:
    kind = (np.int32, np.float64, np.uint16)[version % 3]
    values = np.full((CELLS, 12), version, kind)
    writer.set_vector("cell", "v", values[:, 0].copy(), if_exists="replace")
    writer.set_vector("cell", "t", [str(version)] * CELLS, if_exists="replace")
    matrix = sp.csc_array(values) if version % 2 else values
    writer.set_matrix("cell", "gene", "m", matrix, if_exists="replace", relayout=False)


def _read_pairs(reader: DafReader, stop: threading.Event, problems: list[BaseException]) -> None:
    try:
        while not stop.is_set():
            for one in (
                Property("vector", ("cell", "v")),
                Property("vector", ("cell", "t")),
                Property("matrix", ("cell", "gene", "m")),
            ):
                values = np.unique(np.asarray(read(reader, one)).ravel().astype(str))
                if len(values) != 1:
                    raise WrongAnswerError(f"{one.path} is torn: {values[:3]}")
    except DafError as error:
        problems.append(LossError(f"{type(error).__name__} while it was replaced: {error}"))
    except BaseException as error:
        problems.append(error)


WRITABLE: tuple[Form, ...] = tuple(form for form in FORMS if not form.startswith("archive"))
