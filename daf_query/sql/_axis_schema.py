"""Tables of a schema: axes, those that describe it, and those that queries create.

A table is made for each query from the metadata of that moment, so what a writer adds shows
in the next query, and one query sees one state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import datafusion
import pyarrow as pa
from datafusion.catalog import SchemaProvider, Table

from daf_query.matrix import Selection
from daf_query.scan import INDEX
from daf_query.sql._descriptions import (
    MATRICES,
    RELATIONS,
    Described,
    matrices_table,
    relations_table,
)
from daf_query.sql._planning import current_context
from daf_query.syntax import quoted_name
from daf_query.table import (
    NullableDataset,
    TableDataset,
    warn_of_problems,
    warn_once,
)
from daf_storage import DafReader
from daf_storage.errors import FormatError, ReadOnlyError
from daf_storage.spi import DecodedCache

CATALOG = "daf"
"""The catalog of all schemas."""

PUBLIC = "public"
"""The schema of the tables that belong to no data set."""

SCALARS = "scalars"
"""The table of the scalars, unless an axis has that name."""


def shared_table(shared: Mapping[str, TableDataset], name: str) -> TableDataset | None:
    """Return a table that belongs to no data set, of those of its columns that can be read."""
    table = shared.get(name)
    if table is None:
        return None
    readable = table.readable()
    warn_of_problems(readable.table_columns, readable.table_columns.broken.warned)
    return readable


class Names(list[str]):
    """Names as a sequence that can also be called: the engine does both."""

    def __call__(self) -> set[str]:
        """Return the names as a set."""
        return set(self)


class AddedTables(SchemaProvider):
    """Tables and views that queries create."""

    name: str
    """The schema as queries call it."""

    def __init__(self) -> None:
        self._added: dict[str, Any] = {}

    @property
    def added(self) -> list[str]:
        """The names of tables and views that queries created."""
        return list(self._added)

    def has_added(self, name: str) -> bool:
        """Return whether a query created a table or a view of this name."""
        return name in self._added

    def register_table(self, name: str, table: Any) -> None:
        """Add a table for the life of the session (``CREATE TABLE`` and ``CREATE VIEW``)."""
        self._added[name] = table

    def deregister_table(self, name: str, cascade: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - the engine's signature
        """Drop a table that a query created; axes stay."""
        self._added.pop(name, None)


class AxisSchema(AddedTables):
    """Axes as tables, those that describe the data set, and what queries created.

    Parameters
    ----------
    name
        The schema as queries call it.
    shared
        Tables that belong to no data set, and can be seen from everywhere.
    """

    def __init__(self, name: str, shared: Mapping[str, TableDataset]) -> None:
        super().__init__()
        self.name = name
        """The schema as queries call it."""
        self._shared = shared
        self._warned: set[str] = set()

    @property
    def location(self) -> str:
        """Where it is, for messages."""
        raise NotImplementedError

    def axes_set(self) -> set[str]:
        """Return the axes."""
        raise NotImplementedError

    def has_axis(self, axis: str) -> bool:
        """Return whether there is an axis; does not list the others."""
        raise NotImplementedError

    def axis_length(self, axis: str) -> int:
        """Return the number of rows of a table."""
        raise NotImplementedError

    def dataset(self, axis: str) -> TableDataset:
        """Return the table of an axis, as it is now."""
        raise NotImplementedError

    def dataset_among(
        self,
        axis: str,
        names: frozenset[str],  # noqa: ARG002 - of many data sets
    ) -> TableDataset:
        """Return the table of an axis with columns of some names; it may have others, too."""
        return self.dataset(axis)

    def matrix_table(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        rows: Selection | None = None,
        columns: Selection | None = None,
    ) -> TableDataset:
        """Return the long form of a matrix, as it is now; of some entries of its axes."""
        raise NotImplementedError

    def data_sets(self) -> Sequence[tuple[DafReader, DecodedCache]]:
        """Return the data sets behind it, each with the cache of its tables."""
        raise NotImplementedError

    descriptions: tuple[str, ...] = (MATRICES, RELATIONS)
    """The tables that describe it; an axis of such a name takes precedence."""

    def description(self, name: str) -> pa.dataset.Dataset:
        """Return one of the tables that describe it, as it is now; one of `descriptions`."""
        if name == RELATIONS:
            return relations_table(self.described())
        table, problems = matrices_table(self.described())
        for matrix, problem in problems.items():
            warn_once(f"the table {MATRICES!r} lacks {matrix}: {problem}", self._warned)
        return table

    def described(self) -> Described:
        """Return the data sets that are described."""
        raise NotImplementedError

    @property
    def broken_count(self) -> int:
        """How often a column turned out to be unreadable while it was read."""
        raise NotImplementedError

    def close(self) -> None:
        """Close what was opened for it."""
        raise NotImplementedError

    @property
    def table_names(self) -> Names:
        """The axes in alphabetical order, then descriptions, then what queries created."""
        axes = sorted(self.axes_set())
        descriptions = [name for name in self.descriptions if name not in axes]
        others = sorted({*self._added, *self._shared} - {*axes, *descriptions})
        return Names(axes + descriptions + others)

    def table_exist(self, name: str) -> bool:
        """Return whether there is a table of this name."""
        return name in self.table_names

    def table(self, name: str) -> Table | None:
        """Return a table as it is now; None if there is none, or its axis is broken.

        The engine lists all tables by this, and one that raises would hide the others.  Whoever
        queries it gets the reason from `find`, or from `check_table`.
        """
        try:
            return self._table(name)
        except (FormatError, ReadOnlyError):
            return None

    def check_table(self, name: str) -> None:
        """Raise why a table cannot be had for the query that is planned, if it cannot."""
        self._table(name)

    def _table(self, name: str) -> Table | None:
        replacement = current_context().replacements.get((self.name, name))
        if replacement is not None:
            return Table(replacement)
        if name in self._added:
            return Table(self._added[name])
        table = self.find(name)
        if table is not None:
            return table_for_query(self.name, name, table)
        return _pushed_to(self.description(name)) if name in self.descriptions else None

    def find(self, name: str) -> TableDataset | None:
        """Return the table of an axis, or one that belongs to no data set; None for any other."""
        if name in self._added:
            return None
        return self.dataset(name) if name in self.axes_set() else shared_table(self._shared, name)


def table_for_query(schema: str, name: str, table: TableDataset) -> Table:
    """Return a table as the query that is planned needs it."""
    context = current_context()
    columns = context.matrix_columns.get((schema, name))
    if columns:
        table = table.with_matrix_columns(columns)
    if context.wide_columns:
        table = table.with_wide_integers(context.wide_columns)
    restriction = context.restrictions.get((schema, name))
    if restriction is not None:
        table = table.restricted(restriction.rows, restriction.predicate)
    return _pushed_to(table if context.reports is None else table.with_reports(context.reports))


def _pushed_to(dataset: pa.dataset.Dataset) -> Table:
    """Return a table that is handed all filters, as a query of its own.

    The engine plans that one by itself: the table is given what the bindings convert for pyarrow,
    and the engine evaluates the rest.
    """
    frame = _context_of_tables().read_table(Table(NullableDataset(dataset)))
    return frame.filter(_always(dataset.schema)).into_view(temporary=True)


@cache
def _context_of_tables() -> datafusion.SessionContext:
    """Return a context that executes nothing."""
    return datafusion.SessionContext()


def _always(schema: pa.Schema) -> datafusion.Expr:
    """Return a condition that is true for each row, which the engine does not know.

    The bindings join filters by ``&``, which pyarrow has for expressions and not for constants, as
    NULL is in ``n NOT IN (NULL, 3)``: so the first filter has to be an expression.
    """
    name = INDEX if INDEX in schema.names else schema.names[0]
    column = datafusion.col(quoted_name(name))
    is_valid = column.is_not_null()
    return column.is_null() | is_valid if schema.field(name).nullable else is_valid
