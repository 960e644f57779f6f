"""The data sets of the explorer: their session, the rows of their axes, and limits of answers."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._runs import Interruptible
from daf_query.explore._http import RequestError, refusal
from daf_query.matrix import ConcatenatedAxis
from daf_query.scan import INDEX, NAME
from daf_query.session import (
    DafSession,
    NotedCategories,
    is_pattern,
    matching_paths,
    noted_categories,
)
from daf_query.slice import RowKey, explained_of
from daf_query.sql import interruptible_rows
from daf_query.syntax import Edit, WrappedSql, quoted_name, unopened_bracket
from daf_query.table import DATASET
from daf_storage import DafReader, errors


@dataclass(frozen=True, slots=True)
class ExploreLimits:
    """What the server of the explorer gives at most.

    Raises
    ------
    InvalidInputError
        A limit is not positive.

    Examples
    --------
    >>> ExploreLimits(seconds=30).rows
    1000000
    """

    rows: int = 1_000_000
    """Rows of the result of one query; the others are left out, and the page says so."""
    bytes: int = 1 << 30
    """Bytes of one answer."""
    seconds: float = 120.0
    """Seconds from the beginning of a query until its last row is sent."""
    queries: int = 8
    """Answers that are computed at the same time."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise errors.InvalidInputError(f"{field.name}= has to be positive, not {value!r}")


Positions: TypeAlias = npt.NDArray[np.int64]

_TAKEN: Final = 1 << 20
"""Entries that are taken at a time."""


@dataclass(frozen=True, slots=True)
class AxisRows:
    """The rows of the table of an axis."""

    session: DafSession
    schema: str
    axis: str
    length: int
    """How many there are."""
    joined: ConcatenatedAxis | None
    """Of several data sets as one, the axes of all, one after the other."""

    @property
    def table(self) -> str:
        """The table, as SQL names it."""
        return f"{quoted_name(self.schema)}.{quoted_name(self.axis)}"

    @property
    def key(self) -> RowKey:
        """The columns that say which row it is."""
        columns = quoted_name(INDEX)
        if self.joined is not None:
            columns = f"{quoted_name(DATASET)}, {columns}"
        return RowKey(columns, columns)

    def positions(self, batch: pa.RecordBatch) -> Positions:
        """Return the positions of rows that have the key."""
        within: Positions = batch.column(INDEX).to_numpy().astype(np.int64)
        if self.joined is None:
            return within
        return self.joined.joined(batch.column(DATASET), within)

    @property
    def readers(self) -> list[DafReader]:
        """The data sets that have the axis, in their order."""
        if self.joined is None:
            return [self.session.reader(self.schema)]
        return list(self.joined.members.values())

    def noted_categories(self, vector: str) -> NotedCategories:
        """Return the order and the colours of the values of a vector, as far as they are noted."""
        tables = self.session._connections.schema(self.schema)  # noqa: SLF001 - our own
        return noted_categories(tables, self.session.members(self.schema), self.axis, vector)

    def identity(self) -> Hashable | None:
        """Return what changes when the entries do; None while they are being changed."""
        first, second = (
            tuple(daf.vector_identity(self.axis, NAME) for daf in self.readers) for _ in range(2)
        )
        return first if first == second else None

    def all_names(self) -> list[pa.Array]:
        """Return the entries, as large strings; of several data sets, of one after the other."""
        entries = (daf.get_pa_vector(self.axis, NAME) for daf in self.readers)
        return [names.cast(pa.large_string()) for names in entries]

    def names(self, positions: Positions) -> pa.Array:
        """Return the entries at positions, as large strings."""
        if self.joined is None:
            return _taken(self.readers[0], self.axis, positions)
        owners, within = self.joined.split(positions)
        order = np.argsort(owners, kind="stable")
        starts = np.searchsorted(owners[order], np.arange(len(self.readers) + 1))
        parts = [
            _taken(daf, self.axis, within[order[start:stop]])
            for daf, start, stop in zip(self.readers, starts[:-1], starts[1:], strict=True)
            if stop > start
        ]
        names = pa.concat_arrays([pa.array([], pa.large_string()), *parts])
        places = np.empty(order.size, np.int64)
        places[order] = np.arange(order.size)
        return names.take(pa.array(places))


def _taken(daf: DafReader, axis: str, positions: Positions) -> pa.Array:
    """Return entries at positions, as large strings; in parts, each smaller than strings may be."""
    entries = daf.get_pa_vector(axis, NAME)
    parts = [
        entries.take(pa.array(positions[start : start + _TAKEN])).cast(pa.large_string())
        for start in range(0, positions.size, _TAKEN)
    ]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.large_string())


def axis_rows(session: DafSession, schema: str, axis: str) -> AxisRows:
    """Return the rows of an axis.

    Raises
    ------
    NotFoundError
        There is no such schema, or no such axis.
    """
    tables = session._connections.schema(schema)  # noqa: SLF001 - our own
    if axis not in tables.axes_set():
        raise errors.axis_not_found(schema, axis, tables.axes_set())
    joined = None
    if tables.is_collection:
        members = {name: each for name, each in tables.readers().items() if each.has_axis(axis)}
        joined = ConcatenatedAxis(axis, tables.location, members)
    length = tables.axis_length(axis) if joined is None else joined.length
    return AxisRows(session, tables.name, axis, length, joined)


def batches_of(
    session: DafSession, wrapped: WrappedSql, interruptible: Interruptible, *, what: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query around SQL that the page sent; errors have places in that SQL."""
    try:
        yield from interruptible_rows(session.sql(wrapped.query), interruptible).batches
    except errors.DafError as error:
        engine = session._engine  # noqa: SLF001 - our own
        raise explained_of(error, wrapped, engine, what=what) from None


def expressions_of(rows: AxisRows, expressions: dict[str, str]) -> WrappedSql:
    """Return the query for the values of SQL expressions, each by a name, of all rows.

    Raises
    ------
    QueryError
        An expression has a bracket that closes none.
    """
    written, inserted = "", list[Edit]()
    start = f"SELECT {rows.key.columns}"
    for name, sql in expressions.items():
        if unopened_bracket(sql) is not None:
            raise errors.QueryError(f"a bracket closes none in {sql!r}")
        inserted.append(Edit(len(written), len(written), f"{start}, (\n"))
        written += sql
        start = f"\n) AS {quoted_name(name)}"
    inserted.append(Edit(len(written), len(written), f"{start} FROM {rows.table}"))
    return WrappedSql(written, tuple(inserted))


Signature: TypeAlias = tuple[tuple[object, ...], ...]
"""What a file is known by; of a directory, only which one it is: its data sets see changes."""

_REPLACED: Final = "a data set was replaced while the page was open"
_RELOAD: Final = "reload the page to see the new one"


class ExploredData:
    """A session over data sets.

    Parameters
    ----------
    open_session
        Opens them.
    paths
        Where they are; patterns, too.  What is not a path of this machine is not looked at.
    overlay
        Where vectors are saved; None if nothing is written.
    """

    def __init__(
        self,
        open_session: Callable[[], DafSession],
        paths: Sequence[str] = (),
        overlay: str | None = None,
    ) -> None:
        self.overlay = overlay
        """Where vectors are saved."""
        self._open_session = open_session
        self._paths = tuple(paths)
        self._lock = threading.Lock()
        self._signature: Signature | None = _signature(self._paths)
        self._session = open_session()._served()  # noqa: SLF001 - our own
        self._openings = 1
        self._entries: dict[tuple[str, str], Hashable] = {}

    @property
    def version(self) -> int:
        """How often it was opened: another number is another data set."""
        return self._openings

    @property
    def session(self) -> DafSession:
        """The session.

        Raises
        ------
        RequestError
            A data set was replaced since it was opened.
        """
        if _signature(self._paths) != self._signature:
            raise replaced()
        return self._session

    def opened(self) -> DafSession:
        """Return the session, opened again if a data set was replaced."""
        with self._lock:
            signature = _signature(self._paths)
            if signature != self._signature:
                self._signature = None  # until it is open
                self._session.close()  # first: an overlay is written by one program alone
                self._session = self._open_session()._served()  # noqa: SLF001 - our own
                self._signature = signature
                self._openings += 1
            elif any(_has_changed(self._session, *axis) for axis in self._entries.items()):
                self._openings += 1
            self._entries.clear()
            return self._session

    def rows(self, schema: str, axis: str) -> AxisRows:
        """Return the rows of an axis.

        Raises
        ------
        NotFoundError
            There is no such schema, or no such axis.
        RequestError
            Its entries were replaced or reordered since the page was loaded: the positions that the
            page holds are others.
        """
        rows = axis_rows(self.session, schema, axis)
        identity = rows.identity()
        if identity is not None:
            with self._lock:
                known = self._entries.setdefault((rows.schema, axis), identity)
            if known != identity:
                raise replaced()
        return rows

    def close(self) -> None:
        """Close the data sets."""
        with self._lock:
            self._session.close()


def _has_changed(session: DafSession, axis: tuple[str, str], identity: Hashable) -> bool:
    """Return whether the entries of an axis are others."""
    try:
        return axis_rows(session, *axis).identity() != identity
    except errors.DafError:
        return True


def replaced() -> RequestError:
    """Return the error of a data set that is another one now."""
    return refusal(409, _REPLACED, _RELOAD)


def _signature(paths: Sequence[str]) -> Signature:
    return tuple(_of_file(path) for each in paths for path in _files(each))


def _files(path: str) -> Sequence[str]:
    if "://" in path:
        return ()
    if not is_pattern(path):
        return (path.partition("#")[0],)
    try:
        return matching_paths(path)
    except errors.SourceNotFoundError:
        return ()


def _of_file(path: str) -> tuple[object, ...]:
    try:
        status = os.stat(Path(path))
    except OSError:
        return (path,)
    if stat.S_ISDIR(status.st_mode):
        return path, status.st_dev, status.st_ino
    return path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
