"""Arrays as a tree has them, and protocols of trees.

A slice of a sparse matrix is thousands of ranges of a few elements, read or copied one after the
other: what is done for each of them counts more than what is done for an element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage.base import AnyArray, Packing, Span, StorageType
from daf_storage.stores import Fingerprint, ReadEstimate, Snapshot, estimate_ranges

STRING_BYTES: Final = 16
"""About how many bytes a string takes, where that is not known."""


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
        return math.prod(self.shape)

    @property
    def item_bytes(self) -> int:
        """About how many bytes an element takes in memory."""
        is_string = self.storage_type.is_string
        return STRING_BYTES if is_string else self.storage_type.dtype.itemsize


class StoredArray:
    """One array of a pinned node; stays readable after the node was replaced or deleted.

    What is here suits an array that is read whole, and has no file of its own.
    """

    info: ArrayInfo
    """Its metadata."""
    is_coded = False
    """Whether it is one of strings that are stored as numbers, each for one of a few strings."""
    sources: tuple[StoredArray, ...] = ()
    """What it is made of, if that is said."""

    def read(self) -> AnyArray:
        """Return all elements in C order, read-only, mapped if possible; of strings, as objects."""
        values: AnyArray = self.read_strings().to_numpy(zero_copy_only=False)
        return values.reshape(self.info.shape)

    def read_rows(self, span: Span) -> AnyArray:
        """Return a range of the first dimension; touches only the chunks of that range."""
        return self.read_spans([span])[0]

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return several ranges of the first dimension; of a server, asked for together.

        Of an array of two dimensions, only the range ``within`` of the second one.
        """
        values = self.read() if within is None else self.read()[:, within.slice]
        return [values[span.slice] for span in spans]

    def read_joined(self, ranges: Ranges) -> AnyArray:
        """Return ranges of an array of one dimension, one after the other, as a new array."""
        if self.info.is_mappable:
            return ranges.taken(self.read())
        parts = self.read_spans(ranges.spans())
        return np.concatenate([np.empty(0, self.info.storage_type.dtype), *parts])

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all elements of an array of strings, flattened in C order."""
        raise NotImplementedError

    def string_rows(self, span: Span) -> pa.Array:
        """Return a range of the first dimension of strings; touches only what that range needs."""
        return self.read_strings().slice(span.start, span.size)

    def string_pieces(self) -> Iterator[pa.Array]:
        """Yield the elements of a vector of strings in pieces, which may be dictionaries."""
        yield self.read_strings()

    def plain_strings(self) -> memoryview | None:
        """Return an array of strings as it is stored: a count, then each length and its bytes.

        None if it is stored otherwise.
        """
        return None

    def mapped_strings(self) -> memoryview | None:
        """Return what `plain_strings` does, if it is mapped: not to be downloaded or expanded."""
        return None

    def estimate(
        self, spans: list[Span], estimate: ReadEstimate, within: Span | None = None
    ) -> None:
        """Add what `read_spans` would cost, or reading what it is made of; no elements are read.

        Where the chunks of an array lie in its file may be looked up.
        """
        for source in self.sources:
            source.estimate(spans, estimate, within)
        if self.sources:
            return
        if self.info.is_mappable:
            estimate.add_bytes(elements_bytes(self.info, spans, within))
        else:
            estimate.add_inexact(decoded_bytes(self.info, spans, within), requests=0)

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
        for source in self.sources:
            source.check_stored(is_complete=is_complete)

    def unstored_chunks(self, *, asks_server: bool) -> list[tuple[str, Span]]:  # noqa: ARG002
        """Return the chunks of a list in whose place the fill value is read: their names and rows.

        None of an array of which that is not known, such as one on a server that is not asked.
        """
        return []

    def fingerprint(self) -> Fingerprint | None:
        """Return numbers that change with the elements; None if changes cannot be detected."""
        return None

    def open_file(self) -> int | None:
        """Return a descriptor of a file of just the elements, one after the other, to be closed.

        None if there is no such file.
        """
        return None


class MemoryArray(StoredArray):
    """An array whose elements are in memory, or are made when they are first asked for.

    Parameters
    ----------
    make
        Returns numpy, or Arrow strings.
    shape, storage_type
        If they are known before.
    is_mappable
        Whether any part of it is read at once, as of what is mapped.

    Examples
    --------
    >>> MemoryArray(lambda: pa.array(["a", ""])).read().tolist()
    ['a', '']
    """

    def __init__(
        self,
        make: Callable[[], Any],
        *,
        shape: tuple[int, ...] | None = None,
        storage_type: StorageType | None = None,
        sources: tuple[StoredArray, ...] = (),
        is_mappable: bool = False,
    ) -> None:
        self._make = make
        self._is_mappable = is_mappable
        self._shape, self._storage_type = shape, storage_type
        self.sources = sources

    @cached_property
    def _values(self) -> Any:
        return self._make()

    @cached_property
    def info(self) -> ArrayInfo:  # type: ignore[override]  # computed, where others have it ready
        """Its metadata."""
        shape, kind = self._shape, self._storage_type
        if shape is None or kind is None:
            values = self._values
            is_numpy = isinstance(values, np.ndarray)
            shape = values.shape if is_numpy else (len(values),)
            kind = StorageType.of(values.dtype) if is_numpy else StorageType.STRING
        return ArrayInfo(shape, kind, shape, self._is_mappable)

    def read(self) -> AnyArray:
        """Return all elements."""
        kind = self.info.storage_type
        if kind.is_string:
            return super().read()
        values: AnyArray = np.ascontiguousarray(self._values, kind.dtype).reshape(self.info.shape)
        return frozen(values.view())

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings."""
        return self._values


def frozen(values: AnyArray) -> AnyArray:
    """Return an array that is read-only from now on."""
    values.flags.writeable = False
    return values


def memory_array(values: AnyArray) -> MemoryArray:
    """Return numbers in memory, or in a file without a name, as an array among stored ones."""
    shape, kind = tuple(map(int, values.shape)), StorageType.of(values.dtype)
    return MemoryArray(lambda: values, shape=shape, storage_type=kind, is_mappable=True)


def elements_bytes(info: ArrayInfo, spans: list[Span], within: Span | None) -> int:
    """Return the bytes of some elements."""
    rest = list(info.shape[1:]) if within is None else [within.size, *info.shape[2:]]
    return sum(span.size for span in spans) * math.prod(rest) * info.item_bytes


def byte_ranges(info: ArrayInfo, spans: list[Span], start: int = 0) -> list[tuple[int, int]]:
    """Return where ranges of the first dimension are of elements that begin there in a file."""
    row_bytes = math.prod(info.shape[1:]) * info.item_bytes
    return [(start + span.start * row_bytes, start + span.stop * row_bytes) for span in spans]


def rows_of(info: ArrayInfo, parts: list[memoryview], within: Span | None) -> list[AnyArray]:
    """Return ranges of the first dimension, of which the bytes were fetched."""
    dtype, rest = info.storage_type.dtype, info.shape[1:]
    found = [frozen(np.frombuffer(part, dtype).reshape(-1, *rest)) for part in parts]
    return found if within is None else [part[:, within.slice] for part in found]


def chunks_of(info: ArrayInfo, spans: list[Span], within: Span | None) -> int:
    """Return how many chunks hold some elements."""
    if info.size == 0:
        return 0
    height, *widths = info.chunks
    rows, stop = 0, 0
    for span in sorted(spans):
        first, last = max(span.start // height, stop), -(-span.stop // height)
        rows, stop = rows + max(last - first, 0), max(stop, last)
    rest = [Span(0, length) for length in info.shape[1:]]
    if within is not None:
        rest[0] = within
    across = [
        -(-span.stop // width) - span.start // width
        for span, width in zip(rest, widths, strict=True)
    ]
    return rows * math.prod(across)


def estimate_strings(
    array: StoredArray, snapshot: Snapshot, spans: list[Span], estimate: ReadEstimate
) -> None:
    """Add a file of strings, of which all is read; a server is not asked how long it is."""
    if spans and array.info.size:
        size, estimate.is_exact = array.info.size * STRING_BYTES, False
        estimate_ranges([(0, size)], estimate, snapshot=snapshot, file=array, file_bytes=size)


def decoded_bytes(info: ArrayInfo, spans: list[Span], within: Span | None) -> int:
    """Return the bytes of the chunks that hold some elements, not compressed; strings about."""
    return chunks_of(info, spans, within) * math.prod(info.chunks) * info.item_bytes


_LONG_ELEMENTS: Final = 64
"""From so many elements each, ranges are copied one by one rather than by the positions of all."""
_SHORT_ELEMENTS: Final = 8
"""From so many each, they are copied as strings."""
_HUGE_ELEMENTS: Final = 1 << 12
"""From so many each, numpy copies them."""

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges of a source, and where they go in a target."""

    starts: Positions
    """Where they begin in the source."""
    sizes: Positions
    """How many rows they have."""
    targets: Positions
    """Where they begin in the target."""

    @classmethod
    def of(cls, spans: list[Span]) -> Ranges:
        """Return ranges that are put one after the other.

        >>> Ranges.of([Span(5, 7), Span(0, 3)]).targets.tolist()
        [0, 2]
        """
        pairs = np.array([(span.start, span.stop) for span in spans], np.int64).reshape(-1, 2)
        return cls.joined(pairs[:, 0], pairs[:, 1] - pairs[:, 0])

    @classmethod
    def joined(cls, starts: Positions, sizes: Positions) -> Ranges:
        """Return ranges that are put one after the other; empty ones are left out, neighbours one.

        They may be in any order, and overlap.
        """
        starts, sizes = starts.astype(np.int64, copy=False), sizes.astype(np.int64, copy=False)
        if sizes.size and not sizes.min():
            starts, sizes = starts[sizes > 0], sizes[sizes > 0]
        is_first = np.append(np.ones(1, np.bool_), starts[1:] != (starts + sizes)[:-1])
        if not is_first.all():
            first = np.flatnonzero(is_first)
            starts, sizes = starts[first], np.add.reduceat(sizes, first)
        return cls(starts, sizes, np.cumsum(sizes) - sizes)

    @property
    def stops(self) -> Positions:
        """Where they end in the source."""
        return self.starts + self.sizes

    @property
    def size(self) -> int:
        """How many rows they have together."""
        return int(self.sizes.sum())

    def part(self, span: Span) -> Positions:
        """Return some of the rows of the source that are put one after the other."""
        stops = self.targets + self.sizes
        first = int(np.searchsorted(stops, span.start, side="right"))
        some = slice(first, int(np.searchsorted(stops, span.stop, side="left")) + 1)
        rows = np.repeat(self.starts[some] - self.targets[some], self.sizes[some])
        begin = int(self.targets[first]) if rows.size else 0
        rows += np.arange(begin, begin + rows.size)
        return rows[span.start - begin : span.stop - begin]

    def spans(self) -> list[Span]:
        """Return them one by one."""
        return list(map(Span, self.starts.tolist(), self.stops.tolist()))

    def some(self, picked: npt.NDArray[np.intp]) -> Ranges:
        """Return some of them."""
        return Ranges(self.starts[picked], self.sizes[picked], self.targets[picked])

    def cut(
        self, firsts: Positions, counts: Positions, begin_of: Callable[[Positions], Positions]
    ) -> tuple[Positions, Ranges]:
        """Cut ranges where the sections of their source begin, which are numbered.

        Parameters
        ----------
        firsts, counts
            The section in which each range begins, and in how many it lies.
        begin_of
            Returns where sections begin; of the number after the last, where that ends.

        Returns
        -------
        tuple
            The section of each piece, and the pieces, whose source is that section.
        """
        of = np.repeat(np.arange(firsts.size), counts)
        numbers = firsts[of] + np.arange(of.size) - (np.cumsum(counts) - counts)[of]
        begins = begin_of(numbers)
        starts = np.maximum(self.starts[of], begins)
        stops = np.minimum(self.stops[of], begin_of(numbers + 1))
        targets = self.targets[of] + starts - self.starts[of]
        return numbers, Ranges(starts - begins, stops - starts, targets)

    def copy(
        self,
        source: AnyArray,
        target: AnyArray,
        source_rest: tuple[slice, ...] = (),
        target_rest: tuple[slice, ...] = (),
    ) -> None:
        """Copy them; of the other dimensions, only some elements."""
        total = self.size
        if self.sizes.size <= 1 or self.sizes.size * _LONG_ELEMENTS <= total:
            columns = (each.tolist() for each in (self.starts, self.sizes, self.targets))
            for start, size, to in zip(*columns, strict=True):
                picked = source[(slice(start, start + size), *source_rest)]
                target[(slice(to, to + size), *target_rest)] = picked
            return
        before = np.cumsum(self.sizes) - self.sizes
        each = np.arange(total)
        from_rows: Any = np.repeat(self.starts - before, self.sizes) + each
        shifts = self.targets - before
        to_rows: Any = slice(int(shifts[0]), int(shifts[0]) + total)
        if bool(np.any(shifts != shifts[0])):
            to_rows = np.repeat(shifts, self.sizes) + each
        target[(to_rows, *target_rest)] = source[(from_rows, *source_rest)]

    def taken(self, source: AnyArray) -> AnyArray:
        """Return them, one after the other, as a new array; the source is contiguous.

        >>> Ranges.joined(np.array([5]), np.array([64])).taken(np.zeros(10))
        Traceback (most recent call last):
        IndexError: the ranges leave the array
        """
        size, total = self.sizes.size, self.size
        if not size * _SHORT_ELEMENTS <= total < size * _HUGE_ELEMENTS:
            out = np.empty((total, *source.shape[1:]), source.dtype)
            replace(self, targets=np.cumsum(self.sizes) - self.sizes).copy(source, out)
            return out
        if min(self.starts.min(), self.sizes.min()) < 0 or self.stops.max() > len(source):
            raise IndexError("the ranges leave the array")  # Arrow would read foreign memory
        # Arrow copies strings fastest.  Here every second string is a range.  Those between are
        # never taken, so that ranges may be in any order, where the string between has a negative
        # length.  Arrow allocates by the mean length of all, which the last offset decides.
        offsets = np.zeros(2 * size + 2, np.int64)
        offsets[1:-1:2], offsets[2:-1:2] = self.starts, self.stops
        offsets[-1] = min(2 * total + total // size, len(source))
        offsets *= source.itemsize * math.prod(source.shape[1:])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(source)]
        strings = pa.Array.from_buffers(pa.large_binary(), 2 * size + 1, buffers)
        joined = strings.take(pa.array(np.arange(1, 2 * size, 2))).buffers()[2]
        items = np.frombuffer(joined, source.dtype, total * math.prod(source.shape[1:]))
        return items.reshape(total, *source.shape[1:])


NodeKind: TypeAlias = Literal["group", "array"]


class Node(Protocol):
    """A group or an array, pinned: all that is read through it belongs together."""

    @property
    def kind(self) -> NodeKind:
        """Which of the two it is."""

    @property
    def identity(self) -> Hashable:
        """Equal for two nodes only if they hold the same data; what a cache goes by."""

    @property
    def place(self) -> Hashable:
        """What any node but the very same stored one has another one of, also if that is new."""

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
        self,
        path: str,
        shape: tuple[int, ...],
        storage_type: StorageType,
        folder: Path | None = None,
    ) -> AnyArray:
        """Prepare a numeric array of zeros and return it to be filled in place, in C order.

        One that is packed is aside until it is published; a large one in a file in ``folder``, by
        default the system's.
        """

    def write_aside(self, path: str) -> None:
        """Write what was filled aside at and below ``path``, before others wait for `publish`."""

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


@contextmanager
def new_node(tree: WritableTree, path: str) -> Iterator[TreeTransaction]:
    """Prepare a node, and put it in place when the block ends well."""
    with tree.transaction() as changes:
        yield changes
        with tree.lock():
            changes.publish(path, replace=False)
