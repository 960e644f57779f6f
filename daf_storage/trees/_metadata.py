"""The metadata of arrays, of Zarr v2 and v3: checked, and normalised to one document.

Nothing else knows in which version an array is stored.  Documents are untrusted: any JSON value at
any place becomes a value object or an error of ours.  Source: the Zarr v2 storage specification,
the Zarr v3 core specification and its codecs.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import math
import posixpath
import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar

import numpy as np

from daf_storage.base import StorageType
from daf_storage.errors import (
    CorruptDataError,
    DafError,
    FormatError,
    UnsupportedDataError,
    with_message,
)
from daf_storage.stores import Snapshot
from daf_storage.trees._stored_array import ArrayInfo

Codec = Mapping[str, Any]
"""Name (``id``) and options of a codec."""

ZarrVersion: TypeAlias = Literal[2, 3]
"""The versions of the Zarr format."""

ARRAY_FILE: Final = ".zarray"
"""The file with the metadata of an array of Zarr v2."""

NODE_FILE: Final = "zarr.json"
"""The file with the metadata of a node of Zarr v3."""

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
_DTYPE: Final = re.compile(r"[<>|=]?[a-zA-Z?]\d{0,9}")
_BY_NAME: Final = {kind.value.lower(): kind for kind in StorageType if not kind.is_string}
_TEXT_WIDTH: Final = 4
_TYPES: Final = (
    "Daf has Bool, Int8 to Int64, UInt8 to UInt64, Float32, Float64 and strings"  # as messages say
)


@dataclass(frozen=True, slots=True)
class ChunkEncoding:
    """What the bytes of a chunk are."""

    codecs: tuple[Codec, ...]
    """What is undone, in this order."""
    dtype: np.dtype[Any] | None
    """The elements that are left; None for strings as ``vlen-utf8`` has them."""
    order: tuple[int, ...] | None = None
    """The dimensions in the order in which the elements lie; None if that is their own."""


@dataclass(frozen=True, slots=True)
class ShardLayout:
    """How a file of many small chunks is made up: an index, and each chunk compressed by itself."""

    grid: tuple[int, ...]
    """How many chunks there are along each dimension."""
    index_at_start: bool
    """Whether the index comes before the chunks; if not, it comes after them."""
    has_checksum: bool
    """Whether a CRC-32C of the index follows it."""


@dataclass(frozen=True, slots=True)
class ArrayMetadata:
    """The parsed metadata of an array."""

    info: ArrayInfo
    """Shape, element type and chunks."""
    encoding: ChunkEncoding
    """What the bytes of a chunk are."""
    fill_value: Any
    """What missing chunks hold; None if they must not be missing."""
    has_plain_chunk: bool = False
    """Whether there is one chunk, neither compressed nor filtered (but for strings)."""
    separator: str = "."
    """What stands between the numbers of a chunk key."""
    prefix: str = ""
    """What a chunk key begins with."""
    is_single_file: bool = False
    """Whether that is the name of the one file that it has."""
    shard: ShardLayout | None = None
    """How its files are made up, if they are of small chunks; ``info`` has the shape of these."""

    @property
    def item_bytes(self) -> int:
        """Size of a decoded element; 0 where that varies from element to element."""
        return 0 if self.encoding.dtype is None else self.encoding.dtype.itemsize

    def chunk_key(self, position: tuple[int, ...]) -> str:
        """Return the key of the file at a position of the grid."""
        if self.is_single_file or not position:
            return self.prefix or "0"
        start = f"{self.prefix}{self.separator}" if self.prefix else ""
        return start + self.separator.join(map(str, position))


# Documents.


def key_below(path: str, name: str) -> str:
    """Return the key of a file of a node; joined for each document of each node.

    >>> key_below("", ".zarray"), key_below("nzval", ".zarray")
    ('.zarray', 'nzval/.zarray')
    """
    return f"{path}/{name}" if path else name


def read_document(
    snapshot: Snapshot, key: str, *, what: str, most_bytes: int | None = None
) -> bytes | None:
    """Return a metadata document; None if it is absent.

    Parameters
    ----------
    most_bytes
        How long it may be; by default, that of the root longer than the others.

    Raises
    ------
    CorruptDataError
        It is larger than any metadata are.
    """
    limit = most_bytes or (MAX_DOCUMENT_BYTES if "/" in key else MAX_CONSOLIDATED_BYTES)
    size_bytes = snapshot.size(key)
    if size_bytes is not None and size_bytes > limit:
        raise CorruptDataError(
            f"{what}: {posixpath.basename(key)} has {size_bytes:,} bytes, and metadata have no "
            f"more than {limit:,}; write the array again"
        )
    return snapshot.read(key)


def remembering(
    parse: Callable[..., _T], *, most: int = 1 << 12, most_bytes: int = 1 << 12
) -> Callable[..., _T]:
    """Return a function that parses equal documents once: each query opens the same arrays.

    Parameters
    ----------
    most, most_bytes
        How many documents are remembered, and how long these are.
    """
    remembered = functools.lru_cache(maxsize=most)(parse)
    return lambda data, *rest: (remembered if len(data) <= most_bytes else parse)(data, *rest)


def parse_json(data: bytes, *, what: str) -> dict[str, Any]:
    """Parse a JSON object."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptDataError(f"{what} is not JSON ({error}); write it again") from None
    if not isinstance(document, dict):
        raise CorruptDataError(f"{what} holds no JSON object")
    return document


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


# Arrays.


@remembering
def _parsed(data: bytes, version: ZarrVersion) -> ArrayMetadata | None:
    """Parse the metadata of an array; messages do not say which."""
    file = ARRAY_FILE if version == 2 else NODE_FILE
    try:
        return (_parsed_v2 if version == 2 else _parsed_v3)(parse_json(data, what=file))
    except FormatError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptDataError(f"{file} is incomplete or malformed ({error!r})") from None


def parsed_array(data: bytes, what: str, version: ZarrVersion) -> ArrayMetadata | None:
    """Parse a ``.zarray`` or a ``zarr.json``; None if it is that of a group.

    Parameters
    ----------
    what
        The array as messages name it.

    Raises
    ------
    CorruptDataError
        Not JSON, or not the metadata of an array.
    UnsupportedDataError
        Valid, but of a type, a grid or with an extension that is not read, or pickled.
    """
    try:
        return _parsed(data, version)
    except DafError as error:
        raise with_message(error, f"{what}: {error}") from None


def _parsed_v2(stored: dict[str, Any]) -> ArrayMetadata:
    if stored.get("zarr_format") not in (2, None):
        raise UnsupportedDataError(
            f"the array is of Zarr format {shown(stored['zarr_format'])}, not 2"
        )
    filters, order = stored["filters"], stored["order"]
    filters = [] if filters is None else filters
    if not isinstance(filters, list) or order not in ("C", "F"):
        raise TypeError(f"order {shown(order)}, filters {shown(filters)}")
    compressor = stored["compressor"]
    codecs = filters if compressor is None else [*filters, compressor]
    _check_codecs(codecs)
    dtype = _dtype_v2(stored["dtype"], filters)
    shape, chunks = lengths_of(stored["shape"]), lengths_of(stored["chunks"])
    is_by_columns = order == "F" and len(shape) > 1
    encoding = ChunkEncoding(
        tuple(reversed(codecs[dtype is None :])),
        dtype,
        tuple(reversed(range(len(shape)))) if is_by_columns else None,
    )
    keys = ("", _separator_of(stored.get("dimension_separator", ".")))
    fill_value = stored["fill_value"]
    if fill_value is None and not shape:  # zarr-python 3 does not write a chunk of one zero
        fill_value = 0
    return _metadata(shape, chunks, encoding, fill_value, keys)


def _parsed_v3(stored: dict[str, Any]) -> ArrayMetadata | None:
    node_type = stored.get("node_type")
    if node_type == "group":
        return None
    if stored.get("zarr_format") != 3 or node_type != "array":
        raise CorruptDataError(
            f"{NODE_FILE} is not that of a Zarr v3 array or group: zarr_format is "
            f"{shown(stored.get('zarr_format'))} and node_type is {shown(node_type)}"
        )
    grid, keys = _codec(stored["chunk_grid"]), _codec(stored["chunk_key_encoding"])
    if grid["id"] != "regular" or keys["id"] not in ("default", "v2"):
        raise UnsupportedDataError(
            f"the chunks are in a {shown(grid['id'])} grid with "
            f"{shown(keys['id'])} keys; only a 'regular' grid with 'default' keys is read"
        )
    if stored.get("storage_transformers"):
        raise UnsupportedDataError("the array has storage transformers; none are read")
    shape, chunks = lengths_of(stored["shape"]), lengths_of(grid["chunk_shape"])
    dtype = _dtype_v3(stored["data_type"])
    codecs = _codecs(stored["codecs"])
    if not codecs:
        raise CorruptDataError(f"{NODE_FILE} has no codecs")
    shard = None
    if codecs[0]["id"] == "sharding_indexed":
        check_chunks(shape, chunks)
        shard, chunks, codecs = _shard(shape, chunks, codecs)
    encoding = _encoding(codecs, dtype, len(shape))
    prefix, separator = ("c", "/") if keys["id"] == "default" else ("", ".")
    named = (prefix, _separator_of(keys.get("separator", separator)))
    return _metadata(shape, chunks, encoding, stored["fill_value"], named, shard=shard)


def _metadata(
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    encoding: ChunkEncoding,
    fill_value: Any,
    keys: tuple[str, str],
    *,
    shard: ShardLayout | None = None,
) -> ArrayMetadata:
    """Return what follows from a document; ``ValueError`` where it contradicts itself.

    Parameters
    ----------
    keys
        What the keys of chunks begin with, and what stands between their numbers.
    """
    dtype = encoding.dtype
    kind = StorageType.STRING if dtype is None else StorageType.of(dtype)
    check_chunks(shape, chunks)
    item_bytes = 0 if dtype is None else dtype.itemsize
    if item_bytes > MAX_ITEM_BYTES:
        raise UnsupportedDataError(
            f"each element has {item_bytes:,} bytes, and at most {MAX_ITEM_BYTES:,} are "
            "read; store such strings with variable lengths"
        )
    check_chunk_bytes(shape, chunks, item_bytes)
    is_single = all(n in (c, 0) for n, c in zip(shape, chunks, strict=True)) and shard is None
    is_stored_as_is = dtype is None or (not kind.is_string and dtype == kind.dtype)
    has_plain_chunk = is_single and is_stored_as_is and not (encoding.codecs or encoding.order)
    return ArrayMetadata(
        info=ArrayInfo(
            shape=shape,
            storage_type=kind,
            chunks=tuple(max(c, 1) for c in chunks),
            is_mappable=has_plain_chunk and not kind.is_string,
        ),
        encoding=encoding,
        fill_value=fill_of(fill_value, kind, dtype),
        has_plain_chunk=has_plain_chunk,
        separator=keys[1],
        prefix=keys[0],
        shard=shard,
    )


def _encoding(codecs: list[Codec], dtype: np.dtype[Any] | None, rank: int) -> ChunkEncoding:
    """Return what codecs of Zarr v3 make of a chunk, given in the order of encoding."""
    serializer = "vlen-utf8" if dtype is None else "bytes"
    names = [codec["id"] for codec in codecs]
    if serializer not in names:
        raise UnsupportedDataError(
            f"its elements are stored by the codecs {shown(names)}, and {serializer!r} is "
            "needed among them; write it again"
        )
    at = names.index(serializer)
    _check_codecs(codecs)
    order: tuple[int, ...] | None = None
    filters = []
    for codec in codecs[:at]:
        if codec["id"] == "transpose":
            axes = _axes_of(codec["order"], rank)
            order = axes if order is None else tuple(order[axis] for axis in axes)
        else:
            filters.append(codec)
    if dtype is not None and (endian := codecs[at].get("endian", "little")) != "little":
        if endian != "big" or filters:
            raise UnsupportedDataError(
                f"the order of its bytes is {shown(endian)}, and 'little' is read"
            )
        dtype = dtype.newbyteorder(">")
    return ChunkEncoding(tuple(reversed([*filters, *codecs[at + 1 :]])), dtype, order)


def _axes_of(value: Any, rank: int) -> tuple[int, ...]:
    """Return an order of dimensions; ``ValueError`` if it is none.

    >>> _axes_of("C", 2), _axes_of("F", 2), _axes_of([1, 0], 2)
    ((0, 1), (1, 0), (1, 0))
    """
    if value in ("C", "F"):  # of writers before Zarr v3 was settled
        return tuple(range(rank) if value == "C" else reversed(range(rank)))
    axes = lengths_of(value)
    if sorted(axes) != list(range(rank)):
        raise ValueError(f"order {shown(value)}")
    return axes


def _shard(
    shape: tuple[int, ...], outer: tuple[int, ...], codecs: list[Codec]
) -> tuple[ShardLayout, tuple[int, ...], list[Codec]]:
    """Return how a file of small chunks is made up, and the shape and the codecs of these."""
    inner = lengths_of(codecs[0]["chunk_shape"])
    index, *checksums = _codecs(codecs[0]["index_codecs"])
    location = codecs[0].get("index_location", "end")
    is_plain = index["id"] == "bytes" and index.get("endian", "little") == "little"
    names = [codec["id"] for codec in checksums]
    if len(inner) != len(shape) or 0 in inner or location not in ("start", "end"):
        raise ValueError(f"chunk_shape {shown(list(inner))}, index_location {shown(location)}")
    if len(codecs) != 1 or not is_plain or names not in ([], ["crc32c"]):
        raise UnsupportedDataError(
            f"its small chunks are stored by the codecs {shown(codecs)}; only an index of "
            "plain numbers, and nothing around all of it, is read"
        )
    is_single = all(n <= c for n, c in zip(shape, outer, strict=True))
    if not is_single and any(o % i for o, i in zip(outer, inner, strict=True)):
        raise ValueError(f"chunks {shown(list(inner))} in files of {shown(list(outer))}")
    grid = tuple(max(math.ceil(n / c), 1) for n, c in zip(outer, inner, strict=True))
    layout = ShardLayout(grid, index_at_start=location == "start", has_checksum=bool(checksums))
    return layout, inner, _codecs(codecs[0]["codecs"])


# The parts of documents.


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


def check_chunks(shape: tuple[int, ...], chunks: tuple[int, ...]) -> None:
    """Raise unless chunks of this shape can make up an array of that one."""
    if len(shape) != len(chunks):
        raise CorruptDataError(f"shape {list(shape)} and chunks {list(chunks)} differ in length")
    if any(n > 0 and c == 0 for n, c in zip(shape, chunks, strict=True)):
        raise CorruptDataError(
            f"chunks {list(chunks)} are empty, and the shape {list(shape)} is not"
        )


def check_chunk_bytes(shape: tuple[int, ...], chunks: tuple[int, ...], item_bytes: int) -> None:
    """Raise if a chunk is much larger than the whole array, so that to decode it is absurd."""
    item_bytes = item_bytes or _LENGTH_BYTES
    size_bytes = math.prod(chunks) * item_bytes
    if size_bytes > max(math.prod(shape) * item_bytes, _MAX_CHUNK_BYTES):
        raise UnsupportedDataError(
            f"a chunk of shape {list(chunks)} would have {size_bytes:,} bytes, and the "
            f"whole array of shape {list(shape)} has fewer; write it in smaller chunks"
        )


def _separator_of(value: Any) -> str:
    """Return what separates the numbers of a chunk key; ``ValueError`` if it is none."""
    if value not in (".", "/"):
        raise ValueError(f"separator {shown(value)}")
    return str(value)


def fill_of(value: Any, storage_type: StorageType, stored: np.dtype[Any] | None = None) -> Any:
    """Return what missing chunks hold, in the array's type; None if they must not be missing.

    ``ValueError`` if it is no such value.

    Parameters
    ----------
    stored
        The type of strings of a fixed size: those of bytes are written in base 64.

    Examples
    --------
    >>> fill_of("NaN", StorageType.FLOAT32)
    np.float32(nan)
    >>> stored = "0x7fc00001", "0x3fc00000", "-Infinity"  # Zarr v3 has NaNs of all kinds by bits
    >>> found = np.array([fill_of(each, StorageType.FLOAT32) for each in stored], "f4")
    >>> [hex(bits) for bits in found.view("u4")]
    ['0x7fc00001', '0x3fc00000', '0xff800000']
    >>> fill_of("0xfff0000000000000", StorageType.FLOAT64)
    np.float64(-inf)
    """
    if value is None:
        return None
    if storage_type.is_string:
        if isinstance(value, str):
            is_bytes = stored is not None and stored.kind == "S"
            return base64.b64decode(value).decode() if is_bytes else value
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


def _codec(value: Any) -> Codec:
    """Return the name and the options of a codec or another extension point of Zarr v3."""
    options: Any = {}
    name = value
    if isinstance(value, dict):
        name, options = value.get("name"), value.get("configuration", {})
    if not isinstance(name, str) or not isinstance(options, dict):
        raise ValueError(f"the extension {shown(value)}")  # noqa: TRY004 - as for any other value
    return {**options, "id": name.removeprefix("numcodecs.")}


def _codecs(value: Any) -> list[Codec]:
    """Return a list of codecs of Zarr v3; ``TypeError`` if it is none."""
    if not isinstance(value, list):
        raise TypeError(f"codecs {shown(value)}")
    return [_codec(codec) for codec in value]


def _check_codecs(codecs: list[Any]) -> None:
    """Raise unless these are codecs that may be tried."""
    for codec in codecs:
        if not isinstance(codec, dict) or not isinstance(codec.get("id"), str):
            raise CorruptDataError(f"{ARRAY_FILE} has a codec without an id: {shown(codec)}")
        if codec["id"] == "pickle":
            raise UnsupportedDataError(
                "the array holds pickled Python objects, which can run any program when "
                "loaded; they are never read. Rewrite it as numbers or strings"
            )


def _dtype_v2(dtype: Any, filters: list[Any]) -> np.dtype[Any] | None:
    if dtype == "|O":
        if filters and filters[0]["id"] == "vlen-utf8":
            return None
        used = shown(", ".join(codec["id"] for codec in filters)) if filters else "none"
        raise UnsupportedDataError(
            f"the array holds Python objects with filters {used}; only vlen-utf8 strings are read"
        )
    if isinstance(dtype, str) and _DTYPE.fullmatch(dtype):
        with contextlib.suppress(TypeError, ValueError):
            found = np.dtype(dtype)
            if StorageType.from_numpy(found) is not None:
                return found
    raise UnsupportedDataError(f"the array has dtype {shown(dtype)}; {_TYPES}")


def _dtype_v3(data_type: Any) -> np.dtype[Any] | None:
    if data_type == "string":
        return None
    if isinstance(data_type, str) and data_type in _BY_NAME:
        return _BY_NAME[data_type].dtype
    name = data_type.get("name") if isinstance(data_type, dict) else None
    if name not in ("fixed_length_utf32", "null_terminated_bytes"):
        raise UnsupportedDataError(f"the array has the data type {shown(data_type)}; {_TYPES}")
    size_bytes = _codec(data_type)["length_bytes"]
    width = _TEXT_WIDTH if name == "fixed_length_utf32" else 1
    if type(size_bytes) is not int or size_bytes < 0 or size_bytes % width:
        raise ValueError(f"length_bytes {shown(size_bytes)}")

    return np.dtype(f"<U{size_bytes // width}" if width > 1 else f"|S{size_bytes}")
