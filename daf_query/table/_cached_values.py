"""Distinct strings and ranges of columns, as far as a session has them cached; nothing is read."""

from __future__ import annotations

import pyarrow as pa

from daf_query.scan import Column, OpenColumn, StringColumn, VectorColumn
from daf_query.table._categorical_columns import CategoricalColumn
from daf_query.table._dataset import TableDataset
from daf_query.table._recorded_columns import RecordedColumn
from daf_query.table._union_columns import UnionColumn
from daf_query.table._wrapped_column import WrappedColumn


def cached_strings(table: TableDataset, name: str) -> pa.Array | None:
    """Return the distinct strings of a column, if its dictionary codes are cached."""
    opened = _opened(table, name)
    return opened.known_strings if isinstance(opened, StringColumn) else None


def cached_range(table: TableDataset, name: str) -> tuple[float, float] | None:
    """Return the smallest and largest number of a column, if all of its zone map is known."""
    opened = _opened(table, name)
    zones = None if opened is None else opened.zones
    return None if zones is None else zones.known_range()


def _opened(table: TableDataset, name: str) -> OpenColumn | None:
    column: Column | None = table.table_columns.columns.get(name)
    while isinstance(column, WrappedColumn | CategoricalColumn):
        if isinstance(column, RecordedColumn | UnionColumn):  # values are not those stored
            return None
        column = column.stored if isinstance(column, CategoricalColumn) else column.column
    if not isinstance(column, VectorColumn):
        return None
    return column.open(table.cache, table.options)
