"""Damaged or unfit indexes: queries scan instead, and one warning says why."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from daf_storage import errors
from daf_storage.base import ForkLock
from daf_storage.upkeep import PagedArray

_ArrayT = TypeVar("_ArrayT", npt.NDArray[Any], PagedArray)


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


def list_of(arrays: Mapping[str, _ArrayT], name: str, *dtypes: npt.DTypeLike) -> _ArrayT:
    """Return one array of an index: of one dimension, and one of some types.

    Raises
    ------
    UnfitIndexError
        It is missing, of another type, or has several dimensions.
    """
    array = arrays.get(name)
    if array is None:
        raise UnfitIndexError(f"it has no array {name!r}")
    if array.dtype not in [np.dtype(dtype) for dtype in dtypes] or array.ndim != 1:
        raise UnfitIndexError(
            f"its array {name!r} holds {array.dtype} in {array.ndim} dimensions; it should be a "
            f"list of {' or '.join(str(np.dtype(dtype)) for dtype in dtypes)}"
        )
    return array
