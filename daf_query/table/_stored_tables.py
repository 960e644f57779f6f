"""The tables of a data set: that of an axis, and the long form of a matrix.

The table of an axis has entries of matrices as columns where they are asked for.  The values of an
entry, a gene of every cell, are gathered as slices are, of few rows only those, and else of all,
once: what is gathered is cached by the identity of the matrix, so that one that is replaced is read
again.  The position of the entry is found without a dictionary of all of them.

The long form of a matrix has a row for each element, scanned in blocks.  What a filter says of one
axis alone is evaluated on its entries, once each, and becomes a selection: of the majors of a
layout only the selected ones are read, elements of other minors are dropped by their codes.  All
else is evaluated element by element, block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.distributed import Source
from daf_query.index import StoredIndexes
from daf_query.matrix import (
    ElementPart,
    Elements,
    PlannedLayouts,
    Selection,
    SlicePlan,
    each_once,
    estimate_read,
    find_layouts,
    info_of,
    open_layouts,
    other_layout_command,
)
from daf_query.scan import (
    DEFAULT_OPTIONS,
    INDEX,
    NAME,
    CachedParts,
    Codes,
    Column,
    IsNull,
    Mask,
    NumberColumn,
    Once,
    OpenColumn,
    Predicate,
    Rows,
    Scan,
    ScanOptions,
    ScanPlan,
    StringColumn,
    Values,
    VectorColumn,
    arrow_type,
    columns_of,
    conjuncts,
    evaluate,
    number_array,
    numpy_type,
    plain_array,
    target_rows,
)
from daf_query.table._columns import (
    DATASET,
    IMPORTED_TYPES,
    BrokenColumns,
    Categoricals,
    ConstantColumn,
    MatrixEntry,
    TableColumn,
    TableColumns,
    imported_column,
    long_names,
    value_type,
)
from daf_query.table._dataset import Piece, TableDataset, TableView
from daf_storage import DafError, DafReader, MatrixInfo, Origin, VectorInfo, errors
from daf_storage._lazy import pc
from daf_storage.anndata import recorded_types
from daf_storage.base import DecodedCache, Span, StorageType, is_remote
from daf_storage.data import StoredMatrix, matrix_version, vectors_version
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
    def field(self) -> pa.Field:
        """Its name and Arrow type; floats can be NULL, where they are NaN."""
        is_float = self.storage_type in (StorageType.FLOAT32, StorageType.FLOAT64)
        return pa.field(self.name, arrow_type(self.storage_type), nullable=is_float)

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
            every = Selection.all(self.length)
            return StringColumn(
                lambda: parts.get("strings", lambda: pa.array(now.gathered(every), pa.string()))
            )
        return OpenMatrixColumn(now, parts, options)

    def gathered(self, rows: Selection) -> npt.NDArray[Any]:
        """Return values as slices read them."""
        gathered = self.layouts(rows).gather()
        dense = gathered if isinstance(gathered, np.ndarray) else gathered.toarray()
        values: npt.NDArray[Any] = np.ascontiguousarray(dense[:, 0])
        kind = self.storage_type
        if values.dtype != (np.dtype(object) if kind.is_string else kind.dtype):
            raise self.replaced()
        return values

    def estimate(self, read: ReadEstimate) -> None:
        """Add what all of it downloads, if it is on a server; column pointers are read at most."""
        if is_remote(self.daf.location):
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


class OpenMatrixColumn(NumberColumn):
    """An entry of a matrix of numbers that is being read: all of it, unless few rows are enough."""

    def __init__(self, column: MatrixColumn, parts: CachedParts, options: ScanOptions) -> None:
        every = partial(column.gathered, Selection.all(column.length))
        super().__init__(lambda: lambda span: parts.get("values", every)[span.slice])
        self._column = column
        self._few = column.length // options.sparse_divisor
        self._peek = partial(parts.peek, "values")

    def values(self, rows: Rows) -> npt.NDArray[Any]:
        """Return numbers; of few rows, only those are gathered."""
        if rows.offsets is None or rows.count > self._few or self._peek() is not None:
            return super().values(rows)
        return self._column.gathered(Selection(rows.positions))


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
    return MatrixColumn(daf, name, rows_axis, source, position, stored)


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
    return TableColumns(axis, length, columns, problems, broken)


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

    def _place(self) -> tuple[Callable[..., TableDataset], tuple[Any, ...]]:
        columns = self.table_columns.columns.values()
        has_categoricals = any(each.categorical is not None for each in columns)
        categoricals = "dictionary" if has_categoricals else "string"
        stored = (each.stored for each in columns)
        entries = {each.name: each.source for each in stored if isinstance(each, MatrixColumn)}
        origin = self._daf.require_origin()
        return _open_axis, (origin, self.table_columns.table, categoricals, entries)

    def data_version(self, columns: Iterable[str]) -> str | None:
        """Return what changes with the values of columns, in any process; None if unknown."""
        axis, shown = self.table_columns.table, self.table_columns.columns
        names, versions = [], []
        for name in columns:
            stored = shown[name].stored if name in shown else None
            if isinstance(stored, MatrixColumn):
                entry = stored.source
                versions.append(matrix_version(self._daf, axis, entry.axis, entry.matrix))
            else:
                names.append(name)
        versions.append(vectors_version(self._daf, axis, names))
        return None if None in versions else "-".join(map(str, versions))

    def with_matrix_columns(self, entries: Mapping[str, MatrixEntry]) -> Self:
        """Return the same table with entries of matrices as columns, by their names."""
        self._check_free(entries)
        axis = self.table_columns.table
        added = {}
        for name, source in entries.items():
            column = matrix_column(self._daf, axis, name, source, self.view.cache)
            kind = value_type(self._daf, column.axes, source.matrix, column.storage_type)
            added[name] = TableColumn(column, shown=column.field.with_type(kind))
        columns = replace(self.table_columns, columns={**self.table_columns.columns, **added})
        return self._with(columns, self.view)

    def _unknown_column(self, name: str) -> DafError:
        columns = self.table_columns
        return errors.vector_not_found(self.location, columns.table, name, columns.columns)


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
    is_listed = isinstance(given, tuple | list) and len(given) == _ENTRY_PARTS
    if not is_listed or not all(isinstance(part, str) for part in given):
        raise errors.InvalidInputError(
            f"matrix_columns= has {given!r} for {name!r}; it needs the other axis, the matrix and "
            'the entry, such as ("gene", "X", "CD8A")'
        )
    return MatrixEntry(*given)


def _open_axis(
    origin: Origin, axis: str, categoricals: Categoricals, entries: Mapping[str, MatrixEntry]
) -> AxisDataset:
    daf = origin.open()
    table = AxisDataset(daf, axis, columns=axis_columns(daf, axis, categoricals=categoricals))
    return table.with_matrix_columns(entries) if entries else table


_MOST_ENTRIES: Final = (1 << 31) - 1


class AxisEntries:
    """The entries of an axis, decoded when they are first needed."""

    def __init__(
        self, length: int, selection: Selection | None, read: Callable[[], pa.Array]
    ) -> None:
        self._length = length
        self._strings = Once(read)
        self._tables: dict[Predicate, Mask] = {}
        self._chosen: Mask = np.full(length, selection is None)
        if selection is not None:
            self._chosen[selection.positions] = True

    @property
    def selection(self) -> Selection:
        """The entries that are left."""
        return Selection.of(np.flatnonzero(self._chosen), self._length)

    def leave(self, predicate: Predicate) -> None:
        """Leave only the entries for which a predicate is true."""
        self._chosen &= self.table(predicate)

    @property
    def strings(self) -> pa.Array:
        """The entries, in their order."""
        return self._strings()

    def table(self, predicate: Predicate) -> Mask:
        """Return for which of the entries that are left a predicate is true."""
        table = self._tables.get(predicate)
        if table is None:
            strings = self.strings
            table = evaluate(predicate, lambda _: strings, len(strings)) & self._chosen
            self._tables[predicate] = table
        return table

    def encoded(self, codes: npt.NDArray[np.int32]) -> pa.DictionaryArray:
        """Return positions as a dictionary of the entries; the codes are not copied."""
        return pa.DictionaryArray.from_arrays(codes, self.strings, safe=False)


@dataclass(frozen=True, eq=False)
class ElementColumn:
    """A part of each element; it is its own open column."""

    field: pa.Field
    part: ElementPart
    elements: Elements
    entries: AxisEntries | None = None
    """The entries of its axis; None for values."""
    chunk_rows = 0
    zones = None

    def open(self, cache: DecodedCache, options: ScanOptions) -> ElementColumn:  # noqa: ARG002 - its blocks are of one state
        """Open it for reading."""
        return self

    def values(self, rows: Rows) -> Values:
        """Return codes of the entries, or values."""
        read = self._read(rows)
        if self.entries is not None:
            return Codes(read, self.entries.strings, self.entries.table)
        return read

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return a dictionary of the entries, or values."""
        read = self._read(rows)
        if self.entries is not None:
            return self.entries.encoded(read)
        return read if isinstance(read, pa.Array) else number_array(read)

    def _read(self, rows: Rows) -> Any:
        """Return codes, Arrow strings, or numbers in the type that is shown."""
        read = self.elements.part(self.part, rows.span, rows.offsets)
        if self.entries is not None or isinstance(read, pa.Array):
            return read
        return read.astype(numpy_type(self.field.type), copy=False)


class MatrixDataset(TableDataset):
    """The long form of a matrix: a row for each stored element of a sparse one, or of a dense one.

    Its columns are the two axes, as dictionaries of their entries whose codes are the positions,
    and ``value``, NULL where it is NaN.  Explicit zeros of a sparse matrix are rows too.  Of a
    matrix of an axis with itself, the second column is ``AXIS_2``.

    It is scanned in blocks of a bounded number of elements.  What a filter says of one axis alone
    becomes a slice: of the two layouts, if both are stored, the one that reads less is taken, and
    of that only the selected majors.

    Parameters
    ----------
    rows, columns
        Only these entries of the axes, in any order, each once.
    member
        Of one of several data sets that are asked as one: what the column ``dataset``, which it has
        first, calls it, and the type of the values of all.

    Raises
    ------
    AxisNotFoundError, MatrixNotFoundError
        There is no such axis or matrix; the message lists those that exist.

    Examples
    --------
    >>> import daf_storage
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["TATA", "GATA"])
    >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
    >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3]])
    >>> table = MatrixDataset(daf, "cell", "gene", "UMIs")
    >>> table.to_table(filter=pc.field("gene") == "WNT6").to_pydict()
    {'cell': ['TATA', 'GATA'], 'gene': ['WNT6', 'WNT6'], 'value': [1, 3]}
    """

    def __init__(  # noqa: PLR0913 - what is chosen, and how it is seen
        self,
        daf: DafReader,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        rows: Selection | None = None,
        columns: Selection | None = None,
        view: TableView | None = None,
        member: tuple[str, pa.DataType] | None = None,
    ) -> None:
        self._daf, self._axes, self._name = daf, (rows_axis, columns_axis), name
        self._what = f"matrix({rows_axis!r}, {columns_axis!r}, {name!r})"
        self._member = member
        self._info = info = self._checked_info()
        shown = member[1] if member else value_type(daf, self._axes, name, info.storage_type)
        self.value_type = shown
        """The type of the values."""
        self.stored_type = arrow_type(info.storage_type)
        """That in which they are stored."""
        self._selections = (_as_set(rows), _as_set(columns))
        super().__init__(self._listed(), location=daf.location, view=view)
        self.member_name = member and member[0]

    def _checked_info(self) -> MatrixInfo:
        """Return the metadata of the matrix in one of its layouts; raise if it has none."""
        info = info_of(self._daf, self._axes, self._name)
        if max(info.shape) > _MOST_ENTRIES:
            raise errors.UnsupportedDataError(
                f"{self._daf.location}: {self._what} has an axis of {max(info.shape):,} entries; "
                f"the codes of its columns have room for {_MOST_ENTRIES:,}"
            )
        return info

    def _listed(self) -> TableColumns:
        """Return the columns, which the scan of the matrix reads."""
        info = self._info
        first, second, value = self._names
        entries = pa.dictionary(pa.int32(), pa.string())
        can_be_null = any(map(pa.types.is_floating, (self.stored_type, self.value_type)))
        fields = [
            *([] if self._member is None else [pa.field(DATASET, pa.string(), nullable=False)]),
            pa.field(first, entries, nullable=False),
            pa.field(second, entries, nullable=False),
            pa.field(value, self.value_type, nullable=can_be_null),
        ]
        length = info.shape[0] * info.shape[1] if info.nnz is None else info.nnz
        columns = {field.name: TableColumn(ConstantColumn(field, None, length)) for field in fields}
        return TableColumns(self._what, length, columns, {})

    @property
    def _names(self) -> tuple[str, str, str]:
        """The names of the columns: both axes, and the values."""
        return long_names(self._axes, has_dataset=self._member is not None)

    def changed(self, **changes: Any) -> Self:
        """Return the elements of other rows and columns, or as those of a member of several."""
        rows, columns = self._selections
        own = {"rows": rows, "columns": columns, "view": self.view, "member": self._member}
        return type(self)(self._daf, *self._axes, self._name, **{**own, **changes})

    def data_version(self, columns: Iterable[str]) -> str | None:  # noqa: ARG002 - of all
        """Return what differs once the matrix was changed; None where nothing shows it."""
        return matrix_version(self._daf, *self._axes, self._name)

    def _place(self) -> tuple[Callable[..., TableDataset], tuple[Any, ...]]:
        rows, columns = self._selections
        again = partial(_open_matrix, rows=rows, columns=columns, member=self._member)
        return again, (self._daf.require_origin(), *self._axes, self._name)

    @property
    def is_filtered(self) -> bool:
        """Whether some elements are left out: by `filter`, or by the rows and columns chosen."""
        return super().is_filtered or any(part is not None for part in self._selections)

    def scan(self, predicate: Predicate | None) -> Scan:
        """Return the scan for a filter: chosen majors of a chosen layout, cut into blocks.

        Majors for which the filter cannot be true are in none of them.
        """
        layout, entries, residual = self._chosen(predicate)
        elements = Elements(layout)
        size = target_rows(elements.count, self.view.options)
        spans = [] if residual is None else elements.spans(size)
        major, minor = (0, 1) if layout.rows_are_major else (1, 0)
        required: list[Predicate] = []
        if elements.has_other_minors:
            required.append(IsNull(self._names[minor], is_negated=True))
        plan = ScanPlan(
            spans,
            spans,
            predicate,
            [*required, *(residual or ())],
            rows_pruned=self.table_columns.length - sum(span.size for span in spans),
        )
        schema = self.table_columns.schema
        columns: dict[str, Column] = {}
        if self.member_name is not None:
            field = schema.field(DATASET)
            columns[DATASET] = ConstantColumn(field, self.member_name, elements.count)
        parts: dict[str, ElementPart] = {
            self._names[major]: "majors",
            self._names[minor]: "minors",
            self._names[2]: "values",
        }
        for name, part in parts.items():
            columns[name] = ElementColumn(schema.field(name), part, elements, entries.get(name))
        title = f"{self._what}, stored by {self._axes[major]!r}"
        return Scan(self.open_table(title, columns, required), plan)

    def pieces(
        self,
        filter: pc.Expression | None,
        needed: Sequence[str],  # noqa: ARG002 - the version is that of the matrix
        rows: int,
    ) -> Iterator[Piece]:
        """Yield blocks of the matrix of about so many elements; reads metadata and entries alone.

        Each has all of the selected minors for some of the selected majors, at least one.
        """
        layout, _, residual = self._chosen(self.predicate_of(filter))
        if residual is None:
            return
        source = Source.of(self.changed(rows=None, columns=None), f"the table {self._what}")
        for span, count in layout.groups(rows):
            part, minor = layout.major.part(span.start, span.stop), layout.minor
            block = (part, minor) if layout.rows_are_major else (minor, part)
            if count:
                yield Piece(source, count, self.table_columns.length, block=block)

    def rows_of(
        self,
        piece: Piece,
        filter: pc.Expression | None,  # noqa: ARG002 - pyarrow's name; whoever reads has it
    ) -> Self:
        """Return the elements of a block."""
        rows, columns = piece.block or (None, None)
        return self.changed(rows=rows, columns=columns)

    def _chosen(
        self, predicate: Predicate | None
    ) -> tuple[SlicePlan, dict[str, AxisEntries], list[Predicate] | None]:
        """Return what a predicate leaves of a matrix.

        Returns
        -------
        SlicePlan
            The layout that is read, planned.
        dict
            The entries of both axes that are left, by the name of their columns.
        list or None
            Conditions on values, which are evaluated on each element; ``None`` if nothing is left.
        """
        shape = _shape_of(self._info, self._axes)
        entries = {
            name: AxisEntries(length, selection, partial(self._entries, axis, length))
            for name, axis, length, selection in zip(
                self._names[:2], self._axes, shape, self._selections, strict=True
            )
        }
        residual, is_never = list[Predicate](), False
        own_name = pa.array([self.member_name], pa.string())
        for condition in conjuncts(predicate):
            names = columns_of(condition)
            if len(names) == 1 and names[0] in entries:
                entries[names[0]].leave(condition)
            elif not names or (self.member_name is not None and names == [DATASET]):
                is_never |= not evaluate(condition, lambda _: own_name, 1)[0]
            else:
                residual.append(condition)
        selections = [each.selection for each in entries.values()]
        layout = find_layouts(self._daf, self._axes, self._name, *selections).first
        if self._kind_of(layout.stored.info) != self._kind_of(self._info):
            raise errors.FormatError(
                f"{self.location}: {self._what} was replaced while it was being queried; run the "
                "query again"
            )
        return layout, entries, None if is_never else residual

    def _entries(self, axis: str, length: int) -> pa.Array:
        """Return the entries of an axis, of which there have to be as many as before."""
        strings = entry_names(self._daf, axis, self.view.cache, self.view.options)
        if len(strings) != length:
            raise errors.FormatError(
                f"{self.location}: the axis {axis!r} was replaced while a matrix of it was being "
                "queried; run the query again"
            )
        return strings.cast(pa.string())

    def _kind_of(self, info: MatrixInfo) -> tuple[Any, ...]:
        """Return what the columns follow from, whichever layout it is of."""
        return info.storage_type, info.is_sparse, _shape_of(info, self._axes)


def _shape_of(info: MatrixInfo, axes: tuple[str, str]) -> tuple[int, int]:
    """Return the shape of a matrix as its axes were asked for."""
    rows, columns = info.shape
    return (rows, columns) if info.rows_axis == axes[0] else (columns, rows)


def _as_set(selection: Selection | None) -> Selection | None:
    """Return a selection in the order of the axis, each entry once; ``None`` for all."""
    if selection is None or selection.is_all:
        return None
    return Selection(each_once(selection.positions))


def _open_matrix(origin: Origin, *names: str, **chosen: Any) -> MatrixDataset:
    return MatrixDataset(origin.open(), *names, **chosen)
