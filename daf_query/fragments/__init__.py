"""Plans of fragments: parts of a table that travel by path, so that other processes read them.

**Nouns.** A *fragment* says which rows of which table of which data sets are to be read, which
columns, and with which filter.  It holds no values: it is pickled, and whoever has it opens the
path and reads.  A *fragment plan* is all fragments of a question; zones and indexes have left out
of it what cannot match.

Must not know engines that run fragments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa

from daf_query._calls import positive_number
from daf_query.distributed import Pool, file_state
from daf_query.scan import field_names
from daf_query.session import DafSession, connect, is_pattern, matching_paths
from daf_query.table import ROWS_PER_FRAGMENT, Fragment, TableDataset
from daf_storage import errors
from daf_storage._lazy import pc

MatrixColumns = Mapping[str, tuple[str, str, str]]
"""The other axis, the matrix and the entry of columns, by their names."""


@dataclass(frozen=True)
class AxisTable:
    """The table of an axis."""

    axis: str
    """The axis; its entries are the rows."""
    matrix_columns: MatrixColumns = field(default_factory=dict)
    """More columns: entries of matrices, see `DafSession.table`."""

    def open(
        self, session: DafSession, schema: str | None = None, names: Collection[str] | None = None
    ) -> TableDataset:
        """Return the table of a session, or of one of its schemas.

        Parameters
        ----------
        names
            Columns that it has, if there are these; it may have others.

        Raises
        ------
        AxisNotFoundError, MatrixNotFoundError, EntryNotFoundError
            There is no such axis, matrix or entry.
        """
        own = None if names is None else [each for each in names if each not in self.matrix_columns]
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
        return session.matrix_table(**asdict(self), schema=schema)


NamedTable: TypeAlias = AxisTable | MatrixTable
"""A table that can be opened wherever its data sets can."""


Paths: TypeAlias = str | Path | Sequence[str | Path]
"""A path or a URL of a data set; a pattern or a list for several as one."""

_SESSIONS: Final[Pool[DafSession]] = Pool(16)
"""Those that this process keeps open for plans."""


@dataclass(frozen=True, slots=True, eq=False)
class FragmentPlan:
    """The fragments of a table that a filter leaves."""

    schema: pa.Schema
    """The columns that are read."""
    fragments: tuple[Fragment, ...]
    """In the order of the rows; none of them is empty."""


def plan_fragments(
    source: Paths | DafSession,
    table: str | NamedTable,
    *,
    columns: Sequence[str] | None = None,
    filter: pc.Expression | None = None,
    rows_per_fragment: int = ROWS_PER_FRAGMENT,
    schema: str | None = None,
) -> FragmentPlan:
    """Cut a table into fragments that end where chunks end, without those that cannot match.

    Parameters
    ----------
    source
        Paths, whose session is kept open for the next plan; or a session of your own.
    table
        An axis, or another table.
    columns
        Which columns are read, in this order; by default all.
    filter
        Only rows for which it is true.
    rows_per_fragment
        The most rows of a fragment, about: chunks are not cut, and small data sets are joined.
    schema
        Which data set, where the session has several.

    Raises
    ------
    SourceNotFoundError, AxisNotFoundError, NotFoundError
        There is no such data set, axis or column.
    InvalidInputError
        The data are in memory, where no other process finds them.

    Examples
    --------
    >>> import os, tempfile, daf_storage, pyarrow.compute as pc
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "pbmc.daf.zarr")
    >>> with daf_storage.open_daf(path, "w") as daf:
    ...     daf.add_axis("cell", ["TATA", "GATA", "CATA"])
    ...     daf.set_vector("cell", "age", [30, 60, 90])
    >>> plan = plan_fragments(path, "cell", columns=["name"], filter=pc.field("age") > 40)
    >>> [batch.to_pydict() for fragment in plan.fragments for batch in fragment.read()]
    [{'name': ['GATA', 'CATA']}]
    >>> folder.cleanup()
    """
    positive_number(rows_per_fragment, "rows_per_fragment")
    named = AxisTable(table) if isinstance(table, str) else table
    session = session_of(source)
    dataset = _opened(session, named, schema, columns, filter)
    names = dataset.schema.names if columns is None else columns
    fragments = dataset.fragments(names, filter, rows=rows_per_fragment)
    if not all(piece.source.pickled for each in fragments for piece in each.pieces):
        raise errors.InvalidInputError(
            f"{dataset.location}: no path leads to this data set, which is in memory, so other "
            "processes cannot read it; copy_all() it to a path, and pass that"
        )
    read = pa.schema([dataset.schema.field(name) for name in names])
    return FragmentPlan(read, tuple(fragments))


def table_schema(
    source: Paths | DafSession, table: str | NamedTable, *, schema: str | None = None
) -> pa.Schema:
    """Return the schema of a table; see `plan_fragments`."""
    named = AxisTable(table) if isinstance(table, str) else table
    return named.open(session_of(source), schema).schema


def session_of(source: Paths | DafSession) -> DafSession:
    """Return a session of some paths, kept open for the next plan, or the one that was given."""
    if isinstance(source, DafSession):
        return source
    is_one = isinstance(source, str | Path) and not is_pattern(source)
    if isinstance(source, str | Path):
        paths = [str(source)] if is_one else matching_paths(str(source))
    else:
        paths = list(map(str, source))
    if not paths:
        raise errors.InvalidInputError("no path was given; pass a path, a pattern or a list")
    key = (is_one, *((path, file_state(path)) for path in paths))
    return _SESSIONS.get(key, lambda: connect(paths[0] if is_one else paths))


def _opened(
    session: DafSession,
    named: NamedTable,
    schema: str | None,
    columns: Sequence[str] | None,
    filter: pc.Expression | None,
) -> TableDataset:
    """Return a table with the columns that are needed; with all, if one of these is not there."""
    filtered = field_names(filter)
    if columns is None or filtered is None or not isinstance(named, AxisTable):
        return named.open(session, schema)
    needed = filtered.union(columns)
    dataset = named.open(session, schema, needed)
    return dataset if needed.issubset(dataset.schema.names) else named.open(session, schema)
