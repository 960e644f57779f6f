"""Sources and pieces of a Dask array over several data sets: of each block, the parts of its rows.

Each data set is a source of its own, which a process opens when the first block needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from daf_query.collection._members import Member, Missing, Side, Whole
from daf_query.collection._reading import read_whole
from daf_query.dask_blocks import InMemorySource, PackedPositions, Source, opened, token_of
from daf_query.slice import (
    GridFacts,
    MatrixSource,
    OpenedMatrix,
    Spans,
    StoredOrder,
    matrix_facts,
    matrix_source,
    slice_matrix,
)


@dataclass(frozen=True, slots=True)
class MemberSource:
    """A data set as a source, and which columns of the whole its columns are."""

    name: str
    source: MatrixSource | InMemorySource
    columns: PackedPositions

    @property
    def key(self) -> str:
        """Equal for sources that read the same."""
        return token_of(self.name, self.source.key, self.columns)


@dataclass(frozen=True, slots=True)
class MemberRows:
    """What a block has of a data set."""

    number: int
    """Which of the members."""
    rows: PackedPositions
    """Positions in the data set."""
    places: PackedPositions
    """Which rows of the block they are."""


@dataclass(frozen=True, slots=True)
class MissingRows:
    """Rows of a block that lack some columns."""

    number: int
    """Which of the missing parts."""
    rows: PackedPositions


@dataclass(frozen=True, slots=True)
class CollectionPiece:
    """What a block has of several data sets."""

    count: int
    """How many rows."""
    members: tuple[MemberRows, ...]
    missing: tuple[MissingRows, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """What the blocks of several data sets are, whatever their rows."""

    location: str
    name: str
    axes: tuple[str, str]
    n_columns: int
    dtype: np.dtype[Any]
    is_sparse: bool
    fill: Any
    rows_are_concatenated: bool

    def whole(self, n_rows: int, members: list[Member], missing: list[Missing]) -> Whole:
        """Return some rows of their parts, without the names of either axis."""
        no_names = None, pa.array([], pa.string())
        names = no_names if self.rows_are_concatenated else no_names[::-1]
        return Whole(
            self.location,
            self.name,
            Side(self.axes[0], np.arange(n_rows), names[0]),
            Side(self.axes[1], np.arange(self.n_columns), names[1]),
            members=tuple(members),
            missing=tuple(missing),
            dtype=self.dtype,
            is_sparse=self.is_sparse,
            fill=self.fill,
            given_fill=None,
            join="outer",
        )


@dataclass(frozen=True, slots=True)
class CollectionSource:
    """Several data sets by their paths, and what all blocks have in common."""

    result: Result
    members: tuple[MemberSource, ...]
    missing: tuple[PackedPositions, ...]
    """The columns that are missing in each missing part."""

    @property
    def key(self) -> str:
        """Equal for sources that read the same."""
        described = (repr(self.result), *(member.key for member in self.members))
        return token_of(*described, *self.missing)

    def open(self) -> OpenedCollection:
        """Open nothing yet: a block opens the data sets that have its rows."""
        return OpenedCollection(self)


@dataclass(frozen=True, eq=False)
class OpenedCollection:
    """Several data sets whose blocks are read by the threads of this process."""

    source: CollectionSource

    def read(self, piece: CollectionPiece) -> Any:
        """Return the values of a block: ``csr_array`` if any is stored sparse, else ``ndarray``."""
        source = self.source
        of_block = [self._opened(rows.number) for rows in piece.members]
        members = [
            Member(
                source.members[rows.number].name,
                matrix.rows_at(rows.rows),
                rows.places.positions(),
                source.members[rows.number].columns.positions(),
            )
            for rows, matrix in zip(piece.members, of_block, strict=True)
        ]
        missing = [
            Missing(each.rows.positions(), source.missing[each.number].positions())
            for each in piece.missing
        ]
        values = read_whole(source.result.whole(piece.count, members, missing))
        for matrix in of_block:
            matrix.check()  # after it was read: whatever was changed meanwhile shows now
        return values

    def _opened(self, number: int) -> OpenedMatrix:
        matrix = opened(self.source.members[number].source)
        if not isinstance(matrix, OpenedMatrix):
            raise TypeError(f"{matrix!r} is no matrix")
        return matrix


def collection_facts(whole: Whole, size_bytes: int) -> GridFacts:
    """Return what the grid of blocks follows from; metadata are read."""
    each = [matrix_facts(member.part, 0) for member in whole.members]
    by_rows = all(facts.order.by_rows for facts in each)
    blocking = next((facts for facts in each if not facts.order.by_rows), None)
    location = whole.location if blocking is None else blocking.location
    remedy = "" if blocking is None else blocking.remedy
    axes = (whole.rows.axis, whole.columns.axis)
    order = StoredOrder(by_rows=by_rows, by_columns=False)
    return GridFacts(
        location, whole.name, axes, whole.shape, size_bytes, order, remedy, are_several=True
    )


def collection_reads(whole: Whole, spans: Spans) -> tuple[Source, Iterator[CollectionPiece]]:
    """Return the source of a slice of several data sets, and what each block has of it."""
    members = []
    for member in whole.members:
        part = matrix_source(member.part, None, member.part.selections[1], slice_matrix)
        members.append(MemberSource(member.name, part, PackedPositions.of(member.columns)))
    missing = tuple(PackedPositions.of(each.columns) for each in whole.missing)
    result = Result(
        whole.location,
        whole.name,
        (whole.rows.axis, whole.columns.axis),
        whole.shape[1],
        whole.dtype,
        whole.is_sparse,
        whole.fill,
        whole.rows_are_concatenated,
    )
    source = CollectionSource(result, tuple(members), missing)
    return source, (_piece(whole, span.start, span.stop) for span in spans[0])


def _piece(whole: Whole, start: int, stop: int) -> CollectionPiece:
    members, missing = [], []
    for number, member in enumerate(whole.members):
        first, last = (int(each) for each in np.searchsorted(member.rows, [start, stop]))
        if first < last:
            rows = PackedPositions.of(member.part.row_positions[first:last])
            places = PackedPositions.of(member.rows[first:last] - start)
            members.append(MemberRows(number, rows, places))
    for number, each in enumerate(whole.missing):
        first, last = (int(row) for row in np.searchsorted(each.rows, [start, stop]))
        if first < last:
            missing.append(MissingRows(number, PackedPositions.of(each.rows[first:last] - start)))
    return CollectionPiece(stop - start, tuple(members), tuple(missing))
