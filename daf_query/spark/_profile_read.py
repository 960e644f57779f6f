"""Profiles in parts: what each block of a matrix says of the groups of its rows.

A part has the moments of its own rows and columns; how parts are merged says `_profile`.  Beside
the row of each group and column it has one for each group, in which the column is NULL and
``count`` its number of rows: in a collection, a data set may lack a column, and its rows count all
the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.dask_blocks import PackedPositions
from daf_query.fragments import (
    CACHE_BYTES,
    OPEN_SESSIONS,
    BlockTable,
    MatrixTable,
    file_state,
    leased_session,
    packed_selection,
    source_version,
)
from daf_query.profile import Profile
from daf_query.session import DafSession
from daf_query.spark._options import ReadOptions
from daf_query.spark._types import spark_schema
from daf_query.sql import Collection, written_items
from daf_query.table import MatrixDataset, MatrixUnionDataset, TableDataset
from daf_storage import DafReader, Origin, errors


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
    rows: PackedPositions | None
    """Which rows; None for all."""
    columns: PackedPositions | None
    has_groups: bool
    """Whether it has the numbers of rows of its groups: of parts with the same rows, one."""
    read_columns: tuple[str, ...]
    """The columns that are read."""
    version: Hashable = None
    """What shows that the data set was replaced since it was planned; None where nothing does."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the moments, and the numbers of rows.

        Raises
        ------
        FormatError
            The data set was replaced since the part was planned.
        """
        yield from self._table().select(list(self.read_columns)).to_batches()

    def _table(self) -> pa.Table:
        key = (self.origin.path, self.origin.name, self.dataset, file_state(self.origin.path))
        with OPEN_SESSIONS.lease(("profile", *key), self._connect) as session:
            daf = next(iter(session.members().values()))
            if self.version != _version(daf, self.axes, self.name):
                raise errors.FormatError(
                    f"{self.origin.path}: it was changed while it was being queried (it was "
                    "written again since the query was planned); run the query again"
                )
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

    def parts(self) -> tuple[ProfilePart, ...]:
        """Return the parts: blocks of the stored layout that reads less."""
        return tuple(self._parts())

    def _parts(self) -> Iterator[ProfilePart]:
        options = self.options
        if options.axes is None:
            raise TypeError(f"{options} is of no matrix")
        table = MatrixTable(*options.axes, options.matrix, options.rows, options.columns)
        with leased_session(options.paths) as session:
            dataset, members = table.open(session), session.members()
            for matrix in _matrices(dataset):
                name = matrix.member_name
                daf = next(iter(members.values())) if name is None else members[name]
                version = _version(daf, options.axes, options.matrix)
                for block in matrix.blocks(None, options.rows_per_partition):
                    rows, columns = (packed_selection(each) for each in (block.rows, block.columns))
                    yield ProfilePart(
                        daf.require_origin(),
                        name,
                        options.axes,
                        options.matrix,
                        options.by or "",
                        rows,
                        columns,
                        block.is_first_of_rows,
                        tuple(self.schema.names),
                        version,
                    )


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


def _version(daf: DafReader, axes: tuple[str, str], name: str) -> Hashable:
    """Return what differs once a matrix was replaced."""
    return source_version(daf.require_origin(), daf, BlockTable(axes, name, None, None), ())


def _matrices(dataset: TableDataset) -> Sequence[MatrixDataset]:
    if isinstance(dataset, MatrixUnionDataset):
        return dataset.matrices
    return [dataset] if isinstance(dataset, MatrixDataset) else []
