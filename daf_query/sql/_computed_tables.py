"""Rows of a frame of the engine as a table, computed by a call that servers may interrupt."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from daf_query._runs import call_engine


def computed_table(frame: Any) -> pa.Table:
    """Return the rows of a frame of the engine.

    Within a run of a server the computation ends as soon as nobody waits for it.
    """
    table: pa.Table = call_engine(frame.to_arrow_table)
    return table
