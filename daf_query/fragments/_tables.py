"""Named tables: an axis or a matrix of a data set, as a value that is pickled."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from daf_query.session import DafSession
from daf_query.table import TableDataset
from daf_storage import errors

MatrixColumns = Mapping[str, tuple[str, str, str]]
"""The other axis, the matrix and the entry of columns, by their names."""


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
