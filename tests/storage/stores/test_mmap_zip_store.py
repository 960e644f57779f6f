"""Tests of the store in a ZIP archive."""

from __future__ import annotations

import io
import itertools
import os
import shutil
import struct
import subprocess
import zipfile
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from daf_storage import errors
from daf_storage.stores import MmapZipStore, WritableStore
from daf_storage.stores.mmap_zip import _records as records
from daf_storage.stores.mmap_zip._file import ArchiveFile
from daf_storage.testing import AppendOnlyStoreSuite
from tests.support import edited_bytes, open_descriptors, recorded_calls, there


class TestMmapZipStore(AppendOnlyStoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> WritableStore:
        """Return an empty store."""
        return MmapZipStore(tmp_path / "x.zip", "w")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of an archive with a few entries."""
    path = tmp_path / "x.zip"
    with MmapZipStore(path, "w") as store:
        store.append(".zgroup", b"1234")
        store.append("alpha", b"")
        store.append("sub/beta", b"abc")
        store.append("sub/gamma/.zarray", b"5678")
    return path


def test_listing_and_sizes(path: Path) -> None:
    """Names directly below a prefix, of entries and of directories, and what they hold."""
    store = MmapZipStore(path)
    assert store.keys() == [".zgroup", "alpha", "sub/beta", "sub/gamma/.zarray"]
    assert store.children() == [".zgroup", "alpha", "sub"]
    assert store.children("sub") == ["beta", "gamma"]
    assert store.children("nothing") == []
    assert [entry.size_bytes for entry in store.entries() if entry.name == "sub/beta"] == [3]
    assert "alpha" in store
    assert "sub" not in store
    assert store.get("sub") is None
    assert store.get("alpha") == b""
    assert repr(store) == f"MmapZipStore({str(path)!r}, 'r')"


def test_reserve_and_complete_between_appends(path: Path) -> None:
    """A reserved entry is zeros, invisible until it is complete, and right afterwards."""
    with MmapZipStore(path, "r+") as store:
        store.append("before", b"1")
        store.complete(store.reserve("none", 0))
        assert there(store.try_mmap_entry_as("none", "f8", (0, 3))).shape == (0, 3)
        filled = store.reserve("filled", 4096)
        assert not filled.array.any()
        assert "filled" not in store
        with MmapZipStore(path) as other:
            assert "filled" not in other
            assert other.get("before") == b"1"
        store.append("between", b"2")
        filled.array[:] = np.arange(4096) % 251
        store.complete(filled)
        store.append("after", b"3")
    with MmapZipStore(path) as store:
        found = there(store.try_mmap_entry_as("filled", "u1", 4096))
        assert found.tolist() == [i % 251 for i in range(4096)]
    offsets = [item.header_offset for item in zipfile.ZipFile(path).infolist()]
    assert offsets == sorted(offsets)
    assert zipfile.ZipFile(path).testzip() is None


def test_closing_within_a_batch(path: Path) -> None:
    """Uncommitted changes are gone, and going on is an error."""
    before = path.read_bytes()
    store = MmapZipStore(path, "r+")

    def add_and_close() -> None:
        with store.batch():
            store.append("new", b"1")
            store.close()

    with pytest.raises(errors.InvalidInputError, match="was closed"):
        add_and_close()
    MmapZipStore(path, "r+").close()
    assert path.read_bytes() == before


def test_unusual_names_are_fine(path: Path) -> None:
    """Any other Unicode, long and short."""
    names = ["a..b", "é", "細胞/0", "a b", "x" * 60_000, "a\\b", "..."]
    with MmapZipStore(path, "r+") as store:
        for name in names:
            store.append(name, name.encode())
    with MmapZipStore(path) as store:
        assert [store.get(name) for name in names] == [name.encode() for name in names]
    assert zipfile.ZipFile(path).testzip() is None


def test_the_limit_is_checked_before_the_file_is_touched(tmp_path: Path) -> None:
    """An append beyond ``max_file_size`` says so and changes nothing."""
    path = tmp_path / "x.zip"
    with MmapZipStore(path, "w", max_file_size=256) as store:
        before = path.read_bytes()
        with pytest.raises(errors.SizeLimitError, match="max_file_size"):
            store.append("big", bytes(1024))
        with pytest.raises(errors.SizeLimitError):
            store.reserve("big", 1024)
        assert path.read_bytes() == before
        store.append("a", b"1")
    with MmapZipStore(path) as store:
        assert store.keys() == ["a"]
    with pytest.raises(errors.SizeLimitError, match="the file has") as kept:
        MmapZipStore(path, "r+", max_file_size=100)
    MmapZipStore(path, "r+").close()  # nobody holds its lock, though the error is kept
    del kept


def test_removing_from_the_directory(path: Path) -> None:
    """Names can be dropped when an archive is mended; twice is no more than once."""
    with MmapZipStore(path, "r+") as store:
        store.remove_entries(["alpha", "sub/beta", "unknown"])
        store.remove_entries(["alpha"])
        assert store.keys() == [".zgroup", "sub/gamma/.zarray"]
        store.append("alpha", b"again")
    with MmapZipStore(path) as store:
        assert store.get("alpha") == b"again"
        assert len(store) == 3


def test_views_are_typed_and_aligned(path: Path) -> None:
    """A typed view needs the exact length; there is none of what is absent."""
    with MmapZipStore(path, "r+") as store:
        for i in range(20):
            store.append(f"n{'x' * i}", np.arange(6, dtype="f8").tobytes())
            found = there(store.try_mmap_entry_as(f"n{'x' * i}", "f8", (2, 3)))
            assert found.tolist() == [[0, 1, 2], [3, 4, 5]]
            assert found.__array_interface__["data"][0] % 8 == 0
            assert not found.flags.writeable
        assert store.try_mmap_entry_as("n", "f8", 5) is None
        assert store.try_mmap_entry_as("absent", "f8", 6) is None


def full_at(patch: pytest.MonkeyPatch, number: int, *, part: float) -> None:
    """Let the disk be full at one of the writes to archives, of which a part is done."""
    write_at, count = ArchiveFile.write_at, itertools.count(1)

    def write(self: ArchiveFile, offset: int, data: Any) -> None:
        if next(count) == number:
            write_at(self, offset, bytes(data)[: int(len(data) * part)])
            raise OSError(28, "No space left on device")
        write_at(self, offset, data)

    patch.setattr(ArchiveFile, "write_at", write)


def test_a_full_disk_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever write fails, the archive is as it was, on the disk and in memory, and goes on."""
    count = 0
    for failing in range(6):
        with MmapZipStore(path, "r+") as store:
            before, size_bytes = store.keys(), path.stat().st_size
            with monkeypatch.context() as patch:
                full_at(patch, failing + 1, part=0.1)
                try:
                    store.append(f"new{failing}", b"x" * 1000)
                except OSError:
                    count += 1
                    assert store.keys() == before
                    assert failing or path.stat().st_size == size_bytes
                    with MmapZipStore(path) as other:
                        assert other.keys() == before
            store.append(f"after{failing}", b"y")
        with MmapZipStore(path) as other:
            assert other.get(f"after{failing}") == b"y"
        offset = zipfile.ZipFile(path).getinfo(f"after{failing}").header_offset
        assert failing > 1 or offset < size_bytes  # it lies where the one that failed would be
        assert zipfile.ZipFile(path).testzip() is None
    assert count == 4


def test_a_full_disk_is_an_error_at_reservation(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk has room for what is handed out, so that filling it cannot kill the process."""

    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    with MmapZipStore(path, "r+") as store:
        with monkeypatch.context() as patch:
            patch.setattr(os, "posix_fallocate", full)
            with pytest.raises(OSError, match="No space left"):
                store.reserve("big", 10_000)
        store.append("after", b"1")
    assert zipfile.ZipFile(path).testzip() is None


def test_reserved_bytes_are_zero_whatever_was_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also over what a failed write or a failed commit left in the file."""
    for failing in (1, 2, 3, 4):
        with MmapZipStore(path, "r+") as store:
            with monkeypatch.context() as patch, suppress(OSError):
                full_at(patch, failing, part=0.5)
                store.append(f"failed{failing}", b"x" * 3_000_000)
            assert not store.reserve(f"zeros{failing}", 4_000_000).array.any()
    assert zipfile.ZipFile(path).testzip() is None


def test_syncing_waits_for_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``sync`` the data is on the disk before the directory that names it counts."""
    steps: list[str] = []
    for name in ("sync", "truncate"):
        recorded_calls(monkeypatch, (ArchiveFile, name), lambda *_, name=name: steps.append(name))
    with MmapZipStore(path, "r+", sync=True) as store:
        steps.clear()
        store.append("a", b"1")
        assert steps == ["sync", "sync", "truncate", "sync"]
    with MmapZipStore(path, "r+") as store:
        steps.clear()
        store.append("b", b"1")
        assert steps == ["truncate"]


def test_a_pin_reads_after_its_writer_was_closed(tmp_path: Path) -> None:
    """Also an entry that nobody had read before, and the file that grew since it was mapped."""
    store = MmapZipStore(tmp_path / "x.zip", "w")
    store.append("a/first", b"1" * 100)
    early = store.get("a/first")
    store.append("a/large", b"2" * 1_000_000)
    pin = store.snapshot("a")
    store.close()
    assert pin is not None
    assert pin.map("large") == b"2" * 1_000_000
    assert pin.map("first") == early == b"1" * 100


def test_descriptors_are_closed(path: Path) -> None:
    """Neither readers nor closed writers hold a file open."""
    before = open_descriptors()
    readers = [MmapZipStore(path) for _ in range(50)]
    for _ in range(5):
        MmapZipStore(path, "r+").close()
    assert open_descriptors() <= before
    assert len(readers) == 50


# Archives of other programs


def made_by_python(path: Path, method: int) -> dict[str, bytes]:
    """Write an archive with Python's zipfile; return what it holds."""
    contents = {f"dir/{i}": bytes([i]) * (1000 * i) for i in range(5)}
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.mkdir("dir")
        for name, data in contents.items():
            archive.writestr(name, data)
        archive.comment = b"made by another program"
    return contents


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize(
    ("front", "behind", "message"),
    [
        (b"", b"", "added to, with 'daf convert'"),
        (b"#!/bin/sh\nexit\n", b"", "nothing is added to it"),
        (b"", b"junk " * 100_000, "another program packed this archive"),
    ],
    ids=["alone", "self-extracting", "with junk"],
)
def test_foreign_archives_are_read_and_not_added_to(
    tmp_path: Path, method: int, front: bytes, behind: bytes, message: str
) -> None:
    """Stored and compressed entries, directories, a comment, and other bytes around: all stays."""
    path = tmp_path / "x.zip"
    contents = made_by_python(path, method)
    before = front + path.read_bytes() + behind
    path.write_bytes(before)
    with MmapZipStore(path) as store:
        assert store.keys() == sorted(contents)
        assert {key: store.get(key) for key in store} == contents
        compressed = store.try_mmap_entry_as("dir/3", "u1", 3000)
        assert (compressed is None) == (method != zipfile.ZIP_STORED)
    with pytest.raises(errors.UnsupportedDataError, match=message):
        MmapZipStore(path, "r+")
    assert path.read_bytes() == before


class Unseekable(io.BytesIO):
    """A stream that cannot be rewound: zipfile then writes data descriptors."""

    def tell(self) -> int:
        raise OSError


def test_data_descriptors_are_read(tmp_path: Path) -> None:
    """Entries whose sizes stand behind the data, stored and deflated."""
    stream = Unseekable()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("stored", b"12345")
        archive.writestr("deflated", b"x" * 1000, compress_type=zipfile.ZIP_DEFLATED)
    path = tmp_path / "x.zip"
    path.write_bytes(stream.getvalue())
    with MmapZipStore(path) as store:
        assert [store.get(k) for k in ("stored", "deflated")] == [b"12345", b"x" * 1000]


def foreign_entry(method: int, stored: bytes, data: bytes, *, flags: int = 0) -> bytes:
    """Return an archive of one entry ``a``, without ZIP64."""
    fields = (crc32(data), len(stored), len(data), 1)
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 20, flags, method, 0, 33, *fields, 0) + b"a"
    central = struct.pack(
        "<4s6H3L5H2L", b"PK\1\2", 20, 20, flags, method, 0, 33, *fields, 0, 0, 0, 0, 0, 0
    ) + b"a"  # fmt: skip
    at = len(local) + len(stored)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(central), at, 0)
    return local + stored + central + end


DATA = b"some data " * 1000


def test_deflate64_needs_a_package(tmp_path: Path) -> None:
    """It is decompressed where the package is installed; what it is called is said where not."""
    path = tmp_path / "x.zip"
    inflate64 = pytest.importorskip("inflate64", reason="the extra 'zip' is not installed")
    deflater = inflate64.Deflater()
    path.write_bytes(foreign_entry(9, deflater.deflate(DATA) + deflater.flush(), DATA))
    with MmapZipStore(path) as store:
        assert store.get("a") == DATA


def test_a_bomb_is_not_blown_up(tmp_path: Path) -> None:
    """No more is produced than the directory declares."""
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", bytes(50 << 20))
    with edited_bytes(path) as data:
        at = data.index(b"PK\1\2") + 24
        data[at : at + 4] = (1000).to_bytes(4, "little")
    with MmapZipStore(path) as store, pytest.raises(errors.CorruptDataError, match="damaged"):
        store.get("a")
    data[40:60] = b"\xff" * 20
    path.write_bytes(data)
    with MmapZipStore(path) as store, pytest.raises(errors.CorruptDataError, match="decompressed"):
        store.get("a")


@pytest.mark.parametrize(
    ("method", "flags", "message"),
    [
        (12, 0, "compressed by ZIP method 12, which is not supported; supported are 0 .stored., 8"),
        (99, 0, "compressed by ZIP method 99, which is not supported; supported are 0 .stored., 8"),
        (0, 1, "is encrypted"),
        (8, 0x2001, "is encrypted"),
    ],
)
def test_what_cannot_be_read_says_so(tmp_path: Path, method: int, flags: int, message: str) -> None:
    """Encrypted entries and unknown methods are refused when asked for."""
    path = tmp_path / "x.zip"
    path.write_bytes(foreign_entry(method, b"12345", b"12345", flags=flags))
    with MmapZipStore(path) as store:
        assert [entry.size_bytes for entry in store.entries()] == [5]
        with pytest.raises(errors.UnsupportedDataError, match=message):
            store.get("a")


@pytest.mark.parametrize("at", [0, 8, 26, 30])
def test_a_damaged_local_header_says_so(tmp_path: Path, at: int) -> None:
    """Signature, method, length and name have to be those of the directory."""
    data = bytearray(foreign_entry(0, b"12345", b"12345"))
    data[at] ^= 0xFF
    path = tmp_path / "x.zip"
    path.write_bytes(data)
    with (
        MmapZipStore(path) as store,
        pytest.raises(errors.CorruptDataError, match="entry 'a' is d"),
    ):
        store.get("a")


def test_other_paddings_are_respected(path: Path) -> None:
    """Another writer of the same records may pad its headers differently: nothing is cut off."""
    contents = {"a": b"12345678", "b/c": b"x" * 100}
    data, directory = b"", b""
    for name, value in contents.items():
        extra = struct.pack("<2H2Q", 1, 16, len(value), len(value)) + b"\xfe\xca\x1b\0" + bytes(27)
        directory += records.pack_central(name.encode(), len(value), crc32(value), len(data))
        local = records.pack_local(name.encode(), len(value), crc32(value), len(data))
        data += local[:28] + len(extra).to_bytes(2, "little") + name.encode() + extra + value
    path.write_bytes(data + directory + records.pack_tail(2, len(directory), len(data)))
    before = path.read_bytes()
    with MmapZipStore(path, "r+") as store:
        assert not store.recovery
    assert path.read_bytes() == before
    with MmapZipStore(path, "r+") as store:
        store.append("new", b"1")
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in contents} == contents


# Other programs


@pytest.mark.parametrize(
    ("program", "arguments"),
    [("unzip", ["-t"]), ("zipinfo", ["-v"]), ("7z", ["t"]), ("jar", ["tf"])],
)
def test_other_programs_accept_it(tmp_path: Path, program: str, arguments: list[str]) -> None:
    """What is written passes their tests, with entries of every kind."""
    found = shutil.which(program) or shutil.which(f"{program}z")
    if found is None:
        pytest.skip(f"the program {program!r} is not installed")
    path = tmp_path / "x.zip"
    with MmapZipStore(path, "w") as store:
        store.append("empty", b"")
        store.append("axes/細胞/0", b"1")
        large = store.reserve("large", 3_000_001)
        large.array[:] = 1
        store.complete(large)
        for i in range(300):
            store.append(f"many/{i}", b"x" * i)
    done = subprocess.run(
        [found, *arguments, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("outer", ["alone", "in a batch"])
def test_a_publication_is_visible_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, outer: str
) -> None:
    """However small its entries, nobody sees some of them and not the others."""
    with MmapZipStore(path, "r+") as store:
        seen: list[Any] = []
        identities: set[Any] = set()
        write_at = ArchiveFile.write_at

        def look(self: ArchiveFile, offset: int, data: Any) -> None:
            write_at(self, offset, data)
            above = there(store.snapshot(""))
            seen.append(above.names("new/v"))
            if not seen[-1]:
                identities.add(above.identity())

        with store.batch() if outer == "in a batch" else nullcontext():
            monkeypatch.setattr(ArchiveFile, "write_at", look)
            with store.transaction() as changes:
                for name, data in ((".zarray", b"x" * 120), ("0", b"12"), (".zattrs", b"{}")):
                    changes.write(f"new/v/{name}", data)
                changes.publish("new/v", replace=False)
            monkeypatch.undo()
        assert len(seen) >= 3
        assert not any(seen[:3])
        assert all(names in ([], [".zarray", ".zattrs", "0"]) for names in seen)
        snapshot, above = store.snapshot("new/v"), store.snapshot("")
        assert snapshot is not None
        assert snapshot.names() == [".zarray", ".zattrs", "0"]
        assert above is not None
        assert above.identity() not in identities
