"""Several files of one directory that belong together, and change together.

The first of them, the *document*, says which others there are.  Whoever replaces them takes the
document away first and puts the new one in place last.  So whoever finds the same document before
and after opening the others has files that belong together; a crash in between is undone.
"""

from __future__ import annotations

import json
import os
import time
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from daf_storage import errors
from daf_storage.stores import _identity
from daf_storage.stores._directory_snapshot import DirectorySnapshot
from daf_storage.stores._locks import names_in
from daf_storage.stores._mapping import map_file
from daf_storage.stores._protocol import Snapshot
from daf_storage.stores._regular import open_regular, refuse

PartNames = Callable[[bytes], Iterable[str]]
"""From the bytes of a document to the names of the other files."""

RECORD_FOLDER = "files-"
_RECORD = "record"
_LOOKS = 100
_LOOK_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class _Mapped:
    """A file that was opened and mapped."""

    status: os.stat_result
    """What the file system knows of it."""
    data: memoryview
    """Its bytes."""


class _ReplacedError(Exception):
    """The files that were opened may not belong together."""


class PropertyFiles(Snapshot):
    """Files that belong together, mapped; see `Snapshot`, whose keys are their names.

    It holds their mappings and, as long as it lives, no more than one descriptor of an empty file.
    """

    def __init__(self, folder: str, document: str, files: Mapping[str, _Mapped]) -> None:
        self._folder = folder
        self._document = document
        self._files = files

    def identity(self) -> Hashable:
        """Return what differs whenever one of the files was replaced or written to."""
        return _identity.files_identity([(n, one.status) for n, one in self._files.items()])

    def version(self) -> Hashable:
        """Return inode, size and times of each file, which any process sees alike."""
        return _identity.files_version(lambda: [(n, one.status) for n, one in self._files.items()])

    def is_same(self, other: object) -> bool:
        """Return whether another snapshot has the same document: both hold it."""
        return isinstance(other, PropertyFiles) and os.path.samestat(
            self.document_status, other.document_status
        )

    @property
    def document_status(self) -> os.stat_result:
        """What the file system knows of the document."""
        return self._files[self._document].status

    def names(self, key: str = "") -> list[str]:
        """Return the names of the files."""
        return [] if key else sorted(self._files)

    def map(self, key: str) -> memoryview | None:
        """Return the bytes of a file, mapped."""
        found = self._files.get(key)
        return None if found is None else found.data

    def fingerprint(self, key: str) -> list[int] | None:
        """Return inode, size and times of a file; None while it is too new to tell by them."""
        found = self._files.get(key)
        if found is None or not _identity.is_settled(found.status):
            return None
        return list(_identity.fingerprint(found.status))

    def open_file(self, key: str) -> int | None:
        """Return a descriptor of a file; None if another one has taken its place."""
        found = self._files.get(key)
        path = os.path.join(self._folder, key)
        descriptor = None if found is None else open_regular(path, what=path)
        if found is None or descriptor is None:
            return None
        if os.path.samestat(found.status, os.fstat(descriptor)):
            return descriptor
        os.close(descriptor)
        return None


def open_files(
    directory: DirectorySnapshot, document: str, parts: PartNames
) -> PropertyFiles | None:
    """Open files of a directory that belong together; None if there is no such document.

    Raises
    ------
    InUseError
        They are replaced again and again.
    """
    for _ in range(_LOOKS):
        try:
            return _open_once(directory, document, parts)
        except _ReplacedError:
            continue
    raise errors.InUseError(
        f"{directory.path}/{document}: it is replaced again and again; read it when that is done"
    )


def _open_once(
    directory: DirectorySnapshot, document: str, parts: PartNames
) -> PropertyFiles | None:
    """Open the files once; raise if the document was replaced meanwhile."""
    held = directory.open_key(document)
    if held is None:
        return None
    is_kept = False
    try:
        first = _mapped(held, os.path.join(directory.path, document))
        files = {document: first}
        for name in parts(bytes(first.data)):
            descriptor = directory.open_key(name)
            if descriptor is not None:
                try:
                    files[name] = _mapped(descriptor, os.path.join(directory.path, name))
                finally:
                    os.close(descriptor)
        now = directory.status_of(document)
        if now is None or not os.path.samestat(first.status, now):
            raise _ReplacedError
        found = PropertyFiles(directory.path, document, files)
        if not first.data:  # nothing is mapped that would keep its inode from being used again
            weakref.finalize(found, os.close, held)
            is_kept = True
        return found
    finally:
        if not is_kept:
            os.close(held)


def _mapped(descriptor: int, what: str) -> _Mapped:
    status = os.fstat(descriptor)
    try:
        return _Mapped(status, map_file(descriptor, status.st_size, what=what))
    except OSError as error:
        refuse(error, what=what)


# Changes


@dataclass(frozen=True, slots=True)
class _Record:
    """What is being replaced or removed, written down before anything is moved."""

    is_restored: bool
    """Whether a crash brings the old files back; if not, the rest of them goes."""
    old: tuple[str, ...]
    """The files that are there, the document first; each is moved beside the record."""
    new: tuple[str, ...]
    """The files that take their place, the document first."""

    def write(self, folder: Path) -> None:
        """Write it into its folder."""
        folder.mkdir()
        document = {"restore": self.is_restored, "old": self.old, "new": self.new}
        (folder / _RECORD).write_text(json.dumps(document))


def replace_files(
    root: Path, prepared: Path, folder: Path, new: Sequence[str], stale: Iterable[str]
) -> None:
    """Put prepared files in place, the first of them last; those that are there go first.

    Parameters
    ----------
    prepared
        The directory that has the new files, by the same keys.
    folder
        Where the old files go; it does not exist yet.
    stale
        Other files that go, if they are there.
    """
    document, *others = new
    candidates = dict.fromkeys([document, *others, *stale])
    old = tuple(key for key in candidates if (root / key).exists())
    _Record(is_restored=document in old, old=old, new=tuple(new)).write(folder)
    try:
        for number, key in enumerate(old):
            os.rename(root / key, folder / str(number))
        for key in (*others, document):
            os.rename(prepared / key, root / key)
    except BaseException:
        _undo(root, folder)
        raise


def remove_files(root: Path, folder: Path, keys: Sequence[str]) -> None:
    """Take files away, the first of them first."""
    old = tuple(key for key in keys if (root / key).exists())
    if old:
        _Record(is_restored=False, old=old, new=(keys[0],)).write(folder)
    for number, key in enumerate(old):
        os.rename(root / key, folder / str(number))


def undo_replacements(root: Path, token: Path) -> None:
    """Bring back what a crashed writer had begun to replace; finish what it had begun to remove."""
    for name in names_in(token):
        if name.startswith(RECORD_FOLDER):
            _undo(root, token / name)


def replaced_documents(token: Path) -> set[str]:
    """Return the keys of documents that a writer, or a crash, has taken away to replace them."""
    found = (_read_record(token / n) for n in names_in(token) if n.startswith(RECORD_FOLDER))
    return {record.old[0] for record in found if record is not None and record.is_restored}


def open_replaced(root: Path, token: Path, key: str, parts: PartNames) -> PropertyFiles | None:
    """Open the old files of a property that is being replaced; None where it is not, or no more."""
    for name in names_in(token):
        record = _read_record(token / name) if name.startswith(RECORD_FOLDER) else None
        if record is not None and record.is_restored and record.old[0] == key:
            return _open_moved(root, token / name, record.old, parts)
    return None


def _open_moved(
    root: Path, moved: Path, keys: Sequence[str], parts: PartNames
) -> PropertyFiles | None:
    """Open files of which the first ones were moved into a directory already."""
    document = moved / "0"
    files: dict[str, _Mapped] = {}
    names = [Path(key).name for key in keys]
    first = _map_path(document)
    if first is None:
        return None
    files[names[0]] = first
    for part in parts(bytes(first.data)):
        number = names.index(part) if part in names else -1
        place = moved / str(number)
        mapped = None if number < 0 else _map_path(place)
        if mapped is None and number > 0:  # it is not moved yet, unless it is now
            mapped = None if place.exists() else _map_path(root / keys[number])
            if place.exists():
                return None
        if mapped is not None:
            files[part] = mapped
    now = _map_path(document)
    if now is None or not os.path.samestat(now.status, first.status):
        return None
    return PropertyFiles(str((root / keys[0]).parent), names[0], files)


def _map_path(path: Path) -> _Mapped | None:
    descriptor = open_regular(path, what=str(path))
    if descriptor is None:
        return None
    try:
        return _mapped(descriptor, str(path))
    finally:
        os.close(descriptor)


def looks() -> Iterator[None]:
    """Yield once, and then again after each short pause, a bounded number of times."""
    yield
    for _ in range(_LOOKS):
        time.sleep(_LOOK_SECONDS)
        yield


def _undo(root: Path, folder: Path) -> None:
    record = _read_record(folder)
    if record is None or (root / record.new[0]).exists():
        return
    for key in record.new:
        if key not in record.old:
            with suppress(FileNotFoundError):
                (root / key).unlink()
    for number, key in reversed(list(enumerate(record.old))):  # the document comes last
        if not record.is_restored:
            with suppress(FileNotFoundError):
                (root / key).unlink()
        elif (folder / str(number)).exists():
            os.replace(folder / str(number), root / key)


def _read_record(folder: Path) -> _Record | None:
    """Return a record; None where it was not written whole, so that nothing was moved."""
    try:
        document = json.loads((folder / _RECORD).read_text())
        return _Record(document["restore"], tuple(document["old"]), tuple(document["new"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
