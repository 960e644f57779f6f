"""The columns of one data set, as a union with others has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from daf_query.scan import (
    Column,
    DictionaryCodes,
    OpenColumn,
    Rows,
    ScanOptions,
    Values,
    numpy_type,
)
from daf_query.table._wrapped_column import WrappedColumn, WrappedOpenColumn
from daf_storage.spi import DecodedCache

DATASET: Final = "dataset"
"""The column that says of which data set a row is."""


def column_as(column: Column | None, field: pa.Field) -> Column:
    """Return a column of one data set with the field of the union; ``None`` if it is absent."""
    if column is None:
        return NullColumn(field)
    if column.field.type == field.type:
        return UnionColumn(column, field)
    return _ConvertedColumn(column, field)


@dataclass(frozen=True, eq=False)
class ConstantColumn:
    """A column with the same string in all rows."""

    field: pa.Field
    string: str
    length: int
    is_string = True
    chunk_rows = 0

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:  # noqa: ARG002 - nothing to decode
        """Open it for reading."""
        strings = pa.array([self.string], pa.string())
        return _OpenConstant(DictionaryCodes.of_constant(strings, self.length, options.zone_rows))


class _OpenConstant:
    """A constant column that is being read."""

    def __init__(self, codes: DictionaryCodes) -> None:
        self.zones = codes.zones
        self._codes = codes

    def row_index(self) -> None:
        """Return nothing: the zone map does as well."""
        return

    def values(self, rows: Rows) -> Values:
        """Return dictionary codes."""
        return self._codes.values(rows)

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return strings."""
        return pa.repeat(self._codes.strings[0], rows.count)


@dataclass(frozen=True, eq=False)
class NullColumn:
    """A column that a data set lacks: null in all rows."""

    field: pa.Field
    is_string = True  # nothing that could be counted in bytes
    chunk_rows = 0

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:  # noqa: ARG002 - nothing to decode
        """Open it for reading."""
        return _OpenNulls(self.field.type)


class _OpenNulls:
    """A column of nulls that is being read."""

    zones = None

    def __init__(self, arrow_type: pa.DataType) -> None:
        self._arrow_type = arrow_type

    def row_index(self) -> None:
        """Return nothing: no index lists nulls."""
        return

    def values(self, rows: Rows) -> Values:
        """Refuse: predicates are freed of such columns before."""
        raise TypeError(f"a column of nulls has no values to compare ({rows})")

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return nulls."""
        return pa.nulls(rows.count, self._arrow_type)


@dataclass(frozen=True, eq=False)
class UnionColumn(WrappedColumn):
    """A column that is as it is, and may be null in other data sets."""

    union_field: pa.Field

    @property
    def field(self) -> pa.Field:
        """Its name, Arrow type and whether it can be null, in the union."""
        return self.union_field


@dataclass(frozen=True, eq=False)
class _ConvertedColumn(UnionColumn):
    """A column of numbers that has another type in other data sets."""

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Open it for reading."""
        return _OpenConverted(self.column.open(cache, options), self.field.type)


class _OpenConverted(WrappedOpenColumn):
    """A column of numbers that is converted as it is read.

    It has neither zone map nor index: the constants of predicates are of another type than theirs.
    """

    def __init__(self, column: OpenColumn, arrow_type: pa.DataType) -> None:
        super().__init__(column)
        self._arrow_type = arrow_type

    @property
    def zones(self) -> None:
        """None: see the class."""
        return

    def row_index(self) -> None:
        """Return nothing: see the class."""
        return

    def values(self, rows: Rows) -> Values:
        """Return numbers, converted; of Arrow, what is null there stays so."""
        values = self._column.values(rows)
        if isinstance(values, pa.Array):
            return self._cast(values)
        return np.asarray(values).astype(numpy_type(self._arrow_type))

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return numbers, converted; NaN as null."""
        return self._cast(self._column.to_arrow(rows))

    def _cast(self, array: pa.Array) -> pa.Array:
        return array.cast(self._arrow_type, safe=False)  # integers beyond 2^53 are rounded
