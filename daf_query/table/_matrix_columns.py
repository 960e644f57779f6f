"""One entry of a matrix as a column: a gene of every cell.

Its values are gathered as slices are, of few rows only those, and else of all, once: what is
gathered is cached by the identity of the matrix, so that one that is replaced is read again.  The
position of the entry is found without a dictionary of all of them.
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
    OpenColumn,
    Positions,
    Rows,
    ScanOptions,
    StringColumn,
    VectorColumn,
    ZoneMap,
    arrow_type,
    number_array,
    plain_array,
)
from daf_query.table._columns import OpenTableColumn, TableColumn, value_type
from daf_storage import DafReader, errors
from daf_storage.anndata import was_float
from daf_storage.base import DecodedCache, Span, StorageType
from daf_storage.data import StoredMatrix
from daf_storage.errors import FormatError
from daf_storage.stores import ReadEstimate

SYMBOLS: Final = ("gene_symbols", "feature_name")
"""Vectors of symbols, as Cell Ranger and CELLxGENE have them beside ids."""
_MAX_COMPARED: Final = 20_000


def find_entry(daf: DafReader, axis: str, entry: str, cache: DecodedCache) -> int | None:
    """Return the position of an entry of an axis; ``None`` if it has no such entry.

    The names are compared, once per entry.
    What is no name may be the symbol of one entry, in one of the vectors `SYMBOLS`.

    Raises
    ------
    InvalidInputError
        It is the symbol of several entries.
    """
    identity = daf.vector_identity(axis, NAME)
    key = (daf.location, axis, NAME, "position", entry)
    known: np.int64 | None = cache.peek(key, identity)
    if known is not None:
        return int(known)
    names = entry_names(daf, axis, cache)
    position = int(pc.index(names, pa.scalar(entry, names.type)).as_py())
    if position < 0:
        return _by_symbol(daf, axis, entry)
    return int(cache.get(key, identity, lambda: np.int64(position)))


def _by_symbol(daf: DafReader, axis: str, symbol: str) -> int | None:
    """Return the position of the entry that has a symbol; ``None`` if none has."""
    for name in SYMBOLS:
        if not daf.has_vector(axis, name):
            continue
        symbols = daf.get_pa_vector(axis, name)
        is_text = pa.types.is_string(symbols.type) or pa.types.is_large_string(symbols.type)
        rows = pc.indices_nonzero(pc.equal(symbols, symbol)) if is_text else []
        if len(rows) > 1:
            entries = daf.get_pa_vector(axis, NAME).take(rows).to_pylist()
            raise errors.InvalidInputError(
                f"{daf.location}: {len(rows)} entries of axis {axis!r} have the {name} {symbol!r}; "
                f"write one of {errors.known_names(entries, none='none')}"
            )
        if len(rows):
            return int(rows[0].as_py())
    return None


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


def entry_names(
    daf: DafReader, axis: str, cache: DecodedCache, options: ScanOptions = DEFAULT_OPTIONS
) -> pa.Array:
    """Return the entries of an axis, as scans of its table cache them."""
    info = daf.vector_info(axis, NAME)
    column = VectorColumn(daf, info, StoredIndexes(daf, axis)).open(cache, options)
    return plain_array(column.to_arrow(Rows(Span(0, info.length))))


_LAYOUT_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """How the entries of a matrix are stored, as far as columns of a table are concerned."""

    storage_type: StorageType
    """The type of the values."""
    length: int
    """Number of rows of a column."""
    is_by_entry: bool
    """Whether an entry is one stored column."""
    note: str
    """Why reading a column is slower than it need be, and what to do; empty if it is not."""
    was_float: bool
    """Whether whole numbers are stored of what was a matrix of floats."""
    nbytes: int = _LAYOUT_BYTES

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

    def read() -> ColumnLayout:
        layouts, faults = open_layouts(daf, axes, name)
        if not layouts:
            raise faults[0]
        stored = _by_entry(layouts, axes[0])
        info = layouts[0].info if stored is None else stored.info
        return ColumnLayout(
            info.storage_type,
            info.shape[0 if info.rows_axis == axes[0] else 1],
            stored is not None,
            _note(layouts[0], other_layout_command(daf, name)) if stored is None else "",
            was_float(daf, *axes, name),
        )

    key = (daf.location, *axes, name, "layout")
    layout: ColumnLayout = cache.get(key, daf.matrix_identity(*axes, name), read)
    return layout


def _note(stored: StoredMatrix, command: str) -> str:
    """Return what a column costs of a matrix that is stored by the other axis only.

    Parameters
    ----------
    command
        What stores it by both, if the data set itself cannot be changed.
    """
    info, read = stored.info, ReadEstimate()
    elements = info.shape[0] * info.shape[1] if info.nnz is None else info.nnz
    for array in stored.element_arrays() if info.is_sparse else [stored.dense()]:
        array.estimate([Span(0, array.info.shape[0])], read)
    size = f", about {read.size_bytes:,} bytes in {read.requests:,} requests"
    note = (
        f"gathered from up to {elements:,} stored elements{size if read.is_remote else ''}, since "
        f"the matrix {info.name!r} is stored by {info.columns_axis!r} only"
    )
    if info.is_row_major:
        return note
    if command:
        return f"{note}; {command} stores it both ways"
    return (
        f"{note}; open the data set with 'r+' and call relayout_matrix({info.rows_axis!r}, "
        f"{info.columns_axis!r}, {info.name!r}) to store it both ways"
    )


def _by_entry(layouts: Sequence[StoredMatrix], rows_axis: str) -> StoredMatrix | None:
    """Return the layout whose stored columns are the entries of the other axis."""
    fitting = (s for s in layouts if s.info.rows_axis == rows_axis and not s.info.is_row_major)
    return next(fitting, None)


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
    chunk_rows: int = 0

    @property
    def axes(self) -> tuple[str, str]:
        """The axis of the rows, and that of the entry."""
        return self.rows_axis, self.source.axis

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
        identity = self.daf.matrix_identity(*self.axes, self.source.matrix)
        layout = column_layout(self.daf, self.axes, self.source.matrix, cache)
        if layout.storage_type != self.layout.storage_type:
            raise self.replaced()
        position = require_entry(self.daf, self.source.axis, self.source.entry, cache)
        column = _OpenMatrixColumn(self, position, cache, identity, options)
        if layout.storage_type.is_string:
            return StringColumn(column.all_strings)
        if layout.value_type == arrow_type(layout.storage_type):
            return column
        return OpenTableColumn(column, TableColumn(self, wide=layout.value_type), cache)

    def replaced(self) -> FormatError:
        """Return an error of a matrix that is not what it was when the query was planned."""
        return FormatError(
            f"{self.daf.location}: matrix {self.source.matrix!r} of axes {self.axes[0]!r} and "
            f"{self.axes[1]!r} was replaced while it was being queried; run the query again"
        )


class _OpenMatrixColumn:
    """An entry of a matrix that is being read."""

    def __init__(
        self,
        column: MatrixColumn,
        position: int,
        cache: DecodedCache,
        identity: Hashable,
        options: ScanOptions,
    ) -> None:
        self._column = column
        self._position = position
        self._cache = cache
        self._identity = identity
        self._divisor = options.sparse_divisor
        layout = column.layout
        self.zones: ZoneMap | None = None
        if not layout.storage_type.is_string:
            self.zones = self._cached(
                ("zones", options.zone_rows),
                lambda: ZoneMap.unknown(
                    layout.length, layout.storage_type.dtype, options.zone_rows
                ),
            )

    def values(self, rows: Rows) -> npt.NDArray[Any]:
        """Return numbers; of few rows, only those are gathered."""
        is_few = (
            rows.offsets is not None and rows.count * self._divisor <= self._column.layout.length
        )
        if is_few and self._cache.peek(self._key("values"), self._identity) is None:
            return self._gathered(rows.positions)
        values: npt.NDArray[Any] = self._cached("values", lambda: self._gathered(None))
        return rows.of(values)

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return numbers as Arrow, NaN as null."""
        return number_array(self.values(rows))

    def all_strings(self) -> pa.Array:
        """Return the strings of the entry, out of those of the whole matrix."""
        return self._cached("strings", self._read_strings)

    def _key(self, part: Hashable) -> tuple[Hashable, ...]:
        column = self._column
        place = (column.daf.location, *column.axes, column.source.matrix, self._position)
        return (*place, "entry", part)

    def _cached(self, part: Hashable, make: Callable[[], Any]) -> Any:
        return self._cache.get(self._key(part), self._identity, make)

    def _gathered(self, positions: Positions | None) -> npt.NDArray[Any]:
        """Return values as slices read them, of some rows or of all."""
        column, length = self._column, self._column.layout.length
        entry = Selection(np.array([self._position]), is_all=False)
        rows = Selection.all(length) if positions is None else Selection(positions, is_all=False)
        gathered = find_layouts(column.daf, column.axes, column.source.matrix, rows, entry).gather()
        dense = gathered if isinstance(gathered, np.ndarray) else gathered.toarray()
        values: npt.NDArray[Any] = np.ascontiguousarray(dense[:, 0])
        if values.dtype != column.layout.storage_type.dtype:
            raise column.replaced()
        return values

    def _read_strings(self) -> pa.Array:
        column, rows = self._column, np.arange(self._column.layout.length)
        layouts, faults = open_layouts(column.daf, column.axes, column.source.matrix)
        if not layouts:
            raise faults[0]
        stored = _by_entry(layouts, column.rows_axis)
        if stored is not None:
            places = rows + self._position * rows.size
        else:
            stored = layouts[0]
            places = rows * stored.info.shape[0] + self._position
        return stored.dense().read_strings().take(pa.array(places))


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
