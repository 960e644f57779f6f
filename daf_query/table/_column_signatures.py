"""Signatures of the columns of a table, by which those of many data sets are grouped."""

from __future__ import annotations

from collections.abc import Hashable

from daf_query.scan import Column, VectorColumn
from daf_query.table._broken_columns import GuardedColumn
from daf_query.table._table_columns import TableColumns
from daf_query.table._union_columns import UnionColumn


def vector_of(column: Column | None) -> VectorColumn | None:
    """Return the vector whose values a column has; ``None`` if it has others."""
    while isinstance(column, GuardedColumn | UnionColumn):
        column = column.column
    return column if isinstance(column, VectorColumn) else None


def signature_of(columns: TableColumns) -> Hashable | None:
    """Return what tables of the same schema have in common, all of whose columns are vectors.

    ``None`` if one of the columns is none: the table has to be looked at by itself.
    """
    parts: list[Hashable] = []
    for name, column in columns.columns.items():
        vector = vector_of(column)
        if vector is None:
            return None
        info = vector.info
        parts.append((name, info.storage_type, info.empty_is_missing))
    return tuple(parts)
