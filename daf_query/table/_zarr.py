"""Any group of aligned one-dimensional Zarr arrays as a table.

The convention is that of zarr-datafusion-search: the arrays of the group ``meta`` are the columns
of a table, an array of the same name in the sibling group ``indexes`` is the index of one.
zarr-python reads the arrays, chunk by chunk.  Consolidated metadata are not looked at where a group
can be listed: one array whose metadata are malformed would take all others with it.

R-trees over geometries are checked before they are used, once for each state.  Other tools write
only the bytes of the library geo-index.  Those that are built here have an attribute beside them:
the checksum of the bytes, and the checksum and the state of the chunk files of the column that they
were made of.

zarr-python makes a Python object of each string, and decompresses a chunk into whatever size it
claims.  The usual codecs are decoded here instead, straight into numpy or Arrow; anything else is
left to it.

The data type ``r<N>`` of Zarr v3 is N raw bits per item, as the core specification spells it.
zarr-python writes the same items as ``raw_bytes``, with a length in bytes, and knows no other
spelling; zarrs (Rust), and so zarr-datafusion-search, write ``r16``, with a list of bytes as fill
value.  The type is added to zarr-python's registry, so that arrays of either spelling can be read
from any store, and what is appended to an array keeps its spelling.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Self
from zlib import crc32

import numpy as np
import pyarrow as pa
import zarr
from zarr.dtype import DataTypeValidationError, RawBytes, data_type_registry

from daf_query.index import RTree, UnfitIndexError, warn_of_index
from daf_query.scan import OpenColumn, Rows, ScanOptions, Values
from daf_query.table._columns import (
    GEOMETRY,
    META,
    BrokenColumns,
    TableColumn,
    TableColumns,
    warn_of_problems,
)
from daf_query.table._dataset import TableDataset
from daf_storage import errors
from daf_storage.base import (
    DecodedCache,
    Span,
    decode_vlen_bytes,
    decode_vlen_utf8,
    is_remote,
    runs_of_chunks,
)
from daf_storage.opening import remote_directory
from daf_storage.stores import (
    DirectoryStore,
    MmapZipStore,
    ReadableStore,
    RemoteFiles,
    Snapshot,
    SnapshotZarrStore,
    shown_url,
    translated,
)
from daf_storage.trees import limit_of_strings, undone

_BITS_PER_BYTE: Final = 8
_MAX_BYTES: Final = 1 << 24
_SPELLING: Final = re.compile(r"r([0-9]{1,18})")
_FIXED_SIZE = "biufMV"
_STRING_DECODERS: dict[str, Callable[..., Any]] = {
    "vlen-utf8": decode_vlen_utf8,
    "vlen-bytes": decode_vlen_bytes,
}
_COMPRESSIONS = frozenset({"blosc", "zstd", "gzip", "zlib", "lz4", "bz2", "lzma", "crc32c"})
_FILTERED_RATIO = 16
"""How much larger a chunk may be before its filters are undone."""


def _codecs(array: Any) -> tuple[Callable[..., Any] | None, list[Mapping[str, Any]]]:
    """Return what decodes the values of an array, and the compressions to be undone before.

    Without the former, zarr-python has to decode it.
    """
    metadata = array.metadata
    if metadata.zarr_format == 2:
        steps = *(metadata.filters or ()), metadata.compressor
        codecs = [each.get_config() for each in steps if each]
    else:
        codecs = [
            {**each.get("configuration", {}), "id": each["name"].removeprefix("numcodecs.")}
            for each in (codec.to_dict() for codec in metadata.codecs)
        ]
    compressions: list[Mapping[str, Any]] = []
    while codecs and codecs[-1]["id"] in _COMPRESSIONS:
        compressions.append(codecs.pop())
    first = codecs[0] if codecs else {"id": "bytes"}
    text = _STRING_DECODERS.get(first["id"])
    if len(codecs) <= 1 and text is not None:
        return (lambda data, what: text(data, what=what)), compressions
    dtype = array.dtype
    is_plain = first["id"] == "bytes" and first.get("endian", "little") == "little"
    is_fixed = dtype.kind in _FIXED_SIZE and dtype.names is None
    if len(codecs) > 1 or not is_plain or not is_fixed:
        return None, compressions
    return (lambda data, _: np.frombuffer(data, dtype)), compressions


def _readable(
    what: str, kind: type[errors.DafError] = errors.CorruptDataError, after: str = ""
) -> AbstractContextManager[None]:
    """Raise one kind of error for the many that zarr raises of what it cannot read."""
    return translated(Exception, kind, what, after)


_OTHERS: Final = "; the other columns can be used"
_GEOMETRY_METADATA: Final = {
    "ARROW:extension:name": "geoarrow.wkb",
    "ARROW:extension:metadata": '{"crs": "EPSG:4326", "crs_type": "authority_code"}',
}
_UNITS: Final = ("s", "ms", "us", "ns")
_COMPARABLE_TYPES: Final = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


@dataclass(frozen=True, eq=False)
class ZarrColumn:
    """One array as a column."""

    store: ReadableStore
    """Where its files are."""
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
        """Rows per chunk."""
        return max(int(self.array.chunks[0]), 1)

    def snapshot(self) -> Snapshot:
        """Return its files as they are now."""
        return snapshot_of(self.store, self.array.path, self.what)

    def file_of(self, row: int) -> str:
        """Return the key of the file that has a row."""
        file_rows = int((self.array.shards or self.array.chunks)[0])
        return str(self.array.metadata.encode_chunk_key((row // max(file_rows, 1),)))

    def checksum(self, files: Snapshot) -> int:
        """Return the checksum of all chunks as they are stored."""
        total = 0
        for key in dict.fromkeys(map(self.file_of, range(0, self.length, self.chunk_rows))):
            data = files.map(key)
            total = crc32(repr(None if data is None else len(data)).encode(), total)
            total = crc32(b"" if data is None else data, total)
        return total

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:  # noqa: ARG002 - neither codes nor zone maps
        """Open it for reading; chunks are cached while their files stay the same."""
        return OpenZarrColumn(self, cache)


def snapshot_of(store: ReadableStore, path: str, what: str) -> Snapshot:
    """Return the files of an array as they are now.

    Raises
    ------
    CorruptDataError
        They are gone.
    """
    found = store.snapshot(path)
    if found is None:
        raise errors.CorruptDataError(f"{what}: the stored chunks are gone")
    return found


class OpenZarrColumn:
    """A column that is being read.

    Parameters
    ----------
    cache
        Of chunks that were decoded.
    """

    zones = None

    def __init__(self, column: ZarrColumn, cache: DecodedCache) -> None:
        self._column = column
        self._cache = cache
        self._files = column.snapshot()
        self._codec, self._compressions = _codecs(column.array)

    def values(self, rows: Rows) -> Values:
        """Return values to evaluate a predicate on; only their chunks are decoded."""
        if rows.offsets is None:
            return self._read(rows.span)
        positions = rows.positions
        runs = runs_of_chunks(positions, self._column.chunk_rows)
        parts = [self._read(span).take(positions[which] - span.start) for span, which in runs]
        return self._concatenated(parts)

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return values as Arrow, NaN and NaT as null; only their chunks are decoded."""
        values, kind = self.values(rows), self._column.field.type
        is_numpy = isinstance(values, np.ndarray)
        return pa.array(values, kind, from_pandas=True) if is_numpy else values

    def _read(self, span: Span) -> Any:
        chunk_rows = self._column.chunk_rows
        numbers = range(span.start // chunk_rows, -(-span.stop // chunk_rows))
        whole = self._concatenated([self._chunk(number) for number in numbers])
        start = numbers.start * chunk_rows
        return whole[span.start - start : span.stop - start]

    def _concatenated(self, parts: Sequence[Any]) -> Any:
        if len(parts) < 2:
            return parts[0] if parts else _comparable(np.empty(0, self._column.array.dtype))
        is_numpy = isinstance(parts[0], np.ndarray)
        return np.concatenate(parts) if is_numpy else pa.concat_arrays(parts)

    def _chunk(self, number: int) -> Any:
        """Return a chunk, decoded unless it is cached."""
        start = number * self._column.chunk_rows
        span = Span(start, min(start + self._column.chunk_rows, self._column.length))
        key = self._column.file_of(start)
        version = self._files.bytes_version(key)
        if version is None:
            return self._decoded(key, span)
        place = (self._column.what, number, span.size)
        return self._cache.get(place, version, lambda: self._decoded(key, span))

    def _decoded(self, key: str, span: Span) -> Values:
        """Return the values of a chunk: numbers, or Arrow strings.

        Raises
        ------
        CorruptDataError
            It is damaged, or would expand to more than such a chunk has.
        """
        data = None if self._column.array.shards else self._files.map(key)
        what = f"{self._column.what}: the stored chunks cannot be decoded: {key}"
        with _readable(f"{what} is damaged"):
            values = None if data is None else self._decompressed(data, what)
            if values is None or len(values) != self._column.chunk_rows:
                pinned = zarr.open_array(SnapshotZarrStore(self._files), mode="r")
                values = np.asarray(pinned[span.start : span.stop])
            return _comparable(values[: span.size])

    def _decompressed(self, data: memoryview, what: str) -> Any:
        """Return the values of a chunk, the last of which is padded; None of unusual codecs.

        These are decoded by zarr-python, which has to be kept from making too much of them.
        """
        dtype, count = self._column.array.dtype, self._column.chunk_rows
        limit = count * (_FILTERED_RATIO if self._codec is None else 1) * int(dtype.itemsize)
        if dtype.kind in "OT":
            limit = limit_of_strings(count, len(data))
        decompressed = undone(self._compressions, data, limit, what=what)
        return None if self._codec is None else self._codec(decompressed, what)


def column_field(name: str, array: Any) -> pa.Field | None:
    """Return the Arrow field of an array; ``None`` if there is no Arrow type for it here."""
    dtype = array.dtype
    is_v2 = array.metadata.zarr_format == 2
    data_type = type(array.metadata.dtype if is_v2 else array.metadata.data_type)
    if data_type.__name__ == "VariableLengthBytes" or dtype.kind in "VS":
        if dtype.names is not None:
            return None
        metadata = _GEOMETRY_METADATA if name == GEOMETRY else None
        return pa.field(name, pa.binary_view(), metadata=metadata)
    if dtype.kind in "UT" or data_type.__name__ == "VariableLengthUTF8":
        return pa.field(name, pa.string_view())
    if dtype.kind == "M":
        unit, step = np.datetime_data(dtype)
        return pa.field(name, pa.timestamp(unit)) if unit in _UNITS and step == 1 else None
    if dtype.kind in "biuf" and dtype.itemsize <= 8:
        return pa.field(name, pa.from_numpy_dtype(dtype.newbyteorder("=")))
    return None


def _comparable(values: Any) -> Values:
    """Return values as predicates are evaluated on: numbers, or Arrow strings.

    >>> of_bytes = [np.array([b"a"], object), np.array([b"a"], "V1")]
    >>> [str(_comparable(each).type) for each in (*of_bytes, np.array(["a"], object))]
    ['binary', 'binary', 'string']
    """
    if isinstance(values, pa.Array):
        plain = _COMPARABLE_TYPES.get(values.type)
        return values if plain is None else values.cast(plain)
    if values.dtype.kind in "biufM":
        native = np.asarray(values, values.dtype.newbyteorder("="))
        return pa.array(native) if native.dtype.kind == "M" else native
    if values.dtype.kind == "V":
        data = pa.py_buffer(np.ascontiguousarray(values))
        fixed = pa.binary(values.dtype.itemsize)
        return pa.Array.from_buffers(fixed, len(values), [None, data]).cast(pa.binary())
    if values.dtype == object and values.size and not isinstance(values[0], str):
        return pa.array([bytes(value) for value in values], pa.binary())
    return pa.array(values.astype(object), pa.string())


class RawBits(RawBytes):
    """N raw bits per item, in whole bytes; without a spelling in Zarr v2."""

    _zarr_v3_name: ClassVar[Any] = "raw_bits"

    @classmethod
    def from_native_dtype(cls, dtype: Any) -> Self:
        """Refuse: whoever asks for raw bytes by numpy's name gets zarr-python's spelling."""
        raise DataTypeValidationError(f"{dtype} is stored as raw_bytes")

    @classmethod
    def _from_json_v2(cls, data: Any) -> Self:
        raise DataTypeValidationError(f"{data!r} is no data type r<N> of Zarr v3")

    @classmethod
    def _from_json_v3(cls, data: Any) -> Self:
        spelling = _SPELLING.fullmatch(data) if isinstance(data, str) else None
        if spelling is None:
            raise DataTypeValidationError(f"{data!r} is no data type r<N> of Zarr v3")
        length, left = divmod(int(spelling[1]), _BITS_PER_BYTE)
        if left or not 0 < length <= _MAX_BYTES:
            raise ValueError(f"items of the data type {data!r} are no whole bytes, or too many")
        return cls(length=length)

    def to_json(self, zarr_format: Any) -> Any:  # noqa: ARG002 - inherited
        """Return the spelling."""
        return f"r{self.length * _BITS_PER_BYTE}"

    def to_json_scalar(self, data: object, *, zarr_format: Any) -> Any:  # noqa: ARG002 - inherited
        """Return a fill value as a list of bytes."""
        return list(self.cast_scalar(data).tobytes())

    def from_json_scalar(self, data: Any, *, zarr_format: Any) -> np.void:  # noqa: ARG002 - inherited
        """Return the fill value that a list of bytes is."""
        value = bytes(data) if isinstance(data, list) else b""
        if len(value) != self.length:
            raise TypeError(
                f"the fill value {data!r} is not a list of {self.length} bytes, as the data type "
                f"{self.to_json(3)!r} needs"
            )
        return self._cast_scalar_unchecked(value)


def register_raw_bits() -> None:
    """Let zarr-python read arrays of this type in this process; once or more often."""
    data_type_registry.register("r*", RawBits)


ATTRIBUTE: Final = "daf_index"
"""The attribute of an index that says what it was made of."""
INDEXES: Final = "indexes"
PENDING: Final = "daf_append"
"""Attribute of a group, while rows are being added: the lengths before and after."""
_MAX_ROWS: Final = 1 << 40
_MAX_CHUNK_BYTES: Final = 1 << 28


def _store_of(path: str | Path, location: str) -> ReadableStore:
    """Return where the files of a directory, an archive, or what is on a server are.

    Parameters
    ----------
    location
        The path as messages name it.

    Raises
    ------
    SourceNotFoundError
        There is nothing.
    """
    if is_remote(path):
        return remote_directory(RemoteFiles(str(path)))
    if not Path(location).exists():
        raise errors.SourceNotFoundError(f"no such file or directory: {location}")
    return MmapZipStore(location) if location.endswith(".zip") else DirectoryStore(location)


def _root_of(store: ReadableStore, location: str) -> Any:
    """Return the root group; `FormatError` if there is something else."""
    register_raw_bits()
    files = SnapshotZarrStore(snapshot_of(store, "", location))
    with _readable(f"{location}: not a zarr group", errors.FormatError):
        return zarr.open_group(files, mode="r", use_consolidated=False)


def groups_of(group: Any) -> list[str]:
    """Return the names of the groups directly below a group; what is malformed is none.

    >>> groups_of(None)
    []
    """
    try:
        return sorted(group.group_keys())
    except Exception:  # noqa: BLE001 - zarr raises many kinds for malformed metadata
        return []


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
    store = _store_of(path, location)
    root = _root_of(store, location)
    arrays_group = _arrays_group(root, group, location)
    columns, problems = _columns_of(store, root, group, location)
    length = _common_length(columns, group, location)
    if PENDING in arrays_group.attrs:
        raise errors.FormatError(
            f"{location}: rows are being added to the group {group!r}, or that was interrupted: "
            "the last of them may lack values; try again, or call append_rows, which begins with "
            "undoing what was not completed"
        )
    broken = BrokenColumns()
    guarded = {name: TableColumn(column, broken) for name, column in columns.items()}
    table = TableColumns(group, length, guarded, problems, broken=broken)
    warn_of_problems(table, broken)
    absolute = str(path) if is_remote(path) else str(Path(path).absolute())
    return ZarrTable(table, location, (absolute, group))


def _arrays_group(root: Any, group: str, location: str) -> Any:
    """Return the group whose arrays are the columns."""
    with _readable(f"{location}: the metadata of the group {group!r} cannot be read"):
        arrays_group = root.get(group) if group else root
    if isinstance(arrays_group, zarr.Group):
        return arrays_group
    has = errors.shown_names(groups_of(root), none="no groups")
    raise errors.SourceNotFoundError(f"{location}: there is no group {group!r}; it has {has}")


def _columns_of(
    store: ReadableStore, root: Any, group: str, location: str
) -> tuple[dict[str, ZarrColumn], dict[str, str]]:
    """Return the arrays that can be columns, of which there is one, and why others cannot."""
    columns: dict[str, ZarrColumn] = {}
    problems: dict[str, str] = {}
    files = snapshot_of(store, group.strip("/"), location)
    for name in files.names():
        what = f"{location}: {group}/{name}"
        try:
            with _readable(f"{what}: its metadata cannot be read", after=_OTHERS):
                array = root.get(f"{group}/{name}".strip("/")) if files.names(name) else None
        except errors.FormatError as error:
            problems[name] = str(error)
            continue
        if not isinstance(array, zarr.Array):
            continue
        field = column_field(name, array)
        if field is None or array.ndim != 1:
            shape_or_type = array.dtype if array.ndim == 1 else f"{array.ndim} dimensions"
            problems[name] = (
                f"{location}: the array {group}/{name} has {shape_or_type}, which no column can "
                f"have{_OTHERS}"
            )
        elif (claim := _absurd_claim(array)) is not None:
            problems[name] = f"{location}: the array {group}/{name} {claim}"
        else:
            columns[name] = ZarrColumn(store, array, field, what)
    if not columns:
        raise errors.FormatError(
            f"{location}: the group {group!r} has no array that can be a column; "
            f"{'; '.join(problems.values()) or 'it has none at all'}"
        )
    return columns, problems


def _common_length(columns: Mapping[str, ZarrColumn], group: str, location: str) -> int:
    """Return the number of rows, which has to be that of each column."""
    lengths = {name: column.length for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}: {length:,}" for name, length in lengths.items())
        raise errors.FormatError(
            f"{location}: the arrays of the group {group!r} are not aligned, they have different "
            f"lengths ({listed}); append to all of them, or delete the odd one"
        )
    return next(iter(lengths.values()))


def _absurd_claim(array: Any) -> str | None:
    """Return what is absurd about the shape of an array; ``None`` if nothing is."""
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
        self, columns: TableColumns, location: str, path_and_group: tuple[str, str]
    ) -> None:
        super().__init__(columns, location=location)
        self._path_and_group = path_and_group

    def _place(self) -> tuple[Callable[..., TableDataset], tuple[Any, ...]]:
        return zarr_table, self._path_and_group

    def source_of(self, column: str) -> dict[str, Any]:
        """Return what is noted of a column beside its index: checksum and state of its files."""
        array = self._array(column)
        files = array.snapshot()
        state = _state_of(files.version())
        noted = {"source": array.checksum(files)} if files.is_local else {}
        return noted if state is None else {**noted, "files": state}

    def rtree(self, column: str) -> RTree | None:
        """Return the R-tree of a column, checked; None without one that fits, with a warning."""
        if column not in self.table_columns.columns or not self.options.indexes:
            return None
        array = self._array(column)
        index = array.store.snapshot(f"{INDEXES}/{column}")
        if index is None:
            return None
        identity = (index.identity(), array.snapshot().identity())
        try:
            key = (self.location, "rtree", column)
            tree: RTree = self.view.cache.get(key, identity, lambda: self._tree(column, array))
        except (UnfitIndexError, errors.FormatError) as error:
            what = f"of {column!r}"
            warn_of_index(self.view.cache, self.location, what, str(error), "build it again")
            return None
        return tree

    def _array(self, column: str) -> ZarrColumn:
        """Return the array of a column."""
        stored = self.table_columns.columns[column].stored
        assert isinstance(stored, ZarrColumn)  # noqa: S101 - as `zarr_table` makes them
        return stored

    def _tree(self, column: str, array: ZarrColumn) -> RTree:
        """Return the R-tree of a column after checking all of it."""
        with _readable("it cannot be opened"):
            index = _root_of(array.store, self.location)[f"{INDEXES}/{column}"]
        if not isinstance(index, zarr.Array) or index.dtype != np.uint8 or index.ndim != 1:
            raise UnfitIndexError("it is no R-tree: it is not a list of bytes")
        with _readable("it cannot be read"):
            data = np.ascontiguousarray(np.asarray(index[:]))
        noted = index.attrs.get(ATTRIBUTE, {})
        if not isinstance(noted, Mapping):
            raise UnfitIndexError(f"its attribute {ATTRIBUTE!r} is malformed")
        if noted.get("checksum", crc32(data.data)) != crc32(data.data):
            raise UnfitIndexError("its checksum is wrong")
        tree = RTree.open(data, self.table_columns.length)
        if "source" in noted and not _is_of_now(array, noted):
            raise UnfitIndexError("the geometries were changed since it was built")
        return tree


def _is_of_now(array: ZarrColumn, noted: Mapping[str, Any]) -> bool:
    """Return whether an index was made of what is stored now; a server is not asked."""
    files = array.snapshot()
    state = _state_of(files.version())
    is_same = not files.is_local or (state is not None and noted.get("files") == state)
    return is_same or bool(noted["source"] == array.checksum(files))


def _state_of(version: Any) -> str | None:
    """Return what tells files from later ones, as JSON has it; None if nothing does."""
    return None if version is None else hashlib.sha256(repr(version).encode()).hexdigest()
