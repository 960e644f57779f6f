"""Tests of directories of archives that are like one another: as if each had been parsed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from daf_storage.stores.mmap_zip import _locating, _shared_layouts
from daf_storage.stores.mmap_zip import _records as records
from daf_storage.stores.mmap_zip._index import EntryIndex
from daf_storage.stores.mmap_zip._locating import Directory, read_directory
from daf_storage.stores.mmap_zip._records import Entry, MalformedError, pack_entry, pack_tail
from daf_storage.stores.mmap_zip._shared_layouts import LayoutCache, PackedEntries

NAMES = ("axes/cell/.zarray", "axes/cell/0", "b", "ä/0")


def archive(*sizes: int, names: Sequence[str] = NAMES, comment: bytes = b"") -> bytes:
    """Return an archive of entries of these sizes."""
    entries, data = [], b""
    for name, size in zip(names, sizes, strict=True):
        header = records.pack_local(name.encode(), size, size, len(data))
        entries.append(pack_entry(name, size, size, len(data)))
        data += header + bytes(size)
    raw = b"".join(entry.record for entry in entries)
    return data + raw + pack_tail(len(entries), len(raw), len(data), comment)


def read(data: bytes) -> Directory:
    """Read the directory that an archive ends with."""
    return read_directory(lambda at, size: data[at : at + size], len(data))


def outcome(data: bytes) -> tuple[list[Entry], bool] | str:
    """Return what reading a directory gives: entries and whether they are ours, or an error."""
    try:
        directory = read(data)
    except MalformedError as error:
        return str(error)
    return list(directory.entries), directory.is_own()


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> LayoutCache:
    """Return an empty cache that is used for reading."""
    cache = LayoutCache(max_sizes=2)
    monkeypatch.setattr(_locating, "SHARED_LAYOUTS", cache)
    return cache


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read with an empty cache from here on."""
    monkeypatch.setattr(_locating, "SHARED_LAYOUTS", LayoutCache())


@pytest.mark.usefixtures("cache")
def test_the_third_archive_with_the_same_entries_is_not_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first is noted, the second remembered; entries are those that parsing gives."""
    third = archive(7, 0, 1000, 3)
    expected = outcome(third)
    forget(monkeypatch)
    read(archive(1, 2, 3, 4))
    read(archive(5, 6, 7, 8))
    monkeypatch.setattr(records, "parse_central", None)
    entries = read(third).entries
    assert isinstance(entries, PackedEntries)
    assert (list(entries), True) == expected == outcome(third)
    assert [entries[0], entries[-1], len(entries)] == [*list(entries)[::3], 4]
    assert entries[1:3] == list(entries)[1:3]
    with pytest.raises(IndexError):
        entries[4]


@pytest.mark.parametrize("change", [0x01, 0x80, 0xFF])
@pytest.mark.usefixtures("cache")
def test_a_directory_of_which_a_byte_differs_is_read_as_if_there_were_no_other(
    monkeypatch: pytest.MonkeyPatch, change: int
) -> None:
    """Each byte of the directory and of the records behind it, one after the other."""
    whole = archive(1, 2, 3, 4)
    start = read(whole).offset
    changed = [
        whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :]
        for at in range(start, len(whole))
    ]
    expected = []
    for data in changed:
        forget(monkeypatch)
        expected.append(outcome(data))
    forget(monkeypatch)
    read(whole)
    read(whole)
    assert isinstance(read(whole).entries, PackedEntries)
    assert [outcome(data) for data in changed] == expected


def of(*places: tuple[int, int]) -> bytes:
    """Return an archive whose directory says these offsets and sizes of four entries."""
    entries = [
        pack_entry(name, size, 0, at) for name, (at, size) in zip(NAMES, places, strict=True)
    ]
    raw = b"".join(entry.record for entry in entries)
    return bytes(1000) + raw + pack_tail(len(entries), len(raw), 1000)


@pytest.mark.parametrize(
    "places",
    [
        [(0, 1), (100, 1), (200, 1), (300, 1)],
        [(100, 1), (0, 1), (200, 1), (300, 1)],  # in another order
        [(0, 90), (100, 1), (200, 1), (300, 1)],  # overlaps
        [(0, 1), (100, 1), (200, 1), (300, 900)],  # not within the file
        [(0, 1), (100, 1), (200, 1), (1 << 63, 1)],
        [(0, (1 << 64) - 60), (100, 1), (200, 1), (300, 1)],  # more than 64 bits together
    ],
)
@pytest.mark.usefixtures("cache")
def test_places_that_make_no_archive_are_refused_in_the_same_words(
    monkeypatch: pytest.MonkeyPatch, places: list[tuple[int, int]]
) -> None:
    """As those of a directory that is parsed; those in another order are entries, too."""
    expected = outcome(of(*places))
    forget(monkeypatch)
    read(archive(1, 2, 3, 4))
    read(archive(1, 2, 3, 4))
    assert outcome(of(*places)) == expected


@pytest.mark.usefixtures("cache")
def test_archives_that_are_not_of_our_own_kind_are_parsed() -> None:
    """With a name twice, one of a directory, or something in front."""
    for names in (("a", "b", "a", "c"), ("a", "b/", "c", "d")):
        for _ in range(3):
            assert isinstance(read(archive(1, 2, 3, 4, names=names)).entries, list)
    for _ in range(3):
        assert isinstance(read(b"before" + archive(1, 2, 3, 4)).entries, list)
        assert isinstance(read(archive(names=())).entries, list)


@pytest.mark.usefixtures("cache")
def test_an_archive_with_a_comment_is_not_ours_though_its_entries_are() -> None:
    """The comment is not a part of the directory."""
    for _ in range(3):
        directory = read(archive(1, 2, 3, 4, comment=b"hello"))
    assert isinstance(directory.entries, PackedEntries)
    assert not directory.is_own()


@pytest.mark.usefixtures("cache")
def test_names_of_one_length_are_told_apart() -> None:
    """A few layouts of one size are kept; the others are parsed each time."""
    kinds = [tuple(f"{letter}{number}" for number in range(4)) for letter in "abcdefg"]
    for _ in range(3):
        found = [read(archive(1, 2, 3, 4, names=names)).entries for names in kinds]
    assert [[entry.name for entry in entries] for entries in found] == [*map(list, kinds)]
    shared = [isinstance(entries, PackedEntries) for entries in found]
    assert sum(shared) == _shared_layouts.MAX_LAYOUTS_OF_SIZE


def test_few_sizes_are_kept(cache: LayoutCache) -> None:
    """The least recently used is forgotten; long directories are never kept."""
    for count in (1, 1, 2, 2, 1, 3, 3):
        read(archive(*range(count), names=NAMES[:count]))
    kept = [read(archive(*range(count), names=NAMES[:count])).entries for count in (1, 3)]
    assert all(isinstance(entries, PackedEntries) for entries in kept)
    entry = pack_entry("a", 1, 2, 0)
    for _ in range(3):
        cache.add(bytes(_shared_layouts.MAX_LAYOUT_BYTES + 1), [entry])
    assert cache.find(bytes(_shared_layouts.MAX_LAYOUT_BYTES + 1), 1, 1000) is None


@pytest.mark.usefixtures("cache")
def test_an_index_of_shared_names_is_changed_alone() -> None:
    """What one archive adds or takes out does not show in those with the same names."""
    for _ in range(3):
        directory = read(archive(1, 2, 3, 4))
    one, other, third = (EntryIndex(directory.entries) for _ in range(3))
    assert [one.find_size(name) for name in (*NAMES, "new")] == [1, 2, 3, 4, None]
    assert one.find_size(NAMES[3], 3) is None
    one.add([pack_entry("new", 9, 9, 5000)])
    third.keep(third.entries[:1])
    assert one.names() == sorted([*NAMES, "new"])
    assert one.find_size("new") == 9
    assert other.names() == sorted(NAMES)
    assert third.names() == [NAMES[0]]
    assert other.find("b") == directory.entries[2]
