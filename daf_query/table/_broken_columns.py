"""Columns that turn out to be unreadable while a query reads them.

Metadata and sizes of files tell most broken columns beforehand; a damaged compressed chunk shows
only when it is decoded.  Such a column is remembered with the reason, so that the table can be
planned again without it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa

from daf_query.scan import Column, OpenColumn, Positions, Predicate, ScanOptions, Values, ZoneMap
from daf_storage.errors import CorruptDataError, ReadOnlyError, UnsupportedDataError
from daf_storage.spi import DecodedCache, Span

_T = TypeVar("_T")

_UNREADABLE: Final = (CorruptDataError, UnsupportedDataError, ReadOnlyError)
_UNSETTLED_SECONDS: Final = 2.0
"""How long a column stays broken whose file is too new to tell it from a later one."""


@dataclass(frozen=True, slots=True)
class _Broken:
    """Why a column cannot be read."""

    reason: str
    identity: Hashable
    found_at: float


class BrokenColumns:
    """The columns of one table that could not be read, until what is stored changes.

    Parameters
    ----------
    identity
        Returns a value that changes whenever what is stored of a column does.
    """

    def __init__(self, identity: Callable[[str], Hashable] = lambda _: None) -> None:
        self._identity = identity
        self._found: dict[str, _Broken] = {}
        self._mismatches: dict[str, Hashable] = {}
        self._lock = threading.Lock()
        self.count = 0
        """How often one was found."""
        self.warned: set[str] = set()
        """What was said of them already, where a table outlives its queries."""

    def reading(self, name: str, read: Callable[[], _T]) -> _T:
        """Read something of a column; an error that says it is unreadable is remembered."""
        try:
            return read()
        except _UNREADABLE as error:
            broken = _Broken(str(error), self._identity(name), time.monotonic())
            with self._lock:
                self._found[name] = broken
                self.count += 1
            raise

    def note_mismatch(self, name: str) -> None:
        """Note that a column does not hold what was recorded of it: it is read as stored."""
        with self._lock:
            self._mismatches[name] = self._identity(name)
            self.count += 1

    def mismatches(self) -> set[str]:
        """Return the columns that still do not hold what was recorded of them."""
        with self._lock:
            noted = dict(self._mismatches)
        return {name for name, identity in noted.items() if self._identity(name) == identity}

    def problems(self) -> dict[str, str]:
        """Return the columns that are still broken, and why."""
        with self._lock:
            found = dict(self._found)
        now = time.monotonic()
        still = {
            name: broken.reason
            for name, broken in found.items()
            if now - broken.found_at < _UNSETTLED_SECONDS or self._is_same(name, broken)
        }
        with self._lock:
            for name in found.keys() - still.keys():
                self._found.pop(name, None)
        return still

    def _is_same(self, name: str, broken: _Broken) -> bool:
        return self._identity(name) == broken.identity

    def guarded(self, columns: Mapping[str, Column]) -> dict[str, Column]:
        """Return columns of which it is remembered if they cannot be read."""
        return {name: _GuardedColumn(column, name, self) for name, column in columns.items()}


@dataclass(frozen=True, eq=False)
class _GuardedColumn:
    """A column of which it is remembered if it cannot be read."""

    column: Column
    name: str
    broken: BrokenColumns

    @property
    def field(self) -> pa.Field:
        """Its name and Arrow type."""
        return self.column.field

    @property
    def chunk_rows(self) -> int:
        """How many rows are stored together."""
        return self.column.chunk_rows

    @property
    def is_string(self) -> bool:
        """Whether its values are strings or bytes."""
        return self.column.is_string

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Begin to read it."""
        opened = self.broken.reading(self.name, lambda: self.column.open(cache, options))
        return _OpenGuarded(opened, self.name, self.broken)


class _OpenGuarded:
    """A guarded column that is being read."""

    def __init__(self, column: OpenColumn, name: str, broken: BrokenColumns) -> None:
        self._column = column
        self._name = name
        self._broken = broken

    @property
    def zones(self) -> ZoneMap | None:
        """Smallest and largest values of ranges of rows, as far as they are known."""
        return self._column.zones

    def find(self, conditions: Sequence[Predicate], max_rows: int) -> Positions | None:
        """Return the rows for which all conditions may be true."""
        return self._broken.reading(self._name, lambda: self._column.find(conditions, max_rows))

    def load(self) -> None:
        """Get ready to be read."""
        self._reading(self._column.load)

    def values(self, span: Span) -> Values:
        """Return the values of a range."""
        return self._reading(lambda: self._column.values(span))

    def array(self, span: Span) -> pa.Array:
        """Return a range."""
        return self._reading(lambda: self._column.array(span))

    def pick(self, span: Span, places: Positions) -> Values:
        """Return the values of some rows."""
        return self._reading(lambda: self._column.pick(span, places))

    def take(self, span: Span, places: Positions) -> pa.Array:
        """Return some rows."""
        return self._reading(lambda: self._column.take(span, places))

    def _reading(self, read: Callable[[], Any]) -> Any:
        return self._broken.reading(self._name, read)
