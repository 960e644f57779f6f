"""Load stored indexes, and check them before they are used.

A stale index is passed over.  One that is damaged, or whose numbers do not make sense, is passed
over with one warning per session; `daf_storage.verify` lists it, and ``daf repair`` builds it
again.  Sorted indexes are checked where they are read, so that the first look-up takes about as
long in any number of rows.  How they are stored, and how damage is detected: `daf_storage.upkeep`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from daf_query.index._faults import UnfitIndexError, list_of, warn_once
from daf_query.index._rtree import PointIndex, RTree
from daf_query.index._sorted_index import NumberIndex, PostingLists, StringIndex
from daf_query.scan import ZoneMap
from daf_storage import DafReader, errors, sidecar_status
from daf_storage.base import DecodedCache
from daf_storage.stores import is_remote
from daf_storage.upkeep import IndexKind, IndexPlace, IndexStorage, PagedArray

_ENTRY_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class _CacheEntry:
    """An index, or that there is none; its arrays stay mapped."""

    index: Any

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return _ENTRY_BYTES


class StoredIndexes:
    """The indexes of the columns of one axis, as far as they fit what is stored now."""

    def __init__(self, daf: DafReader, axis: str) -> None:
        self._daf = daf
        self._axis = axis
        self._storage = IndexStorage(daf)

    def numbers(self, column: str, cache: DecodedCache) -> NumberIndex | None:
        """Return the sorted index of a column of numbers, if there is one."""
        index: NumberIndex | None = self._cached("lookup", (column,), cache)
        return index

    def strings(self, column: str, cache: DecodedCache) -> StringIndex | None:
        """Return the sorted index of a column of strings, if there is one."""
        index: StringIndex | None = self._cached("lookup", (column,), cache)
        return index

    def zone_map(self, column: str, cache: DecodedCache) -> ZoneMap | None:
        """Return the stored zone map of a column, if there is one."""
        place = IndexPlace(self._axis, "ranges", (column,))
        zone_map: ZoneMap | None = self._load(place, cache)
        return zone_map

    def points(self, columns: Sequence[str], cache: DecodedCache) -> list[PointIndex]:
        """Return the R-tree indexes over two of some columns."""
        pairs = [
            (x, y)
            for x in columns
            for y in set(self._storage.partners(self._axis, x)) & set(columns)
        ]
        indexes = [self._cached("points", pair, cache) for pair in pairs]
        return [index for index in indexes if index is not None]

    def _cached(self, kind: IndexKind, columns: tuple[str, ...], cache: DecodedCache) -> Any:
        place = IndexPlace(self._axis, kind, columns)
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
        if is_remote(self._daf.location):  # reading it would be a download
            return None
        is_lookup = place.kind == "lookup"
        stored = self._storage.open(place) if is_lookup else self._storage.load(place)
        if stored is None or stored.state == "stale":
            return None
        remedy = f"'daf repair {_location(self._daf)}' builds it again"
        owner: weakref.ref[DecodedCache] = weakref.ref(cache)
        report = partial(_warn, owner, self._daf.location, place.path, remedy)
        if stored.state != "fit":
            report(stored.problem)
            return None
        try:
            if is_lookup:
                return self._lookup(place, stored.arrays, report)
            return self._checked(
                place, {name: array.whole() for name, array in stored.arrays.items()}
            )
        except errors.MissingDependencyError:  # an R-tree, and the library is not installed
            return None
        except (UnfitIndexError, errors.CorruptDataError) as error:
            report(error)
            return None

    def _lookup(
        self, place: IndexPlace, arrays: Mapping[str, PagedArray], report: Callable[[object], None]
    ) -> NumberIndex | StringIndex:
        """Return a sorted index, whose pages are checked where they are read."""
        daf, column = self._daf, place.columns[0]
        length = daf.axis_length(place.axis)
        storage_type = daf.vector_info(place.axis, column).storage_type
        index: NumberIndex | StringIndex
        if storage_type.is_string:
            chunk = daf.string_array(place.axis, column).plain_strings()
            index = StringIndex.from_arrays(column, arrays, length, report, chunk)
        else:
            postings = PostingLists.from_arrays(arrays, length, storage_type.dtype)
            index = NumberIndex(column, postings, report)
        return index

    def _checked(self, place: IndexPlace, arrays: Mapping[str, npt.NDArray[Any]]) -> Any:
        """Return an R-tree or a zone map of some arrays, after checking all of them."""
        length = self._daf.axis_length(place.axis)
        if place.kind == "points":
            tree = RTree.open(list_of(arrays, "rtree", np.uint8), length)
            return PointIndex(place.columns[0], place.columns[1], tree)
        storage_type = self._daf.vector_info(place.axis, place.columns[0]).storage_type
        return _zone_map(arrays, length, storage_type.dtype)


def _warn(
    owner: weakref.ref[DecodedCache], location: str, path: str, remedy: str, problem: object
) -> None:
    """Warn once that an index is not used, while there is who made it; refers to no data set."""
    if (found := owner()) is not None:
        warn_once(found, location, path, str(problem), remedy)


def _location(daf: DafReader) -> str:
    """Return the path of the data set that has the indexes: a sidecar, or itself."""
    status = sidecar_status(daf)
    return daf.location if status is None else status.path


def _zone_map(arrays: Mapping[str, npt.NDArray[Any]], length: int, dtype: np.dtype[Any]) -> ZoneMap:
    """Return the zone map of a column of some type out of copies of its arrays."""
    low, high = (np.array(list_of(arrays, name, dtype)) for name in ("low", "high"))
    nulls, zone_rows = (np.array(list_of(arrays, name, np.int64)) for name in ("null", "zone"))
    if len(zone_rows) != 1:
        raise UnfitIndexError("it does not say how many rows each of its zones has")
    try:
        return ZoneMap.from_bounds(low, high, nulls, length, zone_rows=int(zone_rows[0]))
    except ValueError as error:
        raise UnfitIndexError(str(error)) from None
