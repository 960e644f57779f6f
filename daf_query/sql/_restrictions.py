"""Restrictions: the rows of its tables that a query can need.

They follow from the residual filters, which the optimised plan has above the tables.
"""

from __future__ import annotations

from collections.abc import Sequence

import datafusion

from daf_query.sql._connections import Connections
from daf_query.sql._filter_inference import inferred_predicate
from daf_query.sql._planning import Restriction, current_context
from daf_query.sql._residual_filters import TableName, residual_filters
from daf_query.sql._spatial_filters import indexed_rows, settled_rows
from daf_query.table import MatrixEntry, TableDataset, ZarrTable


def restrictions_of(
    frame: datafusion.DataFrame,
    connections: Connections,
    default: str,
    function_tables: Sequence[tuple[str, TableDataset]] = (),
) -> dict[TableName, Restriction]:
    """Return which rows of its tables a query can need, by its residual filters.

    Plans call all tables of a function by one name, so there has to be just one.
    """
    by_function = {} if len(function_tables) > 1 else dict(function_tables)
    restrictions: dict[TableName, Restriction] = {}
    for name, filters in residual_filters(frame, default).items():
        table = by_function.get(name[1]) or connections.find(name)
        if table is None:
            continue
        entries = _matrix_entries(name)
        table = table.with_matrix_columns(entries) if entries else table
        wide = current_context().wide_columns
        table = table.with_wide_integers(wide) if wide else table
        rows = indexed_rows(filters, table) if isinstance(table, ZarrTable) else None
        predicate = inferred_predicate(filters, table.schema)
        if rows is not None or predicate is not None:
            is_indexed = rows is not None and isinstance(table, ZarrTable)
            settled = settled_rows(filters, table) if is_indexed else None
            restrictions[name] = Restriction(rows, predicate, settled)
    return restrictions


def _matrix_entries(name: TableName) -> dict[str, MatrixEntry]:
    """Return the entries of matrices that the query and its views have a table's columns for."""
    rewritings = (current_context().rewritings or {}).values()
    columns = [rewriting.columns.get(name, {}) for rewriting in rewritings]
    return {column: entry for each in columns for column, entry in each.items()}
