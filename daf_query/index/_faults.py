"""Damaged or unfit indexes: queries scan instead, and one warning says why."""

from __future__ import annotations

import warnings
from weakref import WeakKeyDictionary

from daf_storage import errors
from daf_storage.base import ForkLock


class UnusedIndexWarning(errors.DafWarning):
    """An index is damaged or does not fit its table, so it is not used."""


class UnfitIndexError(ValueError):
    """The arrays of an index do not make sense; the message says why, without naming the index."""


_warned: WeakKeyDictionary[object, set[str]] = WeakKeyDictionary()
_lock = ForkLock()


def warn_once(owner: object, location: str, what: str, problem: str, remedy: str) -> None:
    """Warn of an index, once per owner: an object that lives as long as a session."""
    text = f"{location}: the index {what} is not used: {problem}; {remedy}"
    with _lock:
        warned = _warned.setdefault(owner, set())
        is_known = text in warned
        warned.add(text)
    if not is_known:
        warnings.warn(text, UnusedIndexWarning, stacklevel=3)
