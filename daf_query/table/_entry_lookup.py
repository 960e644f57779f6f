"""The position of one entry of an axis, without a dictionary of all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from daf_query.index import StoredIndexes
from daf_query.scan import DEFAULT_OPTIONS, NAME, Compare, Rows, VectorColumn
from daf_storage import DafReader, errors
from daf_storage.spi import DecodedCache, Span

_ENTRY_BYTES: Final = 256
_MAX_CANDIDATES: Final = 16
_MAX_COMPARED: Final = 20_000


@dataclass(frozen=True, slots=True)
class _Position:
    """The position of an entry, for the cache."""

    position: int
    nbytes: int = _ENTRY_BYTES


def find_entry(daf: DafReader, axis: str, entry: str, cache: DecodedCache) -> int | None:
    """Return the position of an entry of an axis; ``None`` if it has no such entry.

    An index of the names is asked where there is one; else the names are compared, once per entry.
    """
    identity = daf.vector_identity(axis, NAME)
    key = (daf.location, axis, NAME, "position", entry)
    known: _Position | None = cache.peek(key, identity)
    if known is not None:
        return known.position
    position = _by_index(daf, axis, entry, cache)
    if position is None:
        names = _names(daf, axis, cache)
        position = int(pc.index(names, pa.scalar(entry, names.type)).as_py())
    if position < 0:
        return None
    return int(cache.get(key, identity, lambda: _Position(position)).position)


def require_entry(daf: DafReader, axis: str, entry: str, cache: DecodedCache) -> int:
    """Return the position of an entry of an axis.

    Raises
    ------
    EntryNotFoundError
        It has no such entry; the message names the nearest ones.
    """
    position = find_entry(daf, axis, entry, cache)
    if position is None:
        raise entry_not_found(daf, axis, entry, cache)
    return position


def entry_not_found(
    daf: DafReader, axis: str, entry: str, cache: DecodedCache
) -> errors.EntryNotFoundError:
    """Return an error that names the nearest entries; of very many, those that begin alike."""
    names = _names(daf, axis, cache)
    if len(names) > _MAX_COMPARED:
        alike = pc.starts_with(names, pattern=entry[:2], ignore_case=True)
        names = names.filter(alike)
    nearest = names.slice(0, _MAX_COMPARED).to_pylist()
    return errors.entry_not_found(daf.location, axis, entry, nearest)


def _by_index(daf: DafReader, axis: str, entry: str, cache: DecodedCache) -> int | None:
    """Return the position by the index of the names, -1 if it has no such name.

    ``None`` if there is no index, or it does not settle it.
    """
    index = StoredIndexes(daf, axis).strings(NAME, cache)
    if index is None:
        return None
    rows = index.find([Compare(NAME, "==", entry)], _MAX_CANDIDATES)
    names = None if rows is None else index.strings(rows)
    if rows is None or names is None:
        return None
    place = int(pc.index(names, pa.scalar(entry, names.type)).as_py()) if len(names) else -1
    return place if place < 0 else int(rows[place])


def _names(daf: DafReader, axis: str, cache: DecodedCache) -> Any:
    """Return the entries of an axis, as scans of its table cache them."""
    info = daf.vector_info(axis, NAME)
    column = VectorColumn(daf, info, StoredIndexes(daf, axis)).open(cache, DEFAULT_OPTIONS)
    return column.to_arrow(Rows(Span(0, info.length)))
