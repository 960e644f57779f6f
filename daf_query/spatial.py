"""Which rows of a table a condition on its geometries can be true for, by an R-tree.

The engine evaluates conditions such as ``ST_Intersects(bbox, ST_GeomFromText('...'))`` itself, on
every row that it is given.  Where one stands alone or is joined by AND, only rows whose boxes
overlap that of the constant geometry can be left; the R-tree names them, the others are not read.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from daf_query.conditions import Condition, column_name
from daf_query.evaluating import Positions
from daf_query.index_faults import UnfitIndexError
from daf_query.shapes import OVERLAPPING, bounds_of
from daf_query.zarr_tables import ZarrTable


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
    index = table.rtree(name)
    bounds = None if index is None else bounds_of(constants[0])
    if index is None or bounds is None:
        return None
    try:
        return index.search(bounds)
    except UnfitIndexError:  # it was changed this very moment; the next query says so
        return None
