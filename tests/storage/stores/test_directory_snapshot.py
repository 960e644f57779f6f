"""Tests of pinned directories whose files cannot be looked at."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daf_storage import errors
from daf_storage.stores import DirectoryStore, Snapshot


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    """Return a pinned directory with a file and a directory."""
    (tmp_path / "below").mkdir()
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "empty").write_bytes(b"")
    pinned = DirectoryStore(tmp_path).snapshot("")
    assert pinned is not None
    return pinned


def test_what_is_there_and_what_is_not(snapshot: Snapshot, tmp_path: Path) -> None:
    """Absent files are None, and absent directories have no names."""
    assert snapshot.names() == ["below", "empty", "file"]
    nothing = snapshot.map("empty")
    assert nothing is not None
    assert nothing.nbytes == 0
    assert snapshot.names("below") == snapshot.names("absent") == snapshot.names("file") == []
    assert (snapshot.read("file"), snapshot.size("file")) == (b"abc", 3)
    mapped = snapshot.map("file")
    assert mapped is not None
    assert bytes(mapped) == b"abc"
    assert snapshot.size("below") is None
    for absent in ("absent", "file/absent"):
        assert snapshot.read(absent) is None
        assert snapshot.size(absent) is None
        assert snapshot.map(absent) is None
        assert snapshot.fingerprint(absent) is None
    same, other = DirectoryStore(tmp_path).snapshot(""), DirectoryStore(tmp_path).snapshot("below")
    assert same is not None
    assert other is not None
    assert snapshot.is_same(same)
    assert not snapshot.is_same(other)
    assert not snapshot.is_same("directory")


@pytest.mark.parametrize(
    ("function", "ask"),
    [
        ("open", lambda snapshot: snapshot.names("below")),
        ("stat", lambda snapshot: snapshot.size("below")),
        ("stat", lambda snapshot: snapshot.fingerprint("below")),
    ],
)
def test_what_the_disk_refuses(
    snapshot: Snapshot,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    ask: Callable[[Snapshot], Any],
) -> None:
    """It is an error of ours that names the place, not an absent file."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, function, refuse)
        with pytest.raises(errors.DafError, match="below"):
            ask(snapshot)
