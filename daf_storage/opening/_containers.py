"""Containers of data sets, and how the tree of one is got: to be read, or to be written.

**Nouns.** A *container* is a directory, an archive, an HDF5 file or a mapping.  Handles of one
archive or file within a process share what was opened.
"""

from __future__ import annotations

import errno
import os
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

from daf_storage import errors, settings
from daf_storage.base import ForkLock, OpenMode
from daf_storage.data import RecoveryWarning, layout
from daf_storage.opening._forms import (
    FORMS,
    StoredForm,
    Style,
    WritableStoredTree,
    check_free_group,
    check_group,
    form_of,
    make_or_check,
    written_in_place,
)
from daf_storage.opening._paths import NOT_A_PATTERN, READ_SUFFIXES, SHARED_HDF5_SUFFIX, DafPath
from daf_storage.stores import (
    DirectoryStore,
    MappingStore,
    MmapZipStore,
    follow_links,
    remove_leftovers,
    scratch,
    was_interrupted,
)
from daf_storage.trees import (
    ALIGNMENT,
    Hdf5File,
    OutputFile,
    Tree,
    WritableHdf5Tree,
    WritableTree,
    ZarrTree,
    find_version,
    h5py,
    hdf5_output,
    open_for_output,
    require_space_in,
)

T = TypeVar("T", MmapZipStore, Hdf5File)


class Registry(Generic[T]):
    """The open files of one kind, and how many hold each.

    Parameters
    ----------
    kind
        What to call one of them in messages.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._lock = ForkLock()
        self._open: dict[Path, T] = {}
        self._holders: Counter[int] = Counter()

    def shared(
        self, path: Path, mode: OpenMode, location: str, open_it: Callable[[], T], held: ExitStack
    ) -> T:
        """Return what is open at ``path``, opening it if nobody here has done so.

        It is let go of with ``held``.

        Raises
        ------
        InUseError
            It is to be written, and was opened for reading.
        """
        key = Path(os.path.realpath(path))
        with self._lock:
            store = self._current(key)
            if store is not None and mode == "w":
                if store.is_writable:
                    store.close()  # its handles refuse further use; arrays stay valid
                store = None
            if store is None:
                store = self._open[key] = open_it()
            elif mode != "r" and not store.is_writable:
                raise errors.InUseError(
                    f"{self._kind} is already open read-only in this process: {location}; close "
                    "that handle before opening it for writing"
                )
            self._holders[id(store)] += 1
        held.callback(self._let_go, key, store)
        return store

    def forget(self) -> None:
        """Act as if nothing were open, as a new process would."""
        self._open.clear()

    def _let_go(self, key: Path, resource: T) -> None:
        """Count one holder less; close what nobody holds any more."""
        with self._lock:
            self._holders[id(resource)] -= 1
            if not self._holders[id(resource)]:
                del self._holders[id(resource)]
                if self._open.get(key) is resource:  # not another file, put there meanwhile
                    del self._open[key]
                resource.close()

    def _current(self, key: Path) -> T | None:
        """Return what is open at a path, unless another file was put there meanwhile."""
        store = self._open.get(key)
        if store is None:
            return None
        try:
            status = key.stat()
        except FileNotFoundError:
            return None
        return store if (status.st_dev, status.st_ino) == store.file_identity else None


_BACKUP: Final = ".reorder.backup"
"""What the reference implementation links files into that it changes one by one; deleted last."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_OF_THE_SYSTEM: Final = (errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE)
"""Errors in opening a file that say nothing of what is in it."""

ARCHIVES: Registry[MmapZipStore] = Registry("zip file")
HDF5_FILES: Registry[Hdf5File] = Registry("HDF5 file")


class UnsafeAlignmentWarning(errors.DafWarning):
    """An HDF5 file was opened so that what is written to it will not be aligned."""


@dataclass(frozen=True, slots=True)
class Hdf5Handle:
    """A file or a group of h5py that is open, and stays so."""

    root: Any
    """What was passed."""

    @property
    def given(self) -> str:
        """The path of the file."""
        return str(self.root.file.filename)

    @property
    def full(self) -> str:
        """The absolute path of the file, with the group."""
        path, group = os.path.abspath(self.given), self.root.name.strip("/")
        return f"{path}#/{group}" if group else path

    @property
    def can_be_opened_again(self) -> bool:
        """Whether its path leads to the group."""
        is_named = self.root.name == "/" or f"{SHARED_HDF5_SUFFIX}#/" in self.full
        return Path(self.given).is_file() and is_named


Container: TypeAlias = DafPath | MappingStore | Hdf5Handle
"""Where a data set is that is not on a server."""


def read_tree(where: Container, held: ExitStack) -> Tree:
    """Return the tree of what is there; what was opened for it is let go of with ``held``."""
    if isinstance(where, MappingStore):
        return ZarrTree(where)
    if isinstance(where, Hdf5Handle) or where.kind == "hdf5":
        return _hdf5_to_read(_hdf5_tree(where, "r", Style(), held))
    form = FORMS[where.form]
    if where.is_archive:
        return form.tree(open_archive(where, "r", held), where.group)
    store = existing_directory(where.container, where.given_container, is_read=True)
    tree = form.tree(store, where.group)
    _check_not_reordered(where)
    return tree


def written_tree(where: Container, mode: OpenMode, style: Style, held: ExitStack) -> WritableTree:
    """Return the tree of a data set to be written; make it, or empty it first, as the mode says."""
    if isinstance(where, MappingStore):
        return _written_mapping(where, mode, style)
    if isinstance(where, Hdf5Handle) or where.kind == "hdf5":
        return _written_hdf5(_hdf5_tree(where, mode, style, held), mode)
    form = FORMS[where.form]
    if not where.is_archive:
        return _written_directory(where, mode, form, style)
    store = open_archive(where, mode, held)
    tree = form.writable(store, where.group, style, consolidated=False)
    if mode == "r+":
        form.check(tree)
    elif where.group:
        check_free_group(where, tree)
    make_or_check(tree, mode)
    form.recover(store, tree, where.group)
    return tree


# Directories


def _written_directory(
    where: DafPath, mode: OpenMode, form: StoredForm, style: Style
) -> WritableTree:
    root, given = follow_links(where.container, where.given), where.given
    remove_leftovers(root)
    if mode == "r+":
        existing_directory(root, given)
    if root.exists() and not root.is_dir():
        raise errors.NotADafError(f"{given}: there is a file of this name, not a directory")
    if mode == "w" and root.exists():
        _empty_directory(root, given, form)
    _check_not_reordered(where)
    tree = form.writable(DirectoryStore(root, location=given), "", style, consolidated=True)
    if mode == "r+":
        form.check(tree)
    make_or_check(tree, mode)
    _recover_directory(tree)
    return tree


def _recover_directory(tree: WritableTree) -> None:
    """Clear away what a crashed writer left; a full disk does not keep anybody from opening."""
    try:
        tree.recover()
    except OSError as error:
        if error.errno not in _FULL:
            raise
        warnings.warn(
            f"{tree.location}: the disk is full, so the consolidated metadata is not up to date: "
            "programs that depend on it, such as readers over HTTP, do not see everything; make "
            f"room and open it again, or run 'daf repair {tree.location}'",
            RecoveryWarning,
            stacklevel=6,
        )


def open_directory_tree(where: DafPath) -> WritableStoredTree:
    """Open the tree of a data set in a directory for mending."""
    form = FORMS[where.form]
    store = existing_directory(where.container, where.given)
    tree = form.writable(store, "", Style(), consolidated=True)
    form.check(tree)
    layout.check_version(tree)
    _check_not_reordered(where)
    return tree


def _check_not_reordered(where: DafPath) -> None:
    """Refuse a data set that another program was changing file by file when it was stopped."""
    if (where.container / _BACKUP).exists():
        raise errors.CorruptDataError(
            f"{where.given}: another program is reordering its axes, or was stopped while it did: "
            "their entries and their data do not belong together; if it was stopped, open it for "
            "writing with that program, which puts back what was there"
        )


def existing_directory(root: Path, given: str, *, is_read: bool = False) -> DirectoryStore:
    """Return the store of a directory that is there."""
    if is_read and was_interrupted(root):
        raise errors.SourceNotFoundError(
            f"{given}: another program was stopped while it replaced this; open it for writing, "
            f"or run 'daf repair {given}', to get back what was there"
        )
    if not root.is_dir():
        if root.exists():
            raise errors.NotADafError(f"{given}: there is a file of this name, not a directory")
        raise errors.SourceNotFoundError(f"no such directory: {root}{siblings(root)}")
    if not os.access(root, os.R_OK | os.X_OK):
        raise errors.ReadOnlyError(f"{given}: no permission to read this directory")
    return DirectoryStore(root, location=given)


def siblings(root: Path) -> str:
    """Name what can be read beside a path that does not exist, or say where its link leads."""
    if root.is_symlink():
        return f"; it is a symbolic link to {root.readlink()}, which is not there"
    if any(character in root.name for character in "*?["):
        return NOT_A_PATTERN
    try:
        names = os.listdir(root.parent)
    except OSError:
        return ""
    beside = [
        name
        for name in names
        if name.endswith(READ_SUFFIXES)
        and not name.startswith(".")
        and (root.parent / name).exists()
    ]
    return f"; beside it: {errors.shown_names(beside, none='')}" if beside else ""


def _empty_directory(root: Path, given: str, form: StoredForm) -> None:
    """Delete a data set for mode ``w``; what has none of the markers of its form is left alone."""
    is_marked = any((root / name).exists() for name in form.markers)
    if any(root.iterdir()) and not is_marked:
        raise errors.NotADafError(
            f"{given}: this directory is not {form.what}, so mode 'w' does not empty it; "
            "delete it yourself if that is what you want"
        )
    with scratch(root) as trash:
        os.rename(root, trash)


# Mappings


def _written_mapping(store: MappingStore, mode: OpenMode, style: Style) -> WritableTree:
    if mode == "w":
        if len(store.keys()) and find_version(store) is None:
            raise errors.NotADafError(
                f"{store.location}: this mapping is not a Zarr group, so mode 'w' does not empty "
                "it, and nothing was changed; empty it yourself if that is what you want"
            )
        store.change(list(store.keys()), {})
    tree = FORMS["zarr"].writable(store, "", style, consolidated=False)
    if mode == "r+":
        check_group(tree)
    make_or_check(tree, mode)
    return tree


# Archives


class _Archive(MmapZipStore):
    """An archive of data sets; whoever opens one of these names its parts that are lost."""

    names_dropped = False


def open_archive(where: DafPath, mode: OpenMode, held: ExitStack) -> MmapZipStore:
    """Return the archive of a data set, opening it if no other handle has done so.

    It is let go of with ``held``.

    Raises
    ------
    InUseError
        It is open for reading only here, or open for writing in another process.
    """
    if where.group and mode == "w":
        raise errors.InvalidModeError(
            f"{where.given}: can't truncate one data set of an archive, which is append-only; "
            "open it with mode 'w+' to create it or add to it"
        )
    path, location = where.container, where.given_container
    if mode in {"r", "r+"}:
        _check_file(path, location)

    def opened() -> MmapZipStore:
        return _Archive(
            path,
            mode,
            max_file_size=settings.DAF_ZARR_ZIP_MAX_FILE_SIZE,
            sync=settings.DAF_ZARR_ZIP_SYNC,
            location=location,
        )

    return ARCHIVES.shared(path, mode, location, opened, held)


def _check_file(path: Path, location: str) -> None:
    """Raise if there is no file; to open a named pipe would wait for its other end."""
    if path.is_dir():
        raise errors.NotADafError(f"{location}: there is a directory of this name, not a file")
    if not path.exists():
        raise errors.SourceNotFoundError(f"no such file: {path}{siblings(path)}")
    if not path.is_file():
        raise errors.NotADafError(f"{location}: this is not a regular file; give the path of one")


# HDF5


def _hdf5_tree(
    where: DafPath | Hdf5Handle, mode: OpenMode, style: Style, held: ExitStack
) -> WritableHdf5Tree:
    if isinstance(where, DafPath):
        file_mode: OpenMode = "w+" if where.group and mode == "w" else mode
        path, location = where.container, where.given_container
        opened = partial(_opened_hdf5, path, file_mode, location)
        file = HDF5_FILES.shared(path, file_mode, location, opened, held)
        return WritableHdf5Tree(file, where.group, packing=style.packing)
    shared = Hdf5File(where.root.file, location=where.given)
    if mode != "r" and not shared.is_writable:
        raise errors.ReadOnlyError(
            f"{where.given}: the HDF5 file was opened for reading; open it with mode 'r+' first"
        )
    threshold, interval = where.root.file.id.get_access_plist().get_alignment()
    if threshold > ALIGNMENT[0] or interval != ALIGNMENT[1]:
        warnings.warn(
            f"unsafe HDF5 file alignment for Daf: ({threshold}, {interval}); the safe HDF5 file "
            f"alignment is: {ALIGNMENT}; unaligned data is read less efficiently; to force the "
            "alignment, open the file with h5py.File(path, mode, alignment_threshold=1, "
            "alignment_interval=8)",
            UnsafeAlignmentWarning,
            stacklevel=5,
        )
    return WritableHdf5Tree(shared, where.root.name.strip("/"), packing=style.packing)


def _hdf5_to_read(tree: WritableHdf5Tree) -> Tree:
    if tree.kind("") != "group":
        raise _no_group(tree)
    if tree.is_half_replaced():
        raise errors.CorruptDataError(
            f"{tree.location}: a writer was stopped while it changed an axis: its entries and "
            "their data do not belong together; open it for writing or run 'daf repair "
            f"{tree.location}', to get back what was there"
        )
    return tree.read_only()


def _written_hdf5(tree: WritableHdf5Tree, mode: OpenMode) -> WritableTree:
    kind = tree.kind("")
    if kind == "array" or (kind is None and mode == "r+"):
        raise _no_group(tree)
    is_daf = kind is not None and layout.is_daf(tree)
    children = sorted(tree.children("")) if kind is not None else []
    if children and not is_daf:
        if form_of(tree) is not None:
            raise written_in_place(tree.location, mode)
        if mode != "r+":
            raise errors.NotADafError(
                f"{tree.location}: not a daf data set, and not empty: it holds "
                f"{errors.shown_names(children, none='')}; nothing was changed; choose another "
                "file or group"
            )
    if mode == "w" and is_daf:
        tree.recover()
        with tree.transaction() as changes, tree.lock():
            for child in (layout.DAF, *(child for child in children if child != layout.DAF)):
                changes.remove(child)
    make_or_check(tree, mode)
    if tree.is_half_replaced():
        warnings.warn(
            f"{tree.location}: a writer was stopped while it changed an axis; what was there "
            "before is there again",
            RecoveryWarning,
            stacklevel=5,
        )
    tree.recover()
    indexes = tree.index_tree
    if mode == "w":
        for child in indexes.children(""):
            indexes.discard(child)
    indexes.recover()
    return tree


def _no_group(tree: Tree) -> errors.NotADafError:
    return errors.NotADafError(f"not a daf data set: {tree.location}; there is no such group")


def _opened_hdf5(path: Path, mode: OpenMode, location: str) -> Hdf5File:
    if mode != "r":
        path = follow_links(path, location)
        remove_leftovers(path)
    is_new = mode in {"w", "w+"} and not os.path.lexists(path)
    if not is_new:
        _check_file(path, location)
    elif not path.parent.is_dir():
        raise errors.SourceNotFoundError(
            f"{location}: there is no directory {path.parent} to create it in"
        )
    else:
        require_space_in(path.parent, location)
    if mode == "w" and not is_new:
        _check_replaceable(path, location)
        with errors.os_errors(location), scratch(path) as temporary:
            with hdf5_output(temporary):
                pass
            os.replace(temporary, path)
    reopen = partial(_h5py_file, path, location)
    file, output = (reopen(), None) if mode == "r" else _writable(path, location)
    status = path.stat()
    return Hdf5File(
        file,
        location=location,
        file_identity=(status.st_dev, status.st_ino),
        reopen=reopen if mode == "r" else None,
        output=output,
    )


def _h5py_file(path: Path, location: str) -> Any:
    try:
        return h5py().File(path, "r")
    except PermissionError as error:
        raise errors.ReadOnlyError(f"{location}: no permission to read this file") from error
    except OSError as error:
        raise _translated(error, location) from error


def _writable(path: Path, location: str) -> tuple[Any, OutputFile]:
    """Return a file of h5py, and what it writes through; an empty one if there is none."""
    is_new = not path.exists()
    try:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if is_new else 0)
        output = OutputFile(os.open(path, flags, 0o666))
        output.lock()
        options = {"alignment_threshold": ALIGNMENT[0], "alignment_interval": ALIGNMENT[1]}
        return open_for_output(path, output, "w" if is_new else "r+", **options), output
    except (BlockingIOError, FileExistsError) as error:
        raise _in_use(location, str(error)) from error
    except PermissionError as error:
        raise errors.ReadOnlyError(f"{location}: no permission to write this file") from error
    except OSError as error:
        raise _translated(error, location) from error


def _in_use(location: str, reason: str) -> errors.InUseError:
    return errors.InUseError(
        f"{location}: the file is open elsewhere ({reason}); HDF5 lets one program write, or "
        "several read: close it there"
    )


def _translated(error: OSError, location: str) -> errors.DafError:
    reason = " ".join(str(error).split())
    if "unable to lock" in reason or "already open" in reason:
        return _in_use(location, reason)
    if error.errno in _OF_THE_SYSTEM or ("errno = " in reason and "write" in reason):
        return errors.from_os_error(error, location)
    if "signature" in reason:
        return errors.NotADafError(f"{location}: this is not an HDF5 file ({reason})")
    return errors.CorruptDataError(
        f"{location}: the HDF5 file cannot be opened ({reason}); if it was cut short, take it from "
        "a backup"
    )


def _check_replaceable(path: Path, location: str) -> None:
    """Refuse to empty a file that holds something other than one data set."""
    with _h5py_file(path, location) as file:
        if len(file) and not {layout.DAF, *layout.SKELETON} >= set(file):
            listed = errors.shown_names(list(file), none="")
            raise errors.NotADafError(
                f"{location}: this file holds other things than a data set ({listed}), so mode 'w' "
                "does not empty it; delete it yourself if that is what you want"
            )
