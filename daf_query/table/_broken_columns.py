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
class _Noted:
    """What is wrong with a column."""

    reason: str | None
    """Why it cannot be read; None if it does not hold what was recorded of it."""
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
        self._noted: dict[str, _Noted] = {}
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
            self._note(name, str(error))
            raise

    def note_mismatch(self, name: str) -> None:
        """Note that a column does not hold what was recorded of it: it is read as stored."""
        self._note(name, None)

    def _note(self, name: str, reason: str | None) -> None:
        with self._lock:
            self._noted[name] = _Noted(reason, self._identity(name), time.monotonic())
            self.count += 1

    def noted(self) -> dict[str, str | None]:
        """Return the columns that are still broken, and why; None for those to be read as stored.

        A column whose file is too new to tell it from a later one counts for a moment.
        """
        if not self._noted:  # of thousands of tables, hardly one has any
            return {}
        with self._lock:
            known = dict(self._noted)
        new = time.monotonic() - _UNSETTLED_SECONDS
        return {
            name: each.reason
            for name, each in known.items()
            if (each.reason is not None and each.seen_at > new)
            or self._identity(name) == each.identity
        }
