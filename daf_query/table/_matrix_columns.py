"""One entry of a matrix as a column: a gene of every cell.

A matrix may be stored so that the entry is one stored column.  Of a dense one that column is a view
of the mapped file; of a sparse one its stored elements are read, and nothing else of the matrix.
Where only the other layout is stored, or this one is damaged, values are gathered as slices are.

The position of the entry is found without a dictionary of all of them. What is read belongs to the
stored matrix that was opened. What is decoded is cached by its identity, so that a matrix that is
replaced is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.index import StoredIndexes
from daf_query.matrix import (
    Selection,
    find_layouts,
    open_layouts,
    other_layout_command,
)
from daf_query.scan import (
    DEFAULT_OPTIONS,
    NAME,
    CachedSpans,
    Compare,
    NumberColumn,
    OpenColumn,
    Positions,
    ReadSpan,
    Rows,
    ScanOptions,
    StringColumn,
    VectorColumn,
    ZoneMap,
    arrow_type,
    number_array,
)
from daf_query.table._columns import OpenTableColumn, TableColumn, value_type
from daf_storage import DafReader, MatrixInfo, errors
from daf_storage.anndata import was_float
from daf_storage.base import DecodedCache, ForkLock, Span, StorageType
from daf_storage.data import StoredMatrix, checked_indices
from daf_storage.errors import CorruptDataError, FormatError

_ENTRY_BYTES: Final = 256
_MAX_CANDIDATES: Final = 16
_MAX_COMPARED: Final = 20_000


@dataclass(frozen=True, slots=True)
class _Position:
    """The position of an entry, for the cache."""

    position: int
    nbytes: int = _ENTRY_BYTES


def find_entry(daf: DafReader, axis: str, entry: str, cache: DecodedCache) -> int | None:
    """Return the position of an entry of an axis; ``None`` if it has no such entry.

    An index of the names is asked where there is one; else the names are compared, once per entry.
    """
    identity = daf.vector_identity(axis, NAME)
    key = (daf.location, axis, NAME, "position", entry)
    known: _Position | None = cache.peek(key, identity)
    if known is not None:
        return known.position
    position = _by_index(daf, axis, entry, cache)
    if position is None:
        names = entry_names(daf, axis, cache)
        position = int(pc.index(names, pa.scalar(entry, names.type)).as_py())
    if position < 0:
        return None
    return int(cache.get(key, identity, lambda: _Position(position)).position)


def require_entry(daf: DafReader, axis: str, entry: str, cache: DecodedCache) -> int:
    """Return the position of an entry of an axis.

    Raises
    ------
    EntryNotFoundError
        It has no such entry; the message names the nearest ones.
    """
    position = find_entry(daf, axis, entry, cache)
    if position is None:
        raise entry_not_found(daf, axis, entry, cache)
    return position


def entry_not_found(
    daf: DafReader, axis: str, entry: str, cache: DecodedCache
) -> errors.EntryNotFoundError:
    """Return an error that names the nearest entries; of very many, those that begin alike."""
    names = entry_names(daf, axis, cache)
    if len(names) > _MAX_COMPARED:
        alike = pc.starts_with(names, pattern=entry[:2], ignore_case=True)
        names = names.filter(alike)
    nearest = names.slice(0, _MAX_COMPARED).to_pylist()
    return errors.entry_not_found(daf.location, axis, entry, nearest)


def _by_index(daf: DafReader, axis: str, entry: str, cache: DecodedCache) -> int | None:
    """Return the position by the index of the names, -1 if it has no such name.

    ``None`` if there is no index, or it does not settle it.
    """
    index = StoredIndexes(daf, axis).strings(NAME, cache)
    if index is None:
        return None
    rows = index.find([Compare(NAME, "==", entry)], _MAX_CANDIDATES)
    names = None if rows is None else index.strings(rows)
    if rows is None or names is None:
        return None
    place = int(pc.index(names, pa.scalar(entry, names.type)).as_py()) if len(names) else -1
    return place if place < 0 else int(rows[place])


def entry_names(
    daf: DafReader, axis: str, cache: DecodedCache, options: ScanOptions = DEFAULT_OPTIONS
) -> pa.Array:
    """Return the entries of an axis, as scans of its table cache them."""
    info = daf.vector_info(axis, NAME)
    column = VectorColumn(daf, info, StoredIndexes(daf, axis)).open(cache, options)
    return column.to_arrow(Rows(Span(0, info.length)))


Numbers = npt.NDArray[Any]

_VIEW_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """How the entries of a matrix are stored, as far as columns of a table are concerned."""

    storage_type: StorageType
    """The type of the values."""
    length: int
    """Number of rows of a column."""
    is_by_entry: bool
    """Whether an entry is one stored column."""
    is_sparse: bool
    """Whether only its non-zero elements are stored."""
    is_mapped: bool
    """Whether it is a view of a file."""
    chunk_rows: int
    """Rows per chunk; all of them where they are read together."""
    note: str
    """Why reading a column is slower than it need be, and what to do; empty if it is not."""
    was_float: bool
    """Whether whole numbers are stored of what was a matrix of floats."""
    nbytes: int = _VIEW_BYTES

    @property
    def value_type(self) -> pa.DataType:
        """The Arrow type in which tables have its values."""
        return value_type(self.storage_type, was_float=self.was_float)


def column_layout(
    daf: DafReader, axes: tuple[str, str], name: str, cache: DecodedCache
) -> ColumnLayout:
    """Return how the columns of a matrix are stored now; its metadata is read if it changed.

    Raises
    ------
    MatrixNotFoundError
        There is no such matrix.
    FormatError
        No layout is whole.
    """
    layout: ColumnLayout = cache.get(
        (daf.location, *axes, name, "layout"),
        daf.matrix_identity(*axes, name),
        lambda: _layout_of(
            *open_layouts(daf, axes, name),
            axes[0],
            other_layout_command(daf, name),
            was_float=was_float(daf, *axes, name),
        ),
    )
    return layout


def _layout_of(
    layouts: Sequence[StoredMatrix],
    faults: Sequence[FormatError],
    rows_axis: str,
    command: str,
    *,
    was_float: bool,
) -> ColumnLayout:
    if not layouts:
        raise faults[0]
    stored = _by_entry(layouts, rows_axis)
    info = layouts[0].info if stored is None else stored.info
    array = None if stored is None or info.is_sparse else stored.dense().info
    length = info.shape[0 if info.rows_axis == rows_axis else 1]
    return ColumnLayout(
        info.storage_type,
        length,
        stored is not None,
        info.is_sparse,
        array is not None and array.is_mappable,
        max(length if array is None else array.chunks[1], 1),
        _note(info, command) if stored is None else "",
        was_float,
    )


def _note(info: MatrixInfo, command: str) -> str:
    """Return what a column costs of a matrix that is stored by the other axis only.

    Parameters
    ----------
    command
        What stores it by both, if the data set itself cannot be changed.
    """
    elements = info.shape[0] * info.shape[1] if info.nnz is None else info.nnz
    note = (
        f"gathered from up to {elements:,} stored elements, since the matrix {info.name!r} is "
        f"stored by {info.columns_axis!r} only"
    )
    if info.is_row_major:
        return note
    if command:
        return f"{note}; {command} stores it both ways, beside the file"
    return (
        f"{note}; open the data set with 'r+' and call relayout_matrix({info.rows_axis!r}, "
        f"{info.columns_axis!r}, {info.name!r}) to store it both ways"
    )


def _by_entry(layouts: Sequence[StoredMatrix], rows_axis: str) -> StoredMatrix | None:
    """Return the layout whose stored columns are the entries of the other axis."""
    fitting = (s for s in layouts if s.info.rows_axis == rows_axis and not s.info.is_row_major)
    return next(fitting, None)


@dataclass(frozen=True, slots=True)
class MatrixSource:
    """A matrix as one query reads it, and the entry that is asked for.

    Nothing of it is open: what is cached needs no files.
    """

    daf: DafReader
    """The data set."""
    axes: tuple[str, str]
    """The axis of the rows of the column, and that of the entry."""
    name: str
    """The name of the matrix."""
    layout: ColumnLayout
    """How its columns are stored."""
    position: int
    """The position of the entry."""
    cache: DecodedCache
    """Where decoded values are remembered."""
    identity: Hashable
    """What the cache goes by."""

    @property
    def key(self) -> tuple[Hashable, ...]:
        """What entries of the cache have in common."""
        return (self.daf.location, *self.axes, self.name, "entry", self.position)

    def open(self) -> StoredMatrix:
        """Return the stored matrix: by the entry, if it is stored so.

        Raises
        ------
        FormatError
            It was replaced since by one of another type or layout, or is damaged.
        """
        layouts, faults = open_layouts(self.daf, self.axes, self.name)
        stored = _by_entry(layouts, self.axes[0]) if self.layout.is_by_entry else layouts[0]
        if stored is None and faults:
            raise faults[0]
        if stored is None or not self._is_alike(stored):
            raise replaced(self.daf, self.axes, self.name)
        return stored

    def _is_alike(self, stored: StoredMatrix) -> bool:
        info = stored.info
        known = (self.layout.storage_type, self.layout.is_sparse)
        return (info.storage_type, info.is_sparse) == known

    def remembered(self, part: Hashable, make: Callable[[], Any]) -> Any:
        """Return a part of the column, made unless it is cached."""
        return self.cache.get((*self.key, part), self.identity, make)

    def gathered(self, positions: Positions | None = None) -> Numbers:
        """Return values as slices read them, of some rows or of all.

        Raises
        ------
        FormatError
            No layout is whole.
        """
        is_all = positions is None
        chosen = np.arange(self.layout.length) if positions is None else positions
        entry = Selection(np.array([self.position]), is_all=False)
        rows = Selection(chosen, is_all=is_all)
        values = find_layouts(self.daf, self.axes, self.name, rows, entry).gather()
        column: Numbers = (values if isinstance(values, np.ndarray) else values.toarray())[:, 0]
        return np.ascontiguousarray(column)

    def all_gathered(self) -> Numbers:
        """Return all values as slices read them, cached."""
        values: Numbers = self.remembered("gathered", self.gathered)
        return values


def replaced(daf: DafReader, axes: tuple[str, str], name: str) -> FormatError:
    """Return an error of a matrix that is not what it was when the query was planned."""
    return FormatError(
        f"{daf.location}: matrix {name!r} of axes {axes[0]!r} and {axes[1]!r} was replaced while "
        "it was being queried; run the query again"
    )


def open_values(matrix: MatrixSource, options: ScanOptions) -> OpenColumn:
    """Return the open column of an entry of a matrix."""
    layout = matrix.layout
    if layout.storage_type.is_string:
        return StringColumn(lambda: matrix.remembered("strings", lambda: _strings(matrix)))
    if not layout.is_by_entry:
        return _GatheredColumn(matrix, options)
    zone_rows = options.zone_rows
    zones: ZoneMap = matrix.remembered(
        ("zones", zone_rows),
        lambda: ZoneMap.unknown(layout.length, layout.storage_type.dtype, zone_rows),
    )
    return _SparseColumn(matrix, zones) if layout.is_sparse else _dense_column(matrix, zones)


class _View:
    """A stored column that is mapped; a mapping that is kept need not be faulted in again."""

    nbytes = _VIEW_BYTES

    def __init__(self, stored: StoredMatrix, position: int) -> None:
        self.values: Numbers = stored.dense().read()[position]


def _dense_column(matrix: MatrixSource, zones: ZoneMap) -> NumberColumn:
    is_mapped = matrix.layout.is_mapped

    def open_view() -> ReadSpan:
        try:
            view = matrix.remembered("view", lambda: _View(matrix.open(), matrix.position))
        except FormatError:
            return _read_gathered(matrix)
        return lambda span: view.values[span.slice]

    def open_chunks() -> ReadSpan:
        entry, gathered = Span(matrix.position, matrix.position + 1), _read_gathered(matrix)
        try:
            array = matrix.open().dense()
        except FormatError:
            return gathered

        def read(span: Span) -> Numbers:
            try:
                return array.read_spans([entry], span)[0].reshape(-1)
            except FormatError:
                return gathered(span)

        return read

    return NumberColumn(
        open_view if is_mapped else open_chunks,
        zones,
        lambda: None,
        chunk_rows=matrix.layout.chunk_rows,
        cache=None if is_mapped else _spans(matrix),
    )


def _read_gathered(matrix: MatrixSource) -> ReadSpan:
    """Return what reads a span of values that slices gathered, with a warning of damage."""
    return lambda span: matrix.all_gathered()[span.slice]


def _spans(matrix: MatrixSource) -> CachedSpans:
    return CachedSpans(matrix.cache, (*matrix.key, "span"), matrix.identity)


@dataclass(frozen=True, slots=True, eq=False)
class _Elements:
    """The stored elements of one column of a sparse matrix."""

    rows: Positions
    """Where they are, ascending."""
    values: Numbers

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return int(self.rows.nbytes + self.values.nbytes) + _VIEW_BYTES

    def dense(self, span: Span) -> Numbers:
        """Return the values of a span; zero where nothing is stored."""
        first, last = np.searchsorted(self.rows, [span.start, span.stop])
        values = np.zeros(span.size, self.values.dtype)
        values[self.rows[first:last] - span.start] = self.values[first:last]
        return values

    def at(self, positions: Positions) -> Numbers:
        """Return the values of some rows; zero where nothing is stored."""
        values = np.zeros(positions.size, self.values.dtype)
        if self.rows.size:
            places = np.minimum(np.searchsorted(self.rows, positions), self.rows.size - 1)
            is_stored = self.rows[places] == positions
            values[is_stored] = self.values[places[is_stored]]
        return values


class _SparseColumn:
    """One stored column of a sparse matrix that is being read."""

    def __init__(self, matrix: MatrixSource, zones: ZoneMap) -> None:
        self.zones: ZoneMap | None = zones
        self._matrix = matrix
        self._spans = _spans(matrix)
        self._known: _Elements | None = None
        self._lock = ForkLock()

    def _elements(self) -> _Elements:
        with self._lock:
            if self._known is None:
                self._known = self._matrix.remembered("elements", self._read)
            return self._known

    def _read(self) -> _Elements:
        try:
            return _read_elements(self._matrix.open(), self._matrix.position)
        except FormatError:
            values = self._matrix.gathered()  # from the other layout, with a warning
            rows = np.flatnonzero(values)
            return _Elements(rows, values[rows])

    def row_index(self) -> None:
        """Return nothing: to compare the numbers costs as much."""
        return

    def values(self, rows: Rows) -> Numbers:
        """Return numbers; a whole span is scattered once, and cached."""
        if rows.offsets is None:
            return self._spans.get(rows.span, lambda span: self._elements().dense(span))
        scattered = self._spans.peek(rows.span)
        return self._elements().at(rows.positions) if scattered is None else scattered[rows.offsets]

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return numbers as Arrow, NaN as null."""
        return number_array(self.values(rows))


class _GatheredColumn:
    """An entry of a matrix that is stored by the other axis only: gathered, as slices are.

    Of few rows only those are gathered; else all are, once.
    """

    zones = None

    def __init__(self, matrix: MatrixSource, options: ScanOptions) -> None:
        self._matrix = matrix
        self._divisor = options.sparse_divisor

    def row_index(self) -> None:
        """Return nothing: to find rows by their values, all would have to be gathered."""
        return

    def values(self, rows: Rows) -> Numbers:
        """Return numbers."""
        matrix = self._matrix
        is_few = rows.offsets is not None and rows.count * self._divisor <= matrix.layout.length
        if is_few and matrix.cache.peek((*matrix.key, "gathered"), matrix.identity) is None:
            return matrix.gathered(rows.positions)
        return rows.of(matrix.all_gathered())

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return numbers as Arrow, NaN as null."""
        return number_array(self.values(rows))


def _read_elements(stored: StoredMatrix, position: int) -> _Elements:
    """Read the elements of one stored column, and nothing else of a sparse matrix.

    Raises
    ------
    CorruptDataError
        The column pointers or the row numbers leave their range.
    """
    indices, nnz = stored.indices, stored.info.nnz or 0
    colptr = stored.entries("colptr").read_rows(Span(position, position + 2))
    start, stop = int(colptr[0]) - 1, int(colptr[1]) - 1
    if not 0 <= start <= stop <= nnz:
        raise CorruptDataError(
            f"{stored.what}: colptr of column {position:,} leaves the range 1 to {nnz + 1:,}"
        )
    if start == stop:
        dtype = stored.info.storage_type.dtype.newbyteorder("=")
        return _Elements(np.empty(0, np.int64), np.empty(0, dtype))
    span = Span(start, stop)
    read = checked_indices(stored, indices.read_rows(span))
    rows = read.astype(np.int64) - stored.index_base
    values = stored.entries("nzval").read_rows(span) if stored.has_values() else None
    if values is None:
        values = np.ones(rows.size, np.bool_)
    return _canonical(rows, values)


def _canonical(rows: Positions, values: Numbers) -> _Elements:
    """Return elements with ascending rows; those of one row are added up, as scipy does.

    >>> elements = _canonical(np.array([4, 1, 4]), np.array([1.0, 2.0, 3.0]))
    >>> elements.rows.tolist(), elements.values.tolist()
    ([1, 4], [2.0, 4.0])
    """
    if bool(np.all(rows[1:] > rows[:-1])):
        return _Elements(rows, values)
    unique, inverse = np.unique(rows, return_inverse=True)
    total = np.zeros(unique.size, values.dtype)
    np.add.at(total, inverse, values)
    return _Elements(unique, total)


def _strings(matrix: MatrixSource) -> pa.Array:
    """Return the strings of an entry, out of those of the whole matrix."""
    stored, rows = matrix.open(), np.arange(matrix.layout.length)
    if matrix.layout.is_by_entry:
        places = rows + matrix.position * rows.size
    else:
        places = rows * stored.info.shape[0] + matrix.position
    return stored.dense().read_strings().take(pa.array(places))


@dataclass(frozen=True, slots=True)
class MatrixEntry:
    """An entry of a matrix: which matrix over the axis of a table, and which of its columns."""

    axis: str
    """The other axis of the matrix."""
    matrix: str
    """Its name."""
    entry: str
    """The entry of the other axis."""


@dataclass(frozen=True, slots=True)
class MatrixColumn:
    """An entry of a matrix as a column of the table of an axis."""

    daf: DafReader
    """The data set."""
    name: str
    """The name of the column."""
    rows_axis: str
    """The axis whose table it is a column of."""
    source: MatrixEntry
    """Where its values are."""
    layout: ColumnLayout
    """How it is stored."""

    @property
    def chunk_rows(self) -> int:
        """Rows per chunk."""
        return self.layout.chunk_rows

    @property
    def note(self) -> str:
        """Why reading it is slower than it need be, and what to do; empty if it is not."""
        return self.layout.note

    @property
    def is_string(self) -> bool:
        """Whether its values are expensive to compare: strings, or of the other layout."""
        return self.layout.storage_type.is_string or not self.layout.is_by_entry

    @property
    def stored_type(self) -> pa.DataType:
        """The Arrow type of what is stored."""
        return arrow_type(self.layout.storage_type)

    @property
    def field(self) -> pa.Field:
        """Its name and Arrow type, see `value_type`; floats can be NULL, where they are NaN."""
        storage_type = self.layout.storage_type
        is_float = storage_type in (StorageType.FLOAT32, StorageType.FLOAT64)
        return pa.field(self.name, self.layout.value_type, nullable=is_float)

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Open it for reading.

        Raises
        ------
        FormatError
            The matrix was replaced since by one of another type, or no layout is whole.
        """
        daf, source = self.daf, self.source
        axes = (self.rows_axis, source.axis)
        identity = daf.matrix_identity(*axes, source.matrix)
        layout = column_layout(daf, axes, source.matrix, cache)
        if layout.storage_type != self.layout.storage_type:
            raise replaced(daf, axes, source.matrix)
        position = require_entry(daf, source.axis, source.entry, cache)
        matrix = MatrixSource(daf, axes, source.matrix, layout, position, cache, identity)
        column = open_values(matrix, options)
        kind = self.layout.value_type
        if kind == arrow_type(layout.storage_type):
            return column
        return OpenTableColumn(column, TableColumn(self, wide=kind), cache)


def matrix_column(
    daf: DafReader, rows_axis: str, name: str, source: MatrixEntry, cache: DecodedCache
) -> MatrixColumn:
    """Return an entry of a matrix as a column of the table of an axis; reads metadata only.

    Raises
    ------
    MatrixNotFoundError, EntryNotFoundError
        There is no such matrix, or its other axis has no such entry.
    FormatError
        No layout is whole.
    """
    layout = column_layout(daf, (rows_axis, source.axis), source.matrix, cache)
    require_entry(daf, source.axis, source.entry, cache)
    return MatrixColumn(daf, name, rows_axis, source, layout)
