"""Array documents of Zarr v3: what an array's ``zarr.json`` says, checked and made a value object.

Pure: bytes that were parsed as JSON in, value objects out.  Source: the Zarr v3 core specification
and its codecs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from daf_storage.base import StorageType
from daf_storage.errors import CorruptDataError, UnsupportedDataError
from daf_storage.trees._decompress import is_bounded
from daf_storage.trees._metadata import (
    ArrayMetadata,
    ShardLayout,
    check_chunk_bytes,
    check_chunks,
    check_item_bytes,
    fill_of,
    lengths_of,
    separator_of,
    shown,
    to_json,
)
from daf_storage.trees._protocol import ArrayInfo

NODE_FILE: Final = "zarr.json"
"""The file with the metadata of a node."""

_COMPRESSIONS: Final = ("blosc", "zstd", "gzip")
_FOREIGN_STRINGS: Final = ("fixed_length_utf32", "null_terminated_bytes")
_BY_NAME: Final = {"string" if kind.is_string else kind.value.lower(): kind for kind in StorageType}


def parse_array(document: Mapping[str, Any], *, what: str) -> ArrayMetadata:
    """Parse the document of an array; ``what`` names it in messages.

    Raises
    ------
    CorruptDataError
        Not the metadata of a Zarr v3 array.
    UnsupportedDataError
        Valid, but of a type, a grid or with an extension that is not read.
    """
    asked = _Asked.of(document, what=what)
    shape, outer, codecs, data_type = asked.shape, asked.outer, asked.codecs, asked.data_type
    check_chunks(shape, outer, what=what)
    kind = _storage_type(data_type, what=what)
    try:
        fill = fill_of(asked.fill_value, kind)
        item_bytes = _item_bytes(data_type, kind)
    except (KeyError, ValueError) as error:
        raise _malformed(what, error) from None
    is_exact = all(n in (c, 0) for n, c in zip(shape, outer, strict=True))
    is_plain = is_exact and _is_serializer(codecs, kind, data_type)
    shard = _shard(shape, outer, codecs, kind) if _is_native(data_type) else None
    compressions, left = _split(codecs)
    document_left, inner = left, outer
    if shard is not None:  # what is read then is its small chunks
        inner = lengths_of(codecs[0][1]["chunk_shape"])
        compressions, left = _split(_codecs(codecs[0][1]["codecs"]))
    check_chunk_bytes(shape, inner, check_item_bytes(item_bytes, what=what), what=what)
    return ArrayMetadata(
        version=3,
        info=ArrayInfo(
            shape=shape,
            storage_type=kind,
            chunks=tuple(max(c, 1) for c in inner),
            is_mappable=is_plain and not kind.is_string,
        ),
        has_plain_chunk=is_plain,
        fill_value=fill,
        separator=asked.separator,
        prefix=asked.prefix,
        shard=shard,
        item_bytes=item_bytes,
        compressions=tuple(compressions),
        is_sharded=document_left[0][0] == "sharding_indexed",
        has_filters=len(left) > 1 or left[0][0] not in ("bytes", "vlen-utf8"),
        chunk_dtype=_chunk_dtype(left, kind, data_type, item_bytes),
        has_plain_strings=(len(shape) <= 1)
        and kind.is_string
        and _is_serializer(left, kind, data_type),
        document=_shown_instead(document, outer, codecs, document_left),
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a document asks a reader to understand: a regular grid, and codecs."""

    shape: tuple[int, ...]
    data_type: Any
    outer: tuple[int, ...]
    """Lengths of what is in one file."""
    separator: str
    prefix: str
    """What the keys of chunks begin with."""
    codecs: list[tuple[str, Mapping[str, Any]]]
    """Names and options; there is at least one."""
    fill_value: Any

    @classmethod
    def of(cls, document: Mapping[str, Any], *, what: str) -> _Asked:
        """Check a document as far as that is possible without its type; errors as above."""
        if document.get("zarr_format") != 3 or document.get("node_type") != "array":
            raise CorruptDataError(
                f"{what}: {NODE_FILE} is not that of a Zarr v3 array or group: zarr_format is "
                f"{shown(document.get('zarr_format'))} and node_type is "
                f"{shown(document.get('node_type'))}"
            )
        try:
            shape = lengths_of(document["shape"])
            data_type = document["data_type"]
            grid, grid_options = _named(document["chunk_grid"])
            outer = lengths_of(grid_options["chunk_shape"]) if grid == "regular" else ()
            encoding, encoding_options = _named(document["chunk_key_encoding"])
            default_separator = "/" if encoding == "default" else "."
            separator = separator_of(encoding_options.get("separator", default_separator))
            codecs = _codecs(document["codecs"])
            fill_value = document["fill_value"]
        except (KeyError, TypeError, ValueError) as error:
            raise _malformed(what, error) from None
        if grid != "regular" or encoding not in ("default", "v2"):
            raise UnsupportedDataError(
                f"{what}: the chunks are in a {shown(grid)} grid with {shown(encoding)} keys; only "
                "a 'regular' grid with 'default' keys is read"
            )
        if document.get("storage_transformers"):
            raise UnsupportedDataError(f"{what}: the array has storage transformers; none are read")
        if not codecs:
            raise CorruptDataError(f"{what}: {NODE_FILE} has no codecs")
        prefix = "c" if encoding == "default" else ""
        return cls(shape, data_type, outer, separator, prefix, codecs, fill_value)


def _named(value: Any) -> tuple[str, Mapping[str, Any]]:
    """Return the name and the options of a codec or another extension point."""
    if isinstance(value, str):
        return value, {}
    if isinstance(value, dict):
        name, options = value.get("name"), value.get("configuration", {})
        if isinstance(name, str) and isinstance(options, dict):
            return name, options
    raise ValueError(f"the extension {shown(value)}")


def _codecs(value: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Return names and options of a list of codecs; ``TypeError`` if it is none."""
    if not isinstance(value, list):
        raise TypeError(f"codecs {shown(value)}")
    return [_named(codec) for codec in value]


def _malformed(what: str, error: Exception) -> CorruptDataError:
    return CorruptDataError(f"{what}: {NODE_FILE} is incomplete or malformed ({error!r})")


def _item_bytes(data_type: Any, kind: StorageType) -> int:
    """Return the size of an element; 0 for strings of variable length."""
    if not kind.is_string:
        return kind.dtype.itemsize
    if _is_native(data_type):
        return 0
    _, options = _named(data_type)
    size_bytes = options["length_bytes"]
    if type(size_bytes) is not int or size_bytes < 0:
        raise ValueError(f"length_bytes {shown(size_bytes)}")
    return size_bytes


def _storage_type(data_type: Any, *, what: str) -> StorageType:
    if _is_native(data_type):
        return _BY_NAME[data_type]
    if isinstance(data_type, dict) and data_type.get("name") in _FOREIGN_STRINGS:
        return StorageType.STRING
    raise UnsupportedDataError(
        f"{what}: the array has the data type {shown(data_type)}; Daf has Bool, Int8 to Int64, "
        "UInt8 to UInt64, Float32, Float64 and strings"
    )


def _is_native(data_type: Any) -> bool:
    return isinstance(data_type, str) and data_type in _BY_NAME


def _is_serializer(
    codecs: list[tuple[str, Mapping[str, Any]]], kind: StorageType, data_type: Any
) -> bool:
    """Return whether the elements are stored as they are in memory, or as plain strings."""
    if len(codecs) != 1 or not _is_native(data_type):
        return False
    name, options = codecs[0]
    if kind.is_string:
        return name == "vlen-utf8"
    is_little = options.get("endian", "little") == "little"
    return name == "bytes" and (is_little or kind.dtype.itemsize == 1)


def _chunk_dtype(
    left: list[tuple[str, Mapping[str, Any]]], kind: StorageType, data_type: Any, item_bytes: int
) -> np.dtype[Any] | None:
    """Return the elements of a chunk; None if they are not simply bytes of a fixed number."""
    if len(left) != 1 or left[0][0] != "bytes" or not item_bytes:
        return None
    endian = left[0][1].get("endian", "little")
    if endian not in ("little", "big"):
        return None
    if not kind.is_string:
        return kind.dtype.newbyteorder("<" if endian == "little" else ">")
    if data_type["name"] == "null_terminated_bytes":
        return np.dtype(f"|S{item_bytes}")
    return np.dtype(f"{'<' if endian == 'little' else '>'}U{item_bytes // 4}")


def _shard(
    shape: tuple[int, ...],
    outer: tuple[int, ...],
    codecs: list[tuple[str, Mapping[str, Any]]],
    kind: StorageType,
) -> ShardLayout | None:
    """Return how a file of small chunks is made up; None for anything out of the common.

    What is out of the common is left to zarr-python.
    """
    name, options = codecs[0]
    if name != "sharding_indexed" or len(codecs) != 1 or not shape or 0 in shape:
        return None
    try:
        inner = lengths_of(options["chunk_shape"])
        codecs_within = _codecs(options["codecs"])
        index_codecs = _codecs(options["index_codecs"])
        location = options.get("index_location", "end")
    except (KeyError, TypeError, ValueError):
        return None
    if len(inner) != len(shape) or 0 in inner:
        return None
    is_single = all(n <= c for n, c in zip(shape, outer, strict=True))
    if not is_single and any(o % i for o, i in zip(outer, inner, strict=True)):
        return None
    named = "string" if kind.is_string else ""
    if (kind.is_string and len(shape) > 1) or not _is_serializer(
        codecs_within[:1], kind, named or "int8"
    ):
        return None
    compressions = codecs_within[1:]
    if len(compressions) > 1 or any(c[0] not in _COMPRESSIONS for c in compressions):
        return None
    names = [codec[0] for codec in index_codecs]
    is_index_plain = names[:1] == ["bytes"] and index_codecs[0][1].get("endian") == "little"
    if not is_index_plain or names[1:] not in ([], ["crc32c"]) or location not in ("start", "end"):
        return None
    return ShardLayout(
        grid=tuple(math.ceil(n / c) for n, c in zip(outer, inner, strict=True)),
        index_at_start=location == "start",
        has_checksum=len(names) > 1,
    )


def _split(
    codecs: list[tuple[str, Mapping[str, Any]]],
) -> tuple[list[Mapping[str, Any]], list[tuple[str, Mapping[str, Any]]]]:
    """Return what is undone within bounds, in this order, and the codecs that are left."""
    left = list(codecs)
    compressions: list[Mapping[str, Any]] = []
    while len(left) > 1:
        name, options = left[-1]
        codec = {**options, "id": name.removeprefix("numcodecs.")}
        if not is_bounded(codec):
            break
        compressions.append(codec)
        left.pop()
    return compressions, left


def _shown_instead(
    document: Mapping[str, Any],
    outer: tuple[int, ...],
    codecs: list[tuple[str, Mapping[str, Any]]],
    left: list[tuple[str, Mapping[str, Any]]],
) -> bytes | None:
    """Return metadata for zarr-python in place of the stored ones; None if these will do.

    Without the codecs that are undone before; and with the shape of a shard rounded up to whole
    chunks, where zarr-python would refuse it.
    """
    changes: dict[str, Any] = {}
    if len(left) < len(codecs):
        changes["codecs"] = document["codecs"][: len(left)]
    name, options = codecs[0]
    try:
        inner = lengths_of(options["chunk_shape"]) if name == "sharding_indexed" else ()
    except (KeyError, ValueError):
        inner = ()
    if inner and len(inner) == len(outer) and 0 not in inner:
        rounded = [-(-n // c) * c for n, c in zip(outer, inner, strict=True)]
        if rounded != list(outer):
            grid = {"name": "regular", "configuration": {"chunk_shape": rounded}}
            changes["chunk_grid"] = grid
    kept = {key: value for key, value in document.items() if key != "attributes"}
    return to_json({**kept, "attributes": {}, **changes}) if changes else None
