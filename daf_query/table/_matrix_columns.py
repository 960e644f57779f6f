"""One entry of a matrix as a column: a gene of every cell.

A matrix may be stored so that the entry is one stored column.  Of a dense one that column is a view
of the mapped file; of a sparse one its stored elements are read, and nothing else of the matrix.
Where only the other layout is stored, or this one is damaged, values are gathered as slices are.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from daf_query.scan import OpenColumn, ScanOptions, arrow_type
from daf_query.table._columns import OpenTableColumn, TableColumn
from daf_query.table._entry_lookup import require_entry
from daf_query.table._matrix_values import (
    ColumnLayout,
    MatrixSource,
    column_layout,
    open_values,
    replaced,
)
from daf_storage import DafReader
from daf_storage.spi import DecodedCache, StorageType


@dataclass(frozen=True, slots=True)
class MatrixEntry:
    """An entry of a matrix: which matrix over the axis of a table, and which of its columns."""

    axis: str
    """The other axis of the matrix."""
    matrix: str
    """Its name."""
    entry: str
    """The entry of the other axis."""


@dataclass(frozen=True, slots=True)
class MatrixColumn:
    """An entry of a matrix as a column of the table of an axis."""

    daf: DafReader
    """The data set."""
    name: str
    """The name of the column."""
    rows_axis: str
    """The axis whose table it is a column of."""
    source: MatrixEntry
    """Where its values are."""
    layout: ColumnLayout
    """How it is stored."""

    @property
    def chunk_rows(self) -> int:
        """Rows per chunk."""
        return self.layout.chunk_rows

    @property
    def note(self) -> str:
        """Why reading it is slower than it need be, and what to do; empty if it is not."""
        return self.layout.note

    @property
    def is_string(self) -> bool:
        """Whether its values are expensive to compare: strings, or of the other layout."""
        return self.layout.storage_type.is_string or not self.layout.is_by_entry

    @property
    def stored_type(self) -> pa.DataType:
        """The Arrow type of what is stored."""
        return arrow_type(self.layout.storage_type)

    @property
    def field(self) -> pa.Field:
        """Its name and Arrow type, see `value_type`; floats can be NULL, where they are NaN."""
        storage_type = self.layout.storage_type
        is_float = storage_type in (StorageType.FLOAT32, StorageType.FLOAT64)
        return pa.field(self.name, self.layout.value_type, nullable=is_float)

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Open it for reading.

        Raises
        ------
        FormatError
            The matrix was replaced since by one of another type, or no layout is whole.
        """
        daf, source = self.daf, self.source
        axes = (self.rows_axis, source.axis)
        identity = daf.matrix_identity(*axes, source.matrix)
        layout = column_layout(daf, axes, source.matrix, cache)
        if layout.storage_type != self.layout.storage_type:
            raise replaced(daf, axes, source.matrix)
        position = require_entry(daf, source.axis, source.entry, cache)
        matrix = MatrixSource(daf, axes, source.matrix, layout, position, cache, identity)
        column = open_values(matrix, self.name, options)
        kind = self.layout.value_type
        if kind == arrow_type(layout.storage_type):
            return column
        return OpenTableColumn(column, TableColumn(self, wide=kind), cache)


def matrix_column(
    daf: DafReader, rows_axis: str, name: str, source: MatrixEntry, cache: DecodedCache
) -> MatrixColumn:
    """Return an entry of a matrix as a column of the table of an axis; reads metadata only.

    Raises
    ------
    MatrixNotFoundError, EntryNotFoundError
        There is no such matrix, or its other axis has no such entry.
    FormatError
        No layout is whole.
    """
    layout = column_layout(daf, (rows_axis, source.axis), source.matrix, cache)
    require_entry(daf, source.axis, source.entry, cache)
    return MatrixColumn(daf, name, rows_axis, source, layout)
