"""Tests of forked processes: what would wait for ever is refused, the rest works."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from daf_query import _runs
from daf_query._runs import call_engine
from daf_storage import DafWriter, open_daf, verify
from daf_storage.base import ForkLock
from tests.support import data_set, served

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

_CELLS = {"name": list("ABC"), "age": [1, 2, 3]}
_FORK = """
import os, re, signal, sys, warnings
import daf_query, daf_storage
warnings.simplefilter("ignore", DeprecationWarning)
path, before = sys.argv[1:3]
daf = daf_storage.open_daf(path)
db = None if before == "nothing" else daf_query.connect(daf)
table = daf_query.AxisDataset(daf, "cell")
if db is not None:
    part = db.matrix("cell", "gene", "UMIs", rows=[1], columns=["FOXA1"])
    dataset = db.table("cell")
if before in ("plan", "run"):
    result = db.sql("SELECT name FROM cell WHERE age > 1")
if before == "run":
    result.to_pydict()

SAYS = f"process {{}} was forked from process {os.getpid()} after .* there, .*'spawn'"

def tell(what, work):
    try:
        print(what, work(), flush=True)
    except daf_storage.DafError as error:
        print(what, type(error).__name__, bool(re.search(SAYS, str(error))), flush=True)

if os.fork() == 0:
    SAYS = SAYS.format(os.getpid())
    signal.alarm(20)  # a child that waits for ever is killed, and prints less
    tell("vector", lambda: daf.get_np_vector("cell", "age").tolist())
    tell("table", lambda: table.to_table(columns=["age"]).num_rows)
    import pyarrow.compute as pc
    tell("arrow", lambda: table.to_table(filter=pc.field("age") + 1 > 31).num_rows)
    child = db
    if child is None:
        child = daf_query.connect(daf)
    tell("slice", lambda: child.matrix("cell", "gene", "UMIs", rows=[1]).to_numpy().tolist())
    tell("sql", lambda: child.sql("SELECT count(age) AS n FROM cell WHERE age > 1").to_pydict())
    tell("rows", lambda: child.matrix("cell", "gene", "UMIs", rows="age > 30").shape)
    tell("context", lambda: child.context is not None)
    tell("again", lambda: daf_query.connect(path).sql("SELECT count(age) AS n FROM cell").to_pydict())
    if db is not None:
        tell("part", lambda: part.to_numpy().tolist())
        tell("dataset", lambda: dataset.count_rows())
    if before in ("plan", "run"):
        for name in ("to_pydict", "to_arrow_table", "count", "collect", "show", "__len__"):
            tell(name, getattr(result, name))
        tell("batches", lambda: list(result.batches()))
        tell("stream", lambda: result.__arrow_c_stream__())
        tell("filter", lambda: result.filter("age > 3"))
    os._exit(0)
_, status = os.wait()
print("status", status)
"""

_WORKS = {"vector": "[30, 60, 90]", "table": "3", "arrow": "2"}
_REFUSED = "ForkedProcessError True"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("before", ["nothing", "connect", "plan", "run"])
def test_a_child_answers_or_refuses(tiny_path: Path, before: str) -> None:
    """Vectors, tables and slices are read; SQL says what to do; nothing hangs."""
    command = [sys.executable, "-c", _FORK, str(tiny_path), before]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    printed = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert printed.pop("status") == "0", done.stdout + done.stderr
    assert {name: printed[name] for name in _WORKS} == _WORKS
    assert printed["slice"].startswith("[[")
    by_sql = ("sql", "rows", "context", "again")
    if before == "nothing":
        assert [printed[name] for name in by_sql] == ["{'n': [3]}", "(2, 4)", "True", "{'n': [3]}"]
        return
    assert {printed[name] for name in by_sql} == {_REFUSED}
    assert printed["part"].startswith("[[")
    assert printed["dataset"] == "3"
    if before != "connect":
        names = ("to_pydict", "to_arrow_table", "count", "collect", "show", "__len__", "batches", "stream", "filter")  # fmt: skip
        assert {printed[name] for name in names} == {_REFUSED}


_REMOTE = """
import os, signal, sys, warnings
import daf_query, daf_storage
warnings.simplefilter("ignore", DeprecationWarning)
daf = daf_storage.open_daf(sys.argv[1])
daf.get_np_vector("cell", "age")
far, near = daf_query.zarr_table(sys.argv[2]), daf_query.zarr_table(sys.argv[3])
far.to_table(), near.to_table()
near = daf_query.zarr_table(sys.argv[3])
if os.fork() == 0:
    signal.alarm(20)
    print(near.to_table().num_rows, flush=True)
    for work in (
        lambda: daf_query.zarr_table(sys.argv[2]),
        lambda: daf.get_np_vector("cell", "type"), lambda: daf_storage.open_daf(sys.argv[1])):
        try:
            print(work(), flush=True)
        except daf_storage.DafError as error:
            print(type(error).__name__, flush=True)
    os._exit(0)
print(os.wait()[1])
"""


def test_a_child_of_a_reader_of_a_server(tiny_path: Path, tmp_path: Path) -> None:
    """The client of servers has threads too, so what is not cached is refused; files are read."""
    path = tmp_path / "z"
    group = zarr.open_group(path, mode="w", zarr_format=2).create_group("meta")
    group.create_array("n", data=np.arange(10), chunks=(4,))
    zarr.consolidate_metadata(path)
    pytest.importorskip("obstore")
    with served(tiny_path) as server, served(path) as other:
        command = [sys.executable, "-c", _REMOTE, server.url, other.url, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["10", *["ForkedProcessError"] * 3, "0"]


@pytest.mark.parametrize("name", ["x.daf.zarr.zip", "x.h5df"])
def test_a_child_downloads_nothing_more(tmp_path: Path, name: str) -> None:
    """The threads that download did not come along: it would wait for them for ever."""
    pytest.importorskip("obstore")
    values, path = np.arange(300_000.0), tmp_path / name
    data_set(open_daf(path, "w"), cell={"name": values.size, "age": values, "far": -values}).close()
    with served(path) as server, open_daf(server.url) as daf:
        first = daf.get_np_vector("cell", "age")
        answer = _in_child(lambda: daf.get_np_vector("cell", "far"))
    assert first[-1] == values[-1]
    assert answer.startswith("ForkedProcessError")


def _in_child(work: Callable[[], object], meanwhile: Callable[[], object] = bool) -> str:
    """Return what some work gives, or raises, in a process forked before this one does another."""
    here, there = multiprocessing.Pipe()

    def answer() -> None:
        there.recv()
        try:
            there.send(str(work()))
        except BaseException as error:  # noqa: BLE001 - this process ends here
            there.send(f"{type(error).__name__}: {error}")

    child = multiprocessing.get_context("fork").Process(target=answer)
    child.start()
    meanwhile()
    here.send("begin")
    said = here.recv() if here.poll(60) else "waits for ever"
    child.kill()
    child.join()
    return str(said)


def test_a_child_does_not_wait_for_threads_of_its_parent() -> None:
    """One that computes for the main thread is idle there; the child starts one again."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert call_engine(threading.get_ident) != threading.get_ident()
        assert _in_child(lambda: list(_runs._IDLE)) == "[]"
    finally:
        signal.signal(signal.SIGINT, handler)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf", "x.daf.zarr.zip", "x.h5df"])
def test_a_child_keeps_no_writer_waiting(tmp_path: Path, name: str) -> None:
    """It was forked while a writer had the lock, and does not hold it when that one is done."""
    path = tmp_path / name
    code = "import sys, daf_storage; daf_storage.open_daf(sys.argv[1], 'r+').set_scalar('n', 1)"
    with open_daf(path, "w") as daf, ExitStack() as stack:
        stack.enter_context(daf.writable_tree.transaction())
        stack.enter_context(daf.writable_tree.lock())

        def write_elsewhere() -> None:
            stack.close()
            daf.close()
            subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=30)

        assert _in_child(bool, write_elsewhere) == "False"
    assert open_daf(path).get_scalar("n") == 1


def _write_batch(daf: DafWriter) -> None:
    """Write several at once."""
    with daf.batch():
        daf.set_scalar("n", 1)
        daf.set_vector("cell", "new", [9, 9, 9])


_APPENDS: list[Callable[[DafWriter], object]] = [
    lambda daf: daf.set_vector("cell", "new", [9, 9, 9]),
    lambda daf: daf.add_axis("gene", ["G"]),
    _write_batch,
]
_CHANGES: list[Callable[[DafWriter], object]] = [
    lambda daf: daf.set_vector("cell", "age", [9, 9, 9], if_exists="replace"),
    lambda daf: daf.reorder_axis("cell", [2, 1, 0]),
    lambda daf: daf.delete_vector("cell", "age"),
]
_FILES = ["x.daf.zarr.zip", "x.daf.zip", "x.h5df"]


def _check_stored(path: Path, **vectors: Any) -> None:
    """Check that a closed file is whole, and has these vectors of cells."""
    with open_daf(path) as daf:
        stored = {name: daf.get_np_vector("cell", name) for name in daf.vectors_set("cell")}
    assert stored.keys() == vectors.keys()
    assert all(np.array_equal(stored[name], values) for name, values in vectors.items())
    assert verify(path) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", _FILES)
def test_a_child_does_not_write_into_the_file_of_its_parent(tmp_path: Path, name: str) -> None:
    """Both would say that it was stored; it reads, and neither closing nor ending writes anything."""
    path = tmp_path / name
    refused = (
        f"ForkedProcessError: {path}: it was opened for writing by process {os.getpid()}, of which "
        "this one was forked: write there, or open it for reading here; once closed in both, it can be opened for "
        "writing again"
    )
    with data_set(open_daf(path, "w"), cell=_CELLS) as daf:
        before = path.read_bytes()
        for write in [*_APPENDS, *(_CHANGES if name == "x.h5df" else [])]:
            assert _in_child(partial(write, daf)) == refused
        assert _in_child(lambda: daf.get_np_vector("cell", "age")) == "[1 2 3]"
        assert _in_child(lambda: open_daf(path).axis_length("cell")) == "3"
        assert _in_child(daf.close) == "None"
        assert path.read_bytes() == before
        daf.set_vector("cell", "later", [4, 5, 6])
    _check_stored(path, age=[1, 2, 3], later=[4, 5, 6])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", _FILES)
def test_a_child_does_not_end_a_change_of_its_parent(tmp_path: Path, name: str) -> None:
    """Forked while an array is filled, or within a batch: it may fill, and ending writes nothing."""
    path, size = tmp_path / name, 150_000
    left = (None, None, None), (KeyError, KeyError(), None)
    with data_set(open_daf(path, "w"), cell=size) as daf:
        filling = daf.empty_dense_vector("cell", "filled", "float64")
        values = filling.__enter__()
        assert _in_child(partial(values.fill, 7)) == "None"
        before = path.read_bytes()
        answers = [_in_child(partial(filling.__exit__, *how)) for how in left]
        assert answers[0].startswith("StorageError" if name == "x.h5df" else "ForkedProcessError")
        assert "forked" in answers[0]
        assert answers[1] == "False"
        assert path.read_bytes() == before
        filling.__exit__(None, None, None)
        batch = daf.batch()
        batch.__enter__()
        daf.set_vector("cell", "age", np.arange(size))
        answers = [_in_child(partial(batch.__exit__, *how)) for how in left]
        assert answers[0].startswith("False" if name == "x.h5df" else "ForkedProcessError")
        batch.__exit__(None, None, None)
    _check_stored(path, filled=np.full(size, 7), age=np.arange(size))


@pytest.mark.sampled(1)
def test_a_child_reads_nothing_of_an_hdf5_file_that_changed(tmp_path: Path) -> None:
    """HDF5 has noted there where the values were: they are those of other vectors by now."""
    path = tmp_path / "x.h5df"
    with data_set(open_daf(path, "w"), cell=_CELLS) as daf:
        write = partial(daf.set_vector, "cell", "age", [4, 5, 6], if_exists="replace")
        assert _in_child(lambda: daf.get_np_vector("cell", "age"), write) == (
            f"ForkedProcessError: {path}: process {os.getpid()}, of which this one was forked, has "
            "written into it since: read there, or open it here when it is closed there"
        )
        daf.set_vector("cell", "later", [7, 8, 9])
    _check_stored(path, age=[4, 5, 6], later=[7, 8, 9])


def test_a_lock_that_a_thread_held_is_free_in_the_child() -> None:
    """A plain lock would never be released there; in one process it keeps others out."""
    lock, held, done = ForkLock(), threading.Event(), threading.Event()
    taken: list[str] = []

    def hold() -> None:
        with lock, lock:
            held.set()
            done.wait()
            taken.append("first")

    def wait() -> None:
        with lock:
            taken.append("second")

    threads = [threading.Thread(target=hold), threading.Thread(target=wait)]
    threads[0].start()
    held.wait()
    threads[1].start()
    said = _in_child(lock.__enter__)
    done.set()
    for thread in threads:
        thread.join()
    assert said == "True"
    assert taken == ["first", "second"]
