"""The files that a data set is attached from: whether they are the ones of before.

A file is known by inode, size and times.  The time of its inode cannot be set back, so a file that
was changed in place shows, also if its size and the time of its data are the same.  A copy has
other times: what it holds is compared, by a digest of all of it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from daf_storage import errors
from daf_storage.stores import fingerprint, is_settled

_PIECE_BYTES: Final = 1 << 24
_DIGEST_BYTES: Final = 16
_MAX_WAIT_SECONDS: Final = 0.25
_WAIT_SECONDS: Final = 0.02
_MOST_DIGESTS: Final = 256


@dataclass(frozen=True, slots=True)
class SourceState:
    """What the file system says of the files of a source; nothing of them was read."""

    fingerprint: str
    """Changes with every write to any of them."""
    size_bytes: int
    """Of all of them."""
    is_settled: bool
    """Whether the next write is bound to change the fingerprint."""


def source_state(path: Path) -> SourceState | None:
    """Return the state of a file, or of all files below a directory; None if it is absent.

    Raises
    ------
    DafError
        A directory cannot be read, so that a change below it would not show.
    """
    try:
        with errors.os_errors(""):
            files = list(_files(path))
    except errors.SourceNotFoundError:
        return None
    listed = [(name, *fingerprint(status)) for name, status in files]
    return SourceState(
        hashlib.blake2b(repr(listed).encode(), digest_size=_DIGEST_BYTES).hexdigest(),
        sum(status.st_size for _, status in files),
        all(is_settled(status) for _, status in files),
    )


def settled_state(path: Path) -> SourceState | None:
    """Return the state of a source once its next write is bound to show; waits for a moment."""
    end = time.monotonic() + _MAX_WAIT_SECONDS
    state = source_state(path)
    while state is not None and not state.is_settled and time.monotonic() < end:
        time.sleep(_WAIT_SECONDS)
        state = source_state(path)
    return state


def source_digest(
    path: Path, state: SourceState, progress: Callable[[int], None] = lambda _: None
) -> str | None:
    """Return a digest of all bytes of a source and the names of its files.

    None if it changed meanwhile.  It is computed once for each state.

    Raises
    ------
    DafError
        A file cannot be read.
    """
    key = str(path), state.fingerprint
    if (known := _DIGESTS.get(key)) is not None:
        return known
    total = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    try:
        with errors.os_errors(""):
            for name, status in _files(path):
                total.update(f"{name}\0{status.st_size}\0".encode(errors="surrogatepass"))
                if stat.S_ISREG(status.st_mode):
                    _add_file(total, path / name if name else path, progress)
    except errors.SourceNotFoundError:
        return None
    if not state.is_settled or source_state(path) != state:
        return None
    if len(_DIGESTS) >= _MOST_DIGESTS:
        _DIGESTS.clear()
    return _DIGESTS.setdefault(key, total.hexdigest())


_DIGESTS: Final[dict[tuple[str, str], str]] = {}
"""Of sources by their states; the newest ones."""


def _add_file(total: hashlib.blake2b, path: Path, progress: Callable[[int], None]) -> None:
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            total.update(piece)
            progress(len(piece))


def _files(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files of a source by their names below it; a file itself has none."""
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        yield from _files_below(path, "", ((status.st_dev, status.st_ino),))
    else:
        yield "", status


def _files_below(
    path: Path, folder: str, parents: tuple[tuple[int, int], ...]
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files of a folder, then those of its folders, also where links lead to them."""
    folders = []
    for file in sorted(os.listdir(path / folder)):
        name = f"{folder}/{file}" if folder else file
        status = _status(path / name)
        if stat.S_ISDIR(status.st_mode):
            folders.append((name, (status.st_dev, status.st_ino)))
        else:
            yield name, status
    for name, inode in folders:
        if inode in parents:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path / name))
        yield from _files_below(path, name, (*parents, inode))


def _status(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except FileNotFoundError:  # a link to nothing, or a file that was removed just now
        return path.lstat()
