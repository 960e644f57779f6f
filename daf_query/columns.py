"""A column: an Arrow field and a way to read any range of its rows.

Numbers stay in the mapped file; strings are decoded once.  NaN becomes NULL, because engines
disagree on how NaN compares (greater than everything, or nothing) and agree on NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from daf_storage import DafReader, Span, StorageType, VectorInfo, errors

INDEX = "index"
NAME = "name"


def arrow_type(storage_type: StorageType) -> pa.DataType:
    """Return the Arrow type of a storage type.

    >>> arrow_type(StorageType.UINT8)
    DataType(uint8)
    """
    if storage_type.is_string:
        return pa.string()
    return pa.from_numpy_dtype(storage_type.dtype.newbyteorder("="))


@dataclass(frozen=True, slots=True)
class Column:
    """One column of an axis table, as the metadata describes it; no data was read."""

    info: VectorInfo
    """The vector behind it."""

    @property
    def field(self) -> pa.Field:
        """Its name and Arrow type; only floats can be NULL (where they are NaN)."""
        kind = self.info.storage_type
        is_float = kind in (StorageType.FLOAT32, StorageType.FLOAT64)
        return pa.field(self.info.name, arrow_type(kind), nullable=is_float)

    def open(self, daf: DafReader) -> Callable[[Span], pa.Array]:
        """Return a function that reads a range of rows; all it reads belongs together.

        Raises
        ------
        FormatError
            The vector was replaced since by one of another type or length: ask again.
        """
        if self.info.name == INDEX:
            return lambda span: pa.array(np.arange(span.start, span.stop))
        if self.info.name == NAME:
            return _sliced(daf.get_pa_vector(self.info.axis, NAME))
        stored = daf.open_vector(self.info.axis, self.info.name)
        found = (stored.info.storage_type, stored.info.length)
        if found != (self.info.storage_type, self.info.length):
            raise errors.FormatError(
                f"{daf.location}: vector {self.info.name!r} of axis {self.info.axis!r} was "
                "replaced while it was being queried; run the query again"
            )
        if self.info.storage_type.is_string:
            return _sliced(daf.strings_of(stored))
        read = stored.reader()
        return lambda span: number_array(read(span))


def _sliced(strings: Any) -> Callable[[Span], pa.Array]:
    if len(strings) and pa.types.is_large_string(strings.type):
        return lambda span: strings.slice(span.start, span.size).cast(pa.string())
    return lambda span: strings.slice(span.start, span.size)


def number_array(values: Any) -> pa.Array:
    """Return numbers as Arrow without a copy (but for Bool); NaN becomes NULL.

    >>> number_array(np.array([1.5, np.nan])).to_pylist()
    [1.5, None]
    """
    if values.dtype == np.bool_:
        return pa.array(values.view(np.uint8) != 0)
    values = np.require(values, requirements=("C_CONTIGUOUS", "ALIGNED"))
    validity, null_count = None, 0
    if values.dtype.kind == "f":
        is_nan = np.isnan(values)
        null_count = int(np.count_nonzero(is_nan))
        if null_count:
            validity = pa.py_buffer(np.packbits(~is_nan, bitorder="little"))
    kind = pa.from_numpy_dtype(values.dtype.newbyteorder("="))
    buffers = [validity, pa.py_buffer(values)]
    return pa.Array.from_buffers(kind, len(values), buffers, null_count)
