"""Compare a whole archive with its directory, and rebuild one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from daf_storage.errors import CorruptDataError, DafError
from daf_storage.stores.mmap_zip import _records as records
from daf_storage.stores.mmap_zip._archive import MmapZipStore
from daf_storage.stores.mmap_zip._file import ArchiveFile
from daf_storage.stores.mmap_zip._locating import read_directory
from daf_storage.stores.mmap_zip._opening import (
    earlier_directory,
    lock_for_writing,
    put_directory,
    walk,
)
from daf_storage.stores.mmap_zip._reader import blocks
from daf_storage.stores.mmap_zip._records import Entry, MalformedError, is_own_entry

_BLOCK_BYTES = 1 << 22


def check_entries(
    store: MmapZipStore, progress: Callable[[int], None]
) -> Iterator[tuple[str, str]]:
    """Yield the name of each entry that is not what the directory says, and why.

    Every byte of every entry is read.
    """
    entries = store.entries()
    for entry in entries:
        problem = _problem(store, entry, progress)
        if problem is not None:
            yield entry.name, problem
    for name, count in Counter(entry.name for entry in entries).items():
        if count > 1:
            yield name, f"there are {count} entries of this name; only the last one is used"


def _problem(store: MmapZipStore, entry: Entry, progress: Callable[[int], None]) -> str | None:
    try:
        data = store.stored_bytes(entry)
        if entry.method != records.STORED:
            for _ in blocks(entry, data, f"{store.location}: entry {entry.name!r}"):
                pass
            progress(len(data))
            return None
    except DafError as error:
        return str(error)
    crc = 0
    for start in range(0, len(data), _BLOCK_BYTES):
        block = data[start : start + _BLOCK_BYTES]
        crc = crc32(block, crc)
        progress(len(block))
    if crc != entry.crc:
        return "its data is damaged: it has not the recorded CRC"
    if is_own_entry(entry) and not store.is_headed(entry):
        return f"its local header is damaged; 'daf repair {store.path}' writes it again"
    return None


def unused_bytes(store: MmapZipStore) -> int:
    """Return how many bytes between the entries of an archive of ours belong to none."""
    used = 0
    for entry in store.entries():
        try:
            used += store.data_start(entry) - entry.offset + entry.stored_bytes
        except CorruptDataError:  # found as a problem of that entry
            return 0
    return store.size_bytes - used


def ends_with_directory(path: Path) -> bool:
    """Return whether a file ends as an archive does: no writer stopped in the middle."""
    file = ArchiveFile.open(path, os.O_RDONLY)
    try:
        read_directory(file.read_at, file.size())
    except MalformedError:
        return False
    finally:
        file.close()
    return True


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was done to a file that was no archive any more."""

    done: tuple[str, ...] = ()
    """What was done, a sentence each; empty if there was nothing to do."""
    dropped: tuple[str, ...] = ()
    """Names of entries that are not whole, and are not in the new directory."""
    cut_at: int | None = None
    """Where the file was cut though entries that nobody knows may have followed; None if not."""


def rebuild(path: Path, location: str) -> Rebuilt:
    """Give a file that is no archive any more a directory again; say what was done.

    Nothing is done to a file that ends with a directory, or whose last directory a writable open
    finds again by itself.

    Raises
    ------
    CorruptDataError
        There is nothing to rebuild it from.
    """
    file = lock_for_writing(path, location)
    try:
        size = file.size()
        try:
            read_directory(file.read_at, size)
        except MalformedError as error:
            reason = str(error)
        else:
            return Rebuilt()
        if earlier_directory(file) is not None:
            return Rebuilt()
        return _rebuild_from_entries(file, location, reason)
    finally:
        file.close()


def _rebuild_from_entries(file: ArchiveFile, location: str, reason: str) -> Rebuilt:
    entries, stop = walk(file)
    whole = [entry for entry in entries if _is_whole(file, entry)]
    if not whole:
        raise CorruptDataError(
            f"{location}: this is not a ZIP archive of Daf data ({reason}), and there is nothing "
            "at its beginning to rebuild one from; take it from a backup"
        )
    lost, cut_name = file.size() - stop, _name_at(file, stop)
    file.truncate(stop)
    put_directory(file, whole)
    done = [f"rebuilt the directory from {len(whole):,} entries that are whole"]
    if lost:
        named = cut_name or "an entry"
        done.append(f"cut off {lost:,} bytes of {named}, which is not; what came later is lost")
    dropped = [entry.name for entry in entries if entry not in whole]
    done += [f"dropped {name}, which is damaged" for name in dropped]
    if lost and cut_name:
        dropped.append(cut_name)
    return Rebuilt(tuple(done), tuple(dropped), stop if lost else None)


def _name_at(file: ArchiveFile, offset: int) -> str | None:
    """Return the name of the entry that begins at ``offset``; None if it cannot be read."""
    try:
        head = file.read_at(offset, records.LOCAL_BYTES + records.MAX_NAME_BYTES)
        return records.parse_local(head).raw_name.decode("utf-8", errors="replace")
    except MalformedError:
        return None


def _is_whole(file: ArchiveFile, entry: Entry) -> bool:
    start = entry.offset + records.local_header_bytes(entry.raw_name, entry.offset)
    crc = 0
    for at in range(start, start + entry.stored_bytes, _BLOCK_BYTES):
        crc = crc32(file.read_at(at, min(_BLOCK_BYTES, start + entry.stored_bytes - at)), crc)
    return crc == entry.crc
