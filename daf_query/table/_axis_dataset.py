"""The table of one axis, with entries of matrices as columns where they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from daf_query.scan import INDEX
from daf_query.table._columns import Categoricals, TableColumn
from daf_query.table._dataset import TableDataset, TableView
from daf_query.table._matrix_columns import MatrixColumn, MatrixEntry, matrix_column
from daf_query.table._table_columns import TableColumns, axis_columns, axis_page
from daf_storage import DafError, DafReader, Origin, errors
from daf_storage.data import matrix_version, vectors_version

_ENTRY_PARTS = 3


class AxisDataset(TableDataset):
    """The table of one axis.

    Parameters
    ----------
    daf
        The data set.
    axis
        The axis; its entries are the rows.
    columns
        Its columns, where they are known already.
    view
        Which rows are wanted, and how they are read; by default all.

    Examples
    --------
    >>> import daf_storage, pyarrow.compute as pc
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["TATA", "GATA"])
    >>> daf.set_vector("cell", "age", [30, 60])
    >>> AxisDataset(daf, "cell").to_table(columns=["name"], filter=pc.field("age") > 40).to_pylist()
    [{'name': 'GATA'}]
    """

    def __init__(
        self,
        daf: DafReader,
        axis: str,
        *,
        columns: TableColumns | None = None,
        view: TableView | None = None,
    ) -> None:
        super().__init__(columns or axis_columns(daf, axis), location=daf.location, view=view)
        self._daf = daf

    def _repr_html_(self) -> str:
        return axis_page(self._daf, self._columns, is_filtered=self.is_filtered)

    def _with(self, columns: TableColumns, view: TableView) -> Self:
        return type(self)(self._daf, columns.table, columns=columns, view=view)

    def _place(self) -> tuple[Callable[..., TableDataset], tuple[Any, ...]]:
        columns = self._columns.columns.values()
        has_categoricals = any(
            isinstance(c, TableColumn) and c.categories is not None for c in columns
        )
        categoricals = "dictionary" if has_categoricals else "string"
        entries = {c.name: c.source for c in columns if isinstance(c, MatrixColumn)}
        origin = self._daf.require_origin()
        return _open_axis, (origin, self._columns.table, categoricals, entries)

    @property
    def has_positions(self) -> bool:
        """Whether the column ``index`` counts the rows: it does."""
        return INDEX in self._columns.columns

    def data_version(self, columns: Iterable[str]) -> str | None:
        """Return what changes with the values of columns, in any process; None if unknown."""
        axis, known = self._columns.table, self._columns.columns
        names, versions = [], []
        for name in columns:
            column = known.get(name)
            if isinstance(column, MatrixColumn):
                entry = column.source
                versions.append(matrix_version(self._daf, axis, entry.axis, entry.matrix))
            else:
                names.append(name)
        versions.append(vectors_version(self._daf, axis, names))
        known_versions = [version for version in versions if version is not None]
        return "-".join(known_versions) if len(known_versions) == len(versions) else None

    def with_matrix_columns(self, entries: Mapping[str, MatrixEntry]) -> Self:
        """Return the same table with entries of matrices as columns, by their names."""
        self._check_free(entries)
        axis = self._columns.table
        added = {
            name: matrix_column(self._daf, axis, name, source, self.cache)
            for name, source in entries.items()
        }
        columns = replace(self._columns, columns={**self._columns.columns, **added})
        return self._with(columns, self._view)

    def _unknown_column(self, name: str) -> DafError:
        known = self._columns
        return errors.vector_not_found(self._location, known.table, name, known.columns)


def with_matrix_columns(table: TableDataset, entries: Mapping[str, Any]) -> TableDataset:
    """Return a table with entries of matrices as columns: the axis, the matrix, the entry."""
    if not isinstance(entries, Mapping):
        raise errors.InvalidInputError(
            f"matrix_columns= is a dict, not {type(entries).__name__}; it has the other axis, the "
            """matrix and the entry of each column: {"cd8a": ("gene", "X", "CD8A")}"""
        )
    named = {name: _matrix_entry(name, given) for name, given in entries.items()}
    return table.with_matrix_columns(named) if named else table


def _matrix_entry(name: str, given: Any) -> MatrixEntry:
    is_sequence = isinstance(given, Sequence) and not isinstance(given, str)
    parts = list(given) if is_sequence else []
    if len(parts) != _ENTRY_PARTS or not all(isinstance(part, str) for part in parts):
        raise errors.InvalidInputError(
            f"matrix_columns= has {given!r} for {name!r}; it needs the other axis, the matrix and "
            'the entry, such as ("gene", "X", "CD8A")'
        )
    return MatrixEntry(*parts)


def _open_axis(
    origin: Origin, axis: str, categoricals: Categoricals, entries: Mapping[str, MatrixEntry]
) -> AxisDataset:
    daf = origin.open()
    table = AxisDataset(daf, axis, columns=axis_columns(daf, axis, categoricals=categoricals))
    return table.with_matrix_columns(entries) if entries else table
