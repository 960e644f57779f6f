"""Nodes and arrays that a tree of Daf has and the file has not: made of what is in the file.

Nothing is read before it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from daf_storage.base import AnyArray, Span, StorageType
from daf_storage.errors import CorruptDataError, DafError
from daf_storage.stores import ReadEstimate
from daf_storage.trees import (
    ArrayInfo,
    MemoryArray,
    Node,
    NodeKind,
    StoredArray,
    Tree,
    joined_fingerprints,
)

_BATCH_ROWS: Final = 1 << 20

ArrayMaker = Callable[[], StoredArray | None]
Nodes = tuple[Node, ...]


class VirtualNode:
    """A group or an array made of pinned nodes of a file; see `Node`."""

    def __init__(
        self,
        kind: NodeKind,
        sources: Nodes,
        arrays: Mapping[str, ArrayMaker],
        attributes: Callable[[], Mapping[str, Any]],
    ) -> None:
        self.kind = kind
        self._sources = sources
        self._makers = arrays
        self._arrays: dict[str, StoredArray | None] = {}
        self._attributes = attributes

    @property
    def identity(self) -> Hashable:
        """What a cache goes by: that of all that it is made of."""
        return tuple(source.identity for source in self._sources)

    def is_same(self, other: object) -> bool:
        """Return whether another node is made of the very same stored ones."""
        if not isinstance(other, VirtualNode):
            return False
        mine, theirs = self._sources, other._sources  # noqa: SLF001 - of the same class
        return len(mine) == len(theirs) and all(map(_is_same, mine, theirs))

    def array(self, name: str = "") -> StoredArray | None:
        """Return this array, or the array of that name below this group; made once."""
        if name not in self._arrays:
            self._arrays[name] = self._makers[name]() if name in self._makers else None
        return self._arrays[name]

    def attribute(self, name: str) -> Any:
        """Return an attribute; those of the file itself do not count."""
        return self._attributes().get(name)


def _is_same(node: Node, other: Node) -> bool:
    return node.is_same(other)


def node_at(tree: Tree, path: str) -> Node:
    """Return the node at a path.

    Raises
    ------
    CorruptDataError
        There is nothing.
    """
    node = tree.node(path)
    if node is None:
        raise CorruptDataError(f"{tree.location}: {path} is missing")
    return node


@dataclass(frozen=True, slots=True)
class Property:
    """An axis, a vector, a matrix or a scalar."""

    sources: tuple[str, ...]
    """The paths of the elements that it is made of."""
    arrays: Callable[[Nodes], Mapping[str, ArrayMaker]]
    """Returns its arrays by their names, given the pinned elements; one has no name."""
    attributes: Callable[[], Mapping[str, str]] = dict
    """Returns its attributes."""
    kind: NodeKind = "array"
    """Whether it is an array, or a group of some."""
    state: Hashable | None = None
    """The identity of its sources when something of them was read; None if nothing is kept."""

    def node(self, tree: Tree) -> VirtualNode:
        """Return it, pinned.

        Raises
        ------
        CorruptDataError
            Something of it is missing.
        """
        nodes = tuple(node_at(tree, path) for path in self.sources)
        return VirtualNode(self.kind, nodes, self.arrays(nodes), self.attributes)


def array_property(
    sources: tuple[str, ...],
    make: Callable[[Nodes], StoredArray],
    attributes: Callable[[], Mapping[str, str]] = dict,
    state: Hashable | None = None,
) -> Property:
    """Return a property that is an array."""
    return Property(sources, lambda nodes: {"": lambda: make(nodes)}, attributes, state=state)


def strings_property(path: str, strings: Callable[[], list[str]]) -> Property:
    """Return strings that are made when they are read; what is at a path tells when they change."""

    def make(_: Nodes) -> MemoryArray:
        return MemoryArray(lambda: pa.array(strings(), pa.string()))

    return array_property((path,), make)


def broken_property(error: DafError) -> Property:
    """Return a property of which the metadata are broken: whoever uses it gets the error."""

    def fail(_: Nodes) -> StoredArray:
        raise error

    return array_property((), fail)


class MadeOf(StoredArray):
    """What virtual arrays have in common that are made of stored ones."""

    _parts: tuple[StoredArray, ...] = ()
    _checked: frozenset[bool] = frozenset()

    def check_stored(self, *, is_complete: bool = False) -> None:
        """Raise if what it is made of cannot hold its elements; looked at once."""
        if is_complete in self._checked:
            return
        for part in self._parts:
            part.check_stored(is_complete=is_complete)
        self._checked |= {is_complete}

    def fingerprint(self) -> list[int] | None:
        """Return numbers that change with what it is made of."""
        return joined_fingerprints(self._parts)

    def estimate(
        self, spans: list[Span], estimate: ReadEstimate, within: Span | None = None
    ) -> None:
        """Add what reading the stored arrays costs."""
        for part in self._parts:
            part.estimate(spans, estimate, within)


class ShiftedIndices(MadeOf):
    """Positions that count from 0 in the file, counted from 1."""

    def __init__(self, stored: StoredArray, storage_type: StorageType) -> None:
        self._parts = (stored,)
        self._dtype = storage_type.dtype
        info = stored.info
        self.info = ArrayInfo(info.shape, storage_type, info.chunks, is_mappable=False)

    @property
    def from_zero(self) -> StoredArray:
        """The positions as they are stored."""
        return self._parts[0]

    def check_stored(self, *, is_complete: bool = False) -> None:  # noqa: ARG002 - of arrays of Daf
        """Raise if there is no room for them; zarr-python does not write chunks of zeros alone."""
        super().check_stored()

    def read(self) -> AnyArray:
        """Return all positions."""
        return self._shifted(self._parts[0].read())

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return several ranges."""
        return [self._shifted(part) for part in self._parts[0].read_spans(spans, within)]

    def _shifted(self, values: AnyArray) -> AnyArray:
        shifted: AnyArray = values.astype(self._dtype)
        shifted += 1
        shifted.flags.writeable = False
        return shifted


class Converted(StoredArray):
    """Numbers of a type that Daf has not, or in memory, of which ranges are converted.

    Parameters
    ----------
    read_range
        Returns a range of the first dimension, and of the second one, as stored.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        chunks: tuple[int, ...],
        storage_type: StorageType,
        read_range: Callable[[slice, slice | None], AnyArray],
    ) -> None:
        self.info = ArrayInfo(shape, storage_type, chunks, is_mappable=False)
        self._read_range = read_range

    def read(self) -> AnyArray:
        """Return all elements."""
        return self._read(slice(None), None)

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return several ranges of the first dimension."""
        return [self._read(span.slice, None if within is None else within.slice) for span in spans]

    def _read(self, rows: slice, columns: slice | None) -> AnyArray:
        stored = self._read_range(rows, columns)
        values: AnyArray = np.asarray(stored, self.info.storage_type.dtype, order="C").view()
        values.flags.writeable = False
        return values


class CodedStrings(MadeOf):
    """Strings given by numbers that say which of a few strings each is.

    Parameters
    ----------
    codes
        The numbers; negative ones stand for a missing value, which is an empty string here.
    strings
        Returns the few strings.
    what
        The array as messages name it.
    """

    is_coded = True

    def __init__(self, codes: StoredArray, strings: Callable[[], pa.Array], *, what: str) -> None:
        self._parts = (codes,)
        self._strings = strings
        self._what = what
        info = codes.info
        self.info = ArrayInfo(info.shape, StorageType.STRING, info.chunks, is_mappable=False)

    def codes(self, span: Span) -> AnyArray:
        """Return a range of the codes, after checking them."""
        stored = self._parts[0].read_rows(span)
        codes: AnyArray = stored.astype(np.int64) if stored.dtype.kind == "u" else stored
        count = len(self._strings())
        if codes.size and (int(codes.min()) < -1 or int(codes.max()) >= count):
            raise CorruptDataError(
                f"{self._what}: a code leaves the range -1 to {count - 1:,} of its categories"
            )
        return codes

    def string_rows(self, span: Span) -> pa.Array:
        """Return a range of the strings; reads their codes, and the few strings."""
        codes = self.codes(span)
        places = pa.array(codes.astype(np.int64), mask=codes < 0)
        return self._strings().cast(pa.string()).take(places).fill_null("")

    def string_pieces(self) -> Iterator[pa.DictionaryArray]:
        """Yield the elements in pieces: numbers, and those of the strings that occur."""
        strings = self._strings().cast(pa.string())
        every = pa.concat_arrays([strings, pa.array([""], pa.string())])
        length = self.info.shape[0]
        for start in range(0, length, _BATCH_ROWS):
            codes = self.codes(Span(start, min(start + _BATCH_ROWS, length)))
            no_string = np.int64(len(strings))  # may be more than the type of the codes holds
            numbers = np.where(codes < 0, no_string, codes)
            is_used = np.bincount(numbers, minlength=len(every)) > 0
            places = np.cumsum(is_used, dtype=np.int32) - np.int32(1)
            used = every.filter(pa.array(is_used))
            yield pa.DictionaryArray.from_arrays(pa.array(places.take(numbers)), used)

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings; the missing ones are empty."""
        decoded = [batch.dictionary_decode() for batch in self.string_pieces()]
        return pa.concat_arrays(decoded) if decoded else pa.array([], pa.string())
