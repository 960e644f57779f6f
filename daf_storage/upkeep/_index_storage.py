"""Secondary indexes as they are stored beside the data: where, with which checksums, and of what.

An index is a group of plain arrays that other readers ignore, in the group ``indexes``:

- ``indexes/AXIS/VECTOR/lookup``: the rows in the order of a vector's values, or of their hashes.
- ``indexes/AXIS/VECTOR/ranges``: the zone map of a vector.
- ``indexes/AXIS/X/points/Y``: an R-tree over two vectors of coordinates.

Those of an HDF5 file are in a Zarr directory beside it, so that the file is not touched for them.

What the arrays mean is the business of whoever builds them.  Each index has an array
``fingerprint``: the version of the format, the checksum of its own arrays, and what it was made of:
size and checksum of the contents, then inode, size and times of the files, where there are any.
The array ``page`` has a checksum for each page of the others, and the one in the fingerprint is of
these, so that a page can be verified when it is needed.
Source: docs/reference/format.md, "indexes".
"""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from zlib import crc32

import numpy as np
import numpy.typing as npt

from daf_storage import errors
from daf_storage.base import NAME_VECTOR, AnyArray, StorageType
from daf_storage.data import DafReader, DafWriter, contents_of, kept, layout
from daf_storage.trees import Node, StoredArray, WritableZarrTree

GROUP: Final = layout.INDEXES
"""The group in which indexes are."""

IndexKind: TypeAlias = Literal["lookup", "ranges", "points"]
"""What an index finds rows by."""

_FINGERPRINT: Final = "fingerprint"
_PAGES: Final = "page"
_PARTS_OF: Final[dict[IndexKind, frozenset[str]]] = {
    "lookup": frozenset({"exact", "fence", "first", "key", "row", "start"}),
    "ranges": frozenset({"high", "low", "null", "zone"}),
    "points": frozenset({"rtree"}),
}
"""The arrays that an index of each kind may have: its checksum does not say of which it is."""

_VERSION: Final = 4
_HEAD: Final = 4
_MAX_NUMBERS: Final = 1 << 10
_BYTES_PER_ROW: Final = 128
_LEAST_BYTES: Final = 1 << 12


PAGE_BYTES: Final = 1 << 16
"""How many bytes each checksum is of; the last page of an array may be shorter."""

Sums: TypeAlias = npt.NDArray[np.uint32]
"""The CRC-32 of each page of an array, or of several arrays in a row."""


def page_sums(values: AnyArray) -> Sums:
    """Return the CRC-32 of each page of an array that is contiguous.

    >>> page_sums(np.zeros(3 * PAGE_BYTES // 2, np.uint8)).shape
    (2,)
    """
    data = values.reshape(-1).view(np.uint8)
    pages = (data[start : start + PAGE_BYTES] for start in range(0, len(data), PAGE_BYTES))
    return np.array([crc32(page.data) for page in pages], np.uint32)


def n_pages(values: AnyArray) -> int:
    """Return of how many pages an array consists."""
    return -(-values.nbytes // PAGE_BYTES)


class PagedArray:
    """An array with a checksum for each of its pages.

    Parameters
    ----------
    values
        The elements, contiguous; usually mapped.
    sums
        As `page_sums` returns them for what was stored.

    Examples
    --------
    >>> array = PagedArray.of(np.arange(100_000))
    >>> array.read(70_000, 70_003).tolist()
    [70000, 70001, 70002]
    """

    def __init__(self, values: AnyArray, sums: Sums) -> None:
        self._values = values
        self._sums = sums
        self._is_verified = np.zeros(len(sums), np.bool_)

    @classmethod
    def of(cls, values: AnyArray) -> PagedArray:
        """Return values with their own checksums."""
        contiguous = np.ascontiguousarray(values)
        return cls(contiguous, page_sums(contiguous))

    def __len__(self) -> int:
        return len(self._values)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The type of the elements."""
        return self._values.dtype

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return self._values.ndim

    @property
    def nbytes(self) -> int:
        """The size of all elements."""
        return self._values.nbytes

    @property
    def verified_bytes(self) -> int:
        """How many bytes were verified so far, in whole pages."""
        return int(np.count_nonzero(self._is_verified)) * PAGE_BYTES

    def whole(self) -> AnyArray:
        """Return all elements, in the shape that they have.

        Raises
        ------
        CorruptDataError
            They are not what was stored.
        """
        self._verify(range(len(self._sums)))
        return self._values

    def read(self, start: int, stop: int) -> AnyArray:
        """Return some elements of a list: a view.

        Raises
        ------
        CorruptDataError
            They, or others in their pages, are not what was stored.
        """
        if start < stop:
            item = self._values.itemsize
            self._verify(range(start * item // PAGE_BYTES, -(-stop * item // PAGE_BYTES)))
        return self._values[start:stop]

    def take(self, positions: npt.NDArray[np.int64]) -> AnyArray:
        """Return single elements of a list: a copy.

        Raises
        ------
        CorruptDataError
            They, or others in their pages, are not what was stored.
        """
        self._verify(np.unique(positions * self._values.itemsize // PAGE_BYTES).tolist())
        return self._values[positions]

    def _verify(self, pages: range | list[int]) -> None:
        data = self._values.reshape(-1).view(np.uint8)
        for page in pages:
            if self._is_verified[page]:
                continue
            if crc32(data[page * PAGE_BYTES :][:PAGE_BYTES].data) != self._sums[page]:
                raise errors.CorruptDataError("its checksum is wrong")
            self._is_verified[page] = True


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
    """Size and checksum of the contents of its vectors."""
    files: tuple[int, ...]
    """Inode, size and times of their files; empty where they are unknown."""


@dataclass(frozen=True, slots=True)
class StoredIndex:
    """An index as it was found."""

    state: Literal["fit", "stale", "damaged"]
    """Whether it can be used; stale if it is of other values than the vector has now."""
    problem: str = ""
    """Why it cannot be used, in words."""
    arrays: Mapping[str, PagedArray] = field(default_factory=dict)
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
    >>> place = IndexPlace("cell", "lookup", ("age",))
    >>> indexes.store(indexes.source(place), {"row": np.array([1, 0], np.uint32)})
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
        return sorted(self._places(), key=lambda place: place.path)

    def has_any(self, axis: str) -> bool:
        """Return whether a vector of an axis has an index, fit or not."""
        return bool(self._tree.children(posixpath.join(GROUP, axis)))

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

        None if there is none.  That the numbers make sense together is for the caller to check.
        """
        stored = self.open(place)
        try:
            for array in () if stored is None else stored.arrays.values():
                array.whole()
        except errors.CorruptDataError as error:
            return StoredIndex("damaged", str(error))
        return stored

    def open(self, place: IndexPlace) -> StoredIndex | None:
        """Return an index after comparing what it was made of; pages are verified as they are read.

        None if there is none.  Takes as long for an index of any size, unless its vectors have to
        be read for the comparison, as in an archive.
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
            arrays = _arrays(node, limit)
            sums = _sums(node, arrays, limit)
        except errors.AxisNotFoundError:
            return StoredIndex("stale", "its axis is gone")
        except Exception as error:  # noqa: BLE001 - no damaged file may keep a query from a scan
            return StoredIndex("damaged", str(error).removeprefix(f"{self._daf.location}: "))
        if _checksum(arrays, sums, numbers) != numbers[1]:
            return StoredIndex("damaged", "its checksum is wrong")
        if not arrays.keys() <= _PARTS_OF[place.kind]:
            return StoredIndex("damaged", "its arrays are those of an index of another kind")
        try:
            is_of_now = self._is_of_now(place, tuple(numbers[2:_HEAD]), tuple(numbers[_HEAD:]))
        except errors.DafError:
            is_of_now = False
        if not is_of_now:
            return StoredIndex("stale", "its vector was changed since it was built")
        return StoredIndex("fit", arrays=_paged(arrays, sums))

    def source(self, place: IndexPlace) -> IndexSource:
        """Return what an index is to be made of, before that is read."""
        arrays = self._sources(place)
        return IndexSource(place, contents_of(arrays), _files(arrays))

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
        stored = {name: _normal(arrays[name]) for name in sorted(arrays)}
        sums = np.concatenate([np.empty(0, np.uint32), *map(page_sums, stored.values())])
        numbers = [_VERSION, 0, *source.contents, *source.files]
        numbers[1] = _checksum(stored, sums, numbers)
        written = {_FINGERPRINT: np.array(numbers, np.int64), _PAGES: sums, **stored}
        tree = self._writer.writable_tree.index_tree
        with errors.os_errors(tree.location), tree.transaction() as changes, tree.lock():
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
                f"{self._daf.location}: it was opened for reading; open it with mode 'r+' to "
                "change its indexes"
            )
        return self._daf

    def _places(self) -> Iterator[IndexPlace]:
        for axis in self._tree.children(GROUP):
            for column in self._tree.children(posixpath.join(GROUP, axis)):
                for kind in _PARTS_OF:
                    partners = self.partners(axis, column) if kind == "points" else [""]
                    for other in partners:
                        place = IndexPlace(axis, kind, (column, other) if other else (column,))
                        if self._tree.identity(place.path) is not None:
                            yield place

    def _is_of_now(
        self, place: IndexPlace, contents: tuple[int, ...], files: tuple[int, ...]
    ) -> bool:
        """Return whether something was made of what is stored now."""
        sources = self._sources(place)
        return bool(files and files == _files(sources)) or contents == contents_of(sources)

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
    if array is None:
        raise errors.CorruptDataError("it has no fingerprint")
    info = array.info
    is_sound = info.storage_type is StorageType.INT64 and len(info.shape) == 1
    if not is_sound or not _HEAD <= info.size <= _MAX_NUMBERS:
        raise errors.CorruptDataError("its fingerprint is none")
    return [int(number) for number in array.read()]


def _arrays(node: Node, max_bytes: int) -> dict[str, AnyArray]:
    """Return the arrays of an index by name, in order; none can be larger than some bytes."""
    names = sorted(frozenset().union(*_PARTS_OF.values()))
    arrays = {name: _read(node, name, max_bytes) for name in names}
    return {name: array for name, array in arrays.items() if array is not None}


def _read(node: Node, name: str, max_bytes: int) -> AnyArray | None:
    array = node.array(name)
    if array is None:
        return None
    kind = array.info.storage_type
    if kind.is_string:
        raise errors.CorruptDataError(f"the array {name!r} holds strings")
    if array.info.size * kind.dtype.itemsize > max_bytes:
        raise errors.CorruptDataError(
            f"the array {name!r} has the shape {list(array.info.shape)}, too large for the axis"
        )
    return np.ascontiguousarray(array.read())


def _sums(node: Node, arrays: Mapping[str, AnyArray], max_bytes: int) -> Sums:
    """Return the checksums of the pages of all arrays, which follow each other."""
    sums = _read(node, _PAGES, max_bytes)
    count = sum(map(n_pages, arrays.values()))
    if sums is None or sums.dtype != np.uint32 or sums.shape != (count,):
        raise errors.CorruptDataError(
            "its checksum is wrong: an array is missing, or of other size"
        )
    return sums


def _paged(arrays: Mapping[str, AnyArray], sums: Sums) -> dict[str, PagedArray]:
    ends = itertools.accumulate(map(n_pages, arrays.values()))
    return {
        name: PagedArray(values, sums[end - n_pages(values) : end])
        for (name, values), end in zip(arrays.items(), ends, strict=True)
    }


def _normal(values: AnyArray) -> AnyArray:
    """Return values as they will be read."""
    return np.ascontiguousarray(values, StorageType.of(values.dtype).dtype)


def _checksum(arrays: Mapping[str, AnyArray], sums: Sums, numbers: list[int]) -> int:
    """Return the checksum of the pages of an index, with types and shapes, and of its source."""
    shapes = [f"{name} {array.dtype.name} {array.shape}" for name, array in arrays.items()]
    return crc32(sums.data, crc32(repr([numbers[0], *numbers[2:], *shapes]).encode()))


def _files(sources: list[StoredArray]) -> tuple[int, ...]:
    """Return inode, size and times of the files of some arrays; nothing if one has none."""
    found = [source.fingerprint() for source in sources]
    return tuple(number for one in found if one for number in one) if all(found) else ()
