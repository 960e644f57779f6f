"""The files with the documents of a Zarr hierarchy, of v2 and of v3: looked up, and written.

What is written follows docs/reference/format.md to the letter.  Source: the Zarr v2 storage
specification, the Zarr v3 core specification.
"""

from __future__ import annotations

import copy
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from daf_storage.base import METADATA_NAMES, Packing, StorageType
from daf_storage.errors import CorruptDataError, FormatError, ReadOnlyError
from daf_storage.stores import Snapshot
from daf_storage.trees._metadata import (
    ARRAY_FILE,
    NODE_FILE,
    ArrayMetadata,
    ZarrVersion,
    key_below,
    parse_json,
    parsed_array,
    read_document,
    remembering,
    shown,
    to_json,
)
from daf_storage.trees._stored_array import NodeKind

_GROUP_FILE: Final = ".zgroup"
_ATTRIBUTES_FILE: Final = ".zattrs"
_NO_ATTRIBUTES: Final = b"{}"
_VLEN_UTF8_V2: Final = [{"id": "vlen-utf8"}]

_GROUP: Final = {"zarr_format": 3, "node_type": "group"}
_LITTLE: Final = {"name": "bytes", "configuration": {"endian": "little"}}
_VLEN_UTF8: Final = {"name": "vlen-utf8", "configuration": {}}


class _Format(ABC):
    """What the documents of both versions have in common."""

    version: ZarrVersion
    node_files: tuple[str, ...]
    """The files of which each node has one or more, which say what it is: the array's first."""

    def array(self, snapshot: Snapshot, path: str, *, what: str) -> ArrayMetadata | None:
        """Return the metadata of an array; None if there is nothing, or a group."""
        data = read_document(snapshot, key_below(path, self.node_files[0]), what=what)
        return None if data is None else parsed_array(data, what, self.version)

    def kind(self, snapshot: Snapshot, path: str) -> NodeKind | None:
        """Return what is at ``path``.

        What cannot be looked at is an array: the reason is raised when it is used.
        """
        try:
            return self._kind(snapshot, path)
        except (FormatError, ReadOnlyError):
            return "array"

    @abstractmethod
    def listed(self, consolidated: bytes) -> dict[str, bytes]:
        """Return the documents of consolidated metadata by their keys, the root's too.

        Raises ``ValueError``, ``KeyError``, ``TypeError``, ``AttributeError`` or
        ``RecursionError`` if malformed.
        """

    @abstractmethod
    def _kind(self, snapshot: Snapshot, path: str) -> NodeKind | None: ...


class ZarrV2(_Format):
    """The documents of Zarr v2: ``.zarray``, ``.zgroup``, ``.zattrs`` and ``.zmetadata``."""

    version: ZarrVersion = 2
    consolidated_file = ".zmetadata"
    """The file at the root that repeats all documents."""
    node_files = (ARRAY_FILE, _GROUP_FILE)

    def _kind(self, snapshot: Snapshot, path: str) -> NodeKind | None:
        if snapshot.size(key_below(path, ARRAY_FILE)) is not None:
            return "array"
        return "group" if snapshot.size(key_below(path, _GROUP_FILE)) is not None else None

    def attribute(self, snapshot: Snapshot, path: str, name: str, *, what: str) -> Any:
        """Return an attribute of a group or array."""
        key = key_below(path, _ATTRIBUTES_FILE)
        if (snapshot.size(key) or 0) <= len(_NO_ATTRIBUTES):  # of a server: without a request
            return None
        data = read_document(snapshot, key, what=what)
        return None if data is None else parse_json(data, what=f"{what}: {key}").get(name)

    def group_documents(self) -> dict[str, bytes]:
        """Return the documents of a group by their names."""
        return {_GROUP_FILE: b'{"zarr_format":2}', _ATTRIBUTES_FILE: _NO_ATTRIBUTES}

    def annotated(
        self, documents: Mapping[str, bytes], attributes: Mapping[str, str]
    ) -> dict[str, bytes]:
        """Return the documents of a group or an array with attributes."""
        return {**documents, _ATTRIBUTES_FILE: to_json(dict(attributes))}

    def root_document(self, old: bytes | None, attributes: Mapping[str, Any]) -> dict[str, bytes]:  # noqa: ARG002 - as above
        """Return nothing: the root has no attributes."""
        return {}

    def array_documents(
        self,
        shape: tuple[int, ...],
        storage_type: StorageType,
        packing: Packing | None,  # noqa: ARG002 - it would need a file for each small chunk
    ) -> dict[str, bytes]:
        """Return the documents of an array in a single uncompressed chunk, by their names.

        A chunk length of 0 would keep other implementations from opening the whole data set, so an
        empty dimension has chunks of 1 and no chunk file.
        """
        document = {
            "zarr_format": 2,
            "shape": list(shape),
            "chunks": [max(n, 1) for n in shape],
            "dtype": "|O" if storage_type.is_string else storage_type.dtype.str,
            "compressor": None,
            "fill_value": None,
            "order": "C",
            "filters": _VLEN_UTF8_V2 if storage_type.is_string else None,
        }
        return {ARRAY_FILE: to_json(document), _ATTRIBUTES_FILE: _NO_ATTRIBUTES}

    def chunk_key(self, shape: tuple[int, ...]) -> str:
        """Return the key of the single chunk of an array that is written."""
        return ".".join("0" * len(shape))

    def documents(self, snapshot: Snapshot, path: str) -> Iterator[tuple[str, bytes]]:
        """Yield the documents at and below ``path``."""
        names = snapshot.names(path)
        for name in (_GROUP_FILE, ARRAY_FILE):
            data = _compact_document(snapshot, key_below(path, name)) if name in names else None
            if data is None:
                continue
            yield key_below(path, name), data
            attributes = key_below(path, _ATTRIBUTES_FILE)
            yield attributes, _compact_document(snapshot, attributes) or _NO_ATTRIBUTES
            if name == _GROUP_FILE:
                for child in names:
                    if child not in METADATA_NAMES:
                        yield from self.documents(snapshot, key_below(path, child))

    def consolidated(self, snapshot: Snapshot | None, documents: Mapping[str, bytes]) -> bytes:  # noqa: ARG002 - as above
        """Return the contents of ``.zmetadata``.

        Sorted, because zarr-python needs the keys of one group to be neighbours.  The documents are
        compact JSON already, so they are joined as text: the cost stays small for many properties.
        """
        lines = ",\n".join(
            f"        {json.dumps(path)}: {documents[path].decode()}" for path in sorted(documents)
        )
        return (
            f'{{\n    "metadata": {{\n{lines}\n    }},\n    "zarr_consolidated_format": 1\n}}'
        ).encode()

    def listed(self, consolidated: bytes) -> dict[str, bytes]:
        """Return the documents of consolidated metadata by their keys."""
        found = json.loads(consolidated)["metadata"].items()
        return {path: _alone(document) for path, document in found}


def _alone(document: dict[str, Any]) -> bytes:
    """Return a document as it is in a file of its own, where no group is said to have nothing."""
    document.pop("consolidated_metadata", None)
    return to_json(document)


def _head(data: bytes, what: str) -> tuple[Any, Any]:
    """Return the type of any node of Zarr v3, and its attributes, which all who ask share."""
    document = parse_json(data, what=what)
    return document.get("node_type"), document.get("attributes", {})


_head_of: Final = remembering(_head, most=64, most_bytes=1 << 22)
"""Of the root's document it is asked again and again, and that repeats those of all other nodes."""


class ZarrV3(_Format):
    """The documents of Zarr v3: ``zarr.json``, the one of the root with all others inline."""

    version: ZarrVersion = 3
    consolidated_file = NODE_FILE
    """The file at the root that repeats all documents."""
    node_files = (NODE_FILE,)

    def _kind(self, snapshot: Snapshot, path: str) -> NodeKind | None:
        data = read_document(snapshot, key_below(path, NODE_FILE), what=path)
        if data is None:
            return None
        return "group" if _head_of(data, path)[0] == "group" else "array"

    def attribute(self, snapshot: Snapshot, path: str, name: str, *, what: str) -> Any:
        """Return an attribute of a group or array."""
        data = read_document(snapshot, key_below(path, NODE_FILE), what=what)
        if data is None:
            return None
        attributes = _head_of(data, f"{what}: {NODE_FILE}")[1]
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
        self, shape: tuple[int, ...], storage_type: StorageType, packing: Packing | None
    ) -> dict[str, bytes]:
        """Return the documents of an array in a single chunk, or of a packed one, by their names.

        All chunks of a packed one are in one file.  Its shape is that of the array, rounded up to
        whole chunks: otherwise zarr-python would refuse the whole group.
        """
        if packing is None:
            chunks = tuple(max(n, 1) for n in shape)
            return _array_documents(shape, storage_type, chunks, [_serializer(storage_type)])
        inner = packing.chunks(shape, storage_type) or shape
        outer = tuple(-(-n // c) * c for n, c in zip(shape, inner, strict=True))
        sharding = {
            "chunk_shape": list(inner),
            "codecs": [_serializer(storage_type), _compression_of(packing, storage_type)],
            "index_codecs": [_LITTLE, {"name": "crc32c"}],
            "index_location": "start",
        }
        codec = {"name": "sharding_indexed", "configuration": sharding}
        return _array_documents(shape, storage_type, outer, [codec])

    def chunk_key(self, shape: tuple[int, ...]) -> str:
        """Return the key of the single chunk of an array that is written."""
        return "/".join(("c", *"0" * len(shape)))

    def documents(self, snapshot: Snapshot, path: str) -> Iterator[tuple[str, bytes]]:
        """Yield the documents at and below ``path``, but for the root's."""
        data = _compact_document(snapshot, key_below(path, NODE_FILE))
        if data is None:
            return
        if path:
            yield path, data
        if json.loads(data).get("node_type") == "group":
            for child in snapshot.names(path):
                if child != NODE_FILE:
                    yield from self.documents(snapshot, key_below(path, child))

    def consolidated(self, snapshot: Snapshot | None, documents: Mapping[str, bytes]) -> bytes:
        """Return the root's document with all others in it, sorted and joined as in Zarr v2."""
        old = None if snapshot is None else snapshot.read(NODE_FILE)
        root = {**_GROUP, "attributes": {} if old is None else _attributes(old)}
        start = to_json(root).decode()[:-1]
        inline = ",\n".join(
            f"{json.dumps(path)}:{documents[path].decode()}" for path in sorted(documents)
        )
        return (
            f'{start},"consolidated_metadata":{{"kind":"inline","must_understand":false,'
            f'"metadata":{{\n{inline}\n}}}}}}'
        ).encode()

    def listed(self, consolidated: bytes) -> dict[str, bytes]:
        """Return the documents of consolidated metadata by their keys."""
        inline = json.loads(consolidated)["consolidated_metadata"]
        if inline["kind"] != "inline":
            raise ValueError(f"consolidated metadata of kind {shown(inline['kind'])}")
        found = {
            key_below(path.strip("/"), NODE_FILE): _alone(document)
            for path, document in inline["metadata"].items()
        }
        return {**found, NODE_FILE: consolidated}


ZarrFormat: TypeAlias = ZarrV2 | ZarrV3
"""The documents of one version of Zarr: where they are, and what they say."""

FORMATS: Final[Mapping[ZarrVersion, ZarrFormat]] = {2: ZarrV2(), 3: ZarrV3()}


def _compact_document(snapshot: Snapshot, path: str) -> bytes | None:
    """Return a document to be consolidated; None if it is missing or cannot be used."""
    try:
        data = read_document(snapshot, path, what=path)
        return None if data is None else to_json(parse_json(data, what=path))
    except (FormatError, ReadOnlyError, RecursionError):
        return None


def _compression_of(packing: Packing, storage_type: StorageType) -> dict[str, Any]:
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


def _array_documents(
    shape: tuple[int, ...],
    storage_type: StorageType,
    chunks: tuple[int, ...],
    codecs: list[Mapping[str, Any]],
) -> dict[str, bytes]:
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": "string" if storage_type.is_string else storage_type.value.lower(),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "" if storage_type.is_string else storage_type.dtype.type().item(),
        "codecs": codecs,
    }
    return {NODE_FILE: to_json(document)}


def _serializer(storage_type: StorageType) -> Mapping[str, Any]:
    return _VLEN_UTF8 if storage_type.is_string else _LITTLE


def _attributes(root: bytes) -> dict[str, Any]:
    found = parse_json(root, what=NODE_FILE).get("attributes")
    return found if isinstance(found, dict) else {}
