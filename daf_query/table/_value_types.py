"""The types in which tables have integers of few bits: those in which arithmetic is exact.

Counts are often stored in 8, 16 or 32 bits, in which sums of two genes wrap around and differences
become large numbers.  Tables have them in 64 bits: as floats if that is what they were before they
were stored as counts, so that a query answers the same, and else as integers.  Vectors keep their
types, unless a query computes with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from daf_query.scan import (
    Column,
    Compare,
    In,
    OpenColumn,
    Positions,
    Predicate,
    RowIndex,
    Rows,
    ScanOptions,
    Values,
    arrow_type,
    cast_to,
    numpy_type,
)
from daf_query.table._wrapped_column import WrappedColumn, WrappedOpenColumn
from daf_storage import errors
from daf_storage.spi import DecodedCache, StorageType

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

    def values(self, rows: Rows) -> Values:
        """Return values to evaluate a predicate on; of Arrow, wide ones."""
        values = self._column.values(rows)
        return self._cast(values) if isinstance(values, pa.Array) else values

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return wide numbers."""
        return self._cast(self._column.to_arrow(rows))

    def _cast(self, array: pa.Array) -> pa.Array:
        return cast_to(array, self._wide)


class _OpenWide(_WidenedColumn):
    """A vector of integers whose Arrow arrays are of Int64."""

    def __init__(self, column: OpenColumn, stored: pa.Field) -> None:
        super().__init__(column, pa.int64())
        self._stored = stored

    def row_index(self) -> RowIndex | None:
        """Return the index, if there is one, for constants of the type that is stored."""
        index = self._column.row_index()
        return None if index is None else _IndexOfStored(index, self._stored.type)

    def _cast(self, array: pa.Array) -> pa.Array:
        try:
            return super()._cast(array)
        except pa.ArrowInvalid:
            name = self._stored.name
            raise errors.UnsupportedDataError(
                f"the query computes with the column {name!r}, which has values above "
                f"9,223,372,036,854,775,807; write CAST({name} AS DECIMAL(20, 0)) there"
            ) from None


@dataclass(frozen=True, slots=True)
class _IndexOfStored:
    """An index that is asked only for what the stored type can hold."""

    index: RowIndex
    stored: pa.DataType

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is of."""
        return self.index.columns

    def divisor(self, options: ScanOptions) -> int:
        """Return how selective it has to be."""
        return self.index.divisor(options)

    def find(self, conditions: Sequence[Predicate], max_rows: int) -> Positions | None:
        """Return the rows for which all conditions may be true; None where that is not known."""
        limits = np.iinfo(numpy_type(self.stored))
        constants = [
            value
            for condition in conditions
            if isinstance(condition, Compare | In)
            for value in (condition.values if isinstance(condition, In) else [condition.value])
        ]
        is_held = all(limits.min <= value <= limits.max for value in constants)
        return self.index.find(conditions, max_rows) if is_held else None


def is_of_few_bits(kind: pa.DataType) -> bool:
    """Return whether sums or differences of a type may wrap around where counts do not."""
    return bool(pa.types.is_integer(kind)) and kind != pa.int64()


@dataclass(frozen=True, eq=False)
class WideColumn(WrappedColumn):
    """A column of integers as one of Int64."""

    @property
    def field(self) -> pa.Field:
        """Its name, Int64, and whether it can be null."""
        return self.column.field.with_type(pa.int64())

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Open it for reading."""
        return _OpenWide(self.column.open(cache, options), self.column.field)


def wide_columns(columns: Mapping[str, Column], names: AbstractSet[str]) -> dict[str, Column]:
    """Return columns, of which those of some names that are integers of few bits are Int64."""
    return {
        name: WideColumn(column) if name in names and is_of_few_bits(column.field.type) else column
        for name, column in columns.items()
    }
