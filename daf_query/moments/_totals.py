"""Totals: what each entry of an axis has of chosen columns of a matrix, beside all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from daf_query.matrix import ConcatenatedAxis, EntryAxis, Selection
from daf_query.moments._group_moments import group_segments
from daf_query.moments._grouping import GroupedRows
from daf_query.moments._threads import DEFAULT_BLOCKS, BlockOptions
from daf_query.scan import INDEX, NAME, number_array
from daf_storage import DafReader, errors
from daf_storage.base import AnyArray

DATASET = "dataset"


@dataclass(frozen=True, slots=True)
class PreparedTotals:
    """Totals of which the entries are chosen, and for which nothing of the matrix was read."""

    axes: tuple[ConcatenatedAxis, EntryAxis]
    """That of the entries that have totals, and that of what is added up."""
    name: str
    """The name of the matrix."""
    rows: Selection
    columns: Selection
    """What is added up."""

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns."""
        numbers = [("sum", pa.float64()), ("nonzero", pa.int64())]
        numbers += [("mean", pa.float64()), ("share", pa.float64())]
        dataset = [] if self.axes[0].is_alone else [(DATASET, pa.string())]
        return pa.schema([*dataset, (NAME, pa.string()), (INDEX, pa.int64()), *numbers])

    def compute(
        self,
        progress: Callable[[int], None] = lambda _: None,
        options: BlockOptions = DEFAULT_BLOCKS,
    ) -> pa.Table:
        """Read the matrix once, and return a row for each entry.

        Raises
        ------
        MatrixNotFoundError
            Entries are chosen of a data set that lacks the matrix.
        """
        along, across = self.axes
        owners, positions = along.split(self.rows.positions)
        total, chosen = np.zeros(owners.size), np.zeros(owners.size)
        nonzero, n = np.zeros(owners.size, np.int64), np.zeros(owners.size, np.int64)
        names = np.empty(owners.size, object)
        for number, (member, daf) in enumerate(along.members.items()):
            mine = np.flatnonzero(owners == number)
            if not mine.size:
                continue
            if member not in across.members:
                raise errors.MatrixNotFoundError(
                    f"{across.location}: rows= has entries of {member!r}, which has no matrix "
                    f"{self.name!r} for the axes {along.axis!r} and {across.axis!r}; leave it out: "
                    f"rows=\"dataset <> '{member}'\""
                )
            own = Selection.of(positions[mine], daf.axis_length(along.axis))
            columns = self._own_columns(member, daf)
            read = partial(group_segments, options=options, progress=progress)
            segments = read(daf, (across.axis, along.axis), self.name, columns, own)
            chosen[mine], nonzero[mine], n[mine] = (
                each[0] for each in (segments.sum, segments.nonzero, segments.n)
            )
            total[mine] = segments.sum[0] + segments.sum[1]
            entries = daf.get_pa_vector(along.axis, NAME).take(pa.array(positions[mine]))
            names[mine] = entries.to_numpy(zero_copy_only=False)
        with np.errstate(all="ignore"):
            mean, share = chosen / n, chosen / total
        datasets = pa.array(along.names).take(pa.array(owners))
        arrays = [] if along.is_alone else [datasets]
        arrays += [pa.array(names, pa.string()), pa.array(positions), pa.array(chosen)]
        arrays += [pa.array(nonzero), number_array(mean), number_array(share)]
        return pa.table(arrays, self.schema)

    def _own_columns(self, member: str, daf: DafReader) -> GroupedRows:
        """Return all columns of a data set: those that are added up, and the others."""
        across = self.axes[1]
        sources: AnyArray = across.sources(member, self.columns.positions)
        codes = np.ones(daf.axis_length(across.axis), np.int32)
        codes[sources[sources >= 0]] = 0
        return GroupedRows(np.arange(codes.size), codes, 2)
