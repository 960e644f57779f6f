"""Chains: several trees as one, of which the last that has a property counts, and its data sets.

A matrix is one property, however many orientations are stored: what a later tree has in either
orientation hides both of the earlier ones.  Of an axis the first tree counts; the entries of the
others have to be the same.  That is checked when something of the axis is read from another tree,
once for each state of the two arrays: opening costs nothing that grows with the data, and an axis
that another program changes later is noticed.  Of a chain that is written, the last tree is.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import pc
from daf_storage.base import IfExists, Packing, unique_name
from daf_storage.data import (
    DafReader,
    DafWriter,
    Origin,
    check_reader,
    copy_entries,
    kept,
    layout,
)
from daf_storage.errors import REPLACE, ReadOnlyError, Remedy, with_remedy
from daf_storage.trees import Node, NodeKind, StoredArray, Tree, TreeTransaction, WritableTree

_NAME: Final = "name"
_POINTS: Final = "points"


class ChainTree:
    """Several trees as one.

    Parameters
    ----------
    members
        The trees, the one that counts most last.
    """

    def __init__(self, members: Sequence[Tree]) -> None:
        self._members = tuple(members)
        self._same: dict[tuple[str, int, int], Hashable] = {}

    @property
    def location(self) -> str:
        """Where the trees are, for messages."""
        return " + ".join(member.location for member in self._members)

    @property
    def index_tree(self) -> ChainTree:
        """The tree of the indexes: this one."""
        return self

    def _seen(self, path: str) -> dict[int, Tree]:
        """Return by number where to look for something, in the tree that counts most first."""
        owners: Iterable[int | None] = self._latest_first()
        if _is_single(path):
            owners = [self.owner(path)]
        return {owner: self._tree(owner, path) for owner in owners if owner is not None}

    def kind(self, path: str) -> NodeKind | None:
        """Return what is at ``path``; None if nothing is."""
        kinds = (tree.kind(path) for tree in self._seen(path).values())
        return next((kind for kind in kinds if kind is not None), None)

    def children(self, path: str) -> dict[str, NodeKind]:
        """Return the names directly below a group, of all trees, and what each is."""
        if _is_single(path):
            return next((tree.children(path) for tree in self._seen(path).values()), {})
        axes = layout.axes_of_group(path)
        is_of_matrices = path.startswith(f"{layout.MATRICES}/") and len(axes) > 1
        flipped = layout.matrices_path(axes[1], axes[0]) if is_of_matrices else path
        visible: dict[str, NodeKind] = {}
        hidden: set[str] = set()
        for number in self._latest_first():
            if not self._has_axes(number, axes):
                continue
            tree = self._tree(number, path)
            below = tree.children(path)
            visible |= {n: kind for n, kind in below.items() if n not in hidden | visible.keys()}
            if flipped != path:
                hidden |= tree.children(flipped).keys()
        return visible

    def identity(self, path: str) -> Hashable:
        """Return a value that changes whenever something at or below ``path`` does."""
        found = {number: tree.identity(path) for number, tree in self._seen(path).items()}
        return tuple(found.items()) if set(found.values()) - {None} else None

    def version(self, path: str) -> Hashable:
        """Return what differs whenever a property, or its owner, does, in any process."""
        found = {number: tree.version(path) for number, tree in self._seen(path).items()}
        return tuple(found.items()) if found and None not in found.values() else None

    def listing_identity(self, path: str) -> Hashable:
        """Return a value that changes whenever a child of ``path`` comes, goes or is replaced."""
        found = tuple(member.listing_identity(path) for member in self._members)
        return found if set(found) - {None} else None

    def node(self, path: str) -> Node | None:
        """Return the group or array at ``path``, pinned, of the tree that counts.

        Of a group of properties, that is one of several: nobody reads properties from it.

        Raises
        ------
        LengthError, LabelsError
            It belongs to an axis of which this tree has other entries than the first one.
        """
        place = layout.property_of(path)
        for number, tree in self._seen(path).items():
            for axis in () if place is None else place.axes:
                self.check_same_entries(axis, number)
            node = tree.node(path)
            if node is not None:
                return node
        return None

    def owner(self, path: str) -> int | None:
        """Return the number of the tree whose property is seen at a path; None if there is none."""
        place = layout.property_of(path)
        if place is None:
            return self._owner_of_index(path)
        if place.path.startswith(f"{layout.AXES}/"):
            return next((n for n, tree in enumerate(self._members) if tree.kind(place.path)), None)
        for number in self._latest_first():
            if self._holds(number, place.path, place.axes):
                return number
            if place.flipped is not None and self._holds(number, place.flipped, place.axes):
                return None
        return None

    def holders(self, place: layout.PropertyPath) -> list[Tree]:
        """Return the trees that have a property, a matrix in either orientation; in their order."""
        paths = [place.path] if place.flipped is None else [place.path, place.flipped]
        return [
            tree
            for number, tree in enumerate(self._members)
            if any(self._holds(number, path, place.axes) for path in paths)
        ]

    def check_lengths(self) -> None:
        """Raise if two trees have an axis in different lengths; reads metadata only."""
        for axis in self.children(layout.AXES):
            for number, tree in enumerate(self._members):
                if tree.kind(layout.axis_path(axis)) is not None:
                    self._both(axis, number)

    def check_same_entries(self, axis: str, number: int) -> None:
        """Raise unless a tree has the same entries of an axis as the first that has it."""
        path = layout.axis_path(axis)
        first = self.owner(path)
        if first is None or first == number or self._members[number].kind(path) is None:
            return
        state = self._members[first].identity(path), self._members[number].identity(path)
        if self._same.get((axis, first, number)) == state:
            return
        ours, others = self._both(axis, number)
        difference = _first_difference(ours, others)
        if difference is not None:
            position, mine, theirs = difference
            raise errors.LabelsError(
                f"{self._members[number].location}: its entries of axis {axis!r} are not those of "
                f"{self._members[first].location}: at position {position:,} it has {theirs!r} "
                f"instead of {mine!r}, so what it has does not belong to them; reorder one as the "
                "other, or begin another one"
            )
        self._same[axis, first, number] = state

    def _both(self, axis: str, number: int) -> tuple[StoredArray, StoredArray]:
        """Return the array of an axis in the first tree that has it, and that in another one."""
        path = layout.axis_path(axis)
        first = self.owner(path) or 0
        ours, others = (layout.axis_array(self._members[n], axis) for n in (first, number))
        if ours.info.size != others.info.size:
            raise errors.LengthError(
                f"{self._members[number].location}: its axis {axis!r} has {others.info.size:,} "
                f"entries, and that of {self._members[first].location} has {ours.info.size:,}; "
                "an axis that several data sets of a chain have must be the same in all"
            )
        return ours, others

    def _holds(self, number: int, path: str, axes: tuple[str, ...]) -> bool:
        is_there = self._members[number].kind(path) is not None
        return is_there and self._has_axes(number, axes)

    def _has_axes(self, number: int, axes: tuple[str, ...]) -> bool:
        """Return whether a tree has axes; what has none may have been left by a crashed writer."""
        tree = self._members[number]
        return all(tree.kind(layout.axis_path(axis)) is not None for axis in axes)

    def _owner_of_index(self, path: str) -> int | None:
        """Return the number of the tree of an index; one of a vector that is hidden is as well."""
        _, axis, column, kind, *rest = path.split("/")
        columns = [column, *rest[:1]] if kind == _POINTS else [column]
        owners = [
            self.owner(layout.axis_path(axis) if name == _NAME else layout.vector_path(axis, name))
            for name in columns
        ]
        earliest = max((owner for owner in owners if owner is not None), default=0)
        for number in self._latest_first():
            if number >= earliest and self._tree(number, path).kind(path) is not None:
                return number
        return None

    def _latest_first(self) -> range:
        return range(len(self._members) - 1, -1, -1)

    def _tree(self, number: int, path: str) -> Tree:
        tree = self._members[number]
        return tree.index_tree if path.partition("/")[0] == layout.INDEXES else tree


def _is_single(path: str) -> bool:
    """Return whether what is at a path comes from one tree: a property, an index, or below one."""
    is_index = path.startswith(f"{layout.INDEXES}/") and path.count("/") > len(("axis", "column"))
    return is_index or layout.property_of(path) is not None


def _first_difference(ours: StoredArray, others: StoredArray) -> tuple[int, str, str] | None:
    """Return the first position at which two arrays of one length differ, with both strings.

    None if they are equal: where both are stored plainly, their bytes are compared.
    """
    plain = ours.plain_strings()
    if plain is not None and np.array_equal(plain, others.plain_strings() or b""):
        return None
    mine, theirs = (each.read_strings().cast(pa.large_string()) for each in (ours, others))
    if mine.equals(theirs):
        return None
    position = pc.index(pc.not_equal(mine, theirs), True).as_py()
    return position, mine[position].as_py(), theirs[position].as_py()


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
        self.last = last
        """The tree that is written."""
        self._target = last if target is None else target

    @property
    def index_tree(self) -> WritableChainTree:
        """The tree of the indexes; those that are built are beside the last tree's data."""
        return WritableChainTree(self._bases, self.last, target=self.last.index_tree)

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
        return self.last.packing

    def packing_as(self, packing: Packing | None) -> WritableChainTree:
        """Return the same tree, which packs what is written so; None leaves it unpacked."""
        return WritableChainTree(self._bases, self.last.packing_as(packing))

    def batch(self) -> AbstractContextManager[None]:
        """Put everything that is published within the block on the disk at once, if it can."""
        return self._target.batch()

    def lock(self) -> AbstractContextManager[None]:
        """Exclude other writers of the last tree."""
        return self._target.lock()

    @contextmanager
    def rebuilt(self, without: list[str]) -> Iterator[WritableChainTree]:
        """Hand out the chain with another last tree, which takes the place of it at the end."""
        with self.last.rebuilt(without) as last:
            yield WritableChainTree(self._bases, last)

    def adopt_axis(self, axis: str) -> None:
        """See to it that the last tree has an axis of the chain; the caller holds its lock.

        An axis that no tree has is just being made.
        """
        if self.kind(layout.axis_path(axis)) is None:
            return
        if self.last.kind(layout.axis_path(axis)) is None:
            copy_entries(self, self.last, axis)
        else:
            self.check_same_entries(axis, len(self._bases))


@dataclass(eq=False)
class ChainTransaction:
    """Changes of the last tree of a chain; see `TreeTransaction`."""

    _tree: WritableChainTree
    _target: WritableTree
    _changes: TreeTransaction

    def __getattr__(self, name: str) -> Any:
        return getattr(self._changes, name)

    def publish(self, path: str, *, replace: bool) -> None:
        """Put what was prepared in place, after the axes to which it belongs.

        With ``replace`` it hides what an earlier tree has.
        """
        place = layout.property_of(path)
        if place is not None:
            if not replace and self._tree.kind(path) is not None:
                raise FileExistsError(path)
            for axis in place.axes:
                self._tree.adopt_axis(axis)
        if self._target.kind(posixpath.dirname(path)) is None:  # only earlier trees have it
            with self._target.transaction() as groups:
                kept.make_groups(self._target, groups, path)
        self._changes.publish(path, replace=replace)


def chain_reader(dafs: Sequence[DafReader], *, name: str | None = None) -> DafReader:
    """Return several data sets as one that can be read; of each property, the last one counts.

    A scalar, a vector or a matrix that several have is that of the last.  A matrix is one,
    whichever orientations are stored: what a later data set has in either hides both of the
    earlier ones.  An axis that several have must have the same entries in the same order: lengths
    are compared at once; entries when something of the axis is first read from another data set
    than the first that has it, and again if they change.

    Parameters
    ----------
    dafs
        Open data sets, the one that counts most last.  They stay yours: closing the chain does not
        close them, and the chain cannot be read once one of them is closed.
    name
        Its name; by default their names, joined by ``;``.

    Returns
    -------
    DafReader
        For one data set, its ``read_only()``.  It is pickled by their paths, if all have one.

    Raises
    ------
    InvalidInputError
        There is no data set.
    LengthError
        An axis has different lengths.

    Warnings
    --------
    Reading something of an axis whose entries differ raises ``LabelsError``.

    Examples
    --------
    >>> import daf_storage
    >>> base, mine = daf_storage.MemoryDaf(), daf_storage.MemoryDaf()
    >>> base.add_axis("cell", ["A", "B"])
    >>> base.set_vector("cell", "type", ["T", "T"])
    >>> mine.add_axis("cell", ["A", "B"])
    >>> mine.set_vector("cell", "type", ["CD4", "CD8"])
    >>> chain_reader([base, mine]).get_np_vector("cell", "type").tolist()
    ['CD4', 'CD8']
    """
    members = _members(dafs, "chain_reader()")
    if len(members) == 1:
        only = members[0].read_only()
        if name is not None:
            only.rename(name)
        return only
    return ChainReader(members, name=_name(members, name))


def chain_writer(dafs: Sequence[DafReader], *, name: str | None = None) -> DafWriter:
    """Return several data sets as one of which the last is written; see `chain_reader`.

    What is set goes into the last one; so does an axis that it lacks, before its first property.
    ``if_exists="replace"`` hides what an earlier one has, and leaves it there.

    Parameters
    ----------
    dafs, name
        As for `chain_reader`; the last one is open for writing.

    Returns
    -------
    DafWriter
        For one data set, this itself.

    Raises
    ------
    InvalidInputError
        There is no data set, or the last one is also an earlier one.
    ReadOnlyError
        The last one is open for reading.  Later, from methods that would delete what an earlier one
        has, or replace an axis of it.

    Examples
    --------
    >>> import daf_storage
    >>> base, mine = daf_storage.MemoryDaf(), daf_storage.MemoryDaf()
    >>> base.add_axis("cell", ["A", "B"])
    >>> chain_writer([base, mine]).set_vector("cell", "label", ["x", "y"])
    >>> mine.axis_entries("cell").tolist(), base.vectors_set("cell")
    (['A', 'B'], set())
    """
    members = _members(dafs, "chain_writer()")
    *bases, last = members
    if not isinstance(last, DafWriter):
        raise ReadOnlyError(
            f"{last.location}: the last data set of chain_writer() is written to, and this one is "
            "open for reading; open it with mode 'r+'"
        )
    if not bases:
        if name is not None:
            last.rename(name)
        return last
    if any(base.tree is last.tree for base in bases):
        raise errors.InvalidInputError(
            f"{last.location}: the last data set of chain_writer() is written to, and this one is "
            "a base as well, which is only read; put another one last"
        )
    return ChainWriter(bases, last, name=_name(members, name))


class ChainReader(DafReader):
    """Several data sets as one; `chain_reader` returns it.

    Parameters
    ----------
    is_owner
        Whether the data sets are closed with it.
    """

    how_to_write = "this chain is open for reading; make one that is written with chain_writer()"

    def __init__(self, members: Sequence[DafReader], *, name: str, is_owner: bool = False) -> None:
        tree = ChainTree([member.tree for member in members])
        tree.check_lengths()
        super().__init__(tree, name=name, on_close=closing(members, is_owner), members=members)
        self.origin = _origin(members, name)


class ChainWriter(DafWriter):
    """Several data sets as one, of which the last is written; `chain_writer` returns it."""

    def __init__(
        self, bases: Sequence[DafReader], last: DafWriter, *, name: str, is_owner: bool = False
    ) -> None:
        tree = WritableChainTree([base.tree for base in bases], last.writable_tree)
        tree.check_lengths()
        members = (*bases, last)
        super().__init__(tree, name=name, on_close=closing(members, is_owner), members=members)
        self._chain = tree
        self.origin = _origin(members, name)

    def delete_axis(self, axis: str, *, must_exist: bool = True) -> None:
        """Delete an axis that only the last data set has; see `DafWriter.delete_axis`."""
        self._check_not_in_base(layout.axis_path(axis), "deleted")
        super().delete_axis(axis, must_exist=must_exist)

    def check_orders(self, orders: Mapping[str, Any]) -> dict[str, Any]:
        """Return which old position comes to each new one; of axes of the last data set only."""
        for axis in orders:
            self._check_not_in_base(layout.axis_path(axis), "reordered")
        return super().check_orders(orders)

    def _tree_of_new(self, tree: WritableTree) -> WritableTree:
        return tree.last if isinstance(tree, WritableChainTree) else tree

    def _remove(self, path: str) -> None:
        self._check_not_in_base(path, "deleted")
        super()._remove(path)

    def _check_not_in_base(self, path: str, change: str) -> None:
        """Raise if an earlier data set has a property: only the last one is changed."""
        self._check_open()
        place = layout.property_of(path)
        having = [] if place is None else self._chain.holders(place)
        holders = [tree for tree in having if tree is not self._chain.last]
        if holders:
            hidden = "" if change == "reordered" else "; what the last one stores instead hides it"
            raise ReadOnlyError(
                f"{self.location}: {layout.in_words(path)} cannot be {change}: "
                f"{holders[-1].location} has it, and "
                f"only {self._chain.last.location} is changed{hidden}"
            )

    def _check_free(self, path: str, if_exists: IfExists) -> None:
        self._check_open()
        is_axis = path.startswith(f"{layout.AXES}/")
        if is_axis and if_exists == "replace":
            self._check_not_in_base(path, "replaced")
        is_of_base = bool(self._chain.kind(path)) and self._chain.last.kind(path) is None
        if is_of_base and if_exists == "error":
            error = errors.ExistsError(f"{self.location}: {layout.in_words(path)} exists already")
            raise error if is_axis else with_remedy(error, Remedy("pass ", REPLACE, " to hide it"))
        super()._check_free(path, if_exists)


def _members(dafs: Sequence[DafReader], function: str) -> list[DafReader]:
    members = list(dafs)
    if not members:
        raise errors.InvalidInputError(f"{function} was given no data set: the chain is empty")
    for member in members:
        check_reader(member, function)
    return members


def _name(members: Sequence[DafReader], name: str | None) -> str:
    return unique_name(name or ";".join(member.name for member in members))


def _origin(members: Sequence[DafReader], name: str) -> Origin | None:
    """Return how a chain is opened again for reading: each by its path; None if one has none."""
    origins = [member.origin for member in members]
    reopenable = tuple(origin for origin in origins if origin is not None)
    if len(reopenable) < len(origins):
        return None
    return Origin(partial(_open_again, reopenable), reopenable[-1].path, name)


def _open_again(origins: Sequence[Origin], path: str) -> DafReader:  # noqa: ARG001 - each has its own
    members = [origin.open() for origin in origins]
    return ChainReader(members, name=";".join(origin.name for origin in origins), is_owner=True)


def closing(members: Sequence[DafReader], is_owner: bool) -> Callable[[], None] | None:  # noqa: FBT001 - passed on
    """Return what closes data sets with what is made of them, if it owns them."""

    def close() -> None:
        for member in members:
            member.close()

    return close if is_owner else None
