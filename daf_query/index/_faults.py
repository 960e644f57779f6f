"""Arrays of an index that do not make sense: queries scan instead, and one warning says why."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from daf_storage import errors
from daf_storage.spi import ForkLock


class UnusedIndexWarning(errors.DafWarning):
    """An index is damaged or does not fit its table, so it is not used."""


class UnfitIndexError(ValueError):
    """The arrays of an index do not make sense; the message says why, without naming the index."""


_said: WeakKeyDictionary[object, set[str]] = WeakKeyDictionary()
_lock = ForkLock()


def warn_once(owner: object, location: str, what: str, problem: str, remedy: str) -> None:
    """Warn of an index, once for each owner: whatever lives as long as a session."""
    text = f"{location}: the index {what} is not used: {problem}; {remedy}"
    with _lock:
        said = _said.setdefault(owner, set())
        is_known = text in said
        said.add(text)
    if not is_known:
        warnings.warn(text, UnusedIndexWarning, stacklevel=3)


def part(
    arrays: Mapping[str, npt.NDArray[Any]], name: str, *kinds: npt.DTypeLike
) -> npt.NDArray[Any]:
    """Return a list of an index, which has one of some types.

    Raises
    ------
    UnfitIndexError
        It is missing, of another type, or has several dimensions.
    """
    found = arrays.get(name)
    if found is None:
        raise UnfitIndexError(f"it has no array {name!r}")
    if found.dtype not in [np.dtype(kind) for kind in kinds] or found.ndim != 1:
        raise UnfitIndexError(
            f"its array {name!r} holds {found.dtype} in {found.ndim} dimensions; it should be a "
            f"list of {' or '.join(str(np.dtype(kind)) for kind in kinds)}"
        )
    return found
