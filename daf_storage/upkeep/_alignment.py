"""The entries of an axis of one data set beside those of an axis of another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from daf_storage import errors
from daf_storage.base import AnyArray
from daf_storage.data import DafReader


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """Where the entries of an axis of a destination are in an axis of a source."""

    taken: AnyArray
    """For each entry of the destination its position in the source, int64; -1 if it lacks it."""
    source_length: int
    """Length of the axis in the source."""
    first_missing: str | None
    """The first entry of the destination that the source lacks; None if it has all."""
    axes: tuple[str, str]
    """The names of the axis, in the source and in the destination."""
    locations: tuple[str, str]
    """The two data sets, for messages."""

    @property
    def is_identity(self) -> bool:
        """Whether both have the same entries in the same order."""
        length = self.taken.size
        return length == self.source_length and bool((self.taken == np.arange(length)).all())

    @property
    def places(self) -> AnyArray:
        """The positions in the destination of the entries that both have."""
        return np.flatnonzero(self.taken >= 0)

    @property
    def positions(self) -> AnyArray:
        """The positions in the source of the entries that both have, in the same order."""
        found: AnyArray = self.taken[self.places]
        return found

    @property
    def moved(self) -> AnyArray:
        """For each entry of the source its position in the destination; -1 if that lacks it."""
        found: AnyArray = np.full(self.source_length, -1, np.int64)
        found[self.positions] = self.places
        return found

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


def align(source: DafReader, axis: str, destination: DafReader, target_axis: str) -> Alignment:
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
    length = source.axis_length(axis)
    found = Alignment(
        taken, length, first, (axis, target_axis), (source.location, destination.location)
    )
    if first is not None and found.places.size < length:
        lacking = source.axis_entries(axis)[int(np.argmax(found.moved < 0))]
        raise errors.InvalidInputError(
            f"{destination.location}: axis {target_axis!r} has the entry {first!r} and lacks "
            f"{lacking!r}, and axis {axis!r} of {source.location} has {lacking!r} and lacks "
            f"{first!r}; one of the two must have all entries of the other"
        )
    return found
