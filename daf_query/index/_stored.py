"""Indexes of the vectors of an axis: built, loaded, and verified before they are used.

A stale index is passed over.  One that is damaged is passed over with one warning per session;
`daf_storage.verify` lists it, and ``daf repair`` builds it again.  How they are stored, and how
damage is detected: `daf_storage.upkeep`.

An index of strings has the hashes of all of them, sorted, and the row of each: those of a string
are found by binary search.  The hash of the bytes ``b[0] ... b[n-1]`` is, modulo ``2**64``, the
polynomial ``sum((b[i] + 1) * BASE**i)``, then mixed with the length, so that strings of zero bytes
differ.  It is part of the stored format.

R-trees are stored as the library geo-index has them, which builds them; here they are checked as a
whole, and searched.  Everything but the items and the boxes follows from the number of items: how
many nodes each level has, and where the children of a node begin.  So the numbers that say so are
not looked at; that a box contains those of its children is checked, or rows would be left out.
Layout, little-endian: magic ``0xFB``; version (high half) and type of coordinates (low half), of
which Float64 is known; size of a node, uint16; number of items, uint32; four coordinates per box,
level by level, the items' first; then a number per box, uint16 or uint32: the item's, or four times
the number of the box of the first child.

Those of a data set that is read in place are built in its sidecar, of the copies there.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.scan import INDEX, NAME, Compare, In, Or, Positions, Predicate, RowIndex, ZoneMap
from daf_storage import (
    DafError,
    DafReader,
    DafWriter,
    Progress,
    ShowProgress,
    SidecarStatus,
    VectorInfo,
    errors,
    open_daf,
    refresh_sidecar,
    sidecar_status,
    write_sidecar,
)
from daf_storage.base import (
    DecodedCache,
    StorageType,
    is_remote,
    optional_import,
    progress_bar,
    spans_of_length,
    string_offsets,
)
from daf_storage.upkeep import (
    IndexPlace,
    IndexStorage,
    can_have_sidecar,
    data_set_paths,
    sidecar_indexes,
)

Bounds = tuple[float, float, float, float]
"""Smallest x and y, then largest x and y."""

_MAGIC: Final = 0xFB
_VERSION: Final = 3
_HEADER: Final = struct.Struct("<BBHI")
_FLOAT64: Final = 8
_BOX_BYTES: Final = 32
_NARROW_NODES: Final = 1 << 14


class UnfitIndexError(ValueError):
    """The arrays of an index do not make sense; the message says why, without naming the index."""


def rtree_of(sides: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.uint8]:
    """Build an R-tree of boxes, at least one.

    A box that is not finite is put elsewhere: false positives are allowed.

    Parameters
    ----------
    sides
        Smallest x and y, then largest x and y of each item.

    Raises
    ------
    MissingDependencyError
        The extra ``spatial`` is not installed.
    """
    library = optional_import("geoindex_rs.rtree", extra="spatial")
    # The library takes native arrays alone, by the format of their buffers.
    boxes = [side.astype("=f8") for side in sides]
    is_finite = np.all(np.isfinite(boxes), axis=0)
    anywhere = int(np.argmax(is_finite))
    for side in boxes:
        side[~is_finite] = side[anywhere] if is_finite.any() else 0.0
    builder = library.RTreeBuilder(num_items=len(is_finite))
    builder.add(*boxes)
    return np.frombuffer(builder.finish(), np.uint8)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RTree:
    """An R-tree over a number of items; `open` makes one of bytes."""

    boxes: npt.NDArray[Any]
    """Those of all levels, the items' first."""
    items: npt.NDArray[Any]
    """The number of each item."""
    levels: Sequence[int]
    """How many boxes each level has."""
    node_size: int
    """How many boxes a node has."""

    @property
    def nbytes(self) -> int:
        """How much memory it takes, if it is not mapped."""
        return int(self.boxes.nbytes + self.items.nbytes)

    @classmethod
    def open(cls, data: npt.NDArray[np.uint8], n_items: int) -> RTree:
        """Return a stored R-tree, after checking all of it.

        Raises
        ------
        UnfitIndexError
            The bytes are none, or one over another number of items.
        """
        node_size, stored_items = _header(data)
        if stored_items != n_items:
            raise UnfitIndexError(f"it has {stored_items:,} items for {n_items:,} rows")
        levels = levels_of(n_items, node_size)
        n_boxes = sum(levels)
        number = np.dtype("<u2" if n_boxes < _NARROW_NODES else "<u4")
        stop = _HEADER.size + n_boxes * _BOX_BYTES
        needed = stop + n_boxes * number.itemsize
        if len(data) != needed:
            raise UnfitIndexError(f"it has {len(data):,} bytes, and its items need {needed:,}")
        boxes = data[_HEADER.size : stop].view("<f8").reshape(-1, 4)
        items = data[stop:].view(number)[:n_items]
        check_items(items)
        start = 0
        for count, above in itertools.pairwise(levels):
            end = start + count
            _check_boxes(boxes[start:end], boxes[end : end + above], node_size)
            start = end
        return cls(boxes, items, levels, node_size)

    def search(self, bounds: Bounds) -> Positions:
        """Return the items whose boxes overlap a box, ascending."""
        left, bottom, right, top = bounds
        start, node_size = len(self.boxes), self.node_size
        found = np.zeros(1, np.int64)
        for number, count in enumerate(reversed(self.levels)):
            start -= count
            boxes = self.boxes[start : start + count]
            is_few = found.size * node_size < count // 4
            if number and is_few:
                below = (found[:, None] * node_size + np.arange(node_size)).reshape(-1)
                below = below[below < count]
                boxes = boxes[below]
            overlaps = (boxes[:, 0] <= right) & (boxes[:, 1] <= top)
            overlaps &= (boxes[:, 2] >= left) & (boxes[:, 3] >= bottom)
            # A box that overlaps is within one that does: to look at all of them finds no others.
            found = below[overlaps] if number and is_few else np.flatnonzero(overlaps)
        return np.sort(self.items[found].astype(np.int64))


def levels_of(n_items: int, node_size: int) -> list[int]:
    """Return how many boxes each level has, the items' first.

    >>> levels_of(40, 4)
    [40, 10, 3, 1]
    >>> levels_of(1, 16)
    [1]
    """
    levels = [n_items]
    while levels[-1] != 1:
        levels.append(-(-levels[-1] // node_size))
    return levels


def _header(data: npt.NDArray[np.uint8]) -> tuple[int, int]:
    """Return the size of a node, and the number of items."""
    if data.dtype != np.uint8 or data.ndim != 1:
        raise UnfitIndexError("it is no R-tree: it is not a list of bytes")
    if len(data) < _HEADER.size or data[0] != _MAGIC:
        raise UnfitIndexError("it is no R-tree")
    _, version_and_type, node_size, n_items = _HEADER.unpack(data[: _HEADER.size].tobytes())
    version = version_and_type >> 4
    if version != _VERSION:
        raise UnfitIndexError(f"it is an R-tree of version {version}, not {_VERSION}")
    if version_and_type & 0xF != _FLOAT64:
        raise UnfitIndexError("it is an R-tree over other coordinates than Float64")
    if node_size < 2 or n_items < 1:
        raise UnfitIndexError("it is no R-tree: it has no nodes")
    return node_size, n_items


def check_items(items: npt.NDArray[Any]) -> None:
    """Raise unless each item is there once.

    >>> check_items(np.array([1, 0], "u4")), check_items(np.array([], "u4"))
    (None, None)
    >>> check_items(np.array([0, 2], "u4"))
    Traceback (most recent call last):
    daf_query.index._stored.UnfitIndexError: it names rows that there are not
    >>> check_items(np.array([0, 0], "u4"))
    Traceback (most recent call last):
    daf_query.index._stored.UnfitIndexError: it names rows twice and others not at all
    """
    is_there = np.zeros(len(items), np.bool_)
    if int(items.max(initial=0)) >= max(len(items), 1):
        raise UnfitIndexError("it names rows that there are not")
    is_there[items] = True
    if not is_there.all():
        raise UnfitIndexError("it names rows twice and others not at all")


def _check_boxes(children: npt.NDArray[Any], parents: npt.NDArray[Any], node_size: int) -> None:
    """Raise unless each node's box contains those of its children, except where these are NaN.

    >>> children = np.array([[0.0, 0, 1, 1], [2, 2, 3, 3], [np.nan] * 4])
    >>> _check_boxes(children, np.array([[0.0, 0, 3, 3], [9, 9, 9, 9]]), 2)
    >>> _check_boxes(children, np.array([[0.0, 1, 3, 3], [9, 9, 9, 9]]), 2)
    Traceback (most recent call last):
    daf_query.index._stored.UnfitIndexError: the boxes of its nodes do not contain those below them
    """
    starts = np.arange(0, len(children), node_size)
    low = np.fmin.reduceat(children[:, :2], starts, axis=0)
    high = np.fmax.reduceat(children[:, 2:], starts, axis=0)
    is_below = (parents[:, :2] <= low) | np.isnan(low)
    is_above = (parents[:, 2:] >= high) | np.isnan(high)
    if not (is_below.all() and is_above.all()):
        raise UnfitIndexError("the boxes of its nodes do not contain those below them")


class PointIndex:
    """An R-tree over two columns of coordinates."""

    def __init__(self, x: str, y: str, tree: RTree) -> None:
        self.columns = (x, y)
        self._tree = tree

    def find(self, conditions: Sequence[Predicate], max_rows: int) -> Positions | None:
        """Return the rows for which all conditions on the columns may be true, ascending.

        ``None`` if there are more than ``max_rows``, or the conditions leave a side of the box
        open.
        """
        (left, right), (bottom, top) = (_interval(name, conditions) for name in self.columns)
        if not all(map(math.isfinite, (left, right, bottom, top))):
            return None
        if left > right or bottom > top:
            return np.empty(0, np.int64)
        rows = self._tree.search((left, bottom, right, top))
        return None if rows.size > max_rows else rows


def _interval(column: str, conditions: Sequence[Predicate]) -> tuple[float, float]:
    """Return the bounds that conditions set to a column.

    >>> _interval("x", [Compare("x", ">", 1), Compare("x", "<=", 2), Compare("y", "==", 0)])
    (1.0, 2.0)
    """
    low, high = -math.inf, math.inf
    for condition in conditions:
        if not isinstance(condition, Compare) or condition.column != column:
            continue
        if condition.operator != "!=":
            value = float(condition.value)  # rounds as the coordinates were rounded
            low = max(low, value) if condition.operator in ("==", ">", ">=") else low
            high = min(high, value) if condition.operator in ("==", "<", "<=") else high
    return low, high


_ENTRY_BYTES: Final = 1024
_EVERY: Final = 16
"""The offset in the chunk is stored of every so many strings."""
_COUNT_BYTES: Final = 4
_LENGTH_BYTES: Final = 4
_BLOCK_BYTES: Final = 1 << 22
_BASE: Final = 0x9E3779B97F4A7C15
_INVERSE: Final = pow(_BASE, -1, 1 << 64)
_MIX: Final = 0xBF58476D1CE4E5B9

Hashes: TypeAlias = npt.NDArray[np.uint64]
Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""The arrays of an index by their names."""


class UnusedIndexWarning(errors.DafWarning):
    """An index is damaged or does not fit its table, so it is not used."""


def warn_of_index(owner: object, location: str, what: str, problem: str, remedy: str) -> None:
    """Warn of an index, once for an object that lives as long as a session."""
    text = f"{location}: the index {what} is not used: {problem}; {remedy}"
    errors.warn(text, UnusedIndexWarning, once_for=owner)


def hashes_of(strings: Any) -> Hashes:
    """Return the hash of each string of an Arrow array.

    >>> import pyarrow as pa
    >>> hashes_of(pa.array(["a", "b", "a"])).argsort(kind="stable").tolist()
    [1, 0, 2]
    """
    offsets = string_offsets(strings).astype(np.int64)
    data = np.frombuffer(strings.buffers()[2] or b"", np.uint8)
    hashes = np.empty(len(strings), np.uint64)
    first = 0
    while first < len(strings):
        # 1. Take as many strings as fit a block of bytes, one at least.
        last = int(np.searchsorted(offsets, offsets[first] + _BLOCK_BYTES, side="right")) - 1
        last = min(max(last, first + 1), len(strings))
        start, stop = int(offsets[first]), int(offsets[last])
        # 2. Weigh each byte by its position in the block: sums[i] is the polynomial of the first
        #    i bytes, and the difference of two sums is that of the bytes between them.
        weights = _powers(_BASE, stop - start + 1)
        sums = np.zeros(stop - start + 1, np.uint64)
        np.cumsum((data[start:stop].astype(np.uint64) + 1) * weights[:-1], out=sums[1:])
        begins = offsets[first:last] - start
        ends = offsets[first + 1 : last + 1] - start
        # 3. Divide by the weight of the first byte of each string (the base is odd, so it has an
        #    inverse modulo 2**64): what is left does not depend on where the string lies.
        total = (sums[ends] - sums[begins]) * _powers(_INVERSE, stop - start + 1)[begins]
        # 4. Mix in the length, and let the high bits reach the low ones.
        total ^= (ends - begins).astype(np.uint64) * np.uint64(_MIX)
        total ^= total >> np.uint64(32)
        hashes[first:last] = total * np.uint64(_MIX)
        first = last
    return hashes


def _powers(base: int, count: int) -> Hashes:
    """Return the first powers of a number, modulo 2 to the 64th."""
    powers = np.full(count, base, np.uint64)
    powers[0] = 1
    return np.cumprod(powers, out=powers)


def arrays_of_strings(strings: Any) -> Arrays:
    """Return the index of the strings of a column, at least one.

    >>> import pyarrow as pa
    >>> arrays_of_strings(pa.array(["a", "b", "a"]))["row"].tolist()
    [1, 0, 2]
    """
    hashes, offsets = hashes_of(strings), string_offsets(strings).astype(np.int64)
    order = np.argsort(hashes, kind="stable")
    every = np.arange(0, len(strings), _EVERY)
    starts = _COUNT_BYTES + offsets[every] - offsets[0] + _LENGTH_BYTES * every
    return {
        "key": hashes[order],
        "row": order.astype(np.uint32 if len(strings) < 1 << 32 else np.uint64),
        "start": starts.astype(np.uint64),
    }


class StringIndex:
    """A sorted index of strings by their hashes, which can read single strings.

    Parameters
    ----------
    column
        The name of the column.
    arrays
        As `arrays_of_strings` returns them.
    chunk
        The stored strings: a count, then the length and the bytes of each; ``None`` if they are
        stored otherwise.
    """

    def __init__(self, column: str, arrays: Arrays, chunk: memoryview | None) -> None:
        self.columns = (column,)
        self._arrays = arrays
        self._chunk = chunk

    def find(self, conditions: Sequence[Predicate], max_rows: int) -> Positions | None:
        """Return the rows for which all conditions on the column may be true, ascending.

        ``None`` if there are more than ``max_rows``, or no condition is of use.
        """
        keys, rows = self._arrays["key"], self._arrays["row"]
        found: Positions | None = None
        for condition in conditions:
            strings = _listed(condition)
            if strings is None:
                continue
            hashes = np.unique(hashes_of(pa.array(strings, pa.string())))
            first, last = np.searchsorted(keys, hashes), np.searchsorted(keys, hashes, "right")
            if int((last - first).sum()) > max_rows:
                continue
            parts = [rows[start:stop] for start, stop in zip(first, last, strict=True)]
            listed = np.sort(np.concatenate([rows[:0], *parts])).astype(np.int64)
            found = listed if found is None else np.intersect1d(found, listed)
        return found

    def strings(self, positions: Positions) -> pa.Array | None:
        """Return the strings of a few rows; ``None`` if the chunk is not at hand.

        Or if it is not what it was when the index was loaded.
        """
        chunk, found = self._chunk, list[str]()
        if chunk is None:
            return None
        starts = self._arrays["start"][positions // _EVERY].tolist()
        try:
            for first, position in zip(starts, positions.tolist(), strict=True):
                start = stop = first
                for _ in range(position % _EVERY + 1):
                    start = stop + _LENGTH_BYTES
                    stop = start + int(struct.unpack_from("<I", chunk, stop)[0])
                if stop > len(chunk):
                    return None
                found.append(bytes(chunk[start:stop]).decode())
            return pa.array(found, pa.string())
        except (struct.error, OverflowError, UnicodeDecodeError):
            return None


def _listed(condition: Predicate) -> Sequence[str] | None:
    """Return the strings that a condition lists, as engines write few of them: joined by OR."""
    if isinstance(condition, Or):
        lists = [_listed(part) for part in condition.parts]
        return None if None in lists else [each for listed in lists for each in listed or ()]
    if isinstance(condition, Compare) and condition.operator == "==":
        return (condition.value,)
    if isinstance(condition, In) and not condition.is_negated:
        return condition.values
    return None


@dataclass(frozen=True, slots=True)
class _CacheEntry:
    """An index, or that there is none; its arrays stay mapped."""

    index: Any
    nbytes: int = _ENTRY_BYTES


class StoredIndexes:
    """The indexes of the columns of one axis, as far as they fit what is stored now."""

    def __init__(self, daf: DafReader, axis: str) -> None:
        self._daf = daf
        self._axis = axis
        self._storage = IndexStorage(daf)

    def strings(self, column: str, cache: DecodedCache) -> StringIndex | None:
        """Return the sorted index of a column of strings, if there is one."""
        index: StringIndex | None = self._cached(IndexPlace(self._axis, "lookup", (column,)), cache)
        return index

    def zone_map(self, column: str, cache: DecodedCache) -> ZoneMap | None:
        """Return the stored zone map of a column, if there is one."""
        place = IndexPlace(self._axis, "ranges", (column,))
        zone_map: ZoneMap | None = self._load(place, cache)
        return zone_map

    def find(self, columns: Sequence[str], cache: DecodedCache) -> list[RowIndex]:
        """Return the indexes of some columns: of one of them, or over two."""
        pairs = [
            (x, y)
            for x in columns
            for y in set(self._storage.partners(self._axis, x)) & set(columns)
        ]
        places = [IndexPlace(self._axis, "lookup", (column,)) for column in columns]
        places += [IndexPlace(self._axis, "points", pair) for pair in pairs]
        indexes = [self._cached(place, cache) for place in places]
        return [index for index in indexes if index is not None]

    def _cached(self, place: IndexPlace, cache: DecodedCache) -> Any:
        identity = self._storage.identity(place)
        if identity is None:
            return None
        entry: _CacheEntry = cache.get(
            (self._daf.location, place.path),
            identity,
            lambda: _CacheEntry(self._load(place, cache)),
        )
        return entry.index

    def _load(self, place: IndexPlace, cache: DecodedCache) -> Any:
        """Return an index; ``None`` if none fits, with a warning if one is damaged."""
        if is_remote(self._daf.location) and not can_have_sidecar(self._daf):
            return None  # reading it would be a download
        stored = self._storage.load(place)
        if stored is None or stored.state == "stale":
            return None
        problem = stored.problem
        if stored.state == "fit":
            try:
                return self._index(place, stored.arrays)
            except errors.DafError:  # no library for R-trees; or what it is of is damaged itself
                return None
            except (ValueError, IndexError) as error:
                problem = str(error)
        status = sidecar_status(self._daf)  # of the data set that has the indexes, if not itself
        location = self._daf.location if status is None else status.path
        remedy = f"'daf repair {errors.in_shell(location)}' builds it again"
        warn_of_index(cache, self._daf.location, place.path, problem, remedy)
        return None

    def _index(self, place: IndexPlace, arrays: Arrays) -> Any:
        """Return the index that arrays are, which are what was stored."""
        daf, column = self._daf, place.columns[0]
        length = daf.axis_length(place.axis)
        if place.kind == "points":
            x, y = place.columns
            return PointIndex(x, y, RTree.open(arrays["rtree"], length))
        if place.kind == "ranges":
            low, high, nulls = (np.array(arrays[name]) for name in ("low", "high", "null"))
            return ZoneMap(low, high, length, zone_rows=int(arrays["zone"][0]), nulls=nulls)
        return StringIndex(column, arrays, daf.string_array(place.axis, column).plain_strings())


_DISTINCT_DIVISOR: Final = 4
"""By default, strings are indexed if at least one in so many is distinct."""

_BYTES_PER_ROW: Final = 16
_BLOCK_ROWS: Final = 1 << 20

IndexNames: TypeAlias = Mapping[str, Sequence[str] | None]
"""Which vectors are to be found by value, by their axis; None for those with many strings."""


def build_index(
    daf: DafWriter,
    axis: str,
    names: Sequence[str] | None = None,
    *,
    progress: ShowProgress = "auto",
) -> list[str]:
    """Build indexes of vectors and store them in the data set; return their names.

    Parameters
    ----------
    names
        Vectors (a string is one), or ``name`` for the entries: rows with some strings are found
        without a look at the others afterwards.  Of a numeric one its zone map is stored, which
        takes next to no space, and lets the first query leave out ranges of rows.  By default the
        entries, all vectors with many distinct strings, and the zone maps of the numeric ones.
    progress
        Whether to show a bar on stderr.

    Returns
    -------
    list of str
        The names, in the order given; by default, of those whose rows can be found by value.

    Raises
    ------
    VectorNotFoundError
        There is no such vector.
    InvalidInputError
        It is ``index``, or a vector of Bool, which needs none.
    InUseError
        A vector was changed meanwhile; its index was not stored.
    AppendOnlyError
        An archive has an index that does not fit; `rebuild_indexes` replaces it.

    Notes
    -----
    An index takes 12 to 13 bytes per row.  It is no longer used once its vector was changed, by any
    program: build it again.

    Examples
    --------
    >>> import daf_storage
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["A", "B", "C"])
    >>> daf.set_vector("cell", "age", [30, 60, 90])
    >>> build_index(daf, "cell", ["name", "age"])
    ['name', 'age']
    """
    requested = [names] if isinstance(names, str) else names
    chosen = [NAME, *sorted(daf.vectors_set(axis))] if requested is None else list(requested)
    total = len(chosen) * daf.axis_length(axis) * _BYTES_PER_ROW
    with progress_bar("index", total, show=progress) as bar:
        is_requested = names is not None
        return [name for name in chosen if _build(daf, axis, name, bar, is_requested=is_requested)]


def build_point_index(daf: DafWriter, axis: str, x: str, y: str) -> int:
    """Build an R-tree over two vectors of coordinates; return how many points it has.

    Queries for a box (``x BETWEEN 1 AND 2 AND y BETWEEN 3 AND 4``) and for a polygon
    (``ST_Within(ST_Point(x, y), ...)``) use it.  Needs the extra ``spatial``.

    Parameters
    ----------
    x, y
        Numeric vectors of the axis; an entry of which one is NaN is in no box.

    Raises
    ------
    InvalidInputError
        One of them holds no numbers.
    InUseError
        One of them was changed meanwhile; the index was not stored.
    """
    for name in (x, y):
        if name in (NAME, INDEX) or daf.vector_info(axis, name).storage_type.is_string:
            raise errors.InvalidInputError(
                f"{daf.location}: {name!r} of axis {axis!r} holds no numbers, which coordinates are"
            )
    if not daf.axis_length(axis):  # the library has no trees without points
        return 0
    storage = IndexStorage(daf)
    source = storage.source(IndexPlace(axis, "points", (x, y)))
    east, north = (daf.get_np_vector(axis, name) for name in (x, y))
    storage.store(source, {"rtree": rtree_of([east, north, east, north])})
    return len(east)


def rebuild_indexes(path: str | Path) -> list[str]:
    """Build damaged and stale indexes again; return what was done.

    Parameters
    ----------
    path
        A data set, or an archive of several.

    Returns
    -------
    list of str
        What was done, a sentence each; empty if all indexes are fit.

    Notes
    -----
    Of an archive, whose entries are never changed, the old index is only taken out of the
    directory: its bytes stay.
    """
    done = []
    for data_set in data_set_paths(path):
        with open_daf(data_set) as daf:
            unfit = _unfit(daf)
        if not unfit:
            continue
        with open_daf(data_set, "r+") as writer:
            assert isinstance(writer, DafWriter)  # noqa: S101 - that is what the mode means
            for place in unfit:  # all of them first: a sorted index is built with its zone map
                IndexStorage(writer).discard(place)
            done += [_rebuilt(writer, place, state) for place, state in unfit.items()]
    return done


def _unfit(daf: DafReader) -> dict[IndexPlace, str]:
    """Return the indexes that cannot be used, and in which state they are."""
    storage = IndexStorage(daf)
    stored = {place: storage.load(place) for place in storage.places()}
    states = {place: index.state for place, index in stored.items() if index is not None}
    return {place: state for place, state in states.items() if state != "fit"}


def _rebuilt(daf: DafWriter, place: IndexPlace, state: str) -> str:
    """Build an index that was taken away, as far as its vectors are still there."""
    try:
        if place.kind == "points":
            build_point_index(daf, place.axis, *place.columns)
        else:
            is_lookup = place.kind == "lookup"
            _build(daf, place.axis, place.columns[0], Progress(), is_requested=is_lookup)
    except DafError as error:
        return f"took away the index {place.path}, which was {state}: {error}"
    if IndexStorage(daf).identity(place) is None:
        return f"took away the index {place.path}, which was {state}: its vector has another type"
    return f"built the index {place.path} again, which was {state}"


def _build(daf: DafWriter, axis: str, name: str, bar: Progress, *, is_requested: bool) -> bool:
    """Build the index of one vector; return whether it counts as one that was asked for."""
    info = None if name == INDEX else daf.vector_info(axis, name)
    if is_requested and (info is None or info.storage_type is StorageType.BOOL):
        raise errors.InvalidInputError(
            f"{daf.location}: {name!r} of axis {axis!r} needs no index; build one of a vector of "
            "strings or numbers, or of 'name'"
        )
    if info is None or info.length == 0:
        return False
    is_string, storage = info.storage_type.is_string, IndexStorage(daf)
    place = IndexPlace(axis, "lookup" if is_string else "ranges", (name,))
    stored = storage.load(place)
    if stored is None or stored.state != "fit":  # an archive cannot replace one, and need not
        source = storage.source(place)
        if is_string:
            strings = daf.string_array(axis, name).read_strings()
            is_default = not is_requested and name != NAME
            if is_default and len(strings.unique()) * _DISTINCT_DIVISOR < len(strings):
                return False
            storage.store(source, arrays_of_strings(strings))
        else:
            storage.store(source, _zones_of(daf, info))
    bar.add(info.length * _BYTES_PER_ROW)
    return is_string or is_requested


def _zones_of(daf: DafReader, info: VectorInfo) -> Arrays:
    """Return the arrays of the zone map of a vector of numbers."""
    read = daf.open_vector(info.axis, info.name).reader()
    zone_map = ZoneMap.unknown(info.length, info.storage_type.dtype)
    for span in spans_of_length(info.length, _BLOCK_ROWS):
        zone_map.record(span, read(span))
    return zone_map.arrays


def accelerated(
    daf: DafReader,
    matrices: str | Sequence[str],
    *,
    indexes: IndexNames | None = None,
    path: str | None = None,
    max_bytes: int | None = None,
    progress: ShowProgress = "auto",
) -> SidecarStatus:
    """Write the sidecar of a data set with indexes in it; see `daf_storage.write_sidecar`.

    It is written again, and so are the indexes that are there.
    """
    status = sidecar_status(daf)
    wanted: list[tuple[str, str | None]] = []
    for axis, names in (indexes or {}).items():
        wanted += [(axis, None)] if names is None else [(axis, name) for name in names]
    wanted += _pairs(() if status is None else status.indexes)
    columns = list(dict.fromkeys((axis, name or NAME) for axis, name in wanted))
    status = write_sidecar(
        daf, matrices, columns=columns, path=path, max_bytes=max_bytes, progress=progress
    )
    return _indexed(daf, status, wanted, progress)


def refreshed(daf: DafReader, *, progress: ShowProgress = "auto") -> SidecarStatus:
    """Make a sidecar fit its source again, with the indexes that it had."""
    wanted = _pairs(sidecar_indexes(daf))
    return _indexed(daf, refresh_sidecar(daf, progress=progress), wanted, progress)


def _pairs(indexes: Iterable[str]) -> list[tuple[str, str | None]]:
    """Return of which axis and which vector indexes are, as a sidecar lists them."""
    return [(axis, name) for axis, _, name in (each.partition("/") for each in indexes)]


def _indexed(
    daf: DafReader,
    status: SidecarStatus,
    wanted: Sequence[tuple[str, str | None]],
    progress: ShowProgress,
) -> SidecarStatus:
    """Build the indexes of vectors in a sidecar; without a name, those of all that need one."""
    if wanted:
        with open_daf(status.path, "r+") as sidecar:
            assert isinstance(sidecar, DafWriter)  # noqa: S101 - that is what the mode means
            for axis, name in dict.fromkeys(wanted):
                if name is None or _has(sidecar, axis, name):
                    build_index(sidecar, axis, name, progress=progress)
    return sidecar_status(daf) or status


def _has(daf: DafReader, axis: str, name: str) -> bool:
    return daf.has_axis(axis) and (name == NAME or name in daf.vectors_set(axis))
