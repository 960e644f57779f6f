"""Common parts of the metadata of Zarr v2 and v3: value objects, and checks.

Documents are untrusted: any JSON value at any place becomes a value object or an error of ours.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import posixpath
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar

import numpy as np

from daf_storage.base import StorageType
from daf_storage.errors import CorruptDataError, DafError, UnsupportedDataError
from daf_storage.stores import Snapshot
from daf_storage.trees._protocol import ArrayInfo

ZarrVersion: TypeAlias = Literal[2, 3]
"""The versions of the Zarr format."""

MAX_DOCUMENT_BYTES: Final = 1 << 24
"""The largest metadata document of a group or an array that is read."""

MAX_CONSOLIDATED_BYTES: Final = 1 << 29
"""The largest document of the root that is read: it may repeat all others."""

MAX_ITEM_BYTES: Final = 1 << 20
"""The largest element of a fixed size that is read; only strings are larger than 8 bytes."""

_T = TypeVar("_T")

_MAX_DIMENSIONS: Final = 32
_MAX_CHUNK_BYTES: Final = 1 << 28
_LENGTH_BYTES: Final = 4
_MAX_ELEMENTS: Final = 2**62
_MAX_SHOWN: Final = 80
_SMALL_BYTES: Final = 1 << 12
_MOST_REMEMBERED: Final = 1 << 10
_SEPARATORS: Final = (".", "/")


@dataclass(frozen=True, slots=True)
class ShardLayout:
    """How a file of many small chunks is made up: an index, and each chunk compressed by itself."""

    grid: tuple[int, ...]
    """How many chunks there are along each dimension."""
    index_at_start: bool
    """Whether the index comes before the chunks; if not, it comes after them."""
    has_checksum: bool
    """Whether a CRC-32C of the index follows it."""
    make_index: Callable[[Callable[[list[tuple[int, int]]], list[memoryview]], int], Any] | None = (
        None
    )
    """Makes the index of a file that has none, from its ranges and its length."""


@dataclass(frozen=True, slots=True)
class ArrayMetadata:
    """The parsed metadata of an array."""

    version: ZarrVersion
    """The version of the format."""
    info: ArrayInfo
    """Shape, element type and chunks."""
    has_plain_chunk: bool
    """Whether there is one chunk, neither compressed nor filtered (but for strings)."""
    fill_value: Any
    """What missing chunks hold; None if they must not be missing."""
    separator: str
    """What stands between the numbers of a chunk key."""
    prefix: str = ""
    """What a chunk key begins with."""
    shard: ShardLayout | None = None
    """How its single file is made up, if it is one of small chunks; ``info`` has their shape."""
    item_bytes: int = 0
    """Size of a decoded element; 0 where that varies from element to element."""
    compressions: tuple[Mapping[str, Any], ...] = ()
    """Codecs of a chunk that are undone here, in this order, whoever reads what is left."""
    has_filters: bool = False
    """Whether others remain to be undone, but for what makes bytes of elements."""
    is_sharded: bool = False
    """Whether a file holds small chunks, whoever reads them."""
    chunk_dtype: np.dtype[Any] | None = None
    """The elements of a chunk without its compressions; None where it is not just those."""
    is_fortran: bool = False
    """Whether the first dimension of a chunk varies fastest."""
    has_plain_strings: bool = False
    """Whether a chunk without its compressions is strings one after the other."""
    document: bytes | None = None
    """The metadata to show to zarr-python instead of the stored ones: without ``compressions``,
    and mended where it would refuse them."""

    @property
    def stored_as(self) -> tuple[str, bool, str]:
        """What tells the elements of a chunk from those of other arrays of this shape and type."""
        elements = "" if self.chunk_dtype is None else self.chunk_dtype.str
        return elements, self.is_fortran, repr(self.fill_value)

    def chunk_key(self, position: tuple[int, ...]) -> str:
        """Return the key of the file at a position of the grid."""
        if not position:
            return self.prefix or "0"
        start = f"{self.prefix}{self.separator}" if self.prefix else ""
        return start + self.separator.join(map(str, position))

    @property
    def first_chunk_key(self) -> str:
        """The key of the file at the origin."""
        return self.chunk_key((0,) * len(self.info.shape))


def key_below(path: str, name: str) -> str:
    """Return the key of a file of a node; joined for each document of each node.

    >>> key_below("", ".zarray"), key_below("nzval", ".zarray")
    ('.zarray', 'nzval/.zarray')
    """
    return f"{path}/{name}" if path else name


def read_document(snapshot: Snapshot, key: str, *, what: str) -> bytes | None:
    """Return a metadata document; None if it is absent.

    Raises
    ------
    CorruptDataError
        It is larger than any metadata are.
    """
    limit = MAX_DOCUMENT_BYTES if "/" in key else MAX_CONSOLIDATED_BYTES
    size_bytes = snapshot.size(key) if snapshot.is_local else 0
    if size_bytes is not None and size_bytes > limit:
        raise CorruptDataError(
            f"{what}: {posixpath.basename(key)} has {size_bytes:,} bytes, and metadata have no "
            f"more than {limit:,}; write the array again"
        )
    return snapshot.read(key)


def remembering(parse: Callable[[bytes, str], _T]) -> Callable[[bytes, str], _T]:
    """Return a function that parses a small document once: each query opens the same arrays.

    The result follows from the document alone, so that the arrays of many data sets share it.
    Errors say what messages call the array, and are not kept.
    """
    remembered = functools.lru_cache(maxsize=_MOST_REMEMBERED)(lambda data: parse(data, ""))

    def parsed(data: bytes, what: str) -> _T:
        if len(data) <= _SMALL_BYTES:
            with contextlib.suppress(DafError):
                return remembered(bytes(data))
        return parse(data, what)

    return parsed


def parse_json(data: bytes, *, what: str) -> dict[str, Any]:
    """Parse a JSON object."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptDataError(f"{what} is not JSON ({error})") from None
    if not isinstance(document, dict):
        raise CorruptDataError(f"{what} holds no JSON object")
    return document


def compact(data: bytes | None) -> bytes | None:
    """Return a document on one line; None where it is missing, or no JSON object."""
    try:
        return None if data is None else to_json(parse_json(data, what=""))
    except (CorruptDataError, RecursionError):
        return None


def to_json(document: Any) -> bytes:
    """Return a document on one line."""
    return json.dumps(document, separators=(",", ":")).encode()


def shown(value: Any) -> str:
    """Return any JSON value as messages show it: neither long nor deep.

    >>> shown({"a": [[[[[]]]]], "b": "x" * 1000})[:20]
    "{'a': [[[[...]]]], '"
    """
    text = _BRIEF.repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


_BRIEF: Final = reprlib.Repr()
_BRIEF.maxlevel = 4
_BRIEF.maxstring = _BRIEF.maxlong = _BRIEF.maxother = 40


def lengths_of(value: Any) -> tuple[int, ...]:
    """Return a list of lengths; ``ValueError`` if it is none."""
    if not isinstance(value, list) or len(value) > _MAX_DIMENSIONS:
        raise ValueError(f"lengths {shown(value)}")
    lengths = tuple(value)
    if not all(type(n) is int and n >= 0 for n in lengths):
        raise ValueError(f"lengths {shown(value)}")
    if math.prod(max(n, 1) for n in lengths) > _MAX_ELEMENTS:
        raise ValueError(f"more elements than any memory holds: {shown(value)}")
    return lengths


def check_chunks(shape: tuple[int, ...], chunks: tuple[int, ...], *, what: str) -> None:
    """Raise unless chunks of this shape can make up an array of that one."""
    if len(shape) != len(chunks):
        raise CorruptDataError(
            f"{what}: shape {list(shape)} and chunks {list(chunks)} differ in length"
        )
    if any(n > 0 and c == 0 for n, c in zip(shape, chunks, strict=True)):
        raise CorruptDataError(
            f"{what}: chunks {list(chunks)} are empty, and the shape {list(shape)} is not"
        )


def check_chunk_bytes(
    shape: tuple[int, ...], chunks: tuple[int, ...], item_bytes: int, *, what: str
) -> None:
    """Raise if a chunk is much larger than the whole array, so that to decode it is absurd."""
    item_bytes = item_bytes or _LENGTH_BYTES
    size_bytes = math.prod(chunks) * item_bytes
    if size_bytes > max(math.prod(shape) * item_bytes, _MAX_CHUNK_BYTES):
        raise UnsupportedDataError(
            f"{what}: a chunk of shape {list(chunks)} would have {size_bytes:,} bytes, and the "
            f"whole array of shape {list(shape)} has fewer; write it in smaller chunks"
        )


def check_item_bytes(item_bytes: int, *, what: str) -> int:
    """Return the size of an element of a fixed size; raise if it is absurd."""
    if item_bytes > MAX_ITEM_BYTES:
        raise UnsupportedDataError(
            f"{what}: each element has {item_bytes:,} bytes, and at most {MAX_ITEM_BYTES:,} are "
            "read; store such strings with variable lengths"
        )
    return item_bytes


def separator_of(value: Any) -> str:
    """Return what separates the numbers of a chunk key; ``ValueError`` if it is none."""
    if value not in _SEPARATORS:
        raise ValueError(f"separator {shown(value)}")
    return str(value)


def fill_of(value: Any, storage_type: StorageType) -> Any:
    """Return what missing chunks hold, in the array's type; None if they must not be missing.

    ``ValueError`` if it is no such value.

    >>> fill_of("NaN", StorageType.FLOAT32)
    np.float32(nan)
    """
    if value is None:
        return None
    if storage_type.is_string:
        if isinstance(value, str):
            return value
        if value == 0 and not isinstance(value, list | dict):
            return ""
        raise ValueError(f"fill_value {shown(value)}")
    dtype = storage_type.dtype.newbyteorder("=")
    is_named_float = dtype.kind == "f" and isinstance(value, str)
    if not is_named_float and not isinstance(value, bool | int | float):
        raise ValueError(f"fill_value {shown(value)}")
    try:
        number = _float_of(value, dtype) if is_named_float else value
        with np.errstate(all="ignore"):
            found = np.array(number).astype(dtype)[()]
    except (ValueError, OverflowError):
        raise ValueError(f"fill_value {shown(value)}") from None
    if dtype.kind != "f" and found != value:
        raise ValueError(f"fill_value {shown(value)}")
    return found


def _float_of(text: str, dtype: np.dtype[Any]) -> Any:
    """Return a float that is written as a word or as its bits."""
    if text.startswith("0x"):
        bits = int(text, 16)
        return np.array(bits, f"u{dtype.itemsize}").view(dtype)[()]
    if text.lower().lstrip("+-") not in ("nan", "infinity"):
        raise ValueError(text)
    return float(text)
