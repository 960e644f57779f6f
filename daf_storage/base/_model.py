"""Value objects that every package shares: element types, spans, modes and names.

Nouns: a *storage type* is one of the twelve element types that Daf can hold; a *span* is a
half-open range of positions.  Nothing here opens a file or knows a format.
"""

from __future__ import annotations

import enum
import functools
import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from daf_storage import errors
from daf_storage.base._threads import ForkLock

IfExists: TypeAlias = Literal["error", "replace"]
"""What to do with existing data of the same name: raise an error, or replace it."""

OpenMode: TypeAlias = Literal["r", "r+", "w+", "w"]
"""How a data set is opened: read; read and write; the same, created if missing; emptied first."""

AnyArray: TypeAlias = npt.NDArray[Any]

_IF_EXISTS: Final[tuple[IfExists, ...]] = ("error", "replace")
_MODES: Final[tuple[OpenMode, ...]] = ("r", "r+", "w+", "w")

NAME_VECTOR: Final = "name"
"""The reserved vector that holds the entries of its axis."""

INDEX_VECTOR: Final = "index"
"""The reserved vector that holds the 0-based positions along its axis."""

RESERVED_VECTORS: Final = frozenset({NAME_VECTOR, INDEX_VECTOR})

METADATA_NAMES: Final = frozenset({".zgroup", ".zarray", ".zattrs", ".zmetadata", "zarr.json"})
"""The files in which Zarr keeps metadata; no property has one of these names."""

STAGING_NAME: Final = ".daf.staging"
"""The directory or HDF5 group in which changes are prepared; no property has this name."""

_MAX_NAME_BYTES: Final = 255


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

    @property
    def dtype(self) -> np.dtype[Any]:
        """The little-endian numpy dtype of the stored bytes; strings have none."""
        found = _DTYPES.get(self.value)
        if found is None:
            raise TypeError("strings have no numpy dtype of fixed size")
        return found

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


_DTYPES: Final[Mapping[str, np.dtype[Any]]] = {
    kind.value: np.dtype("bool" if kind is StorageType.BOOL else kind.value.lower()).newbyteorder(
        "<"
    )
    for kind in StorageType
    if not kind.is_string
}
"""The little-endian dtypes by the names of the types; to make one takes a microsecond."""

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


def check_if_exists(value: object) -> IfExists:
    """Return ``value`` if it is one of the two answers to what is there already."""
    for known in _IF_EXISTS:
        if value == known:
            return known
    raise errors.InvalidInputError(
        f"invalid if_exists: {value!r}; pass 'error' (leave what is there) or 'replace'"
    )


def check_mode(mode: str) -> OpenMode:
    """Return ``mode`` if it is one of the four Daf modes."""
    for known in _MODES:
        if mode == known:
            return known
    raise errors.InvalidModeError(
        f"invalid mode: {mode!r}; the modes are r (read), r+ (read and write), "
        "w+ (the same, created if missing) and w (emptied first)"
    )


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
        count = _used[name]
        if count == 1:
            return name
        for number in itertools.count(count):
            unique = f"{name}#{number}"
            if not _used[unique]:
                _used[unique] += 1
                return unique
    raise AssertionError("itertools.count does not end")
