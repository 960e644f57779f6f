"""Plan fragments: metadata, zone maps and indexes are read, and no values of columns."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from daf_query.dask_blocks import PackedPositions
from daf_query.fragments._fragment import Fragment, Piece, file_state, source_version
from daf_query.fragments._open_sessions import OPEN_SESSIONS
from daf_query.fragments._tables import AxisTable, BlockTable, MatrixTable, NamedTable, PieceTable
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
from daf_storage import DafReader, errors
from daf_storage.base import Span, paused_collection

Paths: TypeAlias = str | Path | Sequence[str | Path]
"""A path or a URL of a data set; a pattern or a list for several as one."""

ROWS_PER_FRAGMENT: Final = 1 << 20
"""The most rows of a fragment, about, unless it is said."""

_MANY: Final = 1 << 40


@dataclass(frozen=True, slots=True, eq=False)
class FragmentPlan:
    """The fragments of a table that a filter leaves."""

    schema: pa.Schema
    """The columns that are read."""
    fragments: tuple[Fragment, ...]
    """In the order of the rows; none of them is empty."""
    table_rows: int
    """How many rows the table has."""

    @property
    def row_count(self) -> int:
        """Number of rows of the fragments; the others are known not to match."""
        return sum(fragment.row_count for fragment in self.fragments)


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
    >>> OPEN_SESSIONS.clear()
    >>> folder.cleanup()
    """
    if rows_per_fragment < 1:
        raise errors.InvalidInputError(
            f"rows_per_fragment is {rows_per_fragment}; it has to be positive"
        )
    named = AxisTable(table) if isinstance(table, str) else table
    with leased_session(source) as session, paused_collection(len(session.members(schema))):
        dataset = _cut(_opened(session, named, schema, columns, filter), rows_per_fragment)
        names = tuple(dataset.schema.names if columns is None else columns)
        needed = dataset.needed(names, filter)
        members = session.members(schema)
        if isinstance(named, MatrixTable):
            fields = dataset.schema
            pieces = list(_blocks(members, named, dataset, filter, rows_per_fragment))
        elif isinstance(named, AxisTable):
            fields = pa.schema([dataset.schema.field(name) for name in needed])
            pieces = list(_pieces(members, named, dataset, filter, tuple(needed)))
        else:
            raise TypeError(f"{named!r} is no table that can be cut")
    fragments = tuple(
        Fragment(tuple(group), names, filter, fields)
        for group in _joined(pieces, rows_per_fragment)
    )
    return FragmentPlan(
        pa.schema([fields.field(name) for name in names]),
        fragments,
        dataset.table_columns.length,
    )


def table_schema(
    source: Paths | DafSession, table: str | NamedTable, *, schema: str | None = None
) -> pa.Schema:
    """Return the schema of a table; see `plan_fragments`."""
    named = AxisTable(table) if isinstance(table, str) else table
    with leased_session(source) as session:
        return named.open(session, schema).schema


@contextmanager
def leased_session(source: Paths | DafSession) -> Iterator[DafSession]:
    """Hand out a session of some paths, or the one that was given."""
    if isinstance(source, DafSession):
        yield source
        return
    paths, key = _key_of(source)
    with OPEN_SESSIONS.lease(key, lambda: connect(paths)) as session:
        yield session


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
    dataset = named.open_among(session, schema, needed)
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
    members: Mapping[str, DafReader],
    named: AxisTable,
    dataset: TableDataset,
    filter: pc.Expression | None,  # noqa: A002 - pyarrow's name
    columns: tuple[str, ...],
) -> Iterator[Piece]:
    """Yield a piece for each partition that is left."""
    versions = _Versions(columns)
    for name, table_rows, spans in _spans(dataset, filter):
        daf = _member(members, name)
        yield Piece(
            daf.require_origin(),
            name,
            named,
            spans,
            sum(span.size for span in spans),
            table_rows,
            versions.of(daf, named),
            columns,
        )


def _spans(
    dataset: TableDataset,
    filter: pc.Expression | None,  # noqa: A002 - pyarrow's name
) -> Iterator[tuple[str | None, int, tuple[Span, ...]]]:
    """Yield the name of a data set, how many rows it has, and those of a partition that is left."""
    if isinstance(dataset, UnionDataset):
        for member in dataset.member_spans(filter):
            yield member.name, member.table_rows, member.spans
        return
    for fragment in dataset.get_fragments(filter):
        part: TableFragment
        for part in fragment.parts:
            spans = tuple(span for span in part.partitions if span.size)
            if spans:
                yield part.dataset.member_name, part.dataset.table_columns.length, spans


def _blocks(
    members: Mapping[str, DafReader],
    named: MatrixTable,
    dataset: TableDataset,
    filter: pc.Expression | None,  # noqa: A002 - pyarrow's name
    elements: int,
) -> Iterator[Piece]:
    """Yield a piece for each block of a matrix that has elements."""
    matrices: Sequence[MatrixDataset] = ()
    if isinstance(dataset, MatrixUnionDataset):
        matrices = dataset.matrices
    elif isinstance(dataset, MatrixDataset):
        matrices = [dataset]
    axes = (named.rows_axis, named.columns_axis)
    versions = _Versions(())
    for matrix in matrices:
        for block in matrix.blocks(filter, elements):
            if block.elements:
                rows, columns = (packed_selection(each) for each in (block.rows, block.columns))
                name = matrix.member_name
                daf = _member(members, name)
                table = BlockTable(axes, named.name, rows, columns)
                yield Piece(
                    daf.require_origin(),
                    name,
                    table,
                    None,
                    block.elements,
                    matrix.table_columns.length,
                    versions.of(daf, table),
                )


def packed_selection(selection: Selection) -> PackedPositions | None:
    """Pack a selection; None if it is all of its axis."""
    return None if selection.is_all else PackedPositions.of(selection.positions)


@dataclass(slots=True)
class _Versions:
    """The versions of data sets, each looked at once."""

    columns: Sequence[str]
    known: dict[str, Hashable] = field(default_factory=dict)

    def of(self, daf: DafReader, table: PieceTable) -> Hashable:
        """Return the version of what is read of a data set."""
        origin = daf.require_origin()
        if origin.path not in self.known:
            self.known[origin.path] = source_version(origin, daf, table, self.columns)
        return self.known[origin.path]


def _member(members: Mapping[str, DafReader], name: str | None) -> DafReader:
    return next(iter(members.values())) if name is None else members[name]


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
        if last is None or last.dataset != piece.dataset or not (last.spans and piece.spans):
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
