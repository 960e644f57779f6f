"""Build the indexes of the vectors of an axis, and store them beside the data.

Those of a data set that is read in place are built in its sidecar, of the copies there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from daf_query.index._rtree import rtree_of
from daf_query.index._stored import arrays_of_strings
from daf_query.scan import INDEX, NAME, ZoneMap
from daf_storage import (
    DafError,
    DafReader,
    DafWriter,
    Progress,
    ShowProgress,
    SidecarStatus,
    errors,
    open_daf,
    refresh_sidecar,
    sidecar_status,
    write_sidecar,
)
from daf_storage.base import Span, StorageType, progress_bar
from daf_storage.upkeep import IndexPlace, IndexStorage, data_set_paths, sidecar_indexes

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
        _check_numbers(daf, axis, name)
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
        elif place.kind == "lookup":
            build_index(daf, place.axis, place.columns, progress="never")
        else:
            _build_zone_map(daf, place.axis, place.columns[0])
    except DafError as error:
        return f"took away the index {place.path}, which was {state}: {error}"
    if IndexStorage(daf).identity(place) is None:
        return f"took away the index {place.path}, which was {state}: numbers have a zone map"
    return f"built the index {place.path} again, which was {state}"


def _check_numbers(daf: DafReader, axis: str, name: str) -> None:
    if name in (NAME, INDEX) or daf.vector_info(axis, name).storage_type.is_string:
        raise errors.InvalidInputError(
            f"{daf.location}: {name!r} of axis {axis!r} holds no numbers, which coordinates are"
        )


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
    size_bytes = info.length * _BYTES_PER_ROW
    if not info.storage_type.is_string:
        _build_zone_map(daf, axis, name)
        bar.add(size_bytes)
        return is_requested
    storage, place = IndexStorage(daf), IndexPlace(axis, "lookup", (name,))
    if _is_fit(storage, place):
        return True  # an archive could not replace it, and need not
    source = storage.source(place)
    strings = daf.string_array(axis, name).read_strings()
    is_default = not is_requested and name != NAME
    if is_default and len(strings.unique()) * _DISTINCT_DIVISOR < len(strings):
        return False
    storage.store(source, arrays_of_strings(strings))
    bar.add(size_bytes)
    return True


def _is_fit(storage: IndexStorage, place: IndexPlace) -> bool:
    stored = storage.load(place)
    return stored is not None and stored.state == "fit"


def _build_zone_map(daf: DafWriter, axis: str, name: str) -> None:
    storage, place = IndexStorage(daf), IndexPlace(axis, "ranges", (name,))
    if _is_fit(storage, place):
        return
    source = storage.source(place)
    info = daf.vector_info(axis, name)
    read = daf.open_vector(axis, name).reader()
    zone_map = ZoneMap.unknown(info.length, info.storage_type.dtype)
    for start in range(0, info.length, _BLOCK_ROWS):
        span = Span(start, min(start + _BLOCK_ROWS, info.length))
        zone_map.record(span, read(span))
    storage.store(source, zone_map.arrays)


def accelerated(
    daf: DafReader,
    matrices: str | Sequence[str],
    *,
    indexes: IndexNames | None = None,
    path: str | None = None,
    max_bytes: int | None = None,
    progress: ShowProgress = "auto",
) -> SidecarStatus:
    """Write the sidecar of a data set with indexes in it; see `daf_storage.write_sidecar`."""
    wanted = _with_existing(daf, indexes or {})
    columns = [(axis, name) for axis, names in wanted.items() for name in names or [NAME]]
    status = write_sidecar(
        daf, matrices, columns=columns, path=path, max_bytes=max_bytes, progress=progress
    )
    return _indexed(daf, status, wanted, progress)


def refreshed(daf: DafReader, *, progress: ShowProgress = "auto") -> SidecarStatus:
    """Make a sidecar fit its source again, with the indexes that it had."""
    wanted = _grouped(sidecar_indexes(daf))
    return _indexed(daf, refresh_sidecar(daf, progress=progress), wanted, progress)


def _with_existing(daf: DafReader, indexes: IndexNames) -> IndexNames:
    """Return which indexes are wanted, and which are there: the sidecar is written again."""
    status = sidecar_status(daf)
    used = _grouped(() if status is None else status.indexes)
    wanted: dict[str, Sequence[str] | None] = dict(indexes)
    for axis, names in used.items():
        if wanted.get(axis, ()) is not None:
            wanted[axis] = list(dict.fromkeys([*(wanted.get(axis) or ()), *(names or ())]))
    return wanted


def _grouped(indexes: Iterable[str]) -> IndexNames:
    groups: dict[str, list[str]] = {}
    for index in indexes:
        axis, _, name = index.partition("/")
        groups.setdefault(axis, []).append(name)
    return dict(groups)


def _indexed(
    daf: DafReader, status: SidecarStatus, wanted: IndexNames, progress: ShowProgress
) -> SidecarStatus:
    if any(names is None or names for names in wanted.values()):
        with open_daf(status.path, "r+") as sidecar:
            assert isinstance(sidecar, DafWriter)  # noqa: S101 - that is what the mode means
            for axis, names in wanted.items():
                present = None if names is None else [n for n in names if _has(sidecar, axis, n)]
                if present != []:
                    build_index(sidecar, axis, present, progress=progress)
    return sidecar_status(daf) or status


def _has(daf: DafReader, axis: str, name: str) -> bool:
    return daf.has_axis(axis) and (name == NAME or name in daf.vectors_set(axis))
