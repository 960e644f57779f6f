"""Common parts of trees whose arrays are files, and that can be changed.

A tree says which files an array has, and what its documents say; here it is decided how files are
written, and when the file at the root is written again that repeats all documents, for readers that
cannot list a directory, such as those of servers.  It is brought up to date after each change,
which can fail when the change is already in place: then a sign is left for the next writer.
"""

from __future__ import annotations

import copy
import functools
import itertools
import json
import math
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

import google_crc32c
import numpy as np
import pyarrow as pa

from daf_storage._lazy import numcodecs
from daf_storage.base import AnyArray, Packing, StorageType, computed
from daf_storage.base import strings as vlen
from daf_storage.errors import CorruptDataError, DafError, FormatError, ReadOnlyError
from daf_storage.stores import Transaction, os_errors
from daf_storage.trees._chunked_array import groups
from daf_storage.trees._metadata import to_json
from daf_storage.trees._zarr_array import CHECKSUM_BYTES, ENTRY_BYTES, StoreTree

T = TypeVar("T")


@dataclass(eq=False)
class Consolidated(Generic[T]):
    """The consolidated documents, kept so that one change costs one property, not all.

    All trees share them that differ in how they pack.
    """

    documents: dict[str, T] = field(default_factory=dict)
    """They are read again whenever the file is not `last`: another process has changed the data."""
    last: bytes | None = None
    """The file as it was written last."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    batches: int = 0
    """How many batches there are, at the end of the last of which it is written once."""
    postponed: set[str] | None = field(default_factory=set)
    """The paths of what they have changed; None for everything."""


def scratch_array(
    shape: tuple[int, ...], kind: StorageType, folder: Path | None = None
) -> AnyArray:
    """Return zeros, in memory or in a temporary file that goes with them.

    Parameters
    ----------
    folder
        Where such a file is; None for the system's folder.
    """
    if math.prod(shape) * kind.dtype.itemsize < _SCRATCH_BYTES:
        return np.zeros(shape, kind.dtype)
    with os_errors(str(folder or gettempdir())), TemporaryFile(dir=folder) as file:
        return np.memmap(file, kind.dtype, "w+", shape=shape)


_SCRATCH_BYTES = 1 << 24
_PART_BYTES: Final = 1 << 24

_TASK_BYTES: Final = 1 << 18
"""About how many bytes a thread compresses at a time."""
_SHUFFLES: Final = {"shuffle": 1, "bitshuffle": 2}


class ShardWriter:
    """Compresses an array chunk by chunk; memory does not grow with it.

    Parameters
    ----------
    shape, storage_type, packing
        Of the array; its chunks follow from them.
    """

    def __init__(self, shape: tuple[int, ...], storage_type: StorageType, packing: Packing) -> None:
        chunks = packing.chunks(shape, storage_type) or shape
        self._width = math.prod(chunks)
        self._is_flat = chunks[1:] == shape[1:]  # the elements of a chunk follow each other
        self._dtype = None if storage_type.is_string else storage_type.dtype
        self._per_task = max(_TASK_BYTES // (packing.chunk_kb << 10), 1)
        self._compress: Callable[[Any], bytes] = _compressor(packing)
        self._rest = np.empty(0, self._dtype or np.uint8)
        self._places: list[tuple[int, int]] = []
        count = math.prod(math.ceil(n / c) for n, c in zip(shape, chunks, strict=True))
        self._end = count * ENTRY_BYTES + CHECKSUM_BYTES
        with os_errors(gettempdir()):
            self._waiting = TemporaryFile()  # noqa: SIM115 - it goes with this object

    def add(self, block: Any) -> None:
        """Add the next range of the first dimension, or all strings of a vector."""
        if self._dtype is None:
            self._run(self._pieces(block))
            return
        if not self._is_flat:
            self._run(piece for row in block for piece in self._pieces(row))
            return
        values = block.reshape(-1)
        if self._rest.size:
            values = np.concatenate([self._rest, values])
        stop = values.size // self._width * self._width
        self._run(self._pieces(values[:stop]))
        self._rest = values[stop:].copy()

    def parts(self) -> Iterator[bytes | memoryview]:
        """Yield the bytes of the file: the index, then the chunks; they stay what they are."""
        self._run(self._pieces(self._rest))
        index = np.array(self._places, "<u8").tobytes()
        yield index + struct.pack("<I", google_crc32c.value(index))
        with os_errors(gettempdir()), self._waiting as file:
            file.flush()
            mapped: AnyArray = np.memmap(file, np.uint8, "r")
        for start in range(0, mapped.size, _PART_BYTES):
            yield mapped[start : start + _PART_BYTES].data

    def _pieces(self, values: Any) -> Iterator[Any]:
        """Yield the elements of each chunk; the last one may have fewer."""
        return (values[n : n + self._width] for n in range(0, len(values), self._width))

    def _run(self, pieces: Iterable[Any]) -> None:
        """Compress chunks side by side, and note them in their order."""
        tasks = (functools.partial(self._packed, group) for group in groups(pieces, self._per_task))
        for chunk in itertools.chain.from_iterable(computed(tasks)):
            with os_errors(gettempdir()):
                self._waiting.write(chunk)
            self._places.append((self._end, len(chunk)))
            self._end += len(chunk)

    def _packed(self, pieces: list[Any]) -> list[bytes]:
        return [self._compress(self._filled(piece)) for piece in pieces]

    def _filled(self, piece: Any) -> Any:
        """Return what is compressed of a chunk; the last one is filled up."""
        missing = self._width - len(piece)
        if self._dtype is None:
            if missing:
                piece = pa.concat_arrays([piece, pa.repeat(pa.scalar("", piece.type), missing)])
            return b"".join(map(bytes, vlen.encode_vlen_utf8(piece)))
        if missing:
            piece = np.concatenate([piece, np.zeros(missing, piece.dtype)])
        return np.ascontiguousarray(piece, self._dtype)


def _compressor(packing: Packing) -> Callable[[Any], bytes]:
    """Return the function that compresses a chunk."""
    codec: dict[str, Any] = {"id": packing.codec, "level": packing.level}
    if packing.codec.startswith("blosc"):
        shuffle = _SHUFFLES[packing.shuffle]
        codec = {"id": "blosc", "cname": packing.compressor, "clevel": packing.level}
        codec |= {"shuffle": shuffle, "blocksize": 0}
    encode: Callable[[Any], bytes] = numcodecs.get_codec(codec).encode
    return encode


class FileTree(StoreTree, Generic[T]):
    """A tree of files that can be changed: its batches, and the file that repeats all documents."""

    packing: Packing | None
    """How arrays are packed that are written; None if they are not."""
    _writable: Any
    _consolidated: Consolidated[T] | None
    """None where that file is not kept."""

    @property
    @abstractmethod
    def consolidated_file(self) -> str:
        """The name of the file that repeats all documents."""

    @abstractmethod
    def transaction(self) -> Any:
        """Begin changes."""

    @abstractmethod
    def listed(self, data: bytes) -> Mapping[str, T]:
        """Return what the file repeats by its keys; ``ValueError`` and others if malformed."""

    @abstractmethod
    def documents(self, path: str) -> Iterable[tuple[str, T]]:
        """Yield the documents at and below a path, but for those that cannot be read."""

    @abstractmethod
    def consolidate(self, documents: Mapping[str, T]) -> bytes:
        """Return the file that repeats documents."""

    @abstractmethod
    def lost_file(self, key: str) -> str | None:
        """Return where a document was that is gone, while the data of its node are there."""

    def packing_as(self, packing: Packing | None) -> Self:
        """Return the same tree, which packs what is written so; None leaves it unpacked."""
        self.check_packing(packing)
        other = copy.copy(self)
        other.packing = packing
        return other

    def check_packing(self, packing: Packing | None) -> None:
        """Refuse a packing that the files have no place for."""

    @property
    def is_append_only(self) -> bool:
        """Whether what is there can be neither replaced nor removed."""
        return bool(self._writable.is_append_only)

    @contextmanager
    def rebuilt(self, without: list[str]) -> Iterator[Self]:
        """Hand out a tree without some nodes, which takes the place of this one at the end."""
        with self._writable.rebuilt([key for path in without for key in self.keys(path)]) as store:
            tree = copy.copy(self)
            tree._store = tree._writable = store  # noqa: SLF001 - of the same class
            tree._consolidated = self._consolidated and Consolidated()  # noqa: SLF001
            yield tree
            tree.refresh()

    def keys(self, path: str) -> list[str]:
        """Return the keys at and below which all of a node is."""
        return [self.key(path)]

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Make many changes at the cost of one, if it can; what is consolidated comes last."""
        with self._writable.batch():
            kept = self._consolidated
            if kept is None:
                yield
                return
            with kept.lock:
                kept.batches += 1
            try:
                yield
            except BaseException:
                with suppress(DafError, OSError):  # the first error says more
                    self._end_batch(kept)
                raise
            self._end_batch(kept)

    def _end_batch(self, kept: Consolidated[T]) -> None:
        paths: set[str] | None = set()
        with kept.lock:
            kept.batches -= 1
            if not kept.batches:
                paths, kept.postponed = kept.postponed, paths
        if paths is None or paths:
            self.refresh(paths)

    def lock(self) -> Any:
        """Exclude other writers."""
        return self._writable.lock()

    def recover(self) -> bool:
        """Clear away what a crashed writer left, and mend the file that repeats all documents.

        That is written again if a writer left a sign that it could not write it, or it is missing.
        """
        found = bool(self._writable.recover())
        if found or not self.is_consolidated():
            self.refresh()
        return found

    def consolidated(self) -> bytes | None:
        """Return the file that repeats all documents; None if none can be read."""
        snapshot = self._writable.snapshot(self.key(""))
        with suppress(FormatError, ReadOnlyError):
            return None if snapshot is None else snapshot.read(self.consolidated_file)
        return None

    def repeated(self) -> Mapping[str, T]:
        """Return the documents that it repeats; none if there is no such file.

        Raises
        ------
        FormatError, ReadOnlyError
            It is malformed, or cannot be read.
        """
        snapshot = self._writable.snapshot(self.key(""))
        data = None if snapshot is None else snapshot.read(self.consolidated_file)
        try:
            return {} if data is None else self.listed(data)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = str(error) if isinstance(error, ValueError) else type(error).__name__
            problem = f"the consolidated metadata is malformed: {reason}"
            raise CorruptDataError(problem) from None

    def is_consolidated(self) -> bool:
        """Return whether that file, if it is kept, is there and can be read."""
        with suppress(FormatError, ReadOnlyError):
            return self._consolidated is None or self._is_all(self.repeated())
        return False

    def _is_all(self, documents: Mapping[str, T]) -> bool:
        """Return whether these can be all, as far as it is found out at each opening."""
        return bool(documents)

    def differences(self, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield the keys at and below some paths of which that file is wrong, and how.

        Reads every document.
        """
        prefixes = tuple(f"{path}/" for path in paths)
        stored = _compared(each for path in paths for each in self.documents(path))
        listed = _compared(self.repeated().items())
        for key, document in stored.items():
            if listed.get(key) != document:
                yield key, "different in" if key in listed else "not in"
        for key in sorted(listed.keys() - stored.keys()):
            if key.startswith(prefixes) and self.kind(key) is None:  # what is there is not readable
                yield key, "gone, and still in"

    def restore(self, documents: Mapping[str, T]) -> list[str]:
        """Write documents again whose files are lost; return their keys."""
        files = {key: file for key in documents if (file := self.lost_file(key)) is not None}
        with self._writable.transaction() as changes, self.lock():
            for key, file in files.items():
                data = documents[key]
                changes.replace_file(file, data if isinstance(data, bytes) else to_json(data))
        return list(files)

    def refresh(self, paths: Collection[str] | None = None) -> None:
        """Write the file that repeats all documents, after changes at ``paths`` (None: all)."""
        with self.transaction() as changes, self.lock():
            changes.refresh(paths)

    def refresh_consolidated(self, changes: Transaction, paths: Collection[str] | None) -> None:
        """Bring it up to date after changes at ``paths`` (None: all); in a batch, at its end."""
        kept = self._consolidated
        if kept is None:
            return
        with kept.lock:
            if kept.batches and kept.postponed is not None:
                kept.postponed = None if paths is None else kept.postponed.union(paths)
            if kept.batches:
                return
        if paths is None or kept.last is None or self.consolidated() != kept.last:
            kept.documents = dict(self.documents(""))
        else:
            gone = frozenset(paths)
            for key in list(kept.documents):
                at_and_above = itertools.accumulate(key.split("/"), "{}/{}".format)
                if not gone.isdisjoint(at_and_above):
                    del kept.documents[key]
            for path in paths:
                kept.documents.update(self.documents(path))
        kept.last = self.consolidate(kept.documents)
        changes.replace_file(self.key(self.consolidated_file), kept.last)


def _compared(documents: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return documents as they are compared, but for attributes of Zarr v2 that are empty."""
    loaded = ((k, json.loads(d) if isinstance(d, bytes) else d) for k, d in documents)
    return {key: document for key, document in loaded if document}


class ArrayChanges(ABC):
    """What all changes of arrays have in common; see `TreeTransaction`.

    Parameters
    ----------
    tree
        The tree that is changed.
    """

    def __init__(self, tree: Any) -> None:
        self._tree = tree
        self._attributes: dict[str, Mapping[str, str]] = {}
        self._aside: dict[str, AnyArray] = {}

    @abstractmethod
    def write_array(self, path: str, values: AnyArray) -> None:
        """Prepare a numeric array."""

    def reserve_array(
        self,
        path: str,
        shape: tuple[int, ...],
        storage_type: StorageType,
        folder: Path | None = None,
    ) -> AnyArray:
        """Prepare a numeric array of zeros to be filled in place; see `TreeTransaction`."""
        packs = self.packs(shape, storage_type)
        found = None if packs else self._mapped(path, shape, storage_type)
        if found is None:
            found = self._aside[path] = scratch_array(shape, storage_type, folder)
        return found

    @abstractmethod
    def _mapped(
        self, path: str, shape: tuple[int, ...], storage_type: StorageType
    ) -> AnyArray | None:
        """Prepare a numeric array of zeros, mapped; None if it cannot be."""

    def write_aside(self, path: str) -> None:
        """Write what was filled in aside of what is prepared at and below a path."""
        for filled in [key for key in self._aside if f"{key}/".startswith(f"{path}/")]:
            self.write_array(filled, self._aside.pop(filled))

    @abstractmethod
    def publish(self, path: str, *, replace: bool) -> None:
        """Put what was prepared at and below ``path`` in place."""

    def mark(self, name: str, numbers: tuple[int, ...]) -> None:
        """Mark the root with a few numbers."""
        self.write_array(name, np.array(numbers, dtype=np.uint8))
        self.publish(name, replace=False)

    def annotate(self, path: str, attributes: Mapping[str, str]) -> None:
        """Give attributes to the group or array that will be prepared at ``path`` after this."""
        self._attributes[path] = attributes

    def packs(self, shape: tuple[int, ...], storage_type: StorageType) -> bool:
        """Return whether an array of this kind would be packed."""
        return self._packing(shape, storage_type) is not None

    def _packing(self, shape: tuple[int, ...], kind: StorageType) -> Packing | None:
        """Return how an array is packed; None if it is not."""
        packing: Packing | None = self._tree.packing
        return None if packing is None or packing.chunks(shape, kind) is None else packing


class FileChanges(ArrayChanges):
    """Arrays that are prepared as files; see `TreeTransaction`."""

    has_empty_files: ClassVar[bool] = False
    """Whether an array without elements has a file."""

    def __init__(self, tree: FileTree[Any], changes: Any) -> None:
        super().__init__(tree)
        self._changes = changes

    @abstractmethod
    def _prepared(
        self, path: str, shape: tuple[int, ...], kind: StorageType, packing: Packing | None = None
    ) -> str:
        """Prepare what is said of an array, and return the key of its file."""

    def write_array(self, path: str, values: AnyArray) -> None:
        """Prepare a numeric array."""
        kind = StorageType.of(values.dtype)
        if self.packs(values.shape, kind):
            self.write_blocks(path, values.shape, kind, [values])
        elif not values.size or not values.flags.c_contiguous or values.dtype != kind.dtype:
            self._mapped(path, values.shape, kind)[...] = values
        else:
            data = values.reshape(-1).view(np.uint8).data
            self._changes.write(self._prepared(path, values.shape, kind), data)

    def write_blocks(
        self,
        path: str,
        shape: tuple[int, ...],
        storage_type: StorageType,
        blocks: Iterable[AnyArray],
    ) -> None:
        """Prepare a numeric array of consecutive ranges of its first dimension."""
        if not self._write_packed(path, shape, storage_type, blocks):
            out, start = self._mapped(path, shape, storage_type), 0
            for block in blocks:
                np.copyto(out[start : start + len(block)], block, casting="unsafe")
                start += len(block)

    def link_array(
        self, path: str, shape: tuple[int, ...], storage_type: StorageType, descriptor: int
    ) -> bool:
        """Prepare a numeric array whose elements are those of a file, which is shared; or do not.

        A store that has no directories of files has no ``link``.
        """
        link = getattr(self._changes, "link", None)
        if link is None or storage_type.is_string or self.packs(shape, storage_type):
            return False
        link(self._prepared(path, shape, storage_type), descriptor)
        return True

    def _mapped(self, path: str, shape: tuple[int, ...], storage_type: StorageType) -> AnyArray:
        key = self._prepared(path, shape, storage_type)
        dtype = storage_type.dtype
        size_bytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if size_bytes:
            found: AnyArray = self._changes.reserve(key, size_bytes).view(dtype).reshape(shape)
            return found
        if self.has_empty_files:
            self._changes.write(key, b"")
        return np.empty(shape, dtype)

    def refresh(self, paths: Collection[str] | None) -> None:
        """Bring what repeats all documents up to date, or leave a sign that this is to be done."""
        try:
            self._tree.refresh_consolidated(self._changes, paths)
        except BaseException:
            self._changes.leave_sign()
            raise

    def _write_packed(
        self, path: str, shape: tuple[int, ...], kind: StorageType, blocks: Iterable[Any]
    ) -> bool:
        """Prepare a packed array, if it is to be packed; say whether it is."""
        packing = self._packing(shape, kind)
        if packing is None:
            return False
        writer = ShardWriter(shape, kind, packing)
        for block in blocks:
            writer.add(block)
        key = self._prepared(path, shape, kind, packing)
        for part in writer.parts():
            self._changes.write(key, part)
        return True
