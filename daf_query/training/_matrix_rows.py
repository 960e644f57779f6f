"""Rows of a matrix for the entries of a sampler, read when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from daf_query.slice import MatrixSlice
from daf_query.training._sampled import Sampled
from daf_storage import errors
from daf_storage._lazy import lazy_module

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")


@dataclass(frozen=True)
class MatrixRows:
    """The rows of a slice that belong to the entries of a sampler.

    It can be pickled if the data sets have a path: another process maps them itself.
    """

    part: MatrixSlice
    offsets: npt.NDArray[np.int64]
    """Of each entry, which row of the slice it is; ascending."""

    def __len__(self) -> int:
        return int(self.offsets.size)

    def read(self, entries: npt.NDArray[np.int64], *, is_dense: bool) -> Any:
        """Return the rows of entries, in any order, also several times.

        Parameters
        ----------
        entries
            Numbers of entries, from 0.
        is_dense
            Whether to return an ``ndarray``; else a ``csr_array``.
        """
        unique, places = np.unique(entries, return_inverse=True)
        values = self.part.take_rows(self.offsets[unique]).values()
        if not np.array_equal(places, np.arange(unique.size)):
            values = values[places]
        if is_dense:
            values = values.toarray() if sp.issparse(values) else values
            return values if values.flags.writeable else values.copy()
        return values if sp.issparse(values) else sp.csr_array(values)


def rows_of(part: MatrixSlice, sampler: Sampled) -> MatrixRows:
    """Return the rows of a slice that are entries of a sampler.

    Raises
    ------
    InvalidInputError
        The rows are of another axis or data set; or the slice lacks some of them; or it is of
        strings.
    """
    _check_axis(part, sampler)
    if part.dtype == np.dtype(object):
        raise errors.InvalidInputError(f"the matrix {part.name!r} holds strings, not numbers")
    positions = part.row_positions
    if not np.all(positions[1:] > positions[:-1]):
        raise errors.InvalidInputError(
            f"the rows of this slice of {part.name!r} are not in the order of axis "
            f"{part.rows_axis!r}; leave rows= out, since the sampler chooses them"
        )
    offsets = np.searchsorted(positions, sampler.indices)
    is_there = offsets < positions.size
    is_there[is_there] = positions[offsets[is_there]] == sampler.indices[is_there]
    if not is_there.all():
        first = sampler.names[int(np.argmin(is_there))].as_py()
        raise errors.InvalidInputError(
            f"this slice of {part.name!r} lacks {int((~is_there).sum()):,} of the "
            f"{is_there.size:,} entries of the sampler, the first is {first!r}; leave rows= out, "
            "or make the sampler with the same where="
        )
    return MatrixRows(part, offsets)


def _check_axis(part: MatrixSlice, sampler: Sampled) -> None:
    if not isinstance(part, MatrixSlice):
        raise errors.InvalidInputError(
            f"rows are read from a slice, not {type(part).__name__}; pass "
            f"db.matrix({sampler.axis!r}, 'gene', 'X'), of which nothing is read yet"
        )
    if part.rows_axis != sampler.axis:
        raise errors.InvalidInputError(
            f"the rows of this slice of {part.name!r} are of axis {part.rows_axis!r}, the sampler "
            f"is of {sampler.axis!r}; swap the axes: db.matrix({part.columns_axis!r}, "
            f"{part.rows_axis!r}, {part.name!r})"
        )
    lengths = lengths_of(part)
    if lengths is None:
        raise errors.InvalidInputError(
            f"the rows of this slice of {part.name!r} are aligned by name over several data sets; "
            f"make it with along={sampler.axis!r}"
        )
    for name, length in lengths.items():
        if sampler.lengths.get(name) != length:
            has = sampler.lengths.get(name)
            raise errors.InvalidInputError(
                f"the sampler is not of these data sets: axis {sampler.axis!r} of {name!r} has "
                f"{length:,} entries here, and {'none' if has is None else f'{has:,}'} in the "
                "sampler; make it of the same session"
            )


def lengths_of(part: MatrixSlice) -> dict[str, int] | None:
    """Return the length of the rows axis in each data set; None if it is an aligned axis."""
    if not part.whole.rows_are_concatenated:
        return None
    axis = part.rows_axis
    return {each.name: each.part.daf.axis_length(axis) for each in part.whole.members}
