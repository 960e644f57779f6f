"""A store whose keys are files below one directory.

Reading pins a prefix by holding its directory open and locked (shared): files are then opened
relative to that descriptor, and nobody deletes them before the pin is gone, so a replaced or
deleted prefix stays readable as it was.

Writing prepares everything in ``ROOT/.daf.staging/TOKEN/NUMBER/new`` and puts a prefix in place by
one rename.  What it replaces moves below the number too and is deleted last, or later where a
reader has it pinned.  The transactions of a batch have one token together.  The token directory is
locked while its writer lives, so that whoever opens the store for writing later can tell a crashed
writer's leftovers (and clear them) from a living one's.  A copy of the whole directory, changed,
takes its place in one step as well.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from daf_storage import errors
from daf_storage.base import STAGING_NAME, ForkLock
from daf_storage.stores._directories import (
    discard,
    exclusive,
    is_at,
    lock_shared,
    locked,
    make_directories,
    names_in,
    new_locked_directory,
    put_in_place,
    remove_if_empty,
    scratch,
)
from daf_storage.stores._directory_snapshot import (
    OLD,
    DirectorySnapshot,
    PartNames,
    PropertyFiles,
    file_cache,
    looks,
    open_files,
    records_in,
)
from daf_storage.stores._directory_write import (
    TRASH,
    DirectoryTransaction,
    Token,
    link_file,
    restore_replaced,
)
from daf_storage.stores._files import refuse


def link_tree(source: Path, target: Path, without: list[str]) -> None:
    """Link every file into another directory, but for those at or below some prefixes."""
    left_out = {os.path.join(source, prefix) for prefix in without} | {str(source / STAGING_NAME)}
    for folder, names, files in os.walk(source):
        names[:] = [name for name in names if os.path.join(folder, name) not in left_out]
        copy = target / os.path.relpath(folder, source)
        copy.mkdir(exist_ok=True)
        shutil.copystat(folder, copy)
        for file in files:
            if os.path.join(folder, file) not in left_out:
                link_file(os.path.join(folder, file), copy / file)


def throw_away(old: Path, root: Path) -> None:
    """Move what was replaced to what a directory throws away; it goes when no reader needs it."""
    trash = root / STAGING_NAME / f"{TRASH}{uuid.uuid4().hex}"
    while True:
        make_directories(trash.parent)
        try:
            os.rename(old, trash)
            break
        except FileNotFoundError:  # another writer removed the empty parent
            if not old.exists():
                raise
    discard(trash)
    remove_if_empty(trash.parent)


class DirectoryStore:
    """Bytes by key in the files of a directory.

    Parameters
    ----------
    root
        The directory; it need not exist until something is written.
    location
        The name used in messages; the path of ``root`` by default.
    """

    is_append_only = False
    """What is there can be replaced and removed."""

    def __init__(self, root: str | Path, *, location: str | None = None) -> None:
        self.root = Path(os.path.abspath(root))
        self._root_path = os.fspath(self.root)  # a prefix is joined to it for each node
        self._staging = self.root / STAGING_NAME
        self.location = location or str(root)
        self.kept = file_cache()
        """Its files, mapped or read, kept while they are what they were; also deleted ones."""
        self._was_there = False
        self._batches = 0
        self._shared: Token | None = None
        self._tokens_lock = ForkLock()

    def __repr__(self) -> str:
        return f"DirectoryStore({self.location!r})"

    def snapshot(self, prefix: str) -> DirectorySnapshot | None:
        """Return a view of the directory at ``prefix`` that no writer can change.

        Raises
        ------
        SourceNotFoundError
            The store was there, and was deleted or moved.
        """
        found = self._snapshot(prefix)
        if found is None and prefix:  # where two names cannot be exchanged, one is absent for once
            for _ in looks():
                was_replaced = self._is_being_replaced(prefix)
                found = self._snapshot(prefix)
                if found is not None or not (was_replaced or self._is_being_replaced(prefix)):
                    break
        if found is None and self._was_there and not os.path.isdir(self._root_path):
            raise errors.SourceNotFoundError(  # to have nothing any more is no answer
                f"{self.location}: the directory was deleted, or moved, since it was opened; "
                "put it back, or open it where it is now"
            )
        self._was_there = self._was_there or found is not None
        return found

    def release_cached(self) -> None:
        """Let go of what is kept of files; views that were handed out stay valid."""
        self.kept.clear()

    def files(self, folder: str, document: str, parts: PartNames) -> PropertyFiles | None:
        """Return files of a directory that belong together; None if there is no such document.

        Parameters
        ----------
        parts
            From the bytes of the document to the names of the other files, if they are there.
        """
        key = f"{folder}/{document}" if folder else document
        for _ in looks():
            is_replaced = False
            for place in (folder, *self._replaced(key)):
                is_replaced = place != folder
                directory = self.snapshot(place)
                found = None if directory is None else open_files(directory, document, parts)
                if found is not None:
                    return found
            if not is_replaced:
                break  # or else it has been put in place since
        directory = self.snapshot(folder)
        return None if directory is None else open_files(directory, document, parts)

    def replaced_documents(self, folder: str) -> set[str]:
        """Return the names of documents in a directory that a writer has taken away for a moment.

        Or a crashed one, until another one opens the store for writing.
        """
        start = f"{folder}/" if folder else ""
        below = (key.removeprefix(start) for key, _ in self._records() if key.startswith(start))
        return {name for name in below if "/" not in name}

    def _replaced(self, key: str) -> Iterator[str]:
        """Yield where the old files are of a property that a writer, or a crash, has taken away."""
        return (place for document, place in self._records() if document == key)

    def _records(self) -> Iterator[tuple[str, str]]:
        """Yield what writers replace, or had been replacing, and where the old files are."""
        for token in names_in(self._staging):
            for number in names_in(self._staging / token) if not token.startswith(TRASH) else ():
                for folder, record in records_in(self._staging / token / number):
                    if record.is_restored:
                        yield record.old[0], os.path.relpath(folder / OLD, self.root)

    def _is_being_replaced(self, prefix: str) -> bool:
        """Return whether a writer has moved ``prefix`` away to put another in its place."""
        return any(f"{prefix}/".startswith(f"{target}/") for target, _ in self._records())

    def _snapshot(self, prefix: str) -> DirectorySnapshot | None:
        path = f"{self._root_path}/{prefix}" if prefix else self._root_path
        while True:
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            except (FileNotFoundError, NotADirectoryError):
                return None
            except OSError as error:
                refuse(error, what=f"{self.location}: {prefix}" if prefix else self.location)
            # The root is never deleted, and its lock is the writers' (see `lock`).
            if not prefix or (lock_shared(descriptor) and is_at(descriptor, path)):
                return DirectorySnapshot(descriptor, path, self.kept)
            os.close(descriptor)  # replaced or deleted this very moment: look again

    @contextmanager
    def transaction(self) -> Iterator[DirectoryTransaction]:
        """Begin changes; what was not published when the block ends is discarded."""
        for name in names_in(self._staging):
            if name.startswith(TRASH):
                discard(self._staging / name)
        with errors.os_errors(self.location):
            token = self._token()
        try:
            with errors.os_errors(self.location):
                changes = DirectoryTransaction(self.root, token.folder(), self.location)
            try:
                yield changes
            finally:
                token.leaves_sign = token.leaves_sign or changes.leaves_sign
                if not discard(changes.folder):  # a reader has a part of it pinned
                    with suppress(OSError):
                        os.rename(changes.folder, self._staging / f"{TRASH}{uuid.uuid4().hex}")
        finally:
            with self._tokens_lock:
                token.users -= 1
                if not token.users and token is not self._shared:
                    token.end()

    def _token(self) -> Token:
        """Return a directory for changes: in a batch, the one of the batch."""
        with self._tokens_lock:
            shared = self._shared
            if shared is None or not shared.is_own:
                shared = self._new_token()
                self._shared = shared if self._batches else None
            shared.users += 1
            return shared

    def _new_token(self) -> Token:
        def name() -> Path:
            make_directories(self._staging)
            return self._staging / uuid.uuid4().hex

        try:
            return Token(*new_locked_directory(name))
        except FileExistsError as error:  # a file in the place of the directory
            raise errors.from_os_error(error) from error
        except PermissionError as error:
            raise errors.ReadOnlyError(
                f"{self.location}: no permission to write here; open it with mode 'r', "
                "or ask for write access to the directory"
            ) from error

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Prepare everything that is published within the block below one token.

        Each publication is complete by itself.  The token tells the next writer of a crash in the
        middle, when what belongs to all of them together may be missing.
        """
        with self._tokens_lock:
            self._batches += 1
        try:
            yield
        finally:
            with self._tokens_lock:
                self._batches -= 1
                if not self._batches:
                    self._end_shared()

    def _end_shared(self) -> None:
        """Clear away the directory of the batch, if there is one; another one may follow."""
        with self._tokens_lock:
            token, self._shared = self._shared, None
            if token is not None and not token.users:
                token.end()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Exclude other writers of this directory; the lock dies with the process."""
        while True:
            with locked(self.root) as descriptor:
                if is_at(descriptor, self.root):  # or else it was rebuilt meanwhile
                    yield
                    return

    @contextmanager
    def rebuilt(self, without: list[str]) -> Iterator[DirectoryStore]:
        """Hand out a copy beside this directory, of hard links; the two are exchanged at the end.

        Raises
        ------
        InUseError
            Another writer is preparing something: it would be lost.
        """
        root = Path(os.path.realpath(self.root))
        with errors.os_errors(self.location), self.lock():
            self._end_shared()
            self.recover()
            self._refuse_other_writers()
            try:
                with scratch(root) as aside:
                    link_tree(root, aside, without)
                    yield DirectoryStore(aside, location=self.location)
                    self._refuse_other_writers()
                    throw_away(put_in_place(aside, root, replace=True), root)
            except PermissionError as error:
                if isinstance(error, errors.DafError):
                    raise
                raise errors.ReadOnlyError(
                    f"{root}: this needs permission to write in the directory that it is in, "
                    f"{root.parent}"
                ) from error

    def _refuse_other_writers(self) -> None:
        if self.has_leftovers():
            raise errors.InUseError(
                f"{self.location}: another writer is at work; try again when it is done"
            )

    def has_leftovers(self) -> bool:
        """Return whether a writer is at work, or has crashed and left something behind."""
        return any(not name.startswith(TRASH) for name in names_in(self._staging))

    def recover(self) -> bool:
        """Undo or clear away what crashed writers left; return whether there was anything."""
        staging = self._staging
        found = False
        for token in [staging / name for name in names_in(staging)]:
            with suppress(OSError), exclusive(token):
                for name in names_in(token):
                    restore_replaced(self.root, token / name)
                discard(token)
                found = found or not token.name.startswith(TRASH)
        remove_if_empty(staging)
        return found
