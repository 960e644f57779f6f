"""Load the stored indexes of an axis, and check them before they are used.

An index that is stale is passed over.  One that is damaged, or whose numbers do not make sense, is
passed over with one warning per session; `daf_storage.verify` lists it, and ``daf repair`` builds
it again.  How indexes are stored, and how a damaged one is told: `daf_storage.spi.IndexStorage`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from daf_query.index._faults import UnfitIndexError, part, warn_once
from daf_query.index._point_index import PointIndex
from daf_query.index._rtree import RTree
from daf_query.index._sorted_index import NumberIndex, PostingLists, StringIndex
from daf_query.scan import ZoneMap
from daf_storage import DafReader, errors
from daf_storage.spi import DecodedCache, IndexPlace, IndexStorage, is_remote

_HELD_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class _Found:
    """An index that was looked for; what is mapped stays mapped."""

    index: Any

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return _HELD_BYTES


class StoredIndexes:
    """The indexes of the columns of one axis, as far as there are some that fit."""

    def __init__(self, daf: DafReader, axis: str) -> None:
        self._daf = daf
        self._axis = axis
        self._storage = IndexStorage(daf)

    def lookup(self, name: str, cache: DecodedCache) -> Any:
        """Return what finds rows by the value of a column; None if nothing does."""
        return self._cached(IndexPlace(self._axis, "lookup", (name,)), cache)

    def ranges(self, name: str, cache: DecodedCache) -> ZoneMap | None:
        """Return the smallest and largest values that are stored."""
        place = IndexPlace(self._axis, "ranges", (name,))
        found: ZoneMap | None = self._read(place, cache)
        return found

    def points(self, names: Sequence[str], cache: DecodedCache) -> list[PointIndex]:
        """Return the R-trees over two of some columns."""
        found = []
        for x in names:
            for y in set(self._storage.partners(self._axis, x)) & set(names):
                points = self._cached(IndexPlace(self._axis, "points", (x, y)), cache)
                found += [] if points is None else [points]
        return found

    def _cached(self, place: IndexPlace, cache: DecodedCache) -> Any:
        identity = self._storage.identity(place)
        if identity is None:
            return None
        found: _Found = cache.get(
            (self._daf.location, place.path), identity, lambda: _Found(self._read(place, cache))
        )
        return found.index

    def _read(self, place: IndexPlace, cache: DecodedCache) -> Any:
        """Return an index; None if there is none that fits, with a warning if it is damaged."""
        if is_remote(self._daf.location):  # reading it would be a download
            return None
        stored = self._storage.load(place)
        if stored is None or stored.state == "stale":
            return None
        problem = stored.problem
        if stored.state == "fit":
            try:
                return self._made(place, stored.arrays)
            except errors.MissingDependencyError:  # an R-tree, and the library is not installed
                return None
            except UnfitIndexError as error:
                problem = str(error)
        remedy = f"'daf repair {self._daf.location}' builds it again"
        warn_once(cache, self._daf.location, place.path, problem, remedy)
        return None

    def _made(self, place: IndexPlace, arrays: Mapping[str, npt.NDArray[Any]]) -> Any:
        """Return what finds rows by the arrays of an index, after checking all of them."""
        daf, name = self._daf, place.columns[0]
        length = daf.axis_length(place.axis)
        if place.kind == "points":
            return PointIndex(name, place.columns[1], RTree.open(_bytes(arrays), length))
        kind = daf.vector_info(place.axis, name).storage_type
        if place.kind == "ranges":
            return _zone_map(arrays, length, kind.dtype)
        if kind.is_string:
            chunk = daf.string_array(place.axis, name).plain_strings()
            return StringIndex.from_arrays(arrays, length, chunk)
        return NumberIndex(PostingLists.from_arrays(arrays, length, kind.dtype))


def _zone_map(arrays: Mapping[str, npt.NDArray[Any]], length: int, kind: np.dtype[Any]) -> ZoneMap:
    """Return the zone map of a column of some type out of copies of its arrays."""
    low, high = (np.array(part(arrays, name, kind)) for name in ("low", "high"))
    nulls, rows = (np.array(part(arrays, name, np.int64)) for name in ("null", "zone"))
    if len(rows) != 1:
        raise UnfitIndexError("it does not say how many rows each of its ranges has")
    try:
        return ZoneMap.from_bounds(low, high, nulls, length, zone_rows=int(rows[0]))
    except ValueError as error:
        raise UnfitIndexError(str(error)) from None


def _bytes(arrays: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.uint8]:
    found = arrays.get("rtree")
    if found is None:
        raise UnfitIndexError("it has no array 'rtree'")
    return found
