"""The Zarr tree, of v2 or v3, over any store.

Arrays in the layout that Daf writes (one uncompressed chunk) are mapped, or decoded straight into
Arrow; packed ones are decoded chunk by chunk; every other array is read by zarr-python.  After each
change the directory's consolidated metadata are brought up to date, for readers that depend on
them; this reader never looks at them.
"""

from __future__ import annotations

import copy
import itertools
import math
import posixpath
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa

from daf_storage._lazy import lazy_module
from daf_storage.base import METADATA_NAMES, AnyArray, Packing, Span, StorageType
from daf_storage.base import strings as vlen
from daf_storage.errors import (
    CorruptDataError,
    DafError,
    FormatError,
    InvalidInputError,
    ReadOnlyError,
    UnsupportedDataError,
)
from daf_storage.stores import MmapZipStore, ReadableStore, Snapshot, Transaction, WritableStore
from daf_storage.trees._consolidated import Consolidated, consolidated_of, lists_all
from daf_storage.trees._metadata import ArrayMetadata, ZarrFormat, ZarrVersion
from daf_storage.trees._metadata_v2 import ZarrV2
from daf_storage.trees._metadata_v3 import NODE_FILE, ZarrV3
from daf_storage.trees._protocol import NodeKind, NotFileBacked, fill_blocks
from daf_storage.trees._shards import ShardReader, ShardWriter

if TYPE_CHECKING:
    import zarr

    from daf_storage.trees import _foreign as foreign
else:
    zarr = lazy_module("zarr")
    foreign = lazy_module("daf_storage.trees._foreign")

_MAX_CHUNKS: Final = 1 << 20
_MANY_CHUNKS: Final = 1 << 8
_MOST_PER_BYTE: Final = 1 << 17
_STRING_BYTES: Final = 4
_MAX_FILLED_BYTES: Final = 1 << 34
_FILLED_IN_PLACE_BYTES: Final = 1 << 24

_FORMATS: dict[ZarrVersion, ZarrFormat] = {2: ZarrV2(), 3: ZarrV3()}


def zarr_formats() -> list[ZarrFormat]:
    """Return what is known of each version of Zarr."""
    return list(_FORMATS.values())


def find_version(store: ReadableStore, root: str = "") -> ZarrVersion | None:
    """Return the version of the Zarr hierarchy that is there; None if there is none."""
    snapshot = store.snapshot(root)
    if snapshot is None:
        return None
    if snapshot.size(NODE_FILE) is not None:
        return 3
    return 2 if _FORMATS[2].kind(snapshot, "") is not None else None


class ZarrTree:
    """Groups and arrays of a Zarr hierarchy.

    Parameters
    ----------
    store
        Where the bytes are.
    root
        Prefix of the hierarchy within the store; empty for the whole store.
    zarr_format
        Its version, 2 or 3; by default that of what is there, else 2.
    """

    def __init__(
        self, store: ReadableStore, root: str = "", *, zarr_format: ZarrVersion | None = None
    ) -> None:
        self._store = store
        self._root = root
        self.format: ZarrFormat = _FORMATS[zarr_format or find_version(store, root) or 2]

    @property
    def location(self) -> str:
        """Where the tree is, for messages."""
        return f"{self._store.location}#/{self._root}" if self._root else self._store.location

    def kind(self, path: str) -> NodeKind | None:
        """Return what is at ``path``; None if it is neither a group nor an array.

        What cannot be opened is an array: the reason is raised when it is used.
        """
        try:
            snapshot = self._snapshot(path)
        except (FormatError, ReadOnlyError):
            if not path:
                raise
            return "array"
        return None if snapshot is None else self.format.kind(snapshot, "")

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
            kind = self.kind(posixpath.join(path, name))
        return kind

    def identity(self, path: str) -> Hashable:
        """Return a value that changes whenever something at or below ``path`` does."""
        snapshot = self._snapshot(path)
        return None if snapshot is None else snapshot.identity()

    def listing_identity(self, path: str) -> Hashable:
        """Return a value that changes whenever a child of ``path``, or what it is, does."""
        snapshot = self._snapshot(path)
        return None if snapshot is None else snapshot.listing_identity(self.format.node_files)

    def node(self, path: str) -> ZarrNode | None:
        """Return the group or array at ``path``, pinned."""
        snapshot = self._snapshot(path)
        kind = None if snapshot is None else self.format.kind(snapshot, "")
        if snapshot is None or kind is None:
            return None
        return ZarrNode(snapshot, kind, self.format, what=f"{self.location}: {path}")

    @property
    def index_tree(self) -> Self:
        """The tree of its indexes: this one."""
        return self

    def marker(self, name: str) -> Any:
        """Return an attribute of the root; None if it has none."""
        snapshot = self._snapshot("")
        return None if snapshot is None else self.format.marker(snapshot, name)

    def _snapshot(self, path: str) -> Snapshot | None:
        return self._store.snapshot(posixpath.join(self._root, path) if path else self._root)


class WritableZarrTree(ZarrTree):
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
        self._consolidated = Consolidated(self.format) if consolidated else None

    @contextmanager
    def transaction(self) -> Iterator[ZarrTransaction]:
        """Begin changes."""
        with self._writable.transaction() as changes:
            yield ZarrTransaction(self, changes)

    def packing_as(self, packing: Packing | None) -> WritableZarrTree:
        """Return the same tree, which packs what is written so; None leaves it unpacked."""
        if packing is not None and self.format.version == 2:
            raise InvalidInputError(
                f"{self.location}: it is stored in Zarr v2, which would need a file for each small "
                "chunk, so nothing is packed in it; convert it with packed=True to a new path"
            )
        other = copy.copy(self)
        other.packing = packing
        return other

    @property
    def is_append_only(self) -> bool:
        """Whether what is there can be neither replaced nor removed."""
        return self._writable.is_append_only

    def batch(self) -> AbstractContextManager[None]:
        """Put everything that is published within the block on the disk at once, if it can."""
        return self._writable.batch()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Exclude other writers."""
        with self._writable.lock():
            yield

    @contextmanager
    def rebuilt(self, token: str, without: list[str]) -> Iterator[WritableZarrTree]:
        """Hand out a tree without some nodes, which takes the place of this one at the end."""
        paths = [self.path_in_store(path) for path in without]
        with self._writable.rebuilt(token, paths) as store:
            tree = WritableZarrTree(
                store,
                self._root,
                consolidated=self._consolidated is not None,
                zarr_format=self.format.version,
                packing=self.packing,
            )
            yield tree
            if self._consolidated is not None:
                tree.refresh()

    def discard(self, path: str) -> None:
        """Take a node away, also out of an archive; for what can be made again from the rest."""
        if isinstance(self._writable, MmapZipStore):
            start = f"{self.path_in_store(path)}/"
            self._writable.remove_entries([key for key in self._writable if key.startswith(start)])
            return
        with self.transaction() as changes, self.lock():
            changes.remove(path)

    def recover(self) -> bool:
        """Clear away what a crashed writer left, and mend the consolidated metadata.

        That is written again if a writer left a sign that it could not write it, or if its names
        are not those that are there: this lists the groups, and reads no other metadata.
        """
        found = self._writable.recover()
        if found or not self.is_consolidated():
            self.refresh()
        return found

    def is_consolidated(self) -> bool:
        """Return whether the consolidated metadata, if it is kept, names all that is there."""
        snapshot = self._snapshot("")
        return self._consolidated is None or snapshot is None or lists_all(self.format, snapshot)

    def consolidated(self) -> bytes | None:
        """Return the file that has the consolidated metadata; None if there is none."""
        snapshot = self._snapshot("")
        return None if snapshot is None else consolidated_of(self.format, snapshot)

    def refresh(self) -> bool:
        """Write the consolidated metadata again; say whether it had been another one."""
        before = self.consolidated()
        with self.transaction() as changes, self.lock():
            changes.refresh()
        return self.consolidated() != before

    def root_snapshot(self) -> Snapshot | None:
        """Return a view of the root."""
        return self._snapshot("")

    def path_in_store(self, path: str) -> str:
        """Return the key prefix of a node."""
        return posixpath.join(self._root, path) if path else self._root

    def refresh_consolidated(self, changes: Transaction, path: str | None) -> None:
        """Bring the consolidated metadata up to date after a change at ``path`` (None: all)."""
        snapshot = self._snapshot("")
        if self._consolidated is not None and snapshot is not None:
            data = self._consolidated.updated(snapshot, path)
            changes.replace_file(self.path_in_store(self.format.consolidated_file), data)


class ZarrNode:
    """A pinned group or array; see `Node`."""

    def __init__(
        self, snapshot: Snapshot, kind: NodeKind, documents: ZarrFormat, *, what: str
    ) -> None:
        self.kind = kind
        self._identity: Hashable | None = None
        self._format = documents
        self.snapshot = snapshot
        self._what = what

    @property
    def identity(self) -> Hashable:
        """What a cache goes by; looked for when it is first asked for, before anything is read."""
        if self._identity is None:
            self._identity = self.snapshot.identity()
        return self._identity

    def is_same(self, other: object) -> bool:
        """Return whether another node is the very same stored one."""
        return isinstance(other, ZarrNode) and self.snapshot.is_same(other.snapshot)

    def array(self, name: str = "") -> ZarrArray | PackedArray | None:
        """Return this array, or the one of that name below this group."""
        what = f"{self._what}/{name}" if name else self._what
        metadata = self._format.array(self.snapshot, name, what=what)
        if metadata is None:
            return None
        if metadata.shard is not None:
            return PackedArray(self.snapshot, name, metadata, what=what)
        return ZarrArray(self.snapshot, name, metadata, what=what)

    def attribute(self, name: str) -> Any:
        """Return an attribute of this group or array; None if it has none of this name."""
        return self._format.attribute(self.snapshot, "", name, what=self._what)


class ZarrArray:
    """An array of a pinned node; see `StoredArray`."""

    def __init__(
        self, snapshot: Snapshot, path: str, metadata: ArrayMetadata, *, what: str
    ) -> None:
        self.info = replace(
            metadata.info, is_mappable=metadata.info.is_mappable and snapshot.is_local
        )
        self._is_ranged = metadata.info.is_mappable and not snapshot.is_local
        self._snapshot = snapshot
        self._path = path
        self._metadata = metadata
        self._what = what

    def read(self) -> AnyArray:
        """Return all elements; a read-only view of the mapped file where that is possible."""
        if self._is_ranged and self.info.shape:
            return self.read_rows(Span(0, self.info.shape[0]))
        return self._mapped() if self.info.is_mappable else self._foreign(slice(None))

    def read_rows(self, span: Span) -> AnyArray:
        """Return a range of the first dimension."""
        return self.read_spans([span])[0]

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return several ranges of the first dimension; of a server, asked for together."""
        if self.info.is_mappable:
            mapped = self._mapped()
            parts = [mapped[span.slice] for span in spans]
        elif self._is_ranged and self.info.shape:
            parts = self._ranged(spans)
        else:
            picks = () if within is None else (within.slice,)
            return [self._foreign(span.slice, *picks) for span in spans]
        return parts if within is None else [part[:, within.slice] for part in parts]

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings, decoded straight into Arrow where they are stored plainly."""
        if not self._metadata.has_plain_chunk:
            return _as_strings(self._foreign(slice(None)), what=self._what)
        if self.info.size == 0:
            return pa.array([], pa.string())
        data = self._snapshot.map(self._chunk_key())
        if data is None:
            return _as_strings(self._filled(), what=self._what)
        decoded = vlen.decode_vlen_utf8(data, what=self._what)
        if len(decoded) != self.info.size:
            raise CorruptDataError(
                f"{self._what}: the chunk holds {len(decoded):,} strings, "
                f"but the shape {list(self.info.shape)} needs {self.info.size:,}"
            )
        return decoded

    def check_stored(self, *, is_complete: bool = False) -> None:
        """Raise if files are missing or too short, by their sizes alone."""
        if self.info.size == 0 or not self._snapshot.is_local:
            return
        is_needed = is_complete or self._metadata.fill_value is None
        if not self._metadata.has_plain_chunk:
            if is_needed:
                self._check_chunks()
            return
        size_bytes = self._snapshot.size(self._chunk_key())
        if size_bytes is None:
            if is_needed:
                raise self._missing(self._metadata.first_chunk_key)
            return
        if not self.info.storage_type.is_string:
            if size_bytes != self.info.size * self.info.storage_type.dtype.itemsize:
                raise self._wrong_size(size_bytes)
        elif size_bytes < _STRING_BYTES * (self.info.size + 1):
            raise CorruptDataError(
                f"{self._what}: the chunk file {self._metadata.first_chunk_key!r} is truncated: it "
                f"has {size_bytes:,} bytes, which cannot hold {self.info.size:,} strings"
            )

    def _check_chunks(self) -> None:
        """Raise unless the first and the last chunk are there, and as many files as chunks."""
        grid = [-(-n // c) for n, c in zip(self.info.shape, self.info.chunks, strict=True)]
        for position in (tuple(0 for _ in grid), tuple(n - 1 for n in grid)):
            key = self._metadata.chunk_key(position)
            size_bytes = self._snapshot.size(posixpath.join(self._path, key))
            if size_bytes is None:
                raise self._missing(key)
            elements = min(math.prod(self.info.chunks), self.info.size)
            is_packed = bool(self._metadata.compressions) or self._metadata.has_filters
            if elements > max(size_bytes, 1) * (_MOST_PER_BYTE if is_packed else 1):
                raise CorruptDataError(
                    f"{self._what}: the chunk file {key!r} has {size_bytes:,} bytes, which cannot "
                    f"hold {elements:,} elements"
                )
        count = math.prod(grid)
        if count > _MANY_CHUNKS and (len(grid) == 1 or self._metadata.separator == "."):
            stored = len(self._snapshot.names(posixpath.join(self._path, self._metadata.prefix)))
            if stored < count:
                raise CorruptDataError(
                    f"{self._what}: {count:,} chunks are needed, and there are at most {stored:,}"
                )

    def _missing(self, key: str) -> CorruptDataError:
        has_fill = self._metadata.fill_value is not None
        reason = "must not be filled" if has_fill else "has no fill value to stand in for it"
        return CorruptDataError(
            f"{self._what}: the chunk file {key!r} is missing, and the array {reason}"
        )

    def fingerprint(self) -> list[int] | None:
        """Return what tells the single plain chunk from any other."""
        if not self._metadata.has_plain_chunk or self.info.size == 0:
            return None
        return self._snapshot.fingerprint(self._chunk_key())

    def plain_strings(self) -> memoryview | None:
        """Return the single plain chunk of strings, mapped."""
        if not self.info.storage_type.is_string or not self._metadata.has_plain_chunk:
            return None
        return self._snapshot.map(self._chunk_key())

    def open_file(self) -> int | None:
        """Return a descriptor of the single plain chunk's file, if it has one of its own."""
        if not self._metadata.has_plain_chunk or self.info.size == 0:
            return None
        return self._snapshot.open_file(self._chunk_key())

    def _mapped(self) -> AnyArray:
        dtype = self.info.storage_type.dtype
        if self.info.size == 0:
            return _frozen(np.empty(self.info.shape, dtype))
        data = self._snapshot.map(self._chunk_key())
        if data is None:
            return self._filled()
        if len(data) != self.info.size * dtype.itemsize:
            raise self._wrong_size(len(data))
        return np.frombuffer(data, dtype).reshape(self.info.shape)

    def _ranged(self, spans: list[Span]) -> list[AnyArray]:
        """Fetch ranges of a plain chunk that is on a server."""
        dtype = self.info.storage_type.dtype
        rest = self.info.shape[1:]
        row_bytes = int(np.prod(rest, dtype=object)) * dtype.itemsize
        shapes = [(span.size, *rest) for span in spans]
        if self.info.size == 0:
            return [_frozen(np.empty(shape, dtype)) for shape in shapes]
        size = self._snapshot.size(self._chunk_key())
        if size is None:
            values = self._filled()
            return [values[span.slice] for span in spans]
        if size != self.info.size * dtype.itemsize:
            raise self._wrong_size(size)
        ranges = [(span.start * row_bytes, span.stop * row_bytes) for span in spans]
        parts = self._snapshot.read_ranges(self._chunk_key(), ranges)
        return [
            np.frombuffer(part, dtype).reshape(shape)
            for part, shape in zip(parts, shapes, strict=True)
        ]

    def _wrong_size(self, size_bytes: int) -> CorruptDataError:
        dtype = self.info.storage_type.dtype
        needed = self.info.size * dtype.itemsize
        problem = "truncated" if size_bytes < needed else "too long"
        return CorruptDataError(
            f"{self._what}: the chunk file {self._metadata.first_chunk_key!r} is {problem}: "
            f"it has {size_bytes:,} bytes, but shape {list(self.info.shape)} of {dtype} "
            f"needs {needed:,}"
        )

    def _filled(self) -> AnyArray:
        """Stand in for a missing chunk, as the Zarr specification has it."""
        fill_value = self._metadata.fill_value
        if fill_value is None:
            raise self._missing(self._metadata.first_chunk_key)
        size_bytes = self.info.size * max(self._metadata.item_bytes, 1)
        if size_bytes > _MAX_FILLED_BYTES:
            raise CorruptDataError(
                f"{self._what}: the array is said to have the shape {list(self.info.shape)}, and "
                f"there is no data for its {size_bytes:,} bytes"
            )
        if fill_value or self.info.storage_type.is_string:
            return self._foreign(slice(None))
        return _frozen(np.zeros(self.info.shape, self.info.storage_type.dtype))

    def _foreign(self, *picks: slice) -> AnyArray:
        """Let zarr-python read ranges of the array, whatever its codecs."""
        rows = picks[0]
        self._refuse_many_chunks(rows)
        try:
            array = zarr.open_array(
                foreign.ForeignChunks(self._snapshot, self._path, self._metadata, what=self._what),
                path=self._path,
                mode="r",
                zarr_format=self._metadata.version,
            )
            values = np.asarray(array[picks])
        except DafError:
            raise
        except Exception as error:  # zarr raises many kinds for data that it cannot read
            raise _unreadable(self._what, error) from error
        self._refuse_missing_chunks(rows)
        if self.info.storage_type.is_string:
            return values
        return _frozen(values.astype(self.info.storage_type.dtype, copy=False))

    def _refuse_many_chunks(self, rows: slice) -> None:
        """Raise if so many chunks are needed that nobody would wait for them."""
        first, last, _ = rows.indices(self.info.shape[0]) if self.info.shape else (0, 1, 1)
        across = zip(self.info.shape[1:], self.info.chunks[1:], strict=True)
        height = self.info.chunks[0] if self.info.chunks else 1
        count = -(-(last - first) // height) * math.prod(-(-n // c) for n, c in across)
        if count > _MAX_CHUNKS:
            raise UnsupportedDataError(
                f"{self._what}: it is cut into {count:,} chunks of shape {list(self.info.chunks)}; "
                "write it in larger ones"
            )

    def _refuse_missing_chunks(self, rows: slice) -> None:
        if self._metadata.fill_value is not None or self.info.size == 0:
            return
        first, last, _ = rows.indices(self.info.shape[0])
        height = self.info.chunks[0]
        below = [-(-n // c) for n, c in zip(self.info.shape[1:], self.info.chunks[1:], strict=True)]
        grid = itertools.product(range(first // height, -(-last // height)), *map(range, below))
        for position in grid:
            key = self._metadata.chunk_key(position)
            if self._snapshot.size(posixpath.join(self._path, key)) is None:
                raise self._missing(key)

    def _chunk_key(self) -> str:
        return posixpath.join(self._path, self._metadata.first_chunk_key)


class PackedArray(NotFileBacked):
    """An array of many small chunks in one file, or in several; see `StoredArray`."""

    def __init__(
        self, snapshot: Snapshot, path: str, metadata: ArrayMetadata, *, what: str
    ) -> None:
        self.info = metadata.info
        self._reader = ShardReader(snapshot, path, metadata, what=what)

    def check_stored(self, *, is_complete: bool = False) -> None:
        """Raise if the file is missing or has no room for its index."""
        self._reader.check_stored(is_complete=is_complete)

    def read(self) -> AnyArray:
        """Return all elements, decoded."""
        return self.read_rows(Span(0, self.info.shape[0]))

    def read_rows(self, span: Span) -> AnyArray:
        """Return a range of the first dimension; decodes only its chunks."""
        return self.read_spans([span])[0]

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return several ranges of the first dimension; each chunk is decoded once."""
        return self._reader.read_spans(spans, within)

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings."""
        return self._reader.read_strings(Span(0, self.info.shape[0]))


class ZarrTransaction:
    """Changes to a Zarr hierarchy; see `TreeTransaction`."""

    stores_sparse_strings = False

    def __init__(self, tree: WritableZarrTree, changes: Transaction) -> None:
        self._tree = tree
        self._changes = changes
        self._attributes: dict[str, Mapping[str, str]] = {}

    def packs(self, shape: tuple[int, ...], storage_type: StorageType) -> bool:
        """Return whether an array of this kind would be packed."""
        packing = self._tree.packing
        return packing is not None and packing.chunks(shape, storage_type) is not None

    def mark(self, name: str, numbers: tuple[int, ...]) -> None:
        """Mark the root with a few numbers: an attribute in Zarr v3, an array in v2."""
        snapshot = self._tree.root_snapshot()
        old = None if snapshot is None else snapshot.read(NODE_FILE)
        for file, data in self._tree.format.root_document(old, {name: list(numbers)}).items():
            self._changes.replace_file(self._tree.path_in_store(file), data)
            self._refresh(None)
            return
        self.write_array(name, np.array(numbers, dtype=np.uint8))
        self.publish(name, replace=False)

    def annotate(self, path: str, attributes: Mapping[str, str]) -> None:
        """Give attributes to the group or array that will be prepared at ``path`` after this."""
        self._attributes[path] = attributes

    def create_group(self, path: str) -> None:
        """Prepare a group."""
        self._documents(path, self._tree.format.group_documents())

    def mark_group(self, path: str) -> None:
        """Make what is at ``path`` a group, in place; the root of the tree if it is empty."""
        if not path and self._tree.format.root_document(None, {}):
            return  # the marker makes it one
        for name, data in self._tree.format.group_documents().items():
            key = posixpath.join(self._tree.path_in_store(path), name)
            self._changes.replace_file(key, data)

    def write_scalar(self, path: str, values: Any) -> None:
        """Prepare a scalar as an array of one element."""
        if isinstance(values, np.ndarray):
            self.write_array(path, values)
        else:
            self.write_strings(path, values, (1,))

    def write_array(self, path: str, values: AnyArray) -> None:
        """Prepare a numeric array."""
        kind = StorageType.of(values.dtype)
        if self.packs(values.shape, kind):
            self.write_blocks(path, values.shape, kind, [values])
            return
        if not values.size or not values.flags.c_contiguous or values.dtype != kind.dtype:
            self.reserve_array(path, values.shape, kind)[...] = values
            return
        self._array_documents(path, values.shape, kind)
        data = values.reshape(-1).view(np.uint8).data
        self._changes.write(self._chunk_key(path, values.shape), data)

    def write_strings(self, path: str, strings: pa.Array, shape: tuple[int, ...]) -> None:
        """Prepare an array of strings."""
        packing = self._tree.packing
        if packing is not None and self.packs(shape, StorageType.STRING):
            writer = ShardWriter(shape, StorageType.STRING, packing)
            writer.add_strings(strings)
            self._write_packed(path, shape, StorageType.STRING, writer, packing)
            return
        self._array_documents(path, shape, StorageType.STRING)
        size_bytes = vlen.encoded_bytes(strings)
        if len(strings) and size_bytes < _FILLED_IN_PLACE_BYTES:
            for block in vlen.encode_vlen_utf8(strings):
                self._changes.write(self._chunk_key(path, shape), block)
        elif len(strings):  # the blocks of an archive, or in memory, would be held until the end
            out = self._changes.reserve(self._chunk_key(path, shape), size_bytes)
            position = 0
            for block in vlen.encode_vlen_utf8(strings):
                out[position : position + len(block)] = np.frombuffer(block, np.uint8)
                position += len(block)

    def write_blocks(
        self,
        path: str,
        shape: tuple[int, ...],
        storage_type: StorageType,
        blocks: Iterable[AnyArray],
    ) -> None:
        """Prepare a numeric array of consecutive ranges of its first dimension."""
        packing = self._tree.packing
        if packing is None or not self.packs(shape, storage_type):
            fill_blocks(self.reserve_array(path, shape, storage_type), blocks)
            return
        writer = ShardWriter(shape, storage_type, packing)
        for block in blocks:
            writer.add_numbers(block)
        self._write_packed(path, shape, storage_type, writer, packing)

    def adopt_array(
        self,
        path: str,
        shape: tuple[int, ...],
        storage_type: StorageType,
        descriptor: int,
        *,
        link: bool,
    ) -> bool:
        """Prepare an array whose single chunk is a file that is there already."""
        if self.packs(shape, storage_type):
            return False
        if not self._changes.adopt(self._chunk_key(path, shape), descriptor, link=link):
            return False
        self._array_documents(path, shape, storage_type)
        return True

    def reserve_array(
        self, path: str, shape: tuple[int, ...], storage_type: StorageType
    ) -> AnyArray:
        """Prepare a numeric array to be filled in place."""
        self._array_documents(path, shape, storage_type)
        dtype = storage_type.dtype
        size_bytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if size_bytes == 0:
            return np.empty(shape, dtype)
        return (
            self._changes.reserve(self._chunk_key(path, shape), size_bytes)
            .view(dtype)
            .reshape(shape)
        )

    def publish(self, path: str, *, replace: bool) -> None:
        """Put a node in place and bring the consolidated metadata up to date."""
        self._changes.publish(self._tree.path_in_store(path), replace=replace)
        self._refresh(path)

    def remove(self, path: str) -> None:
        """Take a node away and bring the consolidated metadata up to date."""
        self._changes.remove(self._tree.path_in_store(path))
        self._refresh(path)

    def refresh(self) -> None:
        """Bring the consolidated metadata up to date with everything there is."""
        self._refresh(None)

    def _refresh(self, path: str | None) -> None:
        """Bring the consolidated metadata up to date, or leave a sign that this is to be done."""
        try:
            self._tree.refresh_consolidated(self._changes, path)
        except BaseException:
            self._changes.leave_sign()
            raise

    def _write_packed(
        self,
        path: str,
        shape: tuple[int, ...],
        kind: StorageType,
        writer: ShardWriter,
        packing: Packing,
    ) -> None:
        self._documents(path, self._tree.format.packed_documents(shape, kind, packing))
        for part in writer.parts():
            self._changes.write(self._chunk_key(path, shape), part)

    def _array_documents(self, path: str, shape: tuple[int, ...], kind: StorageType) -> None:
        self._documents(path, self._tree.format.array_documents(shape, kind))

    def _documents(self, path: str, documents: dict[str, bytes]) -> None:
        attributes = self._attributes.pop(path, None)
        if attributes:
            documents = self._tree.format.annotated(documents, attributes)
        for name, data in documents.items():
            self._changes.write(posixpath.join(self._tree.path_in_store(path), name), data)

    def _chunk_key(self, path: str, shape: tuple[int, ...]) -> str:
        return posixpath.join(self._tree.path_in_store(path), self._tree.format.chunk_key(shape))


def _frozen(values: AnyArray) -> AnyArray:
    values.flags.writeable = False
    return values


def _as_strings(values: AnyArray, *, what: str) -> pa.StringArray:
    """Turn what zarr decoded (objects, ``<U`` or ``|S``) into Arrow strings."""
    flat = values.reshape(-1)
    try:
        if flat.dtype.kind == "S":
            flat = np.char.decode(flat, "utf-8")
        return pa.array(flat.astype(object), pa.string())
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise CorruptDataError(f"{what}: the strings cannot be decoded ({error})") from error


def _unreadable(what: str, error: Exception) -> DafError:
    reason = " ".join(str(error).split()) or type(error).__name__
    if "codec" in reason.lower() or isinstance(error, NotImplementedError):
        return UnsupportedDataError(
            f"{what}: the array is stored with a codec that is not available here ({reason}); "
            "install it for numcodecs, or rewrite the array"
        )
    return CorruptDataError(f"{what}: the stored chunks cannot be decoded ({reason})")
