"""Tests of locked directories: names that are taken meanwhile, and descriptors that are closed."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from daf_storage.stores import _directory, _locks
from daf_storage.stores._locks import discard, exclusive, new_locked_directory
from tests.support import open_descriptors


def test_a_directory_that_is_gone_before_it_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one is made, and of the first nothing stays open."""
    names = iter(["taken", "free"])
    is_at = _locks.is_at

    def remove_first(descriptor: int, path: Path) -> bool:
        if path.name == "taken":
            path.rmdir()
        return is_at(descriptor, path)

    monkeypatch.setattr(_locks, "is_at", remove_first)
    before = open_descriptors()
    path, descriptor = new_locked_directory(lambda: tmp_path / next(names))
    assert path == tmp_path / "free"
    assert open_descriptors() == before + 1
    with pytest.raises(BlockingIOError), exclusive(path):
        pass
    other = os.open(path, os.O_RDONLY)
    assert not _locks.lock_shared(other)
    os.close(descriptor)
    assert _locks.lock_shared(other)
    os.close(other)
    with exclusive(path):
        pass
    assert open_descriptors() == before


def test_folders_are_deleted_unless_a_part_is_read(tmp_path: Path) -> None:
    """A reader's lock keeps all of it; asking leaves nothing open."""
    folder = tmp_path / "folder"
    (folder / "a" / "b").mkdir(parents=True)
    before = open_descriptors()
    descriptor = os.open(folder / "a" / "b", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    assert not discard(folder)
    assert (folder / "a" / "b").is_dir()
    os.close(descriptor)
    assert discard(folder)
    assert not folder.exists()
    assert open_descriptors() == before


def test_a_directory_that_is_replaced_while_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new one is read, and of the old one nothing stays open."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "key").write_bytes(b"old")
    lock_shared = _locks.lock_shared

    def replace_first(descriptor: int) -> bool:
        if (tmp_path / "a" / "key").read_bytes() == b"old":
            (tmp_path / "a").rename(tmp_path / "aside")
            (tmp_path / "a").mkdir()
            (tmp_path / "a" / "key").write_bytes(b"new")
        return lock_shared(descriptor)

    monkeypatch.setattr(_directory, "lock_shared", replace_first)
    before = open_descriptors()
    snapshot = _directory.DirectoryStore(tmp_path).snapshot("a")
    assert snapshot is not None
    assert open_descriptors() == before + 1
    found = snapshot.read("key")
    assert found is not None
    assert bytes(found) == b"new"


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is done without; only what asks for a lock of its own says so."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    path, descriptor = new_locked_directory(lambda: tmp_path / "new")
    assert _locks.lock_shared(descriptor)
    os.close(descriptor)
    with pytest.raises(OSError, match="No locks"), exclusive(path):
        pass
    (path / "a").mkdir()
    assert discard(path)
    assert not path.exists()


def test_a_part_that_another_writer_deletes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in nobody's hands."""
    folder = tmp_path / "folder"
    (folder / "a").mkdir(parents=True)
    walked: list[tuple[str, list[str], list[str]]] = [
        (str(folder), ["a"], []),
        (str(folder / "gone"), [], []),
    ]
    monkeypatch.setattr(os, "walk", lambda _: iter(walked))
    assert discard(folder)
    assert not folder.exists()
