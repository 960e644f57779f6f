"""Tests of scratch directories: atomic, exclusive where asked, and cleared away after a kill."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from daf_storage import errors
from daf_storage.stores import (
    abandoned,
    follow_links,
    put_in_place,
    remove_leftovers,
    scratch,
    was_interrupted,
)
from tests import seams
from tests.limits import without_exchange
from tests.support import running

HOLDER = """
import sys, time
from pathlib import Path
from daf_storage.stores import scratch
with scratch(Path(sys.argv[1])) as path:
    path.write_bytes(b"half")
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.fixture(params=["one call", "without renameat2", "without hard links"])
def _renaming(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """File systems differ in what they can do."""
    if request.param != "one call":
        without_exchange(monkeypatch)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    if request.param == "without hard links":
        monkeypatch.setattr(os, "link", refuse)


@pytest.mark.usefixtures("_renaming")
@pytest.mark.parametrize("is_directory", [False, True])
def test_nothing_is_replaced_unless_asked(tmp_path: Path, *, is_directory: bool) -> None:
    """A file and a directory; what is there stays, what is new appears."""
    target = tmp_path / "x"

    def prepare(path: Path, text: str) -> None:
        if is_directory:
            path.mkdir()
        (path / "data" if is_directory else path).write_text(text)

    def found() -> str:
        return (target / "data" if is_directory else target).read_text()

    with scratch(target) as prepared:
        prepare(prepared, "first")
        put_in_place(prepared, target, replace=False)
    with scratch(target) as prepared:
        prepare(prepared, "second")
        with pytest.raises(FileExistsError):
            put_in_place(prepared, target, replace=False)
    assert found() == "first"
    with scratch(target) as prepared:
        prepare(prepared, "third")
        put_in_place(prepared, target, replace=True)
    assert found() == "third"
    assert os.listdir(tmp_path) == ["x"]


def test_a_replacement_in_two_steps_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whoever fails between the steps, or after a kill by the next to come."""
    without_exchange(monkeypatch)
    target, rename = tmp_path / "x", os.rename
    target.mkdir()
    (target / "data").write_text("old")
    calls: list[int] = []

    def fail(source: Path, to: Path) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        rename(source, to)

    def replace() -> None:
        with scratch(target) as prepared:
            prepared.mkdir()
            put_in_place(prepared, target, replace=True)

    def attempt() -> None:
        calls.clear()
        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", fail)
            with pytest.raises(KeyboardInterrupt):
                replace()

    attempt()
    assert (target / "data").read_text() == "old"
    with monkeypatch.context() as patch:
        patch.setattr(seams.PUT_BACK, lambda *_: None)
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        attempt()
    assert was_interrupted(target)
    assert remove_leftovers(target) == 1
    assert (target / "data").read_text() == "old"
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("name", ["x.csv", "n" * 240, "a[b]*c"])
def test_leftovers_of_the_dead_and_not_of_the_living(tmp_path: Path, name: str) -> None:
    """The lock tells, which ends with its process; a leftover of another target stays."""
    target = tmp_path / name
    other = tmp_path / "x.csv.more.0123456789ab.daf-tmp"
    other.mkdir()
    with running(HOLDER, target) as process:
        assert remove_leftovers(target) == 0
        assert abandoned(target) == []
        with scratch(target) as prepared:
            prepared.write_bytes(b"whole")
            put_in_place(prepared, target, replace=False)
        assert len(os.listdir(tmp_path)) == 3
        process.send_signal(signal.SIGKILL)
    assert len(abandoned(target)) == 1
    with scratch(target):
        assert len(os.listdir(tmp_path)) == 3
    assert sorted(os.listdir(tmp_path)) == sorted([name, other.name])


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    """It is not created."""
    with pytest.raises(errors.SourceNotFoundError, match="no such directory"):
        scratch(tmp_path / "a" / "x").__enter__()
    assert os.listdir(tmp_path) == []


def test_links_are_followed_to_where_nothing_is(tmp_path: Path) -> None:
    """And a loop of them is an error in a sentence."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to(tmp_path / "c")
    assert follow_links(tmp_path / "a", "a") == tmp_path / "c"
    (tmp_path / "c").symlink_to("a")
    with pytest.raises(errors.InvalidInputError, match="a: its symbolic links form a loop"):
        follow_links(tmp_path / "a", "a")
