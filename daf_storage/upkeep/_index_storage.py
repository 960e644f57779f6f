"""Secondary indexes as they are stored beside the data: where, with which checksums, and of what.

An index is a group of plain arrays that other readers ignore, in the group ``indexes``:

- ``indexes/AXIS/VECTOR/lookup``: the rows in the order of the hashes of a vector of strings.
- ``indexes/AXIS/VECTOR/ranges``: the zone map of a vector.
- ``indexes/AXIS/X/points/Y``: an R-tree over two vectors of coordinates.

Those of an HDF5 file are in a Zarr directory beside it, so that the file is not touched for them.

What the arrays mean is the business of whoever builds them.  Each index has an array
``fingerprint``: the version of the format, the checksum of its own arrays, and what it was made of:
size and checksum of the contents, then inode, size and times of the files, where there are any.
Source: docs/reference/format.md, "indexes".
"""

from __future__ import annotations

import posixpath
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from zlib import crc32

import numpy as np

from daf_storage import errors
from daf_storage.base import NAME_VECTOR, AnyArray, StorageType
from daf_storage.data import DafReader, DafWriter, contents_of, kept, layout
from daf_storage.stores import os_errors
from daf_storage.trees import Node, StoredArray, WritableZarrTree

GROUP: Final = layout.INDEXES
"""The group in which indexes are."""

IndexKind: TypeAlias = Literal["lookup", "ranges", "points"]
"""What an index finds rows by."""

_FINGERPRINT: Final = "fingerprint"
_PARTS_OF: Final[dict[IndexKind, tuple[str, ...]]] = {
    "lookup": ("key", "row", "start"),
    "ranges": ("high", "low", "null", "zone"),
    "points": ("rtree",),
}
"""The arrays of an index of each kind."""

_VERSION: Final = 5
_HEAD: Final = 4
_MAX_NUMBERS: Final = 1 << 10
_BYTES_PER_ROW: Final = 128
_LEAST_BYTES: Final = 1 << 12


@dataclass(frozen=True, slots=True)
class IndexPlace:
    """Which index of a data set."""

    axis: str
    """The axis whose rows it finds."""
    kind: IndexKind
    """What it finds them by."""
    columns: tuple[str, ...]
    """The vector, or ``name`` for the entries; of ``points`` the two vectors of coordinates."""

    @property
    def path(self) -> str:
        """The group of its arrays."""
        first, *rest = self.columns
        return posixpath.join(GROUP, self.axis, first, self.kind, *rest)


@dataclass(frozen=True, slots=True)
class IndexSource:
    """What an index is made of, as it was at one moment."""

    place: IndexPlace
    """The index."""
    contents: tuple[int, int]
    """Size and checksum of the contents of its vectors, with their types."""
    files: tuple[int, ...]
    """Inode, size and times of their files; empty where they are unknown."""


@dataclass(frozen=True, slots=True)
class StoredIndex:
    """An index as it was found."""

    state: Literal["fit", "stale", "damaged"]
    """Whether it can be used; stale if it is of other values than the vector has now."""
    problem: str = ""
    """Why it cannot be used, in words."""
    arrays: Mapping[str, AnyArray] = field(default_factory=dict)
    """Its arrays, if it is fit; mapped where the format can."""


class IndexStorage:
    """The indexes of one data set.

    Examples
    --------
    >>> import daf_storage
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["A", "B"])
    >>> daf.set_vector("cell", "age", [2, 1])
    >>> indexes = IndexStorage(daf)
    >>> place = IndexPlace("cell", "points", ("age", "age"))
    >>> indexes.store(indexes.source(place), {"rtree": np.zeros(9, np.uint8)})
    >>> indexes.places() == [place]
    True
    >>> indexes.load(place).state
    'fit'
    >>> daf.set_vector("cell", "age", [1, 2], if_exists="replace")
    >>> indexes.load(place).state
    'stale'
    """

    def __init__(self, daf: DafReader) -> None:
        self._daf = daf
        self._tree = daf.tree.index_tree

    def places(self) -> list[IndexPlace]:
        """Return which indexes there are, fit or not."""
        found = []
        for axis in self._tree.children(GROUP):
            for column in self._tree.children(posixpath.join(GROUP, axis)):
                kinds = _PARTS_OF.keys() - {"points"}
                found += [IndexPlace(axis, kind, (column,)) for kind in kinds]
                others = self.partners(axis, column)
                found += [IndexPlace(axis, "points", (column, other)) for other in others]
        stored = [place for place in found if self._tree.identity(place.path) is not None]
        return sorted(stored, key=lambda place: place.path)

    def identity(self, place: IndexPlace) -> Hashable:
        """Return a value that changes whenever an index or its vectors do; None without one."""
        own = self._tree.identity(place.path)
        if own is None:
            return None
        vectors = (self._daf.vector_identity(place.axis, name) for name in place.columns)
        return (own, *vectors)

    def partners(self, axis: str, column: str) -> list[str]:
        """Return the vectors ``Y`` with which a vector has an index of points."""
        return sorted(self._tree.children(posixpath.join(GROUP, axis, column, "points")))

    def load(self, place: IndexPlace) -> StoredIndex | None:
        """Return an index after verifying all of it, and comparing what it was made of.

        None if there is none.
        """
        try:
            node = self._tree.node(place.path)
            if node is None:
                is_there = self._tree.identity(place.path) is not None
                return StoredIndex("damaged", "it is no group") if is_there else None
            limit = _LEAST_BYTES + _BYTES_PER_ROW * self._daf.axis_length(place.axis)
            numbers = _fingerprint(node)
            if numbers[0] != _VERSION:
                return StoredIndex("stale", f"it has the format {numbers[0]}, not {_VERSION}")
            arrays = {name: _read(node, name, limit) for name in _PARTS_OF[place.kind]}
        except errors.AxisNotFoundError:
            return StoredIndex("stale", "its axis is gone")
        except Exception as error:  # noqa: BLE001 - no damaged file may keep a query from a scan
            return StoredIndex("damaged", str(error).removeprefix(f"{self._daf.location}: "))
        if _checksum(place, arrays, numbers) != numbers[1]:
            return StoredIndex("damaged", "its checksum is wrong")
        try:
            is_of_now = self._is_of_now(place, tuple(numbers[2:_HEAD]), tuple(numbers[_HEAD:]))
        except errors.DafError:
            is_of_now = False
        if not is_of_now:
            return StoredIndex("stale", "its vector was changed since it was built")
        return StoredIndex("fit", arrays=arrays)

    def source(self, place: IndexPlace) -> IndexSource:
        """Return what an index is to be made of, before that is read."""
        arrays = self._sources(place)
        return IndexSource(place, _contents(arrays), _files(arrays))

    def store(self, source: IndexSource, arrays: Mapping[str, AnyArray]) -> None:
        """Put an index in place of the one that is there, if any, in one step.

        Raises
        ------
        InUseError
            Its vectors were changed since ``source``; nothing was stored.
        AppendOnlyError
            There is one in an archive; `discard` it first.
        """
        place = source.place
        if not self._is_of_now(place, source.contents, source.files):
            raise errors.InUseError(
                f"{self._daf.location}: {' and '.join(place.columns)} of axis {place.axis!r} "
                "changed while the index was being built; build it again"
            )
        stored = {
            name: np.ascontiguousarray(arrays[name], StorageType.of(arrays[name].dtype).dtype)
            for name in _PARTS_OF[place.kind]
        }
        numbers = [_VERSION, 0, *source.contents, *source.files]
        numbers[1] = _checksum(place, stored, numbers)
        written = {_FINGERPRINT: np.array(numbers, np.int64), **stored}
        tree = self._writer.writable_tree.index_tree
        with os_errors(tree.location), tree.transaction() as changes, tree.lock():
            kept.make_groups(tree, changes, place.path)
            changes.create_group(place.path)
            for name, values in written.items():
                changes.write_array(f"{place.path}/{name}", values)
            changes.publish(place.path, replace=tree.identity(place.path) is not None)

    def discard(self, place: IndexPlace) -> None:
        """Take an index away, also out of an archive: it can be made again from the data."""
        tree = self._writer.writable_tree.index_tree
        if isinstance(tree, WritableZarrTree):
            tree.discard(place.path)
            return
        with tree.transaction() as changes, tree.lock():
            changes.remove(place.path)

    @property
    def _writer(self) -> DafWriter:
        if not isinstance(self._daf, DafWriter):
            raise errors.ReadOnlyError(
                f"{self._daf.location}: to change its indexes, open it with mode 'r+'"
            )
        return self._daf

    def _is_of_now(
        self, place: IndexPlace, contents: tuple[int, ...], files: tuple[int, ...]
    ) -> bool:
        """Return whether something was made of what is stored now."""
        sources = self._sources(place)
        return bool(files and files == _files(sources)) or contents == _contents(sources)

    def _sources(self, place: IndexPlace) -> list[StoredArray]:
        """Return the arrays that the vectors of an index consist of."""
        found: list[StoredArray] = []
        for name in place.columns:
            if name == NAME_VECTOR:
                found.append(self._daf.string_array(place.axis, name))
            else:
                found += self._daf.open_vector(place.axis, name).arrays().values()
        return found


def _fingerprint(node: Node) -> list[int]:
    array = node.array(_FINGERPRINT)
    is_sound = array is not None and array.info.storage_type is StorageType.INT64
    if array is None or not is_sound or not _HEAD <= array.info.size <= _MAX_NUMBERS:
        raise errors.CorruptDataError("it has no fingerprint")
    return [int(number) for number in array.read().reshape(-1)]


def _read(node: Node, name: str, max_bytes: int) -> AnyArray:
    """Return an array of an index, which can be no larger than some bytes."""
    array = node.array(name)
    kind = StorageType.STRING if array is None else array.info.storage_type
    if array is None or kind.is_string or array.info.size * kind.dtype.itemsize > max_bytes:
        raise errors.CorruptDataError(
            f"its array {name!r} is missing, or of another type or size than of any index"
        )
    return np.ascontiguousarray(array.read())


def _checksum(place: IndexPlace, arrays: Mapping[str, AnyArray], numbers: list[int]) -> int:
    """Return the checksum of an index: of its arrays, its source, and which one it is."""
    shapes = [f"{name} {array.dtype.name} {array.shape}" for name, array in arrays.items()]
    total = crc32(repr([place.path, numbers[0], *numbers[2:], *shapes]).encode())
    for array in arrays.values():
        total = crc32(array.reshape(-1).view(np.uint8).data, total)
    return total


def _contents(sources: list[StoredArray]) -> tuple[int, int]:
    """Return size and checksum of the contents of some arrays, with their types."""
    size, total = contents_of(sources)
    return size, crc32(repr([each.info.storage_type.value for each in sources]).encode(), total)


def _files(sources: list[StoredArray]) -> tuple[int, ...]:
    """Return inode, size and times of the files of some arrays; nothing if one has none."""
    found = [source.fingerprint() for source in sources]
    return tuple(number for one in found if one for number in one) if all(found) else ()
