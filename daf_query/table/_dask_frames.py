"""Tables as Dask data frames, whose partitions are read by path when they are computed.

**Nouns.** A *piece* is a partition of the data frame: spans of rows of one table or, in a
collection, of some of its tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from daf_query.distributed import FrameForm, Source, frame_of_pieces, opened
from daf_query.scan import INDEX
from daf_storage import errors

if TYPE_CHECKING:
    import dask.dataframe as dd
    import pyarrow.compute as pc

_PARTITION_ROWS: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class PartSpan:
    """Neighbouring rows of one of the tables that a table consists of."""

    part: int
    """Which of them; 0 for a table that is one."""
    start: int
    stop: int


TablePiece = tuple[PartSpan, ...]
"""The rows of a partition."""


class DaskFrames:
    """The part of a table that is about Dask."""

    def to_dask_dataframe(
        self: Any,
        *,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        rows_per_partition: int = _PARTITION_ROWS,
    ) -> dd.DataFrame:
        """Return a ``dask.dataframe.DataFrame`` whose partitions are read when they are computed.

        Each task carries the path, the filter and a range of rows: workers of a cluster open the
        path themselves.  Partitions in which the filter cannot be true are left out; of the others
        only the columns are read that a computation needs.

        Parameters
        ----------
        columns
            All by default; the position of a row, ``index``, is the index of the frame.
        filter
            Only the rows for which this is true.
        rows_per_partition
            About how many rows a partition has, before they are filtered; it ends where chunks do.

        Returns
        -------
        dask.dataframe.DataFrame
            Indexed by the positions of the rows, so its divisions are known.  Of several data sets
            as one, whose positions begin again in each, the index of each partition counts from 0,
            and divisions are unknown.  Integers and booleans that may be missing are pandas'
            nullable ones, strings and categories strings of Arrow.

        Raises
        ------
        MissingDependencyError
            Dask is not installed.
        NotFoundError
            There is no such column.
        InvalidInputError
            ``rows_per_partition`` is no number of rows.

        Examples
        --------
        >>> import daf_query, daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [30, 60, 90])
        >>> frame = daf_query.connect(daf).table("cell").to_dask_dataframe(columns=["age"])
        >>> frame.divisions, frame["age"].sum().compute(scheduler="threads").item()
        ((0, 2), 180)
        """
        size: object = rows_per_partition
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise errors.InvalidInputError(
                f"rows_per_partition={size!r} is no positive number; pass 1 or more"
            )
        table = self if filter is None else self.filter(filter)
        cut = replace(table.options, partition_rows=int(size), min_partition_rows=int(size))
        return _dask_frame(table.with_options(cut), columns)


def _dask_frame(table: Any, columns: Sequence[str] | None) -> Any:
    has_positions = bool(table.has_positions)
    known = table.schema.names
    names = (
        list(columns)
        if columns is not None
        else [name for name in known if not (has_positions and name == INDEX)]
    )
    for name in names:
        if name not in known:
            raise table.column_not_found(name)
    needed = tuple(dict.fromkeys([*names, *table.filter_columns()]))
    source = Source.of(table, f"the table {table.table_columns.table!r}", needed)
    table = opened(source)  # as tasks see it
    schema = pa.schema([table.schema.field(name) for name in names])
    form = FrameForm(schema, INDEX if has_positions else None)
    pieces = grouped(table.part_spans(), table.options.partition_rows) or [(PartSpan(0, 0, 0),)]
    divisions = None
    if has_positions:
        starts = [piece[0].start for piece in pieces]
        divisions = [*starts, max(pieces[-1][-1].stop - 1, starts[-1])]
    return frame_of_pieces(source, pieces, form, divisions)


def grouped(spans: Sequence[PartSpan], target_rows: int) -> list[TablePiece]:
    """Join spans of small tables into pieces of up to so many rows.  Pure.

    >>> spans = [PartSpan(0, 0, 3), PartSpan(1, 0, 2), PartSpan(2, 0, 4)]
    >>> [len(piece) for piece in grouped(spans, 5)]
    [2, 1]
    """
    pieces: list[list[PartSpan]] = []
    count = 0
    for span in spans:
        size = span.stop - span.start
        is_other = bool(pieces) and pieces[-1][-1].part != span.part
        if is_other and count + size <= target_rows:
            pieces[-1].append(span)
            count += size
        else:
            pieces.append([span])
            count = size
    return [tuple(piece) for piece in pieces]
