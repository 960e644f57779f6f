"""Groups and datasets of an HDF5 file that are read.

Datasets of fixed-size types that lie in the file as they are get mapped, not read through h5py.
HDF5 says where the chunks of others are; their bytes are in the mapped file.  Those of an
uncompressed dataset lie one after the other in a few *runs*, of which parts are views.  Compressed
ones are decompressed here, in several threads, which HDF5 cannot.  The rest is read through h5py,
only the part that is asked for: strings that are not in order, chunks with other filters, and files
that are open for writing, of which HDF5 may have chunks that are not in the file.

A string of variable length is stored as its length and a reference: the address of a *global heap
collection*, and the index of an *object* in it.  HDF5 believes all of that: a changed length makes
it allocate any number of gigabytes, a changed size of an object makes it walk a collection for
ever.  It also asks for each string by itself, and h5py makes a Python object of it.  So strings are
looked for here first; HDF5 reads those that are not in order otherwise, out of collections that
were walked.

Source: HDF5 file format specification, III.E "Global Heap".
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage.base import (
    MAX_STRING_BYTES,
    AnyArray,
    Span,
    install_command,
    one_array,
    optional_import,
)
from daf_storage.errors import (
    CorruptDataError,
    DafError,
    InvalidInputError,
    MissingDependencyError,
    UnsupportedDataError,
    located,
    reason_of,
)
from daf_storage.stores import Fingerprint, ReadEstimate, stable_fingerprint, translated
from daf_storage.trees._hdf5_chunks import (
    MAX_LISTED_CHUNKS,
    Hdf5Chunks,
    Runs,
    check_expansion,
    grid_of,
    is_known,
    listed_chunks,
    read_chunk,
)
from daf_storage.trees._hdf5_file import (
    H5PY_ERRORS,
    STRING_BLOCK,
    Hdf5File,
    HeldObject,
    check_source,
    check_type,
    element_type_of,
    filters_of,
    h5py,
    node_kind,
    open_below,
)
from daf_storage.trees._metadata import check_chunk_bytes
from daf_storage.trees._stored_array import (
    ArrayInfo,
    NodeKind,
    Ranges,
    StoredArray,
    byte_ranges,
    chunks_of,
    decoded_bytes,
    frozen,
    rows_of,
)

REFERENCE: Final = np.dtype([("length", "<u4"), ("address", "<u8"), ("index", "<u4")])
"""How an element is stored, in files whose addresses and lengths have 8 bytes."""

_COLLECTION: Final = struct.Struct("<4sB3xQ")
"""The header of a collection: its signature, a version and its size."""
_OBJECT: Final = struct.Struct("<H6xQ")
"""The header of an object: its index, a count of references and padding, its size."""
HEADER_BYTES: Final = 16
"""How long the header of a collection is, and that of an object."""
_MAX_SIZE: Final = 1 << 32
_MAX_OBJECTS: Final = 1 << 16
_MAX_REMEMBERED: Final = 1 << 10
"""So many collections that were walked are remembered for one dataset."""
_MAX_WALKS: Final = 4
"""So many times the bytes of the file may be walked for one dataset."""
_OBJECTS_IN_ROW: Final = 8
"""So many objects have to follow each other on average for their places to be worked out."""

Bytes: TypeAlias = npt.NDArray[np.uint8]
Numbers: TypeAlias = npt.NDArray[np.int64]
Objects: TypeAlias = dict[int, tuple[int, int]]
"""The places and sizes of the objects of a collection, by their indexes."""
Blocks: TypeAlias = Iterable[tuple[int | None, npt.NDArray[Any]]]
"""Elements, and the place of the first of them; those of a last chunk may lie beyond the end."""


def read_many(
    file: Bytes,
    blocks: Callable[[], Blocks],
    size: int,
    *,
    start_of: Callable[[int], int],
    what: str,
) -> pa.StringArray | pa.LargeStringArray | None:
    """Return the strings that blocks of elements refer to.

    Parameters
    ----------
    file
        The bytes of the whole file, or of all collections.
    blocks
        Returns the elements.
    size
        How many there are.
    start_of
        From the address of a collection to its place in these bytes.
    what
        The dataset as messages name it.

    Returns
    -------
    pyarrow.StringArray or pyarrow.LargeStringArray or None
        None, after a check of all of them, if HDF5 has to read them: where there are NUL
        characters, which end a string for HDF5, they are not UTF-8, or the blocks do not follow
        each other.

    Raises
    ------
    CorruptDataError
        A reference leads nowhere, a collection cannot be walked, lengths contradict each other, or
        the strings have more bytes together than the file.
    """
    heaps = _Heaps(file, start_of, what)
    total = count = 0
    found: list[pa.Array | None] = []
    for start, references in blocks():
        places, lengths = heaps.locate(references)
        total += int(lengths.sum())
        if total > file.size:
            raise CorruptDataError(
                f"{what}: its strings are said to have {total:,} bytes together, more than the file"
            )
        if start != count or None in found:  # the others are checked only
            found.append(None)
            continue
        rows = slice(0, size - count)
        found.append(_gathered(file, places[rows], lengths[rows]))
        count += min(lengths.size, size - count)
    if count == size and None not in found:
        return one_array(pa.chunked_array(found, pa.string()))
    for _, references in blocks():  # HDF5 reads collections as a whole
        for address in np.unique(references["address"]).tolist():
            if address:
                heaps.objects(address)
    return None


def collection_bytes(file: Bytes, start: int) -> int:
    """Return how long a collection says that it is; 0 for what is none."""
    if start + HEADER_BYTES > file.size:
        return 0
    signature, version, size = _COLLECTION.unpack_from(file.data, start)
    return int(size) if (signature, version) == (b"GCOL", 1) and size < _MAX_SIZE else 0


class _Heaps:
    """The collections of a file, as far as one dataset refers to them."""

    def __init__(self, file: Bytes, start_of: Callable[[int], int], what: str) -> None:
        self._file = file
        self._start_of = start_of
        self._what = what
        self._walked: dict[int, Objects] = {}
        self._stops: dict[int, int] = {}
        self._left_bytes = _MAX_WALKS * file.size

    def locate(self, references: npt.NDArray[Any]) -> tuple[Numbers, Numbers]:
        """Return where the string of each element begins in the file, and how many bytes it has.

        An element that refers to nothing has no bytes, as for HDF5.
        """
        places = np.zeros(references.size, np.int64)
        lengths = np.where(references["address"] != 0, references["length"], 0).astype(np.int64)
        stored = np.flatnonzero(lengths)
        if stored.size:
            used = references if stored.size == references.size else references[stored]
            wanted = used["address"], used["index"].astype(np.int64), lengths[stored]
            found = self._in_rows(*wanted)
            places[stored] = self._one_by_one(*wanted) if found is None else found
        return places, lengths

    def _in_rows(
        self, addresses: npt.NDArray[np.uint64], indexes: Numbers, lengths: Numbers
    ) -> Numbers | None:
        """Return where objects lie that were written one after the other; None if they do not.

        Where an object ends the next one begins, so a row of them needs no walk: that the header at
        each expected place has the expected index and size proves the place of the next.
        """
        is_first = np.append(True, (addresses[1:] != addresses[:-1]) | (np.diff(indexes) != 1))
        firsts = np.flatnonzero(is_first)
        if firsts.size * _OBJECTS_IN_ROW > indexes.size:
            return None
        needed = HEADER_BYTES + (lengths + 7 & ~7)
        counts = np.diff(np.append(firsts, indexes.size))
        rows = np.stack([indexes[firsts], counts, np.add.reduceat(needed, firsts)], 1).tolist()
        starts = addresses[firsts].tolist()
        begins, end = np.empty(firsts.size, np.int64), (0, 0, 0)
        for row in np.lexsort((indexes[firsts], addresses[firsts])).tolist():
            address, (index, count, size_bytes) = starts[row], rows[row]
            begin = end[2] if end[:2] == (address, index) else self._begin(address, index)
            end = address, index + count, begin + size_bytes
            if end[2] > self._stop(address):
                return None
            begins[row] = begin
        before = np.cumsum(needed) - needed
        at: Numbers = np.repeat(begins - before[firsts], counts) + before
        stored = self._file[at].astype(np.int64) | (self._file[at + 1].astype(np.int64) << 8)
        sizes = np.ascontiguousarray(self._file[at[:, None] + np.arange(8, 16)]).view("<i8")
        is_expected = (stored == indexes) & (sizes.reshape(-1) == lengths)  # below 0 beyond int64
        return at + HEADER_BYTES if bool(is_expected.all()) else None

    def _begin(self, address: int, index: int) -> int:
        """Return where the header of an object begins."""
        if index == 1:
            return self._start_of(address) + HEADER_BYTES
        found = self.objects(address).get(index)
        if found is None:
            raise self._damaged()
        return found[0] - HEADER_BYTES

    def _one_by_one(
        self, addresses: npt.NDArray[np.uint64], indexes: Numbers, lengths: Numbers
    ) -> Numbers:
        """Return where objects lie, in any order: each collection is walked once."""
        places, order = np.empty(indexes.size, np.int64), np.argsort(addresses, kind="stable")
        found, last, objects = [], 0, Objects()
        for address, index, length in zip(
            *(each[order].tolist() for each in (addresses, indexes, lengths)), strict=True
        ):
            if address != last:  # neighbours lie together
                last, objects = address, self.objects(address)
            place, size = objects.get(index, (0, -1))
            if size != length:
                raise self._damaged()
            found.append(place)
        places[order] = found
        return places

    def objects(self, address: int) -> Objects:
        """Return the objects of a collection."""
        start, stop = self._start_of(address), self._stop(address)
        objects = self._walked.get(start)
        if objects is None:
            self._left_bytes -= stop - start
            if self._left_bytes < 0:
                raise self._damaged()  # they are said to lie in each other
            if len(self._walked) >= _MAX_REMEMBERED:
                self._walked.clear()
            objects = self._walked[start] = self._walk(start + HEADER_BYTES, stop)
        return objects

    def _stop(self, address: int) -> int:
        """Return where a collection ends, after a check of its header."""
        stop = self._stops.get(address)
        if stop is None:
            start = self._start_of(address)
            size_bytes = collection_bytes(self._file, start)
            if not HEADER_BYTES <= size_bytes <= self._file.size - start:
                raise self._damaged()
            stop = self._stops[address] = start + size_bytes
        return stop

    def _walk(self, at: int, stop: int) -> Objects:
        data, objects = self._file.data, Objects()
        for _ in range(_MAX_OBJECTS + 1):
            if at + HEADER_BYTES > stop:
                return objects
            index, size = _OBJECT.unpack_from(data, at)
            # Of free space, the header counts.
            needed = size if index == 0 else HEADER_BYTES + (size + 7 & ~7)
            if not HEADER_BYTES <= needed <= stop - at or index in objects:
                break
            if index:
                objects[index] = at + HEADER_BYTES, size
            at += needed
        raise self._damaged()

    def _damaged(self) -> CorruptDataError:
        return CorruptDataError(
            f"{self._what}: the heap of its strings is damaged; restore a backup"
        )


def _gathered(file: Bytes, places: Numbers, lengths: Numbers) -> pa.Array | None:
    """Return strings that lie at some places; None if HDF5 had better read them."""
    offsets = np.append(0, np.cumsum(lengths))
    data = Ranges(places, lengths, offsets[:-1]).taken(file)
    if data.size > MAX_STRING_BYTES or not data.all():
        return None
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    strings = pa.Array.from_buffers(pa.string(), lengths.size, buffers)
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return strings


_FIRST_FOREIGN_FILTER: Final = 256
_CHUNKS_IN_ROUND: Final = 512
"""Of about so many chunks, a server sends the parts of their list at once: as long as one chunk
takes that HDF5 looks for."""
_REFERENCE_BLOCK: Final = 1 << 20
_LAST_HEAP_BYTES: Final = 1 << 17
"""So long the last heap of a dataset on a server may be."""
_HEAP_BYTES: Final = 1 << 26
"""Strings on a server whose heaps are longer are read by HDF5."""


@dataclass(eq=False)
class Hdf5Node:
    """A group or dataset, held open; see `Node`."""

    _shared: Hdf5File
    held: HeldObject
    """What it is, open."""
    kind: NodeKind
    identity: Hashable
    what: str

    @property
    def place(self) -> Hashable:
        """What another node has another one of, also if that is new."""
        return self.held.opened, self.held.id

    def array(self, name: str = "") -> Hdf5Array | None:
        """Return this dataset, or the one of that name below this group."""
        kind: NodeKind | None = self.kind
        held, what = self.held, self.what
        with self._shared.lock:
            if name:
                what = f"{what}/{name}"
                found = open_below(held.id, name, what=what) if kind == "group" else None
                kind = node_kind(found)
                held = HeldObject(self._shared, found, f"{held.name}/{name}")
            return Hdf5Array(self._shared, held, what=what) if kind == "array" else None

    def attribute(self, name: str) -> Any:
        """Return an attribute of this group or dataset; None if it has none of this name."""
        what = f"{self.what}: the attribute {name!r}"
        with self._shared.lock:
            h5a, found = h5py().h5a, self.held.id
            with translated(H5PY_ERRORS, CorruptDataError, f"{what} cannot be read"):
                if not h5a.exists(found, name.encode()):
                    return None
                check_type(h5a.open(found, name.encode()).get_type(), what)
                return h5py().AttributeManager(self.held)[name]


class Hdf5Array(StoredArray):
    """One dataset; see `StoredArray`."""

    def __init__(self, shared: Hdf5File, held: HeldObject, *, what: str) -> None:
        self.shared = shared
        """Its file."""
        self.held = held
        """The dataset, open."""
        self.what = what
        """The dataset as messages name it."""
        with translated(H5PY_ERRORS, CorruptDataError, f"{what}: cannot be read"):
            self._look(held.id)

    def _look(self, dataset: Any) -> None:
        """Look at what is said of the elements, and where they are."""
        what, shared = self.what, self.shared
        if dataset.shape is None:
            raise UnsupportedDataError(f"{what}: the dataset is empty: it has not even a shape")
        stored = dataset.get_type()
        element = element_type_of(stored)
        kind = element.storage_type
        if kind is None:
            raise UnsupportedDataError(
                f"{what}: the dataset has the type {element.dtype}; Daf has Bool, Int8 to Int64, "
                "UInt8 to UInt64, Float32, Float64 and strings"
            )
        self._item_bytes = int(stored.get_size())
        properties, offset = dataset.get_create_plist(), dataset.get_offset()
        if offset is None:  # what has one is in the file, in one piece
            check_source(properties, what=what)
        chunks = shape = tuple(int(n) for n in dataset.shape)
        self._is_chunked = properties.get_layout() == h5py().h5d.CHUNKED
        if self._is_chunked:
            chunks = tuple(int(c) for c in properties.get_chunk())
            if any(number >= _FIRST_FOREIGN_FILTER for number in filters_of(properties)):
                with suppress(MissingDependencyError):  # reading names the filter, and the package
                    optional_import("hdf5plugin", extra="hdf5")
            if math.prod(chunks) > math.prod(shape):
                with located(what):
                    check_chunk_bytes(shape, chunks, self._item_bytes)
        is_flat = offset is not None and not kind.is_string and element.dtype == kind.dtype
        self._is_downloaded = is_flat and shared.is_remote
        self.info = ArrayInfo(
            shape=shape,
            storage_type=kind,
            chunks=tuple(max(c, 1) for c in chunks),
            is_mappable=is_flat and shared.can_map,
        )

    def fingerprint(self) -> Fingerprint | None:
        """Return inode, size and times of the file; None while it is too new to tell by them."""
        with self.shared.lock:
            return stable_fingerprint(self.shared.status())

    def check_stored(self, *, is_complete: bool = False) -> None:
        """Raise if there is no room in the file for the elements, by what it says of its size."""
        self.attempt(lambda: self._check_stored(is_complete=is_complete))

    def _check_stored(self, *, is_complete: bool) -> None:
        shape, dataset = self.info.shape, self.held.id
        size_bytes = self.info.size * self._item_bytes
        if self._is_chunked:
            lacks = is_complete and dataset.get_num_chunks() < math.prod(grid_of(self.info))
        else:
            stored = dataset.get_storage_size()  # of what was never written: nothing
            lacks = stored < size_bytes and (is_complete or stored > 0)
        if lacks and 0 not in shape:
            raise CorruptDataError(
                f"{self.what}: the shape {list(shape)} needs more elements than are stored"
            )
        offset = dataset.get_offset()
        if offset is not None:
            self._check_size(offset, size_bytes)

    def _check_size(self, offset: int, size_bytes: int) -> None:
        """Raise if the file ends before the elements do."""
        available = self.shared.size_bytes()
        if offset + size_bytes > available:
            raise CorruptDataError(
                f"{self.what}: the file is truncated: {size_bytes:,} bytes at {offset:,} were "
                f"recorded, and the file has {available:,}"
            )

    # Numbers.

    def read(self) -> AnyArray:
        """Return all elements; a read-only view of the mapped file where that is possible."""
        if self.info.storage_type.is_string:
            return super().read()
        if self.info.shape and not self.info.is_mappable:
            return self.read_rows(Span(0, self.info.shape[0]))
        return self._mapped() if self.info.is_mappable else self.read_by_hdf5(())

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return several ranges of the first dimension; each chunk is decoded once."""
        if self.info.is_mappable or self.info.storage_type.is_string:
            return super().read_spans(spans, within)
        if self._is_downloaded:
            with self.shared.lock:
                ranges = self._ranges(spans)
            return rows_of(self.info, self.shared.stored(ranges), within)
        chunks = self._chunks(spans, within)
        if chunks is not None:
            return chunks.read_spans(spans, within)
        rest = () if within is None else (within.slice,)
        return [self.read_by_hdf5((span.slice, *rest)) for span in spans]

    def read_joined(self, ranges: Ranges) -> AnyArray:
        """Return ranges of an array of one dimension in one array."""
        chunks = self._chunks(ranges.spans() if self.shared.is_remote else [])
        return super().read_joined(ranges) if chunks is None else chunks.read_joined(ranges)

    def estimate(
        self, spans: list[Span], estimate: ReadEstimate, within: Span | None = None
    ) -> None:
        """Add the bytes of the elements, or the stored bytes of their chunks."""
        if self._is_downloaded:
            self.shared.estimate(self._ranges(spans), estimate)
            return
        chunks = self._chunks(spans, within)
        if chunks is None and self.shared.is_remote:
            # A string lies apart: it takes a reference and a header, of 16 bytes each, as well.
            size_bytes = decoded_bytes(self.info, spans, within)
            is_string = self.info.storage_type.is_string
            estimate.add_inexact(size_bytes * (3 if is_string else 1), requests=1 + is_string)
        elif chunks is None:
            super().estimate(spans, estimate, within)
        else:
            chunks.estimate(spans, estimate, within)

    def _ranges(self, spans: list[Span]) -> list[tuple[int, int]]:
        """Return where ranges of a dataset in one piece are in the file."""
        return byte_ranges(self.info, spans, self.held.id.get_offset() or 0)

    def _chunks(self, spans: list[Span], within: Span | None = None) -> Hdf5Chunks | Runs | None:
        """Return the chunks as they are read without HDF5; None where they cannot be.

        Nor need the few be that HDF5 finds on a server by their index, of many.
        """
        info, shared = self.info, self.shared
        if not self._is_listable:
            return None
        most = math.prod(grid_of(info)) // _CHUNKS_IN_ROUND
        if shared.is_remote and max(len(spans), chunks_of(info, spans, within)) <= most:
            return None
        shared.check_length(what=self.what)
        key = self.held.name, info
        found: Hdf5Chunks | Runs | None = self.attempt(lambda: shared.kept(key, self._open_chunks))
        return found

    @cached_property
    def _is_listable(self) -> bool:
        """Whether it has chunks of numbers, in a file that nothing of this process writes to."""
        info, shared = self.info, self.shared
        if not self._is_chunked or info.storage_type.is_string or 0 in info.shape:
            return False
        with shared.lock:
            if shared.is_remote:
                return shared.heap_base == 0
            return shared.can_map and not (shared.is_writable or shared.heap_base)

    def _open_chunks(self) -> Hdf5Chunks | Runs | None:
        """Look up where the chunks are, once until the file changes; None if they are too many."""
        dataset = self.held.id
        if math.prod(grid_of(self.info)) > MAX_LISTED_CHUNKS:
            return None
        shared, stored = self.shared, element_type_of(dataset.get_type())
        with shared.whole_trees():
            listing = listed_chunks(dataset, self.info, shared.size_bytes(), what=self.what)
        is_plain = stored.is_native and not filters_of(dataset.get_create_plist())
        if is_plain and not shared.is_remote:
            runs = Runs.of(self.info, stored.dtype, listing, shared.whole().data)
            if runs is not None:
                return runs
        return Hdf5Chunks(self, listing)

    def read_by_hdf5(self, picks: tuple[slice, ...]) -> AnyArray:
        """Have HDF5 read a part."""
        self._check_expansion(picks)
        values = np.asarray(self.attempt(lambda: self.held.get()[picks]))
        return frozen(values.astype(self.info.storage_type.dtype, copy=False))

    def _mapped(self) -> AnyArray:
        dtype = self.info.storage_type.dtype
        size_bytes = self.info.size * dtype.itemsize
        with self.shared.lock:
            offset = self._same().get_offset()
            if offset is None:
                raise CorruptDataError(f"{self.what}: its elements are not in the file any more")
            self._check_size(offset, size_bytes)
            data = self.shared.map(self.held.id, size_bytes)
        return np.frombuffer(data, dtype).reshape(self.info.shape)

    # Strings.

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings, flattened in C order."""
        many = self.attempt(self._read_many_strings)
        if many is not None:
            return many
        self._check_expansion(())
        n_rows = self.info.shape[0] if self.info.shape else 0
        step = max(STRING_BLOCK * n_rows // max(self.info.size, 1), 1)
        starts = range(0, n_rows, step)
        picks: list[Any] = [slice(n, n + step) for n in starts] if self.info.shape else [()]
        blocks = [pa.array(self._objects(pick), pa.string()) for pick in picks]
        return one_array(pa.chunked_array(blocks, pa.string()))

    def _objects(self, pick: Any) -> AnyArray:
        """Return a range of the strings, in one dimension."""
        found = self.attempt(lambda: self.held.get().asstr("utf-8")[pick])
        return np.asarray(found, dtype=object).reshape(-1)

    def _read_many_strings(self) -> Any:
        """Return strings of variable length, whose heaps are checked; None where HDF5 reads them.

        HDF5 is asked for what was checked here, if at all.
        """
        dataset, shared = self.held.id, self.shared
        kind, base = dataset.get_type(), shared.heap_base
        is_variable = kind.get_class() == h5py().h5t.STRING and kind.is_variable_str()
        if not is_variable or base is None:
            return None
        if shared.is_remote:
            return self._read_remote_strings(base)
        if not shared.can_map:
            return None
        with shared.lock:
            shared.check_length(what=self.what)
            if shared.is_writable:
                shared.flush()
            file = shared.whole()
            return read_many(
                file,
                lambda: _references_of(dataset, shared.span, what=self.what),
                self.info.size,
                start_of=lambda address: address + base,
                what=self.what,
            )

    def _read_remote_strings(self, base: int) -> Any:
        """Download the references and the heaps that they lead to; None where HDF5 reads them."""
        shared = self.shared
        with shared.lock:
            blocks = list(_references_of(self.held.id, shared.span, what=self.what))
        named = np.concatenate([block["address"] for _, block in blocks] or [np.zeros(0)])
        named = np.unique(named[named > 0]).astype(np.int64)
        addresses = named + base
        most = shared.size_bytes() - HEADER_BYTES
        if not addresses.size or int(addresses.min()) < 0 or int(addresses.max()) > most:
            return None
        is_next = np.diff(addresses, prepend=-2 * _LAST_HEAP_BYTES) > _LAST_HEAP_BYTES
        firsts, lasts = addresses[is_next], addresses[np.append(is_next[1:], True)]
        stops = np.minimum(lasts + _LAST_HEAP_BYTES, shared.size_bytes())
        if int((stops - firsts).sum()) > _HEAP_BYTES:
            return None
        ranges = list(zip(firsts.tolist(), stops.tolist(), strict=True))
        heaps = np.frombuffer(b"".join(shared.stored(ranges)), np.uint8)
        ends = np.cumsum(stops - firsts)
        run = np.cumsum(is_next) - 1
        places = (addresses + (ends - stops)[run]).tolist()
        for at, end in zip(places, ends[run].tolist(), strict=True):
            if at + collection_bytes(heaps, at) > end:
                return None
        start_of = dict(zip(named.tolist(), places, strict=True)).__getitem__
        return read_many(heaps, lambda: blocks, self.info.size, start_of=start_of, what=self.what)

    # What HDF5 reads.

    def _check_expansion(self, picks: tuple[slice, ...]) -> None:
        if self._is_chunked:
            self.attempt(lambda: check_expansion(self.held.id, picks, what=self.what))

    def _same(self) -> Any:
        """Return the identifier of the dataset, unless another program has rewritten its file.

        Raises
        ------
        InvalidInputError
            One has: other values may be there by now.
        """
        found = self.held.id
        if self.held.opened != self.shared.reopened:
            raise InvalidInputError(
                f"{self.what} was rewritten by another program after it was opened; open it again"
            )
        return found

    def attempt(self, read: Callable[[], Any]) -> Any:
        """Return what HDF5 is asked for, under its lock; what it raises is a `DafError`."""
        with self.shared.lock:
            dataset = self._same()
            opened = self.shared.file
            self.shared.check_length(what=self.what)
            try:
                return read()
            except DafError:
                raise
            except UnicodeDecodeError as error:
                raise CorruptDataError(
                    f"{self.what}: the strings are not UTF-8 ({reason_of(error)})"
                ) from error
            except H5PY_ERRORS as error:
                if self.shared.file is not opened and self.shared.file.id.valid:  # opened again
                    return self.attempt(read)
                filters = filters_of(dataset.get_create_plist()) if dataset.valid else ()
                for number in filters:
                    if not h5py().h5z.filter_avail(number):
                        raise UnsupportedDataError(
                            f"{self.what}: the dataset is stored with a filter that is not "
                            f"available here (number {number}); rewrite the dataset, or install "
                            f"hdf5plugin, which has more: {install_command('hdf5')}"
                        ) from error
                raise CorruptDataError(
                    f"{self.what}: cannot be read ({reason_of(error)})"
                ) from error


def _references_of(
    dataset: Any, span: Callable[[int, int], AnyArray], *, what: str
) -> Iterator[tuple[int | None, npt.NDArray[Any]]]:
    """Yield the elements of a dataset of strings as they are stored: as references to a heap.

    Each block with the place of its first element; None where a block is no range of elements, in
    chunks of several dimensions.  Nothing where they are compressed in a way that only HDF5 knows.
    """
    offset = dataset.get_offset()
    if offset is not None:
        stop = offset + dataset.get_storage_size() // REFERENCE.itemsize * REFERENCE.itemsize
        references = span(offset, stop).view(REFERENCE)
        for start in range(0, references.size, _REFERENCE_BLOCK):
            yield start, references[start : start + _REFERENCE_BLOCK]
        return
    properties = dataset.get_create_plist()
    filters = filters_of(properties)
    if properties.get_layout() != h5py().h5d.CHUNKED or not all(map(is_known, filters)):
        return
    limit = math.prod(properties.get_chunk()) * REFERENCE.itemsize
    for number in range(dataset.get_num_chunks()):
        first = dataset.get_chunk_info(number).chunk_offset
        data = read_chunk(dataset, first, filters, limit, what)
        if len(data) != limit:
            raise CorruptDataError(f"{what}: a chunk has {len(data):,} bytes instead of {limit:,}")
        yield int(first[0]) if len(first) == 1 else None, np.frombuffer(data, REFERENCE)
