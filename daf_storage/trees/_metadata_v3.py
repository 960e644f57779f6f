"""The JSON documents of Zarr v3: ``zarr.json``, the one of the root with all others inline.

Pure, but for looking documents up: bytes in, value objects out, and back.  Source: the Zarr v3 core
specification and its codecs; what is written follows docs/reference/format.md to the letter.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from daf_storage.base import Packing, StorageType
from daf_storage.errors import (
    CorruptDataError,
    DafError,
    FormatError,
    ReadOnlyError,
    UnsupportedDataError,
)
from daf_storage.stores import Snapshot
from daf_storage.trees._decompress import is_bounded
from daf_storage.trees._metadata import (
    ArrayMetadata,
    ShardLayout,
    ZarrVersion,
    check_chunk_bytes,
    check_chunks,
    check_item_bytes,
    compact,
    fill_of,
    key_below,
    lengths_of,
    parse_json,
    read_document,
    remembering,
    separator_of,
    shown,
    to_json,
)
from daf_storage.trees._protocol import ArrayInfo, NodeKind

NODE_FILE: Final = "zarr.json"

_SMALL_BYTES: Final = 1 << 12
_LARGE_BYTES: Final = 1 << 22
_GROUP: Final = {"zarr_format": 3, "node_type": "group"}
_LITTLE: Final = {"name": "bytes", "configuration": {"endian": "little"}}
_VLEN_UTF8: Final = {"name": "vlen-utf8", "configuration": {}}
_COMPRESSIONS: Final = ("blosc", "zstd", "gzip")
_FOREIGN_STRINGS: Final = ("fixed_length_utf32", "null_terminated_bytes")
_BY_NAME: Final = {"string" if kind.is_string else kind.value.lower(): kind for kind in StorageType}


@dataclass(frozen=True, slots=True)
class _Head:
    """What a document says of any node."""

    node_type: Any
    attributes: Any
    """Shared by all that ask: not to be changed."""


def _head(data: bytes, what: str) -> _Head:
    document = parse_json(data, what=what)
    return _Head(document.get("node_type"), document.get("attributes", {}))


_head_of_small = remembering(_head)
_head_of_large = functools.lru_cache(maxsize=8)(lambda data: _head(data, ""))


def _head_of(data: bytes, *, what: str) -> _Head:
    """Return what a document says of any node; parsed once for all that are the same.

    That of the root repeats those of all other nodes, and is asked for again and again.
    """
    if _SMALL_BYTES < len(data) <= _LARGE_BYTES:
        with contextlib.suppress(DafError):
            return _head_of_large(bytes(data))
    return _head_of_small(data, what)


class ZarrV3:
    """The documents of Zarr v3; see `ZarrFormat`."""

    version: ZarrVersion = 3
    consolidated_file = NODE_FILE
    node_files: tuple[str, ...] = (NODE_FILE,)

    def kind(self, snapshot: Snapshot, path: str) -> NodeKind | None:
        """Return what is at ``path``; an unreadable document is an error when it is used."""
        try:
            data = read_document(snapshot, key_below(path, NODE_FILE), what=path)
            if data is None:
                return None
            return "group" if _head_of(data, what=path).node_type == "group" else "array"
        except (FormatError, ReadOnlyError):
            return "array"

    def array(self, snapshot: Snapshot, path: str, *, what: str) -> ArrayMetadata | None:
        """Return the metadata of an array; None if there is nothing, or a group."""
        data = read_document(snapshot, key_below(path, NODE_FILE), what=what)
        return None if data is None else _parsed(data, what)

    def marker(self, snapshot: Snapshot, name: str) -> Any:
        """Return an attribute of the root group."""
        data = read_document(snapshot, NODE_FILE, what="the root")
        attributes = None if data is None else _head_of(data, what=NODE_FILE).attributes
        return copy.deepcopy(attributes.get(name)) if isinstance(attributes, dict) else None

    def attribute(self, snapshot: Snapshot, path: str, name: str, *, what: str) -> Any:
        """Return an attribute of a group or array."""
        data = read_document(snapshot, key_below(path, NODE_FILE), what=what)
        if data is None:
            return None
        attributes = _head_of(data, what=f"{what}: {NODE_FILE}").attributes
        if not isinstance(attributes, dict):
            raise CorruptDataError(f"{what}: {NODE_FILE} has attributes that are no JSON object")
        return copy.deepcopy(attributes.get(name))

    def group_documents(self) -> dict[str, bytes]:
        """Return the documents of a group by their names."""
        return {NODE_FILE: to_json(_GROUP)}

    def annotated(
        self, documents: Mapping[str, bytes], attributes: Mapping[str, str]
    ) -> dict[str, bytes]:
        """Return the document of a group or an array with attributes."""
        document = json.loads(documents[NODE_FILE])
        return {NODE_FILE: to_json({**document, "attributes": dict(attributes)})}

    def root_document(self, old: bytes | None, attributes: Mapping[str, Any]) -> dict[str, bytes]:
        """Return the document of the root with more attributes, and those that it has."""
        before = {} if old is None else _attributes(old)
        return {NODE_FILE: to_json({**_GROUP, "attributes": {**before, **attributes}})}

    def array_documents(
        self, shape: tuple[int, ...], storage_type: StorageType
    ) -> dict[str, bytes]:
        """Return the documents of an array in a single uncompressed chunk, by their names."""
        chunks = tuple(max(n, 1) for n in shape)
        document = _array(shape, storage_type, chunks, [_serializer(storage_type)])
        return {NODE_FILE: to_json(document)}

    def packed_documents(
        self, shape: tuple[int, ...], storage_type: StorageType, packing: Packing
    ) -> dict[str, bytes]:
        """Return the documents of a packed array, by their names.

        All chunks are in one file.  Its shape is that of the array, rounded up to whole chunks:
        otherwise zarr-python would refuse the whole group.
        """
        inner = packing.chunks(shape, storage_type) or shape
        outer = tuple(-(-n // c) * c for n, c in zip(shape, inner, strict=True))
        sharding = {
            "chunk_shape": list(inner),
            "codecs": [_serializer(storage_type), compression_of(packing, storage_type)],
            "index_codecs": [_LITTLE, {"name": "crc32c"}],
            "index_location": "start",
        }
        codecs: list[Mapping[str, Any]]
        codecs = [{"name": "sharding_indexed", "configuration": sharding}]
        return {NODE_FILE: to_json(_array(shape, storage_type, outer, codecs))}

    def chunk_key(self, shape: tuple[int, ...]) -> str:
        """Return the key of the single chunk of an array that is written."""
        return "/".join(("c", *"0" * len(shape)))

    def documents(self, snapshot: Snapshot, path: str) -> Iterator[tuple[str, bytes]]:
        """Yield the documents at and below ``path``, but for the root's."""
        try:
            data = compact(read_document(snapshot, key_below(path, NODE_FILE), what=path))
        except (FormatError, ReadOnlyError):
            return
        if data is None:
            return
        if path:
            yield path, data
        if json.loads(data).get("node_type") == "group":
            for child in snapshot.names(path):
                if child != NODE_FILE and not child.startswith("."):
                    yield from self.documents(snapshot, key_below(path, child))

    def consolidated(self, snapshot: Snapshot, documents: Mapping[str, bytes]) -> bytes:
        """Return the root's document with all others in it.

        Sorted, because zarr-python needs the keys of one group to be neighbours.  The documents
        are compact JSON already, so they are joined as text.
        """
        old = snapshot.read(NODE_FILE)
        root = {**_GROUP, "attributes": {} if old is None else _attributes(old)}
        start = to_json(root).decode()[:-1]
        inline = ",\n".join(
            f"{json.dumps(path)}:{documents[path].decode()}" for path in sorted(documents)
        )
        return (
            f'{start},"consolidated_metadata":{{"kind":"inline","must_understand":false,'
            f'"metadata":{{\n{inline}\n}}}}}}'
        ).encode()

    def unconsolidated(self, consolidated: bytes) -> bytes:
        """Return the document of the root without the others in it."""
        try:
            document = parse_json(consolidated, what=NODE_FILE)
        except CorruptDataError:
            return consolidated
        if document.pop("consolidated_metadata", None) is None:
            return consolidated
        return to_json(document)

    def listed(self, consolidated: bytes) -> dict[str, bytes]:
        """Return the documents that the root's has inline, and the root's, by their keys."""
        try:
            inline = json.loads(consolidated)["consolidated_metadata"]
            if inline["kind"] != "inline":
                raise ValueError(f"consolidated metadata of kind {shown(inline['kind'])}")
            found = {
                key_below(path.strip("/"), NODE_FILE): to_json(document)
                for path, document in inline["metadata"].items()
            }
        except RecursionError as error:
            raise ValueError(str(error)) from None
        return {**found, NODE_FILE: consolidated}


def compression_of(packing: Packing, storage_type: StorageType) -> dict[str, Any]:
    """Return the codec that compresses a chunk."""
    if packing.codec in ("zstd", "gzip"):
        extra = {"checksum": False} if packing.codec == "zstd" else {}
        return {"name": packing.codec, "configuration": {"level": packing.level, **extra}}
    options = {
        "cname": packing.compressor,
        "clevel": packing.level,
        "shuffle": packing.shuffle,
        "typesize": 1 if storage_type.is_string else storage_type.dtype.itemsize,
        "blocksize": 0,
    }
    return {"name": "blosc", "configuration": options}


@remembering
def _parsed(data: bytes, what: str) -> ArrayMetadata | None:
    """Parse a document; None if it is that of a group."""
    document = parse_json(data, what=f"{what}: {NODE_FILE}")
    return None if document.get("node_type") == "group" else parse_array(document, what=what)


def parse_array(document: Mapping[str, Any], *, what: str) -> ArrayMetadata:
    """Parse the document of an array; ``what`` names it in messages.

    Raises
    ------
    CorruptDataError
        Not the metadata of a Zarr v3 array.
    UnsupportedDataError
        Valid, but of a type, a grid or with an extension that is not read.
    """
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
            f"{what}: the chunks are in a {shown(grid)} grid with {shown(encoding)} keys; only a "
            "'regular' grid with 'default' keys is read"
        )
    if document.get("storage_transformers"):
        raise UnsupportedDataError(f"{what}: the array has storage transformers; none are read")
    if not codecs:
        raise CorruptDataError(f"{what}: {NODE_FILE} has no codecs")
    check_chunks(shape, outer, what=what)
    kind = _storage_type(data_type, what=what)
    try:
        fill = fill_of(fill_value, kind)
        item_bytes = _item_bytes(data_type, kind)
    except (KeyError, ValueError) as error:
        raise _malformed(what, error) from None
    is_exact = all(n in (c, 0) for n, c in zip(shape, outer, strict=True))
    is_plain = is_exact and _is_serializer(codecs, kind, data_type)
    shard = _shard(shape, outer, codecs, kind) if _is_native(data_type) else None
    inner = lengths_of(codecs[0][1]["chunk_shape"]) if shard is not None else outer
    check_chunk_bytes(shape, inner, check_item_bytes(item_bytes, what=what), what=what)
    compressions, left = _split(codecs)
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
        separator=separator,
        prefix="c" if encoding == "default" else "",
        shard=shard,
        item_bytes=item_bytes,
        compressions=tuple(compressions),
        is_sharded=left[0][0] == "sharding_indexed",
        has_filters=len(left) > 1 or left[0][0] not in ("bytes", "vlen-utf8"),
        chunk_dtype=_chunk_dtype(left, kind, data_type, item_bytes),
        has_plain_strings=len(shape) <= 1
        and kind.is_string
        and _is_serializer(left, kind, data_type),
        document=_shown_instead(document, outer, codecs, left),
    )


def _array(
    shape: tuple[int, ...],
    storage_type: StorageType,
    chunks: tuple[int, ...],
    codecs: list[Mapping[str, Any]],
) -> dict[str, Any]:
    if storage_type.is_string:
        fill: Any = ""
    elif storage_type is StorageType.BOOL:
        fill = False
    else:
        fill = 0 if storage_type.is_integer else 0.0
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": "string" if storage_type.is_string else storage_type.value.lower(),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill,
        "codecs": codecs,
    }


def _serializer(storage_type: StorageType) -> Mapping[str, Any]:
    return _VLEN_UTF8 if storage_type.is_string else _LITTLE


def _attributes(root: bytes) -> dict[str, Any]:
    found = parse_json(root, what=NODE_FILE).get("attributes")
    return found if isinstance(found, dict) else {}


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
        codec={"id": compressions[0][0], **compressions[0][1]} if compressions else None,
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
