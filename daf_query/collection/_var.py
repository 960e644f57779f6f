"""The table of an aligned axis: the columns on whose values all data sets agree."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.collection._frames import aligned_frame, joined_colors
from daf_query.matrix import AlignedAxis
from daf_storage import AnnDataWarning, errors
from daf_storage.spi import axis_frame


def aligned_axis_frame(
    axis: AlignedAxis, positions: npt.NDArray[np.int64]
) -> tuple[Any, dict[str, Any]]:
    """Return a row for each selected name, and the colours of its categoricals.

    Raises
    ------
    InvalidInputError
        The names are others by now.

    Warns
    -----
    AnnDataWarning
        Columns are left out, because the data sets do not agree.
    """
    now = axis.again()
    if not now.entries.equals(axis.entries):
        raise errors.InvalidInputError(
            f"{axis.location}: the axis {axis.axis!r} of a data set was replaced since this was "
            "made; make it again"
        )
    frames, colors = [], []
    index_names = set()
    for name, daf in now.members.items():
        sources = now.sources(name, positions)
        has = np.flatnonzero(sources >= 0)
        frame, uns = axis_frame(daf, axis.axis, sources[has], unreadable="warn")
        frames.append((frame, has))
        index_names.add(frame.index.name)
        colors.append((frame, uns))
    index = now.entries.take(pa.array(positions)).to_numpy(zero_copy_only=False)
    joined, conflicts = aligned_frame(frames, index.astype(object, copy=False))
    joined.index.name = index_names.pop() if len(index_names) == 1 else None
    warn_of_conflicts("var", axis.axis, conflicts)
    return joined, joined_colors(colors, joined)


def warn_of_conflicts(part: str, axis: str, conflicts: list[str]) -> None:
    """Warn of columns that are left out."""
    if conflicts:
        warnings.warn(
            f"{part} lacks {', '.join(conflicts)}; ask the table {axis!r} for what each data set "
            "has",
            AnnDataWarning,
            stacklevel=5,
        )
