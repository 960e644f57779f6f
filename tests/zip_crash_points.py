"""Every moment at which the writer of an archive can crash, and what must hold afterwards.

Two writers are stopped: ours, at each single change to the file and in the middle of it; and one
that follows the commit protocol of the reference implementation, at each store and each partial
copy.  `python -m tests.zip_crash_points` tries them all and prints how many there are.
"""

from __future__ import annotations

import itertools
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock
from zlib import crc32

from daf_storage import errors
from daf_storage.stores import MmapZipStore
from daf_storage.stores.mmap_zip import _records as records
from daf_storage.stores.mmap_zip._file import ArchiveFile

Contents = dict[str, bytes]
"""What an archive holds."""

FIRST: Contents = {"a/.zarray": b"{}", "a/0": b"0123456789" * 3, "b": b"", "c/d": b"\0" * 40}
"""What is there before the writer that crashes comes."""


class Crash(BaseException):
    """The process died."""


# Our own writer


class FailingFile:
    """Lets the changes to archives work until one of them, of which it does only a part."""

    def __init__(self, last: int, part: float) -> None:
        self.last = last
        self.part = part
        self.count = 0

    def step(self, work: Callable[[], None], partial: Callable[[], None]) -> None:
        """Do one change, or a part of it and crash; once dead, do nothing any more."""
        self.count += 1
        if self.count < self.last:
            work()
            return
        if self.count == self.last:
            partial()
        raise Crash


def crash_at(last: int, part: float, change: Callable[[], None]) -> bool:
    """Run a change and let its ``last``-th step do only ``part`` of its work; say if it died."""
    failing = FailingFile(last, part)
    write_at = ArchiveFile.write_at

    def failing_write(self: ArchiveFile, offset: int, data: bytes | memoryview) -> None:
        view = memoryview(data).cast("B")
        done = int(len(view) * part)
        failing.step(
            lambda: write_at(self, offset, view), lambda: write_at(self, offset, view[:done])
        )

    def failing_change(name: str) -> Callable[..., None]:
        method = getattr(ArchiveFile, name)

        def change(self: ArchiveFile, *arguments: int) -> None:
            work = lambda: method(self, *arguments)  # noqa: E731 - two uses of one step
            failing.step(work, work if part == 1 else lambda: None)

        return change

    with (
        mock.patch.object(ArchiveFile, "write_at", failing_write),
        mock.patch.object(ArchiveFile, "truncate", failing_change("truncate")),
        mock.patch.object(ArchiveFile, "allocate", failing_change("allocate")),
    ):
        try:
            change()
        except Crash:
            return True
    return False


def appending(data: bytes) -> Callable[[MmapZipStore], Contents]:
    """Return what adds an entry."""

    def append(store: MmapZipStore) -> Contents:
        store.append("new", data)
        return {"new": data}

    return append


def append_batch(store: MmapZipStore) -> Contents:
    """Add three entries at once."""
    contents = {f"new/{i}": bytes([i]) * 60 for i in range(3)}
    with store.batch():
        for key, data in contents.items():
            store.append(key, data)
    return contents


def reserve_and_complete(store: MmapZipStore) -> Contents:
    """Fill an entry in place."""
    new = store.reserve("new", 500)
    new.array[:250] = 1
    new.array[250:] = 2
    store.complete(new)
    return {"new": b"\1" * 250 + b"\2" * 250}


def reserve_in_parallel(store: MmapZipStore) -> Contents:
    """Fill one entry while another is added."""
    new = store.reserve("new", 500)
    store.append("other", b"meanwhile")
    new.array[:] = 4
    store.complete(new)
    return {"new": b"\4" * 500, "other": b"meanwhile"}


CHANGES: dict[str, Callable[[MmapZipStore], Contents]] = {
    "small": appending(b"small"),
    "empty": appending(b""),
    "large": appending(bytes(range(256)) * 9000),  # of several blocks
    "batch": append_batch,
    "reserve": reserve_and_complete,
    "in parallel": reserve_in_parallel,
}


def own_crashes(folder: Path) -> Iterator[tuple[str, Path, Contents, Contents]]:
    """Yield a crashed file for each moment at which our writer can die.

    With it: a description, what was there before, and what may be there besides.
    """
    for name, change in CHANGES.items():
        for kind, start in (("empty", {}), ("own", FIRST)):
            new = _changed(folder / "whole.zip", start, change)
            for part in (0.0, 0.01, 0.5, 0.99, 1.0):
                for last in itertools.count(1):
                    path = folder / f"{name}-{kind}-{part}-{last}.zip"
                    _write(path, start)
                    store = MmapZipStore(path, "r+")
                    died = crash_at(last, part, lambda store=store, change=change: change(store))  # type: ignore[misc]
                    assert store._file is not None
                    store._file.close()
                    if not died:
                        path.unlink()
                        break
                    yield path.name, path, start, new


def _changed(path: Path, start: Contents, change: Callable[[MmapZipStore], Contents]) -> Contents:
    _write(path, start)
    with MmapZipStore(path, "r+") as store:
        new = change(store)
    path.unlink()
    return new


def _write(path: Path, contents: Contents) -> None:
    with MmapZipStore(path, "w") as store, store.batch():
        for key, data in contents.items():
            store.append(key, data)


# The protocol of the reference implementation


def reference_crashes(folder: Path) -> Iterator[tuple[str, Path, Contents, Contents]]:
    """Yield a crashed file for each store, and each partial copy, of the reference's protocol."""
    number = 0
    payloads = (b"", b"x", b"data " * 3, b"\0" * 30, bytes(range(256)) * 8)
    for start, payload, is_reserved in itertools.product(({}, FIRST), payloads, (False, True)):
        for state in _reference_states(
            folder / "base.zip", start, payload, is_reserved=is_reserved
        ):
            number += 1
            path = folder / f"reference-{number}.zip"
            path.write_bytes(state)
            yield path.name, path, start, {"new/0": payload}


def _reference_states(
    base: Path, start: Contents, payload: bytes, *, is_reserved: bool
) -> Iterator[bytes]:
    """Grow the file, then the directory, then the local header, then the data (then the CRCs)."""
    _write(base, start)
    before = base.read_bytes()
    with MmapZipStore(base) as store:
        entries, at = store.entries(), store.size_bytes
    crc = 0 if is_reserved else crc32(payload)
    header = records.pack_local(b"new/0", len(payload), crc, at)
    new = records.pack_entry("new/0", len(payload), crc, at)
    directory = b"".join(entry.record for entry in (*entries, new))
    data_at, end = at + len(header), at + len(header) + len(payload)
    tail = directory + records.pack_tail(len(entries) + 1, len(directory), end)
    file = bytearray(before.ljust(end + len(tail), b"\0"))
    yield bytes(file)
    for offset, data in ((end, tail), (at, header), (data_at, payload)):
        for done in _partial(len(data)):
            state = bytearray(file)
            state[offset : offset + done] = data[:done]
            yield bytes(state)
        file[offset : offset + len(data)] = data
    if is_reserved:
        patched = crc32(payload).to_bytes(4, "little")
        in_directory = end + sum(len(entry.record) for entry in entries) + 16
        for offset in (at + 14, in_directory):
            file[offset : offset + 4] = patched
            yield bytes(file)


def _partial(size: int) -> list[int]:
    return sorted(
        {0, 1, 3, size // 3, size // 2, size - 30, size - 22, size - 1, size} & set(range(size + 1))
    )


# What must hold


def check_crash(path: Path, before: Contents, new: Contents) -> None:
    """Assert what a crashed archive must still be able to do."""
    crashed = path.read_bytes()
    try:
        with MmapZipStore(path) as store:
            _check_contents(store, before, new)
    except errors.CorruptDataError as error:
        assert f"daf repair {path}" in str(error)  # noqa: PT017 - either is right
    assert path.read_bytes() == crashed, "reading changed the file"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with MmapZipStore(path, "r+") as store:
            _check_contents(store, before, new)
            for key, data in new.items():
                if key not in store:
                    store.append(key, data)
            store.append("afterwards", b"1")
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    with MmapZipStore(path) as store:
        assert {"afterwards", *before, *new} == set(store)
        assert _readable_end(path)


def _check_contents(store: MmapZipStore, before: Contents, new: Contents) -> None:
    for key, data in before.items():
        found = store.get(key)
        assert found is not None, f"{key} is gone"
        assert found == data, f"{key} is damaged"
    for key in set(store) - set(before):
        found = store.get(key)
        assert found is not None
        assert found == new[key], f"{key} is not whole"


def _readable_end(path: Path) -> bool:
    data = path.read_bytes()
    return records.END_SIGNATURE in data[-60:-18]


def main() -> None:
    """Try every crash point and print how many there are."""
    for name, crashes in (
        ("our writer: appends, batches, reserve and complete", own_crashes),
        ("the reference's protocol: append, reserve and patch", reference_crashes),
    ):
        with tempfile.TemporaryDirectory() as folder:
            count = 0
            for _, path, before, new in crashes(Path(folder)):
                check_crash(path, before, new)
                count += 1
            print(f"{count:6,} crash points  {name}")  # noqa: T201 - a report


if __name__ == "__main__":
    main()
