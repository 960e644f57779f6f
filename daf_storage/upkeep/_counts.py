"""Matrices that are stored as counts: as whole numbers of few bytes, values unchanged."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np

from daf_storage import errors
from daf_storage.anndata import NOTES, imported_label, read_notes
from daf_storage.base import AnyArray, Span, StorageType
from daf_storage.data import DafReader, StoredMatrix, StoredVector, changed_by, with_arrays
from daf_storage.trees import StoredArray

CountType: TypeAlias = Literal["uint8", "uint16", "uint32"]
"""The types in which whole numbers are stored when that is asked for."""

_Counts: TypeAlias = "CountType | Mapping[str, CountType]"
CountsAs: TypeAlias = "_Counts | None"
"""The type of the main matrix, or of matrices by their names."""

_NAMES: Final[tuple[str, ...]] = get_args(CountType)


def count_types(
    counts_as: _Counts, main: str, available: Collection[str], location: str
) -> dict[str, StorageType]:
    """Return the types that were asked for, by the name of the matrix; checked.

    >>> count_types("uint16", "UMIs", {"UMIs"}, "x.daf")
    {'UMIs': <StorageType.UINT16: 'UInt16'>}
    """
    by_name = {main: counts_as} if isinstance(counts_as, str) else dict(counts_as)
    for name, requested in by_name.items():
        if requested not in _NAMES:
            raise errors.InvalidInputError(
                f"counts_as: {name!r} cannot be {requested!r}; choose one of {', '.join(_NAMES)}"
            )
    unknown = by_name.keys() - set(available)
    if unknown:
        matrix = min(unknown)
        raise errors.MatrixNotFoundError(
            f"{location}: there is no matrix {matrix!r} to store as counts; there are "
            f"{errors.choices(matrix, available)}"
        )
    return {name: StorageType.of(np.dtype(requested)) for name, requested in by_name.items()}


class _CountedArray(StoredArray):
    """An array of values that are converted as they are read."""

    def __init__(
        self,
        stored: StoredArray,
        kind: StorageType,
        refused: Callable[[tuple[int, ...], Any, object], Exception],
    ) -> None:
        self._stored = stored
        self._refused = refused
        self.info = replace(stored.info, storage_type=kind, is_mappable=False)

    def read_rows(self, span: Span) -> AnyArray:
        """Return a range of the first dimension."""
        values = self._stored.read_rows(span)
        dtype = self.info.storage_type.dtype
        cast, place = changed_by(values, dtype)
        if place is not None:
            first, *rest = (int(n) for n in np.unravel_index(place, values.shape))
            value = values[(first, *rest)]
            raise self._refused((span.start + first, *rest), value, dtype)
        return cast


def counted_matrix(
    daf: DafReader,
    stored: StoredMatrix,
    kinds: Mapping[str, StorageType],
    *,
    what: str = "",
    is_flipped: bool = False,
) -> StoredMatrix:
    """Return a matrix as it is stored, but for the types of its arrays.

    Parameters
    ----------
    kinds
        The types of its arrays that are stored in others, by their names; that of a dense matrix
        has none.
    what
        The matrix as messages name it.
    is_flipped
        Whether messages call its rows columns, as those do that know the transpose.
    """

    def refused(place: tuple[int, ...], value: Any, dtype: object) -> Exception:
        """Say where a value is that cannot be stored."""
        info = stored.info
        if info.is_sparse:
            number = place[0]
            major = int(np.searchsorted(stored.colptr(), number, side="right")) - 1
            rowval = stored.arrays()["rowval"]
            minor = int(rowval.read_rows(Span(number, number + 1))[0]) - 1
        else:
            major, minor = place
        row, column = (major, minor) if info.is_row_major else (minor, major)
        row_name = str(daf.axis_entries(info.rows_axis)[row])
        column_name = str(daf.axis_entries(info.columns_axis)[column])
        if is_flipped:
            row_name, column_name = column_name, row_name
        return errors.UnsupportedInputError(
            f"{what or stored.what}: the value {value} of row {row_name!r} and column "
            f"{column_name!r} is no {dtype}, so the matrix is not stored as counts of that type; "
            "ask for a wider one, or leave it as it is"
        )

    arrays = stored.arrays()
    for name, kind in kinds.items():
        if name in arrays and arrays[name].info.storage_type not in (kind, StorageType.STRING):
            arrays[name] = _CountedArray(arrays[name], kind, refused)
    return StoredMatrix(stored.info, with_arrays(stored.node, arrays), what=stored.what)


class CountedCopy:
    """What is copied of a data set, and in which types.

    Parameters
    ----------
    counts_as
        The type of the main matrix (the scalar ``X_is`` names it, else ``X``), or by name; None
        for matrices as they are.
    """

    def __init__(self, daf: DafReader, counts_as: CountsAs) -> None:
        self._daf = daf
        self._types: dict[str, StorageType] = {}
        if counts_as is not None:
            main = str(daf.get_scalar("X_is", default="X"))
            pairs = itertools.product(sorted(daf.axes_set()), repeat=2)
            available = {name for pair in pairs for name in daf.matrices_set(*pair, relayout=False)}
            self._types = count_types(counts_as, main, available, daf.location)

    def stored(self, stored: StoredVector | StoredMatrix) -> StoredVector | StoredMatrix:
        """Return a vector or a matrix as it is copied."""
        if not isinstance(stored, StoredMatrix) or stored.info.name not in self._types:
            return stored
        values = "nzval" if stored.info.is_sparse else ""
        return counted_matrix(self._daf, stored, {values: self._types[stored.info.name]})

    def scalar(self, name: str, value: Any) -> Any:
        """Return a scalar as it is copied: the notes of an import say what the types were."""
        notes = read_notes(self._daf) if name == NOTES and self._types else {}
        if not notes:
            return value
        obs, axes = str(self._daf.get_scalar("obs_is", default="obs")), self._daf.axes_set()
        for columns, matrix in itertools.product(axes if obs in axes else (), self._types):
            label = imported_label(self._daf, obs, columns, matrix)
            pairs = ((obs, columns), (columns, obs)) if label else ()
            for stored in filter(None, (self._daf.find_matrix(*pair, matrix) for pair in pairs)):
                note = notes.setdefault("matrices", {}).setdefault(label, {})
                note.setdefault("dtype", stored.info.storage_type.dtype.str)
        return json.dumps(notes, separators=(",", ":"))
