"""Rows of a table that may match a filter on its geometries, by an R-tree.

The engine evaluates conditions such as ``ST_Intersects(bbox, ST_GeomFromText('...'))`` itself, on
every row that it is given.  Where one stands alone or is joined by AND, only rows whose boxes
overlap that of the constant geometry can be left; the R-tree names them, the others are not read.
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
from daf_query.sql._residual_filters import Condition, column_name
from daf_query.table import SettledRows, ZarrTable


def indexed_rows(conditions: Iterable[Condition], table: ZarrTable) -> Positions | None:
    """Return the rows of a table for which all conditions can be true, if an index tells."""
    found: Positions | None = None
    for condition in conditions:
        rows = _rows_of(condition, table)
        if rows is not None:
            found = rows if found is None else np.intersect1d(found, rows)
    return found


def settled_rows(conditions: Iterable[Condition], table: ZarrTable) -> SettledRows | None:
    """Return the rows for which an index tells that the only condition on their geometry is true.

    Only an index is relied upon that was built here and is of the geometries that are stored now.
    """
    for condition in conditions:
        known = None if table.is_filtered else _parsed(condition)
        if known is None or known.place not in WITHIN.get(known.function, ()):
            continue
        found = table.found_index(known.column) if condition.is_only_use(known.column) else None
        if found is None or found.tree is None or not found.is_exact or found.identity is None:
            continue
        box = rectangle_of(known.constant)
        point = None if box is None else point_within(box)
        if box is None or point is None:
            continue
        rows = np.setdiff1d(found.tree.items_within(box), found.inexact)
        if rows.size:
            is_current = partial(_is_current, table, known.column, found.identity)
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


def _parsed(condition: Condition) -> _Parsed | None:
    """Return a condition that may be true only for geometries that overlap a constant one."""
    expression = condition.expression
    if expression.variant_name() != "ScalarFunction":
        return None
    operands = expression.rex_call_operands()
    function = expression.rex_call_operator()
    if function not in OVERLAPPING or len(operands) != 2:
        return None
    kinds = [one.variant_name() for one in operands]
    if sorted(kinds) != ["Column", "Literal"]:
        return None
    place = kinds.index("Column")
    column = condition.resolve(operands[place])
    name = None if column is None else column_name(column)
    return None if name is None else _Parsed(function, name, place, operands[1 - place])


def _rows_of(condition: Condition, table: ZarrTable) -> Positions | None:
    """Return the rows for which a condition can be true; None if no index tells."""
    known = _parsed(condition)
    index = None if known is None else table.rtree(known.column)
    bounds = None if known is None or index is None else bounds_of(known.constant)
    if index is None or bounds is None:
        return None
    try:
        return index.search(bounds)
    except UnfitIndexError:  # it was changed this very moment; the next query says so
        return None
