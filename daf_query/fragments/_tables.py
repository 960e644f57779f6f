"""Named tables: an axis or a matrix of a data set, as a value that is pickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

import pyarrow as pa

from daf_query.session import DafSession
from daf_query.table import TableDataset, member_table
from daf_storage import errors

MatrixColumns = Mapping[str, tuple[str, str, str]]
"""The other axis, the matrix and the entry of columns, by their names."""


class NamedTable(Protocol):
    """A table that can be opened wherever its data sets can."""

    def open(self, session: DafSession, schema: str | None = None) -> TableDataset:
        """Return the table of a session, or of one of its schemas."""
        ...

    def open_member(self, session: DafSession, dataset: str, fields: pa.Schema) -> TableDataset:
        """Return the table of one data set with the columns that all of a collection have."""
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

    def open_member(self, session: DafSession, dataset: str, fields: pa.Schema) -> TableDataset:
        """Return the table of one data set with the columns that all of a collection have."""
        table = session.table(self.axis)
        for name, entry in self.matrix_columns.items():
            try:
                table = session.table(self.axis, matrix_columns={name: entry})
            except (
                errors.AxisNotFoundError,
                errors.MatrixNotFoundError,
                errors.EntryNotFoundError,
            ):
                continue  # NULL, as in the collection, where another data set has it
        return member_table(dataset, table, list(fields))
