"""One look at each archive within a block: how often files are looked at, and what still shows."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daf_storage.stores import MmapZipStore, one_look
from daf_storage.stores._identity import Unsettled
from daf_storage.stores._one_look import seen_state


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[MmapZipStore]:
    """Return an archive whose state lasts."""
    path = tmp_path / "x.zip"
    with MmapZipStore(path, "w") as store:
        store.append("a/b", b"12345678")
    time.sleep(0.15)
    with MmapZipStore(path) as store:
        yield store


def identity(store: MmapZipStore) -> Any:
    """Return what a snapshot says of the whole archive."""
    snapshot = store.snapshot("a")
    assert snapshot is not None
    return snapshot.identity()


def test_a_file_is_looked_at_once(archive: MmapZipStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the block, of nested ones within the outer one; outside each time."""
    looks: list[Any] = []
    look = os.stat

    def counted(path: Any, **options: Any) -> os.stat_result:
        looks.append(path)
        return look(path, **options)

    monkeypatch.setattr(os, "stat", counted)
    with one_look():
        first = identity(archive)
        with one_look():
            assert identity(archive) == first
        assert identity(archive) == first
    assert len(looks) == 1
    assert identity(archive) == first
    assert len(looks) == 2


def test_a_change_shows_after_the_block(archive: MmapZipStore) -> None:
    """What was seen within it is older than what was read, so that it differs later."""
    with one_look():
        before = identity(archive)
        with archive.path.open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(last)
        assert identity(archive) == before
    assert identity(archive) != before
    time.sleep(0.15)
    assert identity(archive) != before


def test_other_threads_look_for_themselves(archive: MmapZipStore) -> None:
    """A block is of its thread: another may compare what it remembers."""
    looks: list[int] = []

    def look() -> int:
        looks.append(1)
        return len(looks)

    with one_look():
        assert seen_state(archive, look) == 1
        other = threading.Thread(target=seen_state, args=(archive, look))
        other.start()
        other.join()
        assert seen_state(archive, look) == 1
    assert len(looks) == 2


def test_what_does_not_last_is_looked_at_again(archive: MmapZipStore) -> None:
    """A file that has just been written to is equal to nothing, and a missing one may come back."""
    with one_look():
        for state in (None, Unsettled(), (1, Unsettled())):
            assert seen_state(archive, lambda state=state: state) is state  # type: ignore[misc]
        assert seen_state(archive, lambda: 5) == 5
        assert seen_state(archive, lambda: 6) == 5


def test_an_exception_ends_the_block() -> None:
    """Nothing is remembered after it."""

    def fail() -> int:
        raise ValueError("x")

    def within() -> None:
        with one_look():
            seen_state("f", lambda: 1)
            seen_state("g", fail)

    with pytest.raises(ValueError, match="x"):
        within()
    assert seen_state("f", lambda: 2) == 2
