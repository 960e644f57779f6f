"""Fragments: which rows of a table to read, without any of their values."""

from __future__ import annotations

import os
import pickle
import stat
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from daf_query.fragments._open_sessions import CACHE_BYTES, OPEN_SESSIONS
from daf_query.fragments._tables import PieceTable
from daf_query.session import DafSession, connect
from daf_query.table import TableDataset, TableFragment
from daf_storage import DafReader, Origin, errors
from daf_storage.base import Span
from daf_storage.stores import is_remote


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of the table of one data set."""

    origin: Origin
    """How the data set is opened."""
    dataset: str | None
    """What the column ``dataset`` calls it; None if it stands alone."""
    table: PieceTable
    """The table, or a part of a matrix."""
    spans: tuple[Span, ...] | None
    """The rows, ascending; None for all of them."""
    row_count: int
    """Number of rows, whatever the filter is."""
    table_rows: int
    """How many rows the table had when the piece was planned."""
    version: Hashable = None
    """What shows that it was replaced since; None where nothing does."""
    version_of: tuple[str, ...] = ()
    """The columns that it is of, where they are apart."""

    def lease(self) -> AbstractContextManager[DafSession]:
        """Hand out a session of the data set alone, kept open for the next piece of it."""
        return OPEN_SESSIONS.lease(self.key, partial(_connect, self.origin))

    @property
    def key(self) -> Hashable:
        """What its session is kept by: the path, and the state of a file there."""
        return pickle.dumps(self.origin), file_state(self.origin.path)


@dataclass(frozen=True, slots=True, eq=False)
class Fragment:
    """Some rows of a table, to be read in any process that sees the same paths.

    Pickled, it is paths, names, numbers and the filter; it never holds values of columns.
    """

    pieces: tuple[Piece, ...]
    """The rows, by data set."""
    columns: tuple[str, ...]
    """The columns that are read."""
    filter: pc.Expression | None
    """Only rows for which it is true are read; it may name other columns."""
    fields: pa.Schema
    """The fields of the columns, and of those of the filter."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return pa.schema([self.fields.field(name) for name in self.columns])

    @property
    def row_count(self) -> int:
        """Number of rows, whatever the filter is: never less than `read` yields."""
        return sum(piece.row_count for piece in self.pieces)

    @property
    def paths(self) -> list[str]:
        """The absolute paths or URLs of its data sets."""
        return [piece.origin.path for piece in self.pieces]

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; zones and indexes leave out what the filter excludes.

        Raises
        ------
        SourceNotFoundError
            A path is not there, such as on a worker that does not share the file system.
        FormatError
            The table was changed or replaced since the fragment was planned.
        """
        for piece in self.pieces:
            with piece.lease() as session:
                yield from self._rows(piece, session).to_batches(
                    columns=list(self.columns), filter=self.filter
                )

    def count_rows(self) -> int:
        """Return the number of rows that the filter leaves; without one nothing is read."""
        count = 0
        for piece in self.pieces:
            with piece.lease() as session:
                count += self._rows(piece, session).count_rows(self.filter)
        return count

    def _rows(self, piece: Piece, session: DafSession) -> TableDataset | TableFragment:
        try:
            table = self._opened(piece, session)
        except errors.NotFoundError as error:
            raise _changed(piece, str(error)) from None
        length = table.table_columns.length
        if length != piece.table_rows:
            OPEN_SESSIONS.forget(piece.key)
            raise _changed(piece, f"it had {piece.table_rows:,} rows and has {length:,}")
        self._check_version(piece, session)
        return table if piece.spans is None else table.fragment(piece.spans, self.filter)

    @staticmethod
    def _check_version(piece: Piece, session: DafSession) -> None:
        """Refuse a data set whose file, or whose columns in a directory, were replaced."""
        if piece.version is None:
            return
        daf = session.reader()
        version = source_version(piece.origin, daf, piece.table, piece.version_of)
        if version is not None and version != piece.version:
            OPEN_SESSIONS.forget(piece.key)
            raise _changed(piece, "it was written again since the query was planned")

    def _opened(self, piece: Piece, session: DafSession) -> TableDataset:
        if piece.dataset is not None:
            return piece.table.open_member(session, piece.dataset, self.fields)
        table = piece.table.open(session)
        for field in self.fields:
            if field.name not in table.schema.names:
                raise table.column_not_found(field.name)
            stored = table.schema.field(field.name).type
            if stored != field.type:
                raise _changed(piece, f"the column {field.name!r} was {field.type} and is {stored}")
        return table


def file_state(path: str) -> Hashable:
    """Return what tells a file from one that replaced it; None for directories and URLs.

    What is written into a directory shows in sessions that are open.
    """
    status = _file_status(path)
    if status is None:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def source_version(
    origin: Origin, daf: DafReader, table: PieceTable, columns: Sequence[str]
) -> Hashable:
    """Return what differs once a data set was replaced, on any machine; None if nothing shows it.

    Of a file its size and time: inodes may differ between machines.  Of a directory, the same of
    the files of these columns.
    """
    status = _file_status(origin.path)
    if status is not None:
        return status.st_size, status.st_mtime_ns
    return None if is_remote(origin.path) else table.version(daf, columns)


def _file_status(path: str) -> os.stat_result | None:
    """Return what the file system knows of a file, or of that which has a group; else None."""
    if is_remote(path):
        return None
    try:
        status = os.stat(path.partition("#/")[0])
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _connect(origin: Origin) -> DafSession:
    return connect({origin.name or "daf": origin.open()}, cache_bytes=CACHE_BYTES)


def _changed(piece: Piece, what: str) -> errors.DafError:
    return errors.FormatError(
        f"{piece.origin.path}: it was changed while it was being queried ({what}); run the query "
        "again"
    )
