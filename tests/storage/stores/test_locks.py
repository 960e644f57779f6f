"""Tests of locked directories: names that are taken meanwhile, and descriptors that are closed."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from daf_storage import open_daf
from daf_storage.stores import MmapZipStore
from daf_storage.stores._directories import discard, new_locked_directory
from daf_storage.stores._files import exclusive, try_lock
from tests.support import open_descriptors


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


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is done without; only what asks for a lock of its own says so."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    path, descriptor = new_locked_directory(lambda: tmp_path / "new")
    assert try_lock(descriptor)
    os.close(descriptor)
    with pytest.raises(OSError, match="No locks"), exclusive(path):
        pass
    (path / "a").mkdir()
    assert discard(path)
    assert not path.exists()
    with MmapZipStore(tmp_path / "x.zip", "w") as store:
        store.append("a", b"1")
    assert MmapZipStore(tmp_path / "x.zip").keys() == ["a"]
    with open_daf(tmp_path / "x.h5df", "w") as daf:
        daf.set_scalar("n", 1)
    assert open_daf(tmp_path / "x.h5df").get_scalar("n") == 1
