"""Filters on shapes: the boxes and rows outside of which they are false, by an R-tree or without.

The engine evaluates filters such as ``ST_Intersects(bbox, ST_GeomFromText('...'))`` itself, on
every row that it is given.  Where one stands alone or is joined by AND, it can only be true for
rows whose boxes overlap that of the constant geometry; the R-tree names them, others are not read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import datafusion
import numpy as np
import pyarrow as pa

from daf_query.index import UnfitIndexError
from daf_query.scan import Positions
from daf_query.sql._plan_nodes import column_name
from daf_query.table import ZarrTable
from daf_storage.base import optional_import

Box: TypeAlias = tuple[float, float, float, float]
"""Smallest x and y, largest x and y."""

BOX_SIDES: Final = ("XMin", "YMin", "XMax", "YMax")

_OVERLAPPING: Final = frozenset(
    f"st_{name}"
    for name in (
        *("contains", "coveredby", "covers", "crosses", "equals"),
        *("intersects", "overlaps", "touches", "within"),
    )
)
"""Functions that are true only for geometries whose boxes overlap."""


def _overlap(expression: Any) -> tuple[Any, Any] | None:
    """Return two operands, the second a constant, of a filter that needs their boxes to overlap."""
    if expression.variant_name() != "ScalarFunction":
        return None
    operands = expression.rex_call_operands()
    is_constant = [operand.variant_name() == "Literal" for operand in operands]
    if expression.rex_call_operator() not in _OVERLAPPING or sorted(is_constant) != [False, True]:
        return None
    return operands[is_constant.index(False)], operands[is_constant.index(True)]


def point_in_box(expression: Any) -> tuple[list[Any], Box] | None:
    """Return the coordinates of a point, and the box outside of which a filter is false."""
    operand, constant = _overlap(expression) or (expression, None)
    is_point = operand.variant_name() == "ScalarFunction" and constant is not None
    if not is_point or operand.rex_call_operator() != "st_point":
        return None
    bounds = _bounds_of(constant)
    return None if bounds is None else (operand.rex_call_operands(), bounds)


def indexed_rows(filters: Iterable[Any], table: ZarrTable) -> Positions | None:
    """Return the rows of a table for which all filters can be true; None without an index."""
    rows: Positions | None = None
    for each in filters:
        others = _rows_of(each, table)
        if others is not None:
            rows = others if rows is None else np.intersect1d(rows, others)
    return rows


def _rows_of(expression: Any, table: ZarrTable) -> Positions | None:
    operand, constant = _overlap(expression) or (expression, None)
    column = None if constant is None else column_name(operand)
    index = None if column is None else table.rtree(column)
    bounds = None if index is None else _bounds_of(constant)
    if index is None or bounds is None:
        return None
    try:
        return index.search(bounds)
    except UnfitIndexError:  # it was changed this very moment; the next query says so
        return None


def _bounds_of(constant: Any) -> Box | None:
    """Return the box of a constant geometry, a little widened for trees of less precision."""
    native = optional_import("geodatafusion.native", extra="spatial")
    calls = [
        datafusion.udf(getattr(native, name)())(datafusion.Expr(constant)).alias(name)
        for name in BOX_SIDES
    ]
    row = datafusion.SessionContext().sql("SELECT 1 AS x").select(*calls).to_pylist()[0]
    box = [row[name] for name in BOX_SIDES]
    if any(side is None or not math.isfinite(side) for side in box):
        return None
    down, up = np.float32(-np.inf), np.float32(np.inf)
    x, y = (min(side, float(np.nextafter(np.float32(side), down))) for side in box[:2])
    to_x, to_y = (max(side, float(np.nextafter(np.float32(side), up))) for side in box[2:])
    return x, y, to_x, to_y


def geometry_boxes(batch: pa.RecordBatch) -> Any:
    """Return the sides of the boxes of a batch of geometries, in its order.

    One batch at a time, in one partition: the engine hands on several in whatever order they come.
    """
    config = datafusion.SessionConfig().with_target_partitions(1)
    context = datafusion.SessionContext(config)
    optional_import("geodatafusion", extra="spatial").register_all(context)
    field = batch.schema.field(0).with_name("g")
    renamed = pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema([field]))
    context.register_record_batches("t", [[renamed]])
    sides = ", ".join(f"ST_{side}(g)" for side in BOX_SIDES)
    table = context.sql(f"SELECT {sides} FROM t").to_arrow_table()  # noqa: S608 - no input in it
    return np.array([np.asarray(side.combine_chunks(), np.float64) for side in table.columns])
