"""Load stored indexes, and check them before they are used.

A stale index is passed over.  One that is damaged, or whose numbers do not make sense, is passed
over with one warning per session; `daf_storage.verify` lists it, and ``daf repair`` builds it
again.  How indexes are stored, and how damage is detected: `daf_storage.spi.IndexStorage`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from daf_query.index._faults import UnfitIndexError, list_of, warn_once
from daf_query.index._point_index import PointIndex
from daf_query.index._rtree import RTree
from daf_query.index._sorted_index import NumberIndex, PostingLists, StringIndex
from daf_query.scan import ZoneMap
from daf_storage import DafReader, errors, sidecar_status
from daf_storage.spi import DecodedCache, IndexKind, IndexPlace, IndexStorage, is_remote

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
        stored = self._storage.load(place)
        if stored is None or stored.state == "stale":
            return None
        problem = stored.problem
        if stored.state == "fit":
            try:
                return self._checked(place, stored.arrays)
            except errors.MissingDependencyError:  # an R-tree, and the library is not installed
                return None
            except UnfitIndexError as error:
                problem = str(error)
        remedy = f"'daf repair {_location(self._daf)}' builds it again"
        warn_once(cache, self._daf.location, place.path, problem, remedy)
        return None

    def _checked(self, place: IndexPlace, arrays: Mapping[str, npt.NDArray[Any]]) -> Any:
        """Return an index of some arrays, after checking all of them."""
        daf, column = self._daf, place.columns[0]
        length = daf.axis_length(place.axis)
        if place.kind == "points":
            tree = RTree.open(list_of(arrays, "rtree", np.uint8), length)
            return PointIndex(column, place.columns[1], tree)
        storage_type = daf.vector_info(place.axis, column).storage_type
        if place.kind == "ranges":
            return _zone_map(arrays, length, storage_type.dtype)
        if storage_type.is_string:
            chunk = daf.string_array(place.axis, column).plain_strings()
            return StringIndex.from_arrays(column, arrays, length, chunk)
        return NumberIndex(column, PostingLists.from_arrays(arrays, length, storage_type.dtype))


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
