"""Tables and their fragments, as pyarrow has them and as they travel by path.

**Nouns.** A *fragment* says which rows of a table are to be read, which columns, and with which
filter.  It holds no values: it is pickled, and whoever has it opens the paths and reads.  A *piece*
is the rows of a fragment that are of one data set, with the source that is opened to read them.
What an engine scans side by side in this process are table fragments.

Engines read tables in threads of their own, and go on for a moment after their consumer has all
that it wants (``LIMIT 3``).  A thread that asks for Python while the interpreter is torn down is
ended by it in the middle of native code, which aborts the process.  So the end of the interpreter
waits until no batch is being made, and none is made after that.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds

from daf_query._calls import positive_number
from daf_query.distributed import Source, reading, series_of, token_of
from daf_query.matrix import Selection
from daf_query.scan import BATCH_ROWS, INDEX, Scan
from daf_storage import errors
from daf_storage._lazy import pc
from daf_storage.base import Span, optional_import

if TYPE_CHECKING:
    import dask.dataframe as dd


_T = TypeVar("_T")

_QUIET_SECONDS: Final = 0.02
_QUIET_WHILE_OPEN_SECONDS: Final = 0.1
_POLL_SECONDS: Final = 0.002


class _Readers:
    """Which batches are being made, by any thread; single steps are atomic as they are."""

    def __init__(self) -> None:
        self.is_ending = False
        self.opened: set[object] = set()
        self.running: set[object] = set()
        self.last_step = float("-inf")

    def end(self) -> None:
        """Let no more batches be made, and wait for those that are being made.

        A reader that nobody asks for more stays open; one that is asked again is at its end.
        """
        self.is_ending = True
        while self.running or self._is_recent():
            time.sleep(_POLL_SECONDS)

    def _is_recent(self) -> bool:
        quiet = _QUIET_WHILE_OPEN_SECONDS if self.opened else _QUIET_SECONDS
        return time.monotonic() - self.last_step < quiet

    def forget(self) -> None:
        """Forget the readers of the process that was forked: their threads are not here."""
        self.opened.clear()
        self.running.clear()


_readers = _Readers()
atexit.register(_readers.end)
os.register_at_fork(after_in_child=_readers.forget)


def until_interpreter_ends(batches: Iterator[_T]) -> Iterator[_T]:
    """Yield what an engine reads; the end of the interpreter waits for it, and stops it.

    Raises
    ------
    InUseError
        The interpreter is ending.

    Examples
    --------
    >>> list(until_interpreter_ends(iter([1, 2])))
    [1, 2]
    """
    reader = object()
    end: Any = object()
    _readers.opened.add(reader)
    try:
        while True:
            _readers.running.add(reader)
            try:
                if _readers.is_ending:
                    raise errors.InUseError(
                        "the interpreter is ending, so this query is not read to its end"
                    )
                batch = next(batches, end)
            finally:
                _readers.last_step = time.monotonic()
                _readers.running.discard(reader)
            if batch is end:
                return
            yield batch
    finally:
        _readers.opened.discard(reader)


@dataclass(frozen=True, eq=False, repr=False)
class TableScanner:
    """Batches that are filtered and projected already, read as they are asked for.

    All else that engines ask of a ``ds.Scanner`` is asked of one over them, which reads ahead in
    threads of its own.
    """

    projected_schema: pa.Schema
    """The columns that leave."""
    batches: Iterator[pa.RecordBatch]
    """The rows, which are read once."""
    batch_rows: int
    """How many rows a batch may have that leaves."""

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches, none of them with more rows than was asked for."""
        for batch in self.batches:
            for start in range(0, batch.num_rows, self.batch_rows):
                yield batch.slice(start, self.batch_rows)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the batches as a stream."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows as an Arrow stream."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_table(self) -> pa.Table:
        """Return all rows; Ctrl-C ends it between two batches, as it would not end pyarrow's."""
        batches, schema = self.to_batches(), self.projected_schema
        if len(schema):
            return pa.Table.from_batches(batches, schema)
        return pa.table({"none": pa.nulls(self.count_rows())}).select([])

    def count_rows(self) -> int:
        """Return how many rows there are; Ctrl-C ends it as well."""
        return sum(batch.num_rows for batch in self.batches)

    def __getattr__(self, name: str) -> Any:
        """Return a method of pyarrow's scanner: ``head``, ``take``, ``scan_batches``."""
        if name.startswith("_") or not hasattr(ds.Scanner, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        rows = ds.Scanner.from_batches(self.to_batches(), schema=self.projected_schema)
        return getattr(rows, name)


class FileRows(ds.FileSystemDataset):
    """Rows of Parquet or Arrow files as they are when a query begins.

    A dataset of pyarrow remembers of each file how many rows it has, and where they begin.

    Parameters
    ----------
    path
        A file, or a folder of files, of which names such as ``key=value`` are columns.
    file_format
        ``parquet`` or ``ipc``.
    """

    def __init__(self, path: str, file_format: str) -> None:
        self._opening = (os.path.abspath(path), file_format)
        rows = self._opened()
        super().__init__([*rows.get_fragments()], rows.schema, rows.format, rows.filesystem)

    def __reduce__(self) -> Any:
        """Pickle where the files are."""
        return FileRows, self._opening

    def _opened(self, schema: pa.Schema | None = None) -> ds.Dataset:
        path, file_format = self._opening
        return ds.dataset(path, schema, format=file_format, partitioning="hive")

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Any]:
        """Yield the parts of the files, of which nothing is known so far.

        Raises
        ------
        InvalidInputError
            The file lacks a column that it had, or has one of another type.
        """
        try:
            rows, of_now = self._opened(self.schema), self._opened()
        except (OSError, pa.ArrowException):  # a scan of what there was says what is wrong
            return iter(super().get_fragments(filter))
        before, now = ({(f.name, f.type) for f in each.schema} for each in (self, of_now))
        is_one = of_now.files == [self._opening[0]]  # in a folder, files may lack some
        if is_one and not before <= now:
            other = ", ".join(sorted(f"{name!r} ({kind})" for name, kind in before - now))
            raise errors.InvalidInputError(
                f"{of_now.files[0]}: it was replaced by a file without {other}; register it again"
            )
        return iter(rows.get_fragments(filter))


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


@dataclass(frozen=True, eq=False, repr=False)
class TableFragment:
    """Some partitions of a table, or of those that it consists of; a Fragment of pyarrow."""

    dataset: Any
    """The table."""
    pieces: Sequence[tuple[Scan, Span]]
    """Which rows of which scans."""
    filter: pc.Expression | None
    """What the scans were planned for."""

    @property
    def partitions(self) -> Sequence[Span]:
        """Ascending, of each of the tables."""
        return [span for _, span in self.pieces]

    def scanner(
        self,
        schema: pa.Schema | None = None,  # noqa: ARG002 - pyarrow's signature
        columns: Any = None,
        filter: pc.Expression | None = None,
        batch_size: int = BATCH_ROWS,
        **_: Any,
    ) -> ds.Scanner:
        """Return a scanner of these rows."""
        predicate = self.dataset.predicate_of(filter)
        # Another filter needs another scan: an index may have left out rows for this one.
        is_planned = is_same(filter, self.filter)

        def read(schema: pa.Schema) -> Iterator[pa.RecordBatch]:
            for scan, pieces in groupby(self.pieces, itemgetter(0)):
                spans = [span for _, span in pieces]
                chosen = scan if is_planned else scan.again(predicate, spans)
                yield from chosen.batches(schema, spans)

        if self.dataset.view.engine_strings is not None:
            batch_size = BATCH_ROWS
        return self.dataset.scanner_of(read, predicate, columns, batch_size)

    def to_batches(
        self, schema: pa.Schema | None = None, **kwargs: Any
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches."""
        batches: Iterator[pa.RecordBatch] = self.scanner(schema, **kwargs).to_batches()
        return batches

    def to_table(self, schema: pa.Schema | None = None, **kwargs: Any) -> pa.Table:
        """Return the rows as a table."""
        return self.scanner(schema, **kwargs).to_table()


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
        size = positive_number(rows_per_partition, "rows_per_partition")
        names, has_positions = self.schema.names, bool(self.has_positions)
        if columns is not None:
            names = list(columns)
        elif has_positions:
            names.remove(INDEX)
        read = names if not has_positions or INDEX in names else [*names, INDEX]
        fragments = self.fragments(read, filter, rows=size)
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
