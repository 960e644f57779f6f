"""Columns that turn out to be unreadable while a query reads them.

Metadata and sizes of files reveal most broken columns beforehand; a damaged compressed chunk shows
only when it is decoded.  Such a column is kept with the reason, so that the table can be planned
again without it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa

from daf_query.scan import (
    Column,
    Compare,
    In,
    IsNull,
    Mask,
    OpenColumn,
    RowIndex,
    Rows,
    ScanOptions,
    Values,
    stored_matches,
)
from daf_query.table._wrapped_column import WrappedColumn, WrappedOpenColumn
from daf_storage.errors import CorruptDataError, ReadOnlyError, UnsupportedDataError
from daf_storage.spi import DecodedCache

_T = TypeVar("_T")

_UNREADABLE: Final = (CorruptDataError, UnsupportedDataError, ReadOnlyError)
_UNSETTLED_SECONDS: Final = 2.0
"""How long a column stays broken whose file is too new to tell it from a later one."""


@dataclass(frozen=True, slots=True)
class _Broken:
    """Why a column cannot be read."""

    reason: str
    identity: Hashable
    seen_at: float


class BrokenColumns:
    """The columns of one table that could not be read, until what is stored changes.

    Parameters
    ----------
    identity
        Returns a value that changes whenever what is stored of a column does.
    """

    def __init__(self, identity: Callable[[str], Hashable] = lambda _: None) -> None:
        self._identity = identity
        self._broken: dict[str, _Broken] = {}
        self._mismatches: dict[str, Hashable] = {}
        self._lock = threading.Lock()
        self.count = 0
        """How often a column turned out to be broken."""
        self.warned: set[str] = set()
        """The warnings that were given already, where a table outlives its queries."""

    def reading(self, name: str, read: Callable[[], _T]) -> _T:
        """Read something of a column; keep an error that says that it is unreadable."""
        try:
            return read()
        except _UNREADABLE as error:
            broken = _Broken(str(error), self._identity(name), time.monotonic())
            with self._lock:
                self._broken[name] = broken
                self.count += 1
            raise

    def note_mismatch(self, name: str) -> None:
        """Note that a column does not hold what was recorded of it: it is read as stored."""
        with self._lock:
            self._mismatches[name] = self._identity(name)
            self.count += 1

    def mismatches(self) -> set[str]:
        """Return the columns that still do not hold what was recorded of them."""
        if not self._mismatches:  # of thousands of tables, hardly one has any
            return set()
        with self._lock:
            noted = dict(self._mismatches)
        return {name for name, identity in noted.items() if self._identity(name) == identity}

    def problems(self) -> dict[str, str]:
        """Return the columns that are still broken, and why."""
        if not self._broken:
            return {}
        with self._lock:
            known = dict(self._broken)
        now = time.monotonic()
        still = {
            name: broken.reason
            for name, broken in known.items()
            if now - broken.seen_at < _UNSETTLED_SECONDS or self._is_same(name, broken)
        }
        with self._lock:
            for name in known.keys() - still.keys():
                self._broken.pop(name, None)
        return still

    def _is_same(self, name: str, broken: _Broken) -> bool:
        return self._identity(name) == broken.identity

    def guarded(self, columns: Mapping[str, Column]) -> dict[str, Column]:
        """Return columns that are added here once they cannot be read."""
        return {name: GuardedColumn(column, name, self) for name, column in columns.items()}


@dataclass(frozen=True, eq=False)
class GuardedColumn(WrappedColumn):
    """A column that is kept as broken once it cannot be read."""

    name: str
    broken: BrokenColumns

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Open it for reading."""
        opened = self.broken.reading(self.name, lambda: self.column.open(cache, options))
        return _OpenGuarded(opened, self.name, self.broken)


class _OpenGuarded(WrappedOpenColumn):
    """A guarded column that is being read."""

    def __init__(self, column: OpenColumn, name: str, broken: BrokenColumns) -> None:
        super().__init__(column)
        self._name = name
        self._broken = broken

    def row_index(self) -> RowIndex | None:
        """Return the index, if there is one."""
        return self._broken.reading(self._name, self._column.row_index)

    def values(self, rows: Rows) -> Values:
        """Return values to evaluate a predicate on."""
        return self._broken.reading(self._name, lambda: self._column.values(rows))

    def stored_matches(self, predicate: Compare | In | IsNull, rows: Rows) -> Mask | None:
        """Return for which rows a comparison is true, if no values have to be read for that."""
        return self._broken.reading(
            self._name, lambda: stored_matches(self._column, predicate, rows)
        )

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return values as Arrow."""
        return self._broken.reading(self._name, lambda: self._column.to_arrow(rows))
