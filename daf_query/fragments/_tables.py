"""Named tables: an axis or a matrix of a data set, as a value that is pickled."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

import pyarrow as pa

from daf_query.dask_blocks import PackedPositions
from daf_query.session import DafSession
from daf_query.table import MatrixDataset, TableDataset, member_table
from daf_storage import DafReader, errors
from daf_storage.data import matrix_version, vectors_version

MatrixColumns = Mapping[str, tuple[str, str, str]]
"""The other axis, the matrix and the entry of columns, by their names."""


class NamedTable(Protocol):
    """A table that can be opened wherever its data sets can."""

    def open(self, session: DafSession, schema: str | None = None) -> TableDataset:
        """Return the table of a session, or of one of its schemas."""
        ...


class PieceTable(NamedTable, Protocol):
    """A table that can be opened for one data set of a collection alone."""

    def open_member(self, session: DafSession, dataset: str, fields: pa.Schema) -> TableDataset:
        """Return the table of one data set with the columns that all of a collection have."""
        ...

    def version(self, daf: DafReader, columns: Sequence[str]) -> str | None:
        """Return what differs once these columns were replaced; None where nothing shows it."""
        ...


@dataclass(frozen=True)
class AxisTable:
    """The table of an axis."""

    axis: str
    """The axis; its entries are the rows."""
    matrix_columns: MatrixColumns = field(default_factory=lambda: MappingProxyType({}))
    """More columns: entries of matrices, see `DafSession.table`."""

    def __post_init__(self) -> None:
        if not self.axis:
            raise errors.InvalidInputError("the axis of a table is empty; pass its name")

    def __reduce__(self) -> tuple[type[AxisTable], tuple[str, dict[str, tuple[str, str, str]]]]:
        """Pickle the columns as a plain dict."""
        return type(self), (self.axis, dict(self.matrix_columns))

    def open(self, session: DafSession, schema: str | None = None) -> TableDataset:
        """Return the table of a session, or of one of its schemas.

        Raises
        ------
        AxisNotFoundError, MatrixNotFoundError, EntryNotFoundError
            There is no such axis, matrix or entry.
        """
        return session.table(self.axis, schema=schema, matrix_columns=self.matrix_columns)

    def open_among(
        self, session: DafSession, schema: str | None, names: Collection[str]
    ) -> TableDataset:
        """Return the table with columns of some names; it may have others, or lack these."""
        own = [name for name in names if name not in self.matrix_columns]
        return session.table(
            self.axis, schema=schema, matrix_columns=self.matrix_columns, columns=own
        )

    def open_member(self, session: DafSession, dataset: str, fields: pa.Schema) -> TableDataset:
        """Return the table of one data set with the columns that all of a collection have."""
        columns = {
            name: entry
            for name, entry in self.matrix_columns.items()
            if name in fields.names and _has_entry(session, self.axis, {name: entry})
        }
        table = session.table(self.axis, matrix_columns=columns)
        return member_table(dataset, table, list(fields))

    def version(self, daf: DafReader, columns: Sequence[str]) -> str | None:
        """Return what differs once these columns were replaced; None where nothing shows it."""
        matrices = {
            self.matrix_columns[name][:2] for name in columns if name in self.matrix_columns
        }
        vectors = [name for name in columns if name not in self.matrix_columns]
        versions = [vectors_version(daf, self.axis, vectors, by="time")]
        versions += [matrix_version(daf, self.axis, *each, by="time") for each in sorted(matrices)]
        known = [version for version in versions if version is not None]
        return " ".join(known) if len(known) == len(versions) else None


def _has_entry(session: DafSession, axis: str, column: MatrixColumns) -> bool:
    """Return whether a data set has an entry of a matrix; else its column is NULL."""
    try:
        session.table(axis, matrix_columns=column)
    except (errors.AxisNotFoundError, errors.MatrixNotFoundError, errors.EntryNotFoundError):
        return False
    return True


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


@dataclass(frozen=True, slots=True)
class BlockTable:
    """The long form of a part of a matrix: of some rows and columns, by position."""

    axes: tuple[str, str]
    """The axis of the rows, and that of the columns."""
    name: str
    rows: PackedPositions | None
    """Which rows; None for all."""
    columns: PackedPositions | None

    def open(self, session: DafSession, schema: str | None = None) -> TableDataset:
        """Return the table of a session, or of one of its schemas."""
        rows, columns = (
            None if packed is None else packed.positions() for packed in (self.rows, self.columns)
        )
        return session.matrix_table(
            *self.axes, self.name, rows=rows, columns=columns, schema=schema
        )

    def open_member(self, session: DafSession, dataset: str, fields: pa.Schema) -> TableDataset:
        """Return the table of one data set with the columns that all of a collection have."""
        table = self.open(session)
        if not isinstance(table, MatrixDataset):
            raise TypeError(f"{table!r} is not of one data set")
        return table.as_member(dataset, fields.field(len(fields) - 1).type)

    def version(self, daf: DafReader, columns: Sequence[str]) -> str | None:  # noqa: ARG002 - of all
        """Return what differs once the matrix was replaced; None where nothing shows it."""
        return matrix_version(daf, *self.axes, self.name, by="time")
