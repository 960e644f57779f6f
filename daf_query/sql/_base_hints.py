"""Hints for what is not in a data set because that is an overlay, opened without its base."""

from __future__ import annotations

import os.path
from pathlib import Path
from typing import Final

from daf_query.sql._axis_schema import AxisSchema
from daf_query.sql._data_set_schema import DafSchema
from daf_storage import DafReader

_BASE: Final = "base_daf_repository"
_BETWEEN: Final = " + "
"""What is between the locations of data sets that are on top of each other."""


def base_hint(*schemas: AxisSchema) -> str:
    """Return how to open the first overlay with its base; empty if there is none."""
    hints = [missing_base(schema.daf) for schema in schemas if isinstance(schema, DafSchema)]
    return next(filter(None, hints), "")


def missing_base(daf: DafReader) -> str:
    """Return how to open an overlay with its base; empty if a data set is none, or has it."""
    base = daf.get_scalar(_BASE, default=None)
    if not isinstance(base, str) or not base or _BETWEEN in daf.location:
        return ""
    if "://" not in base and "://" not in daf.location:
        folder = Path(daf.location.partition("#/")[0]).parent
        base = os.path.normpath(folder / base)
    return (
        f"; it is on top of {base}, which was not opened with it: "
        f"connect({base!r}, overlay={daf.location!r})"
    )
