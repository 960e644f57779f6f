"""Which rows of a table a condition on its geometries can be true for, by an R-tree.

The engine evaluates conditions such as ``ST_Intersects(bbox, ST_GeomFromText('...'))`` itself, on
every row that it is given.  Where one stands alone or is joined by AND, only rows whose boxes
overlap that of the constant geometry can be left; the R-tree names them, the others are not read.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from daf_query.conditions import Condition, column_name
from daf_query.evaluating import Positions
from daf_query.shapes import OVERLAPPING, bounds_of
from daf_query.zarr_tables import ZarrTable
from daf_storage import optional_import

_MAGIC = 0xFB
_HEADER_BYTES = 8


class UnusedIndexWarning(UserWarning):
    """An index does not fit the table that it is for, so it is not used."""


def indexed_rows(conditions: Iterable[Condition], table: ZarrTable) -> Positions | None:
    """Return the rows of a table for which all conditions can be true, if an index tells."""
    found: Positions | None = None
    for condition in conditions:
        rows = _rows_of(condition, table)
        if rows is not None:
            found = rows if found is None else np.intersect1d(found, rows)
    return found


def _rows_of(condition: Condition, table: ZarrTable) -> Positions | None:
    """Return the rows for which a condition can be true; None if no index tells."""
    expression = condition.expression
    if expression.variant_name() != "ScalarFunction":
        return None
    operands = expression.rex_call_operands()
    if expression.rex_call_operator() not in OVERLAPPING or len(operands) != 2:
        return None
    columns = [one for one in operands if one.variant_name() == "Column"]
    constants = [one for one in operands if one.variant_name() == "Literal"]
    if len(columns) != 1 or len(constants) != 1:
        return None
    column = condition.resolve(columns[0])
    name = None if column is None else column_name(column)
    if name is None:
        return None
    index = table.spatial_index(name)
    bounds = None if index is None else bounds_of(constants[0])
    if index is None or bounds is None:
        return None
    return search(index, bounds, table, name)


def search(index: Any, bounds: tuple[float, ...], table: ZarrTable, name: str) -> Positions | None:
    """Return the rows whose boxes overlap a box, ascending; None if the index does not fit."""
    rtree = optional_import("geoindex_rs.rtree", extra="spatial")
    if len(index) < _HEADER_BYTES or index[0] != _MAGIC:  # the library would panic
        _warn(table, name, "it is no R-tree")
        return None
    try:
        metadata = rtree.RTreeMetadata.from_index(index)
    except Exception as error:  # noqa: BLE001 - the library raises its own
        _warn(table, name, f"it is no R-tree ({error})")
        return None
    if metadata.num_items != table.row_count:
        _warn(table, name, f"it has {metadata.num_items:,} items for {table.row_count:,} rows")
        return None
    rows = np.asarray(rtree.search(index, *bounds)).astype(np.int64)
    return np.sort(rows)


def _warn(table: ZarrTable, name: str, problem: str) -> None:
    warnings.warn(
        f"{table.location}: the index of {name!r} is not used: {problem}; build it anew",
        UnusedIndexWarning,
        stacklevel=2,
    )
