"""Sources and pieces of a Dask array of one matrix: blocks are read by path, no reader travels."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias

import numpy as np

from daf_query.dask_blocks import (
    InMemorySource,
    PackedPositions,
    Source,
    VersionedData,
    reader_at,
    token_of,
)
from daf_query.matrix import Selection, open_layouts, other_layout_command
from daf_query.slice._block_grid import GridFacts, Spans, stored_order
from daf_storage import DafReader, Origin, errors
from daf_storage.spi import Span, matrix_version


class CutSlice(Protocol):
    """What blocks need of a slice: other entries of the same matrix, and their values."""

    def at(self, rows: Selection, columns: Selection) -> Self:
        """Return other entries of the same matrix; nothing is read."""
        ...

    def values(self) -> Any:
        """Return a CSR array or a dense one."""
        ...


PlanSlice: TypeAlias = Callable[[DafReader, str, str, str, Selection, Selection], CutSlice]
"""Plans a slice of a matrix by its axes and its name; a function that a pickle can name."""

_NO_ROWS = Selection(np.empty(0, np.int64), is_all=False)


@dataclass(frozen=True, slots=True)
class MatrixPiece:
    """What a block has of a source."""

    rows: PackedPositions | None
    """Its rows; None for those of the source."""
    columns: Span | None
    """Which of the columns of the source; None for all."""


@dataclass(frozen=True, slots=True)
class MatrixSource:
    """A matrix by its path, and the entries that all blocks have in common."""

    origin: Origin
    axes: tuple[str, str]
    name: str
    rows: PackedPositions | None
    """Where blocks have all rows; None where each has its own."""
    columns: PackedPositions
    data: VersionedData
    plan_slice: PlanSlice

    @property
    def key(self) -> str:
        """Equal for sources that read the same."""
        return token_of(
            self.origin, *self.axes, self.name, self.rows, self.columns, self.data.version
        )

    def open(self) -> OpenedMatrix:
        """Open the path, and plan what blocks have in common.

        Raises
        ------
        InvalidInputError
            The matrix or its axes are not those of when the graph was made.
        """
        daf = reader_at(self.origin, lambda daf: self.data.is_current(lambda: self._version(daf)))
        self.data.check(lambda: self._version(daf))  # before positions along its axes are used
        lengths = (daf.axis_length(self.axes[0]), daf.axis_length(self.axes[1]))
        columns = Selection.of(self.columns.positions(), lengths[1])
        part = self.plan_slice(daf, *self.axes, self.name, _NO_ROWS, columns)
        return OpenedMatrix(
            part,
            columns,
            self.rows,
            lengths[0],
            lambda: self.data.check(lambda: self._version(daf)),
        )

    def _version(self, daf: DafReader) -> str | None:
        return matrix_version(daf, *self.axes, self.name)


@dataclass(frozen=True, eq=False)
class OpenedMatrix:
    """A matrix whose blocks are read by the threads of this process."""

    part: CutSlice
    """A slice without rows: its layouts are opened, and column pointers read."""
    columns: Selection
    rows: PackedPositions | None
    axis_length: int
    """Of the rows axis."""
    check: Callable[[], None]
    """Refuses what was read if the data was changed since the graph was made."""

    def rows_at(self, rows: PackedPositions) -> Any:
        """Return a slice of some rows; nothing is read."""
        return self.part.at(Selection.of(rows.positions(), self.axis_length), self.columns)

    def read(self, piece: MatrixPiece) -> Any:
        """Return the values of a block: ``csr_array`` if stored sparse, else ``ndarray``."""
        packed = self.rows if piece.rows is None else piece.rows
        if packed is None:
            raise TypeError("neither the block nor its source has rows")
        rows, columns = Selection.of(packed.positions(), self.axis_length), self.columns
        if piece.columns is not None:
            columns = columns.part(piece.columns.start, piece.columns.stop)
        values = self.part.at(rows, columns).values()
        self.check()  # after it was read: whatever was changed meanwhile shows now
        return values


def matrix_source(
    part: Any, rows: Selection | None, columns: Selection, plan_slice: PlanSlice
) -> MatrixSource | InMemorySource:
    """Return the source of a matrix of one data set.

    Parameters
    ----------
    part
        A slice of it.
    rows
        The rows of all blocks; None if each has its own.

    Raises
    ------
    InvalidInputError
        The data set was closed; or the matrix or an axis was replaced since the slice was made.
    """
    daf: DafReader = part.daf
    axes = (part.rows_axis, part.columns_axis)
    origin = origin_of(daf)
    packed = None if rows is None else PackedPositions.of(rows.positions)
    if origin is None:
        template = part.at(_NO_ROWS, columns)
        live = OpenedMatrix(template, columns, packed, daf.axis_length(axes[0]), lambda: None)
        return InMemorySource(uuid.uuid4().hex, live, daf.location)
    with part.unchanged_axes():
        part.check_matrix()
        version = matrix_version(daf, *axes, part.name)
    data = VersionedData(daf.location, f"the matrix {part.name!r} or one of its axes", version)
    return MatrixSource(
        origin, axes, part.name, packed, PackedPositions.of(columns.positions), data, plan_slice
    )


def origin_of(daf: DafReader) -> Origin | None:
    """Return how a data set is opened again; None if no path leads to it.

    Raises
    ------
    InvalidInputError
        It was closed.
    """
    daf.axes_set()
    try:
        return daf.require_origin()
    except errors.InvalidInputError:
        return None


def matrix_facts(part: Any, size_bytes: int) -> GridFacts:
    """Return what the grid of blocks of a slice of one data set follows from; metadata are read.

    Raises
    ------
    FormatError
        No stored layout is whole.
    """
    axes = (part.rows_axis, part.columns_axis)
    stored, faults = open_layouts(part.daf, axes, part.name)
    if not stored:
        raise faults[0]
    remedy = other_layout_command(part.daf, part.name) or "relayout_matrix()"
    order = stored_order(stored, axes[0], *part.selections)
    return GridFacts(part.daf.location, part.name, axes, part.shape, size_bytes, order, remedy)


def matrix_reads(part: Any, spans: Spans, plan_slice: PlanSlice) -> tuple[Source, Iterator[Any]]:
    """Return the source of a slice of one data set, and what each block has of it."""
    rows, columns = part.selections
    has_all_rows = len(spans[0]) == 1
    source = matrix_source(part, rows if has_all_rows else None, columns, plan_slice)
    return source, _pieces(rows, spans, has_all_rows=has_all_rows)


def _pieces(rows: Selection, spans: Spans, *, has_all_rows: bool) -> Iterator[MatrixPiece]:
    for row_span in spans[0]:
        packed = None if has_all_rows else PackedPositions.of(rows.positions[row_span.slice])
        for column_span in spans[1]:
            yield MatrixPiece(packed, None if len(spans[1]) == 1 else column_span)
