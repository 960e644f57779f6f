"""Indexes of the vectors of an axis, stored beside the data: built, found, told from stale ones.

They lie in the group ``indexes``, as plain arrays that other readers ignore:

- ``indexes/AXIS/NAME/lookup``: the rows of a vector in the order of its values, or of the hashes of
  its texts (`lookups`).
- ``indexes/AXIS/NAME/ranges``: the smallest and largest values of ranges of rows (`zones`).
- ``indexes/AXIS/X/points/Y``: an R-tree over two vectors of coordinates (`points`).

Each carries the stamp of what it was made of: the sizes and times of the files where there are any,
and a checksum.  If both are others by now, the index is not used.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from daf_query.columns import INDEX, NAME
from daf_query.hashing import hashes_of, offsets_of
from daf_query.lookups import COUNT_BYTES, EVERY, LENGTH_BYTES, NumberLookup, Postings, TextLookup
from daf_query.points import PointLookup
from daf_query.zones import ZONE_ROWS, ZoneMap
from daf_storage import (
    DafError,
    DafReader,
    DafWriter,
    DecodedCache,
    Progress,
    ShowProgress,
    Span,
    StorageType,
    StoredArray,
    errors,
    is_remote,
    optional_import,
    progress_bar,
)

GROUP: Final = "indexes"
LOOKUP: Final = "lookup"
RANGES: Final = "ranges"
POINTS: Final = "points"

_VERSION: Final = 2
_MANY: Final = 4
_BYTES_PER_ROW: Final = 16
_BLOCK_ROWS: Final = 1 << 20

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]


def build_index(
    daf: DafWriter,
    axis: str,
    names: Sequence[str] | None = None,
    *,
    progress: ShowProgress = "auto",
) -> list[str]:
    """Build indexes of vectors and store them in the data set; return of which.

    Parameters
    ----------
    names
        Vectors, or ``name`` for the entries: their rows can be found by value afterwards.  By
        default the entries and all vectors with many distinct strings; of the numeric ones, only
        the smallest and largest values of ranges of rows are noted, which takes no space to
        speak of.
    progress
        Whether to show a bar on stderr.

    Returns
    -------
    list of str
        The names, in the order given.

    Raises
    ------
    VectorNotFoundError
        There is no such vector.
    InvalidInputError
        It is ``index``, or a vector of Bool, which needs none.

    Notes
    -----
    An index takes 12 to 16 bytes per row, 5 where few values are distinct.  It is not used any
    more once its vector has changed, by whichever program: build it again.

    Examples
    --------
    >>> import daf_storage
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["A", "B", "C"])
    >>> daf.set_vector("cell", "age", [30, 60, 90])
    >>> build_index(daf, "cell", ["name", "age"])
    ['name', 'age']
    """
    chosen = [NAME, *sorted(daf.vectors_set(axis))] if names is None else list(names)
    total = len(chosen) * daf.axis_length(axis) * _BYTES_PER_ROW
    with progress_bar("index", total, show=progress) as bar:
        is_wanted = names is not None
        return [name for name in chosen if _build(daf, axis, name, bar, is_wanted=is_wanted)]


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
    """
    sides = [_numbers(daf, axis, name) for name in (x, y)]
    if not len(sides[0]):  # the library has no trees without points
        return 0
    rtree = optional_import("geoindex_rs.rtree", extra="spatial")
    builder = rtree.RTreeBuilder(num_items=len(sides[0]))
    east, north = _placed(sides)
    builder.add(east, north, east, north)
    data = np.frombuffer(builder.finish(), np.uint8)
    path = f"{GROUP}/{axis}/{x}/{POINTS}/{y}"
    _store(daf, path, _sources(daf, axis, [x, y]), {"rtree": data})
    return len(east)


def _numbers(daf: DafReader, axis: str, name: str) -> npt.NDArray[Any]:
    info = daf.vector_info(axis, name)
    if info.storage_type.is_string or name in (NAME, INDEX):
        raise errors.InvalidInputError(
            f"{daf.location}: {name!r} of axis {axis!r} holds no numbers, which coordinates are"
        )
    values: npt.NDArray[Any] = daf.open_vector(axis, name).read(Span(0, info.length))
    return values


def _placed(sides: list[npt.NDArray[Any]]) -> list[npt.NDArray[np.float64]]:
    """Return coordinates with those that are not finite put somewhere.

    No box with bounds has them, and an index may name too many rows.
    """
    # The library takes native arrays alone, by the format of their buffers.
    points = [side.astype("=f8") for side in sides]
    is_placed = np.isfinite(points[0]) & np.isfinite(points[1])
    for point in points:
        point[~is_placed] = 0.0
    return points


def _build(daf: DafWriter, axis: str, name: str, bar: Progress, *, is_wanted: bool) -> bool:
    """Build the index of one vector; return whether its rows can be found by it."""
    info = None if name == INDEX else daf.vector_info(axis, name)
    if is_wanted and (info is None or info.storage_type is StorageType.BOOL):
        raise errors.InvalidInputError(
            f"{daf.location}: {name!r} of axis {axis!r} needs no index; build one of a vector of "
            "strings or numbers, or of 'name'"
        )
    if info is None or info.length == 0:
        return False
    sources = _sources(daf, axis, [name])
    path = f"{GROUP}/{axis}/{name}"
    step = info.length * _BYTES_PER_ROW // 4
    if not info.storage_type.is_string:
        _build_ranges(daf, axis, name, sources)
    if not is_wanted and not info.storage_type.is_string:
        return False
    if _fitting(daf, f"{path}/{LOOKUP}", sources) is not None:
        return True  # an archive could not replace it, and need not
    if info.storage_type.is_string:
        texts = sources[0].read_strings()
        bar.add(step)
        if not is_wanted and name != NAME and len(texts.unique()) * _MANY < len(texts):
            return False
        arrays = _of_texts(texts)
        bar.add(2 * step)
        _store(daf, f"{path}/{LOOKUP}", sources, arrays)
        bar.add(step)
        return True
    values = _numbers(daf, axis, name)
    order = np.argsort(values, kind="stable")
    if values.dtype.kind == "f":  # NaN comes last
        order = order[: len(values) - int(np.count_nonzero(np.isnan(values)))]
    postings = Postings.of(values, order, len(values))
    bar.add(3 * step)
    _store(daf, f"{path}/{LOOKUP}", sources, postings.arrays)
    bar.add(step)
    return True


def _of_texts(texts: Any) -> Arrays:
    hashes = hashes_of(texts)
    postings = Postings.of(hashes, np.argsort(hashes, kind="stable"), len(texts))
    offsets = offsets_of(texts)
    every = np.arange(0, len(texts), EVERY)
    starts = COUNT_BYTES + offsets[every] - offsets[0] + LENGTH_BYTES * every
    return {**postings.arrays, "start": starts.astype(np.uint64)}


def _build_ranges(daf: DafWriter, axis: str, name: str, sources: Sequence[StoredArray]) -> None:
    path = f"{GROUP}/{axis}/{name}/{RANGES}"
    if _fitting(daf, path, sources) is not None:
        return
    info = daf.vector_info(axis, name)
    read = daf.open_vector(axis, name).reader()
    zones = ZoneMap.of(info.length, info.storage_type.dtype)
    for start in range(0, info.length, _BLOCK_ROWS):
        span = Span(start, min(start + _BLOCK_ROWS, info.length))
        zones.learn(span, read(span))
    _store(daf, path, sources, zones.arrays)


def _store(daf: DafWriter, path: str, sources: Sequence[StoredArray], arrays: Arrays) -> None:
    """Put an index in place; a group on the way to it is made if it is missing."""
    stamp = np.array(
        [_VERSION, ZONE_ROWS, *_checksum(sources), *(_file_stamp(sources) or ())], np.int64
    )
    tree = daf.writable_tree
    with tree.transaction() as changes, tree.lock():
        parts = path.split("/")
        for group in ("/".join(parts[:n]) for n in range(1, len(parts))):
            if tree.kind(group) is None:
                changes.create_group(group)
                changes.publish(group, replace=False)
        changes.create_group(path)
        for name, values in {"stamp": stamp, **arrays}.items():
            changes.write_array(f"{path}/{name}", values)
        changes.publish(path, replace=tree.kind(path) is not None)


# Finding


@dataclass(frozen=True, slots=True)
class _Found:
    """An index that was looked for; what is mapped stays mapped."""

    index: Any

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return 1024


class StoredIndexes:
    """The indexes of the columns of one axis, as far as there are some that fit."""

    def __init__(self, daf: DafReader, axis: str) -> None:
        self._daf = daf
        self._axis = axis

    def lookup(self, name: str, cache: DecodedCache) -> Any:
        """Return what finds rows by the value of a column; None if nothing does."""
        return self._cached([name], f"{GROUP}/{self._axis}/{name}/{LOOKUP}", cache)

    def ranges(self, name: str) -> ZoneMap | None:
        """Return the smallest and largest values that are stored."""
        path = f"{GROUP}/{self._axis}/{name}/{RANGES}"
        if self._daf.tree.identity(path) is None:
            return None
        found: ZoneMap | None = _read(self._daf, self._axis, [name], path)
        return found

    def points(self, names: Sequence[str], cache: DecodedCache) -> list[PointLookup]:
        """Return the R-trees over two of some columns."""
        found = []
        for x in names:
            path = f"{GROUP}/{self._axis}/{x}/{POINTS}"
            if self._daf.tree.identity(path) is None:
                continue
            for y in sorted(set(self._daf.tree.children(path)) & set(names)):
                points = self._cached([x, y], f"{path}/{y}", cache)
                found += [] if points is None else [points]
        return found

    def _cached(self, names: Sequence[str], path: str, cache: DecodedCache) -> Any:
        daf, axis = self._daf, self._axis
        own = daf.tree.identity(path)
        if own is None:
            return None
        identity: Hashable = (own, *(daf.vector_identity(axis, name) for name in names))
        found: _Found = cache.get(
            (daf.location, path), identity, lambda: _Found(_read(daf, axis, names, path))
        )
        return found.index


def _read(daf: DafReader, axis: str, names: Sequence[str], path: str) -> Any:
    """Return an index; None if it is damaged or does not fit."""
    if is_remote(daf.location):  # reading it would be a download
        return None
    try:
        sources = _sources(daf, axis, names)
        arrays = _fitting(daf, path, sources)
    except DafError:
        return None
    if arrays is None:
        return None
    length = daf.axis_length(axis)
    if path.endswith(f"/{RANGES}"):
        return ZoneMap.from_arrays(arrays, length)
    if "rtree" in arrays:
        return PointLookup.of(names[0], names[1], arrays["rtree"], length)
    postings = Postings.from_arrays(arrays, length)
    if postings is None:
        return None
    if sources[0].info.storage_type.is_string:
        starts = arrays.get("start", np.empty(0))
        if len(postings) != length or len(starts) != -(-length // EVERY):
            return None
        return TextLookup(postings, starts, sources[0].plain_strings())
    is_same = postings.keys.dtype == daf.vector_info(axis, names[0]).storage_type.dtype
    return NumberLookup(postings) if is_same else None


def _fitting(daf: DafReader, path: str, sources: Sequence[StoredArray]) -> Arrays | None:
    """Return the arrays of an index if it was made of what is stored now; None otherwise."""
    node = daf.tree.node(path)
    stamp = None if node is None else node.array("stamp")
    if node is None or stamp is None:
        return None
    told = stamp.read().tolist()
    version, checksum, files = told[:2], told[2:4], told[4:]
    if version != [_VERSION, ZONE_ROWS]:
        return None
    if (not files or files != _file_stamp(sources)) and checksum != _checksum(sources):
        return None
    names = ("key", "row", "first", "start", "low", "high", "null", "rtree")
    stored = {name: node.array(name) for name in names}
    return {name: array.read() for name, array in stored.items() if array is not None}


def _sources(daf: DafReader, axis: str, names: Sequence[str]) -> list[StoredArray]:
    """Return the arrays that some columns consist of."""
    found: list[StoredArray] = []
    for name in names:
        if name == NAME:
            found.append(daf.text_array(axis, name))
        else:
            found += daf.open_vector(axis, name).all_arrays()
    return found


def _file_stamp(sources: Sequence[StoredArray]) -> list[int] | None:
    """Return the sizes and times of the files of some arrays; None if one has none to go by."""
    stamps = [source.stamp() for source in sources]
    return [number for stamp in stamps if stamp for number in stamp] if all(stamps) else None


def _checksum(sources: Sequence[StoredArray]) -> list[int]:
    """Return the size and the checksum of the contents of some arrays; reads all of them."""
    size = total = 0
    for source in sources:
        for part in _contents(source):
            size += len(part)
            total = zlib.crc32(part, total)
    return [size, total]


def _contents(source: StoredArray) -> list[Any]:
    if not source.info.storage_type.is_string:
        values = np.ascontiguousarray(source.read()).reshape(-1)
        return [values.view(np.uint8).data]
    plain = source.plain_strings()
    if plain is not None:
        return [plain]
    texts = source.read_strings()
    offsets = offsets_of(texts)
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    lengths = np.diff(offsets).astype("<u4")
    return [lengths.view(np.uint8).data, data.data]
