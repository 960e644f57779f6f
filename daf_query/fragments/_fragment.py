"""Fragments: which rows of a table to read, without any of their values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from daf_query.distributed import Source, reading
from daf_query.matrix import Selection
from daf_query.table import MatrixDataset, TableDataset, TableFragment
from daf_storage.base import Span


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of the table of one data set."""

    source: Source
    """How the table is opened."""
    dataset: str | None
    """What the column ``dataset`` calls the data set; None if it stands alone."""
    spans: tuple[Span, ...]
    """The rows, ascending; none if they are those of a block."""
    row_count: int
    """Number of rows, whatever the filter is."""
    table_rows: int
    """How many rows the table had when the piece was planned."""
    block: tuple[Selection, Selection] | None = None
    """Of a matrix, the rows and the columns."""

    def rows(
        self,
        table: TableDataset,
        filter: pc.Expression | None,  # noqa: A002 - pyarrow's name
    ) -> TableDataset | TableFragment:
        """Return the rows of the table, as it was opened; nothing is read."""
        if table.table_columns.length != self.table_rows:
            raise self.source.changed()
        if self.block is None or not isinstance(table, MatrixDataset):
            return table.fragment(self.spans, filter)
        return table.of(*self.block)


@dataclass(frozen=True, slots=True, eq=False)
class Fragment:
    """Some rows of a table, to be read in any process that sees the same paths.

    Pickled, it is paths, names, numbers and the filter; it never holds values of columns.
    """

    pieces: tuple[Piece, ...]
    """The rows, by data set."""
    schema: pa.Schema
    """The schema of the batches: the columns that are read."""
    filter: pc.Expression | None
    """Only rows for which it is true are read; it may name other columns."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return tuple(self.schema.names)

    @property
    def row_count(self) -> int:
        """Number of rows, whatever the filter is: never less than `read` yields."""
        return sum(piece.row_count for piece in self.pieces)

    @property
    def paths(self) -> list[str]:
        """The absolute paths or URLs of its data sets."""
        return [path for piece in self.pieces for path in piece.source.paths]

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; zones and indexes leave out what the filter excludes.

        Raises
        ------
        SourceNotFoundError
            A path is not there, such as on a worker that does not share the file system.
        InvalidInputError
            The table was changed or replaced since the fragment was planned.
        """
        columns = self.schema.names
        for piece in self.pieces:
            with reading(piece.source) as table:
                rows = piece.rows(table, self.filter)
                yield from rows.to_batches(columns=columns, filter=self.filter)

    def count_rows(self) -> int:
        """Return the number of rows that the filter leaves; without one nothing is read."""
        count = 0
        for piece in self.pieces:
            with reading(piece.source) as table:
                count += piece.rows(table, self.filter).count_rows(self.filter)
        return count
