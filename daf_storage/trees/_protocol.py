"""Protocols of trees."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from daf_storage.base import AnyArray, Packing, StorageType
from daf_storage.trees._stored_array import StoredArray

NodeKind: TypeAlias = Literal["group", "array"]


class Node(Protocol):
    """A group or an array, pinned: all that is read through it belongs together."""

    @property
    def kind(self) -> NodeKind:
        """Which of the two it is."""

    @property
    def identity(self) -> Hashable:
        """Equal for two nodes only if they hold the same data; what a cache goes by."""

    def is_same(self, other: object) -> bool:
        """Return whether another node is the very same stored one, also if that is new."""

    def array(self, name: str = "") -> StoredArray | None:
        """Return this array, or the array of that name below this group; None if absent."""

    def attribute(self, name: str) -> Any:
        """Return an attribute of this group or array; None if it has none of this name.

        Raises ``CorruptDataError`` if the attributes cannot be read.
        """


class Tree(Protocol):
    """Groups and arrays by path."""

    @property
    def location(self) -> str:
        """Where the tree is, for messages."""

    def kind(self, path: str) -> NodeKind | None:
        """Return what is at ``path``; None if nothing is."""

    def children(self, path: str) -> dict[str, NodeKind]:
        """Return the names directly below a group, and what each is."""

    def identity(self, path: str) -> Hashable:
        """Return a value that changes whenever something at or below ``path`` does.

        Also if another program writes to its files in place.
        """

    def version(self, path: str) -> Hashable:
        """Return a value that is another one whenever something at or below ``path`` is.

        Whoever looks at the same data gets the same one, in whichever process; None if that cannot
        be known: in memory, on a server.  It costs a look at each file.
        """

    def listing_identity(self, path: str) -> Hashable:
        """Return a value that changes whenever a child of ``path`` comes, goes or is replaced.

        Or its metadata are rewritten.  The data of the children are not looked at.
        """

    def node(self, path: str) -> Node | None:
        """Return the group or array at ``path``, pinned; None if there is none."""

    @property
    def index_tree(self) -> Tree:
        """The tree in which its indexes are: itself, unless its format had better not have them."""


class StoredTree(Tree, Protocol):
    """A tree of a container, whose root may be marked as a data set."""

    def marker(self, name: str) -> Any:
        """Return an attribute of the root; None if it has none, or the format keeps none."""


@runtime_checkable
class Remarked(Protocol):
    """A tree that presents the file of another format, of which it does not show everything."""

    def remarks(self) -> list[tuple[str, str]]:
        """Return the parts of the file that are not shown as they are, and why."""

    def losses(self) -> list[tuple[str, str]]:
        """Return the parts of the file that are damaged, so that nothing of them is shown."""


class TreeTransaction(Protocol):
    """Changes prepared aside; each `publish` and `remove` is one atomic step."""

    @property
    def stores_sparse_strings(self) -> bool:
        """Whether arrays of mostly empty strings are stored without those."""

    def mark_group(self, path: str) -> None:
        """Make what is at ``path`` a group, in place; the root of the tree if it is empty."""

    def write_scalar(self, path: str, values: Any) -> None:
        """Prepare a scalar, given as an array of one number or string."""

    def mark(self, name: str, numbers: tuple[int, ...]) -> None:
        """Mark the root with a few numbers, at once: as an attribute, or as an array."""

    def annotate(self, path: str, attributes: Mapping[str, str]) -> None:
        """Give attributes to the group or array that will be prepared at ``path`` after this."""

    def create_group(self, path: str) -> None:
        """Prepare an empty group."""

    def write_array(self, path: str, values: AnyArray) -> None:
        """Prepare a numeric array with these values, in C order."""

    def write_strings(self, path: str, strings: pa.Array, shape: tuple[int, ...]) -> None:
        """Prepare an array of strings, given flattened in C order."""

    def packs(self, shape: tuple[int, ...], storage_type: StorageType) -> bool:
        """Return whether an array of this kind would be packed: cut and compressed."""

    def write_blocks(
        self,
        path: str,
        shape: tuple[int, ...],
        storage_type: StorageType,
        blocks: Iterable[AnyArray],
    ) -> None:
        """Prepare a numeric array of consecutive ranges of its first dimension."""

    def reserve_array(
        self, path: str, shape: tuple[int, ...], storage_type: StorageType
    ) -> AnyArray:
        """Prepare a numeric array of zeros and return it to be filled in place, in C order.

        Such an array is never packed.
        """

    def publish(self, path: str, *, replace: bool) -> None:
        """Put what was prepared at and below ``path`` in place; ``FileExistsError`` if taken."""

    def remove(self, path: str) -> None:
        """Take away what is at and below ``path``; nothing if absent."""


class WritableTree(Tree, Protocol):
    """A tree that can be changed."""

    @property
    def index_tree(self) -> WritableTree:
        """The tree in which its indexes are."""

    @property
    def is_append_only(self) -> bool:
        """Whether what is there can be neither replaced nor removed."""

    def transaction(self) -> AbstractContextManager[TreeTransaction]:
        """Begin changes; what was not published when the block ends is discarded."""

    @property
    def packing(self) -> Packing | None:
        """How arrays that are written are packed; None if they are not."""

    def packing_as(self, packing: Packing | None) -> WritableTree:
        """Return the same tree, which packs what is written so; None leaves it unpacked."""

    def batch(self) -> AbstractContextManager[None]:
        """Put everything that is published within the block on the disk at once, if it can."""

    def lock(self) -> AbstractContextManager[None]:
        """Exclude other writers for the length of the block."""

    def rebuilt(self, without: list[str]) -> AbstractContextManager[WritableTree]:
        """Hand out a tree without some nodes, which takes the place of this one at the end.

        That is one atomic step, as far as the format has such; an exception leaves everything as
        it was.
        """
