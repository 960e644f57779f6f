"""Fragments of tables: what each reads, and how they are planned: no values of columns are read."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from daf_query.distributed import Pool, Source, file_state, reading
from daf_query.matrix import Selection
from daf_query.scan import field_names
from daf_query.session import DafSession, connect, is_pattern, matching_paths
from daf_query.table import (
    MatrixDataset,
    MatrixUnionDataset,
    TableDataset,
    TableFragment,
    UnionDataset,
)
from daf_storage import errors
from daf_storage.base import Span, paused_collection

MatrixColumns = Mapping[str, tuple[str, str, str]]
"""The other axis, the matrix and the entry of columns, by their names."""


@dataclass(frozen=True)
class AxisTable:
    """The table of an axis."""

    axis: str
    """The axis; its entries are the rows."""
    matrix_columns: MatrixColumns = field(default_factory=dict)
    """More columns: entries of matrices, see `DafSession.table`."""

    def __post_init__(self) -> None:
        if not self.axis:
            raise errors.InvalidInputError("the axis of a table is empty; pass its name")

    def open(
        self,
        session: DafSession,
        schema: str | None = None,
        names: Collection[str] | None = None,
    ) -> TableDataset:
        """Return the table of a session, or of one of its schemas.

        Parameters
        ----------
        names
            Columns that it has, if there are these; it may have others.

        Raises
        ------
        AxisNotFoundError, MatrixNotFoundError, EntryNotFoundError
            There is no such axis, matrix or entry.
        """
        own = None if names is None else [each for each in names if each not in self.matrix_columns]
        return session.table(
            self.axis, schema=schema, matrix_columns=self.matrix_columns, columns=own
        )


@dataclass(frozen=True, slots=True)
class MatrixTable:
    """The long form of a matrix: a row for each element, of a sparse one for each stored."""

    rows_axis: str
    columns_axis: str
    name: str
    rows: str | None = None
    """A predicate on the rows, as for `DafSession.matrix_table`; None for all."""
    columns: str | None = None

    def open(self, session: DafSession, schema: str | None = None) -> TableDataset:
        """Return the table of a session, or of one of its schemas.

        Raises
        ------
        AxisNotFoundError, MatrixNotFoundError, QueryError
            There is no such axis or matrix, or a predicate is wrong.
        """
        return session.matrix_table(
            self.rows_axis,
            self.columns_axis,
            self.name,
            rows=self.rows,
            columns=self.columns,
            schema=schema,
        )


NamedTable: TypeAlias = AxisTable | MatrixTable
"""A table that can be opened wherever its data sets can."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of the table of one data set."""

    source: Source
    """How the table is opened."""
    dataset: str | None
    """What the column ``dataset`` calls the data set; None if it stands alone."""
    spans: tuple[Span, ...]
    """The rows, ascending; none if they are those of a block."""
    row_count: int
    """Number of rows, whatever the filter is."""
    table_rows: int
    """How many rows the table had when the piece was planned."""
    block: tuple[Selection, Selection] | None = None
    """Of a matrix, the rows and the columns."""

    def rows(
        self,
        table: TableDataset,
        filter: pc.Expression | None,  # noqa: A002 - pyarrow's name
    ) -> TableDataset | TableFragment:
        """Return the rows of the table, as it was opened; nothing is read."""
        if table.table_columns.length != self.table_rows:
            raise self.source.changed()
        if self.block is None or not isinstance(table, MatrixDataset):
            return table.fragment(self.spans, filter)
        return table.of(*self.block)


@dataclass(frozen=True, slots=True, eq=False)
class Fragment:
    """Some rows of a table, to be read in any process that sees the same paths.

    Pickled, it is paths, names, numbers and the filter; it never holds values of columns.
    """

    pieces: tuple[Piece, ...]
    """The rows, by data set."""
    schema: pa.Schema
    """The schema of the batches: the columns that are read."""
    filter: pc.Expression | None
    """Only rows for which it is true are read; it may name other columns."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; zones and indexes leave out what the filter excludes.

        Raises
        ------
        SourceNotFoundError
            A path is not there, such as on a worker that does not share the file system.
        InvalidInputError
            The table was changed or replaced since the fragment was planned.
        """
        columns = self.schema.names
        for piece in self.pieces:
            with reading(piece.source) as table:
                rows = piece.rows(table, self.filter)
                yield from rows.to_batches(columns=columns, filter=self.filter)


Paths: TypeAlias = str | Path | Sequence[str | Path]
"""A path or a URL of a data set; a pattern or a list for several as one."""

ROWS_PER_FRAGMENT: Final = 1 << 20
"""The most rows of a fragment, about, unless it is said."""

_MANY: Final = 1 << 40

_SESSIONS: Final[Pool[DafSession]] = Pool(16)
"""Those that this process keeps open for plans."""


@dataclass(frozen=True, slots=True, eq=False)
class FragmentPlan:
    """The fragments of a table that a filter leaves."""

    schema: pa.Schema
    """The columns that are read."""
    fragments: tuple[Fragment, ...]
    """In the order of the rows; none of them is empty."""


def plan_fragments(
    source: Paths | DafSession,
    table: str | NamedTable,
    *,
    columns: Sequence[str] | None = None,
    filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
    rows_per_fragment: int = ROWS_PER_FRAGMENT,
    schema: str | None = None,
) -> FragmentPlan:
    """Cut a table into fragments that end where chunks end, without those that cannot match.

    Parameters
    ----------
    source
        Paths, whose session is kept open for the next plan; or a session of your own.
    table
        An axis, or another table.
    columns
        Which columns are read, in this order; by default all.
    filter
        Only rows for which it is true.
    rows_per_fragment
        The most rows of a fragment, about: chunks are not cut, and small data sets are joined.
    schema
        Which data set, where the session has several.

    Raises
    ------
    SourceNotFoundError, AxisNotFoundError, NotFoundError
        There is no such data set, axis or column.
    InvalidInputError
        The data are in memory, where no other process finds them.

    Examples
    --------
    >>> import os, tempfile, daf_storage, pyarrow.compute as pc
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "pbmc.daf.zarr")
    >>> with daf_storage.open_daf(path, "w") as daf:
    ...     daf.add_axis("cell", ["TATA", "GATA", "CATA"])
    ...     daf.set_vector("cell", "age", [30, 60, 90])
    >>> plan = plan_fragments(path, "cell", columns=["name"], filter=pc.field("age") > 40)
    >>> [batch.to_pydict() for fragment in plan.fragments for batch in fragment.read()]
    [{'name': ['GATA', 'CATA']}]
    >>> folder.cleanup()
    """
    if rows_per_fragment < 1:
        raise errors.InvalidInputError(
            f"rows_per_fragment is {rows_per_fragment}; it has to be positive"
        )
    named = AxisTable(table) if isinstance(table, str) else table
    session = session_of(source)
    with paused_collection(len(session.members(schema))):
        dataset = _opened(session, named, schema, columns, filter)
        names = list(dataset.schema.names if columns is None else columns)
        needed = dataset.needed(names, filter)
        if isinstance(named, MatrixTable):
            pieces = list(_blocks(dataset, filter, rows_per_fragment))
        else:
            pieces = list(_pieces(dataset, filter, needed, rows_per_fragment))
    read = pa.schema([dataset.schema.field(name) for name in names])
    groups = _joined(pieces, rows_per_fragment)
    fragments = tuple(Fragment(tuple(group), read, filter) for group in groups)
    return FragmentPlan(read, fragments)


def table_schema(
    source: Paths | DafSession, table: str | NamedTable, *, schema: str | None = None
) -> pa.Schema:
    """Return the schema of a table; see `plan_fragments`."""
    named = AxisTable(table) if isinstance(table, str) else table
    return named.open(session_of(source), schema).schema


def session_of(source: Paths | DafSession) -> DafSession:
    """Return a session of some paths, kept open for the next plan, or the one that was given."""
    if isinstance(source, DafSession):
        return source
    paths, key = _key_of(source)
    return _SESSIONS.get(key, lambda: connect(paths))


def _key_of(source: Paths) -> tuple[str | list[str], Hashable]:
    """Return what to connect, and what its session is kept by: the paths that are there now."""
    if isinstance(source, str | Path):
        if not is_pattern(source):
            path = str(source)
            return path, (path, file_state(path))
        source = matching_paths(str(source))
    paths = [str(path) for path in source]
    if not paths:
        raise errors.InvalidInputError("no path was given; pass a path, a pattern or a list")
    return paths, tuple((path, file_state(path)) for path in paths)


def _opened(
    session: DafSession,
    named: NamedTable,
    schema: str | None,
    columns: Sequence[str] | None,
    filter: pc.Expression | None,  # noqa: A002 - pyarrow's name
) -> TableDataset:
    """Return a table with the columns that are needed; with all, if one of these is not there."""
    filtered = field_names(filter)
    if columns is None or filtered is None or not isinstance(named, AxisTable):
        return named.open(session, schema)
    needed = filtered.union(columns)
    dataset = named.open(session, schema, needed)
    return dataset if needed.issubset(dataset.schema.names) else named.open(session, schema)


def _cut(dataset: TableDataset, rows: int) -> TableDataset:
    """Return a table whose partitions have about so many rows, each a fragment of its own."""
    return dataset.with_options(
        replace(
            dataset.options,
            partition_rows=rows,
            min_partition_rows=rows,
            min_joined_members=_MANY,
            threads=_MANY,
        )
    )


def _pieces(
    dataset: TableDataset,
    filter: pc.Expression | None,  # noqa: A002 - pyarrow's name
    needed: Sequence[str],
    rows: int,
) -> Iterator[Piece]:
    """Yield a piece for each partition that is left."""
    cut = _cut(dataset, rows)
    what = f"the table {dataset.table_columns.table!r}"
    if not isinstance(cut, UnionDataset):
        source = _source_of(dataset, what, needed)
        for fragment in cut.get_fragments(filter):
            spans = tuple(span for span in fragment.partitions if span.size)
            if spans:
                count = sum(span.size for span in spans)
                yield Piece(source, None, spans, count, cut.table_columns.length)
        return
    fields = [dataset.schema.field(name) for name in needed]
    for name, members in groupby(cut.member_spans(filter), lambda member: member.name):
        first, *others = members
        table = cut.member(first.number, fields, dataset.options)
        source = _source_of(table, what, needed)
        for member in (first, *others):
            yield Piece(source, name, (member.span,), member.span.size, member.table_rows)


def _blocks(
    dataset: TableDataset,
    filter: pc.Expression | None,  # noqa: A002 - pyarrow's name
    elements: int,
) -> Iterator[Piece]:
    """Yield a piece for each block of a matrix that has elements."""
    for matrix in matrices_of(dataset):
        table = matrix.table_columns
        source = _source_of(matrix.of(None, None), f"the {table.table}", ())
        for block in matrix.blocks(filter, elements):
            if block.elements:
                chosen = block.rows, block.columns
                name = matrix.member_name
                yield Piece(source, name, (), block.elements, table.length, chosen)


def matrices_of(dataset: TableDataset) -> Sequence[MatrixDataset]:
    """Return the long form of the matrix of each data set; none of other tables."""
    if isinstance(dataset, MatrixUnionDataset):
        return dataset.matrices
    return [dataset] if isinstance(dataset, MatrixDataset) else []


def _source_of(table: TableDataset, what: str, columns: Sequence[str]) -> Source:
    source = Source.of(table, what, columns)
    if not source.pickled:
        raise errors.InvalidInputError(
            f"{table.location}: no path leads to this data set, which is in memory, so other "
            "processes cannot read it; copy_all() it to a path, and pass that"
        )
    return source


def _joined(pieces: Sequence[Piece], rows: int) -> Iterator[list[Piece]]:
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
            spans = _together((*last.spans, *piece.spans))
            group[-1] = replace(piece, spans=spans, row_count=together)
    if group:
        yield group


def _together(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return ascending spans, neighbours joined.

    >>> _together([Span(0, 2), Span(2, 4), Span(6, 7)])
    (Span(start=0, stop=4), Span(start=6, stop=7))
    """
    joined: list[Span] = []
    for span in spans:
        is_next = bool(joined) and joined[-1].stop == span.start
        joined.append(Span(joined.pop().start, span.stop) if is_next else span)
    return tuple(joined)
