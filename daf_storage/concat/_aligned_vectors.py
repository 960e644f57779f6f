"""A vector of a shared axis, of all members, in the order of the entries of the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from daf_storage._lazy import lazy_module
from daf_storage.base import AnyArray
from daf_storage.concat._members import Member, ResultAxis
from daf_storage.concat._promotion import converted, promoted
from daf_storage.data import number_strings

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy_module("pyarrow.compute")


class AlignedVectors:
    """A vector of a shared axis, of each member, and where its values belong in the result."""

    def __init__(self, members: list[Member], axis: ResultAxis, name: str) -> None:
        self._axis = axis
        self._what = f"vector {name!r} of axis {axis.name!r}"
        infos = [
            m.daf.open_vector(axis.name, name).info if name in m.vectors(axis.name) else None
            for m in members
        ]
        known = [info for info in infos if info is not None]
        self.is_string = any(info.storage_type.is_string for info in known)
        self.is_sparse = any(info.is_sparse for info in known)
        self._missing = [info is not None and info.empty_is_missing for info in infos]
        self._sparse = [info is not None and info.is_sparse for info in infos]
        recorded = {info.entries_of for info in known}
        self.entries_of = recorded.pop() if len(recorded) == 1 else None
        self.given: list[Any] = [
            None if info is None else self._values(member, name)
            for member, info in zip(members, infos, strict=True)
        ]

    def _values(self, member: Member, name: str) -> Any:
        if not self.is_string:
            return member.daf.get_np_vector(self._axis.name, name)
        values = member.daf.get_pa_vector(self._axis.name, name)
        if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
            values = number_strings(member.daf.get_np_vector(self._axis.name, name))
        return values.cast(pa.large_string())

    def _having(self) -> list[tuple[AnyArray, Any]]:
        """Return for each member with values their positions in the member, -1 for none."""
        alignments = zip(self._axis.alignments, self.given, strict=True)
        return [
            (alignment.sources, values) for alignment, values in alignments if values is not None
        ]

    def empty_strings(self) -> set[bool]:
        """Return whether the empty strings that there are stand for missing values, or do not."""
        return {
            is_missing
            for values, is_missing in zip(self.given, self._missing, strict=True)
            if self.is_string
            and values is not None
            and pc.any(pc.equal(values, ""), min_count=0).as_py()
        }

    def last(self) -> tuple[Any, AnyArray]:
        """Return for each entry the value of the last member that has it, and where one has."""
        length = self._axis.length
        having = self._having()
        offsets = np.cumsum([0, *(len(values) for _, values in having)])
        chosen = np.full(length, -1, np.int64)
        for (sources, _), offset in zip(having, offsets, strict=False):
            chosen = np.where(sources >= 0, sources + offset, chosen)
        is_there = chosen >= 0
        if self.is_string:
            together = pa.concat_arrays([values for _, values in having])
            return pc.fill_null(together.take(pa.array(chosen, mask=~is_there)), ""), is_there
        dtype = promoted(values.dtype for _, values in having)
        together = np.concatenate(
            [converted(values, dtype, what=self._what) for _, values in having]
        )
        merged = np.zeros(length, dtype)
        merged[is_there] = together[chosen[is_there]]
        return merged, is_there

    def agree(self) -> bool:
        """Return whether all members that have a value of an entry have the same."""
        merged, _ = self.last()
        for sources, values in self._having():
            places = np.flatnonzero(sources >= 0)
            if self.is_string:
                of_member = values.take(pa.array(sources[places]))
                if not of_member.equals(merged.take(pa.array(places))):
                    return False
            else:
                of_member, common = values[sources[places]], merged[places]
                is_float = of_member.dtype.kind == "f"
                if not np.array_equal(
                    of_member, common, equal_nan=is_float and common.dtype.kind == "f"
                ):
                    return False
        return True

    def filled(self, merged: Any, is_absent: AnyArray, empty: Any) -> Any:
        """Return values with something where there are none; NaN or missing by default."""
        if self.is_string:
            text = "" if empty is None else string_of(empty)
            mask = pa.array(is_absent)
            return pc.if_else(mask, pa.scalar(text, merged.type), merged)
        fill = np.nan if empty is None else empty
        dtype = promoted([merged.dtype], fill)
        result = converted(merged, dtype, what=self._what).copy()
        result[is_absent] = fill
        return result

    def filled_strings(self, number: int, empty: Any) -> pa.Array:
        """Return the strings of one member in the order of the result."""
        text = "" if empty is None else string_of(empty)
        values = self.given[number]
        if values is None:
            return pa.repeat(pa.scalar(text, pa.large_string()), self._axis.length)
        sources = self._axis.alignments[number].sources
        return pc.fill_null(values.take(pa.array(sources, mask=sources < 0)), text)

    def stacked(self, fill: Any) -> tuple[np.dtype[Any], AnyArray, int]:
        """Return a matrix with a column for each member, and how many elements it would store.

        A column that is stored densely counts as having no zeros.
        """
        length, n_members = self._axis.length, len(self.given)
        needs_fill = any(
            values is None or bool((alignment.sources < 0).any())
            for alignment, values in zip(self._axis.alignments, self.given, strict=True)
        )
        dtypes = [values.dtype for values in self.given if values is not None]
        dtype = promoted(dtypes, fill if needs_fill else None)
        matrix = np.full((length, n_members), fill if needs_fill else 0, dtype, order="F")
        count = 0
        for number, values in enumerate(self.given):
            if values is None:
                count += length if fill else 0
                continue
            sources = self._axis.alignments[number].sources
            places = sources >= 0
            of_member = converted(values, dtype, what=self._what)
            matrix[places, number] = of_member[sources[places]]
            is_sparse = self._sparse[number]
            count += int(np.count_nonzero(matrix[:, number])) if is_sparse else length
        return dtype, matrix, count


def string_of(value: Any) -> str:
    """Return a scalar as a string."""
    return value if isinstance(value, str) else str(number_strings(np.asarray([value]))[0].as_py())
