"""Constant shapes in a query: their boxes, and the functions that are false outside of them."""

from __future__ import annotations

import math
import struct
from typing import Any, Final, TypeAlias

import datafusion
import numpy as np

from daf_storage.spi import optional_import

Box: TypeAlias = tuple[float, float, float, float]
"""Smallest x and y, largest x and y."""

OVERLAPPING = frozenset(
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


WITHIN = {
    "st_coveredby": (0,),
    "st_intersects": (0, 1),
    "st_within": (0,),
    "st_contains": (1,),
    "st_covers": (1,),
}
"""Functions that are true for any geometry strictly within a rectangle, and which of the two
arguments the geometry is."""

_POLYGON: Final = struct.pack("<BIII", 1, 3, 1, 5)


def rectangle_of(constant: Any) -> Box | None:
    """Return a constant geometry as a box; None if it is anything but just that rectangle."""
    native = optional_import("geodatafusion.native", extra="spatial")
    call = datafusion.udf(native.AsBinary())(datafusion.Expr(constant)).alias("wkb")
    row = datafusion.SessionContext().sql("SELECT 1 AS x").select(call).to_pylist()[0]
    return None if row["wkb"] is None else box_of_wkb(bytes(row["wkb"]))


def box_of_wkb(data: bytes) -> Box | None:
    """Return the box that a polygon is; None if it is anything else.

    >>> corners = (0, 0, 3, 0, 3, 2, 0, 2, 0, 0)
    >>> box_of_wkb(struct.pack("<BIII10d", 1, 3, 1, 5, *corners))
    (0.0, 0.0, 3.0, 2.0)
    >>> box_of_wkb(struct.pack("<BIII10d", 1, 3, 1, 5, *corners[:4], 2, *corners[5:]))
    """
    if len(data) != len(_POLYGON) + 80 or not data.startswith(_POLYGON):
        return None
    numbers = struct.unpack_from("<10d", data, len(_POLYGON))
    ring = list(zip(numbers[::2], numbers[1::2], strict=True))
    low_x, low_y, high_x, high_y = (f(side) for f in (min, max) for side in zip(*ring, strict=True))
    if not all(map(math.isfinite, numbers)) or low_x >= high_x or low_y >= high_y:
        return None
    corners = [(low_x, low_y), (high_x, low_y), (high_x, high_y), (low_x, high_y)]
    first = corners.index(ring[0]) if ring[0] in corners else 0
    round_left = [corners[(first + step) % 4] for step in range(5)]
    return (low_x, low_y, high_x, high_y) if ring in (round_left, round_left[::-1]) else None


def point_within(box: Box) -> bytes | None:
    """Return a point strictly within a box, as WKB; None if there is none in floating point."""
    x, y = box[0] / 2 + box[2] / 2, box[1] / 2 + box[3] / 2
    is_within = box[0] < x < box[2] and box[1] < y < box[3]
    return struct.pack("<BI2d", 1, 1, x, y) if is_within else None


def bounds_of(constant: Any) -> Box | None:
    """Return the box of a constant geometry, a little widened for trees of less precision."""
    native = optional_import("geodatafusion.native", extra="spatial")
    sides = [native.XMin, native.YMin, native.XMax, native.YMax]
    calls = [
        datafusion.udf(side())(datafusion.Expr(constant)).alias(str(number))
        for number, side in enumerate(sides)
    ]
    row = datafusion.SessionContext().sql("SELECT 1 AS x").select(*calls).to_pylist()[0]
    box = [row[str(number)] for number in range(4)]
    if any(side is None or not np.isfinite(side) for side in box):
        return None
    down, up = np.float32(-np.inf), np.float32(np.inf)
    low = [min(side, float(np.nextafter(np.float32(side), down))) for side in box[:2]]
    high = [max(side, float(np.nextafter(np.float32(side), up))) for side in box[2:]]
    return (low[0], low[1], high[0], high[1])
