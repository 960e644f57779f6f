"""Containers and forms of data sets: the tree by which what is at a path is read, or written.

**Nouns.** A *container* is a directory, an archive, an HDF5 file, a mapping or a server; a *form*
is how a data set lies in it: as Zarr, as plain files, as HDF5, or as an AnnData.  A *style* is how
one is written, or has to be.  A *skeleton* is the group of a data set, the groups of its
properties, and the version that comes last.

Archives and files of HDF5 are shared by several handles of this process: whoever opens one that is
open gets the same; it is closed when nobody has it any more.
"""

from __future__ import annotations

import errno
import gc
import os
import posixpath
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from daf_storage import errors, settings
from daf_storage._lazy import lazy_module
from daf_storage.base import ForkLock, OpenMode, Packing, optional_import, packing_of
from daf_storage.data import Damage, RecoveryWarning, kept, layout, recover_zarr_archive
from daf_storage.files_daf import (
    DAF_FILE,
    INDEXES_FOLDER,
    FilesTree,
    WritableFilesTree,
    check_packing,
    recover_files_archive,
)
from daf_storage.opening._paths import DafPath, Form, other_kind, remote_tree, siblings
from daf_storage.stores import (
    DirectoryStore,
    MappingStore,
    MmapZipStore,
    follow_links,
    inode_of,
    os_errors,
    remove_leftovers,
    scratch,
    was_interrupted,
)
from daf_storage.trees import (
    ALIGNMENT,
    Hdf5File,
    Hdf5Tree,
    OutputFile,
    StoredTree,
    Tree,
    WritableHdf5Tree,
    WritableTree,
    WritableZarrTree,
    ZarrTree,
    ZarrVersion,
    find_version,
    h5py,
    hdf5_output,
    open_for_output,
    require_space_in,
)

if TYPE_CHECKING:
    from daf_storage import anndata
else:
    anndata = lazy_module("daf_storage.anndata")

T = TypeVar("T", MmapZipStore, Hdf5File)

_RELEASE_SECONDS: Final = 0.3


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
        if mode not in ("r", "w"):
            self._await_readers(key)
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

    def _await_readers(self, key: Path) -> None:
        """Wait a moment for readers to be released that the caller no longer has.

        They may be in a reference cycle, or still be held by a thread of the engine.
        """
        end = time.monotonic() + _RELEASE_SECONDS
        while (store := self._current(key)) is not None and not store.is_writable:
            gc.collect()
            if time.monotonic() > end:
                return
            time.sleep(0.03)

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
        return store if store is not None and inode_of(key) == store.inode else None


_OF_THE_SYSTEM: Final = (
    *(errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.EIO, errno.EMFILE, errno.ENFILE),
)
"""Errors in opening a file that say nothing of what is in it."""

ARCHIVES: Registry[MmapZipStore] = Registry("zip file")
HDF5_FILES: Registry[Hdf5File] = Registry("HDF5 file")


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


class UnsafeAlignmentWarning(errors.DafWarning):
    """An HDF5 file was opened so that what is written to it will not be aligned."""


def open_hdf5(
    where: DafPath, mode: OpenMode, held: ExitStack, packing: Packing | None = None
) -> WritableHdf5Tree:
    """Return the tree of a data set in a file of HDF5, which is let go of with ``held``."""
    if where.opened is None:
        file_mode: OpenMode = "w+" if where.group and mode == "w" else mode
        path, location = where.container, where.given_container
        opened = partial(_opened_hdf5, path, file_mode, location)
        file = HDF5_FILES.shared(path, file_mode, location, opened, held)
    else:
        file = _passed_hdf5(where.opened.file, where.given, mode)
    return WritableHdf5Tree(file, where.group, packing=packing)


def _passed_hdf5(file: Any, location: str, mode: OpenMode) -> Hdf5File:
    """Return a file of h5py that is open, and stays so."""
    shared = Hdf5File(file, location=location)
    if mode != "r" and not shared.is_writable:
        raise errors.ReadOnlyError(
            f"{location}: the HDF5 file was opened for reading; open it with mode 'r+' first"
        )
    threshold, interval = file.id.get_access_plist().get_alignment()
    if threshold > ALIGNMENT[0] or interval != ALIGNMENT[1]:
        errors.warn(
            f"unsafe HDF5 file alignment for Daf: ({threshold}, {interval}); the safe HDF5 file "
            f"alignment is: {ALIGNMENT}; unaligned data is read less efficiently; open it with "
            "h5py.File(path, mode, alignment_threshold=1, alignment_interval=8)",
            UnsafeAlignmentWarning,
        )
    return shared


def _opened_hdf5(path: Path, mode: OpenMode, location: str) -> Hdf5File:
    if mode != "r":
        path = follow_links(path, location)
        remove_leftovers(path)
    is_new = mode in {"w", "w+"} and not os.path.lexists(path)
    if not is_new:
        _check_file(path, location)
        if mode == "r+" and not path.stat().st_size:  # HDF5 would make a file of it
            raise errors.NotADafError(f"{location}: this is not an HDF5 file: it is empty")
    elif not path.parent.is_dir():
        raise errors.SourceNotFoundError(
            f"{location}: there is no directory {path.parent} to create it in"
        )
    else:
        require_space_in(path.parent, location)
    if mode == "w" and not is_new:
        _check_replaceable(path, location)
        with os_errors(location), scratch(path) as temporary:
            with hdf5_output(temporary):
                pass
            os.replace(temporary, path)
    reopen = partial(_h5py_file, path, location)
    file, output = (reopen(), None) if mode == "r" else _writable(path, location)
    return Hdf5File(
        file,
        location=location,
        inode=inode_of(path) or (0, 0),
        reopen=reopen if mode == "r" else None,
        output=output,
    )


def _h5py_file(path: Path, location: str) -> Any:
    try:
        return h5py().File(path, "r")
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
    except OSError as error:
        raise _translated(error, location) from error


def _translated(error: OSError, location: str) -> errors.DafError:
    reason = " ".join(str(error).split())
    is_locked = "unable to lock" in reason or "already open" in reason
    if is_locked or isinstance(error, BlockingIOError | FileExistsError):
        return errors.InUseError(
            f"{location}: the file is open elsewhere ({reason}); HDF5 lets one program write, or "
            "several read: close it there"
        )
    if error.errno in _OF_THE_SYSTEM or ("errno = " in reason and "write" in reason):
        return errors.from_os_error(error, location)
    if "signature" in reason:
        return errors.NotADafError(f"{location}: this is not an HDF5 file ({reason})")
    return errors.CorruptDataError(
        f"{location}: the HDF5 file cannot be opened ({reason}); restore a backup"
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


PARTS = frozenset({*layout.SKELETON, layout.DAF, layout.INDEXES, INDEXES_FOLDER, kept.GROUP})
"""The groups of a data set, in which no other one can lie."""
_BACKUP: Final = ".reorder.backup"
"""What the reference implementation links files into that it changes one by one; deleted last."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_MARKERS: Final = {
    "zarr": ("a Zarr group", ".zgroup", "zarr.json"),
    "files": ("a FilesDaf", DAF_FILE),
}
"""What a directory of a form is, and the files that it has, one of which is enough."""

WritableStoredTree: TypeAlias = WritableZarrTree | WritableFilesTree
"""The tree of a data set in a store, to be written."""
_Writable: TypeAlias = WritableStoredTree | WritableHdf5Tree


@dataclass(frozen=True, slots=True)
class Style:
    """How a data set is written: the version of Zarr and the packing."""

    zarr_format: ZarrVersion | None = None
    """The version of Zarr that was asked for."""
    packing: Packing | None = None
    """How arrays are packed, if they are."""

    @property
    def version(self) -> ZarrVersion | None:
        """The version to create; None for the default, which is that of what is there."""
        return self.zarr_format or (3 if self.packing is not None else None)

    def check_found(self, tree: object) -> None:
        """Refuse a data set of another version than was asked for, or than packing needs."""
        if not isinstance(tree, ZarrTree) or tree.kind("") is None:
            return
        if self.version not in (None, tree.format.version):
            needs = f"zarr_format={self.version}" if self.zarr_format else "packed="
            raise errors.InvalidInputError(
                f"{tree.location}: it is stored in Zarr v{tree.format.version}, and {needs} was "
                "asked for; convert it to a new path"
            )


def style_of(
    where: DafPath,
    mode: OpenMode,
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,  # noqa: FBT001, FBT002 - as in open_daf
) -> Style:
    """Return how a data set is written, if what was asked for goes together."""
    if where.kind == "url":
        return Style()
    what, form, packing = where.given, where.form, packing_of(packed)
    if form != "zarr" and zarr_format is not None:
        kind = "an HDF5 file" if form == "hdf5" else "a FilesDaf"
        raise errors.InvalidInputError(f"{what}: {kind} has no zarr_format")
    if zarr_format not in (None, 2, 3):
        raise errors.InvalidInputError(
            f"{what}: there is no Zarr format {zarr_format!r}; choose 2 or 3"
        )
    if packing is not None and mode == "r":
        raise errors.InvalidInputError(
            f"{what}: packed= says how to write, and mode 'r' only reads; leave it out"
        )
    if packing is not None and zarr_format == 2:
        raise errors.InvalidInputError(
            f"{what}: Zarr v2 would need a file for each small chunk, so it is not packed; "
            "use zarr_format=3, or leave packed out"
        )
    if form == "files":
        check_packing(packing, what)
    return Style(zarr_format, packing)


def read_tree(where: DafPath, held: ExitStack) -> StoredTree:
    """Return the tree of what is there; what was opened for it is let go of with ``held``."""
    if where.kind == "url":
        return remote_tree(where.given, held)
    if where.kind == "mapping":
        return ZarrTree(where.opened)
    if where.kind == "hdf5":
        if where.is_foreign:
            optional_import("h5py", extra="anndata")  # what is in it may need anndata as well
        return _hdf5_to_read(open_hdf5(where, "r", held))
    tree = FilesTree if where.form == "files" else ZarrTree
    if where.kind == "archive":
        return tree(open_archive(where, "r", held), where.group)
    store = existing_directory(where.container, where.given_container, is_read=True)
    held.callback(store.kept.clear)
    check_not_reordered(where)
    return tree(store, where.group)


def existing_directory(root: Path, given: str, *, is_read: bool = False) -> DirectoryStore:
    """Return the store of a directory that is there."""
    if not root.is_dir():
        if root.exists():
            raise errors.NotADafError(f"{given}: there is a file of this name, not a directory")
        if is_read and was_interrupted(root):
            raise errors.SourceNotFoundError(
                f"{given}: another program was stopped while it replaced this; open it for "
                f"writing, or run 'daf repair {errors.in_shell(given)}', to get back what was there"
            )
        raise errors.SourceNotFoundError(f"no such directory: {root}{siblings(root)}")
    if not os.access(root, os.R_OK | os.X_OK):
        raise errors.ReadOnlyError(f"{given}: no permission to read this directory")
    return DirectoryStore(root, location=given)


def check_not_reordered(where: DafPath) -> None:
    """Refuse a data set that another program was changing file by file when it was stopped."""
    if (where.container / _BACKUP).exists():
        raise errors.CorruptDataError(
            f"{where.given}: another program is reordering its axes, or was stopped while it did: "
            "their entries and their data do not belong together; if it was stopped, open it for "
            "writing with that program, which puts back what was there"
        )


def _hdf5_to_read(tree: WritableHdf5Tree) -> StoredTree:
    if tree.kind("") != "group":
        raise no_group(tree)
    if tree.is_half_replaced():
        raise errors.CorruptDataError(
            f"{tree.location}: a writer was stopped while it changed an axis: its entries and "
            "their data do not belong together; open it for writing or run 'daf repair "
            f"{tree.location}', to get back what was there"
        )
    return tree.read_only()


def no_group(tree: Tree) -> errors.NotADafError:
    return errors.NotADafError(f"not a daf data set: {tree.location}; there is no such group")


# What is there


def not_read(tree: Tree) -> errors.NotADafError:
    """Say what a tree is that has none of the forms."""
    names = tree.children("")
    if kind := other_kind(names):
        return kind.error(tree.location)
    no_form = ", and ".join(f"no {form.what}" for form in anndata.FORMS)
    return errors.NotADafError(
        f"{tree.location}: not a daf data set: it has no array named 'daf'; and {no_form}; it has "
        f"{errors.shown_names(names, none='nothing')}"
    )


def check_form(tree: StoredTree) -> None:
    """Refuse what is not of the form that the tree reads."""
    if isinstance(tree, FilesTree):
        if tree.marker(layout.DAF) is None:
            raise errors.NotADafError(f"{tree.location}: not a daf data set: it has no {DAF_FILE}")
    elif not isinstance(tree, Hdf5Tree) and tree.kind("") != "group":
        raise errors.NotADafError(
            f"not a zarr group: {tree.location}; it has no .zgroup or zarr.json"
        )


def form_of(tree: Tree) -> anndata.ForeignForm | None:
    """Return the form of a tree; None if it has none of those of others."""
    return next((form for form in anndata.FORMS if form.recognises(tree)), None)


def readable_tree(tree: StoredTree, names: Mapping[str, Any]) -> Tree:
    """Return the tree of a data set to be read: itself if it is Daf's, else that of an AnnData.

    Parameters
    ----------
    names
        What the axes of an AnnData are called; nothing else is given names.

    Raises
    ------
    NotADafError, VersionError
        It is neither, or of a version that this code does not know.
    """
    if isinstance(tree, FilesTree):
        check_form(tree)
    elif not layout.is_daf(tree):
        form = form_of(tree)
        if form is not None:
            return form.present(tree, **names)
        check_form(tree)
        raise not_read(tree)
    layout.check_version(tree)
    check_groups(tree)
    refuse_names(tree, names)
    return tree


def refuse_names(tree: Tree, names: Mapping[str, Any]) -> None:
    """Refuse names for the axes of a data set of Daf, which have some."""
    given = " and ".join(f"{key}={name!r}" for key, name in names.items() if name is not None)
    if given:
        axes = ", ".join(sorted(tree.children(layout.AXES))) or "no axes"
        raise errors.InvalidInputError(
            f"{tree.location}: {given} names the axes of an AnnData that is read in place, and "
            f"this is a data set of Daf, which has the axes {axes}; leave it out, or rename axes "
            "by view()"
        )


def written_in_place(location: str, mode: OpenMode) -> errors.ReadOnlyError:
    """Say that an AnnData is not written."""
    return errors.ReadOnlyError(
        f"{location}: an AnnData is read in place and never written, so it cannot be opened with "
        f"mode {mode!r}; import it into a data set of its own (daf import "
        f"{errors.in_shell(location)} OUT.daf.zarr), or write beside it: "
        f'connect({location!r}, overlay="mine.daf.zarr")'
    )


def check_groups(tree: Tree) -> None:
    """Refuse a data set in HDF5 with a dataset in the place of one of its groups."""
    if not isinstance(tree, Hdf5Tree):
        return
    for name, kind in tree.children("").items():
        if kind == "array" and name in layout.SKELETON:
            raise errors.CorruptDataError(
                f"{tree.location}: {name!r} is a dataset, and a data set of Daf has a group there; "
                "take the file from a backup"
            )


def groups_of(store: MmapZipStore) -> list[str]:
    """Return the groups of an archive that are data sets; an empty name for the root."""
    groups = set()
    for key in store:
        for marker in (f"/{layout.DAF}/.zarray", f"/{layout.AXES}/zarr.json", f"/{DAF_FILE}"):
            if f"/{key}".endswith(marker):
                groups.add(key[: -len(marker) + 1].rstrip("/"))
    found: set[str] = set()
    for group in sorted(groups):  # what lies above comes before
        if not _is_within(group, found) and _is_daf(tree_of(store, group)):
            found.add(group)
    return sorted(found)


def _is_within(group: str, others: set[str]) -> bool:
    """Return whether a group lies among the properties of another data set."""
    names = group.split("/")
    return any(name in PARTS and "/".join(names[:n]) in others for n, name in enumerate(names))


def tree_of(store: MmapZipStore, group: str) -> WritableStoredTree:
    """Return the tree of a group of an archive: of plain files if it is marked so, else of Zarr."""
    is_files = posixpath.join(group, DAF_FILE) in store
    return _stored_tree(store, "files" if is_files else "zarr", Style(), group)


def _is_daf(tree: StoredTree) -> bool:
    try:
        return layout.is_daf(tree)
    except errors.VersionError:  # whoever opens it learns which
        return True


# What is written


def written_tree(where: DafPath, mode: OpenMode, style: Style, held: ExitStack) -> WritableTree:
    """Return the tree of a data set to be written; make it, or empty it first, as the mode says."""
    if where.kind == "hdf5":
        return _written_hdf5(open_hdf5(where, mode, held, style.packing), mode)
    store: DirectoryStore | MmapZipStore | MappingStore
    if where.kind == "archive":
        store = open_archive(where, mode, held)
    elif where.kind == "mapping":
        store = _mapping_to_write(where.opened, mode)
    else:
        store = _directory_to_write(where, mode)
        held.callback(store.kept.clear)
    tree = _stored_tree(store, where.form, style, where.group)
    if mode == "r+":
        check_form(tree)
    elif where.group:
        _check_free_group(where, tree)
    make_or_check(tree, mode)
    if isinstance(store, MmapZipStore):
        recovery_of(tree)(store, tree, where.group)
    else:
        _recover(tree)
    return tree


def recovery_of(tree: WritableStoredTree) -> Callable[[MmapZipStore, Any, str], list[Damage]]:
    """Return what takes out of an archive what cannot be read of such a tree."""
    return recover_files_archive if isinstance(tree, WritableFilesTree) else recover_zarr_archive


def _stored_tree(
    store: DirectoryStore | MmapZipStore | MappingStore, form: Form, style: Style, root: str = ""
) -> WritableStoredTree:
    """Return the tree of a data set in a store; that of a directory repeats all documents."""
    if form == "files" and not isinstance(store, MappingStore):
        return WritableFilesTree(store, root)
    tree = WritableZarrTree(
        store,
        root,
        consolidated=isinstance(store, DirectoryStore),
        zarr_format=find_version(store, root) or style.version,
        packing=style.packing,
    )
    style.check_found(tree)
    return tree


def _directory_to_write(where: DafPath, mode: OpenMode) -> DirectoryStore:
    root, given = follow_links(where.container, where.given), where.given
    remove_leftovers(root)
    if mode == "r+":
        existing_directory(root, given)
    if root.exists() and not root.is_dir():
        raise errors.NotADafError(f"{given}: there is a file of this name, not a directory")
    if mode == "w" and root.exists():
        _empty_directory(root, given, where.form)
    check_not_reordered(where)
    return DirectoryStore(root, location=given)


def _recover(tree: WritableStoredTree) -> None:
    """Clear away what a crashed writer left; a full disk does not keep anybody from opening."""
    try:
        tree.recover()
    except OSError as error:
        if error.errno not in _FULL:
            raise
        errors.warn(
            f"{tree.location}: the disk is full, so the consolidated metadata is not up to date: "
            "programs that depend on it, such as readers over HTTP, do not see everything; make "
            f"room and open it again, or run 'daf repair {errors.in_shell(tree.location)}'",
            RecoveryWarning,
        )


def open_directory_tree(where: DafPath) -> WritableStoredTree:
    """Open the tree of a data set in a directory, to repair it."""
    tree = _stored_tree(existing_directory(where.container, where.given), where.form, Style())
    check_form(tree)
    layout.check_version(tree)
    check_not_reordered(where)
    return tree


def _empty_directory(root: Path, given: str, form: Form) -> None:
    """Delete a data set for mode ``w``; what has none of the markers of its form is left alone."""
    what, *markers = _MARKERS[form]
    is_marked = any((root / name).exists() for name in markers)
    if any(root.iterdir()) and not is_marked:
        raise errors.NotADafError(
            f"{given}: this directory is not {what}, so mode 'w' does not empty it; "
            "delete it yourself if that is what you want"
        )
    with scratch(root) as trash:
        os.rename(root, trash)


def _mapping_to_write(store: MappingStore, mode: OpenMode) -> MappingStore:
    if mode == "w":
        if store.below("") and find_version(store) is None:
            raise errors.NotADafError(
                f"{store.location}: this mapping is not a Zarr group, so mode 'w' does not empty "
                "it, and nothing was changed; empty it yourself if that is what you want"
            )
        store.change(store.below(""), {})
    return store


def _written_hdf5(tree: WritableHdf5Tree, mode: OpenMode) -> WritableTree:
    kind = tree.kind("")
    if kind == "array" or (kind is None and mode == "r+"):
        raise no_group(tree)
    is_daf = kind is not None and layout.is_daf(tree)
    children = sorted(tree.children("")) if kind is not None else []
    if children and not is_daf:
        if form_of(tree) is not None:
            raise written_in_place(tree.location, mode)
        if mode != "r+":
            raise errors.NotADafError(
                f"{tree.location}: not a daf data set, and not empty: it holds "
                f"{errors.shown_names(children, none='')}; choose another file or group"
            )
    if mode == "w" and is_daf:
        tree.recover()
        with tree.transaction() as changes, tree.lock():
            for child in (layout.DAF, *(child for child in children if child != layout.DAF)):
                changes.remove(child)
    make_or_check(tree, mode)
    if tree.is_half_replaced():
        errors.warn(
            f"{tree.location}: a writer was stopped while it changed an axis, which is as before",
            RecoveryWarning,
        )
    tree.recover()
    indexes = tree.index_tree
    if mode == "w":
        for child in indexes.children(""):
            indexes.discard(child)
    indexes.recover()
    return tree


def _check_free_group(where: DafPath, tree: _Writable) -> None:
    """Refuse a new group that is called as a part of a data set is, so that none lies in one."""
    name = next((name for name in where.group.split("/") if name in PARTS), None)
    if name is not None and not layout.is_daf(tree):
        raise errors.InvalidInputError(
            f"{where.given}: {name!r} is the name of a part of each data set, in which no other "
            "one can lie; choose another group"
        )


def create_skeleton(tree: _Writable) -> None:
    """Make an empty data set; the version marker comes last, so that a crash leaves none."""
    with tree.batch(), tree.transaction() as changes, tree.lock():
        if layout.is_daf(tree):  # by another program, while this one waited for the lock
            return
        changes.mark_group("")
        for group in layout.SKELETON:
            if tree.kind(group) is None:
                changes.create_group(group)
                changes.publish(group, replace=False)
            elif tree.children(group):
                raise errors.NotADafError(
                    f"{tree.location}: not a daf data set, and its group {group!r} is not empty; "
                    "choose another path"
                )
        changes.mark(layout.DAF, layout.VERSION)


def make_or_check(tree: _Writable, mode: OpenMode) -> None:
    """Make the data set if there is none and the mode allows it; check its version if there is."""
    if not layout.is_daf(tree):
        if mode == "r+":
            raise errors.NotADafError(
                f"{tree.location}: not a daf data set: it has no array named 'daf'"
            )
        create_skeleton(tree)
    layout.check_version(tree)
    check_groups(tree)
