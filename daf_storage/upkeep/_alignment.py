"""The entries of an axis of one data set beside those of an axis of another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from daf_storage import errors
from daf_storage.base import StorageType
from daf_storage.data import Alignment, DafReader, stored_numbers


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
    names, locations = (axis, target_axis), (source.location, destination.location)
    if entries.equals(source.get_pa_vector(axis, "name")):
        return EntryAlignment(None, len(entries), None, names, locations)
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
    return EntryAlignment(None if is_same else places, taken.size, first, names, locations)


def fill_value(kind: StorageType, along: EntryAlignment, empty: Any, *, what: str) -> Any:
    """Return what stands for missing entries in the type of a property, if ``empty`` is such."""
    if along.first_missing is None:
        return "" if kind.is_string else 0
    if kind.is_string:
        if isinstance(empty, str):
            return empty
        raise errors.InvalidInputError(f"{what} has strings, and empty={empty!r} is none")
    try:
        return stored_numbers(np.asarray(empty), kind.dtype, what=what)[()]
    except errors.UnsupportedInputError as error:
        raise errors.InvalidInputError(
            f"{what} has elements of type {kind.dtype}, and empty={empty!r} is none; pass dtype= "
            "as well"
        ) from error
