"""A chain of trees of which the last can be changed, and no other one is."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pyarrow as pa

from daf_storage.base import AnyArray, Packing, StorageType
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
    def transaction(self) -> Iterator[ChainTransaction]:
        """Begin changes of the last tree."""
        with self._target.transaction() as changes:
            yield ChainTransaction(self, self._target, changes)

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

    @property
    def stores_sparse_strings(self) -> bool:
        """Whether arrays of mostly empty strings are stored without those."""
        return self._changes.stores_sparse_strings

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

    def remove(self, path: str) -> None:
        """Take away what the last tree has at and below ``path``."""
        self._changes.remove(path)

    def mark_group(self, path: str) -> None:
        """Make what is at ``path`` a group, in place; the root of the tree if it is empty."""
        self._changes.mark_group(path)

    def mark(self, name: str, numbers: tuple[int, ...]) -> None:
        """Mark the root of the last tree with a few numbers."""
        self._changes.mark(name, numbers)

    def annotate(self, path: str, attributes: Mapping[str, str]) -> None:
        """Give attributes to the group or array that will be prepared at ``path`` after this."""
        self._changes.annotate(path, attributes)

    def create_group(self, path: str) -> None:
        """Prepare an empty group."""
        self._changes.create_group(path)

    def write_scalar(self, path: str, values: Any) -> None:
        """Prepare a scalar."""
        self._changes.write_scalar(path, values)

    def write_array(self, path: str, values: AnyArray) -> None:
        """Prepare a numeric array with these values."""
        self._changes.write_array(path, values)

    def write_strings(self, path: str, strings: pa.Array, shape: tuple[int, ...]) -> None:
        """Prepare an array of strings."""
        self._changes.write_strings(path, strings, shape)

    def packs(self, shape: tuple[int, ...], storage_type: StorageType) -> bool:
        """Return whether an array of this kind would be packed."""
        return self._changes.packs(shape, storage_type)

    def write_blocks(
        self,
        path: str,
        shape: tuple[int, ...],
        storage_type: StorageType,
        blocks: Iterable[AnyArray],
    ) -> None:
        """Prepare a numeric array of consecutive ranges of its first dimension."""
        self._changes.write_blocks(path, shape, storage_type, blocks)

    def adopt_array(
        self,
        path: str,
        shape: tuple[int, ...],
        storage_type: StorageType,
        descriptor: int,
        *,
        link: bool,
    ) -> bool:
        """Prepare an array whose elements are those of a file; say if that worked."""
        return self._changes.adopt_array(path, shape, storage_type, descriptor, link=link)

    def reserve_array(
        self, path: str, shape: tuple[int, ...], storage_type: StorageType
    ) -> AnyArray:
        """Prepare a numeric array of zeros and return it to be filled in place."""
        return self._changes.reserve_array(path, shape, storage_type)
