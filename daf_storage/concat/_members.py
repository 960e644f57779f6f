"""The data sets that are concatenated, where their entries are, and the type that holds all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage.anndata import Notes, read_notes
from daf_storage.base import AnyArray
from daf_storage.concat._options import Options
from daf_storage.data import (
    Alignment,
    DafReader,
    DafWriter,
    StoredVector,
    number_strings,
    stored_numbers,
)

LeftOut: TypeAlias = Callable[[str, str], None]
"""Notes that a property is left out, and why."""

_EXACT_FLOAT_BITS: Final = 32
_UINT32_MOST: Final = 2**32 - 1


@dataclass(frozen=True)
class Member:
    """A data set, and what it is called in the result."""

    name: str
    daf: DafReader

    @cached_property
    def notes(self) -> Notes:
        """What an import of AnnData noted of it."""
        return read_notes(self.daf)

    def column_rules(self, axis: str) -> dict[str, dict[str, object]]:
        """Return what an import noted of the vectors of an axis, by their names."""
        columns = self.notes.get("axes", {}).get(axis, {}).get("columns", [])
        return {str(rule["vector"]): rule for rule in columns if "vector" in rule}

    @cached_property
    def axes(self) -> frozenset[str]:
        """The names of its axes."""
        return frozenset(self.daf.axes_set())

    def open_vector(self, axis: str, name: str) -> StoredVector | None:
        """Return a vector; None if it has no such axis, or vector."""
        key = (axis, name)
        if key not in self._opened:
            has_vector = name in self.vectors(axis)
            self._opened[key] = self.daf.open_vector(axis, name) if has_vector else None
        return self._opened[key]

    def vectors(self, axis: str) -> set[str]:
        """Return the names of its vectors of an axis; none if it has no such axis."""
        if axis not in self._vectors:
            self._vectors[axis] = self.daf.vectors_set(axis) if axis in self.axes else set()
        return self._vectors[axis]

    def matrices(self, rows_axis: str, columns_axis: str) -> set[str]:
        """Return the names of its matrices of two axes, in either orientation."""
        pair = (rows_axis, columns_axis)
        if pair not in self._matrices:
            has_axes = self.axes.issuperset(pair)
            self._matrices[pair] = self.daf.matrices_set(*pair) if has_axes else set()
        return self._matrices[pair]

    @cached_property
    def _opened(self) -> dict[tuple[str, str], StoredVector | None]:
        return {}

    @cached_property
    def _vectors(self) -> dict[str, set[str]]:
        return {}

    @cached_property
    def _matrices(self) -> dict[tuple[str, str], set[str]]:
        return {}


@dataclass(frozen=True)
class ResultAxis:
    """An axis of the result."""

    name: str
    entries: pa.Array
    """Large strings."""
    alignments: tuple[Alignment, ...]
    """One for each member."""
    is_concatenated: bool = False
    """Whether it has the entries of all members one after the other."""

    @property
    def length(self) -> int:
        """How many entries it has."""
        return len(self.entries)

    def member_length(self, number: int) -> int:
        """Return how many entries it has in a member."""
        places = self.alignments[number].places
        return self.length if places is None else int(places.size)


@dataclass(frozen=True)
class Run:
    """One concatenation, while it is made."""

    daf: DafWriter
    """The result."""
    members: list[Member]
    options: Options
    axes: dict[str, ResultAxis]
    """Those of the result, by name."""
    left_out: LeftOut
    add: Callable[[int], None]
    """Called with bytes that were written."""
    folder: Path | None
    """Where large arrays are kept while they are needed; None for the system's folder."""

    def vectors(self, axis: ResultAxis) -> list[str]:
        """Return the vectors of an axis that any member has."""
        return sorted({name for member in self.members for name in member.vectors(axis.name)})

    def matrices(self, rows: ResultAxis, columns: ResultAxis) -> list[str]:
        """Return the matrices of two axes that any member has."""
        pair = rows.name, columns.name
        return sorted({name for member in self.members for name in member.matrices(*pair)})

    def of_axes(self, *, is_concatenated: bool) -> list[ResultAxis]:
        """Return the concatenated axes, or the shared ones."""
        return [axis for axis in self.axes.values() if axis.is_concatenated == is_concatenated]


def promoted(dtypes: Iterable[np.dtype[Any]], fill: Any = None) -> np.dtype[Any]:
    """Return the dtype that holds the values of all these, and the fill value if there is one.

    As numpy promotes, but that Int64 and UInt64 become Int64: they would be rounded to floats.  A
    fill value has the type of a numpy scalar, or else the narrowest that is enough.

    >>> promoted([np.dtype("uint8"), np.dtype("int8")]), promoted([np.dtype(bool)], float("nan"))
    (dtype('int16'), dtype('float32'))
    >>> promoted([np.dtype("int64"), np.dtype("uint64")])
    dtype('int64')
    >>> promoted([np.dtype("int8")], 127), promoted([np.dtype("int8")], 128)
    (dtype('int8'), dtype('int16'))
    """
    given = set(dtypes)
    dtype = np.result_type(*given)
    if dtype.kind == "f" and not any(each.kind == "f" for each in given):
        dtype = np.dtype(np.int64)
    if isinstance(fill, np.generic):
        return promoted([dtype, fill.dtype])
    if fill is None or dtype.kind == "f":
        return dtype
    if isinstance(fill, bool):
        return np.result_type(dtype, np.bool_)
    if float(fill).is_integer():
        if dtype.kind == "b" and fill in (0, 1):
            return dtype
        if dtype.kind in "iu" and np.iinfo(dtype).min <= fill <= np.iinfo(dtype).max:
            return dtype
        return promoted([dtype, np.min_scalar_type(int(fill))])
    return np.result_type(dtype, np.float32)


def converted(values: AnyArray, dtype: np.dtype[Any], *, what: str) -> AnyArray:
    """Return numbers in another dtype, or an error that names the first that does not fit."""
    if values.dtype == dtype:
        return values
    is_rounding = dtype.kind == "f" and values.dtype.itemsize * 8 > _EXACT_FLOAT_BITS
    if values.dtype.kind in "iu" and (is_rounding or dtype.kind != "f"):
        return stored_numbers(values, dtype, what=what)
    return values.astype(dtype)


def is_worth_sparse(
    least: float, *, size: int, stored: int, itemsize: int, pointers: int = 0, largest: int
) -> bool:
    """Return whether sparse storage saves at least a part of the space, as the reference estimates.

    Parameters
    ----------
    size, stored
        How many elements there are, and how many of them would be stored.
    pointers
        How many numbers there are besides.
    largest
        What an index must hold.
    """
    index_bytes = 4 if largest <= _UINT32_MOST else 8
    dense_bytes = size * itemsize
    sparse_bytes = stored * (itemsize + index_bytes) + pointers * index_bytes
    return dense_bytes > 0 and (dense_bytes - sparse_bytes) / dense_bytes >= least


def string_of(value: Any) -> str:
    """Return a scalar as a string."""
    return value if isinstance(value, str) else str(number_strings(np.asarray([value]))[0].as_py())
