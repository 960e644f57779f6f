"""Central directories of archives with the same entries: names parsed once, numbers for each.

Thousands of archives of a collection hold the same arrays, so their directories differ in CRCs,
sizes and places alone.  The second archive whose directory has so many records and bytes makes a
`Layout` of it, and those that follow are compared with it in one step.  Whatever differs in any
other byte, or would be refused, is parsed record by record, which says what is wrong.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, overload

import numpy as np

from daf_storage.base import AnyArray, ForkLock
from daf_storage.stores.mmap_zip import _records as records
from daf_storage.stores.mmap_zip._records import Entry

MAX_SIZES: Final = 64
"""Of how many sizes layouts are kept, the most recently used."""
MAX_LAYOUTS_OF_SIZE: Final = 4
"""How many of one size are kept; those of further archives are parsed."""
MAX_LAYOUT_BYTES: Final = 1 << 18
"""Longer directories are of archives that are large: there are few of them."""
MAX_COUNTS: Final = 1 << 12
"""Of how many prefixes it is kept how many names are below them."""

_CRC_AT: Final = 16
_CRC_BYTES: Final = 4
_NUMBERS_BYTES: Final = 24
_NUMBERS: Final = struct.Struct("<L3Q")
_NUMBERS_TYPE: Final = np.dtype(
    [("crc", "<u4"), ("size", "<u8"), ("stored", "<u8"), ("offset", "<u8")]
)
_MAX_NUMBER: Final = 1 << 60


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """What the directories of several archives have in common: all but the numbers."""

    entries: Sequence[Entry]
    """The entries of one of them, whose records are those of all but for the numbers."""
    numbers: dict[str, int]
    """Which of them has a name."""
    names: list[str]
    """The names, sorted."""
    counts: dict[str, int]
    """How many names are below a prefix, of those that were asked for."""
    is_common: AnyArray
    """255 for each byte of a directory that is common, 0 for those of numbers."""
    common: bytes
    """The common bytes, with 0 for those of numbers."""
    number_positions: AnyArray
    """Where the bytes of the numbers are."""
    head_bytes: AnyArray
    """The least length of each local header."""

    @classmethod
    def of(cls, raw: bytes, entries: Sequence[Entry]) -> Layout:
        """Return the layout of a directory; its entries are all of our own kind."""
        lengths = np.array([len(entry.record) for entry in entries])
        starts = np.cumsum(lengths) - lengths
        crcs = starts[:, None] + np.arange(_CRC_AT, _CRC_AT + _CRC_BYTES)
        others = (starts + lengths)[:, None] + np.arange(-_NUMBERS_BYTES, 0)
        positions = np.hstack([crcs, others]).ravel()
        is_common = np.full(len(raw), 255, np.uint8)
        is_common[positions] = 0
        numbers = {entry.name: number for number, entry in enumerate(entries)}
        return cls(
            entries,
            numbers,
            sorted(numbers),
            {},
            is_common,
            (np.frombuffer(raw, np.uint8) & is_common).tobytes(),
            positions,
            np.array([records.LOCAL_BYTES + len(entry.raw_name) for entry in entries], np.uint64),
        )

    def apply(self, raw: bytes, directory_offset: int) -> PackedEntries | None:
        """Return the entries of another directory; None if it is not like this one, or faulty."""
        data = np.frombuffer(raw, np.uint8)
        if (data & self.is_common).tobytes() != self.common:
            return None
        packed = data[self.number_positions].tobytes()
        numbers = np.frombuffer(packed, _NUMBERS_TYPE)
        offsets, stored = numbers["offset"], numbers["stored"]
        if offsets.max() > _MAX_NUMBER or stored.max() > _MAX_NUMBER:
            return None
        stops = offsets + stored + self.head_bytes
        if stops[-1] > directory_offset or (stops[:-1] > offsets[1:]).any():
            return None  # what overlaps, is out of order or is not within the file
        return PackedEntries(self, packed)


class PackedEntries(Sequence[Entry]):
    """The entries of a directory that is like others, made when they are asked for.

    All are of the kind that is written here, in the order of the file, and no two have one name.
    """

    __slots__ = ("_packed", "layout")

    def __init__(self, layout: Layout, packed: bytes) -> None:
        self.layout = layout
        """What it has in common with others."""
        self._packed = packed

    def __len__(self) -> int:
        return len(self.layout.entries)

    def __iter__(self) -> Iterator[Entry]:
        return map(self._entry, range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> list[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | list[Entry]:
        chosen = range(len(self))[index]
        return self._entry(chosen) if isinstance(chosen, int) else list(map(self._entry, chosen))

    def count_below(self, prefix: str, count: Callable[[], int]) -> int:
        """Return how many names are below a prefix, counted once for all such archives."""
        counts = self.layout.counts
        found = counts.get(prefix)
        if found is None:
            found = count()
            if len(counts) < MAX_COUNTS:
                counts[prefix] = found
        return found

    def size_bytes(self, number: int) -> int:
        """Return the uncompressed length of an entry; ``number`` is not negative."""
        return int(_NUMBERS.unpack_from(self._packed, number * _NUMBERS.size)[1])

    def _entry(self, number: int) -> Entry:
        at = number * _NUMBERS.size
        name, raw_name, flags, method, _, _, _, _, like = self.layout.entries[number]
        crc, size, stored, offset = _NUMBERS.unpack_from(self._packed, at)
        packed = self._packed[at : at + _NUMBERS.size]
        middle = like[_CRC_AT + _CRC_BYTES : -_NUMBERS_BYTES]
        record = like[:_CRC_AT] + packed[:_CRC_BYTES] + middle + packed[_CRC_BYTES:]
        return Entry(name, raw_name, flags, method, crc, stored, size, offset, record)


class LayoutCache:
    """The layouts of the directories that were read last, by number of records and of bytes.

    Parameters
    ----------
    max_sizes
        Of how many numbers of records and bytes they are kept, the most recently used.
    """

    def __init__(self, *, max_sizes: int = MAX_SIZES) -> None:
        self._max = max_sizes
        self._known: OrderedDict[tuple[int, int], tuple[Layout, ...]] = OrderedDict()
        self._lock = ForkLock()

    def find(self, raw: bytes, count: int, directory_offset: int) -> PackedEntries | None:
        """Return the entries of a directory that is like another one; None to have it parsed."""
        key = (count, len(raw))
        with self._lock:
            layouts = self._known.get(key, ())
            if layouts:
                self._known.move_to_end(key)
        for layout in layouts:
            found = layout.apply(raw, directory_offset)
            if found is not None:
                return found
        return None

    def add(self, raw: bytes, entries: Sequence[Entry]) -> None:
        """Note a directory that was parsed and checked, with nothing in front of its archive.

        The first of its size is only noted, so that an archive by itself costs nothing.
        """
        key = (len(entries), len(raw))
        if not entries or len(raw) > MAX_LAYOUT_BYTES:
            return
        with self._lock:
            layouts = self._known.get(key)
        is_wanted = layouts is not None and len(layouts) < MAX_LAYOUTS_OF_SIZE
        if layouts is None or (is_wanted and _is_sharable(entries)):
            added = () if layouts is None else (*layouts, Layout.of(raw, entries))
            with self._lock:
                self._known[key] = added
                while len(self._known) > self._max:
                    self._known.popitem(last=False)


def is_own_entry(entry: Entry) -> bool:
    """Return whether an entry is of the kind that this format's writers write."""
    extra_bytes = len(entry.record) - records.CENTRAL_BYTES - len(entry.raw_name)
    return (
        entry.method == records.STORED
        and entry.flags == records.UTF8_FLAG
        and extra_bytes == records.CENTRAL_EXTRA_BYTES
    )


def _is_sharable(entries: Sequence[Entry]) -> bool:
    """Return whether all entries have their numbers where we write them, and a name each."""
    names = {entry.name for entry in entries if not entry.name.endswith("/")}
    return len(names) == len(entries) and all(
        is_own_entry(entry) and records.has_own_numbers(entry.record) for entry in entries
    )


SHARED_LAYOUTS: Final = LayoutCache()
"""Those of this process."""
