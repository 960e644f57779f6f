"""Any group of aligned one-dimensional Zarr arrays as a table.

The convention is that of zarr-datafusion-search: the arrays of the group ``meta`` are the columns
of a table, an array of the same name in the sibling group ``indexes`` is the index of one.
zarr-python reads the arrays, chunk by chunk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import zarr

from daf_query.index import RTree, warn_once
from daf_query.scan import (
    OpenColumn,
    Positions,
    Predicate,
    ScanOptions,
    Values,
    cast_to,
    runs_of_chunks,
)
from daf_query.table._broken_columns import BrokenColumns
from daf_query.table._dataset import TableColumns, TableDataset, warn_of_problems
from daf_query.table._settled_rows import SettledColumn, SettledRows
from daf_query.table._zarr_chunks import ChunkFiles
from daf_query.table._zarr_groups import arrays_of, groups_of, open_group, reason_of
from daf_query.table._zarr_rtrees import FoundIndex, found_index, identity_of
from daf_storage import errors
from daf_storage.spi import SERVER_CLIENT, DecodedCache, Span, is_remote, shown_url

META: Final = "meta"
INDEXES: Final = "indexes"
GEOMETRY: Final = "bbox"
"""The column that holds geometries, as WKB."""

_GEOMETRY_METADATA: Final = {
    "ARROW:extension:name": "geoarrow.wkb",
    "ARROW:extension:metadata": '{"crs": "EPSG:4326", "crs_type": "authority_code"}',
}
_UNITS: Final = ("s", "ms", "us", "ns")
_MAX_ROWS: Final = 1 << 40
_MAX_CHUNK_BYTES: Final = 1 << 28
PENDING: Final = "daf_append"
"""Attribute of a group, while rows are being added: the lengths before and after."""


def zarr_table(path: str | Path, group: str = META) -> ZarrTable:
    """Return a group of aligned one-dimensional Zarr arrays as a table.

    Parameters
    ----------
    path
        A directory, a ZIP archive (``.zip``), or the URL of a directory with consolidated metadata;
        Zarr v3 or v2.
    group
        The group whose arrays are the columns.

    Returns
    -------
    ZarrTable
        A pyarrow Dataset, for `DafSession.register`, DataFusion, DuckDB and polars.  The types are
        those of the arrays: Bool, integers, floats, ``string_view`` for strings, ``binary_view``
        for bytes and raw bits, timestamps; ``bbox`` is WKB in EPSG:4326.  NaN and NaT are null.

    Raises
    ------
    SourceNotFoundError
        There is no such group.
    FormatError
        The arrays have different lengths, or none can be a column.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> meta = zarr.open_group(folder, mode="w").create_group("meta")
    >>> _ = meta.create_array("cloud", data=np.array([0.1, 0.9, 0.5]), chunks=(2,))
    >>> import pyarrow.compute as pc
    >>> zarr_table(folder).to_table(filter=pc.field("cloud") > 0.4).to_pydict()
    {'cloud': [0.9, 0.5]}
    """
    location = shown_url(str(path)) if is_remote(path) else str(path)
    root = open_group(path, location)
    try:
        found = root.get(group) if group else root
    except Exception as error:  # zarr raises many kinds for malformed metadata
        raise errors.CorruptDataError(
            f"{location}: the metadata of the group {group!r} cannot be read ({reason_of(error)})"
        ) from error
    if not isinstance(found, zarr.Group):
        known = errors.known_names(groups_of(root), none="no groups")
        raise errors.SourceNotFoundError(f"{location}: there is no group {group!r}; it has {known}")
    columns: dict[str, ZarrColumn] = {}
    arrays, problems = arrays_of(found, f"{location}: {group}")
    for name, array in arrays.items():
        field = _field(name, array)
        if field is None or array.ndim != 1:
            kind = array.dtype if array.ndim == 1 else f"{array.ndim} dimensions"
            problems[name] = (
                f"{location}: the array {group}/{name} has {kind}, which no column can have; the "
                "other columns can be used"
            )
        elif (claim := _absurd_claim(array)) is not None:
            problems[name] = f"{location}: the array {group}/{name} {claim}"
        else:
            columns[name] = ZarrColumn(array, field, f"{location}: {group}/{name}")
    if not columns:
        raise errors.FormatError(
            f"{location}: the group {group!r} has no array that can be a column; "
            f"{'; '.join(problems.values()) or 'it has none at all'}"
        )
    lengths = {name: column.length for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}: {length:,}" for name, length in lengths.items())
        raise errors.FormatError(
            f"{location}: the arrays of the group {group!r} are not aligned, they have different "
            f"lengths ({listed}); append to all of them, or delete the odd one"
        )
    if PENDING in found.attrs:
        raise errors.FormatError(
            f"{location}: rows are being added to the group {group!r}, or that was interrupted: "
            "the last of them may lack values; try again, or call append_rows, which begins with "
            "undoing what was not completed"
        )
    broken = BrokenColumns()
    guarded = broken.guarded(columns)
    length = next(iter(lengths.values()))
    table = TableColumns(group, length, guarded, problems, broken=broken)
    warn_of_problems(table, broken.warned)
    place = str(path) if is_remote(path) else str(Path(path).absolute())
    arrays = {name: column.array for name, column in columns.items()}
    return ZarrTable(table, location, _indexes_of(root), arrays, place=(place, group))


def _indexes_of(root: Any) -> Any:
    """Return the group of the indexes; None without one, or if its metadata are malformed."""
    try:
        return root.get(INDEXES)
    except Exception:  # noqa: BLE001 - zarr raises many kinds
        return None


def _absurd_claim(array: Any) -> str | None:
    """Say what is absurd about the shape of an array; None if nothing is."""
    length, chunk_rows = int(array.shape[0]), int(array.chunks[0])
    item_bytes = max(int(array.dtype.itemsize), 1)
    if length > _MAX_ROWS:
        return f"is said to have {length:,} rows"
    if chunk_rows * item_bytes > max(length * item_bytes, _MAX_CHUNK_BYTES):
        return f"is said to have chunks of {chunk_rows:,} rows, and has {length:,} altogether"
    return None


class ZarrTable(TableDataset):
    """A table of Zarr arrays; `zarr_table` makes one."""

    def __init__(
        self,
        columns: TableColumns,
        location: str,
        indexes: Any,
        arrays: Mapping[str, Any],
        *,
        place: tuple[str, str] | None = None,
    ) -> None:
        super().__init__(columns, location=location)
        self._indexes = indexes
        self._arrays = arrays
        self._path_and_group = place

    def _place(self) -> tuple[Callable[..., TableDataset], tuple[Any, ...]]:
        return (
            super()._place() if self._path_and_group is None else (zarr_table, self._path_and_group)
        )

    def spatial_index(self, column: str) -> npt.NDArray[np.uint8] | None:
        """Return the R-tree of a column, as the library geo-index stores it; None without one."""
        try:
            found = None if self._indexes is None else self._indexes.get(column)
        except Exception:  # noqa: BLE001 - as below
            return None
        if not isinstance(found, zarr.Array) or found.dtype != np.uint8 or found.ndim != 1:
            return None
        try:
            return np.asarray(found[:])
        except Exception:  # noqa: BLE001 - zarr raises many kinds; without an index, all is read
            return None

    def rtree(self, column: str) -> RTree | None:
        """Return the R-tree of a column, checked; None without one that fits, with a warning."""
        return self.found_index(column).tree

    def found_index(self, column: str) -> FoundIndex:
        """Return the index of a column, checked; one without a tree if none fits."""
        own = self._arrays.get(column)
        if self._indexes is None or own is None:
            return FoundIndex()
        identity = None
        try:
            index = self._indexes.get(column)
        except Exception as error:  # noqa: BLE001 - zarr raises many kinds for broken metadata
            found = FoundIndex(problem=f"it cannot be opened ({reason_of(error)})")
        else:
            if index is None:
                return FoundIndex()
            identity = identity_of(index, own)
            key = (self._location, "rtree", column)
            look = partial(found_index, index, own, self.row_count)
            found = look() if identity is None else self.cache.get(key, identity, look)
        if found.problem:
            what = f"of {column!r}"
            warn_once(self.cache, self._location, what, found.problem, "build it again")
        return replace(found, identity=identity)

    def index_identity(self, column: str) -> Hashable:
        """Return what changes whenever an index or its column does; None if that is not known."""
        own = self._arrays.get(column)
        try:
            index = None if self._indexes is None else self._indexes.get(column)
        except Exception:  # noqa: BLE001 - as above
            return None
        return None if index is None or own is None else identity_of(index, own)

    def with_settled(self, settled: SettledRows) -> Self:
        """Return the same table, of which the geometries of some rows are replaced."""
        own = self._columns
        column = SettledColumn(own.columns[settled.column], settled)
        columns = {**own.columns, settled.column: column}
        return self._changed(columns=replace(own, columns=columns))

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return self._columns.length


@dataclass(frozen=True, eq=False)
class ZarrColumn:
    """One array as a column."""

    array: Any
    """The ``zarr.Array``."""
    field: pa.Field
    """Its name and Arrow type."""
    what: str
    """The array as messages name it."""

    @property
    def length(self) -> int:
        """Number of rows."""
        return int(self.array.shape[0])

    @property
    def chunk_rows(self) -> int:
        """How many rows are stored together."""
        return max(int(self.array.chunks[0]), 1)

    @property
    def is_string(self) -> bool:
        """Whether its values are strings or bytes."""
        return _is_variable(self.field.type)

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:  # noqa: ARG002 - neither codes nor zone maps
        """Begin to read it.

        Of a directory, chunks are remembered while their files stay the same.  Elsewhere nothing
        is: arrays may change there without a sign of it.
        """
        files = ChunkFiles.of(self.array, self.what)
        return OpenZarrColumn(self) if files is None else OpenZarrFiles(self, files, cache)

    def read(self, span: Span, files: ChunkFiles | None = None) -> Values:
        """Return a range: numbers, or Arrow strings; only its chunks are decoded."""
        if files is not None:
            found = files.decode(span.start // self.chunk_rows, span.size)
            if found is not None:
                return _comparable(found)
        if is_remote(self.what):
            SERVER_CLIENT.check()
        try:
            return _comparable(np.asarray(self.array[span.start : span.stop]))
        except Exception as error:  # zarr raises many kinds for data that it cannot read
            if is_remote(self.what):  # a server's error has the whole URL in it, secrets too
                raise errors.RemoteError(
                    f"{self.what}: the chunks cannot be read ({type(error).__name__})"
                ) from None
            raise errors.CorruptDataError(
                f"{self.what}: the stored chunks cannot be decoded ({reason_of(error)})"
            ) from error


class OpenZarrColumn:
    """A column that is being read; each thread remembers the last range that it decoded."""

    zones = None

    def __init__(self, column: ZarrColumn) -> None:
        self._column = column
        self._last = threading.local()

    def find(self, conditions: Sequence[Predicate], max_rows: int) -> None:  # noqa: ARG002
        """Return nothing: only axes have such indexes."""
        return

    def load(self) -> None:
        """Do nothing: chunks are read when they are needed."""

    def values(self, span: Span) -> Values:
        """Return the values of a range, to evaluate a predicate on."""
        return self._read(span)

    def array(self, span: Span) -> pa.Array:
        """Return a range."""
        return _arrow(self._read(span), self._column.field.type)

    def pick(self, span: Span, places: Positions) -> Values:
        """Return the values of some rows; only their chunks are decoded."""
        return self._picked(span, places)

    def take(self, span: Span, places: Positions) -> pa.Array:
        """Return some rows; only their chunks are decoded."""
        return _arrow(self._picked(span, places), self._column.field.type)

    def _read(self, span: Span) -> Any:
        last = getattr(self._last, "read", None)
        if last is None or last[0] != span:
            last = self._last.read = (span, self._column.read(span))
        return last[1]

    def _picked(self, span: Span, places: Positions) -> Any:
        last = getattr(self._last, "read", None)
        if last is not None and last[0] == span:
            return _at(last[1], places)
        runs = runs_of_chunks(span, places, self._column.chunk_rows)
        parts = [_at(self._column.read(within), rest) for within, rest in runs]
        return _concatenated(parts) if parts else self._column.read(Span(0, 0))


class OpenZarrFiles(OpenZarrColumn):
    """A column in a directory that is being read, chunk by chunk.

    Parameters
    ----------
    files
        The files of its chunks.
    cache
        Where those that were decoded are remembered.
    """

    def __init__(self, column: ZarrColumn, files: ChunkFiles, cache: DecodedCache) -> None:
        super().__init__(column)
        self._files = files
        self._cache = cache

    def _read(self, span: Span) -> Any:
        last = getattr(self._last, "read", None)
        if last is None or last[0] != span:
            last = self._last.read = (span, self._chunks(span))
        return last[1]

    def _chunks(self, span: Span) -> Any:
        rows = self._column.chunk_rows
        numbers = range(span.start // rows, -(-span.stop // rows))
        parts = [self._chunk(number) for number in numbers]
        if not parts:
            return self._column.read(Span(0, 0))
        start = numbers[0] * rows
        return _concatenated(parts)[span.start - start : span.stop - start]

    def _chunk(self, number: int) -> Any:
        """Return a chunk, decoded unless it is remembered."""
        rows = self._column.chunk_rows
        span = Span(number * rows, min((number + 1) * rows, self._column.length))
        fingerprint = self._files.fingerprint(number)
        if fingerprint is None:
            return self._column.read(span, self._files)
        key = (self._column.what, number, span.size)
        return self._cache.get(key, fingerprint, lambda: self._column.read(span, self._files))

    def _picked(self, span: Span, places: Positions) -> Any:
        last = getattr(self._last, "read", None)
        if last is not None and last[0] == span:
            return _at(last[1], places)
        rows = places + span.start
        numbers = rows // self._column.chunk_rows
        groups = np.split(rows, np.flatnonzero(np.diff(numbers)) + 1)
        parts = []
        for group in groups:
            if group.size:
                number = int(group[0]) // self._column.chunk_rows
                parts.append(_at(self._chunk(number), group - number * self._column.chunk_rows))
        return _concatenated(parts) if parts else self._column.read(Span(0, 0))


def _at(values: Any, places: Positions) -> Any:
    """Return some values by their places."""
    return values[places] if isinstance(values, np.ndarray) else values.take(pa.array(places))


def _concatenated(parts: Sequence[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else pa.concat_arrays(parts)


def _field(name: str, array: Any) -> pa.Field | None:
    """Return the Arrow field of an array; None if Arrow has no type for it here."""
    kind = array.dtype
    is_v2 = array.metadata.zarr_format == 2
    data_type = type(array.metadata.dtype if is_v2 else array.metadata.data_type)
    if data_type.__name__ == "VariableLengthBytes" or kind.kind in "VS":
        if kind.names is not None:
            return None
        metadata = _GEOMETRY_METADATA if name == GEOMETRY else None
        return pa.field(name, pa.binary_view(), metadata=metadata)
    if kind.kind in "UT" or data_type.__name__ == "VariableLengthUTF8":
        return pa.field(name, pa.string_view())
    if kind.kind == "M":
        unit, step = np.datetime_data(kind)
        return pa.field(name, pa.timestamp(unit)) if unit in _UNITS and step == 1 else None
    if kind.kind in "biuf" and kind.itemsize <= 8:
        return pa.field(name, pa.from_numpy_dtype(kind.newbyteorder("=")))
    return None


def _is_variable(kind: pa.DataType) -> bool:
    return kind in (pa.string_view(), pa.binary_view())


def _comparable(values: Any) -> Values:
    """Return values as predicates are evaluated on: numbers, or Arrow strings."""
    if isinstance(values, pa.Array):
        plain = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
        return values.cast(plain[values.type]) if values.type in plain else values
    if values.dtype.kind in "biufM":
        return np.asarray(values, values.dtype.newbyteorder("="))
    if values.dtype.kind == "V":
        data = pa.py_buffer(np.ascontiguousarray(values))
        fixed = pa.binary(values.dtype.itemsize)
        return pa.Array.from_buffers(fixed, len(values), [None, data]).cast(pa.binary())
    if values.dtype == object and _is_bytes(values):
        return pa.array([bytes(one) for one in values], pa.binary())
    return pa.array(values.astype(object), pa.string())


def _is_bytes(values: Any) -> bool:
    return values.size > 0 and not isinstance(values[0], str)


def _arrow(values: Any, kind: pa.DataType) -> pa.Array:
    """Return values as Arrow; NaN and NaT are null."""
    if isinstance(values, np.ndarray):
        return pa.array(values, kind, from_pandas=True)
    return cast_to(values, kind)
