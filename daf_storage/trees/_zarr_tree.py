"""The Zarr tree, of v2 or v3, over any store; its documents, looked up and written.

Arrays in the layout that Daf writes (one uncompressed chunk) are mapped, or decoded straight into
Arrow; all others are decoded chunk by chunk.  After each change the directory's consolidated
metadata are brought up to date, for readers that depend on them; this reader never looks at them.

What is written follows docs/reference/format.md to the letter.  Source: the Zarr v2 storage
specification, the Zarr v3 core specification.
"""

from __future__ import annotations

import copy
import json
import posixpath
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Self, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage import errors, stores
from daf_storage._lazy import zarr
from daf_storage.base import METADATA_NAMES, DecodedCache, Packing, StorageType
from daf_storage.base import strings as vlen
from daf_storage.errors import CorruptDataError, FormatError, ReadOnlyError
from daf_storage.stores import MmapZipStore, ReadableStore, Snapshot, Transaction, WritableStore
from daf_storage.trees._chunked_array import ChunkedArray
from daf_storage.trees._file_changes import Consolidated, FileChanges, FileTree
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
from daf_storage.trees._zarr_array import StoreTree, open_zarr_array

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

    def documents(self, snapshot: Snapshot, path: str) -> Iterator[tuple[str, bytes]]:
        """Yield the documents at and below ``path``."""
        yield from self._documents_at(snapshot, path)
        if self.kind(snapshot, path) == "group":
            for child in snapshot.names(path):
                if child not in METADATA_NAMES:
                    yield from self.documents(snapshot, key_below(path, child))

    @abstractmethod
    def _kind(self, snapshot: Snapshot, path: str) -> NodeKind | None: ...

    @abstractmethod
    def _documents_at(self, snapshot: Snapshot, path: str) -> Iterator[tuple[str, bytes]]:
        """Yield those of one node; of the root of Zarr v3, whose document has all others, none."""


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

    def group_documents(self, attributes: Mapping[str, str] = {}) -> dict[str, bytes]:
        """Return the documents of a group by their names."""
        return {_GROUP_FILE: b'{"zarr_format":2}', _ATTRIBUTES_FILE: to_json(dict(attributes))}

    def root_document(self, old: bytes | None, attributes: Mapping[str, Any]) -> dict[str, bytes]:  # noqa: ARG002 - as above
        """Return nothing: the root has no attributes."""
        return {}

    def array_documents(
        self,
        shape: tuple[int, ...],
        storage_type: StorageType,
        packing: Packing | None,  # noqa: ARG002 - it would need a file for each small chunk
        attributes: Mapping[str, str],
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
        return {ARRAY_FILE: to_json(document), _ATTRIBUTES_FILE: to_json(dict(attributes))}

    def chunk_key(self, shape: tuple[int, ...]) -> str:
        """Return the key of the single chunk of an array that is written."""
        return ".".join("0" * len(shape))

    def _documents_at(self, snapshot: Snapshot, path: str) -> Iterator[tuple[str, bytes]]:
        for name in self.node_files:
            data = _compact_document(snapshot, key_below(path, name))
            if data is not None:
                yield key_below(path, name), data
                attributes = key_below(path, _ATTRIBUTES_FILE)
                yield attributes, _compact_document(snapshot, attributes) or _NO_ATTRIBUTES

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

    def group_documents(self, attributes: Mapping[str, str] = {}) -> dict[str, bytes]:
        """Return the documents of a group by their names."""
        return _node_document(_GROUP, attributes)

    def root_document(self, old: bytes | None, attributes: Mapping[str, Any]) -> dict[str, bytes]:
        """Return the document of the root with more attributes, and those that it has."""
        before = {} if old is None else _attributes(old)
        return {NODE_FILE: to_json({**_GROUP, "attributes": {**before, **attributes}})}

    def array_documents(
        self,
        shape: tuple[int, ...],
        storage_type: StorageType,
        packing: Packing | None,
        attributes: Mapping[str, str],
    ) -> dict[str, bytes]:
        """Return the documents of an array in a single chunk, or of a packed one, by their names.

        All chunks of a packed one are in one file.  Its shape is that of the array, rounded up to
        whole chunks: otherwise zarr-python would refuse the whole group.
        """
        is_string = storage_type.is_string
        codec: Mapping[str, Any] = _VLEN_UTF8 if is_string else _LITTLE
        chunks = tuple(max(n, 1) for n in shape)
        if packing is not None:
            inner = packing.chunks(shape, storage_type) or shape
            chunks = tuple(-(-n // c) * c for n, c in zip(shape, inner, strict=True))
            sharding = {
                "chunk_shape": list(inner),
                "codecs": [codec, _compression_of(packing, storage_type)],
                "index_codecs": [_LITTLE, {"name": "crc32c"}],
                "index_location": "start",
            }
            codec = {"name": "sharding_indexed", "configuration": sharding}
        document = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(shape),
            "data_type": "string" if is_string else storage_type.value.lower(),
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": "" if is_string else storage_type.dtype.type().item(),
            "codecs": [codec],
        }
        return _node_document(document, attributes)

    def chunk_key(self, shape: tuple[int, ...]) -> str:
        """Return the key of the single chunk of an array that is written."""
        return "/".join(("c", *"0" * len(shape)))

    def _documents_at(self, snapshot: Snapshot, path: str) -> Iterator[tuple[str, bytes]]:
        data = _compact_document(snapshot, key_below(path, NODE_FILE)) if path else None
        if data is not None:
            yield key_below(path, NODE_FILE), data

    def consolidated(self, snapshot: Snapshot | None, documents: Mapping[str, bytes]) -> bytes:
        """Return the root's document with all others in it, sorted and joined as in Zarr v2."""
        old = None if snapshot is None else snapshot.read(NODE_FILE)
        root = {**_GROUP, "attributes": {} if old is None else _attributes(old)}
        start = to_json(root).decode()[:-1]
        by_path = {posixpath.dirname(key): data.decode() for key, data in documents.items()}
        inline = ",\n".join(f"{json.dumps(path)}:{by_path[path]}" for path in sorted(by_path))
        return (
            f'{start},"consolidated_metadata":{{"kind":"inline","must_understand":false,'
            f'"metadata":{{\n{inline}\n}}}}}}'
        ).encode()

    def listed(self, consolidated: bytes) -> dict[str, bytes]:
        """Return the documents of consolidated metadata by their keys."""
        inline = json.loads(consolidated).get("consolidated_metadata")
        if inline is None:
            return {}
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


def _node_document(document: Mapping[str, Any], attributes: Mapping[str, str]) -> dict[str, bytes]:
    """Return the document of a group or an array of Zarr v3."""
    more = {"attributes": dict(attributes)} if attributes else {}
    return {NODE_FILE: to_json({**document, **more})}


def _attributes(root: bytes) -> dict[str, Any]:
    found = parse_json(root, what=NODE_FILE).get("attributes")
    return found if isinstance(found, dict) else {}


def find_version(store: ReadableStore, root: str = "") -> ZarrVersion | None:
    """Return the version of the Zarr hierarchy that is there; None if there is none."""
    snapshot = store.snapshot(root)
    if snapshot is None:
        return None
    if snapshot.size(NODE_FILE) is not None:
        return 3
    return 2 if FORMATS[2].kind(snapshot, "") is not None else None


@dataclass(eq=False)
class ZarrNode:
    """A pinned group or array; see `Node`."""

    snapshot: Snapshot
    kind: NodeKind
    _format: ZarrFormat
    _chunk_cache: DecodedCache
    _what: str
    _arrays: dict[str, ChunkedArray | None] = field(default_factory=dict)

    @cached_property
    def identity(self) -> Hashable:
        """What a cache goes by; looked for when it is first asked for, before anything is read."""
        return self.snapshot.identity()

    @property
    def place(self) -> Hashable:
        """What another node has another one of, also if that is new."""
        return self.snapshot.place

    def array(self, name: str = "") -> ChunkedArray | None:
        """Return this array, or the one of that name below this group; opened once."""
        if name not in self._arrays:  # a sparse matrix asks for its parts again and again
            what, cache = f"{self._what}/{name}" if name else self._what, self._chunk_cache
            metadata = self._format.array(self.snapshot, name, what=what)
            self._arrays[name] = (
                None
                if metadata is None
                else open_zarr_array(self.snapshot, name, metadata, cache=cache, what=what)
            )
        return self._arrays[name]

    def attribute(self, name: str) -> Any:
        """Return an attribute of this group or array; None if it has none of this name."""
        return self._format.attribute(self.snapshot, "", name, what=self._what)


class ZarrTree(StoreTree):
    """Groups and arrays of a Zarr hierarchy; see `StoreTree`.

    Parameters
    ----------
    zarr_format
        Its version, 2 or 3; by default that of what is there, else 2.
    """

    def __init__(
        self, store: ReadableStore, root: str = "", *, zarr_format: ZarrVersion | None = None
    ) -> None:
        super().__init__(store, root)
        self.format: ZarrFormat = FORMATS[zarr_format or find_version(store, root) or 2]

    def below(self, group: str) -> ZarrTree:
        """Return the tree of a group, to be read."""
        return ZarrTree(self._store, key_below(self._root, group))

    def children(self, path: str) -> dict[str, NodeKind]:
        """Return the groups and arrays directly below ``path``."""
        snapshot = self._snapshot(path)
        if snapshot is None:
            return {}
        kinds = ((name, self._kind_below(snapshot, path, name)) for name in snapshot.names())
        return {name: kind for name, kind in kinds if kind is not None}

    def _kind_below(self, snapshot: Snapshot, path: str, name: str) -> NodeKind | None:
        """Return what is at ``name`` below a pinned group.

        An array may take the place of a group between the looks for the documents of either: what
        looks like neither is pinned itself and looked at again.
        """
        kind = self.format.kind(snapshot, name)
        if kind is None and snapshot.is_local and name not in METADATA_NAMES:
            kind = self.kind(key_below(path, name))
        return kind

    def identity(self, path: str) -> Hashable:
        """Return a value that changes whenever something at or below ``path`` does."""
        snapshot = self._snapshot(path)
        return None if snapshot is None else snapshot.identity()

    def version(self, path: str) -> Hashable:
        """Return what differs whenever something at or below ``path`` does, in any process."""
        snapshot = self._snapshot(path)
        return None if snapshot is None else snapshot.version()

    def listing_identity(self, path: str) -> Hashable:
        """Return a value that changes whenever a child of ``path``, or what it is, does."""
        snapshot = self._snapshot(path)
        return None if snapshot is None else snapshot.listing_identity(self._documents_of)

    def _documents_of(self, names: list[str]) -> Iterator[str]:
        return (f"{name}/{file}" for name in names for file in self.format.node_files)

    def node(self, path: str) -> ZarrNode | None:
        """Return the group or array at ``path``, pinned."""
        snapshot = self._snapshot(path)
        if snapshot is None:
            return None
        kind = self.format.kind(snapshot, "")
        if kind is None and snapshot.is_local:  # it may be rewritten in the other version of Zarr
            self.format = FORMATS[find_version(self._store, self._root) or self.format.version]
            kind = self.format.kind(snapshot, "")
        if kind is None:
            return None
        what = f"{self.location}: {path}"
        return ZarrNode(snapshot, kind, self.format, self._chunk_cache, what)

    @contextmanager
    def element(self, path: str) -> Iterator[Any]:
        """Hand out a group or an array as zarr-python has it, for the length of a block.

        Raises
        ------
        UnsupportedDataError
            The installed zarr-python does not know its data type, or a codec.
        """
        snapshot = self._snapshot("")
        if snapshot is None or self.kind(path) is None:
            raise errors.CorruptDataError(f"{self.location}: {path} is missing")
        what = f"{self.location}: {path}: zarr-python cannot read it"
        with stores.translated(Exception, errors.UnsupportedDataError, what):  # it raises many
            store = stores.SnapshotZarrStore(snapshot)
            found = zarr.open(store, path=path, mode="r", zarr_format=self.format.version)
        yield found

    @property
    def index_tree(self) -> Self:
        """The tree of its indexes: this one."""
        return self

    def marker(self, name: str) -> Any:
        """Return an attribute of the root; None if it has none, or is of v2, marked by an array."""
        snapshot = self._snapshot("")
        if snapshot is None or self.format.version == 2:
            return None
        return self.format.attribute(snapshot, "", name, what=self.location)

    def _snapshot(self, path: str) -> Snapshot | None:
        return self._store.snapshot(self.key(path))


class WritableZarrTree(ZarrTree, FileTree[bytes]):
    """A Zarr hierarchy that can be changed.

    Parameters
    ----------
    store
        Where the bytes are.
    consolidated
        Whether to keep the consolidated metadata at the root up to date.
    zarr_format
        Its version; by default that of what is there, else 2.
    packing
        How to pack arrays that are written; by default they are not.
    """

    def __init__(
        self,
        store: WritableStore,
        root: str = "",
        *,
        consolidated: bool,
        zarr_format: ZarrVersion | None = None,
        packing: Packing | None = None,
    ) -> None:
        super().__init__(store, root, zarr_format=zarr_format)
        self.packing = packing
        self._writable = store
        self._consolidated = Consolidated() if consolidated else None

    @contextmanager
    def transaction(self) -> Iterator[ZarrTransaction]:
        """Begin changes."""
        with self._writable.transaction() as changes:
            yield ZarrTransaction(self, changes)

    def check_packing(self, packing: Packing | None) -> None:
        """Refuse to pack what is stored in Zarr v2."""
        if packing is not None and self.format.version == 2:
            raise errors.InvalidInputError(
                f"{self.location}: it is stored in Zarr v2, which would need a file for each small "
                "chunk, so nothing is packed in it; convert it with packed=True to a new path"
            )

    def discard(self, path: str) -> None:
        """Take a node away, also out of an archive; for what can be made again from the rest."""
        if isinstance(self._writable, MmapZipStore):
            start = f"{self.key(path)}/"
            self._writable.remove_entries([key for key in self._writable if key.startswith(start)])
            return
        with self.transaction() as changes, self.lock():
            changes.remove(path)

    @property
    def consolidated_file(self) -> str:
        """The name of the file with the consolidated metadata."""
        return self.format.consolidated_file

    def listed(self, data: bytes) -> dict[str, bytes]:
        """Return the documents of consolidated metadata by their keys."""
        return self.format.listed(data)

    def documents(self, path: str) -> Iterator[tuple[str, bytes]]:
        """Yield the documents at and below a path, but for those that cannot be read."""
        snapshot = self._snapshot("")
        if snapshot is not None:
            yield from self.format.documents(snapshot, path)

    def consolidate(self, documents: Mapping[str, bytes]) -> bytes:
        """Return the file that has the consolidated metadata."""
        return self.format.consolidated(self._snapshot(""), documents)

    def lost_file(self, key: str) -> str | None:
        """Return where a document was that is gone, while its node has other files."""
        found = self._snapshot(posixpath.dirname(key))
        if found is None or self.format.kind(found, "") or set(found.names()) <= METADATA_NAMES:
            return None
        return self.key(key)


class ZarrTransaction(FileChanges):
    """Changes to a Zarr hierarchy; see `TreeTransaction`."""

    stores_sparse_strings = False
    _tree: WritableZarrTree

    def __init__(self, tree: WritableZarrTree, changes: Transaction) -> None:
        super().__init__(tree, changes)
        self._format = tree.format

    def mark(self, name: str, numbers: tuple[int, ...]) -> None:
        """Mark the root with a few numbers: an attribute in Zarr v3, an array in v2."""
        marked = self._format.root_document(self._tree.consolidated(), {name: list(numbers)})
        for file, data in marked.items():
            self._changes.replace_file(self._tree.key(file), data)
            self.refresh(None)
        if not marked:
            super().mark(name, numbers)

    def create_group(self, path: str) -> None:
        """Prepare a group."""
        self._write(path, self._format.group_documents(self._attributes.pop(path, {})))

    def mark_group(self, path: str) -> None:
        """Make what is at ``path`` a group, in place; the root of the tree if it is empty."""
        if not path and self._format.root_document(None, {}):
            return  # the marker makes it one
        for name, data in self._format.group_documents().items():
            self._changes.replace_file(posixpath.join(self._tree.key(path), name), data)

    def write_scalar(self, path: str, values: Any) -> None:
        """Prepare a scalar as an array of one element."""
        if isinstance(values, np.ndarray):
            self.write_array(path, values)
        else:
            self.write_strings(path, values, (1,))

    def write_strings(self, path: str, strings: pa.Array, shape: tuple[int, ...]) -> None:
        """Prepare an array of strings."""
        kind = StorageType.STRING
        if not self._write_packed(path, shape, kind, [strings]):
            key = self._prepared(path, shape, kind)
            if len(strings):
                for block in vlen.encode_vlen_utf8(strings):
                    self._changes.write(key, block)

    def publish(self, path: str, *, replace: bool) -> None:
        """Put a node in place and bring the consolidated metadata up to date."""
        self.write_aside(path)
        self._changes.publish(self._tree.key(path), replace=replace)
        self.refresh([path])

    def remove(self, path: str) -> None:
        """Take a node away and bring the consolidated metadata up to date."""
        self._changes.remove(self._tree.key(path))
        self.refresh([path])

    def _prepared(
        self, path: str, shape: tuple[int, ...], kind: StorageType, packing: Packing | None = None
    ) -> str:
        attributes = self._attributes.pop(path, {})
        self._write(path, self._format.array_documents(shape, kind, packing, attributes))
        return posixpath.join(self._tree.key(path), self._format.chunk_key(shape))

    def _write(self, path: str, documents: dict[str, bytes]) -> None:
        for name, data in documents.items():
            self._changes.write(posixpath.join(self._tree.key(path), name), data)
