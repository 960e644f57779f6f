"""Tests of the store whose keys are files."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from daf_storage import errors
from daf_storage.base import STAGING_NAME
from daf_storage.stores import DirectoryStore, WritableStore
from daf_storage.testing import ChangingStoreSuite
from tests.limits import without_exchange
from tests.support import create, data_set, there


class TestDirectoryStore(ChangingStoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> WritableStore:
        """Return an empty store."""
        return DirectoryStore(tmp_path / "store")


class TestWithoutExchange(ChangingStoreSuite):
    """The same on file systems that cannot exchange two names."""

    @pytest.fixture
    def store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WritableStore:
        """Return an empty store that replaces in two steps."""
        without_exchange(monkeypatch)
        return DirectoryStore(tmp_path / "store")


def published(folder: Path, *, value: bytes = b"1", replace: bool = False) -> DirectoryStore:
    """Return the store of a directory in which a prefix was published."""
    store = DirectoryStore(folder)
    with store.transaction() as changes:
        changes.write("a/b/x", value)
        changes.publish("a", replace=replace)
    return store


def test_nothing_stays_behind(tmp_path: Path) -> None:
    """After a transaction there is no staging directory left."""
    store = DirectoryStore(tmp_path)
    with store.transaction() as changes:
        changes.write("a/x", b"1")
        changes.publish("a", replace=False)
        changes.write("b/x", b"1")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a"]


def test_recovery_spares_a_living_writer(tmp_path: Path) -> None:
    """Only leftovers of dead writers are cleared away."""
    store = DirectoryStore(tmp_path)
    with store.transaction() as changes:
        changes.write("a/x", b"1")
        assert not DirectoryStore(tmp_path).recover()
        changes.publish("a", replace=False)
    assert (tmp_path / "a" / "x").read_bytes() == b"1"


def test_recovery_puts_back_what_a_two_step_replacement_took(tmp_path: Path) -> None:
    """A crash between the two steps loses nothing."""
    old = tmp_path / STAGING_NAME / "dead" / "0" / "files-1"
    (old / "old" / "a").mkdir(parents=True)
    (old / "old" / "a" / "x").write_bytes(b"1")
    (old / "record").write_text('{"restore": true, "old": ["a"], "new": ["a"]}')
    assert DirectoryStore(tmp_path).recover()
    assert (tmp_path / "a" / "x").read_bytes() == b"1"


def test_a_directory_without_write_permission_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing where one may not is a `ReadOnlyError` that names the directory."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(errors.ReadOnlyError, match="no permission to write"):
        DirectoryStore(tmp_path).transaction().__enter__()


def test_what_is_pinned_is_not_deleted_until_it_is_free(tmp_path: Path) -> None:
    """A pinned prefix outlives its removal; the next change clears it away."""
    store = published(tmp_path)
    snapshot = there(store.snapshot("a/b"))
    with store.transaction() as changes:
        changes.remove("a")
    assert store.snapshot("a") is None
    assert snapshot.read("x") == b"1"
    del snapshot
    with store.transaction():
        pass
    assert list(tmp_path.iterdir()) == []


def test_two_writers_may_clear_away_the_same_leftovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the other one deletes first is gone, and that is no error."""
    trash = tmp_path / STAGING_NAME / "trash-x" / "old-0"
    trash.mkdir(parents=True)
    walk = os.walk

    def walk_and_lose(folder: Path) -> list[Any]:
        found = list(walk(folder))
        shutil.rmtree(folder)
        return found

    monkeypatch.setattr(os, "walk", walk_and_lose)
    with DirectoryStore(tmp_path).transaction() as changes:
        monkeypatch.undo()
        changes.write("a/x", b"1")
        changes.publish("a", replace=False)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_many_directories_can_be_removed_at_once(tmp_path: Path) -> None:
    """Removing a group of hundreds of arrays locks them all and leaves nothing open."""
    store = DirectoryStore(tmp_path)
    with store.transaction() as changes:
        for i in range(300):
            changes.write(f"group/{i}/x", b"1")
        changes.publish("group", replace=False)
        changes.remove("group")
    assert list(tmp_path.iterdir()) == []


# Writers side by side


def test_a_file_in_the_place_of_staging_is_an_error(tmp_path: Path) -> None:
    """And not an endless loop."""
    (tmp_path / STAGING_NAME).write_bytes(b"")
    with pytest.raises(errors.ExistsError, match="exists already"):
        DirectoryStore(tmp_path).transaction().__enter__()


def test_a_replacement_in_two_steps_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that looks between the two steps waits for the second."""
    without_exchange(monkeypatch)
    store, reader = published(tmp_path), DirectoryStore(tmp_path)
    rename, has_missed = os.rename, threading.Event()
    found: list[bytes | None] = []
    look = DirectoryStore._snapshot

    def missing(self: DirectoryStore, prefix: str) -> Any:
        snapshot = look(self, prefix)
        if snapshot is None:
            has_missed.set()
        return snapshot

    def read() -> None:
        snapshot = reader.snapshot("a/b")
        found.append(None if snapshot is None else snapshot.read("x"))

    def between(source: Any, target: Any) -> None:
        if Path(target) == tmp_path / "a":
            thread.start()
            assert has_missed.wait(10)
        rename(source, target)

    thread = threading.Thread(target=read)
    monkeypatch.setattr(DirectoryStore, "_snapshot", missing)
    monkeypatch.setattr(os, "rename", between)
    published(tmp_path, value=b"2", replace=True)
    thread.join()
    assert found == [b"2"]
    with store.transaction() as changes:
        changes.remove("a")
    assert reader.snapshot("a/b") is None


STRESS = """
import sys
from daf_storage import ZarrDaf
daf = ZarrDaf(sys.argv[1], "r+")
for i in range(150):
    daf.set_vector("cell", f"{sys.argv[2]}{i % 5}", [i, i, i], if_exists="replace")
"""


@pytest.mark.sampled(0)
def test_many_writers_side_by_side(tmp_path: Path) -> None:
    """Two threads and two processes write vectors of their own; none gets in another's way."""
    path = tmp_path / "x.daf.zarr"
    daf = data_set(create(path), cell=3)

    def write(name: str) -> None:
        for i in range(150):
            daf.set_vector("cell", f"{name}{i % 5}", [i, i, i], if_exists="replace")

    processes = [subprocess.Popen([sys.executable, "-c", STRESS, str(path), name]) for name in "pq"]
    with ThreadPoolExecutor() as pool:
        list(pool.map(write, "tu"))
    assert [process.wait() for process in processes] == [0, 0]
    assert daf.vectors_set("cell") == {f"{name}{i}" for name in "pqtu" for i in range(5)}
    assert sorted(p.name for p in path.iterdir() if p.name.startswith(".d")) == []


@pytest.mark.parametrize("how", ["deleted", "moved"])
def test_a_directory_that_is_gone(tmp_path: Path, how: str) -> None:
    """It is an error, rather than a store without keys; one that is not there yet has none."""
    store = DirectoryStore(tmp_path / "store")
    assert store.snapshot("") is None
    assert store.snapshot("a") is None
    (store.root / "a").mkdir(parents=True)
    assert store.snapshot("a") is not None
    assert store.snapshot("nothing") is None
    if how == "deleted":
        shutil.rmtree(store.root)
    else:
        store.root.rename(tmp_path / "other")
    for prefix in ("", "a", "nothing"):
        with pytest.raises(errors.SourceNotFoundError, match=f"{store.location}: .* deleted"):
            store.snapshot(prefix)
    if how == "moved":
        (tmp_path / "other").rename(store.root)
        assert store.snapshot("a") is not None
