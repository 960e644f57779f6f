"""A property of a Daf data set that is made of elements of another file."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace

from daf_storage.attached._columns import Nodes
from daf_storage.attached._frame_vectors import FrameVector
from daf_storage.attached._frames import Frame, tree_node
from daf_storage.attached._virtual import ArrayMaker, VirtualNode
from daf_storage.data import ENTRIES_OF
from daf_storage.errors import DafError
from daf_storage.trees import MemoryArray, NodeKind, StoredArray, Tree


@dataclass(frozen=True, slots=True)
class Property:
    """An axis, a vector, a matrix or a scalar."""

    kind: NodeKind
    """Whether it is an array, or a group of some."""
    sources: tuple[str, ...]
    """The paths of the elements that it is made of."""
    arrays: Callable[[Nodes], Mapping[str, ArrayMaker]]
    """Returns its arrays by their names, given the pinned elements; one has no name."""
    attributes: Callable[[], Mapping[str, str]] = dict
    """Returns its attributes."""
    state: Hashable | None = None
    """The identity of its sources when something of them was read; None if nothing was."""

    def node(self, tree: Tree) -> VirtualNode:
        """Return it, pinned.

        Raises
        ------
        CorruptDataError
            Something of it is missing.
        """
        nodes = tuple(tree_node(tree, path) for path in self.sources)
        return VirtualNode(self.kind, nodes, self.arrays(nodes), self.attributes)


def array_property(sources: tuple[str, ...], make: Callable[[Nodes], StoredArray]) -> Property:
    """Return a property that is an array."""
    return Property("array", sources, lambda nodes: {"": lambda: make(nodes)})


def memory_property(
    sources: tuple[str, ...], make: Callable[[], MemoryArray], state: Hashable | None = None
) -> Property:
    """Return a property that is an array in memory; the sources tell when it changes."""
    return Property("array", sources, lambda _: {"": make}, state=state)


def broken_property(error: DafError) -> Property:
    """Return a property of which the metadata are broken: whoever uses it gets the error."""

    def fail() -> StoredArray:
        raise error

    return Property("array", (), lambda _: {"": fail})


def entries_property(frame: Frame) -> Property:
    """Return the entries of the axis of a frame."""
    return array_property(frame.index_sources, frame.names)


def vector_property(vector: FrameVector, entries_of: str | None) -> Property:
    """Return the vector of a column; its values may be entries of an axis."""
    column = vector.column
    more = {} if entries_of is None else {ENTRIES_OF: entries_of}
    return Property(
        "array",
        column.sources,
        lambda nodes: {"": lambda: column.array(nodes)},
        lambda: {**column.attributes(), **more},
        vector.state,
    )


def companion_property(vector: FrameVector) -> Property:
    """Return the vector that says which values of a column are missing."""
    return replace(
        array_property(vector.column.sources, vector.column.is_missing), state=vector.state
    )
