"""The types in which tables have the values of matrices: those in which arithmetic is exact.

Counts are often stored in 8, 16 or 32 bits, in which sums of two genes wrap around and differences
become large numbers.  Tables have them in 64 bits: as floats if that is what they were before they
were stored as counts, so that a query answers the same, and else as integers.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from daf_query.scan import OpenColumn, Rows, arrow_type, cast_to
from daf_query.table._wrapped_column import WrappedOpenColumn
from daf_storage.spi import StorageType

_SMALL: Final = frozenset(map(StorageType.of, map(np.dtype, ("i1", "i2", "i4", "u1", "u2", "u4"))))


def value_type(storage_type: StorageType, *, was_float: bool) -> pa.DataType:
    """Return the Arrow type in which tables have the values of a matrix.

    >>> value_type(StorageType.UINT16, was_float=False)
    DataType(int64)
    >>> value_type(StorageType.FLOAT32, was_float=False)
    DataType(float)
    """
    if storage_type not in _SMALL:
        return arrow_type(storage_type)
    return pa.float64() if was_float else pa.int64()


def widened(column: OpenColumn, stored: StorageType, wide: pa.DataType) -> OpenColumn:
    """Return an open column whose Arrow arrays are of a wider type."""
    is_same = stored not in _SMALL or arrow_type(stored) == wide
    return column if is_same else _WidenedColumn(column, wide)


class _WidenedColumn(WrappedOpenColumn):
    """A column of integers whose Arrow arrays are wider.

    Predicates are evaluated on what is stored, and so are its zone map and its index: comparing
    with a wide constant is exact.
    """

    def __init__(self, column: OpenColumn, wide: pa.DataType) -> None:
        super().__init__(column)
        self._wide = wide

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return wide numbers."""
        return cast_to(self._column.to_arrow(rows), self._wide)
