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
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from daf_storage import DafWriter, ZarrDaf, open_daf, repair, verify
from tests import seams
from tests.limits import without_exchange
from tests.support import UMIS, contents, every, fill, filled, recorded_calls, reopen


class Crash(BaseException):
    """The process has ended here."""


class FaultInjector:
    """Counts changes to the file system and ends the process at the one that is asked for."""

    def __init__(self, patch: pytest.MonkeyPatch, *, at: int) -> None:
        self.count = 0
        self._at = at
        owners: dict[Any, tuple[str, ...]] = {
            os: ("rename", "replace", "link", "unlink", "posix_fallocate"),
            shutil: ("rmtree",),
            Path: ("mkdir", "rmdir", "write_text", "write_bytes"),
        }
        for owner, names in owners.items():
            for name in names:
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


def add_cluster(daf: DafWriter) -> None:
    """Add an axis with vectors, or replace it."""
    vectors = {"n": [1, 2], "label": ["b", "t"]}
    daf.add_axis("cluster", ["B", "T"], if_exists="replace", vectors=vectors)


REPLACE: Any = {"if_exists": "replace"}
CHANGES: dict[str, Callable[[DafWriter], Any]] = {
    "new scalar": lambda daf: daf.set_scalar("new", 5),
    "new vector": lambda daf: daf.set_vector("cell", "new", [1, 2, 3]),
    "overwrite a vector": lambda daf: daf.set_vector("cell", "age", ["a", "b", "c"], **REPLACE),
    "overwrite sparse by dense": lambda daf: daf.set_vector(
        "gene", "flag", [1, 2, 3, 4], **REPLACE
    ),
    "delete a vector": lambda daf: daf.delete_vector("cell", "age"),
    "new matrix": lambda daf: daf.set_matrix("cell", "gene", "new", UMIS),
    "overwrite a matrix": lambda daf: daf.set_matrix("cell", "gene", "UMIs", UMIS * 2, **REPLACE),
    "overwrite dense by sparse": lambda daf: daf.set_matrix(
        "cell", "gene", "UMIs", sp.csc_array(UMIS * 2), **REPLACE
    ),
    "delete a matrix": lambda daf: daf.delete_matrix("cell", "gene", "sparse"),
    "new axis": lambda daf: daf.add_axis("batch", ["x", "y"]),
    "overwrite an axis": lambda daf: daf.add_axis("gene", ["Foo"], if_exists="replace"),
    "delete an axis": lambda daf: daf.delete_axis("gene"),
    "batch": batch,
    "new axis with properties": add_cluster,
    "overwrite an axis with properties": add_cluster,
    "reorder": lambda daf: daf.reorder_axis("cell", [2, 0, 1], progress="never"),
}


def test_a_batch_writes_the_list_of_all_properties_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its end, also after an error; everything is prepared in one directory."""
    path = tmp_path / "x.daf.zarr"
    daf = filled(path)
    before = (path / ".zmetadata").read_bytes()
    made = recorded_calls(monkeypatch, (Path, "mkdir"), lambda folder, *_, **__: folder.name)

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
    assert len([name for name in set(made) if _RANDOM.fullmatch(name)]) == 1
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


CASES = [("x.daf.zarr", change, True) for change in CHANGES]
CASES += [("x.daf.zarr", change, False) for change in CHANGES if change.startswith("overwrite")]
CASES += [("v3.daf.zarr", "reorder", False), ("x.daf", "reorder", True)]
CASES += [("x.daf", change, True) for change in CHANGES if change.startswith(("overw", "batch"))]
"""Forms, changes, and whether names can be exchanged, which only those that overwrite do."""


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("form", "change", "exchange"), CASES)
def test_a_crash_at_any_point_leaves_old_or_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, change: str, *, exchange: bool
) -> None:
    """For every change and every point within it, before and after the recovery; then it goes on.

    An axis with its properties, and an order, are there as a whole or not at all.
    """
    base, done = tmp_path / f"base.{form}", tmp_path / f"done.{form}"
    with fill(open_daf(base, "w", zarr_format=3 if form[0] == "v" else None)) as daf:
        if change == "overwrite an axis with properties":
            daf.add_axis("cluster", ["1", "2", "3"], vectors={"n": [1, 2, 3]})
            daf.set_matrix("gene", "cluster", "old", np.ones((4, 3)), relayout=False)
    before = contents(open_daf(base))
    shutil.copytree(base, done)
    at = 0
    with open_daf(done, "r+") as daf:
        if exchange:
            CHANGES[change](daf)
        else:
            at = take_two_steps(monkeypatch, lambda: CHANGES[change](daf)) - 1
    after = contents(open_daf(done))
    is_whole = change == "reorder" or "properties" in change
    finished, checked = False, list[dict[str, bytes | None]]()
    while not finished:
        at += every(5)
        path = tmp_path / str(at) / form
        shutil.copytree(base, path)
        daf = open_daf(path, "r+")
        with monkeypatch.context() as patch:
            injector = FaultInjector(patch, at=at)
            with suppress(Crash):
                CHANGES[change](daf)
            finished = injector.count < at
        if (files := files_of(path)) in checked:  # a step that is done, the next one not begun
            shutil.rmtree(path.parent)
            continue
        checked.append(files)
        if exchange and form != "x.daf":  # between two steps a reader may see neither
            check_consistent(contents(open_daf(path)), before, after)
        if len(checked) % 2:
            repair(path, progress="never")
        recovered = open_daf(path, "r+")
        found = contents(recovered)
        check_consistent(found, before, after)
        assert not is_whole or found in (before, after)
        assert not (path / ".daf.staging").exists()
        assert list(path.parent.iterdir()) == [path]
        if found == before:
            CHANGES[change](recovered)
            assert contents(recovered) == after
        wrong = {finding.problem for finding in verify(path) if finding.level == "error"}
        assert wrong <= {"there is no axis 'gene'"}  # whose vectors and matrices nobody sees
        assert recovered.scalars_set() <= {"organism", "n", "new"}
        shutil.rmtree(path.parent)
    assert at > 3
    assert len(checked) > 1
