"""Value objects that every package shares: element types, spans, modes, names and packing.

Nouns: a *storage type* is one of the twelve element types that Daf can hold; a *span* is a
half-open range of positions; a *packing* says how arrays are cut into chunks and compressed.
Nothing here opens a file or knows a format.
"""

from __future__ import annotations

import enum
import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage import errors
from daf_storage.base._threads import ForkLock

IfExists: TypeAlias = Literal["error", "replace"]
"""What to do with existing data of the same name: raise an error, or replace it."""

OpenMode: TypeAlias = Literal["r", "r+", "w+", "w"]
"""How a data set is opened: read; read and write; the same, created if missing; emptied first."""

AnyArray: TypeAlias = npt.NDArray[Any]

MAX_STRING_BYTES: Final = 2**31 - 1
"""How many bytes the strings of an Arrow array have together, unless they are large strings."""

NAME_VECTOR: Final = "name"
"""The reserved vector that holds the entries of its axis."""

INDEX_VECTOR: Final = "index"
"""The reserved vector that holds the 0-based positions along its axis."""

RESERVED_VECTORS: Final = frozenset({NAME_VECTOR, INDEX_VECTOR})

METADATA_NAMES: Final = frozenset({".zgroup", ".zarray", ".zattrs", ".zmetadata", "zarr.json"})
"""The files in which Zarr keeps metadata; no property has one of these names."""

STAGING_NAME: Final = ".daf.staging"
"""The directory or HDF5 group in which changes are prepared; no property has this name."""

CLOUD_SCHEMES: Final = ("s3", "gs", "az", "abfs", "abfss")
"""What the URL of something in a bucket begins with."""

_SCHEMES: Final = tuple(f"{scheme}://" for scheme in ("http", "https", *CLOUD_SCHEMES))
_MAX_NAME_BYTES: Final = 255
_MOST_CHARACTERS: Final = 120


class StorageType(enum.Enum):
    """An element type that Daf stores; the value is the name that all implementations use.

    >>> StorageType.from_numpy(np.dtype("<f4")).value
    'Float32'
    >>> StorageType.BOOL.dtype
    dtype('bool')
    """

    BOOL = "Bool"
    INT8 = "Int8"
    INT16 = "Int16"
    INT32 = "Int32"
    INT64 = "Int64"
    UINT8 = "UInt8"
    UINT16 = "UInt16"
    UINT32 = "UInt32"
    UINT64 = "UInt64"
    FLOAT32 = "Float32"
    FLOAT64 = "Float64"
    STRING = "String"

    @functools.cached_property
    def dtype(self) -> np.dtype[Any]:
        """The little-endian numpy dtype of the stored bytes; strings have none."""
        if self.is_string:
            raise TypeError("strings have no numpy dtype of fixed size")
        name = "bool" if self is StorageType.BOOL else self.value.lower()
        return np.dtype(name).newbyteorder("<")

    @property
    def is_string(self) -> bool:
        """Whether elements are strings, which have no fixed size and no numpy dtype."""
        return self is StorageType.STRING

    @property
    def is_integer(self) -> bool:
        """Whether elements are integers; false for Bool."""
        return "Int" in self.value

    @classmethod
    def of(cls, dtype: np.dtype[Any]) -> StorageType:
        """Return the storage type of a numpy dtype that Daf is known to have one for."""
        storage_type = cls.from_numpy(dtype)
        if storage_type is None:
            raise errors.UnsupportedInputError(f"Daf has no type for numpy dtype {dtype}")
        return storage_type

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> StorageType | None:
        """Return the storage type of a numpy dtype, or None where Daf has none for it."""
        if dtype.kind in "biuf":
            name = "bool" if dtype.kind == "b" else dtype.newbyteorder("=").name
            return _BY_NUMPY_NAME.get(name)
        return cls.STRING if dtype.kind in "UTS" else None


_BY_NUMPY_NAME: Final = {
    kind.dtype.newbyteorder("=").name: kind for kind in StorageType if not kind.is_string
}


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open range ``[start, stop)`` of positions; may be empty.

    >>> Span(2, 5).size
    3
    """

    start: int
    """First position."""
    stop: int
    """One past the last position."""

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop:
            raise errors.InvalidInputError(
                f"a span needs 0 <= start <= stop, got [{self.start}, {self.stop})"
            )

    @property
    def size(self) -> int:
        """Number of positions (a property: ``len`` would make an empty span falsy)."""
        return self.stop - self.start

    @property
    def slice(self) -> slice:
        """The same range as a Python slice."""
        return slice(self.start, self.stop)


def spans_of_length(count: int, length: int) -> Iterator[Span]:
    """Yield spans of so many positions; the last may have fewer."""
    for start in range(0, count, length):
        yield Span(start, min(start + length, count))


def runs_of_chunks(positions: AnyArray, chunk: int) -> Iterator[tuple[Span, AnyArray]]:
    """Yield the span of each run of neighbouring chunks, and which positions are in it.

    >>> runs = runs_of_chunks(np.array([25, 3, 9, 18, 71]), 10)
    >>> [(span.start, span.stop, which.tolist()) for span, which in runs]
    [(3, 26, [1, 2, 3, 0]), (71, 72, [4])]
    """
    order = np.argsort(positions, kind="stable")
    chunks = positions[order] // chunk
    for which in np.split(order, np.flatnonzero(np.diff(chunks) > 1) + 1):
        if which.size:
            yield Span(int(positions[which[0]]), int(positions[which[-1]]) + 1), which


def column_blocks(indptr: AnyArray, *, max_elements: float = 1 << 20) -> Iterator[Span]:
    """Yield runs of columns that hold at most ``max_elements`` stored elements, or one column.

    >>> [(s.start, s.stop) for s in column_blocks(np.array([0, 2, 4, 9, 9]), max_elements=4)]
    [(0, 2), (2, 3), (3, 4)]
    """
    start, n_columns = 0, len(indptr) - 1
    while start < n_columns:
        limit = indptr[start].item() + max_elements
        stop = int(np.searchsorted(indptr, limit, side="right")) - 1
        stop = min(max(stop, start + 1), n_columns)
        yield Span(start, stop)
        start = stop


@dataclass(frozen=True, slots=True)
class VectorInfo:
    """What the metadata says of a stored vector; nothing of its data was read."""

    axis: str
    """The axis that the vector runs along."""
    name: str
    """Its name on that axis."""
    storage_type: StorageType
    """The type of its elements."""
    length: int
    """Number of entries of the axis."""
    is_sparse: bool
    """Whether only the non-zero elements are stored."""
    chunk_rows: int
    """Elements per stored chunk; the whole length where there is a single chunk."""
    empty_is_missing: bool = False
    """Whether an empty string stands for a missing value, which is NULL in tables."""
    entries_of: str | None = None
    """The axis that its values were recorded to be entries of; None if nothing was recorded."""


@dataclass(frozen=True, slots=True)
class MatrixInfo:
    """What the metadata says of a matrix in one stored orientation; no data was read."""

    rows_axis: str
    """The axis whose positions vary fastest in the stored bytes."""
    columns_axis: str
    """The axis of which each entry is one stored column."""
    name: str
    """Its name on this pair of axes."""
    storage_type: StorageType
    """The type of its elements."""
    shape: tuple[int, int]
    """Lengths of the rows axis and of the columns axis."""
    is_sparse: bool
    """Whether only the non-zero elements are stored (CSC)."""
    nnz: int | None
    """Number of stored elements of a sparse matrix; None for a dense one."""
    is_row_major: bool = False
    """Whether a matrix of an axis with itself is stored by rows, as AnnData does: the stored
    columns are then the rows of the matrix."""


def one_array(array: pa.Array | pa.ChunkedArray) -> Any:
    """Return chunks as one array; strings of more than 2 GiB as large strings."""
    if not isinstance(array, pa.ChunkedArray):
        return array
    if array.num_chunks == 1:
        return array.chunk(0)
    large = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(array.type)
    if large is not None and array.nbytes > MAX_STRING_BYTES:
        array = array.cast(large)
    return pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)


def arrow_of(values: AnyArray) -> pa.Array:
    """Return a numeric array as Arrow; shares the memory except for Bool."""
    if values.dtype == np.bool_:
        return pa.array(values.view(np.uint8) != 0)
    arrow_type = pa.from_numpy_dtype(values.dtype.newbyteorder("="))
    contiguous = np.require(values, requirements=("C_CONTIGUOUS", "ALIGNED"))
    return pa.Array.from_buffers(arrow_type, len(values), [None, pa.py_buffer(contiguous)])


def check_choice(value: object, choices: Any, argument: str) -> None:
    """Refuse a value that is none of a ``Literal``.

    >>> check_choice("skip", IfExists, "if_exists")
    Traceback (most recent call last):
        ...
    daf_storage.errors.InvalidInputError: invalid if_exists: 'skip'; pass 'error' or 'replace'
    """
    *others, last = map(repr, get_args(choices))
    if not isinstance(value, str) or value not in get_args(choices):
        raise errors.InvalidInputError(
            f"invalid {argument}: {value!r}; pass {', '.join(others)} or {last}"
        )


def check_mode(mode: str) -> None:
    """Refuse what is none of the four Daf modes."""
    if mode not in get_args(OpenMode):
        raise errors.InvalidModeError(
            f"invalid mode: {mode!r}; the modes are r (read), r+ (read and write), "
            "w+ (the same, created if missing) and w (emptied first)"
        )


def is_remote(path: object) -> bool:
    """Return whether a path is the URL of something on a server."""
    return isinstance(path, str) and path.startswith(_SCHEMES)


def name_problem(name: object) -> str | None:
    """Say why ``name`` cannot be stored in some format, or None if every format can hold it.

    >>> name_problem("a/b")
    "contains '/', which separates the levels of the stored tree"
    >>> name_problem("UMIs") is None
    True
    """
    if not isinstance(name, str):
        return f"is of type {type(name).__name__}, not a string"
    return _problem_of_name(name)


@functools.lru_cache(maxsize=1 << 12)
def _problem_of_name(name: str) -> str | None:
    problems = {
        "is empty": not name,
        "contains '/', which separates the levels of the stored tree": "/" in name,
        "contains a NUL character": "\0" in name,
        "names a directory itself": name in {".", ".."},
        "is the name of a metadata file of the format": name in METADATA_NAMES,
        "is the name of the group in which changes are prepared": name == STAGING_NAME,
        "is not valid Unicode": any("\ud800" <= character <= "\udfff" for character in name),
    }
    for problem, is_so in problems.items():
        if is_so:
            return problem
    size_bytes = len(name.encode())
    return f"is longer than {_MAX_NAME_BYTES} bytes" if size_bytes > _MAX_NAME_BYTES else None


def free_name(name: str, taken: set[str]) -> str:
    """Return a name that every format can hold and that is not taken; from now on, it is.

    >>> free_name("a/b", {"a_b"}), free_name("x", set()), free_name("..", set())
    ('a_b_', 'x', '_..')
    """
    if name_problem(name) is not None:
        name = name.replace("/", "_").replace("\0", "_")[:_MOST_CHARACTERS] or "_"
        if name_problem(name) is not None:
            name = f"_{name}"
    while name in taken:
        name = f"{name}_"
    taken.add(name)
    return name


def check_name(source: str, kind: str, name: object) -> str:
    """Return ``name`` if every format can hold it; ``kind`` is the word for the message."""
    problem = name_problem(name)
    if problem is not None:
        raise errors.InvalidNameError(
            f"{source}: {kind} name {name!r} cannot be stored: it {problem}; choose another name"
        )
    return str(name)


_lock = ForkLock()
_used: Counter[str] = Counter()


def unique_name(name: str) -> str:
    """Return the name, with ``#2``, ``#3`` and so on if this process has used it already."""
    if "!" in name:
        return name
    with _lock:
        _used[name] += 1
        if _used[name] == 1:
            return name
        others = (f"{name}#{number}" for number in itertools.count(_used[name]))
        unique = next(other for other in others if not _used[other])
        _used[unique] += 1
        return unique


CodecName: TypeAlias = Literal["blosc-zstd", "blosc-lz4", "blosc-zstd-shuffle", "zstd", "gzip"]
"""The compressions; ``blosc-zstd-shuffle`` is not one of plain files (FilesDaf)."""

IMPORT_CHUNK_KB: Final = 64
"""Of an import that packs: smaller than in chunks of 8 KiB, and scanned in a fourth of the time."""

_LEVELS: Final = {"zstd": (3, 22), "gzip": (6, 9)}
"""The default and the highest level of a codec that is not ``blosc``."""
_BLOSC_LEVELS: Final = (5, 9)
_BYTE_SHUFFLE: Final = "-shuffle"
_STRING_BYTES: Final = 16
_SMALLEST_BYTES: Final = 8 << 10
_MATRIX: Final = 2


@dataclass(frozen=True, slots=True)
class Packing:
    """How to pack arrays that are written.

    Examples
    --------
    >>> Packing()
    Packing(codec='blosc-zstd', level=5, chunk_kb=8)
    >>> Packing("zstd").level, Packing("gzip", 1).level, Packing("zstd", 22).level
    (3, 1, 22)
    """

    codec: CodecName = "blosc-zstd"
    """How a chunk is compressed; ``blosc`` shuffles bits first, with ``-shuffle`` bytes."""
    level: int = -1
    """From 1, fast, to 9 (22 for ``zstd``), small; -1 for a good one."""
    chunk_kb: int = 8
    """About how many KiB of elements a chunk holds: what a lookup has to decode at least."""

    def __post_init__(self) -> None:
        """Check the options, and fill in the level."""
        check_choice(self.codec, CodecName, "codec of packed arrays")
        default, highest = _LEVELS.get(self.codec, _BLOSC_LEVELS)
        if self.level == -1:
            object.__setattr__(self, "level", default)
        if not 1 <= self.level <= highest:
            raise errors.InvalidInputError(
                f"level {self.level} of codec {self.codec!r} must be between 1 and {highest}"
            )
        if not 1 <= self.chunk_kb <= 1 << 20:
            raise errors.InvalidInputError(
                f"chunks of {self.chunk_kb} KiB are not possible; choose 1 to {1 << 20}"
            )

    @property
    def compressor(self) -> str:
        """What Blosc compresses with.

        >>> Packing("blosc-lz4").compressor
        'lz4'
        """
        return self.codec.removeprefix("blosc-").removesuffix(_BYTE_SHUFFLE)

    @property
    def shuffle(self) -> Literal["shuffle", "bitshuffle"]:
        """What Blosc shuffles first: bytes or bits.

        >>> Packing("blosc-zstd-shuffle").shuffle
        'shuffle'
        """
        return "shuffle" if self.codec.endswith(_BYTE_SHUFFLE) else "bitshuffle"

    def chunks(self, shape: tuple[int, ...], kind: StorageType) -> tuple[int, ...] | None:
        """Return the shape of a chunk of an array; None if it is too small to be packed.

        A chunk of a matrix lies within one column, which is the last dimension as stored, or holds
        several whole ones where a column has less than 8 KiB.  Arrays without elements, single
        elements, matrices of strings, and arrays of less than 8 KiB are never packed.

        >>> Packing().chunks((8, 1200), StorageType.FLOAT64)
        (1, 1024)
        >>> Packing(chunk_kb=64).chunks((8, 1200), StorageType.FLOAT64)
        (1, 1200)
        >>> Packing().chunks((10_000, 3), StorageType.FLOAT64)
        (341, 3)
        >>> Packing().chunks((1000,), StorageType.FLOAT64) is None
        True
        """
        element_bytes = _STRING_BYTES if kind.is_string else kind.dtype.itemsize
        if not shape or 0 in shape or (kind.is_string and len(shape) > 1):
            return None
        target_bytes = self.chunk_kb << 10
        smallest_bytes = min(target_bytes, _SMALLEST_BYTES)
        if math.prod(shape) * element_bytes < smallest_bytes:
            return None
        column_bytes = shape[-1] * element_bytes
        if len(shape) == _MATRIX and column_bytes < smallest_bytes:
            return min(target_bytes // column_bytes, shape[0]), shape[1]
        height = min(max(target_bytes // element_bytes, 1), shape[-1])
        return (*(1,) * (len(shape) - 1), height)


def packing_of(packed: bool | Packing) -> Packing | None:  # noqa: FBT001 - True asks for the default
    """Return the options of an argument ``packed=``."""
    if isinstance(packed, Packing):
        return packed
    return Packing() if packed else None
