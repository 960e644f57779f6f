"""Profiles of several data sets as one: the segments of each, merged as those of blocks are.

The moments are exact: counts, sums and squared deviations of groups combine, whatever the order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from daf_query.matrix import AlignedAxis, ConcatenatedAxis, Selection
from daf_query.moments._accumulator import Accumulator, Moments, moments_of
from daf_query.moments._group_moments import group_segments
from daf_query.moments._grouped_rows import LEFT_OUT, GroupedRows
from daf_query.moments._prepared_profile import Prepared
from daf_query.moments._segments import Counts, Segments
from daf_query.moments._threads import BlockOptions
from daf_storage import errors


@dataclass(frozen=True, slots=True)
class PreparedMemberProfile(Prepared):
    """A profile of several data sets as one, before their matrices were read."""

    daf: AlignedAxis
    """The axis of the columns."""
    concatenated: ConcatenatedAxis
    """The axis of the rows, along which the positions of the groups count through."""
    fill: float
    """What stands where a data set lacks a column; NaN is a missing value."""

    def moments(self, options: BlockOptions, progress: Callable[[int], None]) -> Moments:
        """Read the matrices one after the other, and return the moments of each group and column.

        Raises
        ------
        MatrixNotFoundError
            Rows are selected of a data set that lacks the matrix.
        """
        rows, aligned = self.groups.rows, self.daf
        n_columns = self.columns.positions.size
        accumulator = Accumulator(rows.n_groups * n_columns)
        for name, own in _rows_of_each(self.concatenated, rows).items():
            if name not in aligned.members:
                raise errors.MatrixNotFoundError(
                    f"{aligned.location}: rows= has entries of {name!r}, which has no matrix "
                    f"{self.name!r} for the axes {self.axes[0]!r} and {self.axes[1]!r}; leave it "
                    f"out: rows=\"dataset <> '{name}'\""
                )
            daf = aligned.members[name]
            sources = aligned.sources(name, self.columns.positions)
            has = np.flatnonzero(sources >= 0)
            columns = Selection.of(sources[has], daf.axis_length(self.axes[1]))
            segments = group_segments(
                daf, self.axes, self.name, own, columns, options=options, progress=progress
            )
            groups = np.arange(rows.n_groups)[:, np.newaxis] * n_columns
            accumulator.merge((groups + has).reshape(-1), segments.map(np.ravel))
            lacks = np.flatnonzero(sources < 0)
            if lacks.size:
                filled = _filled(own.sizes(), lacks.size, self.fill)
                accumulator.merge((groups + lacks).reshape(-1), filled.map(np.ravel))
        segments = accumulator.segments().reshaped(rows.n_groups, n_columns)
        return moments_of(segments, rows.sizes())


def _rows_of_each(axis: ConcatenatedAxis, rows: GroupedRows) -> dict[str, GroupedRows]:
    """Return the rows of each data set that has some, at their positions in it."""
    owners, positions = axis.split(rows.positions)
    of_each = {}
    for number, name in enumerate(axis.names):
        mine = np.flatnonzero((owners == number) & (rows.codes != LEFT_OUT))
        if mine.size:
            of_each[name] = GroupedRows(positions[mine], rows.codes[mine], rows.n_groups)
    return of_each


def _filled(sizes: Counts, n_columns: int, fill: float) -> Segments:
    """Return the segments of columns that are lacking: the same value in all rows."""
    of_columns = partial(np.repeat, repeats=n_columns, axis=1)
    counts: Counts = of_columns(sizes[:, np.newaxis])
    none = np.zeros_like(counts)
    is_missing = math.isnan(fill)
    n = none if is_missing else counts
    has = n > 0
    value = 0.0 if is_missing else float(fill)
    return Segments(
        n,
        counts if is_missing else none,
        n if value else none,
        n.astype(np.float64) * value,
        np.zeros(n.shape),
        np.where(has, value, np.inf),
        np.where(has, value, -np.inf),
    )
