"""Tests of the records of archives: golden bytes, and damage."""

from __future__ import annotations

import struct
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_storage import errors
from daf_storage.stores import MmapZipStore, RecoveryWarning
from daf_storage.stores.mmap_zip import _records as records
from daf_storage.stores.mmap_zip._records import read_directory
from tests.support import edited_bytes, every

EMPTY = bytes.fromhex(
    "504b06062c000000000000001e032d00000000000000000000000000000000000000000000000000"
    "00000000000000000000000000000000504b060700000000000000000000000001000000504b0506"
    "00000000ffffffffffffffffffffffff0000"
)
TWO = bytes.fromhex(
    "504b03042d000008000000002100ac2a93d8ffffffffffffffff0100190061010010000200000000"
    "0000000200000000000000f1da0100006869504b03042d00000800000000210010069e75ffffffff"
    "ffffffff070019002e7a67726f75700100100011000000000000001100000000000000f1da010000"
    "7b227a6172725f666f726d6174223a327d504b01021e032d000008000000002100ac2a93d8ffffff"
    "ffffffffff01001c000000000000000000a481ffffffff6101001800020000000000000002000000"
    "000000000000000000000000504b01021e032d00000800000000210010069e75ffffffffffffffff"
    "07001c000000000000000000a481ffffffff2e7a67726f7570010018001100000000000000110000"
    "00000000003a00000000000000504b06062c000000000000001e032d000000000000000000020000"
    "000000000002000000000000009c000000000000008900000000000000504b060700000000250100"
    "000000000001000000504b050600000000ffffffffffffffffffffffff0000"
)


def test_an_empty_archive_is_golden(tmp_path: Path) -> None:
    """98 bytes, as every implementation writes them.

    The 22 that other programs write are one too, also before what a stopped writer left.
    """
    path = tmp_path / "x.zip"
    MmapZipStore(path, "w").close()
    assert path.read_bytes() == EMPTY
    shortest = records.END_SIGNATURE + bytes(18)
    path.write_bytes(shortest + bytes(50))
    with MmapZipStore(path, "r+") as store:
        assert store.keys() == []
    assert path.read_bytes() == shortest


def test_an_archive_of_two_entries_is_golden(tmp_path: Path) -> None:
    """391 bytes, after each way to get there: appended, batched, reserved and filled."""
    group = b'{"zarr_format":2}'
    for way in ("append", "batch", "reserve", "reopen"):
        path = tmp_path / f"{way}.zip"
        store = MmapZipStore(path, "w")
        if way == "reserve":
            for key, data in (("a", b"hi"), (".zgroup", group)):
                reserved = store.reserve(key, len(data))
                reserved.array[:] = list(data)
                store.complete(reserved)
        elif way == "batch":
            with store.batch():
                store.append("a", b"hi")
                store.append(".zgroup", group)
        else:
            store.append("a", b"hi")
            if way == "reopen":
                store.close()
                store = MmapZipStore(path, "r+")
            store.append(".zgroup", group)
        assert path.read_bytes() == TWO
        store.close()
        assert path.read_bytes() == TWO
        MmapZipStore(path, "r+").close()
        assert path.read_bytes() == TWO


STORED = {"a": b"hi", ".zgroup": b'{"zarr_format":2}'}
"""What the archive `TWO` holds."""

DATA_OF_A = range(56, 58)
DATA_OF_LAST = range(120, 137)
NAMES_IN_DIRECTORY = (*range(183, 184), *range(258, 265))


@pytest.mark.sampled(0)
@pytest.mark.filterwarnings("ignore::daf_storage.RecoveryWarning")
def test_every_single_bit_is_noticed(tmp_path: Path) -> None:
    """Whichever bit is wrong: an error of ours, or the data that was stored; what is not, is named.

    Directory and local header say everything twice, so both are compared, and the data of the last
    entry is read at open.  What is left:

    - the data of any other entry: reading it would cost a pass over all data at each open, so only
      `verify` computes its CRC;
    - a wrong name in the directory: readers refuse the entry, whose local header has the other
      name; a writable open takes the directory's word, since nothing in an archive of two entries
      tells which of the two names is right;
    - a wrong place in the directory: a writable open takes the entry away, and says so.
    """
    unnoticed: dict[str, set[int]] = {"r": set(), "r+": set()}
    dropped, renamed = set(), set()
    step = every(4)
    bits = ((place, bit) for place in range(len(TWO)) for bit in range(place % step, 8, step))
    for place, bit in bits:
        damaged = bytearray(TWO)
        damaged[place] ^= 1 << bit
        for mode, places in unnoticed.items():
            path = tmp_path / f"{place}-{bit}-{mode}.zip"  # a new file: faster
            path.write_bytes(damaged)
            try:
                with MmapZipStore(path, mode) as store:  # type: ignore[arg-type]
                    found = {key: bytes(store.get(key) or b"") for key in store}
                    recovery = store.recovery
            except errors.DafError:
                continue
            if found == STORED:
                continue
            if recovery.dropped and set(recovery.dropped) == STORED.keys() - found.keys():
                dropped.add(place)
            elif recovery.completed and sorted(found.values()) == sorted(STORED.values()):
                renamed.add(place)
            else:
                places.add(place)
    assert unnoticed == {"r": set(DATA_OF_A), "r+": set(DATA_OF_A)}
    assert set(DATA_OF_LAST) <= dropped
    assert min(dropped - set(DATA_OF_LAST)) >= 137, "only what the directory says of a place"
    assert renamed == set(NAMES_IN_DIRECTORY)


@given(data=st.data())
def test_damaged_archives_are_refused_or_read(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any byte of what is not data may be wrong: an error of ours, or the data that was stored."""
    damaged = bytearray(TWO)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(TWO) - 1))] = data.draw(st.integers(0, 255))
    for place in (*DATA_OF_A, *DATA_OF_LAST):
        damaged[place] = TWO[place]
    cut = data.draw(st.sampled_from([len(TWO), data.draw(st.integers(0, len(TWO)))]))
    path = tmp_path_factory.mktemp("damaged") / "x.zip"
    path.write_bytes(damaged[:cut])
    for mode in ("r", "r+"):
        with suppress(errors.DafError), warnings.catch_warnings():
            warnings.simplefilter("ignore", RecoveryWarning)
            with MmapZipStore(path, mode) as store:  # type: ignore[arg-type]
                for key in store:
                    found = store.get(key)
                    assert found == STORED.get(key, found)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "too small to be a zip archive"),
        (b"PK\3\4", "too small to be a zip archive"),
        (b"x" * (records.END_BYTES - 1), "too small to be a zip archive"),
        (b"x" * records.END_BYTES, "does not end with the records"),
        (b"x" * 500, "does not end with the records"),
        (records.pack_tail(2**40, 0, 0), "said to hold 1,099,511,627,776 entries"),
        (records.pack_tail(1, 2**62, 0), "said to be 4,611,686,018,427,387,904 bytes long"),
        (b"x" * 46 + records.pack_tail(1, 46, 0), "a record of the central directory is damaged"),
        (b"x" * 46 + records.pack_tail(0, 46, 0), "46 bytes after its last record"),
        (
            records.pack_central(b"a" * 46, 0, 0, 0) + records.pack_tail(2, 120, 0),
            "directory ends too early",
        ),
        (b"x" * 46 + records.pack_tail(1, 46, 10**9), "overlaps the records behind it"),
        (struct.pack("<4s4H2LH", b"PK\5\6", 1, 1, 1, 1, 0, 0, 0), "several disks"),
        (struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 3, 3, 100, 0, 0), "said to be 100 bytes long"),
        (struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0, 0, 0, 0, 5), "the end record is damaged"),
        (EMPTY[:-22] + b"?" + EMPTY[-21:], "does not end with the records"),
        (EMPTY[:56] + b"????" + EMPTY[60:], "ends too early|said to|overlaps|directory"),
        (b"????" + EMPTY[4:], "ZIP64 end record is missing"),
    ],
)
def test_hostile_ends_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    """Absurd counts, sizes and places are found before anything is allocated."""
    path = tmp_path / "x.zip"
    path.write_bytes(b"junk " * 2 + content if len(content) > records.END_BYTES else content)
    with pytest.raises(errors.CorruptDataError, match=message):
        MmapZipStore(path)


@pytest.mark.parametrize("cut", [1, 22, 90, 98, 200])
def test_an_archive_that_lost_its_end_is_read_by_its_entries(tmp_path: Path, cut: int) -> None:
    """As long as the directory begins behind them, all of them are there."""
    path = tmp_path / "x.zip"
    path.write_bytes(TWO[:-cut])
    with MmapZipStore(path) as store:
        assert store.keys() == [".zgroup", "a"]
    assert path.read_bytes() == TWO[:-cut]
    with MmapZipStore(path, "r+") as store:
        assert bytes(store.get("a") or b"") == b"hi"
    assert path.read_bytes() == TWO


@pytest.mark.parametrize("cut", [255, 260, 300, 380])
def test_an_archive_that_was_cut_short_is_refused(tmp_path: Path, cut: int) -> None:
    """Entries may be missing: nothing removes them."""
    path = tmp_path / "x.zip"
    path.write_bytes(TWO[:-cut])
    for mode in ("r", "r+"):
        with pytest.raises(errors.CorruptDataError, match="zip -FF|too small"):
            MmapZipStore(path, mode)  # type: ignore[arg-type]
    assert path.read_bytes() == TWO[:-cut]


def archive_of(entries: list[tuple[bytes, int, int]], data: bytes = bytes(200)) -> bytes:
    """Return an archive with a directory of these names, sizes and offsets."""
    directory = b"".join(records.pack_central(n, size, 0, at) for n, size, at in entries)
    return data + directory + records.pack_tail(len(entries), len(directory), len(data))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([(b"a", 2**62, 0)], "which is not within the file"),
        ([(b"a", 100, 2**62)], "which is not within the file"),
        ([(b"a", 100, 0), (b"b", 10, 20)], "'a' and 'b' overlap"),
        ([(b"a", 10, 0), (b"b", 10, 0)], "'a' and 'b' overlap"),
        ([(b"../../etc/passwd", 1, 0)], "leaves the archive, so it may be hostile"),
        ([(b"a/../b", 1, 0)], "leaves the archive"),
        ([(b"..\\b", 1, 0)], "leaves the archive"),
        ([(b"/etc/passwd", 1, 0)], "is no relative path"),
        ([(b"a//b", 1, 0)], "is no relative path"),
        ([(b"", 1, 0)], "is no relative path"),
        ([(b"a\0b", 1, 0)], "is no relative path"),
        ([(b"\xff", 1, 0)], "is not UTF-8"),
    ],
)
def test_hostile_entries_are_refused(
    tmp_path: Path, entries: list[tuple[bytes, int, int]], message: str
) -> None:
    """Overlaps, absurd sizes and names that climb out: a clear error at open."""
    path = tmp_path / "x.zip"
    path.write_bytes(archive_of(entries))
    for mode in ("r", "r+"):
        with pytest.raises(errors.CorruptDataError, match=message):
            MmapZipStore(path, mode)  # type: ignore[arg-type]


def test_a_directory_is_found_behind_a_long_comment() -> None:
    """A comment may hold what looks like an end record."""
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0, 0, 0, 0, 1000)
    data = end + (b"PK\5\6" + bytes(18)).ljust(1000, b"x")
    directory = read_directory(lambda at, size: data[at : at + size], len(data))
    assert directory.stop == len(data)
    assert directory.entries == []


def foreign_record(zip64: list[int], *, extra: bytes = b"", disk: int = 0, **fields: int) -> bytes:
    """Return a central record as other programs write it: some numbers in a ZIP64 field."""
    of = {"stored": 11, "size": 12, "offset": 13} | fields
    if zip64:
        extra += struct.pack(f"<2H{len(zip64)}Q", 1, 8 * len(zip64), *zip64)
    fixed = struct.pack(
        "<4s6H3L5H2L",
        *(b"PK\1\2", 45, 45, 0, 0, 0, 0, 7, of["stored"], of["size"], 1, len(extra), 0, disk),
        *(0, 0, of["offset"]),
    )
    return fixed + b"a" + extra


TIMES = struct.pack("<2H5s", 0x5455, 5, b"times")


@pytest.mark.parametrize(
    ("record", "numbers"),
    [
        (foreign_record([]), (12, 11, 13)),
        (foreign_record([2**33], offset=2**32 - 1), (12, 11, 2**33)),
        (foreign_record([5, 4], size=2**32 - 1, stored=2**32 - 1), (5, 4, 13)),
        (foreign_record([4], stored=2**32 - 1, extra=TIMES), (12, 4, 13)),
        (foreign_record([5, 9], size=2**32 - 1, disk=0xFFFF), (5, 11, 13)),
        (
            foreign_record(
                [5, 4, 2**34], extra=TIMES, **dict.fromkeys(("size", "stored", "offset"), 2**32 - 1)
            ),
            (5, 4, 2**34),
        ),
    ],
)
def test_numbers_that_did_not_fit_are_in_a_field_behind(
    record: bytes, numbers: tuple[int, int, int]
) -> None:
    """Those alone, in the order of the format, wherever other fields are."""
    (entry,) = records.parse_central(record, 1, 100)
    assert (entry.size_bytes, entry.stored_bytes, entry.offset - 100) == numbers


@pytest.mark.parametrize("there", [[], [5]])
def test_numbers_that_are_missing_are_damage(there: list[int]) -> None:
    """A field that holds fewer numbers than it should says nothing of the others."""
    record = foreign_record(there, size=2**32 - 1, stored=2**32 - 1)
    with pytest.raises(records.MalformedError, match="lacks its ZIP64 sizes"):
        list(records.parse_central(record, 1, 0))


def test_data_that_is_said_to_go_on_behind_the_file(tmp_path: Path) -> None:
    """A header that is longer than it was moves the data to where the file has ended."""
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", b"1234")
    with edited_bytes(path) as data:
        data[28:30] = struct.pack("<H", 2)
    with (
        MmapZipStore(path) as store,
        pytest.raises(errors.CorruptDataError, match="its data is cut off"),
    ):
        store.get("a")
