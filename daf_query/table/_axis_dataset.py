"""The table of one axis, with entries of matrices as columns where they are asked for.

The values of an entry, a gene of every cell, are gathered as slices are, of few rows only those,
and else of all, once: what is gathered is cached by the identity of the matrix, so that one that is
replaced is read again.  The position of the entry is found without a dictionary of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.index import StoredIndexes
from daf_query.matrix import (
    PlannedLayouts,
    Selection,
    estimate_read,
    find_layouts,
    open_layouts,
    other_layout_command,
)
from daf_query.scan import (
    DEFAULT_OPTIONS,
    INDEX,
    NAME,
    CachedParts,
    OpenColumn,
    Rows,
    ScanOptions,
    StringColumn,
    VectorColumn,
    ZoneMap,
    arrow_type,
    number_array,
    plain_array,
)
from daf_query.table._columns import (
    IMPORTED_TYPES,
    BrokenColumns,
    Categoricals,
    MatrixEntry,
    OpenTableColumn,
    TableColumn,
    TableColumns,
    imported_column,
    value_type,
)
from daf_query.table._dataset import TableDataset, TableView, table_heading
from daf_storage import DafError, DafReader, Origin, VectorInfo, errors
from daf_storage._lazy import pc
from daf_storage.anndata import recorded_types
from daf_storage.base import DecodedCache, Span, StorageType, is_remote
from daf_storage.data import StoredMatrix, axis_section, matrix_version, vectors_version
from daf_storage.display import Markup, PreviewBudget, html_element, html_page, shortened
from daf_storage.stores import ReadEstimate

_ENTRY_PARTS: Final = 3
SYMBOLS: Final = ("gene_symbols", "feature_name")
"""Vectors of symbols, as Cell Ranger and CELLxGENE have them beside ids."""
_MAX_COMPARED: Final = 20_000


def find_entry(daf: DafReader, axis: str, entry: str, cache: DecodedCache) -> int | None:
    """Return the position of an entry of an axis; ``None`` if it has no such entry.

    What is no name may be the symbol of one entry, in one of the vectors `SYMBOLS`.

    Raises
    ------
    InvalidInputError
        It is the symbol of several entries.
    """
    names = entry_names(daf, axis, cache)
    position = int(pc.index(names, pa.scalar(entry, names.type)).as_py())
    return _by_symbol(daf, axis, entry) if position < 0 else position


def _by_symbol(daf: DafReader, axis: str, symbol: str) -> int | None:
    """Return the position of the entry that has a symbol; ``None`` if none has."""
    for name, symbols in _symbols(daf, axis):
        rows = pc.indices_nonzero(pc.equal(symbols, symbol))
        if len(rows) > 1:
            entries = daf.get_pa_vector(axis, NAME).take(rows).to_pylist()
            raise errors.InvalidInputError(
                f"{daf.location}: {len(rows)} entries of axis {axis!r} have the {name} {symbol!r}; "
                f"write one of {errors.shown_names(entries)}"
            )
        if len(rows):
            return int(rows[0].as_py())
    return None


def _symbols(daf: DafReader, axis: str) -> Iterator[tuple[str, pa.Array]]:
    """Yield each vector of symbols of an axis, with its name."""
    for name in SYMBOLS:
        symbols = daf.get_pa_vector(axis, name) if daf.has_vector(axis, name) else None
        if symbols is not None and symbols.type in (pa.string(), pa.large_string()):
            yield name, symbols


def spelled_entry(daf: DafReader, axis: str, names: Sequence[str]) -> tuple[str, str] | None:
    """Return which of some names an axis has, maybe in other case, and in which vector.

    That is the names of its entries, or their symbols.
    """
    for vector, values in ((NAME, daf.get_pa_vector(axis, NAME)), *_symbols(daf, axis)):
        for folded, wanted in ((values, names), (pc.utf8_lower(values), map(str.lower, names))):
            places = (pc.index(folded, name).as_py() for name in wanted)
            found = next((place for place in places if place >= 0), None)
            if found is not None:
                return vector, str(values[found].as_py())
    return None


def entry_not_found(
    daf: DafReader, axis: str, entry: str, cache: DecodedCache
) -> errors.EntryNotFoundError:
    """Return an error that names the nearest entries; of very many, those that begin alike."""
    both = (entry_names(daf, axis, cache), *(symbols for _, symbols in _symbols(daf, axis)))
    names = pa.chunked_array(each.cast(pa.large_string()) for each in both)
    if len(names) > _MAX_COMPARED:
        alike = pc.starts_with(names, pattern=entry[:2], ignore_case=True)
        names = names.filter(alike)
    nearest = names.slice(0, _MAX_COMPARED).to_pylist()
    return errors.entry_not_found(daf.location, axis, entry, nearest)


def entry_names(
    daf: DafReader, axis: str, cache: DecodedCache, options: ScanOptions = DEFAULT_OPTIONS
) -> pa.Array:
    """Return the entries of an axis, as scans of its table cache them."""
    info = daf.vector_info(axis, NAME)
    column = VectorColumn(daf, info, StoredIndexes(daf, axis)).open(cache, options)
    return plain_array(column.to_arrow(Rows(Span(0, info.length))))


def _note(column: MatrixColumn) -> str:
    """Return what a column costs of a matrix that is stored by the other axis only."""
    daf, stored = column.daf, column.stored
    info, read = stored.info, ReadEstimate()
    elements = info.shape[0] * info.shape[1] if info.nnz is None else info.nnz
    for array in stored.element_arrays() if info.is_sparse else [stored.dense()]:
        array.estimate([Span(0, array.info.shape[0])], read)
    size = f", about {read.size_bytes:,} bytes in {read.requests:,} requests"
    note = (
        f"gathered from up to {elements:,} stored elements{size if read.is_remote else ''}, since "
        f"the matrix {info.name!r} is stored by {info.columns_axis!r} only"
    )
    command = other_layout_command(daf, info.name)
    if info.is_row_major:
        return note
    if command:
        return f"{note}; {command} stores it both ways"
    changed = "open the data set"
    if is_remote(daf.location):
        changed = f"copy it with 'daf convert {daf.location} mine.daf.zarr', open the copy"
    return (
        f"{note}; {changed} with 'r+' and call relayout_matrix({info.rows_axis!r}, "
        f"{info.columns_axis!r}, {info.name!r}) to store it both ways"
    )


@dataclass(frozen=True, slots=True)
class MatrixColumn:
    """An entry of a matrix as a column of the table of an axis; `matrix_column` makes one."""

    daf: DafReader
    """The data set."""
    name: str
    """The name of the column."""
    rows_axis: str
    """The axis whose table it is a column of."""
    source: MatrixEntry
    """Where its values are."""
    position: int
    """Which entry it is."""
    stored: StoredMatrix
    """A layout of the matrix: that of which an entry is one stored column, if there is one."""
    shown_type: pa.DataType
    """The Arrow type of its values, see `value_type`."""
    chunk_rows: int = 0

    @property
    def axes(self) -> tuple[str, str]:
        """The axis of the rows, and that of the entry."""
        return self.rows_axis, self.source.axis

    @property
    def storage_type(self) -> StorageType:
        """The type of what is stored."""
        return self.stored.info.storage_type

    @property
    def length(self) -> int:
        """Number of rows."""
        info = self.stored.info
        return info.shape[0 if info.rows_axis == self.rows_axis else 1]

    @property
    def is_by_entry(self) -> bool:
        """Whether an entry is one stored column."""
        return _is_by_entry(self.stored, self.rows_axis)

    @property
    def note(self) -> str:
        """Why reading it is slower than it need be, and what to do; empty if it is not."""
        return "" if self.is_by_entry else _note(self)

    @property
    def stored_type(self) -> pa.DataType:
        """The Arrow type of what is stored."""
        return arrow_type(self.storage_type)

    @property
    def field(self) -> pa.Field:
        """Its name and Arrow type; floats can be NULL, where they are NaN."""
        is_float = self.storage_type in (StorageType.FLOAT32, StorageType.FLOAT64)
        return pa.field(self.name, self.shown_type, nullable=is_float)

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Open it for reading.

        Raises
        ------
        FormatError
            The matrix was replaced since by one of another type, or no layout is whole.
        """
        identity = self.daf.matrix_identity(*self.axes, self.source.matrix)
        now = matrix_column(self.daf, self.rows_axis, self.name, self.source, cache)
        if now.storage_type != self.storage_type:
            raise self.replaced()
        key = (self.daf.location, *self.axes, self.source.matrix, now.position, "entry")
        parts = CachedParts(cache, key, identity)
        if self.storage_type.is_string:
            return StringColumn(lambda: parts.get("strings", now.read_strings))
        column = _OpenMatrixColumn(now, parts, options)
        if self.field.type == self.stored_type:
            return column
        return OpenTableColumn(column, TableColumn(self, wide=self.field.type), cache)

    def read_strings(self) -> pa.Array:
        """Return the strings of the entry, out of those of the whole matrix."""
        rows = np.arange(self.length)
        places = rows + self.position * rows.size
        if not self.is_by_entry:
            places = rows * self.stored.info.shape[0] + self.position
        return self.stored.dense().read_strings().take(pa.array(places))

    def estimate(self, read: ReadEstimate) -> None:
        """Add what a stored column downloads, if it is on a server; `note` says it of others.

        Column pointers are read at most.
        """
        if self.is_by_entry and is_remote(self.daf.location):
            read.add_share(estimate_read(self.layouts(Selection.all(self.length)).first))

    def layouts(self, rows: Selection) -> PlannedLayouts:
        """Return plans of some of its rows."""
        entry = Selection(np.array([self.position]))
        return find_layouts(self.daf, self.axes, self.source.matrix, rows, entry)

    def replaced(self) -> errors.FormatError:
        """Return an error of a matrix that is not what it was when the query was planned."""
        return errors.FormatError(
            f"{self.daf.location}: matrix {self.source.matrix!r} of axes {self.axes[0]!r} and "
            f"{self.axes[1]!r} was replaced while it was being queried; run the query again"
        )


class _OpenMatrixColumn:
    """An entry of a matrix of numbers that is being read."""

    def __init__(self, column: MatrixColumn, parts: CachedParts, options: ScanOptions) -> None:
        self._column = column
        self._parts = parts
        self._divisor = options.sparse_divisor
        length, dtype, zone_rows = column.length, column.storage_type.dtype, options.zone_rows
        self.zones: ZoneMap = parts.get(
            ("zones", zone_rows), lambda: ZoneMap.unknown(length, dtype, zone_rows)
        )

    def values(self, rows: Rows) -> npt.NDArray[Any]:
        """Return numbers; of few rows, only those are gathered."""
        is_few = rows.offsets is not None and rows.count * self._divisor <= self._column.length
        if is_few and self._parts.peek("values") is None:
            return self._gathered(Selection(rows.positions))
        every = Selection.all(self._column.length)
        return rows.of(self._parts.get("values", lambda: self._gathered(every)))

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return numbers as Arrow, NaN as null."""
        return number_array(self.values(rows))

    def _gathered(self, rows: Selection) -> npt.NDArray[Any]:
        """Return values as slices read them."""
        gathered = self._column.layouts(rows).gather()
        dense = gathered if isinstance(gathered, np.ndarray) else gathered.toarray()
        values: npt.NDArray[Any] = np.ascontiguousarray(dense[:, 0])
        if values.dtype != self._column.storage_type.dtype:
            raise self._column.replaced()
        return values


def _is_by_entry(stored: StoredMatrix, rows_axis: str) -> bool:
    return stored.info.rows_axis == rows_axis and not stored.info.is_row_major


def matrix_column(
    daf: DafReader, rows_axis: str, name: str, source: MatrixEntry, cache: DecodedCache
) -> MatrixColumn:
    """Return an entry of a matrix as a column of the table of an axis; reads metadata only.

    Raises
    ------
    MatrixNotFoundError, EntryNotFoundError
        There is no such matrix, or its other axis has no such entry, and which are nearest.
    FormatError
        No layout is whole.
    """
    axes = (rows_axis, source.axis)
    layouts, _ = open_layouts(daf, axes, source.matrix)
    stored = next((each for each in layouts if _is_by_entry(each, rows_axis)), layouts[0])
    position = find_entry(daf, source.axis, source.entry, cache)
    if position is None:
        raise entry_not_found(daf, source.axis, source.entry, cache)
    shown = value_type(daf, axes, source.matrix, stored.info.storage_type)
    return MatrixColumn(daf, name, rows_axis, source, position, stored, shown)


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
    imported = {n for n, each in columns.items() if n != NAME and each.field.type in IMPORTED_TYPES}
    noted = recorded_types(daf, axis, imported) if imported else {}
    for name in imported & noted.keys():
        columns[name] = imported_column(columns[name], noted[name], categoricals)
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
        self.has_positions = INDEX in self.table_columns.columns

    def _repr_html_(self) -> str:
        """Return a page with previews of its vectors, or what is wrong in their place."""
        heading = table_heading(self)
        try:
            return html_page(heading, *_previews(self._daf, self.table_columns))
        except errors.DafError as error:
            note = f"cannot be read: {shortened(error, 160)}"
            return html_page(heading, html_element("div", note, class_="note"))

    def _place(self) -> tuple[Callable[..., TableDataset], tuple[Any, ...]]:
        columns = self.table_columns.columns.values()
        has_categoricals = any(
            isinstance(c, TableColumn) and c.categorical is not None for c in columns
        )
        categoricals = "dictionary" if has_categoricals else "string"
        entries = {c.name: c.source for c in columns if isinstance(c, MatrixColumn)}
        origin = self._daf.require_origin()
        return _open_axis, (origin, self.table_columns.table, categoricals, entries)

    def data_version(self, columns: Iterable[str]) -> str | None:
        """Return what changes with the values of columns, in any process; None if unknown."""
        axis, shown = self.table_columns.table, self.table_columns.columns
        names, versions = [], []
        for name in columns:
            column = shown.get(name)
            if isinstance(column, MatrixColumn):
                entry = column.source
                versions.append(matrix_version(self._daf, axis, entry.axis, entry.matrix))
            else:
                names.append(name)
        versions.append(vectors_version(self._daf, axis, names))
        return None if None in versions else "-".join(map(str, versions))

    def with_matrix_columns(self, entries: Mapping[str, MatrixEntry]) -> Self:
        """Return the same table with entries of matrices as columns, by their names."""
        self._check_free(entries)
        axis = self.table_columns.table
        added = {
            name: matrix_column(self._daf, axis, name, source, self.view.cache)
            for name, source in entries.items()
        }
        columns = replace(self.table_columns, columns={**self.table_columns.columns, **added})
        return self._with(columns, self.view)

    def _unknown_column(self, name: str) -> DafError:
        columns = self.table_columns
        return errors.vector_not_found(self.location, columns.table, name, columns.columns)


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
