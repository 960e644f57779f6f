"""Groups and datasets that are read.

Datasets of fixed-size types that lie in the file as they are get mapped, not read through h5py.
The chunks of others are mapped and decoded here where that is known to be right (`Hdf5Chunks`); the
rest is read through h5py, only the part that is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from contextlib import suppress
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from daf_storage.base import AnyArray, Span, install_command, one_array, optional_import
from daf_storage.errors import (
    CorruptDataError,
    DafError,
    MissingDependencyError,
    UnsupportedDataError,
)
from daf_storage.stores import ReadEstimate
from daf_storage.trees._array_bases import NotFileBacked
from daf_storage.trees._chunked_array import ChunkMemory
from daf_storage.trees._hdf5_checks import check_source
from daf_storage.trees._hdf5_chunks import (
    Hdf5Chunks,
    Hdf5Locator,
    Pipeline,
    check_expansion,
    references_of,
)
from daf_storage.trees._hdf5_file import Hdf5File, HeldObject, open_below
from daf_storage.trees._hdf5_strings import read_many
from daf_storage.trees._hdf5_types import (
    H5PY_ERRORS,
    STRING_BLOCK,
    h5py,
    is_plain,
    known_type,
    node_kind,
    reason_of,
    scalar_attribute,
    storage_type_of,
)
from daf_storage.trees._joined_ranges import Ranges
from daf_storage.trees._metadata import check_chunk_bytes
from daf_storage.trees._protocol import ArrayInfo, NodeKind

_FIRST_FOREIGN_FILTER: Final = 256
_MAX_ELEMENTS: Final = 2**62


class Hdf5Node:
    """A group or dataset, held open; see `Node`."""

    def __init__(
        self,
        shared: Hdf5File,
        held: HeldObject,
        kind: NodeKind,
        identity: tuple[Hashable, Hashable],
        *,
        what: str,
    ) -> None:
        self.kind = kind
        self.identity: Hashable = identity
        self.version = identity[0]
        """What changes whenever this process puts another one in its place."""
        self._shared = shared
        self._held = held
        self._what = what
        self._arrays: dict[str, Hdf5Array | None] = {}
        self._attributes: dict[str, Any] = {}

    def is_same(self, other: object) -> bool:
        """Return whether another node is the very same stored one."""
        return isinstance(other, Hdf5Node) and self.version == other.version

    def array(self, name: str = "") -> Hdf5Array | None:
        """Return this dataset, or the one of that name below this group; of a reader, opened once.

        A file that changes meanwhile has other nodes.
        """
        with self._shared.lock:
            if self._is_changing():
                return self._open_array(name)
            if name not in self._arrays:
                self._arrays[name] = self._open_array(name)
            return self._arrays[name]

    def held_open(self) -> Any:
        """Return the identifier of what it is; None where the file was opened again since."""
        return self._held.id if self._held.is_open else None

    def _is_changing(self) -> bool:
        """Return whether nothing may be remembered: the file is written to, or was opened again."""
        if self._held.is_open and not self._shared.is_writable:
            return False
        self._arrays.clear()
        self._attributes.clear()
        return True

    def _open_array(self, name: str) -> Hdf5Array | None:
        what = f"{self._what}/{name}" if name else self._what
        if not name and self.kind == "array":
            return Hdf5Array(self._shared, self._held, what=what)
        if not name or self.kind != "group":
            return None
        found = open_below(self._held.id, name, what=what)
        if node_kind(found) != "array":
            return None
        held = HeldObject(self._shared, found, f"{self._held.name}/{name}")
        return Hdf5Array(self._shared, held, what=what)

    def attribute(self, name: str) -> Any:
        """Return an attribute of this group or dataset; None if it has none of this name."""
        with self._shared.lock:
            if self._is_changing():
                return self._read_attribute(name)
            if name not in self._attributes:
                self._attributes[name] = self._read_attribute(name)
            return self._attributes[name]

    def _read_attribute(self, name: str) -> Any:
        h5a, found = h5py().h5a, self._held.id
        try:
            # Asked first: h5py takes ten times as long to say that there is none by an exception.
            encoded = name.encode()
            if not h5a.exists(found, encoded):
                return None
            attribute = h5a.open(found, encoded)
            stored = attribute.get_type()
            value = scalar_attribute(attribute, stored, f"{self._what}: the attribute {name!r}")
            return h5py().AttributeManager(self._held)[name] if value is None else value
        except (OSError, RuntimeError, ValueError, TypeError, KeyError) as error:
            raise CorruptDataError(
                f"{self._what}: the attribute {name!r} cannot be read ({reason_of(error)})"
            ) from error


class Hdf5Array(NotFileBacked):
    """One dataset; see `StoredArray`."""

    def __init__(self, shared: Hdf5File, held: HeldObject, *, what: str) -> None:
        self._shared = shared
        self._held = held
        self._what = what
        try:
            self.info, self._item_bytes, self._is_chunked = dataset_info(shared, held.id, what)
        except DafError:
            raise
        except H5PY_ERRORS as error:
            raise CorruptDataError(f"{what}: cannot be read ({reason_of(error)})") from error
        self._opened: tuple[Hashable, Hdf5Chunks | None] | None = None

    @property
    def _dataset(self) -> Any:
        return self._held.get()

    def fingerprint(self) -> list[int] | None:
        """Return what tells the file from what it was."""
        with self._shared.lock:
            return self._shared.fingerprint()

    def check_stored(self, *, is_complete: bool = False) -> None:
        """Raise if there is no room in the file for the elements, by what it says of its size."""
        with self._shared.lock:
            self._attempt(lambda: self._check_stored(is_complete=is_complete))

    def _check_stored(self, *, is_complete: bool) -> None:
        is_needed = is_complete or not self._is_chunked
        if is_needed and not self._has_all():
            raise CorruptDataError(
                f"{self._what}: the shape {list(self.info.shape)} needs more elements than are "
                "stored"
            )
        offset = self._held.id.get_offset()
        if offset is not None:
            self._check_size(offset, self.info.size * self._item_bytes)

    def _has_all(self) -> bool:
        """Return whether there is room in the file for all elements."""
        shape, dataset = self.info.shape, self._held.id
        if 0 in shape:
            return True
        if not self._is_chunked:
            return bool(dataset.get_storage_size() >= self.info.size * self._item_bytes)
        grid = math.prod(-(-n // c) for n, c in zip(shape, self.info.chunks, strict=True))
        return bool(dataset.get_num_chunks() >= grid)

    def _check_size(self, offset: int, size_bytes: int) -> None:
        """Raise if the file ends before the elements do."""
        available = self._shared.size_bytes()
        if offset + size_bytes > available:
            raise CorruptDataError(
                f"{self._what}: the file is truncated: {size_bytes:,} bytes at {offset:,} were "
                f"recorded, and the file has {available:,}"
            )

    def _read_many_strings(self) -> Any:
        """Return strings of variable length, whose heaps are checked; None where HDF5 reads them.

        HDF5 is asked for what was checked here, if at all.
        """
        dataset, shared = self._held.id, self._shared
        kind, base = dataset.get_type(), shared.heap_base
        is_variable = kind.get_class() == h5py().h5t.STRING and kind.is_variable_str()
        if not is_variable or not shared.can_map or base is None:
            return None
        with shared.lock:
            shared.check_length(what=self._what)
            if shared.is_writable:
                shared.flush()
            file = shared.whole()
            return read_many(
                file,
                lambda: references_of(dataset, file, what=self._what),
                self.info.size,
                base=base,
                what=self._what,
                walked=shared.walked_heaps(),
            )

    def read(self) -> AnyArray:
        """Return all elements; a read-only view of the mapped file where that is possible."""
        if self.info.is_mappable:
            return self._mapped()
        chunks = self._chunks()
        if chunks is not None:
            whole = chunks.whole()
            return self.read_rows(Span(0, self.info.shape[0])) if whole is None else whole
        self._check_expansion(Span(0, self.info.shape[0] if self.info.shape else 1))
        return self._converted(self._attempt(lambda: self._dataset[()]))

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return several ranges of the first dimension; each chunk is decoded once."""
        if self.info.is_mappable:
            return super().read_spans(spans, within)
        chunks = self._chunks()
        if chunks is not None:
            return chunks.read_spans(spans, within)
        rest = () if within is None else (within.slice,)
        return [self._read_slow((span.slice, *rest)) for span in spans]

    def read_joined(self, ranges: Ranges) -> AnyArray | None:
        """Return ranges of an array of one dimension in one array; None where HDF5 reads them."""
        chunks = self._chunks()
        return None if chunks is None else chunks.read_joined(ranges)

    def estimate(
        self, spans: list[Span], estimate: ReadEstimate, within: Span | None = None
    ) -> None:
        """Add the bytes of the elements, or the stored bytes of their chunks."""
        chunks = self._chunks()
        if chunks is None:
            super().estimate(spans, estimate, within)
        else:
            chunks.estimate(spans, estimate, within)

    def _chunks(self) -> Hdf5Chunks | None:
        """Return the chunks as they are read without HDF5; None where they cannot be.

        Where they are is asked when they are first needed, and again when the file has changed.
        """
        if not self._is_listable:
            return None
        self._shared.check_length(what=self._what)
        current = self._shared.version_of_bytes()
        if self._opened is None or self._opened[0] != current:
            with self._shared.lock:
                self._opened = (current, self._attempt(lambda: self._open_chunks(*current)))
        return self._opened[1]

    @cached_property
    def _is_listable(self) -> bool:
        """Whether it has chunks of numbers, in a file that nothing of this process writes to."""
        info, shared = self.info, self._shared
        if info.is_mappable or info.storage_type.is_string or 0 in info.shape or not info.shape:
            return False
        with shared.lock:
            is_plain = shared.can_map and not (shared.is_writable or shared.heap_base)
            return self._is_chunked and is_plain

    def _open_chunks(self, version: Hashable, is_settled: bool) -> Hdf5Chunks | None:  # noqa: FBT001 - both are of the file
        listing = self._shared.listing(self._held.name, self._held.id, self.info, what=self._what)
        if listing is None:
            return None
        fill_value = cache(lambda: self._dataset.fillvalue)
        pipeline = Pipeline.of(self._held.id)
        kept_as = version if is_settled and (pipeline.filters or not pipeline.is_known) else None
        return Hdf5Chunks(
            self.info,
            pipeline,
            Hdf5Locator(listing, self._shared.whole().data, fill_value, kept_as),
            memory=ChunkMemory(self._shared.chunk_cache, self._held.name),
            read_slow=self._read_slow,
            what=self._what,
        )

    def _read_slow(self, picks: tuple[slice, ...]) -> AnyArray:
        """Have HDF5 read a part."""
        first, last, _ = picks[0].indices(self.info.shape[0])
        self._check_expansion(Span(first, last))
        return self._converted(self._attempt(lambda: self._dataset[picks]))

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings, flattened in C order."""
        many = self._attempt(self._read_many_strings)
        if many is not None:
            return many
        self._check_expansion(Span(0, self.info.shape[0] if self.info.shape else 1))
        strings = self._dataset.asstr("utf-8")
        n_rows = self.info.shape[0] if self.info.shape else 0
        step = max(STRING_BLOCK * n_rows // max(self.info.size, 1), 1)
        picks: list[Any] = [slice(n, n + step) for n in range(0, n_rows, step)]
        try:
            blocks = [
                pa.array(self._objects(strings, pick), pa.string())
                for pick in (picks if self.info.shape else [()])
            ]
            return one_array(pa.chunked_array(blocks, pa.string()))
        except (pa.ArrowException, UnicodeDecodeError, UnicodeEncodeError) as error:
            raise CorruptDataError(
                f"{self._what}: the strings are not UTF-8 ({reason_of(error)})"
            ) from error

    def _objects(self, strings: Any, pick: Any) -> AnyArray:
        """Return a range of the strings, in one dimension."""
        return np.asarray(self._attempt(lambda: strings[pick]), dtype=object).reshape(-1)

    def _mapped(self) -> AnyArray:
        dtype = self.info.storage_type.dtype
        size_bytes = self.info.size * dtype.itemsize
        with self._shared.lock:
            offset = self._held.id.get_offset()
            if offset is None:
                raise CorruptDataError(f"{self._what}: its elements are not in the file any more")
            self._check_size(offset, size_bytes)
            data = self._shared.map(self._held.id, size_bytes)
        return np.frombuffer(data, dtype).reshape(self.info.shape)

    def _converted(self, values: Any) -> AnyArray:
        found: AnyArray = np.asarray(values).astype(self.info.storage_type.dtype, copy=False)
        found.flags.writeable = False
        return found

    def _check_expansion(self, rows: Span) -> None:
        self._attempt(lambda: check_expansion(self._held.id, rows, what=self._what))

    def _attempt(self, read: Any) -> Any:
        self._held.ensure_open()
        opened = self._shared.file
        self._shared.check_length(what=self._what)
        try:
            return read()
        except DafError:
            raise
        except UnicodeDecodeError as error:
            raise CorruptDataError(
                f"{self._what}: the strings are not UTF-8 ({reason_of(error)})"
            ) from error
        except H5PY_ERRORS as error:
            if self._shared.file is not opened and self._shared.file.id.valid:  # opened again
                return self._attempt(read)
            reason = reason_of(error)
            if "filter" in reason.lower():
                raise UnsupportedDataError(
                    f"{self._what}: the dataset is stored with a filter that is not available here "
                    f"({reason}); rewrite the dataset, or install hdf5plugin, which has more: "
                    f"{install_command('hdf5')}"
                ) from error
            raise CorruptDataError(f"{self._what}: cannot be read ({reason})") from error


# The metadata of datasets.


def dataset_info(shared: Hdf5File, dataset: Any, what: str) -> tuple[ArrayInfo, int, bool]:
    """Return the metadata of a dataset, the bytes of an element, and whether there are chunks."""
    dimensions = dataset.shape  # asked once: it takes as long as half of opening the dataset
    if dimensions is None:
        raise UnsupportedDataError(f"{what}: the dataset is empty: it has not even a shape")
    stored = dataset.get_type()
    known = known_type(stored)
    storage_type = storage_type_of(known, what)
    item_bytes = int(stored.get_size())
    chunk_shape, offset = None, dataset.get_offset()
    if offset is None:  # what has one is in the file, in one piece
        properties = dataset.get_create_plist()
        check_source(properties, what=what)
        if properties.get_layout() == h5py().h5d.CHUNKED:
            chunk_shape = properties.get_chunk()
    shape = tuple(int(n) for n in dimensions)
    if math.prod(max(n, 1) for n in shape) > _MAX_ELEMENTS:
        raise CorruptDataError(f"{what}: the dataset is said to have the shape {list(shape)}")
    chunks = tuple(max(int(c), 1) for c in chunk_shape or shape)
    if chunk_shape:
        _load_filters([properties.get_filter(n)[0] for n in range(properties.get_nfilters())])
        check_chunk_bytes(shape, chunks, item_bytes, what=what)
    info = ArrayInfo(
        shape=shape,
        storage_type=storage_type,
        chunks=chunks,
        is_mappable=offset is not None and shared.can_map and is_plain(known, storage_type),
    )
    return info, item_bytes, bool(chunk_shape)


def _load_filters(numbers: Sequence[int]) -> None:
    """Load the package that has the filters which are not part of every HDF5 library."""
    if any(number >= _FIRST_FOREIGN_FILTER for number in numbers):
        with suppress(MissingDependencyError):  # reading names the filter, and the package
            optional_import("hdf5plugin", extra="hdf5")
