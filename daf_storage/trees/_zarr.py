"""The Zarr v2 tree over any store.

Arrays in the layout that Daf writes (one uncompressed chunk) are mapped, or decoded straight into
Arrow; every other array is read by zarr-python.  After each change the directory's ``.zmetadata``
is brought up to date, for readers that depend on it; this reader never looks at it.
"""

from __future__ import annotations

import itertools
import json
import posixpath
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import zarr

from daf_storage import strings as vlen
from daf_storage.errors import CorruptDataError, DafError, UnsupportedDataError
from daf_storage.model import AnyArray, Span, StorageType
from daf_storage.stores import Pin, ReadableStore, Transaction, WritableStore
from daf_storage.stores._zarr_adapter import PinnedZarrStore
from daf_storage.trees import _metadata_v2 as v2
from daf_storage.trees._protocol import ArrayInfo, NodeKind


class ZarrTree:
    """Groups and arrays of a Zarr v2 hierarchy.

    Parameters
    ----------
    store
        Where the bytes are.
    root
        Prefix of the hierarchy within the store; empty for the whole store.
    """

    def __init__(self, store: ReadableStore, root: str = "") -> None:
        self._store = store
        self._root = root

    @property
    def location(self) -> str:
        """Where the tree is, for messages."""
        return f"{self._store.location}#/{self._root}" if self._root else self._store.location

    def kind(self, path: str) -> NodeKind | None:
        """Return what is at ``path``; None if it is neither a group nor an array."""
        pin = self._pin(path)
        return None if pin is None else _kind(pin, "")

    def children(self, path: str) -> dict[str, NodeKind]:
        """Return the groups and arrays directly below ``path``."""
        pin = self._pin(path)
        if pin is None:
            return {}
        kinds = ((name, _kind(pin, name)) for name in pin.names())
        return {name: kind for name, kind in kinds if kind is not None}

    def identity(self, path: str) -> Hashable:
        """Return a value that changes whenever a child of ``path`` is put in place or removed."""
        pin = self._pin(path)
        return None if pin is None else pin.identity()

    def node(self, path: str) -> ZarrNode | None:
        """Return the group or array at ``path``, pinned."""
        pin = self._pin(path)
        kind = None if pin is None else _kind(pin, "")
        if pin is None or kind is None:
            return None
        return ZarrNode(pin, kind, what=f"{self.location}: {path}")

    def _pin(self, path: str) -> Pin | None:
        return self._store.pin(posixpath.join(self._root, path) if path else self._root)


class WritableZarrTree(ZarrTree):
    """A Zarr v2 hierarchy that can be changed.

    Parameters
    ----------
    store
        Where the bytes are.
    consolidated
        Whether to keep a ``.zmetadata`` at the root up to date.
    """

    def __init__(self, store: WritableStore, root: str = "", *, consolidated: bool) -> None:
        super().__init__(store, root)
        self._writable = store
        self._consolidated = _Consolidated() if consolidated else None

    @contextmanager
    def transaction(self) -> Iterator[ZarrTransaction]:
        """Begin changes."""
        with self._writable.transaction() as changes:
            yield ZarrTransaction(self, changes)

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

    def recover(self) -> bool:
        """Clear away what a crashed writer left, and mend the consolidated metadata."""
        found = self._writable.recover()
        if found:
            self.refresh()
        return found

    def refresh(self) -> bool:
        """Write the consolidated metadata anew; say whether it had been another one."""

        def current() -> bytes | None:
            pin = self._pin("")
            return None if pin is None else pin.read(v2.CONSOLIDATED_FILE)

        before = current()
        with self.transaction() as changes, self.lock():
            changes.refresh()
        return current() != before

    def path_in_store(self, path: str) -> str:
        """Return the key prefix of a node."""
        return posixpath.join(self._root, path) if path else self._root

    def refresh_consolidated(self, changes: Transaction, path: str | None) -> None:
        """Bring ``.zmetadata`` up to date after a change at ``path`` (None: everything)."""
        pin = self._pin("")
        if self._consolidated is not None and pin is not None:
            data = self._consolidated.updated(pin, path)
            changes.replace_file(self.path_in_store(v2.CONSOLIDATED_FILE), data)


class ZarrNode:
    """A pinned group or array; see `Node`."""

    def __init__(self, pin: Pin, kind: NodeKind, *, what: str) -> None:
        self.kind = kind
        self.identity = pin.identity()
        self._pin = pin
        self._what = what

    def array(self, name: str = "") -> ZarrArray | None:
        """Return this array, or the one of that name below this group."""
        what = f"{self._what}/{name}" if name else self._what
        data = self._pin.read(posixpath.join(name, v2.ARRAY_FILE))
        if data is None:
            return None
        return ZarrArray(self._pin, name, v2.parse_array(data, what=what), what=what)


class ZarrArray:
    """An array of a pinned node; see `StoredArray`."""

    def __init__(self, pin: Pin, path: str, metadata: v2.ArrayMetadata, *, what: str) -> None:
        self.info = replace(metadata.info, is_mappable=metadata.info.is_mappable and pin.is_local)
        self._is_ranged = metadata.info.is_mappable and not pin.is_local
        self._pin = pin
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

    def read_spans(self, spans: list[Span]) -> list[AnyArray]:
        """Return several ranges of the first dimension; of a server, asked for together."""
        if self.info.is_mappable:
            mapped = self._mapped()
            return [mapped[span.slice] for span in spans]
        if self._is_ranged and self.info.shape:
            return self._ranged(spans)
        return [self._foreign(span.slice) for span in spans]

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings, decoded straight into Arrow where they are stored plainly."""
        if not self._metadata.has_plain_chunk:
            return _as_strings(self._foreign(slice(None)), what=self._what)
        if self.info.size == 0:
            return pa.array([], pa.string())
        data = self._pin.map(self._chunk_key())
        if data is None:
            return _as_strings(self._filled(), what=self._what)
        decoded = vlen.decode_vlen_utf8(data, what=self._what)
        if len(decoded) != self.info.size:
            raise CorruptDataError(
                f"{self._what}: the chunk holds {len(decoded):,} strings, "
                f"but the shape {list(self.info.shape)} needs {self.info.size:,}"
            )
        return decoded

    def _mapped(self) -> AnyArray:
        dtype = self.info.storage_type.dtype
        if self.info.size == 0:
            return _frozen(np.empty(self.info.shape, dtype))
        data = self._pin.map(self._chunk_key())
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
        size = self._pin.size(self._chunk_key())
        if size is None:
            values = self._filled()
            return [values[span.slice] for span in spans]
        if size != self.info.size * dtype.itemsize:
            raise self._wrong_size(size)
        ranges = [(span.start * row_bytes, span.stop * row_bytes) for span in spans]
        parts = self._pin.read_ranges(self._chunk_key(), ranges)
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
        if self._metadata.fill_value is None:
            raise CorruptDataError(
                f"{self._what}: the chunk file {self._metadata.first_chunk_key!r} is missing, "
                "and the array has no fill value to stand in for it"
            )
        return self._foreign(slice(None))

    def _foreign(self, rows: slice) -> AnyArray:
        """Let zarr-python read the array, whatever its codecs."""
        try:
            array = zarr.open_array(
                PinnedZarrStore(self._pin), path=self._path, mode="r", zarr_format=2
            )
            values = np.asarray(array[rows])
        except DafError:
            raise
        except Exception as error:  # zarr raises many kinds for data that it cannot read
            raise _unreadable(self._what, error) from error
        self._refuse_missing_chunks(rows)
        if self.info.storage_type.is_string:
            return values
        return _frozen(values.astype(self.info.storage_type.dtype, copy=False))

    def _refuse_missing_chunks(self, rows: slice) -> None:
        if self._metadata.fill_value is not None or self.info.size == 0:
            return
        first, last, _ = rows.indices(self.info.shape[0])
        height = self.info.chunks[0]
        below = [-(-n // c) for n, c in zip(self.info.shape[1:], self.info.chunks[1:], strict=True)]
        grid = itertools.product(range(first // height, -(-last // height)), *map(range, below))
        for position in grid:
            key = self._metadata.separator.join(map(str, position))
            if self._pin.size(posixpath.join(self._path, key)) is None:
                raise CorruptDataError(
                    f"{self._what}: chunk {key!r} is missing, and the array has no fill value"
                )

    def _chunk_key(self) -> str:
        return posixpath.join(self._path, self._metadata.first_chunk_key)


class ZarrTransaction:
    """Changes to a Zarr hierarchy; see `TreeTransaction`."""

    stores_sparse_strings = False

    def __init__(self, tree: WritableZarrTree, changes: Transaction) -> None:
        self._tree = tree
        self._changes = changes

    def create_group(self, path: str) -> None:
        """Prepare a group."""
        self._document(path, v2.GROUP_FILE, v2.GROUP_BYTES)
        self._document(path, v2.ATTRIBUTES_FILE, v2.ATTRIBUTES_BYTES)

    def mark_group(self, path: str) -> None:
        """Make what is at ``path`` a group, in place; the root of the tree if it is empty."""
        for name, data in (
            (v2.GROUP_FILE, v2.GROUP_BYTES),
            (v2.ATTRIBUTES_FILE, v2.ATTRIBUTES_BYTES),
        ):
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
        if not values.size or not values.flags.c_contiguous or values.dtype != kind.dtype:
            self.reserve_array(path, values.shape, kind)[...] = values
            return
        self._array_documents(path, values.shape, kind)
        data = values.reshape(-1).view(np.uint8).data
        self._changes.write(self._chunk_key(path, values.shape), data)

    def write_strings(self, path: str, strings: pa.Array, shape: tuple[int, ...]) -> None:
        """Prepare an array of strings."""
        self._array_documents(path, shape, StorageType.STRING)
        if len(strings):
            for block in vlen.encode_vlen_utf8(strings):
                self._changes.write(self._chunk_key(path, shape), block)

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
        self._tree.refresh_consolidated(self._changes, path)

    def remove(self, path: str) -> None:
        """Take a node away and bring the consolidated metadata up to date."""
        self._changes.remove(self._tree.path_in_store(path))
        self._tree.refresh_consolidated(self._changes, path)

    def refresh(self) -> None:
        """Bring the consolidated metadata up to date with everything there is."""
        self._tree.refresh_consolidated(self._changes, None)

    def _array_documents(self, path: str, shape: tuple[int, ...], kind: StorageType) -> None:
        self._document(path, v2.ARRAY_FILE, v2.render_array(shape, kind))
        self._document(path, v2.ATTRIBUTES_FILE, v2.ATTRIBUTES_BYTES)

    def _document(self, path: str, name: str, data: bytes) -> None:
        self._changes.write(posixpath.join(self._tree.path_in_store(path), name), data)

    def _chunk_key(self, path: str, shape: tuple[int, ...]) -> str:
        return posixpath.join(self._tree.path_in_store(path), ".".join("0" * len(shape)))


class _Consolidated:
    """The documents of ``.zmetadata``, kept so that one change costs one property, not all.

    They are read anew whenever the file is not the one that was written last: another process
    has changed the data set.
    """

    def __init__(self) -> None:
        self._documents: dict[str, bytes] = {}
        self._last: bytes | None = None

    def updated(self, pin: Pin, path: str | None) -> bytes:
        """Return the new contents of ``.zmetadata`` after a change at ``path``."""
        if path is None or self._last is None or pin.read(v2.CONSOLIDATED_FILE) != self._last:
            self._documents = dict(_documents(pin, ""))
        else:
            start = f"{path}/"
            kept = {k: v for k, v in self._documents.items() if not k.startswith(start)}
            self._documents = {**kept, **dict(_documents(pin, path))}
        self._last = v2.render_consolidated(self._documents)
        return self._last


def _documents(pin: Pin, path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the metadata documents at and below ``path``, as compact JSON."""
    names = pin.names(path)
    for name in (v2.GROUP_FILE, v2.ARRAY_FILE):
        data = _compact(pin.read(posixpath.join(path, name))) if name in names else None
        if data is None:
            continue
        yield posixpath.join(path, name), data
        attributes = _compact(pin.read(posixpath.join(path, v2.ATTRIBUTES_FILE)))
        yield posixpath.join(path, v2.ATTRIBUTES_FILE), attributes or v2.ATTRIBUTES_BYTES
        if name == v2.GROUP_FILE:
            for child in names:
                if not child.startswith(".z"):
                    yield from _documents(pin, posixpath.join(path, child))


def _compact(data: bytes | None) -> bytes | None:
    """Return a document on one line; None where it is missing or not JSON."""
    try:
        return (
            None if data is None else json.dumps(json.loads(data), separators=(",", ":")).encode()
        )
    except ValueError:
        return None


def _kind(pin: Pin, path: str) -> NodeKind | None:
    if pin.size(posixpath.join(path, v2.ARRAY_FILE)) is not None:
        return "array"
    if pin.size(posixpath.join(path, v2.GROUP_FILE)) is not None:
        return "group"
    return None


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


__all__ = ["ArrayInfo", "WritableZarrTree", "ZarrArray", "ZarrNode", "ZarrTransaction", "ZarrTree"]
