"""One entry of a matrix as a column: a gene of every cell.

A matrix may be stored so that the entry is one stored column.  Of a dense one that column is a view
of the mapped file; of a sparse one its stored elements are read, and nothing else of the matrix.
Where only the other layout is stored, or this one is damaged, values are gathered as slices are.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from daf_query.matrix import open_layouts
from daf_query.scan import OpenColumn, ScanOptions, arrow_type
from daf_query.table._entry_lookup import entry_not_found, find_entry
from daf_query.table._matrix_values import OpenMatrix, open_values, stored_by_entry
from daf_storage import DafReader, errors
from daf_storage.spi import DecodedCache, StorageType, StoredMatrix


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
    storage_type: StorageType
    """The type of the values."""
    length: int
    """Number of rows."""
    chunk_rows: int
    """Rows per chunk; all of them where they are read together."""
    note: str
    """Why reading it is slower than it need be, and what to do; empty if it is not."""

    @property
    def is_string(self) -> bool:
        """Whether its values are expensive to compare: strings, or of the other layout."""
        return self.storage_type.is_string or bool(self.note)

    @property
    def field(self) -> pa.Field:
        """Its name and Arrow type; floats can be NULL, where they are NaN."""
        is_float = self.storage_type in (StorageType.FLOAT32, StorageType.FLOAT64)
        return pa.field(self.name, arrow_type(self.storage_type), nullable=is_float)

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Open it for reading.

        Raises
        ------
        FormatError
            The matrix was replaced since by one of another type, or no layout is whole.
        """
        daf, source = self.daf, self.source
        layouts, _ = open_layouts(daf, (self.rows_axis, source.axis), source.matrix)
        infos = [stored.info for stored in layouts]
        if any(info.storage_type != self.storage_type for info in infos) or not infos:
            raise errors.FormatError(
                f"{daf.location}: matrix {source.matrix!r} of axes {self.rows_axis!r} and "
                f"{source.axis!r} was replaced while it was being queried; run the query again"
            )
        position = find_entry(daf, source.axis, source.entry, cache)
        if position is None:
            raise entry_not_found(daf, source.axis, source.entry, cache)
        axes = (self.rows_axis, source.axis)
        matrix = OpenMatrix(daf, axes, source.matrix, layouts, position, self.length, cache)
        return open_values(matrix, self.name, options)


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
    layouts, faults = open_layouts(daf, (rows_axis, source.axis), source.matrix)
    if not layouts:
        raise faults[0]
    if find_entry(daf, source.axis, source.entry, cache) is None:
        raise entry_not_found(daf, source.axis, source.entry, cache)
    stored = stored_by_entry(layouts, rows_axis)
    length = daf.axis_length(rows_axis)
    chunk_rows = length
    if stored is not None and not stored.info.is_sparse:
        chunk_rows = stored.dense().info.chunks[1]
    return MatrixColumn(
        daf,
        name,
        rows_axis,
        source,
        layouts[0].info.storage_type,
        length,
        max(chunk_rows, 1),
        "" if stored is not None else _note(layouts[0]),
    )


def _note(stored: StoredMatrix) -> str:
    """Return what a column costs of a matrix that is stored by the other axis only."""
    info = stored.info
    elements = info.shape[0] * info.shape[1] if info.nnz is None else info.nnz
    note = (
        f"gathered from up to {elements:,} stored elements, since the matrix {info.name!r} is "
        f"stored by {info.columns_axis!r} only"
    )
    if info.is_row_major:
        return note
    return (
        f"{note}; open the data set with 'r+' and call relayout_matrix({info.rows_axis!r}, "
        f"{info.columns_axis!r}, {info.name!r}) to store it both ways"
    )
