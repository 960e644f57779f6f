"""Tests of the Zarr tree, over each store."""

from __future__ import annotations

from pathlib import Path

import pytest

from daf_storage import DafWriter, MemoryDaf, ZarrDaf, verify
from daf_storage.base import _strings as strings
from daf_storage.stores import DirectoryStore, MemoryStore, WritableStore
from daf_storage.stores._zarr_adapter import SnapshotZarrStore
from daf_storage.testing import ChangingTreeSuite
from daf_storage.trees import WritableTree, WritableZarrTree, _zarr


def new_tree(store: WritableStore, root: str = "", *, consolidated: bool) -> WritableTree:
    """Return a tree whose root is a group."""
    tree = WritableZarrTree(store, root, consolidated=consolidated)
    with tree.transaction() as changes:
        if root:
            changes.create_group("")
            changes.publish("", replace=False)
        else:
            changes.mark_group("")
    return tree


class TestOverDirectory(ChangingTreeSuite):
    @pytest.fixture
    def tree(self, tmp_path: Path) -> WritableTree:
        """Return an empty tree with consolidated metadata."""
        return new_tree(DirectoryStore(tmp_path), consolidated=True)


class TestOverMemory(ChangingTreeSuite):
    @pytest.fixture
    def tree(self) -> WritableTree:
        """Return an empty tree."""
        return new_tree(MemoryStore(), consolidated=False)


class TestBelowAPrefix(ChangingTreeSuite):
    """A tree need not be the whole store."""

    @pytest.fixture
    def tree(self) -> WritableTree:
        """Return an empty tree within a larger store."""
        return new_tree(MemoryStore(), "deep/inside", consolidated=False)


@pytest.mark.parametrize("suffix", [".daf.zarr", ".daf.zarr.zip", ""])
def test_many_strings_are_filled_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """The chunk is the one that is written block by block, also if the blocks are small."""
    monkeypatch.setattr(strings, "_ENCODE_BLOCK", 7)
    names = [f"naïve {n}" for n in range(100)]
    chunks = []
    for limit in (0, 1 << 24):
        monkeypatch.setattr(_zarr, "_FILLED_IN_PLACE_BYTES", limit)
        path = tmp_path / f"{limit}{suffix}"
        daf = ZarrDaf(path, "w") if suffix else MemoryDaf()
        assert isinstance(daf, DafWriter)
        daf.add_axis("cell", names)
        assert daf.axis_entries("cell").tolist() == names
        chunks.append(bytes(daf.string_array("cell", "name").plain_strings() or b""))
        daf.close()
        if suffix:
            assert ZarrDaf(path).axis_entries("cell").tolist() == names
            assert verify(path) == []
    assert chunks[0] == chunks[1] != b""


def test_stores_of_pins_are_equal_if_the_pin_is() -> None:
    """Zarr compares arrays by their stores: another pin may hold other data."""
    store = MemoryStore()
    with store.transaction() as changes:
        changes.write("a", b"1")
        changes.publish("a", replace=False)
    snapshot, other = store.snapshot(""), store.snapshot("")
    assert snapshot is not None
    assert other is not None
    assert SnapshotZarrStore(snapshot) == SnapshotZarrStore(snapshot)
    assert SnapshotZarrStore(snapshot) != SnapshotZarrStore(other)
    assert SnapshotZarrStore(snapshot) != snapshot
