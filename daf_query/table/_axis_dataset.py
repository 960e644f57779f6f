"""The table of one axis, with entries of matrices as columns where they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

from daf_query.index import StoredIndexes
from daf_query.scan import INDEX, NAME, VectorColumn
from daf_query.table._columns import (
    BrokenColumns,
    Categoricals,
    TableColumn,
    TableColumns,
    imported_column,
)
from daf_query.table._dataset import TableDataset, TableView, table_heading
from daf_query.table._matrix_columns import MatrixColumn, MatrixEntry, matrix_column
from daf_storage import DafError, DafReader, Origin, VectorInfo, errors
from daf_storage.anndata import recorded_types
from daf_storage.base import StorageType
from daf_storage.data import axis_section, matrix_version, vectors_version
from daf_storage.display import Markup, PreviewBudget, html_element, html_page, shortened

_ENTRY_PARTS = 3


def broken_columns(daf: DafReader, axis: str) -> BrokenColumns:
    """Return the record of the columns of an axis that turn out to be unreadable."""
    return BrokenColumns(partial(daf.vector_identity, axis))


def axis_columns(
    daf: DafReader,
    axis: str,
    broken: BrokenColumns | None = None,
    categoricals: Categoricals = "string",
    *,
    among: frozenset[str] | None = None,
) -> TableColumns:
    """Return the columns of an axis; reads metadata and sizes of files only.

    Parameters
    ----------
    among
        The only names of vectors whose metadata are read; by default those of all.
    """
    length = daf.axis_length(axis)
    broken = broken or broken_columns(daf, axis)
    columns: dict[str, TableColumn] = {}
    problems = {}
    indexes = StoredIndexes(daf, axis)
    for name, kind in ((NAME, StorageType.STRING), (INDEX, StorageType.INT64)):
        # `vector_info` says the same, and looks at the axis for each.
        info = VectorInfo(axis, name, kind, length, is_sparse=False, chunk_rows=max(length, 1))
        columns[name] = TableColumn(VectorColumn(daf, info, indexes), broken)
    for name, found in daf.open_vectors(axis, length=length, among=among):
        if isinstance(found, DafError):
            problems[name] = str(found)
        else:
            columns[name] = TableColumn(VectorColumn(daf, found.info, indexes), broken)
    for name, noted in recorded_types(daf, axis, among).items():
        if name in columns:
            columns[name] = imported_column(columns[name], noted, daf, axis, broken, categoricals)
    return TableColumns(axis, length, columns, problems, indexes.find, broken)


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
        """Return a page with previews of its vectors, or what is wrong in their place."""
        heading = table_heading(self)
        try:
            return html_page(heading, *_previews(self._daf, self._columns))
        except errors.DafError as error:
            note = f"cannot be read: {shortened(error, 160)}"
            return html_page(heading, html_element("div", note, class_="note"))

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


def _previews(daf: DafReader, columns: TableColumns) -> tuple[Markup, Markup]:
    summary = next((axis for axis in daf.summary().axes if axis.name == columns.table), None)
    if summary is None:
        raise errors.axis_not_found(daf.location, columns.table, daf.axes_set())
    names = {vector.name for vector in summary.vectors}
    others = ", ".join(shortened(name) for name in columns.columns if name not in names)
    return (
        axis_section(summary, daf, PreviewBudget()),
        html_element("div", f"also columns: {others}", class_="note"),
    )


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
