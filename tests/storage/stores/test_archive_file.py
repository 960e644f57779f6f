"""Tests of the open file of an archive on file systems that cannot do everything."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daf_storage.stores.mmap_zip._file import ArchiveFile


@pytest.fixture
def file(tmp_path: Path) -> Iterator[ArchiveFile]:
    """Return a file with some bytes, a hole, and some bytes."""
    opened = ArchiveFile.open(tmp_path / "x", os.O_RDWR | os.O_CREAT, "here")
    opened.write_at(0, b"a" * 4096)
    opened.write_at(1 << 20, b"b" * 10)
    yield opened
    opened.close()


def refusing(number: int) -> Any:
    """Return a function of the operating system that fails."""

    def refuse(*_: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return refuse


def test_locks_keep_other_writers_away(file: ArchiveFile, tmp_path: Path) -> None:
    """Until the file is closed; a reader sees that there is a writer."""
    other = ArchiveFile.open(tmp_path / "x", os.O_RDWR, "here")
    assert not other.has_writer()
    assert file.lock()
    assert other.has_writer()
    assert not other.lock()
    file.close()
    assert not other.has_writer()
    assert other.lock()
    other.close()


def test_file_systems_without_locks(file: ArchiveFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can be kept away, so nobody is, and no writer is seen."""
    monkeypatch.setattr(fcntl, "flock", refusing(errno.ENOTSUP))
    assert file.lock()
    assert not file.has_writer()


def test_ranges_that_are_no_holes(file: ArchiveFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, in ascending order; where the system does not report them, the whole file is one."""
    extents = file.data_extents()
    assert extents == sorted(extents)
    data = file.read_at(0, file.size())
    assert len(data) == file.size() == (1 << 20) + 10
    rest = bytearray(data)
    for start, stop in extents:
        rest[start:stop] = bytes(stop - start)
    assert not any(rest)
    monkeypatch.setattr(os, "lseek", refusing(errno.EINVAL))
    assert file.data_extents() == [(0, file.size())]
    monkeypatch.setattr(os, "lseek", refusing(errno.ENXIO))  # behind the last range
    assert file.data_extents() == []


def test_bytes_up_to_the_end(file: ArchiveFile) -> None:
    """Fewer where the file ends, none behind it."""
    size = file.size()
    assert file.read_at(size - 3, 10) == b"bbb"
    assert file.read_at(size, 10) == b""
    assert file.read_at(5, 0) == b""


def test_a_file_that_was_replaced(file: ArchiveFile, tmp_path: Path) -> None:
    """It is no longer the one at its path."""
    assert file.is_at(tmp_path / "x")
    (tmp_path / "y").write_bytes(b"")
    assert not file.is_at(tmp_path / "y")
    assert not file.is_at(tmp_path / "z")
    identity = file.identity()
    (tmp_path / "y").replace(tmp_path / "x")
    assert not file.is_at(tmp_path / "x")
    assert file.identity() == identity
