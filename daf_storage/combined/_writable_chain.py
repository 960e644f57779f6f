"""A chain of trees of which the last can be changed, and no other one is."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

from daf_storage.base import Packing
from daf_storage.combined._chain_tree import ChainTree
from daf_storage.combined._property_paths import property_of
from daf_storage.data import copy_entries, layout
from daf_storage.trees import Tree, TreeTransaction, WritableTree


class WritableChainTree(ChainTree):
    """Several trees as one; what is written goes into the last.

    Parameters
    ----------
    bases
        The trees that are only read.
    last
        The tree that is written.
    target
        The tree of transactions: ``last``, or that of its indexes.
    """

    def __init__(
        self, bases: Sequence[Tree], last: WritableTree, *, target: WritableTree | None = None
    ) -> None:
        super().__init__([*bases, last])
        self._bases = tuple(bases)
        self._last = last
        self._target = last if target is None else target

    @property
    def bases(self) -> tuple[Tree, ...]:
        """The trees that are only read."""
        return self._bases

    @property
    def last(self) -> WritableTree:
        """The tree that is written."""
        return self._last

    @property
    def index_tree(self) -> WritableChainTree:
        """The tree of the indexes; those that are built are beside the last tree's data."""
        return WritableChainTree(self._bases, self._last, target=self._last.index_tree)

    @property
    def is_append_only(self) -> bool:
        """Whether what is in the last tree can be neither replaced nor removed."""
        return self._target.is_append_only

    @contextmanager
    def transaction(self) -> Iterator[TreeTransaction]:
        """Begin changes of the last tree."""
        with self._target.transaction() as changes:
            yield cast(TreeTransaction, ChainTransaction(self, self._target, changes))

    @property
    def packing(self) -> Packing | None:
        """How what is written into the last tree is packed."""
        return self._last.packing

    def packing_as(self, packing: Packing | None) -> WritableChainTree:
        """Return the same tree, which packs what is written so; None leaves it unpacked."""
        return WritableChainTree(self._bases, self._last.packing_as(packing))

    def batch(self) -> AbstractContextManager[None]:
        """Put everything that is published within the block on the disk at once, if it can."""
        return self._target.batch()

    def lock(self) -> AbstractContextManager[None]:
        """Exclude other writers of the last tree."""
        return self._target.lock()

    @contextmanager
    def rebuilt(self, token: str, without: list[str]) -> Iterator[WritableChainTree]:
        """Hand out the chain with another last tree, which takes the place of it at the end."""
        with self._last.rebuilt(token, without) as last:
            yield WritableChainTree(self._bases, last)

    def recover(self) -> bool:
        """Clear away what a crashed writer of the last tree left."""
        return self._target.recover()

    def adopt_axis(self, axis: str) -> None:
        """See to it that the last tree has an axis of the chain; the caller holds its lock.

        An axis that no tree has is just being made.
        """
        if self.kind(layout.axis_path(axis)) is None:
            return
        if self._last.kind(layout.axis_path(axis)) is None:
            copy_entries(self, self._last, axis)
        else:
            self.check_same_entries(axis, len(self._bases))


class ChainTransaction:
    """Changes of the last tree of a chain; see `TreeTransaction`."""

    def __init__(
        self, tree: WritableChainTree, target: WritableTree, changes: TreeTransaction
    ) -> None:
        self._tree = tree
        self._target = target
        self._changes = changes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._changes, name)

    def publish(self, path: str, *, replace: bool) -> None:
        """Put what was prepared in place, after the axes to which it belongs.

        With ``replace`` it hides what an earlier tree has.
        """
        place = property_of(path)
        if place is not None:
            if not replace and self._tree.kind(path) is not None:
                raise FileExistsError(path)
            for axis in place.axes:
                self._tree.adopt_axis(axis)
        self._make_parents(path)
        self._changes.publish(path, replace=replace)

    def _make_parents(self, path: str) -> None:
        """Make the groups above a path that only earlier trees have."""
        parent = posixpath.dirname(path)
        if not parent or self._target.kind(parent) is not None:
            return
        self._make_parents(parent)
        with self._target.transaction() as changes:
            changes.create_group(parent)
            changes.publish(parent, replace=False)
