"""The request that a slice was made of, its provenance, and whether anybody else holds it."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from daf_query._provenance import DataSets, Record, record_of
from daf_query.matrix import AlignedAxis
from daf_query.slice._parts import Whole
from daf_query.slice._selector import EmptySelection, Written
from daf_storage.base import Span


@dataclass(frozen=True, slots=True)
class SliceRecord:
    """Which entries of a data set were asked for, and whether what leaves says so."""

    schema: str
    """What the session calls the data set."""
    rows: Written
    columns: Written
    is_described: bool = False
    """Whether files and AnnData say where they come from, unless a call says otherwise."""
    empty: tuple[EmptySelection, ...] = ()
    """The predicates that select nothing."""
    block: Span | None = None
    """Which of the chosen rows, if not all: those of a block."""

    def of_rows(self, span: Span) -> SliceRecord:
        """Return the same for some of these rows.

        >>> whole = SliceRecord("pbmc", "age > 60", None, is_described=True)
        >>> whole.of_rows(Span(10, 20)).of_rows(Span(2, 4)).block
        Span(start=12, stop=14)
        """
        first = 0 if self.block is None else self.block.start
        return replace(self, block=Span(first + span.start, first + span.stop))

    def provenance(self, whole: Whole, data_sets: DataSets) -> Record:
        """Return what files of a slice of these data sets say; see `MatrixSlice.provenance`."""
        rows_axis, columns_axis = whole.axis_names
        block = {} if self.block is None else {"block": [self.block.start, self.block.stop]}
        described = {
            "matrix": {"name": whole.name, "rows_axis": rows_axis, "columns_axis": columns_axis},
            "rows": self.rows,
            **block,
            "columns": self.columns,
            "shape": list(whole.shape),
        }
        if isinstance(across := whole.axes[1 - whole.along], AlignedAxis):
            described |= {"along": whole.axis_names[whole.along], "join": across.join}
            if whole.missing_count:
                described["fill_value"] = _plain(whole.fill)
        return record_of({self.schema: next(iter(data_sets.values()))}, described)


def _plain(fill: Any) -> Any:
    """Return a fill value as JSON has it: NaN as a string."""
    if isinstance(fill, np.generic):
        fill = fill.item()
    return "NaN" if isinstance(fill, float) and math.isnan(fill) else fill


class _Tried:
    def count(self) -> int:
        """Return the count within a method."""
        return sys.getrefcount(self)


def _count_if_unheld() -> int:
    """Return the count within a method of an object that nobody holds; 0 if it does not tell."""
    held = _Tried()
    unheld = _Tried().count()
    return unheld if unheld < held.count() else 0


COUNT_IF_UNHELD: Final = _count_if_unheld()
"""What ``sys.getrefcount(self)`` returns in a method of an object that nobody else holds.

``db.matrix(...).to_scipy()`` leaves nobody who could ask the slice again, so that its values are
handed over, not copied: twice the memory for a moment otherwise, and half the time more.  From
Python 3.14 on the count does not tell, and everything counts as held.
"""
