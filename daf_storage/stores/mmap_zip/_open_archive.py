"""An archive that is open: found whole or recovered, mapped, and closed."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np

from daf_storage import errors
from daf_storage.base import AnyArray, OpenMode, check_mode
from daf_storage.stores._identity import Fingerprint, file_identity, fingerprint
from daf_storage.stores._mapping import GrowingMapping, map_readonly
from daf_storage.stores.mmap_zip import _opening, _recovery
from daf_storage.stores.mmap_zip import _records as records
from daf_storage.stores.mmap_zip._appender import Appender
from daf_storage.stores.mmap_zip._file import ArchiveFile
from daf_storage.stores.mmap_zip._index import EntryIndex
from daf_storage.stores.mmap_zip._locating import Directory
from daf_storage.stores.mmap_zip._opening import Recovery, RecoveryWarning
from daf_storage.stores.mmap_zip._reader import ArchiveReader

MAX_FILE_SIZE: Final = 1 << 40
"""How far an archive may grow unless its opener says otherwise: 1 TiB."""


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """Data that is being filled and that no directory names yet."""

    key: str
    """The name of the entry that it is to be."""
    offset: int
    """Where its local header is."""
    data: memoryview
    """The mapped file, writable."""

    @property
    def stop(self) -> int:
        """Where its data ends."""
        header_bytes = records.local_header_bytes(self.key.encode(), self.offset)
        return self.offset + header_bytes + len(self.data)

    @property
    def array(self) -> AnyArray:
        """The data as an array of bytes."""
        return np.frombuffer(self.data, dtype=np.uint8)


class OpenArchive(ArchiveReader):
    """An open archive, without what adds to it; see `MmapZipStore`."""

    names_dropped = True
    """Whether a warning names the entries that were taken away; of a data set, its parts are."""

    def __init__(
        self,
        path: str | Path,
        mode: OpenMode = "r",
        *,
        max_file_size: int = MAX_FILE_SIZE,
        sync: bool = False,
        location: str | None = None,
    ) -> None:
        check_mode(mode)
        super().__init__(location or str(path))
        self._path_text = os.path.abspath(path)  # which the system is asked for again and again
        self.path = Path(self._path_text)
        self.mode = mode
        self.recovery = Recovery()
        self._writer_lock = threading.RLock()
        self._append_lock = threading.RLock()
        self._reserved: dict[str, Reservation] = {}
        self._pending: dict[int, Reservation] = {}
        self._batches = 0
        self._hidden = 0
        self._file: ArchiveFile | None = None
        self._last_seen: Fingerprint | None = None
        self._opened_as: Fingerprint | None = None
        self._appender: Appender | None = None
        if mode == "r":
            self._open_for_reading()
        else:
            self._open_for_writing(max_file_size, sync=sync)

    def _open_for_reading(self) -> None:
        file, directory = _opening.open_for_reading(self.path, self.location)
        try:
            self._view = map_readonly(file.descriptor, directory.offset)
            self.file_identity = file.identity()
            self._opened_as = fingerprint(os.fstat(file.descriptor))
        finally:
            file.close()
        self._limit_bytes = directory.offset
        self.is_own = directory.is_own()
        self._index = EntryIndex(directory.entries)
        self._published = len(self._index)
        self._is_fixed = True
        _opening.check_last_entry(directory, self._view, self.location, self.path)

    def _open_for_writing(self, max_file_size: int, *, sync: bool) -> None:
        self._file = file = _opening.open_for_writing(self.path, self.mode, self.location)
        try:
            self._check_size(file.size(), max_file_size)
            directory, cut_bytes = _opening.directory_for_writing(file, self.path, self.location)
            if directory.shift:
                raise errors.UnsupportedDataError(
                    f"{self.location}: there are {directory.shift:,} bytes in front of this "
                    "archive, so nothing is added to it; open it with mode 'r', or unpack it and "
                    "pack it again"
                )
            self._mapping = self._reserve_addresses(file, max_file_size)
            self._mapping.cover(file.size())
            self._view = self._mapping.view(0, max_file_size)
            self._recover(file, directory, cut_bytes, max_file_size, sync=sync)
            self.file_identity = file.identity()
            if sync:
                _opening.sync_folder(self.path)
            if self.names_dropped and self.recovery.dropped:
                warnings.warn(
                    f"{self.location}: {', '.join(map(repr, self.recovery.dropped))} could not be "
                    "read and was taken away: a writer had stopped in the middle of writing it, or "
                    "the file was damaged; write it again, or take it from a backup",
                    RecoveryWarning,
                    stacklevel=4,
                )
        except BaseException:
            file.close()
            raise

    def _check_size(self, size_bytes: int, max_file_size: int) -> None:
        if size_bytes > max_file_size:
            raise errors.SizeLimitError(
                f"{self.location}: the file has {size_bytes:,} bytes, more than the "
                f"{max_file_size:,} up to which it may grow; open it with a larger max_file_size, "
                "or set daf_storage.settings.DAF_ZARR_ZIP_MAX_FILE_SIZE before"
            )

    def _reserve_addresses(self, file: ArchiveFile, max_file_size: int) -> GrowingMapping:
        try:
            return GrowingMapping(file.descriptor, max_file_size)
        except OSError as error:
            raise errors.SizeLimitError(
                f"{self.location}: this system does not set aside {max_file_size:,} bytes of "
                f"address space ({error.strerror}); open it with a smaller max_file_size, or set "
                "daf_storage.settings.DAF_ZARR_ZIP_MAX_FILE_SIZE before"
            ) from error

    def _recover(
        self,
        file: ArchiveFile,
        directory: Directory,
        cut_bytes: int,
        max_file_size: int,
        *,
        sync: bool,
    ) -> None:
        """Make the file what it was after the last whole entry; of foreign archives, nothing."""
        entries, raw, end = list(directory.entries), directory.raw, directory.offset
        is_own = directory.is_own()
        verdict = _recovery.Verdict(entries)
        if is_own:
            verdict = _recovery.judge(entries, self._view[: directory.offset])
            end = verdict.end
        self.is_own = is_own
        self._index = EntryIndex(verdict.kept)
        self._published = len(self._index)
        self._appender = Appender(
            file,
            directory=raw,
            count=len(entries),
            comment=directory.comment,
            directory_at=directory.offset,
            end=end,
            max_file_size=max_file_size,
            sync=sync,
            location=self.location,
        )
        self._directory = bytearray(raw)
        for entry, header in verdict.headers:
            file.write_at(entry.offset, header)
        if verdict.dropped or verdict.completed or end != directory.offset:
            self._directory = bytearray(b"".join(entry.record for entry in verdict.kept))
            self._appender.switch(bytes(self._directory), self._published)
            self._appender.commit(bytes(self._directory), self._published)
        self.recovery = Recovery(
            dropped=tuple(entry.name for entry in verdict.dropped),
            dropped_bytes=tuple(entry.size_bytes for entry in verdict.dropped),
            completed=tuple(verdict.completed),
            cut_bytes=cut_bytes + directory.offset - end,
        )

    def __repr__(self) -> str:
        return f"MmapZipStore({self.location!r}, {self.mode!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Refuse further use and let others write; arrays and pins handed out stay valid."""
        with self._append_lock:
            file, self._file, self._is_closed = self._file, None, True
            self._limit_bytes = self.size_bytes
            if file is None or self._appender is None:
                return
            try:
                self._appender.settle()
            finally:
                file.close()
                self._appender = None

    @property
    def is_writable(self) -> bool:
        """Whether entries can be added."""
        return self.mode != "r"

    @property
    def is_append_only(self) -> bool:
        """Whether what is there can be neither changed nor deleted: it cannot."""
        return True

    def file_state(self) -> Hashable:
        """Return what changes whenever another program writes into the archive in place.

        What this object adds does not count, as far as it goes through the file and not through
        the arrays that `reserve` hands out.
        """
        file = self._file
        if file is not None:
            return file.foreign_state()
        try:
            status = os.stat(self._path_text)
        except OSError:
            return None
        if (status.st_dev, status.st_ino) != self.file_identity:
            return None  # another file has this name by now; the mapped one cannot be asked
        return file_identity(status)

    def versions(self, prefix: str, limit: int) -> tuple[Hashable, ...]:
        """Return the inode, and name, place, size and CRC of entries, as the path has them now.

        Another program may have added entries, or have written another archive in its place.
        """
        status = os.stat(self._path_text)
        if self._file is not None or fingerprint(status) == self._opened_as:
            return status.st_ino, *super().versions(prefix, limit)
        current = OpenArchive(self.path, location=self.location)
        return current.versions(prefix, len(current))

    def present_bytes(self) -> int:
        """Return how much of the entries' part of the file is there.

        Another program may have cut it.  If it has written to the file, local headers are compared
        with the directory again, since it may be another archive by now.
        """
        file = self._file
        try:
            status = os.stat(self._path_text) if file is None else os.fstat(file.descriptor)
        except OSError:  # it was deleted or moved, and stays as it is
            return self.size_bytes
        if (status.st_dev, status.st_ino) != self.file_identity:
            return self.size_bytes  # another file has this name by now
        if fingerprint(status) != self._last_seen:
            self._last_seen = fingerprint(status)
            self._data_starts.clear()
        return min(self.size_bytes, status.st_size)

    @property
    def size_bytes(self) -> int:
        """Length of the entries' part of the file: where the next entry goes."""
        return self._limit_bytes if self._appender is None else self._appender.end

    def recover(self) -> bool:
        """Return whether opening found something to recover; asked again, there is nothing."""
        found, self.recovery = self.recovery, Recovery()
        return bool(found)
