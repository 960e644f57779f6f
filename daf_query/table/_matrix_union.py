"""The long form of a matrix of several data sets: the elements of all, with a column ``dataset``.

Nothing is aligned and nothing is filled: what a data set lacks is no row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from daf_query.scan import Column
from daf_query.table._columns import NullColumn
from daf_query.table._common_types import value_type_of_all
from daf_query.table._dataset import TableDataset
from daf_query.table._joined_members import JoinedRun
from daf_query.table._matrix_columns import MatrixEntry
from daf_query.table._matrix_dataset import MatrixDataset
from daf_query.table._table_columns import TableColumns
from daf_query.table._table_view import TableView
from daf_query.table._union import UnionDataset
from daf_storage import errors
from daf_storage.spi import DecodedCache


class MatrixUnionDataset(UnionDataset):
    """The elements of the matrices of several data sets.

    Its columns are ``dataset``, the two axes, and ``value`` in the smallest type that holds those
    of all.  Each data set is scanned by itself, so filters on ``dataset`` leave out whole files,
    and those on the axes become slices.

    Parameters
    ----------
    tables
        The long form of each data set that has the matrix, by name.
    location
        Where they are, for messages.

    Raises
    ------
    UnsupportedDataError
        The values have no type in common.

    Examples
    --------
    >>> import daf_storage
    >>> runs = {}
    >>> for name, value in (("monday", 1), ("tuesday", 2.5)):
    ...     daf = daf_storage.MemoryDaf()
    ...     daf.add_axis("cell", ["A"])
    ...     daf.add_axis("gene", ["CD8A"])
    ...     daf.set_matrix("cell", "gene", "X", [[value]])
    ...     runs[name] = MatrixDataset(daf, "cell", "gene", "X")
    >>> MatrixUnionDataset(runs, location="runs").to_table().to_pydict()
    {'dataset': ['monday', 'tuesday'], 'cell': ['A', 'A'], 'gene': ['CD8A', 'CD8A'], \
'value': [1.0, 2.5]}
    """

    def __init__(self, tables: Mapping[str, MatrixDataset], *, location: str) -> None:
        value_type = value_type_of_all(
            {table.value_type for table in tables.values()},
            {table.stored_type for table in tables.values()},
        )
        first = next(iter(tables.values()))
        table_name = first.table_columns.table
        if value_type is None:
            types = ", ".join(f"{name}: {each.value_type}" for name, each in tables.items())
            raise errors.UnsupportedDataError(
                f"{location}: {table_name} has values of types that have none in common ({types}); "
                "connect the data sets one by one"
            )
        self._matrices = {name: table.as_member(name, value_type) for name, table in tables.items()}
        own = next(iter(self._matrices.values()))
        columns: dict[str, Column] = {field.name: NullColumn(field) for field in own.schema}
        length = sum(table.table_columns.length for table in tables.values())
        view = TableView(options=first.options)
        TableDataset.__init__(
            self, TableColumns(table_name, length, columns, {}), location=location, view=view
        )
        self._parts = list(self._matrices.values())

    @property
    def matrices(self) -> Sequence[MatrixDataset]:
        """The long form of each data set."""
        return list(self._matrices.values())

    def _with_each(
        self,
        change: Callable[[Any], Any],
        *,
        cache: DecodedCache | None = None,  # noqa: ARG002 - nothing is joined
    ) -> Self:
        """Return the same table with other parts."""
        tables = {name: change(table) for name, table in self._matrices.items()}
        return type(self)(tables, location=self._location)

    def __reduce__(self) -> Any:
        """Pickle the places of the parts, not the data; the other process opens them again."""
        return _open_union, (dict(self._matrices), self._location)

    def first_rows(self, count: int) -> Self:  # noqa: ARG002 - they have no positions
        """Return the same table: its scan yields batches as it reads."""
        return self

    @property
    def _runs(self) -> Sequence[JoinedRun]:
        """Nothing: a matrix is scanned by itself."""
        return ()

    def with_matrix_columns(self, entries: Mapping[str, MatrixEntry]) -> Self:
        """Refuse: this is no table of an axis."""
        return TableDataset.with_matrix_columns(self, entries)


def _open_union(tables: Mapping[str, MatrixDataset], location: str) -> MatrixUnionDataset:
    return MatrixUnionDataset(tables, location=location)
