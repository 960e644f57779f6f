"""Profiles in parts: what each block of a matrix says of the groups of its rows.

A part has the moments of its own rows and columns; how parts are merged says `_profile`.  Beside
the row of each group and column it has one for each group, in which the column is NULL and
``count`` its number of rows: in a collection, a data set may lack a column, and its rows count all
the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.distributed import Source, reading
from daf_query.fragments import MatrixTable, matrices_of, session_of
from daf_query.matrix import Selection
from daf_query.profile import Profile
from daf_query.session import DafSession
from daf_query.spark._options import ReadOptions
from daf_query.spark._read import spark_schema
from daf_query.sql import Collection, written_items
from daf_query.table import MatrixDataset

_CACHE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class ProfilePart:
    """The profile of a block of one data set; pickled, it holds no values."""

    source: Source
    options: ReadOptions
    block: tuple[Selection, Selection]
    """The rows and the columns."""
    has_groups: bool
    """Whether it says how many rows each group has."""
    read_columns: tuple[str, ...]

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the moments of the groups in this part, and a row for each group.

        Raises
        ------
        InvalidInputError
            The matrix or its axes were changed since the part was planned.
        """
        with reading(self.source) as matrix:
            moments = _profile(_session_of(matrix), self).to_arrow_table()
        table = pa.concat_tables([moments, _groups(moments, self)])
        yield from table.select(list(self.read_columns)).to_batches()


@dataclass(frozen=True, eq=False)
class ProfileRead:
    """A profile that is to be read by parts."""

    options: ReadOptions
    stored: pa.Schema
    """The columns that are read."""

    @classmethod
    def of(cls, options: ReadOptions) -> ProfileRead:
        """Return what options mean; its schema is that of a profile of no rows."""
        empty = session_of(options.paths).profile(
            *options.axes,
            options.matrix,
            by=written_items(options.by or ()),
            rows=np.zeros(0, np.int64),
            columns=options.columns,
            progress="never",
        )
        schema = empty.to_arrow_table().schema
        names = options.selected(schema.names)
        return cls(options, pa.schema([schema.field(name) for name in names]))

    @property
    def schema(self) -> pa.Schema:
        """Its columns in types of Spark."""
        return spark_schema(self.stored)

    def parts(self) -> tuple[ProfilePart, ...]:
        """Return the parts, of about as many elements as the rows of a partition."""
        return tuple(self._parts())

    def _parts(self) -> Iterator[ProfilePart]:
        options = self.options
        table = MatrixTable(*options.axes, options.matrix, options.rows, options.columns)
        for matrix in matrices_of(table.open(session_of(options.paths))):
            source = Source.of(matrix.of(None, None), f"the {matrix.table_columns.table}")
            for block in matrix.blocks(None, options.rows_per_partition):
                yield ProfilePart(
                    source,
                    options,
                    (block.rows, block.columns),
                    block.is_first_of_rows,
                    tuple(self.schema.names),
                )


def _session_of(matrix: MatrixDataset) -> DafSession:
    """Return a session of the data set alone; as one of a collection, it has its name."""
    daf, name = matrix.reader, matrix.member_name
    source = daf if name is None else Collection(daf.location, {name: daf})
    return DafSession({name or "daf": source}, cache_bytes=_CACHE_BYTES)


def _profile(session: DafSession, part: ProfilePart) -> Profile:
    rows, columns = (None if each.is_all else each.positions for each in part.block)
    return session.profile(
        *part.options.axes,
        part.options.matrix,
        by=written_items(part.options.by or ()),
        rows=rows,
        columns=columns,
        max_bytes=None,
        progress="never",
    )


def _groups(moments: pa.Table, part: ProfilePart) -> pa.Table:
    """Return a row for each group, in which the column is NULL."""
    names = moments.schema.names
    keys = names[: names.index(part.options.axes[1])]
    one_column = moments.slice(0, 0)
    if part.has_groups and moments.num_rows:
        entries = moments.column(part.options.axes[1]).cast(pa.string())
        one_column = moments.filter(pc.equal(entries, entries[0]))
    lacking = {field.name: pa.nulls(one_column.num_rows, field.type) for field in moments.schema}
    shown = {name: one_column.column(name) for name in (*keys, "count")}
    return pa.table({**lacking, **shown}, schema=moments.schema)
