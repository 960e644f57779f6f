"""Documents of arrays, of Zarr v2 and v3: checked, and normalised to one form.

Nothing else knows in which version an array is stored.  Pure: bytes in, value objects out.  Source:
the Zarr v2 storage specification, the Zarr v3 core specification and its codecs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from daf_storage.base import StorageType
from daf_storage.errors import CorruptDataError, FormatError, UnsupportedDataError
from daf_storage.trees._decompress import Codec, is_bounded
from daf_storage.trees._metadata import (
    ArrayMetadata,
    ShardLayout,
    ZarrVersion,
    check_chunk_bytes,
    check_chunks,
    check_item_bytes,
    fill_of,
    lengths_of,
    parse_json,
    remembering,
    separator_of,
    shown,
    to_json,
)
from daf_storage.trees._protocol import ArrayInfo

ARRAY_FILE: Final = ".zarray"
"""The file with the metadata of an array of Zarr v2."""

NODE_FILE: Final = "zarr.json"
"""The file with the metadata of a node of Zarr v3."""

_DTYPE: Final = re.compile(r"[<>|=]?[a-zA-Z?]\d{0,9}")
_MAX_NAMES: Final = 200
_BY_NAME: Final = {kind.value.lower(): kind for kind in StorageType if not kind.is_string}
_TEXT_WIDTH: Final = 4
_TYPES: Final = (
    "Daf has Bool, Int8 to Int64, UInt8 to UInt64, Float32, Float64 and strings"  # as messages say
)


@dataclass(frozen=True, slots=True)
class _Document:
    """What a document says of an array, in whichever version."""

    version: ZarrVersion
    stored: Mapping[str, Any]
    """The document itself."""
    shape: tuple[int, ...]
    outer: tuple[int, ...]
    """Lengths of what is in one file."""
    dtype: np.dtype[Any] | None
    """The elements; None for strings of variable length."""
    codecs: list[Codec]
    """In the order of encoding, of which one makes bytes: ``bytes`` or ``vlen-utf8``."""
    fill_value: Any
    separator: str
    prefix: str = ""
    """What the keys of chunks begin with."""
    is_fortran: bool = False

    @property
    def kind(self) -> StorageType:
        """The type of the elements."""
        found = None if self.dtype is None else StorageType.from_numpy(self.dtype)
        return found or StorageType.STRING

    def elements(self, codecs: list[Codec]) -> np.dtype[Any] | None:
        """Return the elements that codecs make bytes of, if they do nothing else."""
        if self.dtype is None or not self.dtype.itemsize or [c["id"] for c in codecs] != ["bytes"]:
            return None
        endian = codecs[0].get("endian", "little")
        return self.dtype.newbyteorder(endian) if endian in ("little", "big") else None

    def is_plain(self, codecs: list[Codec]) -> bool:
        """Return whether elements are stored as they are in memory, or as plain strings."""
        if self.dtype is None:
            return [codec["id"] for codec in codecs] == ["vlen-utf8"]
        found = self.elements(codecs)
        return found is not None and not self.kind.is_string and found == self.kind.dtype


@remembering
def parsed_v2(data: bytes, what: str) -> ArrayMetadata:
    """Parse a ``.zarray``; ``what`` names the array in messages.

    Raises
    ------
    CorruptDataError
        Not JSON, or not the metadata of an array.
    UnsupportedDataError
        Valid, but of a type, a grid or with an extension that is not read, or pickled.
    """
    stored = parse_json(data, what=f"{what}: {ARRAY_FILE}")
    if stored.get("zarr_format") not in (2, None):
        raise UnsupportedDataError(
            f"{what}: the array is of Zarr format {shown(stored['zarr_format'])}, not 2"
        )
    try:
        filters, order = stored["filters"], stored["order"]
        filters = [] if filters is None else filters
        if not isinstance(filters, list) or order not in ("C", "F"):
            raise TypeError(f"order {shown(order)}, filters {shown(filters)}")
        compressor = stored["compressor"]
        codecs = filters if compressor is None else [*filters, compressor]
        _check_codecs(codecs, what=what)
        dtype = _dtype_v2(stored["dtype"], filters, what=what)
        endian = "big" if dtype is not None and dtype.byteorder == ">" else "little"
        document = _Document(
            version=2,
            stored=stored,
            shape=lengths_of(stored["shape"]),
            outer=lengths_of(stored["chunks"]),
            dtype=dtype,
            codecs=codecs if dtype is None else [{"id": "bytes", "endian": endian}, *codecs],
            fill_value=stored["fill_value"],
            separator=separator_of(stored.get("dimension_separator", ".")),
            is_fortran=order == "F",
        )
        return _metadata(document, what)
    except FormatError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise _malformed(what, ARRAY_FILE, error) from None


@remembering
def parsed_v3(data: bytes, what: str) -> ArrayMetadata | None:
    """Parse a ``zarr.json``; None if it is that of a group.  Errors are those of `parsed_v2`."""
    stored = parse_json(data, what=f"{what}: {NODE_FILE}")
    node_type = stored.get("node_type")
    if node_type == "group":
        return None
    if stored.get("zarr_format") != 3 or node_type != "array":
        raise CorruptDataError(
            f"{what}: {NODE_FILE} is not that of a Zarr v3 array or group: zarr_format is "
            f"{shown(stored.get('zarr_format'))} and node_type is {shown(node_type)}"
        )
    try:
        grid, encoding = _codec(stored["chunk_grid"]), _codec(stored["chunk_key_encoding"])
        if grid["id"] != "regular" or encoding["id"] not in ("default", "v2"):
            raise UnsupportedDataError(
                f"{what}: the chunks are in a {shown(grid['id'])} grid with "
                f"{shown(encoding['id'])} keys; only a 'regular' grid with 'default' keys is read"
            )
        if stored.get("storage_transformers"):
            raise UnsupportedDataError(f"{what}: the array has storage transformers; none are read")
        codecs = _codecs(stored["codecs"])
        if not codecs:
            raise CorruptDataError(f"{what}: {NODE_FILE} has no codecs")
        is_default = encoding["id"] == "default"
        document = _Document(
            version=3,
            stored=stored,
            shape=lengths_of(stored["shape"]),
            outer=lengths_of(grid["chunk_shape"]),
            dtype=_dtype_v3(stored["data_type"], what=what),
            codecs=codecs,
            fill_value=stored["fill_value"],
            separator=separator_of(encoding.get("separator", "/" if is_default else ".")),
            prefix="c" if is_default else "",
        )
        return _metadata(document, what)
    except FormatError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise _malformed(what, NODE_FILE, error) from None


def _malformed(what: str, file: str, error: Exception) -> CorruptDataError:
    return CorruptDataError(f"{what}: {file} is incomplete or malformed ({error!r})")


def _metadata(document: _Document, what: str) -> ArrayMetadata:
    """Return what follows from a document; ``ValueError`` where it contradicts itself."""
    shape, inner, codecs = document.shape, document.outer, document.codecs
    check_chunks(shape, inner, what=what)
    is_exact = all(n in (c, 0) for n, c in zip(shape, inner, strict=True))
    has_plain_chunk = is_exact and not document.is_fortran and document.is_plain(codecs)
    shard = _shard(document)
    compressions, left = _split(codecs)
    shown_instead = _shown_instead(document, len(left))
    is_sharded = codecs[0]["id"] == "sharding_indexed"
    if shard is not None:  # what is read then is its small chunks
        inner = lengths_of(codecs[0]["chunk_shape"])
        compressions, left = _split(_codecs(codecs[0]["codecs"]))
    dtype, kind = document.dtype, document.kind
    item_bytes = 0 if dtype is None else check_item_bytes(dtype.itemsize, what=what)
    check_chunk_bytes(shape, inner, item_bytes, what=what)
    return ArrayMetadata(
        version=document.version,
        info=ArrayInfo(
            shape=shape,
            storage_type=kind,
            chunks=tuple(max(c, 1) for c in inner),
            is_mappable=has_plain_chunk and not kind.is_string,
        ),
        has_plain_chunk=has_plain_chunk,
        fill_value=fill_of(document.fill_value, kind),
        separator=document.separator,
        prefix=document.prefix,
        shard=shard,
        item_bytes=item_bytes,
        compressions=tuple(compressions),
        is_sharded=is_sharded,
        has_filters=len(left) > 1 or left[0]["id"] not in ("bytes", "vlen-utf8"),
        chunk_dtype=document.elements(left),
        is_fortran=document.is_fortran,
        has_plain_strings=len(shape) <= 1 and dtype is None and document.is_plain(left),
        document=shown_instead,
    )


def _split(codecs: list[Codec]) -> tuple[list[Codec], list[Codec]]:
    """Return what is undone within bounds, in this order, and the codecs that are left."""
    count = len(codecs)
    while count > 1 and is_bounded(codecs[count - 1]):
        count -= 1
    return codecs[count:][::-1], codecs[:count]


def _shard(document: _Document) -> ShardLayout | None:
    """Return how a file of small chunks is made up; None for anything out of the common.

    What is out of the common is left to zarr-python.
    """
    shape, outer, sharding = document.shape, document.outer, document.codecs[0]
    is_text = document.kind.is_string
    is_fixed = is_text and document.dtype is not None
    if sharding["id"] != "sharding_indexed" or len(document.codecs) != 1 or is_fixed:
        return None
    try:
        inner = lengths_of(sharding["chunk_shape"])
        first, *compressions = _codecs(sharding["codecs"])
        index, *checksums = _codecs(sharding["index_codecs"])
        location = sharding.get("index_location", "end")
    except (KeyError, TypeError, ValueError):
        return None
    if len(inner) != len(shape) or 0 in inner or 0 in shape or not shape:
        return None
    is_single = all(n <= c for n, c in zip(shape, outer, strict=True))
    is_whole = is_single or not any(o % i for o, i in zip(outer, inner, strict=True))
    is_decoded = document.is_plain([first]) and all(is_bounded(codec) for codec in compressions)
    is_index_plain = index["id"] == "bytes" and index.get("endian") == "little"
    names = [codec["id"] for codec in checksums]
    is_known = is_index_plain and names in ([], ["crc32c"]) and location in ("start", "end")
    if not (is_whole and is_decoded and is_known) or (is_text and len(shape) > 1):
        return None
    return ShardLayout(
        grid=tuple(math.ceil(n / c) for n, c in zip(outer, inner, strict=True)),
        index_at_start=location == "start",
        has_checksum=bool(checksums),
    )


def _shown_instead(document: _Document, count: int) -> bytes | None:
    """Return metadata for zarr-python in place of the stored ones; None if these will do.

    With so many codecs, of which the rest is undone before; and with the shape of a shard rounded
    up to whole chunks, where zarr-python would refuse it.
    """
    stored, codecs = document.stored, document.codecs
    changes: dict[str, Any] = {}
    if count < len(codecs) and document.version == 3:
        changes["codecs"] = stored["codecs"][:count]
    elif count < len(codecs):
        filters = codecs[:count] if document.dtype is None else codecs[1:count]
        changes.update(compressor=None, filters=filters or None)
    try:
        is_sharded = codecs[0]["id"] == "sharding_indexed"
        inner = lengths_of(codecs[0]["chunk_shape"]) if is_sharded else ()
    except (KeyError, ValueError):
        inner = ()
    if inner and len(inner) == len(document.outer) and 0 not in inner:
        rounded = [-(-n // c) * c for n, c in zip(document.outer, inner, strict=True)]
        if rounded != list(document.outer):
            grid = {"name": "regular", "configuration": {"chunk_shape": rounded}}
            changes["chunk_grid"] = grid
    if not changes:
        return None
    return to_json({**stored, **({"attributes": {}} if document.version == 3 else {}), **changes})


# The parts of documents.


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


def _check_codecs(codecs: list[Any], *, what: str) -> None:
    """Raise unless these are codecs of Zarr v2 that may be tried."""
    for codec in codecs:
        if not isinstance(codec, dict) or not isinstance(codec.get("id"), str):
            raise CorruptDataError(
                f"{what}: {ARRAY_FILE} has a codec without an id: {shown(codec)}"
            )
        if codec["id"] == "pickle":
            raise UnsupportedDataError(
                f"{what}: the array holds pickled Python objects, which can run any program when "
                "loaded; they are never read. Rewrite it as numbers or strings"
            )


def _dtype_v2(dtype: Any, filters: list[Any], *, what: str) -> np.dtype[Any] | None:
    if dtype == "|O":
        if filters and filters[0]["id"] == "vlen-utf8":
            return None
        used = ", ".join(codec["id"] for codec in filters) or "none"
        raise UnsupportedDataError(
            f"{what}: the array holds Python objects with filters {used[:_MAX_NAMES]}; "
            "only vlen-utf8 strings are read"
        )
    if isinstance(dtype, str) and _DTYPE.fullmatch(dtype):
        with suppress(TypeError, ValueError):
            found = np.dtype(dtype)
            if StorageType.from_numpy(found) is not None:
                return found
    raise UnsupportedDataError(f"{what}: the array has dtype {shown(dtype)}; {_TYPES}")


def _dtype_v3(data_type: Any, *, what: str) -> np.dtype[Any] | None:
    if data_type == "string":
        return None
    if isinstance(data_type, str) and data_type in _BY_NAME:
        return _BY_NAME[data_type].dtype
    name = data_type.get("name") if isinstance(data_type, dict) else None
    if name not in ("fixed_length_utf32", "null_terminated_bytes"):
        raise UnsupportedDataError(
            f"{what}: the array has the data type {shown(data_type)}; {_TYPES}"
        )
    size_bytes = _codec(data_type)["length_bytes"]
    width = _TEXT_WIDTH if name == "fixed_length_utf32" else 1
    if type(size_bytes) is not int or size_bytes < 0 or size_bytes % width:
        raise ValueError(f"length_bytes {shown(size_bytes)}")
    check_item_bytes(size_bytes, what=what)
    return np.dtype(f"<U{size_bytes // width}" if width > 1 else f"|S{size_bytes}")
