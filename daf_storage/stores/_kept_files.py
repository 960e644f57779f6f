"""Mappings and documents of a directory's files, kept from one query to the next.

To map a file again costs a page fault for each page that is touched, and to read a small document
takes ten times as long as to look at its times.  An entry counts only for the inode, size and times
that its file had: it is looked at whenever the entry is used, so nothing that was rewritten or
replaced is ever read from here.

A mapping keeps the blocks of a deleted file on the disk.  Each `release_replaced` therefore looks
whether one more file is still at its path, in turn, and lets go of it if not.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, TypeAlias

from daf_storage.base import ForkLock
from daf_storage.stores._identity import Fingerprint, fingerprint, is_settled

MAX_FILES: Final = 1 << 11
"""How many files of a store are kept."""
MAX_BYTES: Final = 1 << 32
"""How many bytes of address space, in all; a file that is larger is mapped for each use.

Pages that were touched count as memory of the process until then, though the system takes them
back whenever it needs them.
"""
MAX_DOCUMENT_BYTES: Final = 1 << 16
"""How large a document may be that is kept in memory."""

_Inode: TypeAlias = tuple[int, int, bool]


@dataclass(frozen=True, slots=True)
class _Entry:
    """What is kept of a file."""

    fingerprint: Fingerprint
    path: str
    data: memoryview


class KeptFiles:
    """What is kept of the files of one store, bounded in number and bytes.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "x"
    >>> path.write_bytes(b"old")
    3
    >>> os.utime(path, (0, 0))
    >>> kept = KeptFiles()
    >>> kept.find(path.stat(), is_mapped=False) is None
    True
    """

    def __init__(self, *, max_files: int = MAX_FILES, max_bytes: int = MAX_BYTES) -> None:
        self._max_files = max_files
        self._max_bytes = max_bytes
        self._entries: OrderedDict[_Inode, _Entry] = OrderedDict()
        self._lock = ForkLock()
        self._turn: list[_Inode] = []
        self.size_bytes = 0
        """How many bytes are kept."""

    def __len__(self) -> int:
        """Return how many files are kept."""
        return len(self._entries)

    def find(self, status: os.stat_result, *, is_mapped: bool) -> memoryview | None:
        """Return what is kept of a file; None if it is nothing, or was written to since.

        Parameters
        ----------
        status
            What the file system says of it now.
        is_mapped
            Whether its mapping is asked for, or a copy of its bytes.
        """
        key = (status.st_dev, status.st_ino, is_mapped)
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if entry.fingerprint != fingerprint(status):
                self._drop(key)
                return None
            self._entries.move_to_end(key)
            return memoryview(entry.data)

    def keep(self, status: os.stat_result, path: str, data: memoryview, *, is_mapped: bool) -> None:
        """Keep the mapping of a file or a copy of its bytes.

        Not of one that was written to just now: the next change might not show.

        Parameters
        ----------
        status
            What the file system said of it before it was read.
        """
        largest = self._max_bytes if is_mapped else MAX_DOCUMENT_BYTES
        if len(data) > largest or not is_settled(status):
            return
        key = (status.st_dev, status.st_ino, is_mapped)
        with self._lock:
            self._drop(key)
            self._entries[key] = _Entry(fingerprint(status), path, data)
            self.size_bytes += len(data)
            while len(self._entries) > self._max_files or self.size_bytes > self._max_bytes:
                self._drop(next(iter(self._entries)))

    def release_replaced(self) -> None:
        """Look whether one of the files is still at its path, and let go of it if it is not."""
        with self._lock:
            if not self._turn:
                self._turn = list(self._entries)
            key = self._turn.pop() if self._turn else None
            entry = None if key is None else self._entries.get(key)
            if key is not None and entry is not None and not _is_at(entry.path, key):
                self._drop(key)

    def clear(self) -> None:
        """Let go of everything."""
        with self._lock:
            self._entries.clear()
            self.size_bytes = 0

    def _drop(self, key: _Inode) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.size_bytes -= len(entry.data)


def _is_at(path: str, inode: _Inode) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == inode[:2]
