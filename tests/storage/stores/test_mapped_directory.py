"""Tests of small directories that are kept mapped; the oracle opens them each time."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from daf_storage import errors, open_daf
from daf_storage.stores import DirectorySnapshot, DirectoryStore, MappedDirectory
from daf_storage.stores import _mapped_directory as mapped_directory

SETTLED_SECONDS = 0.12
LOOKS = 4


def make(root: Path) -> DirectoryStore:
    """Return a store with the directory of a property, whose times tell of changes."""
    for key, data in (("x/.zgroup", b"{}"), ("x/a/.zarray", b"{1}"), ("x/a/0", bytes(5_000))):
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        (root / key).write_bytes(data)
    time.sleep(SETTLED_SECONDS)
    return DirectoryStore(root)


def kept(store: DirectoryStore, prefix: str = "x") -> MappedDirectory | None:
    """Return what is kept of a directory after it was asked for again and again."""
    found = [store.property_snapshot(prefix) for _ in range(LOOKS)][-1]
    return found if isinstance(found, MappedDirectory) else None


def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[object]:
    """Return the list to which the paths of calls of a function of the system are added."""
    paths: list[object] = []
    function = getattr(os, name)

    def noted(path: Any, *args: Any, **kwargs: Any) -> Any:
        paths.append(path)
        return function(path, *args, **kwargs)

    monkeypatch.setattr(os, name, noted)
    return paths


def test_it_is_the_same_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is opened; one look at each of five files and directories, and at one more file."""
    store = make(tmp_path)
    first = kept(store)
    opened, looks = counted(monkeypatch, "open"), counted(monkeypatch, "stat")
    assert first is not None
    assert store.property_snapshot("x") is first
    assert (opened, len(looks)) == ([], 5 + 1)


def test_it_says_what_the_pinned_directory_says(tmp_path: Path) -> None:
    """Names, sizes, bytes, identities and versions, of what is there and what is not."""
    store = make(tmp_path)
    pinned, found = store.snapshot("x"), kept(store)
    assert isinstance(pinned, DirectorySnapshot)
    assert found is not None
    assert found.identity() == pinned.identity()
    assert found.version() == pinned.version()
    for files in ([".zarray"], [".zgroup", "0"], []):
        assert found.listing_identity(files) == pinned.listing_identity(files)
    for key in ("", "a", "none", ".zgroup"):
        assert found.names(key) == pinned.names(key)
    for key in (".zgroup", "a/.zarray", "a/0", "a", "none", "a/none"):
        assert found.read(key) == (None if key == "a" else pinned.read(key))
        assert found.size(key) == pinned.size(key)
        assert bytes(found.map(key) or b"") == (b"" if key == "a" else pinned.map(key) or b"")
        assert found.fingerprint(key) == pinned.fingerprint(key)
    assert found.is_same(pinned)
    assert pinned.is_same(found)
    assert not found.is_same(store.snapshot("x/a"))


@pytest.mark.parametrize(
    "change",
    ["rewritten", "times put back", "longer", "cut", "added", "removed", "replaced", "gone"],
)
def test_whatever_changes_is_noticed_at_once(tmp_path: Path, change: str) -> None:
    """Of files, and of directories below it; what was handed out stays readable."""
    store = make(tmp_path)
    found = kept(store)
    assert found is not None
    chunk = tmp_path / "x/a/0"
    before = chunk.stat()
    if change in ("added", "removed"):
        target = tmp_path / "x/a/.zattrs"
        target.write_bytes(b"{}") if change == "added" else (tmp_path / "x/a/.zarray").unlink()
    elif change == "gone":
        shutil.rmtree(tmp_path / "x")
    elif change == "replaced":
        shutil.copytree(tmp_path / "x", tmp_path / "new")
        shutil.rmtree(tmp_path / "x")
        (tmp_path / "new").rename(tmp_path / "x")
    else:
        data = {"longer": bytes(5_001), "cut": bytes(4_999)}.get(change, b"1" * 5_000)
        chunk.write_bytes(data)
    if change == "times put back":
        os.utime(chunk, ns=(before.st_atime_ns, before.st_mtime_ns))
    now = store.property_snapshot("x")
    assert now is not found
    assert (now is None) == (change == "gone")
    for left in (found.map("a/0"), found.read("a/0")):
        assert left is not None
        assert len(bytes(left)) == (4_999 if change == "cut" else 5_000)


@pytest.mark.parametrize("name", ["age", "donor"])
def test_a_file_that_is_cut_after_it_was_mapped_is_an_error(tmp_path: Path, name: str) -> None:
    """Its pages are gone: to read them would end the process."""
    path = tmp_path / "x.daf.zarr"
    with open_daf(path, "w") as writer:
        writer.add_axis("cell", [f"c{n}" for n in range(5_000)])
        writer.set_vector("cell", "age", np.arange(5_000))
        writer.set_vector("cell", "donor", [f"donor {n}" for n in range(5_000)])
    time.sleep(SETTLED_SECONDS)
    reader = open_daf(path)
    nodes = [reader.tree.node(f"vectors/cell/{name}") for _ in range(LOOKS)]
    assert nodes[-1] is not None
    assert getattr(nodes[-1], "derived", None) is not None
    array = nodes[-1].array()
    assert array is not None
    os.truncate(path / f"vectors/cell/{name}/0", 0)
    with pytest.raises(errors.CorruptDataError, match="truncated|only 0 bytes"):
        array.read_strings() if name == "donor" else array.read()


def test_a_file_that_was_not_mapped_is_not_opened(tmp_path: Path) -> None:
    """Another program may have added it since; the directory is as it was."""
    store = make(tmp_path)
    found = kept(store)
    assert found is not None
    (tmp_path / "x/a/1").write_bytes(b"new")
    before = os.listdir("/proc/self/fd")
    assert found.open_file("a/1") is None
    assert os.listdir("/proc/self/fd") == before


def test_what_is_large_or_new_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor a directory with something that is no file, nor more than so many, the oldest first."""
    store = make(tmp_path)
    (tmp_path / "new").mkdir()
    (tmp_path / "new/0").write_bytes(b"")
    for number in range(mapped_directory.MOST_FILES):
        (tmp_path / f"many{number // 12}").mkdir(exist_ok=True)
        (tmp_path / f"many{number // 12}/{number}").write_bytes(b"x")
    (tmp_path / "all").mkdir()
    for number in range(mapped_directory.MOST_FILES):
        (tmp_path / f"all/{number}").write_bytes(b"x")
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe/0")
    assert kept(store, "new") is None
    time.sleep(SETTLED_SECONDS)
    assert kept(store, "new") is not None
    assert [kept(store, name) for name in ("all", "pipe", "none", "")] == [None] * 4
    monkeypatch.setattr(mapped_directory, "MAX_DIRECTORIES", 2)
    assert [kept(store, name) is None for name in ("many0", "many1", "x")] == [False] * 3
    assert len(store._properties) == 2
    monkeypatch.setattr(mapped_directory, "MOST_BYTES", 4_999)
    store.release_kept()
    assert kept(store) is None


def test_a_deleted_directory_is_let_go_of(tmp_path: Path) -> None:
    """Once others were looked at, and what was made of it too, though that refers to it."""
    store = make(tmp_path)
    (tmp_path / "y").mkdir()
    (tmp_path / "y/0").write_bytes(b"y")
    time.sleep(SETTLED_SECONDS)
    found = kept(store)
    assert found is not None
    found.derived["itself"] = found
    shutil.rmtree(tmp_path / "x")
    for _ in range(8):
        store.property_snapshot("y")
    assert len(store._properties) == 1
    assert not found.derived


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_readers_see_each_change(tmp_path: Path, zarr_format: Literal[2, 3]) -> None:
    """Of values, axes and matrices, by this program or by another; between them all is kept."""
    path = tmp_path / "x.daf.zarr"
    writer = open_daf(path, "w", zarr_format=zarr_format)
    reader = None
    for number in range(3):
        entries = [f"c{n}" for n in range(3 + number)]
        if number:
            writer.delete_matrix("cell", "gene", "X")
            writer.delete_axis("cell")
        else:
            writer.add_axis("gene", ["g"])
        writer.add_axis("cell", entries)
        values = np.eye(len(entries), 1) + number
        writer.set_matrix("cell", "gene", "X", values)
        writer.set_vector("cell", "age", [number] * len(entries))
        reader = reader or open_daf(path)
        for look in range(LOOKS):
            assert reader.axis_length("cell") == len(entries)
            assert reader.axis_indices("cell", [entries[-1]]).tolist() == [len(entries) - 1]
            assert reader.get_np_matrix("cell", "gene", "X").tolist() == values.tolist()
            assert reader.get_np_vector("cell", "age").tolist() == [number] * len(entries)
            time.sleep(SETTLED_SECONDS if look == 0 else 0)
    assert reader is not None
    chunks = [each for each in (path / "matrices").rglob("*") if each.is_file()]
    both = [each for each in chunks if each.stat().st_size == np.dtype(float).itemsize * 5]
    for array in both:  # one for each layout, whichever is read
        array.write_bytes(np.arange(5.0).tobytes())
    flat = reader.get_np_matrix("cell", "gene", "X").ravel().tolist()
    assert flat == list(range(5))
    for array in both:
        array.write_bytes(b"1234")
    with pytest.raises(errors.CorruptDataError, match="truncated"):
        reader.get_np_matrix("cell", "gene", "X")
