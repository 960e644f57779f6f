"""Profiles in parts: what each block of a matrix says of the groups of its rows.

A part has the moments of its own rows and columns; how parts are merged says `_profile`.  Beside
the row of each group and column it has one for each group, in which the column is NULL and
``count`` its number of rows: in a collection, a data set may lack a column, and its rows count all
the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.fragments import (
    CACHE_BYTES,
    OPEN_SESSIONS,
    MatrixTable,
    PackedRows,
    file_state,
    leased_session,
)
from daf_query.profile import Profile
from daf_query.session import DafSession
from daf_query.spark._options import ReadOptions
from daf_query.spark._types import as_spark, spark_schema
from daf_query.sql import Collection, written_items
from daf_query.table import MatrixDataset, MatrixUnionDataset, TableDataset
from daf_storage import DafReader, Origin


@dataclass(frozen=True, slots=True)
class ProfilePart:
    """A block of a matrix, and what its rows are grouped by."""

    origin: Origin
    """How the data set is opened."""
    dataset: str | None
    """What the column ``dataset`` calls it; None if it stands alone."""
    axes: tuple[str, str]
    name: str
    by: str
    rows: PackedRows | None
    """Which rows; None for all."""
    columns: PackedRows | None
    has_groups: bool
    """Whether it has the numbers of rows of its groups: of parts with the same rows, one."""

    def table(self) -> pa.Table:
        """Return the moments, and the numbers of rows."""
        key = (self.origin.path, self.origin.name, self.dataset, file_state(self.origin.path))
        with OPEN_SESSIONS.lease(("profile", *key), self._connect) as session:
            moments = _profile(session, self).to_arrow_table()
            return pa.concat_tables([moments, _groups(moments, self)])

    def _connect(self) -> DafSession:
        daf = self.origin.open()
        source: DafReader | Collection = daf
        if self.dataset is not None:
            source = Collection(self.origin.path, {self.dataset: daf})
        return DafSession({self.dataset or self.origin.name: source}, cache_bytes=CACHE_BYTES)


@dataclass(frozen=True, eq=False)
class ProfileRead:
    """A profile that Spark reads in parts."""

    options: ReadOptions
    stored: pa.Schema

    @classmethod
    def of(cls, options: ReadOptions) -> ProfileRead:
        """Return the read that options mean; the groups are evaluated for none of the rows."""
        if options.axes is None:
            raise TypeError(f"{options} is of no matrix")
        with leased_session(options.paths) as session:
            empty = session.profile(
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
        """The columns in the types of Spark."""
        return spark_schema(self.stored)

    def parts(self) -> Iterator[ProfilePart]:
        """Yield the parts: blocks of the stored layout that reads less."""
        options = self.options
        if options.axes is None:
            raise TypeError(f"{options} is of no matrix")
        table = MatrixTable(*options.axes, options.matrix, options.rows, options.columns)
        with leased_session(options.paths) as session:
            dataset, members = table.open(session), session.members()
            for matrix in _matrices(dataset):
                name = matrix.member_name
                daf = next(iter(members.values())) if name is None else members[name]
                for block in matrix.blocks(None, options.rows_per_partition):
                    rows, columns = map(PackedRows.of_selection, (block.rows, block.columns))
                    yield ProfilePart(
                        daf.require_origin(),
                        name,
                        options.axes,
                        options.matrix,
                        options.by or "",
                        rows,
                        columns,
                        block.is_first_of_rows,
                    )


def read_part(part: ProfilePart, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield a part in the types of Spark."""
    return as_spark(part.table().select(schema.names).to_batches(), schema)


def _profile(session: DafSession, part: ProfilePart) -> Profile:
    rows, columns = (
        None if packed is None else packed.positions() for packed in (part.rows, part.columns)
    )
    by = written_items(part.by or ())
    return session.profile(
        *part.axes,
        part.name,
        by=by,
        rows=rows,
        columns=columns,
        max_bytes=None,
        progress="never",
    )


def _groups(moments: pa.Table, part: ProfilePart) -> pa.Table:
    """Return a row for each group, in which the column is NULL."""
    names = moments.schema.names
    keys = names[: names.index(part.axes[1])]
    one_column = moments.slice(0, 0)
    if part.has_groups and moments.num_rows:
        entries = moments.column(part.axes[1]).cast(pa.string())
        one_column = moments.filter(pc.equal(entries, entries[0]))
    lacking = {field.name: pa.nulls(one_column.num_rows, field.type) for field in moments.schema}
    shown = {name: one_column.column(name) for name in (*keys, "count")}
    return pa.table({**lacking, **shown}, schema=moments.schema)


def _matrices(dataset: TableDataset) -> Sequence[MatrixDataset]:
    if isinstance(dataset, MatrixUnionDataset):
        return dataset.matrices
    return [dataset] if isinstance(dataset, MatrixDataset) else []
