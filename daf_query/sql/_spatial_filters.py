"""The rows for which a filter on geometries can be true, by an R-tree.

The engine evaluates filters such as ``ST_Intersects(bbox, ST_GeomFromText('...'))`` itself, on
every row that it is given.  Where one stands alone or is joined by AND, it can only be true for
rows whose boxes overlap that of the constant geometry; the R-tree names them, others are not read.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from daf_query.index import UnfitIndexError
from daf_query.scan import Positions
from daf_query.sql._geometry import OVERLAPPING, WITHIN, bounds_of, point_within, rectangle_of
from daf_query.sql._plan_nodes import column_name
from daf_query.sql._residual_filters import ResidualFilter
from daf_query.table import SettledRows, ZarrTable


def indexed_rows(filters: Iterable[ResidualFilter], table: ZarrTable) -> Positions | None:
    """Return the rows of a table for which all filters can be true; None without an index."""
    rows: Positions | None = None
    for residual in filters:
        others = _rows_of(residual, table)
        if others is not None:
            rows = others if rows is None else np.intersect1d(rows, others)
    return rows


def settled_rows(filters: Iterable[ResidualFilter], table: ZarrTable) -> SettledRows | None:
    """Return the rows for which an index shows that the only filter on their geometry is true.

    Only an index is relied upon that was built here and is of the geometries that are stored now.
    """
    for residual in filters:
        known = None if table.is_filtered else _parsed(residual)
        if known is None or known.place not in WITHIN.get(known.function, ()):
            continue
        stored = table.found_index(known.column) if residual.is_only_use(known.column) else None
        if stored is None or stored.tree is None or not stored.is_exact or stored.identity is None:
            continue
        box = rectangle_of(known.constant)
        point = None if box is None else point_within(box)
        if box is None or point is None:
            continue
        rows = np.setdiff1d(stored.tree.items_within(box), stored.inexact)
        if rows.size:
            is_current = partial(_is_current, table, known.column, stored.identity)
            return SettledRows(known.column, rows, point, is_current)
    return None


def _is_current(table: ZarrTable, column: str, identity: Hashable) -> bool:
    return table.index_identity(column) == identity


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A function of a column and a constant geometry."""

    function: str
    column: str
    place: int
    """Which of the two arguments the column is."""
    constant: Any


def _parsed(residual: ResidualFilter) -> _Parsed | None:
    """Return a filter that can be true only for geometries that overlap a constant one."""
    expression = residual.expression
    if expression.variant_name() != "ScalarFunction":
        return None
    operands = expression.rex_call_operands()
    function = expression.rex_call_operator()
    if function not in OVERLAPPING or len(operands) != 2:
        return None
    types = [operand.variant_name() for operand in operands]
    if sorted(types) != ["Column", "Literal"]:
        return None
    place = types.index("Column")
    column = residual.resolve(operands[place])
    name = None if column is None else column_name(column)
    return None if name is None else _Parsed(function, name, place, operands[1 - place])


def _rows_of(residual: ResidualFilter, table: ZarrTable) -> Positions | None:
    """Return the rows for which a filter can be true; None without an index."""
    known = _parsed(residual)
    index = None if known is None else table.rtree(known.column)
    bounds = None if known is None or index is None else bounds_of(known.constant)
    if index is None or bounds is None:
        return None
    try:
        return index.search(bounds)
    except UnfitIndexError:  # it was changed this very moment; the next query says so
        return None
