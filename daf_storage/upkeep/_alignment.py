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
from daf_storage.data import DafReader

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")


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


def aligned_strings(strings: pa.Array, along: Alignment, empty: Any, *, what: str) -> pa.Array:
    """Return strings along the axis of the destination; ``empty`` where the source has none."""
    if along.is_identity:
        return strings
    if empty is not None and not isinstance(empty, str):
        raise errors.InvalidInputError(f"{what} has strings, and empty={empty!r} is none")
    filled = pa.concat_arrays([strings, pa.array([empty or ""], strings.type)])
    return filled.take(pa.array(np.where(along.taken < 0, len(strings), along.taken)))


def aligned_vector(values: Any, along: Alignment, empty: Any, *, what: str) -> Any:
    """Return numbers along the axis of the destination, sparse if they were and can be.

    Parameters
    ----------
    values
        Shape ``(n,)``; or a sparse array of one row.
    """
    if along.is_identity:
        return values
    if not sp.issparse(values):
        out = filled((along.taken.size,), values.dtype, along, empty, what)
        out[along.places] = values[along.positions]
        return out
    if along.first_missing is not None and empty != 0:
        return aligned_vector(values.toarray()[0], along, empty, what=what)
    found = values.tocoo()
    places = along.moved[found.col]
    is_kept = places >= 0
    places, stored = places[is_kept], found.data[is_kept]
    order = np.argsort(places)
    ends = np.array([0, places.size])
    return sp.csr_array((stored[order], places[order], ends), shape=(1, along.taken.size))


def aligned_matrix(
    values: Any, rows: Alignment, columns: Alignment, empty: Any, *, what: str
) -> Any:
    """Return a matrix along the axes of the destination.

    It is sparse if the source's is, or entries are missing, and the missing elements are zero.
    """
    if rows.is_identity and columns.is_identity:
        return values
    is_embedded = rows.first_missing is not None or columns.first_missing is not None
    is_text = values.dtype.kind == "O"
    is_sparse = sp.issparse(values)
    if not is_text and (is_sparse or is_embedded) and (not is_embedded or empty == 0):
        return _aligned_sparse(values, rows, columns)
    shape = rows.taken.size, columns.taken.size
    if is_text and is_embedded and not isinstance(empty, str):
        raise errors.InvalidInputError(f"{what} has strings, and empty={empty!r} is none")
    lacking = columns if rows.first_missing is None else rows
    out = filled(shape, values.dtype, lacking, empty, what)
    dense = values.toarray() if is_sparse else values
    for place, position in zip(columns.places, columns.positions, strict=True):
        out[rows.places, place] = dense[rows.positions, position]
    return out


def _aligned_sparse(values: Any, rows: Alignment, columns: Alignment) -> Any:
    found = sp.coo_array(values)
    row, column = rows.moved[found.row], columns.moved[found.col]
    is_kept = (row >= 0) & (column >= 0)
    shape = rows.taken.size, columns.taken.size
    parts = (found.data[is_kept], (row[is_kept], column[is_kept]))
    return sp.coo_array(parts, shape=shape).tocsc()


def filled(
    shape: tuple[int, ...], dtype: np.dtype[Any], along: Alignment, empty: Any, what: str
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
