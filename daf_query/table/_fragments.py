"""Fragments: parts of a table that travel by path, so that other processes read them.

**Nouns.** A *fragment* says which rows of a table are to be read, which columns, and with which
filter.  It holds no values: it is pickled, and whoever has it opens the paths and reads.  A *piece*
is the rows of a fragment that are of one data set, with the source that is opened to read them.
What an engine scans side by side in this process are table fragments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from daf_query.distributed import Source, reading, series_of, token_of
from daf_query.matrix import Selection
from daf_query.scan import INDEX, Scan
from daf_query.table._arrow_face import BATCH_ROWS
from daf_storage import errors
from daf_storage._lazy import ds, pc
from daf_storage.base import Span, optional_import

if TYPE_CHECKING:
    import dask.dataframe as dd


ROWS_PER_FRAGMENT: Final = 1 << 20
"""The most rows of a fragment, about, unless it is said."""

_LABEL: Final = "daf-table"


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of the table of one data set."""

    source: Source
    """How the table is opened."""
    row_count: int
    """Number of rows, whatever the filter is."""
    table_rows: int
    """How many rows the table had when the piece was planned."""
    spans: tuple[Span, ...] = ()
    """The rows, ascending; none if they are those of a block."""
    block: tuple[Selection, Selection] | None = None
    """The rows and the columns of a matrix."""


@dataclass(frozen=True, slots=True, eq=False)
class Fragment:
    """Some rows of a table, to be read in any process that sees the same paths.

    Pickled, it is paths, names, numbers and the filter; it never holds values of columns.
    """

    pieces: tuple[Piece, ...]
    """The rows, by data set."""
    schema: pa.Schema
    """The schema of the batches: the columns that are read."""
    filter: pc.Expression | None = None
    """Only rows for which it is true are read; it may name other columns."""

    def __dask_tokenize__(self) -> Any:
        """Return what the keys of a graph follow from."""
        return token_of(self)

    def of(self, columns: Iterable[str]) -> Fragment:
        """Return the same rows with some of the columns."""
        return replace(self, schema=pa.schema([self.schema.field(name) for name in columns]))

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; zones and indexes leave out what the filter excludes.

        Raises
        ------
        SourceNotFoundError
            A path is not there, such as on a worker that does not share the file system.
        InvalidInputError
            The table was changed or replaced since the fragment was planned.
        """
        for piece in self.pieces:
            with reading(piece.source) as table:
                if table.table_columns.length != piece.table_rows:
                    raise piece.source.changed()
                rows = table.rows_of(piece, self.filter)
                yield from rows.to_batches(columns=self.schema.names, filter=self.filter)


class TableFragment:
    """Some partitions of a table, or of those that it consists of; a Fragment of pyarrow."""

    def __init__(
        self, dataset: Any, pieces: Sequence[tuple[Scan, Span]], filter: pc.Expression | None
    ) -> None:
        self._dataset = dataset
        self._pieces = pieces
        self._filter = filter

    @property
    def partitions(self) -> Sequence[Span]:
        """Ascending, of each of the tables."""
        return [span for _, span in self._pieces]

    @property
    def physical_schema(self) -> pa.Schema:
        """The schema of the whole table."""
        return self._dataset.schema

    def scanner(
        self,
        schema: pa.Schema | None = None,  # noqa: ARG002 - pyarrow's signature
        columns: Any = None,
        filter: pc.Expression | None = None,
        batch_size: int = BATCH_ROWS,
        **_: Any,
    ) -> ds.Scanner:
        """Return a scanner of these rows."""
        predicate = self._dataset.predicate_of(filter)
        # Another filter needs another scan: an index may have left out rows for this one.
        is_planned = is_same(filter, self._filter)

        def read(schema: pa.Schema) -> Iterator[pa.RecordBatch]:
            for scan, pieces in groupby(self._pieces, itemgetter(0)):
                spans = [span for _, span in pieces]
                chosen = scan if is_planned else scan.again(predicate, spans)
                yield from chosen.batches(schema, spans)

        if self._dataset.view.engine_strings is not None:
            batch_size = BATCH_ROWS
        return self._dataset.scanner_of(read, predicate, columns, batch_size)

    def to_batches(
        self, schema: pa.Schema | None = None, **kwargs: Any
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches."""
        batches: Iterator[pa.RecordBatch] = self.scanner(schema, **kwargs).to_batches()
        return batches

    def to_table(self, schema: pa.Schema | None = None, **kwargs: Any) -> pa.Table:
        """Return the rows as a table."""
        return self.scanner(schema, **kwargs).to_table()

    def count_rows(self, filter: pc.Expression | None = None, **kwargs: Any) -> int:
        """Return the number of rows; without a filter nothing is read."""
        if filter is None and not self._dataset.is_filtered:
            return sum(span.size for span in self.partitions)
        return int(self.scanner(columns=[], filter=filter, **kwargs).count_rows())


def is_same(first: Any, second: Any) -> bool:
    """Return whether two filters are written alike; None is no filter."""
    return first is second or (type(first) is type(second) and bool(first.equals(second)))


class Fragmented:
    """The part of a table that is about other processes."""

    def fragments(
        self: Any,
        columns: Sequence[str],
        filter: pc.Expression | None = None,
        *,
        rows: int = ROWS_PER_FRAGMENT,
    ) -> list[Fragment]:
        """Cut the table into fragments that end where chunks end, without those that cannot match.

        Parameters
        ----------
        columns
            Which columns are read, in this order.
        filter
            Only rows for which it is true.
        rows
            The most rows of a fragment, about: chunks are not cut, and small data sets are joined.

        Raises
        ------
        NotFoundError
            There is no such column.
        """
        needed = {*self.needed(columns, filter), *self.needed([], self.view.base_filter)}
        schema = pa.schema([self.schema.field(name) for name in columns])
        pieces = self.pieces(filter, sorted(needed), rows)
        return [Fragment(tuple(group), schema, filter) for group in _joined(pieces, rows)]

    def to_dask_dataframe(
        self: Any,
        *,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        rows_per_partition: int = ROWS_PER_FRAGMENT,
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
        names, has_positions = self.schema.names, bool(self.has_positions)
        if columns is not None:
            names = list(columns)
        elif has_positions:
            names.remove(INDEX)
        read = names if not has_positions or INDEX in names else [*names, INDEX]
        fragments = self.fragments(read, filter, rows=int(size))
        nothing = Fragment((), pa.schema([self.schema.field(name) for name in read]))
        reads, divisions = ReadFragment(tuple(names), INDEX if has_positions else None), None
        if has_positions:
            starts = [each.pieces[0].spans[0].start for each in fragments] or [0]
            end = fragments[-1].pieces[-1].spans[-1].stop if fragments else 0
            divisions = (*starts, max(end - 1, starts[-1]))
        return optional_import("dask.dataframe", extra="dask").from_map(
            reads, fragments or [nothing], meta=reads(nothing), divisions=divisions, label=_LABEL
        )


@dataclass(frozen=True, slots=True)
class ReadFragment:
    """Reads a partition of a data frame; what a task of a graph does."""

    names: tuple[str, ...]
    """The columns."""
    index: str | None
    """A column of the positions of the rows, which the index of the frame has; None without."""

    def __dask_tokenize__(self) -> Any:
        """Return what the keys of the graph follow from; the rest a fragment has."""
        return token_of(self.names, self.index)

    def __call__(self, fragment: Fragment, columns: Sequence[str] | None = None) -> Any:
        """Return the rows of a fragment as a DataFrame of pandas; Dask says which columns."""
        names = list(self.names if columns is None else columns)
        chosen = fragment.of(dict.fromkeys([*names, *filter(None, [self.index])]))
        rows = pa.Table.from_batches(chosen.read(), chosen.schema)
        pandas = optional_import("pandas", extra="dask")
        index = pandas.RangeIndex(rows.num_rows)
        if self.index is not None:
            index = pandas.Index(rows.column(self.index).to_numpy(), dtype="int64")
        series = {
            name: series_of(pandas, rows.column(name), chosen.schema.field(name)).set_axis(index)
            for name in names
        }
        return pandas.DataFrame(series, index=index, columns=pandas.Index(names, dtype=object))


def _joined(pieces: Iterable[Piece], rows: int) -> Iterator[list[Piece]]:
    """Yield groups of neighbouring pieces of about so many rows; those of one data set as one."""
    group: list[Piece] = []
    count = 0
    for piece in pieces:
        if group and count + piece.row_count > rows:
            yield group
            group, count = [], 0
        count += piece.row_count
        last = group[-1] if group else None
        if last is None or last.source is not piece.source or piece.block is not None:
            group.append(piece)
        else:
            together = last.row_count + piece.row_count
            group[-1] = replace(piece, spans=(*last.spans, *piece.spans), row_count=together)
    if group:
        yield group
