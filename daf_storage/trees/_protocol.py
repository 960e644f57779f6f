"""Protocols of trees, and what an array says of itself."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from daf_storage.base import AnyArray, Packing, Span, StorageType
from daf_storage.stores import ReadEstimate

NodeKind: TypeAlias = Literal["group", "array"]


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """The metadata of one stored array."""

    shape: tuple[int, ...]
    """Lengths of the dimensions, slowest first, as stored (C order)."""
    storage_type: StorageType
    """The type of its elements."""
    chunks: tuple[int, ...]
    """Lengths of a chunk along each dimension; equal to ``shape`` for a single chunk."""
    is_mappable: bool
    """Whether the elements are the plain bytes of one file, which can be mapped."""

    @property
    def size(self) -> int:
        """Number of elements."""
        total = 1
        for length in self.shape:
            total *= length
        return total


class StoredArray(Protocol):
    """One array of a pinned node; stays readable after the node was replaced or deleted."""

    @property
    def info(self) -> ArrayInfo:
        """Its metadata."""
        ...

    def read(self) -> AnyArray:
        """Return all elements of a numeric array in C order, read-only; mapped if possible."""
        ...

    def read_rows(self, span: Span) -> AnyArray:
        """Return a range of the first dimension; touches only the chunks of that range."""
        ...

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return several ranges of the first dimension; of a server, asked for together.

        Of an array of two dimensions, only the range ``within`` of the second one.
        """
        ...

    def estimate(
        self, spans: list[Span], estimate: ReadEstimate, within: Span | None = None
    ) -> None:
        """Add what `read_spans` would cost; no elements are read.

        Where the chunks of an array lie in its file may be looked up.
        """
        ...

    def check_stored(self, *, is_complete: bool = False) -> None:
        """Raise if what is stored cannot hold the elements, by the sizes of files alone.

        Reads nothing, and asks no server.  Data that passes may still turn out to be damaged.

        Parameters
        ----------
        is_complete
            Whether no chunk may be missing, even if a fill value could stand in for it.

        Raises
        ------
        CorruptDataError
            Files are missing, truncated, or not regular files.
        """
        ...

    def fingerprint(self) -> list[int] | None:
        """Return numbers that change with the elements; None if changes cannot be detected."""
        ...

    def plain_strings(self) -> memoryview | None:
        """Return an array of strings as it is stored: a count, then each length and its bytes.

        None if it is stored otherwise.
        """
        ...

    def open_file(self) -> int | None:
        """Return a descriptor of a file of just the elements, one after the other, to be closed.

        None if there is no such file.
        """
        ...

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all elements of an array of strings, flattened in C order."""
        ...


@runtime_checkable
class CodedArray(Protocol):
    """An array of strings that is stored as numbers, each of which stands for one of a few."""

    def coded_batches(self) -> Iterator[pa.DictionaryArray]:
        """Yield the elements in pieces, without nulls."""
        ...


@runtime_checkable
class StringPieces(Protocol):
    """An array of strings that is decoded in pieces, several at a time."""

    def string_pieces(self) -> Iterator[pa.Array]:
        """Yield the elements of a vector in pieces, which may be dictionaries."""
        ...


@runtime_checkable
class MappedStrings(Protocol):
    """An array of strings whose bytes may be looked at again and again."""

    def mapped_strings(self) -> memoryview | None:
        """Return what `StoredArray.plain_strings` does, if it is mapped: not to be downloaded."""
        ...


@runtime_checkable
class StringRows(Protocol):
    """An array of strings of which a range can be read without the rest."""

    def string_rows(self, span: Span) -> pa.Array:
        """Return a range of the first dimension; touches only what that range needs."""
        ...


@runtime_checkable
class CountedFromZero(Protocol):
    """Positions from 1 that are stored as positions from 0, in an order that nothing warrants."""

    @property
    def from_zero(self) -> StoredArray:
        """The positions as they are stored."""
        ...


class Node(Protocol):
    """A group or an array, pinned: all that is read through it belongs together."""

    @property
    def kind(self) -> NodeKind:
        """Which of the two it is."""
        ...

    @property
    def identity(self) -> Hashable:
        """Equal for two nodes only if they hold the same data; what a cache goes by."""
        ...

    def is_same(self, other: object) -> bool:
        """Return whether another node is the very same stored one, also if that is new."""
        ...

    def array(self, name: str = "") -> StoredArray | None:
        """Return this array, or the array of that name below this group; None if absent."""
        ...

    def attribute(self, name: str) -> Any:
        """Return an attribute of this group or array; None if it has none of this name.

        Raises ``CorruptDataError`` if the attributes cannot be read.
        """
        ...


class Tree(Protocol):
    """Groups and arrays by path."""

    @property
    def location(self) -> str:
        """Where the tree is, for messages."""
        ...

    def kind(self, path: str) -> NodeKind | None:
        """Return what is at ``path``; None if nothing is."""
        ...

    def children(self, path: str) -> dict[str, NodeKind]:
        """Return the names directly below a group, and what each is."""
        ...

    def identity(self, path: str) -> Hashable:
        """Return a value that changes whenever something at or below ``path`` does.

        Also if another program writes to its files in place.
        """
        ...

    def listing_identity(self, path: str) -> Hashable:
        """Return a value that changes whenever a child of ``path`` comes, goes or is replaced.

        Or its metadata are rewritten.  The data of the children are not looked at.
        """
        ...

    def node(self, path: str) -> Node | None:
        """Return the group or array at ``path``, pinned; None if there is none."""
        ...

    @property
    def index_tree(self) -> Tree:
        """The tree in which its indexes are: itself, unless its format had better not have them."""
        ...

    def marker(self, name: str) -> Any:
        """Return an attribute of the root; None if it has none, or the format keeps none."""
        ...


@runtime_checkable
class Remarked(Protocol):
    """A tree that presents the file of another format, of which it does not show everything."""

    def remarks(self) -> list[tuple[str, str]]:
        """Return the parts of the file that are not shown as they are, and why."""
        ...

    def losses(self) -> list[tuple[str, str]]:
        """Return the parts of the file that are damaged, so that nothing of them is shown."""
        ...


@runtime_checkable
class VersionedTree(Protocol):
    """A tree that can say which version of the data it has, to other processes too."""

    def version(self, path: str) -> Hashable:
        """Return a value that is another one whenever something at or below ``path`` is.

        Whoever looks at the same data gets the same one, in whichever process; None if that cannot
        be known: in memory, on a server.  It costs a look at each file.
        """
        ...


def version_of(tree: Tree, path: str) -> Hashable:
    """Return the version of what is at or below ``path``; None if that cannot be known."""
    return tree.version(path) if isinstance(tree, VersionedTree) else None


def names_identity(tree: Tree, path: str, names: frozenset[str]) -> Hashable:
    """Return a value that changes whenever a name below ``path`` comes, goes or is replaced.

    Or what one of ``names`` is does: of a tree to which each costs a look, only these are looked
    at.  Of another it is its `Tree.listing_identity`.
    """
    identity_of = getattr(tree, "names_identity", None)  # to check a protocol takes longer
    return tree.listing_identity(path) if identity_of is None else identity_of(path, names)


@runtime_checkable
class KeepingTree(Protocol):
    """A tree that keeps mappings of files from one use to the next."""

    def release_kept(self) -> None:
        """Let go of them; arrays that were handed out stay valid."""
        ...


def release_kept(tree: object) -> None:
    """Let go of what a tree keeps of its files, if it keeps anything."""
    if isinstance(tree, KeepingTree):
        tree.release_kept()


class TreeTransaction(Protocol):
    """Changes prepared aside; each `publish` and `remove` is one atomic step."""

    @property
    def stores_sparse_strings(self) -> bool:
        """Whether arrays of mostly empty strings are stored without those."""
        ...

    def mark_group(self, path: str) -> None:
        """Make what is at ``path`` a group, in place; the root of the tree if it is empty."""
        ...

    def write_scalar(self, path: str, values: Any) -> None:
        """Prepare a scalar, given as an array of one number or string."""
        ...

    def mark(self, name: str, numbers: tuple[int, ...]) -> None:
        """Mark the root with a few numbers, at once: as an attribute, or as an array."""
        ...

    def annotate(self, path: str, attributes: Mapping[str, str]) -> None:
        """Give attributes to the group or array that will be prepared at ``path`` after this."""
        ...

    def create_group(self, path: str) -> None:
        """Prepare an empty group."""
        ...

    def write_array(self, path: str, values: AnyArray) -> None:
        """Prepare a numeric array with these values, in C order."""
        ...

    def write_strings(self, path: str, strings: pa.Array, shape: tuple[int, ...]) -> None:
        """Prepare an array of strings, given flattened in C order."""
        ...

    def packs(self, shape: tuple[int, ...], storage_type: StorageType) -> bool:
        """Return whether an array of this kind would be packed: cut and compressed."""
        ...

    def write_blocks(
        self,
        path: str,
        shape: tuple[int, ...],
        storage_type: StorageType,
        blocks: Iterable[AnyArray],
    ) -> None:
        """Prepare a numeric array of consecutive ranges of its first dimension."""
        ...

    def adopt_array(
        self,
        path: str,
        shape: tuple[int, ...],
        storage_type: StorageType,
        descriptor: int,
        *,
        link: bool,
    ) -> bool:
        """Prepare an array whose elements are those of a file; say if that worked.

        Nothing is read: the file is linked or copied as a whole, where the format has such files.
        """
        ...

    def reserve_array(
        self, path: str, shape: tuple[int, ...], storage_type: StorageType
    ) -> AnyArray:
        """Prepare a numeric array of zeros and return it to be filled in place, in C order.

        Such an array is never packed.
        """
        ...

    def publish(self, path: str, *, replace: bool) -> None:
        """Put what was prepared at and below ``path`` in place; ``FileExistsError`` if taken."""
        ...

    def remove(self, path: str) -> None:
        """Take away what is at and below ``path``; nothing if absent."""
        ...


class WritableTree(Tree, Protocol):
    """A tree that can be changed."""

    @property
    def index_tree(self) -> WritableTree:
        """The tree in which its indexes are."""
        ...

    @property
    def is_append_only(self) -> bool:
        """Whether what is there can be neither replaced nor removed."""
        ...

    def transaction(self) -> AbstractContextManager[TreeTransaction]:
        """Begin changes; what was not published when the block ends is discarded."""
        ...

    @property
    def packing(self) -> Packing | None:
        """How arrays that are written are packed; None if they are not."""
        ...

    def packing_as(self, packing: Packing | None) -> WritableTree:
        """Return the same tree, which packs what is written so; None leaves it unpacked."""
        ...

    def batch(self) -> AbstractContextManager[None]:
        """Put everything that is published within the block on the disk at once, if it can."""
        ...

    def lock(self) -> AbstractContextManager[None]:
        """Exclude other writers for the length of the block."""
        ...

    def rebuilt(self, token: str, without: list[str]) -> AbstractContextManager[WritableTree]:
        """Hand out a tree without some nodes, which takes the place of this one at the end.

        That is one atomic step, as far as the format has such; an exception leaves everything as
        it was.  What a crashed attempt with the same token had published may be found in it.
        """
        ...

    def recover(self) -> bool:
        """Clear away what a crashed writer left; say whether there was anything."""
        ...
