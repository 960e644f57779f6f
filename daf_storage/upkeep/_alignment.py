"""The entries of an axis of one data set beside those of an axis of another.

And the values of its properties, along the axes of the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.base import AnyArray
from daf_storage.data import Alignment, DafReader, stored_numbers

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")


@dataclass(frozen=True, eq=False)
class EntryAlignment(Alignment):
    """Where the entries of an axis of a source are in an axis of a destination."""

    first_missing: str | None
    """The first entry of the destination that the source lacks; None if it has all."""
    axes: tuple[str, str]
    """The names of the axis, in the source and in the destination."""
    locations: tuple[str, str]
    """The two data sets, for messages."""

    def check(self, empty: Any, *, what: str, key: str) -> None:
        """Raise if entries of the destination are missing and there is no value for them.

        Parameters
        ----------
        key
            How ``empty=`` names the property.
        """
        if self.first_missing is not None and empty is None:
            raise errors.InvalidInputError(
                f"{self.locations[1]}: axis {self.axes[1]!r} has the entry "
                f"{self.first_missing!r}, which axis {self.axes[0]!r} of {self.locations[0]} does "
                f"not have, so {what} has no value for it; say which with {key}"
            )


def align(source: DafReader, axis: str, destination: DafReader, target_axis: str) -> EntryAlignment:
    """Return where the entries of an axis of the destination are in the source.

    Raises
    ------
    AxisNotFoundError
        One of the two lacks its axis.
    InvalidInputError
        Either has entries that the other one lacks.
    """
    entries = destination.get_pa_vector(target_axis, "name")
    taken = np.asarray(source.axis_indices(axis, entries, allow_missing=True), np.int64)
    if len(entries) and (taken == -1).any():  # an empty entry is one, if the axis has it
        is_missing = taken == -1
        first = str(entries[int(np.argmax(is_missing))].as_py())
    else:
        first = None
    places = np.full(source.axis_length(axis), -1, np.int64)
    places[taken[taken >= 0]] = np.flatnonzero(taken >= 0)
    if first is not None and (places < 0).any():
        lacking = source.axis_entries(axis)[int(np.argmax(places < 0))]
        raise errors.InvalidInputError(
            f"{destination.location}: axis {target_axis!r} has the entry {first!r} and lacks "
            f"{lacking!r}, and axis {axis!r} of {source.location} has {lacking!r} and lacks "
            f"{first!r}; one of the two must have all entries of the other"
        )
    is_same = places.size == taken.size and bool((taken == np.arange(taken.size)).all())
    locations = source.location, destination.location
    return EntryAlignment(
        None if is_same else places, taken.size, first, (axis, target_axis), locations
    )


def aligned_strings(strings: pa.Array, along: EntryAlignment, empty: Any, *, what: str) -> pa.Array:
    """Return strings along the axis of the destination; ``empty`` where the source has none."""
    if along.places is None:
        return strings
    if empty is not None and not isinstance(empty, str):
        raise errors.InvalidInputError(f"{what} has strings, and empty={empty!r} is none")
    filled = pa.concat_arrays([strings, pa.array([empty or ""], strings.type)])
    sources = along.sources
    return filled.take(pa.array(np.where(sources < 0, len(strings), sources)))


def aligned_vector(values: Any, along: EntryAlignment, empty: Any, dtype: Any, *, what: str) -> Any:
    """Return numbers along the axis of the destination, sparse if they were and can be.

    Parameters
    ----------
    values
        Shape ``(n,)``; or a sparse array of one row.
    dtype
        As of `stored_numbers`; values that are left out need not fit.
    """
    if not sp.issparse(values):
        if along.places is None:
            return stored_numbers(values, dtype, what=what)
        is_there = along.sources >= 0
        kept = stored_numbers(values[along.sources[is_there]], dtype, what=what, place=_nowhere)
        out = filled((along.n_entries,), kept.dtype, along, empty, what)
        out[is_there] = kept
        return out
    if along.first_missing is not None and empty != 0:
        return aligned_vector(values.toarray()[0], along, empty, dtype, what=what)
    found = values.tocoo()
    places = found.col if along.places is None else along.places[found.col]
    is_kept = places >= 0
    places = places[is_kept]
    stored = stored_numbers(found.data[is_kept], dtype, what=what, place=_nowhere)
    order = np.argsort(places)
    ends = np.array([0, places.size])
    return sp.csr_array((stored[order], places[order], ends), shape=(1, along.n_entries))


def _nowhere(_: object) -> str:
    """Say no place of a value in messages: its position among those that are kept tells nothing."""
    return ""


def filled(
    shape: tuple[int, ...], dtype: np.dtype[Any], along: EntryAlignment, empty: Any, what: str
) -> AnyArray:
    """Return an array of a value, which must be one of its type where entries are missing."""
    if dtype.kind == "O":
        return np.full(shape, "" if empty is None else empty, dtype, order="F")
    if along.first_missing is None:
        return np.zeros(shape, dtype, order="F")
    try:
        with np.errstate(all="ignore"):
            value = np.asarray(empty).astype(dtype)[()]
        fits = bool(value == empty) or (value != value and empty != empty)  # noqa: PLR0124 - NaN
    except (ValueError, TypeError, OverflowError):
        fits = False
    if not fits and dtype.kind == "f" and isinstance(empty, float):
        fits = True  # rounded, as floats are
    if not fits:
        raise errors.InvalidInputError(
            f"{what} has elements of type {dtype}, and empty={empty!r} is none; pass dtype= as well"
        )
    return np.full(shape, value, dtype, order="F")
