"""Tests of the Zarr tree, over each store."""

from __future__ import annotations

from pathlib import Path

import pytest

from daf_storage.stores import DirectoryStore, MemoryStore, WritableStore
from daf_storage.testing import ChangingTreeSuite
from daf_storage.trees import WritableTree, WritableZarrTree


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
