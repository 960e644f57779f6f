"""The JSON documents of Zarr v3: ``zarr.json``, the one of the root with all others inline.

Pure, but for looking documents up: bytes in, value objects out, and back.  Source: the Zarr v3 core
specification and its codecs; what is written follows docs/reference/format.md to the letter.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from daf_storage.base import Packing, StorageType
from daf_storage.errors import (
    CorruptDataError,
    DafError,
    FormatError,
    ReadOnlyError,
)
from daf_storage.stores import Snapshot
from daf_storage.trees._array_v3 import NODE_FILE, parse_array
from daf_storage.trees._metadata import (
    ArrayMetadata,
    ZarrVersion,
    compact,
    key_below,
    parse_json,
    read_document,
    remembering,
    shown,
    to_json,
)
from daf_storage.trees._protocol import NodeKind

_SMALL_BYTES: Final = 1 << 12
_LARGE_BYTES: Final = 1 << 22
_GROUP: Final = {"zarr_format": 3, "node_type": "group"}
_LITTLE: Final = {"name": "bytes", "configuration": {"endian": "little"}}
_VLEN_UTF8: Final = {"name": "vlen-utf8", "configuration": {}}


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
                if child != NODE_FILE:
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
