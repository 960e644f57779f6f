"""The data sets of the explorer: their session, the rows of their axes, and limits of answers."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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
from daf_query.slice import RowKey, predicate_query
from daf_query.syntax import Edit, WrappedSql, python_edits, quoted_name, unopened_bracket
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
    """The rows of the table of an axis; of several data sets as one, those of one after another."""

    session: DafSession
    schema: str
    axis: str
    whole: ConcatenatedAxis
    """The axes of all data sets that have it."""
    keys: tuple[str, ...]
    """The columns that say which row it is."""

    @property
    def length(self) -> int:
        """How many there are."""
        return self.whole.length

    @property
    def is_collection(self) -> bool:
        """Whether the rows are of several data sets as one."""
        return DATASET in self.keys

    @property
    def readers(self) -> list[DafReader]:
        """The data sets that have the axis, in their order."""
        return list(self.whole.members.values())

    def positions(self, table: pa.Table) -> Positions:
        """Return the positions of rows that have the key."""
        within: Positions = table.column(INDEX).to_numpy().astype(np.int64)
        return self.whole.joined(table.column(DATASET), within) if self.is_collection else within

    def chosen(self, predicate: str) -> pa.Table:
        """Return the keys of the rows that a predicate chooses, also in Python's spellings."""
        columns = ", ".join(map(quoted_name, self.keys))
        key = RowKey(columns, columns)
        edits = python_edits(predicate)
        wrapped, _ = predicate_query(self.schema, self.axis, predicate, edits, key)
        return self._table(wrapped, "predicate")

    def values(self, *expressions: str) -> tuple[Positions, list[pa.ChunkedArray]]:
        """Return SQL expressions of each entry: the row of each, and the values of all rows.

        Raises
        ------
        QueryError
            One is wrong, or has not one value for each entry.
        """
        written, inserted = "", list[Edit]()
        start = f"SELECT {', '.join(map(quoted_name, self.keys))}"
        for number, sql in enumerate(expressions):
            if unopened_bracket(sql) is not None:
                raise errors.QueryError(f"a bracket closes none in {sql!r}")
            inserted.append(Edit(len(written), len(written), f"{start}, (\n"))
            written += sql
            start = f"\n) AS value_{number}"
        table = f"{quoted_name(self.schema)}.{quoted_name(self.axis)}"
        inserted.append(Edit(len(written), len(written), f"{start} FROM {table}"))
        found = self._table(WrappedSql(written, tuple(inserted)), "expression")
        positions = self.positions(found)
        places = np.full(self.length, -1, np.int64)
        places[positions] = np.arange(positions.size)
        if positions.size != self.length or (places < 0).any():
            raise errors.QueryError(
                f"the expression has {positions.size:,} values, and axis {self.axis!r} has "
                f"{self.length:,} entries; it needs one for each"
            )
        return places, found.columns[len(self.keys) :]

    def _table(self, wrapped: WrappedSql, what: str) -> pa.Table:
        """Return the rows of a query around SQL of the page; errors have places in that SQL."""
        try:
            return self.session.sql(wrapped.query).to_arrow_table()
        except errors.DafError as error:
            raise wrapped.error(error, what) from None

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

    def all_names(self) -> pa.ChunkedArray:
        """Return the entries, as large strings."""
        entries = (daf.get_pa_vector(self.axis, NAME) for daf in self.readers)
        names = [each.cast(pa.large_string()) for each in entries]
        return pa.chunked_array(names, pa.large_string())

    def names(self, positions: Positions) -> pa.ChunkedArray:
        """Return the entries at positions, as large strings, in parts as large as may be."""
        owners, within = self.whole.split(positions)
        order = np.argsort(owners, kind="stable")
        starts = np.searchsorted(owners[order], np.arange(len(self.readers) + 1))
        parts = []
        for daf, start, stop in zip(self.readers, starts[:-1], starts[1:], strict=True):
            entries: Any = daf.get_pa_vector(self.axis, NAME) if start < stop else None
            for first in range(start, stop, _TAKEN):
                taken = within[order[first : min(first + _TAKEN, stop)]]
                parts.append(entries.take(pa.array(taken)).cast(pa.large_string()))
        places = np.empty(order.size, np.int64)
        places[order] = np.arange(order.size)
        return pa.chunked_array(parts, pa.large_string()).take(pa.array(places))


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
    keys = (DATASET, INDEX) if tables.is_collection else (INDEX,)
    return AxisRows(session, tables.name, axis, tables.concatenated(axis), keys)


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
