"""Tests that a crash at any point leaves what was there before, and that readers see no half.

A crash is simulated at each change that a writer makes to the file system: the change does not
happen, nor does anything after it, and the locks are released as the end of a process releases
them.  A real process is killed as well.
"""

from __future__ import annotations

import builtins
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from daf_storage import DafWriter, IfExists, ZarrDaf, open_daf, verify
from tests import seams
from tests.limits import without_exchange
from tests.support import CELLS, GENES, UMIS, contents, create, dense, every, fill, filled, reopen


class Crash(BaseException):
    """The process has ended here."""


class FaultInjector:
    """Counts changes to the file system and ends the process at the one that is asked for."""

    def __init__(self, patch: pytest.MonkeyPatch, *, at: int) -> None:
        self.count = 0
        self._at = at
        for owner, name in (
            (os, "rename"),
            (os, "replace"),
            (os, "posix_fallocate"),
            (shutil, "rmtree"),
            (Path, "mkdir"),
            (Path, "rmdir"),
            (Path, "write_text"),
            (Path, "write_bytes"),
        ):
            patch.setattr(owner, name, self._counted(getattr(owner, name)))
        patch.setattr(seams.EXCHANGE, self._counted(seams.real(seams.EXCHANGE)))
        patch.setattr(seams.WRITTEN_OPEN, self._counted(builtins.open), raising=False)

    def _counted(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            if self.count == self._at:
                raise Crash
            return None if self.count > self._at else change(*args, **kwargs)

        return counted


def batch(daf: DafWriter) -> None:
    """Make changes of each kind as one."""
    with daf.batch():
        daf.set_vector("cell", "new", [1, 2, 3])
        daf.set_vector("cell", "age", ["a", "b", "c"], if_exists="replace")
        daf.set_matrix("cell", "gene", "new", sp.csc_array(UMIS))
        daf.delete_matrix("cell", "gene", "sparse")
        daf.set_scalar("new", 5)


CHANGES: dict[str, Callable[[DafWriter], Any]] = {
    "new scalar": lambda daf: daf.set_scalar("new", 5),
    "new vector": lambda daf: daf.set_vector("cell", "new", [1, 2, 3]),
    "overwrite a vector": lambda daf: daf.set_vector(
        "cell", "age", ["a", "b", "c"], if_exists="replace"
    ),
    "overwrite sparse by dense": lambda daf: daf.set_vector(
        "gene", "flag", [1, 2, 3, 4], if_exists="replace"
    ),
    "delete a vector": lambda daf: daf.delete_vector("cell", "age"),
    "new matrix": lambda daf: daf.set_matrix("cell", "gene", "new", UMIS),
    "overwrite a matrix": lambda daf: daf.set_matrix(
        "cell", "gene", "UMIs", UMIS * 2, if_exists="replace"
    ),
    "overwrite dense by sparse": lambda daf: daf.set_matrix(
        "cell", "gene", "UMIs", sp.csc_array(UMIS * 2), if_exists="replace"
    ),
    "delete a matrix": lambda daf: daf.delete_matrix("cell", "gene", "sparse"),
    "new axis": lambda daf: daf.add_axis("batch", ["x", "y"]),
    "overwrite an axis": lambda daf: daf.add_axis("gene", ["Foo"], if_exists="replace"),
    "delete an axis": lambda daf: daf.delete_axis("gene"),
    "batch": batch,
}


def test_a_batch_writes_the_list_of_all_properties_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its end, also after an error; everything is prepared in one directory."""
    path = tmp_path / "x.daf.zarr"
    daf = filled(path)
    before = (path / ".zmetadata").read_bytes()
    made, mkdir = set[str](), Path.mkdir

    def noted(folder: Path, *args: Any, **how: Any) -> None:
        made.add(folder.name)
        mkdir(folder, *args, **how)

    monkeypatch.setattr(Path, "mkdir", noted)

    def change() -> None:
        with daf.batch():
            for number in range(10):
                daf.set_vector("cell", f"v{number}", [1, 2, 3])
            with daf.batch():
                daf.delete_vector("cell", "v0")
            assert (path / ".zmetadata").read_bytes() == before
            assert daf.get_np_vector("cell", "v9").tolist() == [1, 2, 3]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        change()
    assert len([name for name in made if _RANDOM.fullmatch(name)]) == 1
    listed = json.loads((path / ".zmetadata").read_bytes())["metadata"]
    assert "vectors/cell/v9/.zarray" in listed
    assert "vectors/cell/v0/.zarray" not in listed
    assert not (path / ".daf.staging").exists()
    assert verify(path) == []


def test_a_crash_within_a_batch_is_mended_by_the_next_writer(tmp_path: Path) -> None:
    """A killed process leaves what it had put in place, and a list that lacks it."""
    path = tmp_path / "x.daf.zarr"
    filled(path)
    script = (
        "import os, sys, daf_storage\n"
        "daf = daf_storage.ZarrDaf(sys.argv[1], 'r+')\n"
        "with daf.batch():\n"
        "    daf.set_vector('cell', 'age', [0.5, 1, 2], if_exists='replace')\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert ZarrDaf(path).get_np_vector("cell", "age").tolist() == [0.5, 1, 2]
    reopen(path)
    listed = json.loads((path / ".zmetadata").read_bytes())["metadata"]
    assert listed["vectors/cell/age/.zarray"]["dtype"] == "<f8"
    assert verify(path) == []


def add_cluster(daf: DafWriter, *, if_exists: IfExists = "error") -> None:
    """Add an axis with a vector and a matrix."""
    daf.add_axis(
        "cluster",
        ["B", "T"],
        if_exists=if_exists,
        vectors={"n": [1, 2], "label": ["b", "t"]},
    )


def check_consistent(found: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> None:
    """Each property is as before, as after, or gone with its axis; the two layouts agree."""
    for part, values in found.items():
        for key, value in values.items():
            allowed = [side[part][key] for side in (before, after) if key in side[part]]
            assert value in allowed, (part, key)
    for key in before["vectors"].keys() & after["vectors"].keys():
        assert key in found["vectors"]
    for rows, columns, name in found["matrices"]:
        flipped = found["matrices"].get((columns, rows, name))
        if flipped is not None and rows != columns:
            assert np.array(flipped).T.tolist() == found["matrices"][rows, columns, name]


def take_two_steps(patch: pytest.MonkeyPatch, change: Callable[[], Any]) -> int:
    """Do without exchanging names; make a change, and return at which point it would have.

    Up to there nothing is other than where names are exchanged.
    """
    with patch.context() as counting:
        injector, requested = FaultInjector(counting, at=sys.maxsize), list[int]()
        counting.setattr(seams.EXCHANGE_FUNCTION, lambda: requested.append(injector.count))
        change()
    without_exchange(patch)
    return requested[0]


_RANDOM = re.compile("[0-9a-f]{32}")


def files_of(path: Path) -> dict[str, bytes | None]:
    """Return what is in a folder: the bytes of files, None of folders; random names are left out."""
    return {
        _RANDOM.sub("*", str(file.relative_to(path))): file.read_bytes() if file.is_file() else None
        for file in path.rglob("*")
    }


CASES = [(change, True) for change in CHANGES]
CASES += [(change, False) for change in CHANGES if change.startswith("overwrite")]
"""The changes, and whether names can be exchanged, which only those that overwrite do."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("change", "exchange"), CASES, ids=["two steps-" * (not case[1]) + case[0] for case in CASES]
)
def test_a_crash_at_any_point_leaves_old_or_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, *, exchange: bool
) -> None:
    """For every change and every point within it, before and after the recovery."""
    base = tmp_path / "base.daf.zarr"
    filled(base)
    before = contents(ZarrDaf(base))
    done = tmp_path / "done.daf.zarr"
    shutil.copytree(base, done)
    at = 0
    if exchange:
        CHANGES[change](reopen(done))
    else:
        writer = reopen(done)
        at = take_two_steps(monkeypatch, lambda: CHANGES[change](writer)) - 1
    after = contents(ZarrDaf(done))
    finished, checked = False, list[dict[str, bytes | None]]()
    while not finished:
        at += every(5)
        path = tmp_path / "x.daf.zarr"
        shutil.copytree(base, path)
        daf = reopen(path)
        with monkeypatch.context() as patch:
            injector = FaultInjector(patch, at=at)
            with suppress(Crash):
                CHANGES[change](daf)
            finished = injector.count < at
        if (files := files_of(path)) in checked:  # a step that is done, the next one not begun
            shutil.rmtree(path)
            continue
        checked.append(files)
        if exchange:  # between two steps a reader may see neither
            check_consistent(contents(ZarrDaf(path)), before, after)
        recovered = reopen(path)
        found = contents(recovered)
        check_consistent(found, before, after)
        assert not (path / ".daf.staging").exists()
        CHANGES[change](recovered) if found == before else None
        listed = set(recovered.scalars_set())
        assert listed <= {"organism", "n", "new"}
        shutil.rmtree(path)
    assert at > 3


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("is_there", "exchange"),
    [(False, True), (True, True), (True, False)],
    ids=["new", "replaced", "replaced in two steps"],
)
def test_a_crash_leaves_an_axis_with_all_of_its_properties_or_none_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_there: bool, exchange: bool
) -> None:
    """Wherever the writer dies, the whole data set is as before or as after."""
    base, done = tmp_path / "base.daf.zarr", tmp_path / "done.daf.zarr"
    daf = create(base)
    daf.add_axis("gene", GENES, vectors={"n": [1, 2, 3, 4]})
    if is_there:
        daf.add_axis("cluster", ["1", "2", "3"], vectors={"n": [1, 2, 3]})
        daf.set_matrix("gene", "cluster", "old", np.ones((4, 3)), relayout=False)
    before = contents(daf)
    shutil.copytree(base, done)
    at = 0
    if exchange:
        add_cluster(reopen(done), if_exists="replace")
    else:
        daf = reopen(done)
        at = take_two_steps(monkeypatch, lambda: add_cluster(daf, if_exists="replace")) - 1
    after = contents(ZarrDaf(done))
    states, finished = [], False
    while not finished:
        at += every(2)
        folder = tmp_path / str(at)
        path = folder / "x.daf.zarr"
        shutil.copytree(base, path)
        daf = reopen(path)
        with monkeypatch.context() as patch:
            injector = FaultInjector(patch, at=at)
            with suppress(Crash):
                add_cluster(daf, if_exists="replace")
            finished = injector.count < at
        recovered = reopen(path)
        found = contents(recovered)
        states.append(found == after)
        assert found in (before, after)
        assert not (path / ".daf.staging").exists()
        if not states[-1]:
            add_cluster(recovered, if_exists="replace")
            assert contents(recovered) == after
        shutil.rmtree(folder)
    assert states[0] is False
    assert states[-1] is True


def test_recovery_mends_the_consolidated_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between a change and the list of all properties is mended by the next writer."""
    path = tmp_path / "x.daf.zarr"
    daf = filled(path)
    with monkeypatch.context() as patch:
        replace = os.replace
        patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(Crash()))
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(Crash):
            daf.set_vector("cell", "new", [1, 2, 3])
        assert replace is not os.replace
    assert "vectors/cell/new" not in (path / ".zmetadata").read_text()
    reopen(path)
    assert "vectors/cell/new" in (path / ".zmetadata").read_text()


WRITER = """
import itertools, sys
import numpy as np, scipy.sparse as sp
from daf_storage import ZarrDaf
daf = ZarrDaf(sys.argv[1], "r+")
print("ready", flush=True)
for i in itertools.count():
    daf.set_vector("cell", "v", np.full(3, i % 100, "i4"), if_exists="replace")
    daf.set_vector("cell", "t", [str(i % 100)] * 3, if_exists="replace")
    values = np.full((3, 4), i % 100 + 1)
    daf.set_matrix("cell", "gene", "m", sp.csc_array(values) if i % 2 else values, if_exists="replace")
"""


@pytest.mark.sampled(0)
def test_a_killed_writer_leaves_a_data_set_that_is_whole(tmp_path: Path) -> None:
    """A process is killed at random moments; everything stays readable and of one version."""
    path = tmp_path / "x.daf.zarr"
    daf = filled(path)
    daf.set_vector("cell", "v", np.zeros(3, "i4"))
    daf.set_vector("cell", "t", ["0"] * 3)
    daf.set_matrix("cell", "gene", "m", np.ones((3, 4), int))
    for round_number in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.05 + 0.061 * round_number)
            process.send_signal(signal.SIGKILL)
        found = reopen(path)
        assert found.axis_entries("cell").tolist() == CELLS
        for name in "vt":
            assert len(set(found.get_np_vector("cell", name).tolist())) == 1
        values = dense(found.get_np_matrix("cell", "gene", "m"))
        assert len(set(values.ravel().tolist())) == 1
        assert dense(found.get_np_matrix("gene", "cell", "m")).tolist() == values.T.tolist()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf"])
def test_readers_never_see_a_torn_property(tmp_path: Path, name: str) -> None:
    """While a writer replaces properties, each read is of one version, dense or sparse."""
    writer = open_daf(tmp_path / name, "w")
    assert isinstance(writer, DafWriter)
    fill(writer).set_vector("cell", "v", np.zeros(3, "i4"))
    writer.set_matrix("cell", "gene", "m", np.ones((3, 4), int), relayout=False)
    stop = threading.Event()
    problems: list[str] = []

    def read() -> None:
        reader = open_daf(tmp_path / name)
        while not stop.is_set():
            vector = reader.get_np_vector("cell", "v")
            matrix = dense(reader.get_np_matrix("cell", "gene", "m"))
            if len(set(vector.tolist())) != 1 or len(set(matrix.ravel().tolist())) != 1:
                problems.append(f"{vector} {matrix}")

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    replacing: Any = {"if_exists": "replace"}
    for i in range(60):
        writer.set_vector("cell", "v", np.full(3, i, ["i4", "f8", "u1"][i % 3]), **replacing)
        values = np.full((3, 4), i + 1)
        value = sp.csc_array(values) if i % 2 else values
        writer.set_matrix("cell", "gene", "m", value, **replacing, relayout=False)
    stop.set()
    for thread in threads:
        thread.join()
    assert problems == []


def test_readers_of_another_process_never_see_a_torn_property(tmp_path: Path) -> None:
    """The same across processes: each read is of one version, in both layouts."""
    path = tmp_path / "x.daf.zarr"
    daf = filled(path)
    daf.set_vector("cell", "v", np.zeros(3, "i4"))
    daf.set_vector("cell", "t", ["0"] * 3)
    daf.set_matrix("cell", "gene", "m", np.ones((3, 4), int))
    reader, versions = ZarrDaf(path), set[int]()
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        start = time.monotonic()
        while (lasted := time.monotonic() - start) < 1 or (len(versions) <= 3 and lasted < 60):
            for axes in (("cell", "gene"), ("gene", "cell")):
                assert len(set(dense(reader.get_np_matrix(*axes, "m")).ravel().tolist())) == 1
            assert len(set(reader.get_np_vector("cell", "t").tolist())) == 1
            (version,) = set(reader.get_np_vector("cell", "v").tolist())
            versions.add(version)
        process.kill()
    assert len(versions) > 3
