"""The rows of the table of an axis, by their positions along it: of one data set, or of several."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._runs import Interruptible
from daf_query.matrix import ConcatenatedAxis
from daf_query.scan import INDEX, NAME
from daf_query.session import DafSession, NotedCategories, noted_categories
from daf_query.slice import RowKey, explained_of
from daf_query.sql import interruptible_rows
from daf_query.syntax import Edit, WrappedSql, quoted_name, unopened_bracket
from daf_query.table import DATASET
from daf_storage import DafReader, errors

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
