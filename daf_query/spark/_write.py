"""Vectors that Spark writes: tasks stage their rows in files, and one committer stores them all.

Nothing of a data set changes before the committer has every row: each entry of the axis once.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from daf_query.scan import INDEX, NAME
from daf_query.session import connect, is_pattern
from daf_query.spark._options import WRITING, checked
from daf_storage import DafReader, IfExists, errors, open_daf
from daf_storage.spi import is_remote


@dataclass(frozen=True, slots=True)
class StagedRows:
    """What a task has written."""

    file: str
    """The name of its file in the staging directory."""


@dataclass(frozen=True, slots=True)
class VectorWrite:
    """Columns that become vectors of an axis."""

    path: str
    """The data set."""
    axis: str
    vectors: tuple[str, ...]
    """Their names."""
    if_exists: IfExists
    """What becomes of vectors of these names."""
    staging: str
    """A directory of this write alone, which all workers see."""

    @classmethod
    def of(
        cls, options: Mapping[str, str], columns: Sequence[str], if_exists: IfExists
    ) -> VectorWrite:
        """Return the write that options mean.

        Raises
        ------
        InvalidInputError
            An option is unknown, lacking or wrong, or the columns are not a name and vectors.
        AxisNotFoundError, SourceNotFoundError
            There is no such axis or data set.
        ExistsError
            There is a vector of the name of a column, and it is not to be replaced.
        """
        given = checked(options, WRITING, "write")
        path, axis = given.get("path", ""), given.get("axis", "")
        if not path or not axis:
            raise errors.InvalidInputError(
                "format 'daf' writes vectors of an axis; it needs the options 'path' and 'axis'"
            )
        if is_remote(path) or is_pattern(path):
            raise errors.ReadOnlyError(
                f"{path}: Spark writes into one data set on a file system that all workers see"
            )
        vectors = tuple(name for name in columns if name != NAME)
        if NAME not in columns or not vectors or INDEX in columns:
            raise errors.InvalidInputError(
                f"{path}: the data frame has the columns {', '.join(columns)}; it needs {NAME!r}, "
                f"which says the entry of axis {axis!r}, and at least one other, but not {INDEX!r}"
            )
        with open_daf(path) as daf:
            _check(daf, axis, vectors, if_exists)
        root = given.get("staging", str(Path(path).absolute().parent))
        staging = Path(root, f".{Path(path).name}.spark-{uuid.uuid4().hex}")
        return cls(str(Path(path).absolute()), axis, vectors, if_exists, str(staging))

    def stage(self, batches: Iterable[pa.RecordBatch]) -> StagedRows:
        """Write the rows of a task into a file of its own."""
        folder = Path(self.staging)
        folder.mkdir(exist_ok=True)
        file = f"{uuid.uuid4().hex}.arrow"
        writer: pa.RecordBatchFileWriter | None = None
        with (folder / file).open("wb") as stream:
            for batch in batches:
                if writer is None:
                    writer = pa.ipc.new_file(stream, batch.schema)
                writer.write_batch(batch)
            if writer is not None:
                writer.close()
        return StagedRows(file if writer is not None else "")

    def commit(self, staged: Sequence[StagedRows | None]) -> None:
        """Store the vectors, if there is a row for each entry of the axis, and for nothing else.

        Raises
        ------
        EntryNotFoundError
            A row has a name that is no entry.
        QueryError
            Entries have no row, or more than one; or a value is missing that is neither a float
            nor a string.
        UnsupportedDataError
            Values of a type of Spark are not stored.
        """
        try:
            table = self._table([each.file for each in staged if each is not None and each.file])
            with connect(self.path, mode="r+") as session:
                _check_complete(session.reader(), self.axis, table.column(NAME))
                session.annotate(
                    self.axis,
                    table,
                    key=NAME,
                    columns=list(self.vectors),
                    strict=True,
                    if_exists=self.if_exists,
                )
        finally:
            self.abort()

    def abort(self) -> None:
        """Delete what tasks have staged."""
        shutil.rmtree(self.staging, ignore_errors=True)

    def _table(self, files: Sequence[str]) -> pa.Table:
        tables = []
        for file in files:
            path = Path(self.staging, file)
            if not path.is_file():
                raise errors.SourceNotFoundError(
                    f"{path}: a task has written its rows where the committer does not see them; "
                    "name a directory that all of them share with the option 'staging'"
                )
            tables.append(pa.ipc.open_file(pa.memory_map(str(path))).read_all())
        if not tables:
            raise errors.QueryError(
                f"{self.path}: the data frame has no rows; it needs one for each entry of axis "
                f"{self.axis!r}"
            )
        return pa.concat_tables(tables)


def _check(daf: DafReader, axis: str, vectors: Sequence[str], if_exists: IfExists) -> None:
    if not daf.has_axis(axis):
        raise errors.axis_not_found(daf.location, axis, daf.axes_set())
    for name in vectors if if_exists == "error" else ():
        if daf.has_vector(axis, name):
            raise errors.ExistsError(
                f"{daf.location}: axis {axis!r} has a vector {name!r} already; write with "
                "mode('overwrite') to replace it"
            )


def _check_complete(daf: DafReader, axis: str, names: pa.ChunkedArray) -> None:
    """Raise unless each entry is there once."""
    if names.null_count:
        raise errors.QueryError(
            f"{daf.location}: the column {NAME!r} of the data frame is NULL in "
            f"{names.null_count:,} rows; it says the entry of axis {axis!r}"
        )
    positions = daf.axis_indices(axis, names.combine_chunks())
    counts = np.bincount(positions, minlength=daf.axis_length(axis))
    for problem, wrong in (
        ("has no row for", counts == 0),
        ("has more than one row for", counts > 1),
    ):
        if wrong.any():
            first = daf.get_pa_vector(axis, NAME)[int(np.argmax(wrong))].as_py()
            raise errors.QueryError(
                f"{daf.location}: the data frame {problem} {int(wrong.sum()):,} of "
                f"{len(counts):,} entries of axis {axis!r}, the first is {first!r}; nothing was "
                "stored"
            )
