"""Load stored indexes, which are verified before they are used.

A stale index is passed over.  One that is damaged is passed over with one warning per session;
`daf_storage.verify` lists it, and ``daf repair`` builds it again.  How they are stored, and how
damage is detected: `daf_storage.upkeep`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from daf_query.index._faults import UnfitIndexError, warn_once
from daf_query.index._rtree import PointIndex, RTree
from daf_query.index._sorted_index import Arrays, StringIndex
from daf_query.scan import ZoneMap
from daf_storage import DafReader, errors, sidecar_status
from daf_storage.base import DecodedCache
from daf_storage.stores import is_remote
from daf_storage.upkeep import IndexPlace, IndexStorage, can_have_sidecar

_ENTRY_BYTES: Final = 1024


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

    def points(self, columns: Sequence[str], cache: DecodedCache) -> list[PointIndex]:
        """Return the R-tree indexes over two of some columns."""
        places = [
            IndexPlace(self._axis, "points", (x, y))
            for x in columns
            for y in set(self._storage.partners(self._axis, x)) & set(columns)
        ]
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
            except errors.MissingDependencyError:  # an R-tree, and the library is not installed
                return None
            except UnfitIndexError as error:
                problem = str(error)
        remedy = f"'daf repair {_location(self._daf)}' builds it again"
        warn_once(cache, self._daf.location, place.path, problem, remedy)
        return None

    def _index(self, place: IndexPlace, arrays: Arrays) -> Any:
        """Return the index that arrays are, which are what was stored."""
        daf, column = self._daf, place.columns[0]
        length = daf.axis_length(place.axis)
        if place.kind == "points":
            x, y = place.columns
            return PointIndex(x, y, RTree.open(arrays["rtree"], length))
        if place.kind == "ranges":
            return _zone_map(arrays, length)
        if not len(arrays["key"]) == len(arrays["row"]) == length:
            raise UnfitIndexError(f"it has not one row for each of {length:,}")
        return StringIndex(column, arrays, daf.string_array(place.axis, column).plain_strings())


def _location(daf: DafReader) -> str:
    """Return the path of the data set that has the indexes: a sidecar, or itself."""
    status = sidecar_status(daf)
    return daf.location if status is None else status.path


def _zone_map(arrays: Arrays, length: int) -> ZoneMap:
    """Return the zone map of a column out of copies of its arrays."""
    low, high, nulls = (np.array(arrays[name]) for name in ("low", "high", "null"))
    try:
        return ZoneMap.from_bounds(low, high, nulls, length, zone_rows=int(arrays["zone"][0]))
    except (ValueError, IndexError) as error:
        raise UnfitIndexError(str(error)) from None
