"""Constant shapes in a query: the box of one, and which functions are false outside of it."""

from __future__ import annotations

from typing import Any, TypeAlias

import datafusion
import numpy as np

from daf_storage import optional_import

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


def bounds_of(constant: Any) -> Box | None:
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
