"""A data set some of whose matrices are copied as whole numbers: exactly, or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from daf_storage import errors
from daf_storage.anndata import AXIS_KEYS, NOTES, part_label, raw_axis_of, read_notes
from daf_storage.base import AnyArray, Span, StorageType
from daf_storage.data import (
    CountsAs,
    DafReader,
    StoredMatrix,
    changed_by,
    count_types,
    refused_value,
)
from daf_storage.trees import ArrayInfo, StoredArray


class CountedMatrix:
    """A matrix as it is stored, but for the types of its arrays.

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

    def __init__(
        self,
        daf: DafReader,
        stored: StoredMatrix,
        kinds: Mapping[str, StorageType],
        *,
        what: str = "",
        is_flipped: bool = False,
    ) -> None:
        self._daf = daf
        self._stored = stored
        self._kinds = kinds
        self._what = what or stored.what
        self._is_flipped = is_flipped

    @property
    def attributes(self) -> dict[str, str]:
        """What is stored beside it."""
        return self._stored.attributes

    def arrays(self) -> dict[str, Any]:
        """Return the stored arrays; those of other types convert."""
        arrays: dict[str, Any] = dict(self._stored.arrays())
        for name, kind in self._kinds.items():
            if name in arrays and arrays[name].info.storage_type not in (kind, StorageType.STRING):
                arrays[name] = _CountedArray(self, arrays[name], kind)
        return arrays

    def refuse(
        self, place: tuple[int, ...], value: Any, dtype: object
    ) -> errors.UnsupportedInputError:
        """Say where a value is that cannot be stored."""
        info = self._stored.info
        if info.is_sparse:
            number = place[0]
            major = int(np.searchsorted(self._stored.colptr(), number, side="right")) - 1
            rowval = self._stored.arrays()["rowval"]
            minor = int(rowval.read_rows(Span(number, number + 1))[0]) - 1
        else:
            major, minor = place
        row, column = (major, minor) if info.is_row_major else (minor, major)
        row_name = str(self._daf.axis_entries(info.rows_axis)[row])
        column_name = str(self._daf.axis_entries(info.columns_axis)[column])
        if self._is_flipped:
            row_name, column_name = column_name, row_name
        return refused_value(self._what, value, row_name, column_name, dtype)


class _CountedArray:
    """An array of values that are converted as they are read."""

    def __init__(self, matrix: CountedMatrix, stored: StoredArray, kind: StorageType) -> None:
        self._matrix = matrix
        self._stored = stored
        self.info: ArrayInfo = replace(stored.info, storage_type=kind, is_mappable=False)

    def open_file(self) -> int | None:
        """Return None: no file has these bytes."""
        return None

    def read_rows(self, span: Span) -> AnyArray:
        """Return a range of the first dimension."""
        values = self._stored.read_rows(span)
        dtype = self.info.storage_type.dtype
        cast, place = changed_by(values, dtype)
        if place is not None:
            first, *rest = (int(n) for n in np.unravel_index(place, values.shape))
            value = values[(first, *rest)]
            raise self._matrix.refuse((span.start + first, *rest), value, dtype)
        return cast


class CountedCopy:
    """What is copied of a data set, and in which types.

    Parameters
    ----------
    counts_as
        The type of the main matrix (the scalar ``X_is`` names it, else ``X``), or by name.
    """

    def __init__(self, daf: DafReader, counts_as: CountsAs) -> None:
        self._daf = daf
        main = str(daf.get_scalar("X_is", default="X"))
        self._types = count_types(counts_as, main)
        axes = sorted(daf.axes_set())
        pairs = [(rows, columns) for rows in axes for columns in axes]
        known = {name for pair in pairs for name in daf.matrices_set(*pair, relayout=False)}
        unknown = set(self._types) - known
        if unknown:
            asked = min(unknown)
            raise errors.MatrixNotFoundError(
                f"{daf.location}: there is no matrix {asked!r} to store as counts; there are "
                f"{errors.known_names(known, none='none')}{errors.nearest(asked, known)}"
            )

    def matrix(self, stored: StoredMatrix) -> StoredMatrix | CountedMatrix:
        """Return a matrix as it is copied."""
        kind = self._types.get(stored.info.name)
        if kind is None:
            return stored
        values = "nzval" if stored.info.is_sparse else ""
        return CountedMatrix(self._daf, stored, {values: kind})

    def scalar(self, name: str, value: Any) -> Any:
        """Return a scalar as it is copied: the notes of an import say what the types were."""
        notes = read_notes(self._daf)
        if name != NOTES or not self._types or not notes:
            return value
        for rows, columns, part, matrix in self._noted(notes):
            if matrix not in self._types or not self._daf.has_matrix(rows, columns, matrix):
                continue
            dtype = self._daf.matrix_info(rows, columns, matrix).storage_type.dtype
            notes.setdefault("matrices", {}).setdefault(part, {}).setdefault("dtype", dtype.str)
        return json.dumps(notes, separators=(",", ":"))

    def _noted(self, notes: dict[str, Any]) -> list[tuple[str, str, str, str]]:
        """Return the axes and the part of an AnnData that matrices were."""
        keys = AXIS_KEYS.items()
        obs, var, main = (str(self._daf.get_scalar(key, default=name)) for key, name in keys)
        raw = raw_axis_of(notes, var)
        layers = notes.get("layers", {})
        found = [(obs, var, "X", main)]
        if self._daf.has_axis(raw):
            found.append((obs, raw, "raw.X", main))
        found += [
            (obs, var, part_label("layers", layers.get(name, name)), name)
            for name in self._types
            if name != main
        ]
        return found
