"""Columns that turn out to be unreadable while a query reads them.

Metadata and sizes of files reveal most broken columns beforehand; a damaged compressed chunk shows
only when it is decoded.  Such a column is kept with the reason, so that the table can be planned
again without it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, TypeVar

from daf_storage.errors import CorruptDataError, ReadOnlyError, UnsupportedDataError

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
