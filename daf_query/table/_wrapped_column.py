"""Columns around columns: what they do not change is passed on."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from daf_query.scan import Column, OpenColumn, RowIndex, Rows, ScanOptions, Values, ZoneMap, note_of
from daf_storage.spi import DecodedCache


@dataclass(frozen=True, eq=False)
class WrappedColumn:
    """A column around another one; by itself, the same."""

    column: Column
    """The other one."""

    @property
    def field(self) -> pa.Field:
        """Its name and Arrow type."""
        return self.column.field

    @property
    def chunk_rows(self) -> int:
        """Rows per chunk."""
        return self.column.chunk_rows

    @property
    def is_string(self) -> bool:
        """Whether its values are strings or bytes."""
        return self.column.is_string

    @property
    def note(self) -> str:
        """What a report of a scan says of it."""
        return note_of(self.column)

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Open it for reading."""
        return self.column.open(cache, options)


class WrappedOpenColumn:
    """An open column around another one; by itself, the same."""

    def __init__(self, column: OpenColumn) -> None:
        self._column = column

    @property
    def zones(self) -> ZoneMap | None:
        """The zone map; ``None`` without one."""
        return self._column.zones

    def row_index(self) -> RowIndex | None:
        """Return the index, if there is one."""
        return self._column.row_index()

    def values(self, rows: Rows) -> Values:
        """Return values to evaluate a predicate on."""
        return self._column.values(rows)

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return values as Arrow."""
        return self._column.to_arrow(rows)
