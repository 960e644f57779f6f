"""Identities of files: inode, size, and times of the data and of the inode.

The time of the data can be set back by any program (``rsync --times``, ``os.utime``); the time of
the inode cannot.  Both advance in steps of milliseconds, so a file that was changed just now equals
nothing: a second change within the same step would not show.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Final, TypeAlias

from daf_storage.errors import SourceNotFoundError

Fingerprint: TypeAlias = tuple[int, int, int, int]
"""Inode, size, time of the data and time of the inode of a file."""

_TIME_STEP_NS: Final = 100_000_000
_MAX_DEPTH: Final = 16
_MAX_WAITS: Final = 5


def check_linked(status: os.stat_result, location: str) -> None:
    """Raise if an open file has no name any more, so that what is written into it would be lost.

    Raises
    ------
    SourceNotFoundError
        It was deleted, or another file took its place.
    """
    if not status.st_nlink:
        raise SourceNotFoundError(
            f"{location}: the file was deleted, or replaced by another one, since it was opened; "
            "nothing was written, since it would be lost; open it again"
        )


class Unsettled:
    """What stands for a file that was changed just now: equal to nothing but itself."""

    __slots__ = ()


def is_lasting(identity: Hashable) -> bool:
    """Return whether an identity has no part that stands for files which were changed just now.

    What is remembered under any other would outlive a change that does not show.

    >>> is_lasting((1, ("", 2))), is_lasting((1, (Unsettled(),)))
    (True, False)
    """
    if isinstance(identity, tuple):
        return all(map(is_lasting, identity))
    return not isinstance(identity, Unsettled)


def fingerprint(status: os.stat_result) -> Fingerprint:
    """Return a value that changes with every write to a file."""
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def is_settled(status: os.stat_result) -> bool:
    """Return whether the next change of a file is bound to show in its times."""
    return time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) >= _TIME_STEP_NS


def file_identity(status: os.stat_result) -> Hashable:
    """Return what differs whenever a file was written to; equal to nothing if that is now."""
    return fingerprint(status) if is_settled(status) else Unsettled()


def directory_identity(descriptor: int) -> tuple[Hashable, ...]:
    """Return what differs whenever something in a directory was put in place or written to."""
    return files_identity(_all_below(descriptor))


def directory_version(descriptor: int) -> tuple[Hashable, ...]:
    """Return what differs whenever something in a directory was written to, in any process.

    Unlike an identity it is the same for whoever looks, also on another machine, and may be kept.
    """
    return files_version(lambda: _all_below(descriptor))


def files_version(look: Callable[[], list[tuple[str, os.stat_result]]]) -> tuple[Hashable, ...]:
    """Return inode, size and times of some files once their next change is bound to show.

    Parameters
    ----------
    look
        Returns the files by name, and what the file system knows of each.
    """
    found = look()
    for _ in range(_MAX_WAITS):
        newest = max(max(status.st_mtime_ns, status.st_ctime_ns) for _, status in found)
        age = time.time_ns() - newest
        if not 0 <= age < _TIME_STEP_NS:  # of a clock that is ahead nothing can be awaited
            break
        time.sleep((_TIME_STEP_NS - age) / 1e9)
        found = look()
    return tuple((name, *fingerprint(status)) for name, status in found)


def listing_identity(descriptor: int, files: Iterable[str]) -> tuple[Hashable, ...]:
    """Return what differs whenever a directory changed, or the first of some files in those below.

    What is below costs one look each, so it is fit for many.
    """
    found: list[tuple[str, os.stat_result]] = [("", os.fstat(descriptor))]
    known = list(files)
    for name in _names(descriptor):
        for file in known:
            try:
                status = os.stat(f"{name}/{file}", dir_fd=descriptor)
            except OSError:  # no directory, or one without this file
                continue
            found.append((name, status))
            break
    return files_identity(found)


def files_identity(found: list[tuple[str, os.stat_result]]) -> tuple[Hashable, ...]:
    """Return what differs whenever one of some files was replaced or written to."""
    newest = max(max(status.st_mtime_ns, status.st_ctime_ns) for _, status in found)
    if time.time_ns() - newest < _TIME_STEP_NS:
        return (Unsettled(),)
    device = found[0][1].st_dev
    return device, *((name, *fingerprint(status)) for name, status in found)


def _all_below(descriptor: int) -> list[tuple[str, os.stat_result]]:
    found: list[tuple[str, os.stat_result]] = [("", os.fstat(descriptor))]
    _walk(descriptor, "", found, _MAX_DEPTH)
    return found


def _walk(descriptor: int, path: str, found: list[tuple[str, os.stat_result]], depth: int) -> None:
    """Add everything below a directory; what cannot be opened counts by its own state."""
    try:
        opened = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=descriptor)
    except OSError:
        return
    try:
        with os.scandir(opened) as entries:
            listed = sorted((entry.name, _status(entry)) for entry in entries)
    finally:
        os.close(opened)
    for name, status in listed:
        below = f"{path}/{name}" if path else name
        found.append((below, status))
        if depth and stat.S_ISDIR(status.st_mode):
            _walk(descriptor, below, found, depth - 1)


def _status(entry: os.DirEntry[str]) -> os.stat_result:
    try:
        return entry.stat()
    except OSError:  # a symbolic link to nothing
        return entry.stat(follow_symlinks=False)


def _names(descriptor: int) -> list[str]:
    opened = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=descriptor)
    try:
        return sorted(os.listdir(opened))
    finally:
        os.close(opened)
