"""A slice as a Dask array: the grid of its blocks, and what their tasks read, by path.

No reader travels: a task carries positions, and opens a data set when the first block needs it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np

from daf_query.dask_blocks import (
    BlockKind,
    InMemorySource,
    PackedPositions,
    VersionedData,
    block_array,
    opened,
    reader_at,
    token_of,
)
from daf_query.matrix import Selection, open_layouts, other_layout_command
from daf_query.slice._part import Part
from daf_query.slice._reading import figures_of, read_whole
from daf_query.slice._whole import Member, Missing, Side, Whole
from daf_storage import DafReader, Origin, errors
from daf_storage.base import Span
from daf_storage.data import StoredMatrix, matrix_version

_NO_ROWS: Final = Selection(np.empty(0, np.int64), is_all=False)

DASK_BLOCK_BYTES: Final = 64 << 20
"""About how large a block of a Dask array is by default: 64 MiB."""

Spans: TypeAlias = tuple[list[Span], list[Span]]
"""The rows of each row of blocks, and the columns of each column of blocks."""


@dataclass(frozen=True, slots=True)
class BlockSizes:
    """The sizes that a caller gives."""

    rows: int | None = None
    """``rows_per_block``."""
    columns: int | None = None
    """``columns_per_block``."""
    needs_rows: bool = False
    """Whether blocks have to have all columns, as scanpy wants them."""


@dataclass(frozen=True, slots=True)
class StoredOrder:
    """Which cuts of a matrix cost no more than to read it once."""

    by_rows: bool
    """Whether some rows can be read without the others."""
    by_columns: bool
    """Whether some columns can be."""
    row_step: int = 1
    """How many rows are decoded together, from the first one on."""
    column_step: int = 1
    """How many columns are."""


@dataclass(frozen=True, slots=True)
class GridFacts:
    """What a grid of blocks follows from."""

    location: str
    """Where the matrix is, for messages."""
    name: str
    axes: tuple[str, str]
    shape: tuple[int, int]
    size_bytes: int
    """Of all blocks in memory, about."""
    order: StoredOrder
    remedy: str
    """What stores the other layout, for messages."""
    are_several: bool = False
    """Whether it is a matrix of several data sets, whose blocks have all columns."""


def stored_order(
    stored: Sequence[StoredMatrix], rows_axis: str, rows: Selection, columns: Selection
) -> StoredOrder:
    """Return the cuts that the stored layouts of a matrix allow.

    Parameters
    ----------
    rows, columns
        What is selected: only a selection from the first entry on ends where chunks do.
    """
    # Whether the stored columns are the rows of the slice, as in `find_layouts`.
    by_rows = [each.info.is_row_major or each.info.rows_axis != rows_axis for each in stored]
    if stored[0].info.is_sparse:
        return StoredOrder(by_rows=True in by_rows, by_columns=False in by_rows)
    array = stored[0].dense()
    if array.info.is_mappable or array.info.storage_type.is_string:
        return StoredOrder(by_rows=True, by_columns=True)
    majors, minors = array.info.chunks[:2]
    steps = (majors, minors) if by_rows[0] else (minors, majors)
    row_step, column_step = (
        step if _is_from_start(selection) else 1
        for step, selection in zip(steps, (rows, columns), strict=True)
    )
    return StoredOrder(by_rows=True, by_columns=True, row_step=row_step, column_step=column_step)


def _is_from_start(selection: Selection) -> bool:
    positions = selection.positions
    return selection.is_all or bool(np.array_equal(positions, np.arange(positions.size)))


def block_spans(facts: GridFacts, sizes: BlockSizes) -> Spans:
    """Return the spans of the blocks.

    By default they are blocks of whole rows; of whole columns, if the matrix is stored by columns
    alone.  They end where stored chunks do.

    Raises
    ------
    InvalidInputError
        A size is no number of entries; or it cuts the axis along which each block would read
        everything.
    """
    n_rows, n_columns = facts.shape
    rows = _checked("rows_per_block", sizes.rows)
    columns = _checked("columns_per_block", sizes.columns)
    order = facts.order
    if facts.are_several and columns is not None:
        raise errors.InvalidInputError(
            f"{facts.location}: blocks of several data sets as one have all columns; leave out "
            "columns_per_block="
        )
    if rows is None and columns is None:
        if order.by_rows or facts.are_several or sizes.needs_rows:
            rows = _fitting(facts.size_bytes, n_rows, order.row_step)
        else:
            columns = _fitting(facts.size_bytes, n_columns, order.column_step)
    can_turn = not (facts.are_several or sizes.needs_rows)
    if not order.by_rows:
        _refuse(facts, "rows", rows, n_rows, can_turn=can_turn)
    if not order.by_columns:
        _refuse(facts, "columns", columns, n_columns, can_turn=can_turn)
    return _cut(n_rows, rows), _cut(n_columns, columns)


def _checked(keyword: str, size: object) -> int | None:
    if size is None:
        return None
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
        raise errors.InvalidInputError(f"{keyword}={size!r} is no positive number; pass 1 or more")
    return int(size)


def _fitting(size_bytes: int, length: int, step: int) -> int:
    """Return how many entries a block has.

    >>> _fitting(3 * DASK_BLOCK_BYTES, 300, 1), _fitting(3 * DASK_BLOCK_BYTES, 300, 40)
    (100, 80)
    """
    count = max(length * DASK_BLOCK_BYTES // max(size_bytes, 1), 1)
    return max(count // step * step, step)


def _cut(length: int, size: int | None) -> list[Span]:
    """Return spans of a size; of nothing, one empty span.

    >>> _cut(5, 2)
    [Span(start=0, stop=2), Span(start=2, stop=4), Span(start=4, stop=5)]
    >>> _cut(0, 2)
    [Span(start=0, stop=0)]
    """
    if size is None or length == 0:
        return [Span(0, length)]
    return [Span(start, min(start + size, length)) for start in range(0, length, size)]


def _refuse(
    facts: GridFacts, keyword: str, size: int | None, length: int, *, can_turn: bool
) -> None:
    """Refuse blocks each of which would read everything."""
    if size is None or size >= length:
        return
    cut, other = facts.axes if keyword == "rows" else facts.axes[::-1]
    instead = "columns" if keyword == "rows" else "rows"
    turned = f", or pass {instead}_per_block= instead of {keyword}_per_block=" if can_turn else ""
    raise errors.InvalidInputError(
        f"{facts.location}: the matrix {facts.name!r} is stored by {other!r} alone, so each of "
        f"{-(-length // size):,} blocks of {cut!r} would read all that is selected; store the "
        f"other layout with {facts.remedy}{turned}"
    )


def grid_facts(whole: Whole, kind: BlockKind) -> GridFacts:
    """Return what the grid of blocks follows from; metadata are read.

    Raises
    ------
    FormatError
        No stored layout of a matrix is whole.
    """
    axes = (whole.rows.axis, whole.columns.axis)
    figures = figures_of(whole)
    size_bytes = figures.csr_bytes if kind == "csr" else figures.dense_bytes
    is_one = whole.joined is None
    culprit = whole.members[0].part if is_one else None
    order = StoredOrder(by_rows=True, by_columns=False)
    for part in (member.part for member in whole.members):
        stored, faults = open_layouts(part.daf, axes, part.name)
        if not stored:
            raise faults[0]
        own = stored_order(stored, axes[0], *part.selections)
        if is_one:
            order = own
        elif not own.by_rows and culprit is None:
            order, culprit = StoredOrder(by_rows=False, by_columns=False), part
    location, remedy = whole.location, ""
    if culprit is not None:
        location = culprit.daf.location
        remedy = other_layout_command(culprit.daf, whole.name) or "relayout_matrix()"
    return GridFacts(
        location, whole.name, axes, whole.shape, size_bytes, order, remedy, are_several=not is_one
    )


@dataclass(frozen=True, slots=True)
class MatrixSource:
    """A matrix by its path, and the columns that all blocks have in common."""

    origin: Origin
    axes: tuple[str, str]
    name: str
    columns: PackedPositions
    data: VersionedData

    @property
    def key(self) -> str:
        """Equal for sources that read the same."""
        return token_of(self.origin, *self.axes, self.name, self.columns, self.data.version)

    def open(self) -> OpenedMatrix:
        """Open the path, and plan what blocks have in common.

        Raises
        ------
        InvalidInputError
            The matrix or its axes are not those of when the graph was made.
        """
        daf = reader_at(self.origin, lambda daf: self.data.is_current(lambda: self._version(daf)))
        self.data.check(lambda: self._version(daf))  # before positions along its axes are used
        columns = Selection.of(self.columns.positions(), daf.axis_length(self.axes[1]))
        part = Part.of(daf, self.axes, self.name, (_NO_ROWS, columns))
        length = daf.axis_length(self.axes[0])
        return OpenedMatrix(part, length, lambda: self.data.check(lambda: self._version(daf)))

    def _version(self, daf: DafReader) -> str | None:
        return matrix_version(daf, *self.axes, self.name)


@dataclass(frozen=True, eq=False)
class OpenedMatrix:
    """A matrix whose blocks are read by the threads of this process."""

    part: Part
    """A slice without rows: its layouts are opened, and column pointers read."""
    axis_length: int
    """Of the rows axis."""
    check: Callable[[], None]
    """Refuses what was read if the data was changed since the graph was made."""

    def read(self, piece: tuple[PackedPositions, Span | None]) -> Part:
        """Return the part of some rows, and of some of the columns; no values are read."""
        rows, span = piece
        columns = self.part.selections[1]
        if span is not None:
            columns = columns.part(span.start, span.stop)
        return self.part.at(Selection.of(rows.positions(), self.axis_length), columns)


@dataclass(frozen=True, slots=True)
class MemberSource:
    """A data set as a source."""

    source: MatrixSource | InMemorySource
    columns: PackedPositions
    """Which columns of the whole its columns are."""
    rows: PackedPositions | None
    """Its rows where all blocks have them; None where each has its own."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What a block has of each data set."""

    count: int
    """How many rows."""
    columns: Span | None
    """Which of the columns; None for all."""
    members: tuple[tuple[int, PackedPositions | None, PackedPositions], ...]
    """The number of a data set, its rows (None for those of its source), and which of the block
    they are."""
    missing: tuple[tuple[int, PackedPositions], ...]
    """The number of a missing part, and which rows of the block lack its columns."""


@dataclass(frozen=True, slots=True)
class SliceSource:
    """The data sets of a slice by their paths, and what all blocks have in common."""

    template: Whole
    """The slice without rows and parts."""
    members: tuple[MemberSource, ...]
    missing: tuple[PackedPositions, ...]
    """The columns that are missing in each missing part."""

    @property
    def key(self) -> str:
        """Equal for sources that read the same."""
        whole = self.template
        described = (whole.name, whole.columns.axis, str(whole.dtype), repr(whole.fill))
        members = [(each.source.key, each.columns, each.rows) for each in self.members]
        return token_of(*described, whole.shape[1], whole.is_sparse, members, self.missing)

    def open(self) -> OpenedSlice:
        """Open nothing yet: a block opens the data sets that have its rows."""
        return OpenedSlice(self)


@dataclass(frozen=True, eq=False)
class OpenedSlice:
    """A slice whose blocks are read by the threads of this process."""

    source: SliceSource

    def read(self, piece: Piece) -> Any:
        """Return the values of a block: ``csr_array`` if any is stored sparse, else ``ndarray``."""
        whole = self.source.template
        columns = whole.columns.selection
        if piece.columns is not None:  # of one data set, which has them all
            columns = Selection.all(piece.columns.size)
        members, matrices = [], []
        for number, packed, places in piece.members:
            member = self.source.members[number]
            rows = member.rows if packed is None else packed
            matrix = opened(member.source)
            if rows is None or not isinstance(matrix, OpenedMatrix):
                raise TypeError(f"{matrix!r} is no matrix with rows")
            own = columns
            if piece.columns is None:
                own = Selection.of(member.columns.positions(), columns.size)
            part = matrix.read((rows, piece.columns))
            at = Selection.of(places.positions(), piece.count)
            members.append(Member(part.daf.name, part, at, own))
            matrices.append(matrix)
        missing = (
            Missing(rows.positions(), self.source.missing[number].positions())
            for number, rows in piece.missing
        )
        values = read_whole(
            replace(
                whole,
                rows=Side(whole.rows.axis, Selection.all(piece.count)),
                columns=Side(whole.columns.axis, columns),
                members=tuple(members),
                missing=tuple(missing),
            )
        )
        for matrix in matrices:
            matrix.check()  # after it was read: whatever was changed meanwhile shows now
        return values


def dask_array(whole: Whole, sizes: BlockSizes, blocks: BlockKind | None) -> Any:
    """Return a slice as a Dask array; see `MatrixSlice.to_dask`."""
    kind: BlockKind = ("csr" if whole.is_sparse else "dense") if blocks is None else blocks
    if kind not in ("csr", "dense"):
        raise errors.InvalidInputError(f"blocks={blocks!r} is neither 'csr' nor 'dense'")
    if kind == "csr" and whole.dtype == np.dtype(object):
        raise errors.UnsupportedInputError(
            "blocks='csr': a matrix of strings has no sparse blocks; pass 'dense'"
        )
    spans = block_spans(grid_facts(whole, kind), sizes)
    has_all_rows = len(spans[0]) == 1
    members = []
    for member in whole.members:
        packed = PackedPositions.of(member.part.selections[0].positions) if has_all_rows else None
        places = PackedPositions.of(member.columns.positions)
        members.append(MemberSource(_matrix_source(member.part), places, packed))
    template = replace(
        whole,
        rows=Side(whole.rows.axis, Selection.all(0)),
        columns=Side(whole.columns.axis, Selection.all(whole.shape[1])),
        members=(),
        missing=(),
        joined=None,
    )
    missing = tuple(PackedPositions.of(each.columns) for each in whole.missing)
    source = SliceSource(template, tuple(members), missing)
    pieces = _pieces(whole, spans, has_all_rows=has_all_rows)
    return block_array(source, pieces, spans, kind, whole.dtype)


def _matrix_source(part: Part) -> MatrixSource | InMemorySource:
    """Return the source of a matrix of one data set.

    Raises
    ------
    InvalidInputError
        The data set was closed; or the matrix or an axis was replaced since the slice was made.
    """
    daf, columns = part.daf, part.selections[1]
    daf.axes_set()  # raises if it was closed
    try:
        origin = daf.require_origin()
    except errors.InvalidInputError:  # no path leads to it
        length = daf.axis_length(part.axes[0])
        live = OpenedMatrix(part.at(_NO_ROWS, columns), length, lambda: None)
        return InMemorySource(uuid.uuid4().hex, live, daf.location)
    with part.unchanged_axes():
        part.check_matrix()
        version = matrix_version(daf, *part.axes, part.name)
    data = VersionedData(daf.location, f"the matrix {part.name!r} or one of its axes", version)
    return MatrixSource(origin, part.axes, part.name, PackedPositions.of(columns.positions), data)


def _pieces(whole: Whole, spans: Spans, *, has_all_rows: bool) -> Iterator[Piece]:
    for row_span in spans[0]:
        members = []
        for number, member in enumerate(whole.members):
            own = member.span_in(row_span)
            if own.size or whole.joined is None:
                positions = member.part.selections[0].positions[own.slice]
                rows = None if has_all_rows else PackedPositions.of(positions)
                places = member.rows.positions[own.slice] - row_span.start
                members.append((number, rows, PackedPositions.of(places)))
        missing = []
        for number, each in enumerate(whole.missing):
            lacking = each.of_rows(row_span).rows
            if lacking.size:
                missing.append((number, PackedPositions.of(lacking)))
        for column_span in spans[1]:
            columns = None if len(spans[1]) == 1 else column_span
            yield Piece(row_span.size, columns, tuple(members), tuple(missing))
