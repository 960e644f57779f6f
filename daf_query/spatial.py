"""Which rows of a table a condition on its geometries can be true for, by an R-tree.

The engine evaluates conditions such as ``ST_Intersects(bbox, ST_GeomFromText('...'))`` itself, on
every row that it is given.  Where one stands alone or is joined by AND, only rows whose boxes
overlap that of the constant geometry can be left; the R-tree names them, the others are not read.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import datafusion
import numpy as np

from daf_query.evaluating import Positions
from daf_query.zarr_tables import ZarrTable
from daf_storage import optional_import

_MAGIC = 0xFB
_HEADER_BYTES = 8
_OVERLAPPING = frozenset(
    f"st_{name}"
    for name in (
        "contains",
        "coveredby",
        "covers",
        "crosses",
        "equals",
        "intersects",
        "overlaps",
        "touches",
        "within",
    )
)
"""Functions that are true only for geometries whose boxes overlap."""


class UnusedIndexWarning(UserWarning):
    """An index does not fit the table that it is for, so it is not used."""


def indexed_rows(
    frame: datafusion.DataFrame, tables: Mapping[str, ZarrTable]
) -> dict[str, Positions]:
    """Return the rows that can be left of each table, where an index tells.

    A table that a query scans more than once is left alone: its scans may have other conditions.
    """
    plan = frame.optimized_logical_plan()
    nodes = list(_nodes(plan))
    lines = str(plan.display_indent()).splitlines()
    shown = sum(line.strip().startswith("TableScan:") for line in lines)
    if shown != sum(_kind(node) == "TableScan" for node in nodes):
        return {}  # a subquery within an expression scans tables too, and needs all of their rows
    scans = Counter(_table_of(node) for node in nodes if _kind(node) == "TableScan")
    found: dict[str, Positions] = {}
    for node in nodes:
        name = _filtered_table(node)
        if name is None or scans[name] != 1 or name not in tables:
            continue
        for condition in _conjuncts(node.to_variant().predicate()):
            rows = _rows_of(condition, tables[name])
            if rows is not None:
                known = found.get(name)
                found[name] = rows if known is None else np.intersect1d(known, rows)
    return found


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in plan.inputs():
        yield from _nodes(child)


def _kind(node: Any) -> str:
    try:
        return type(node.to_variant()).__name__
    except Exception:  # noqa: BLE001 - nodes that the bindings have no class for
        return ""


def _table_of(node: Any) -> str:
    return str(node.to_variant().table_name())


def _filtered_table(node: Any) -> str | None:
    """Return the table that a filter is right above of; None for any other node."""
    if _kind(node) != "Filter":
        return None
    below = node.inputs()[0]
    while _kind(below) == "SubqueryAlias":
        below = below.inputs()[0]
    return _table_of(below) if _kind(below) == "TableScan" else None


def _conjuncts(expression: Any) -> Iterator[Any]:
    """Yield the conditions that are joined by AND."""
    if expression.variant_name() == "BinaryExpr" and expression.rex_call_operator() == "AND":
        for operand in expression.rex_call_operands():
            yield from _conjuncts(operand)
    else:
        yield expression


def _rows_of(condition: Any, table: ZarrTable) -> Positions | None:
    """Return the rows for which a condition can be true; None if no index tells."""
    if condition.variant_name() != "ScalarFunction":
        return None
    operands = condition.rex_call_operands()
    if condition.rex_call_operator() not in _OVERLAPPING or len(operands) != 2:
        return None
    columns = [one for one in operands if one.variant_name() == "Column"]
    constants = [one for one in operands if one.variant_name() == "Literal"]
    if len(columns) != 1 or len(constants) != 1:
        return None
    name = str(columns[0].to_variant().name())
    index = table.spatial_index(name)
    bounds = None if index is None else _bounds(constants[0])
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


def _bounds(constant: Any) -> tuple[float, float, float, float] | None:
    """Return the box of a constant geometry, a little widened for trees of less precision."""
    native = optional_import("geodatafusion.native", extra="spatial")
    sides = [native.XMin, native.YMin, native.XMax, native.YMax]
    calls = [
        datafusion.udf(side())(datafusion.Expr(constant)).alias(str(number))
        for number, side in enumerate(sides)
    ]
    row = datafusion.SessionContext().sql("SELECT 1 AS one").select(*calls).to_pylist()[0]
    box = [row[str(number)] for number in range(4)]
    if any(side is None or not np.isfinite(side) for side in box):
        return None
    down, up = np.float32(-np.inf), np.float32(np.inf)
    low = [min(side, float(np.nextafter(np.float32(side), down))) for side in box[:2]]
    high = [max(side, float(np.nextafter(np.float32(side), up))) for side in box[2:]]
    return (low[0], low[1], high[0], high[1])
