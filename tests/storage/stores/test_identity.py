"""Tests of what tells one state of files and directories from another."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daf_storage.stores import _identity as identity

OLD_NS = 10**18


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Return a descriptor of a directory with files in two directories, long after they were made."""
    for name in ("a", "b/deep"):
        (tmp_path / "x" / name).mkdir(parents=True)
        (tmp_path / "x" / name / "file").write_bytes(b"123")
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + 10**12)
    descriptor = os.open(tmp_path / "x", os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


CHANGES: dict[str, Callable[[Path], object]] = {
    "rewritten in place": lambda p: (p / "b/deep/file").write_bytes(b"abc"),
    "longer": lambda p: (p / "a/file").write_bytes(b"1234"),
    "another time": lambda p: os.utime(p / "a/file", ns=(OLD_NS, OLD_NS)),
    "one more": lambda p: (p / "b/other").write_bytes(b""),
    "one less": lambda p: (p / "a/file").unlink(),
    "another name": lambda p: (p / "a").rename(p / "c"),
    "another of the same content": lambda p: (
        (p / "new").write_bytes(b"123"),
        (p / "new").replace(p / "a/file"),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_below_a_directory(folder: int, tmp_path: Path, change: str) -> None:
    """It shows, as long as it is not just being made; without a change, all stays the same."""
    before = identity.directory_identity(folder)
    assert identity.directory_identity(folder) == before
    assert hash(before) == hash(identity.directory_identity(folder))
    CHANGES[change](tmp_path / "x")
    assert identity.directory_identity(folder) != before


def test_what_a_listing_shows(folder: int, tmp_path: Path) -> None:
    """The directory itself, and the first of some files in each directory directly below."""
    root = tmp_path / "x"

    def listed() -> object:
        return identity.listing_identity(folder, ["none", "file"])

    before = listed()
    assert listed() == before
    (root / "b/deep/file").write_bytes(b"other")
    assert listed() == before
    (root / "a/file").write_bytes(b"other")
    assert listed() != before
    before = listed()
    (root / "b/file").write_bytes(b"")
    assert listed() != before
    before = listed()
    (root / "a/none").write_bytes(b"")  # it comes before the other
    assert listed() != before
    before = listed()
    (root / "a/file").write_bytes(b"not looked at")
    assert listed() == before
    (root / "c").mkdir()
    assert listed() != before


def test_what_was_just_written_equals_nothing(tmp_path: Path) -> None:
    """The next change might bear the same time."""
    (tmp_path / "file").write_bytes(b"1")
    status = os.stat(tmp_path / "file")
    assert not identity.is_settled(status)
    assert identity.file_identity(status) != identity.file_identity(status)
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    assert identity.directory_identity(descriptor) != identity.directory_identity(descriptor)
    os.close(descriptor)


def test_settled_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From one step of the file system's clock on, the times tell."""
    (tmp_path / "file").write_bytes(b"1")
    status = os.stat(tmp_path / "file")
    newest = max(status.st_mtime_ns, status.st_ctime_ns)
    for later, is_settled in ((identity._TIME_STEP_NS - 1, False), (identity._TIME_STEP_NS, True)):
        monkeypatch.setattr(time, "time_ns", lambda later=later: newest + later)
        assert identity.is_settled(status) == is_settled
        assert (identity.file_identity(status) == identity.file_identity(status)) == is_settled
    assert identity.file_identity(status) == identity.fingerprint(status)
