"""Filters on shapes: the boxes and rows outside of which they are false, by an R-tree or without.

The engine evaluates filters such as ``ST_Intersects(bbox, ST_GeomFromText('...'))`` itself, on
every row that it is given.  Where one stands alone or is joined by AND, it can only be true for
rows whose boxes overlap that of the constant geometry; the R-tree names them, others are not read.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import datafusion
import numpy as np
import pyarrow as pa

from daf_query.index import UnfitIndexError
from daf_query.scan import Positions
from daf_query.sql._plan_nodes import TableScan, column_name, parts_of
from daf_query.table import SettledRows, ZarrTable
from daf_storage.spi import optional_import

Box: TypeAlias = tuple[float, float, float, float]
"""Smallest x and y, largest x and y."""

BOX_SIDES: Final = ("XMin", "YMin", "XMax", "YMax")
_ODD: Final = "NaN|nan|inf|Inf|EMPTY"

_OVERLAPPING: Final = frozenset(
    f"st_{name}"
    for name in (
        *("contains", "coveredby", "covers", "crosses", "equals"),
        *("intersects", "overlaps", "touches", "within"),
    )
)
"""Functions that are true only for geometries whose boxes overlap."""
_WITHIN: Final = {
    "st_coveredby": (0,),
    "st_intersects": (0, 1),
    "st_within": (0,),
    "st_contains": (1,),
    "st_covers": (1,),
}
"""Functions that are true for any geometry strictly within a rectangle, and which of the two
arguments the geometry is."""
_POLYGON: Final = struct.pack("<BIII", 1, 3, 1, 5)


@dataclass(frozen=True, slots=True)
class _Overlap:
    """A function of something and a constant geometry, true only where their boxes overlap."""

    function: str
    operand: Any
    place: int
    """Which of the two arguments that is."""
    constant: Any


def _overlap(expression: Any) -> _Overlap | None:
    """Return a filter as such a function; None if it is anything else."""
    if expression.variant_name() != "ScalarFunction":
        return None
    operands, function = expression.rex_call_operands(), expression.rex_call_operator()
    is_constant = [operand.variant_name() == "Literal" for operand in operands]
    if function not in _OVERLAPPING or sorted(is_constant) != [False, True]:
        return None
    place = is_constant.index(False)
    return _Overlap(function, operands[place], place, operands[1 - place])


def point_in_box(expression: Any) -> tuple[list[Any], Box] | None:
    """Return the coordinates of a point, and the box outside of which a filter is false."""
    overlap = _overlap(expression)
    if overlap is None or overlap.operand.variant_name() != "ScalarFunction":
        return None
    if overlap.operand.rex_call_operator() != "st_point":
        return None
    bounds = _bounds_of(overlap.constant)
    return None if bounds is None else (overlap.operand.rex_call_operands(), bounds)


def indexed_rows(filters: Iterable[Any], table: ZarrTable) -> Positions | None:
    """Return the rows of a table for which all filters can be true; None without an index."""
    rows: Positions | None = None
    for each in filters:
        others = _rows_of(each, table)
        if others is not None:
            rows = others if rows is None else np.intersect1d(rows, others)
    return rows


def _rows_of(expression: Any, table: ZarrTable) -> Positions | None:
    overlap = _overlap(expression)
    column = None if overlap is None else column_name(overlap.operand)
    index = None if column is None else table.rtree(column)
    bounds = None if overlap is None or index is None else _bounds_of(overlap.constant)
    if index is None or bounds is None:
        return None
    try:
        return index.search(bounds)
    except UnfitIndexError:  # it was changed this very moment; the next query says so
        return None


def settled_rows(scan: TableScan, table: ZarrTable) -> SettledRows | None:
    """Return the rows for which an index shows that the only filter on their geometry is true.

    Only an index is relied upon that was built here and is of the geometries that are stored now.
    """
    used = [column_name(part) for each in scan.filters for part in parts_of(each)]
    for each in scan.filters:
        overlap = None if table.is_filtered else _overlap(each)
        if overlap is None or overlap.place not in _WITHIN.get(overlap.function, ()):
            continue
        column = column_name(overlap.operand)
        if column is None or column in scan.columns or used.count(column) > 1:
            continue
        stored = table.found_index(column)
        if stored.tree is None or not stored.is_exact or stored.identity is None:
            continue
        box = _rectangle_of(overlap.constant)
        point = None if box is None else _point_within(box)
        if box is None or point is None:
            continue
        rows = np.setdiff1d(stored.tree.items_within(box), stored.inexact)
        if rows.size:
            is_current = partial(_is_current, table, column, stored.identity)
            return SettledRows(column, rows, point, is_current)
    return None


def _is_current(table: ZarrTable, column: str, identity: Hashable) -> bool:
    return table.index_identity(column) == identity


def _computed(constant: Any, *functions: str) -> list[Any]:
    """Return what functions of geometries are for a constant one."""
    native = optional_import("geodatafusion.native", extra="spatial")
    calls = [
        datafusion.udf(getattr(native, name)())(datafusion.Expr(constant)).alias(name)
        for name in functions
    ]
    row = datafusion.SessionContext().sql("SELECT 1 AS x").select(*calls).to_pylist()[0]
    return [row[name] for name in functions]


def _bounds_of(constant: Any) -> Box | None:
    """Return the box of a constant geometry, a little widened for trees of less precision."""
    box = _computed(constant, *BOX_SIDES)
    if any(side is None or not math.isfinite(side) for side in box):
        return None
    down, up = np.float32(-np.inf), np.float32(np.inf)
    x, y = (min(side, float(np.nextafter(np.float32(side), down))) for side in box[:2])
    to_x, to_y = (max(side, float(np.nextafter(np.float32(side), up))) for side in box[2:])
    return x, y, to_x, to_y


def _rectangle_of(constant: Any) -> Box | None:
    """Return a constant geometry as a box; None if it is anything but just that rectangle."""
    (data,) = _computed(constant, "AsBinary")
    return None if data is None else _box_of_wkb(bytes(data))


def _box_of_wkb(data: bytes) -> Box | None:
    """Return the box that a polygon is; None if it is anything else.

    >>> corners = (0, 0, 3, 0, 3, 2, 0, 2, 0, 0)
    >>> _box_of_wkb(struct.pack("<BIII10d", 1, 3, 1, 5, *corners))
    (0.0, 0.0, 3.0, 2.0)
    >>> _box_of_wkb(struct.pack("<BIII10d", 1, 3, 1, 5, *corners[:4], 2, *corners[5:]))
    """
    if len(data) != len(_POLYGON) + 80 or not data.startswith(_POLYGON):
        return None
    numbers = struct.unpack_from("<10d", data, len(_POLYGON))
    ring = list(zip(numbers[::2], numbers[1::2], strict=True))
    (low_x, low_y), (high_x, high_y) = (tuple(map(f, zip(*ring, strict=True))) for f in (min, max))
    if not all(map(math.isfinite, numbers)) or low_x >= high_x or low_y >= high_y:
        return None
    corners = [(low_x, low_y), (high_x, low_y), (high_x, high_y), (low_x, high_y)]
    first = corners.index(ring[0]) if ring[0] in corners else 0
    round_left = [corners[(first + step) % 4] for step in range(5)]
    return (low_x, low_y, high_x, high_y) if ring in (round_left, round_left[::-1]) else None


def _point_within(box: Box) -> bytes | None:
    """Return a point strictly within a box, as WKB; None if there is none in floating point."""
    x, y = box[0] / 2 + box[2] / 2, box[1] / 2 + box[3] / 2
    is_within = box[0] < x < box[2] and box[1] < y < box[3]
    return struct.pack("<BI2d", 1, 1, x, y) if is_within else None


def geometry_boxes(batch: pa.RecordBatch) -> Any:
    """Return the sides of the boxes of a batch of geometries, in its order, and which are odd.

    Odd are those that are empty or not finite, even if only in part.

    One batch at a time, in one partition: the engine hands on several in whatever order they come.
    """
    config = datafusion.SessionConfig().with_target_partitions(1)
    context = datafusion.SessionContext(config)
    optional_import("geodatafusion", extra="spatial").register_all(context)
    field = batch.schema.field(0).with_name("g")
    renamed = pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema([field]))
    context.register_record_batches("t", [[renamed]])
    sides = ", ".join(f"ST_{side}(g)" for side in BOX_SIDES)
    sides += f", coalesce(regexp_like(ST_AsText(g), '{_ODD}'), true)"
    table = context.sql(f"SELECT {sides} FROM t").to_arrow_table()  # noqa: S608 - no input in it
    return np.array([np.asarray(side.combine_chunks(), np.float64) for side in table.columns])
