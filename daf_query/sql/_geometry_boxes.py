"""Bounding boxes of geometries, computed by the engine."""

from __future__ import annotations

from typing import Any, Final

import datafusion
import numpy as np
import pyarrow as pa

from daf_storage.spi import optional_import

BOX_SIDES: Final = ("XMin", "YMin", "XMax", "YMax")
_ODD: Final = "NaN|nan|inf|Inf|EMPTY"


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
