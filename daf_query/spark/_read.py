"""Reads that Spark asks for, as fragments of tables; knows none of pyspark's classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from daf_query.fragments import (
    AxisTable,
    Fragment,
    MatrixTable,
    NamedTable,
    plan_fragments,
    session_of,
    table_schema,
)
from daf_query.spark._filters import accepted, conjunction_of, from_json
from daf_query.spark._options import MATRIX, PROFILE, ReadOptions
from daf_query.spark._types import spark_schema
from daf_storage import errors


@dataclass(frozen=True, eq=False)
class TableRead:
    """A table that Spark reads: its columns, and what is left of its rows."""

    options: ReadOptions
    table: NamedTable
    stored: pa.Schema
    """The columns as they are stored; those that Spark cannot have are not among them."""
    filters: tuple[pc.Expression, ...] = ()
    """Filters that were pushed; all of them hold for the rows that are read."""

    @classmethod
    def of(cls, options: ReadOptions) -> TableRead:
        """Return the read that options mean; metadata alone is read.

        Raises
        ------
        NotFoundError
            There is no such data set, axis, matrix or column.
        UnsupportedDataError
            Spark has no type for a column that was selected.
        """
        table = _table_of(options)
        schema = _schema_of(options, table)
        known = spark_schema(schema)
        names = known.names if options.select is None else options.selected(schema.names)
        for name in names:
            if name not in known.names:
                raise errors.UnsupportedDataError(
                    f"{options.location}: Spark has no type for {schema.field(name).type}, which "
                    f"the column {name!r} of the table {options.table!r} is"
                )
        filters = () if options.predicate is None else (from_json(options.predicate, schema),)
        return cls(options, table, pa.schema([schema.field(name) for name in names]), filters)

    @property
    def schema(self) -> pa.Schema:
        """The columns in the types of Spark."""
        return spark_schema(self.stored)

    def selecting(self, names: Sequence[str]) -> TableRead:
        """Return the same read of some columns.

        Raises
        ------
        InvalidInputError
            A column is not among those of the table.
        """
        for name in names:
            if name not in self.stored.names:
                raise errors.InvalidInputError(
                    f"{self.options.location}: the schema that was given has the column {name!r}; "
                    f"the table {self.options.table!r} has "
                    f"{errors.known_names(self.stored.names, none='none')}"
                )
        return replace(self, stored=pa.schema([self.stored.field(name) for name in names]))

    def pushing(self, filters: Sequence[Any]) -> tuple[TableRead, list[Any]]:
        """Return the same read with the filters that are evaluated here, and the other filters."""
        expressions, others = accepted(filters, self.stored)
        return replace(self, filters=(*self.filters, *expressions)), others

    def parts(self) -> tuple[Fragment, ...]:
        """Return what is to be read; what cannot match is left out."""
        return plan_fragments(
            self.options.paths,
            self.table,
            columns=self.stored.names,
            filter=conjunction_of(self.filters),
            rows_per_fragment=self.options.rows_per_partition,
        ).fragments


def _schema_of(options: ReadOptions, table: NamedTable) -> pa.Schema:
    try:
        return table_schema(options.paths, table)
    except errors.AxisNotFoundError as error:
        if options.of_matrix or options.table not in (MATRIX, PROFILE):
            raise
        text = f"{error}; of a {options.table}, say the options 'matrix' and 'axes' as well"
        raise errors.with_message(error, text) from None


def _table_of(options: ReadOptions) -> NamedTable:
    if options.axes is not None:
        return MatrixTable(*options.axes, options.matrix, options.rows, options.columns)
    if not options.matrix_columns:
        return AxisTable(options.table)
    columns = session_of(options.paths).matrix_columns(options.table, options.matrix_columns)
    return AxisTable(options.table, columns)
