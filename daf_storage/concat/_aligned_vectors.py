"""A vector of a shared axis, of all members, in the order of the entries of the result."""

from __future__ import annotations

from typing import Any

import numpy as np

from daf_storage.base import AnyArray
from daf_storage.concat._members import Member, ResultAxis
from daf_storage.concat._promotion import converted, promoted
from daf_storage.data import number_strings


class AlignedVectors:
    """A vector of a shared axis, of each member; strings are objects."""

    def __init__(self, members: list[Member], axis: ResultAxis, name: str) -> None:
        self._axis = axis
        self._what = f"vector {name!r} of axis {axis.name!r}"
        opened = [member.open_vector(axis.name, name) for member in members]
        self._infos = [None if stored is None else stored.info for stored in opened]
        known = [info for info in self._infos if info is not None]
        self.is_string = any(info.storage_type.is_string for info in known)
        self.is_sparse = any(info.is_sparse for info in known)
        recorded = {info.entries_of for info in known}
        self.entries_of = recorded.pop() if len(recorded) == 1 else None
        self.given: list[AnyArray | None] = []
        for member, info in zip(members, self._infos, strict=True):
            values = None if info is None else member.daf.get_np_vector(axis.name, name)
            if values is not None and self.is_string and values.dtype.kind != "O":
                values = number_strings(values).to_numpy(zero_copy_only=False)
            self.given.append(values)

    def empty_strings(self) -> set[bool]:
        """Return whether the empty strings that there are stand for missing values, or do not."""
        return {
            info.empty_is_missing
            for values, info in zip(self.given, self._infos, strict=True)
            if self.is_string and values is not None and info is not None and (values == "").any()
        }

    def _having(self) -> list[tuple[AnyArray, AnyArray]]:
        """Return where each member with values has them in the result, and these."""
        found = []
        for alignment, values in zip(self._axis.alignments, self.given, strict=True):
            if values is not None:
                places = np.flatnonzero(alignment.sources >= 0)
                found.append((places, values[alignment.sources[places]]))
        return found

    def _dtype(self, fill: Any = None) -> np.dtype[Any]:
        """Return the type that holds the values of all members, and the fill value."""
        if self.is_string:
            return np.dtype(object)
        return promoted([values.dtype for values in self.given if values is not None], fill)

    def _converted(self, values: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
        return values if self.is_string else converted(values, dtype, what=self._what)

    def _fill(self, empty: Any) -> Any:
        if self.is_string:
            return "" if empty is None else string_of(empty)
        return np.nan if empty is None else empty

    def last(self) -> tuple[AnyArray, AnyArray]:
        """Return for each entry the value of the last member that has it, and where one has."""
        dtype = self._dtype()
        merged = np.full(self._axis.length, "" if self.is_string else 0, dtype)
        is_there = np.zeros(self._axis.length, bool)
        for places, values in self._having():
            merged[places] = self._converted(values, dtype)
            is_there[places] = True
        return merged, is_there

    def agree(self) -> bool:
        """Return whether all members that have a value of an entry have the same."""
        merged, _ = self.last()
        return all(
            np.array_equal(
                values, merged[places], equal_nan=values.dtype.kind == merged.dtype.kind == "f"
            )
            for places, values in self._having()
        )

    def filled(self, merged: AnyArray, is_absent: AnyArray, empty: Any) -> AnyArray:
        """Return values with something where there are none; NaN or missing by default."""
        fill = self._fill(empty)
        dtype = merged.dtype if self.is_string else promoted([merged.dtype], fill)
        result = self._converted(merged, dtype).copy()
        result[is_absent] = fill
        return result

    def stacked(self, empty: Any) -> tuple[AnyArray, int]:
        """Return a matrix with a column for each member, and how many elements it would store.

        A column that is stored densely counts as having no zeros.
        """
        length, fill = self._axis.length, self._fill(empty)
        needs_fill = any(
            values is None or bool((alignment.sources < 0).any())
            for alignment, values in zip(self._axis.alignments, self.given, strict=True)
        )
        dtype = self._dtype(fill if needs_fill else None)
        start = fill if needs_fill or self.is_string else 0
        matrix = np.full((length, len(self.given)), start, dtype, order="F")
        count, having = 0, iter(self._having())
        for number, info in enumerate(self._infos):
            if info is not None:
                places, values = next(having)
                matrix[places, number] = self._converted(values, dtype)
                nonzero = np.count_nonzero(matrix[:, number]) if info.is_sparse else length
                count += int(nonzero)
            elif fill:
                count += length
        return matrix, count


def string_of(value: Any) -> str:
    """Return a scalar as a string."""
    return value if isinstance(value, str) else str(number_strings(np.asarray([value]))[0].as_py())
