"""From a path and a mode to a reader or a writer.

The one place that knows which store and which tree a path means.  Rules: docs/reference/format.md,
"paths, modes and names".
"""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daf_storage import errors
from daf_storage.base import OpenMode, Packing, check_mode, packing_of, unique_name
from daf_storage.data import DafReader, DafWriter, Origin, archive_recovery, layout
from daf_storage.opening import _archives as archives
from daf_storage.opening import _hdf5_files as hdf5_files
from daf_storage.opening import _reorder_backup as backup
from daf_storage.opening._paths import (
    ARCHIVE_SUFFIX,
    DIRECTORY_SUFFIX,
    HDF5_SUFFIX,
    SHARED_ARCHIVE_SUFFIX,
    SHARED_HDF5_SUFFIX,
    DafPath,
    parse_path,
)
from daf_storage.opening._remote import open_remote_tree
from daf_storage.stores import (
    DirectoryStore,
    MappingStore,
    MemoryStore,
    MmapZipStore,
    WritableStore,
    follow_links,
    interrupted_exchange,
    is_remote,
    remove_leftovers,
    scratch,
    shown_url,
    was_interrupted,
)
from daf_storage.trees import (
    ALIGNMENT,
    Hdf5File,
    Tree,
    WritableHdf5Tree,
    WritableTree,
    WritableZarrTree,
    ZarrTree,
    ZarrVersion,
    find_version,
)

_SUFFIXES = (
    DIRECTORY_SUFFIX,
    ARCHIVE_SUFFIX,
    SHARED_ARCHIVE_SUFFIX,
    HDF5_SUFFIX,
    SHARED_HDF5_SUFFIX,
)

_FULL = (errno.ENOSPC, errno.EDQUOT)


def open_daf(
    path: str | Path | MutableMapping[str, Any],
    mode: OpenMode = "r",
    *,
    name: str | None = None,
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
) -> DafReader:
    """Open a Daf data set; its format follows from the path.

    Parameters
    ----------
    path
        ``something.daf.zarr``, a Zarr directory; ``something.daf.zarr.zip``, the same in one
        ZIP archive; ``something.dafs.zarr.zip#/group``, one of several data sets in an archive;
        ``something.h5df``, an HDF5 file; ``something.h5dfs#/group``, one of several in a file.
        The Zarr ones may be URLs too, for reading: ``https://...``, ``s3://...``, ``gs://...``.
        ``something.h5`` and ``something.hdf5`` are HDF5 files too, with or without ``#/group``.
        A mutable mapping of keys to bytes is a Zarr store (`MappingStore`).
    mode
        ``r`` to read, ``r+`` to read and write, ``w+`` to create it if missing, ``w`` to create
        it or empty it first.
    name
        Its name; by default its scalar ``name``, else its full path.
    zarr_format
        The version of Zarr in which to create it, 2 or 3; 2 by default, 3 if it is packed.
    packed
        Whether to cut what is written into small chunks and compress them, and how; needs Zarr v3
        or HDF5.  What is filled in place is not packed.

    Returns
    -------
    DafReader
        For mode ``r``; a `DafWriter` for the others.

    Raises
    ------
    SourceNotFoundError
        There is nothing at this path.
    NotADafError, VersionError
        There is something else, or a version that this code does not know.
    InUseError
        It is an archive that is open for writing in another process, or, to be opened for
        writing, for reading in this one.
    """
    if isinstance(path, MutableMapping):
        return ZarrDaf(path, mode, name=name, zarr_format=zarr_format, packed=packed)
    if is_remote(path):
        return _open_remote(str(path), mode, name)
    if _parsed(path).kind == "hdf5":
        if zarr_format is not None:
            raise errors.InvalidInputError(f"{path}: an HDF5 file has no zarr_format")
        return H5df(path, mode, name=name, packed=packed)
    return ZarrDaf(path, mode, name=name, zarr_format=zarr_format, packed=packed)


def ZarrDaf(  # noqa: N802 - the constructor's name in all implementations
    path: str | Path | MutableMapping[str, Any],
    mode: OpenMode = "r",
    *,
    name: str | None = None,
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
) -> DafReader:
    """Open a Daf data set in a Zarr directory, ZIP archive or mutable mapping; see `open_daf`.

    Opening reads a few small metadata files, or the directory of the archive, whatever the size of
    the data.  An archive can only be added to.  All handles of one archive share one mapping.

    Warns
    -----
    RecoveryWarning
        It was opened for writing, and something that a crashed writer had left half done had to
        be taken away.
    """
    check_mode(mode)
    if isinstance(path, MutableMapping):
        return _open_mapping(path, mode, name, _Style(zarr_format, packing_of(packed)))
    if is_remote(path):
        return _open_remote(str(path), mode, name)
    where = _parsed(path)
    if where.kind == "hdf5":
        raise errors.InvalidInputError(
            f"can't parse as ZarrDaf path: {path}; it is an HDF5 file: open it with open_daf"
        )
    style = _Style(zarr_format, packing_of(packed))
    style.check(where.given, mode)
    with errors.os_errors(where.given):
        return _open_zarr(where, mode, name, style)


def _open_zarr(where: DafPath, mode: OpenMode, name: str | None, style: _Style) -> DafReader:
    if where.is_archive:
        return _with_origin(_open_archive(where, mode, name, style), ZarrDaf, where.full)
    if mode == "r":
        tree = ZarrTree(_existing(where.container, where.given, is_read=True))
        style.check_found(tree)
        _check_group(tree)
        layout.check_version(tree)
        backup.refuse_backup(where)
        reader = DafReader(tree, name=_reader_name(tree, name, where))
        return _with_origin(reader, ZarrDaf, where.full)
    writer = _open_directory_for_writing(where, mode, name, style)
    return _with_origin(writer, ZarrDaf, where.full)


def _with_origin(reader: DafReader, open_again: Callable[[str], DafReader], path: str) -> DafReader:
    """Note how a data set can be opened again, which is how it is pickled."""
    reader.origin = Origin(open_again, path, reader.name)
    return reader


def _open_mapping(
    mapping: MutableMapping[str, Any], mode: OpenMode, name: str | None, style: _Style
) -> DafReader:
    store = MappingStore(mapping)
    style.check(store.location, mode)
    if mode == "r":
        tree = ZarrTree(store)
        style.check_found(tree)
        _check_group(tree)
        layout.check_version(tree)
        return DafReader(tree, name=unique_name(f"{_named(tree, name, store.location)}.read_only"))
    found = find_version(store)
    if mode == "w":
        if len(mapping) and found is None:
            raise errors.NotADafError(
                f"{store.location}: this mapping is not a Zarr group, so mode 'w' does not empty "
                "it, and nothing was changed; empty it yourself if that is what you want"
            )
        store.change(list(mapping), {})
    writable = WritableZarrTree(
        store,
        consolidated=False,
        zarr_format=(None if mode == "w" else found) or style.version,
        packing=style.packing,
    )
    style.check_found(writable)
    if mode == "r+":
        _check_group(writable)
    _make_or_check(writable, mode)
    return DafWriter(writable, name=unique_name(_named(writable, name, store.location)))


def _open_remote(url: str, mode: OpenMode, name: str | None) -> DafReader:
    check_mode(mode)
    if mode != "r":
        raise errors.ReadOnlyError(
            f"can't open a ZarrDaf on a server in mode: {mode}; it is read-only there: "
            f"{shown_url(url)}"
        )
    tree = open_remote_tree(url)
    _check_group(tree)
    layout.check_version(tree)
    reader = DafReader(tree, name=unique_name(f"{_named(tree, name, tree.location)}.read_only"))
    return _with_origin(reader, ZarrDaf, url)


def H5df(  # noqa: N802 - the constructor's name in all implementations
    root: Any,
    mode: OpenMode = "r",
    *,
    name: str | None = None,
    packed: bool | Packing = False,
) -> DafReader:
    """Open a Daf data set in an HDF5 file; needs the extra ``hdf5``.

    Parameters
    ----------
    root
        The path of a file; ``file.h5dfs#/group``; or an open ``h5py.File`` or ``h5py.Group``,
        which stays open when the data set is closed.
    mode, name, packed
        As for `open_daf`.  Mode ``w`` empties the whole file, or just the group that is named; it
        refuses to empty what is no data set.

    Raises
    ------
    NotADafError
        There is something else at this place; it is left alone, whatever the mode.
    InUseError
        HDF5 lets one process write a file, or several read it.

    Warns
    -----
    UnsafeAlignmentWarning
        The open file that was passed does not align what is written to it.
    """
    check_mode(mode)
    if not isinstance(root, str | Path):
        return _open_hdf5_handle(root, mode, name, packing_of(packed))
    given = os.fspath(root)
    where = DafPath(given, Path(os.path.abspath(given)), "hdf5", "")
    if "#" in Path(given).name or "#/" in given:
        where = parse_path(given)
    with errors.os_errors(given):
        return _open_hdf5_file(where, mode, name, packing_of(packed))


def _open_hdf5_file(
    where: DafPath, mode: OpenMode, name: str | None, packing: Packing | None
) -> DafReader:
    file_mode: OpenMode = "w+" if where.group and mode == "w" else mode
    lease = hdf5_files.lease(where.container, file_mode, where.given_container)
    try:
        shared = lease.resource
        full_name = where.full
        tree = WritableHdf5Tree(shared, where.group, packing=packing)
        reader = _open_hdf5(tree, mode, name, full_name, on_close=lease.release)
        return _with_origin(reader, H5df, full_name)
    except BaseException:
        lease.release()
        raise


def _open_hdf5_handle(
    root: Any, mode: OpenMode, name: str | None, packing: Packing | None
) -> DafReader:
    group = root.name.strip("/")
    location = str(root.file.filename)
    shared = Hdf5File(root.file, location=location)
    if mode != "r" and not shared.is_writable:
        raise errors.ReadOnlyError(
            f"{location}: the HDF5 file was opened for reading; open it with mode 'r+' first"
        )
    threshold, interval = root.file.id.get_access_plist().get_alignment()
    if threshold > ALIGNMENT[0] or interval != ALIGNMENT[1]:
        warnings.warn(
            f"unsafe HDF5 file alignment for Daf: ({threshold}, {interval}); the safe HDF5 file "
            f"alignment is: {ALIGNMENT}; unaligned data is read less efficiently; to force the "
            "alignment, open the file with h5py.File(path, mode, alignment_threshold=1, "
            "alignment_interval=8)",
            hdf5_files.UnsafeAlignmentWarning,
            stacklevel=3,
        )
    full = f"{os.path.abspath(location)}#/{group}" if group else os.path.abspath(location)
    tree = WritableHdf5Tree(shared, group, packing=packing)
    reader = _open_hdf5(tree, mode, name, full, on_close=None)
    is_path = Path(location).is_file() and (not group or f"{SHARED_HDF5_SUFFIX}#/" in full)
    return _with_origin(reader, H5df, full) if is_path else reader


def _open_hdf5(
    tree: WritableHdf5Tree,
    mode: OpenMode,
    name: str | None,
    full_name: str,
    *,
    on_close: Callable[[], None] | None,
) -> DafReader:
    kind = tree.kind("")
    if kind == "array" or (kind is None and mode in {"r", "r+"}):
        raise errors.NotADafError(f"not a daf data set: {tree.location}; there is no such group")
    is_daf = kind is not None and layout.is_daf(tree)
    if mode == "r":
        layout.check_version(tree)
        reader_name = unique_name(f"{_named(tree, name, full_name)}.read_only")
        return DafReader(tree.read_only(), name=reader_name, on_close=on_close)
    found = sorted(tree.children("")) if kind is not None else []
    if found and not is_daf and mode != "r+":
        raise errors.NotADafError(
            f"{tree.location}: not a daf data set, and not empty: it holds "
            f"{errors.known_names(found, none='')}; nothing was changed; choose another file or "
            "group"
        )
    if mode == "w" and is_daf:
        with tree.transaction() as changes, tree.lock():
            for child in (layout.DAF, *(one for one in found if one != layout.DAF)):
                changes.remove(child)
    _make_or_check(tree, mode)
    tree.recover()
    _recover_indexes(tree, mode)
    return DafWriter(tree, name=unique_name(_named(tree, name, full_name)), on_close=on_close)


def _recover_indexes(tree: WritableHdf5Tree, mode: OpenMode) -> None:
    """Clear away what a crashed writer has left of indexes; all of them with the data set."""
    indexes = tree.index_tree
    if mode == "w":
        for child in indexes.children(""):
            indexes.discard(child)
    indexes.recover()


def create_in(
    where: DafPath,
    *,
    name: str,
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
) -> DafReader:
    """Create a data set in ``where.container``; messages call it ``where.given``."""
    style = _Style(zarr_format, packing_of(packed))
    if where.kind == "hdf5":
        return _open_hdf5_file(where, "w", name, style.packing)
    return _open_zarr(where, "w", name, style)


def check_style(what: str, zarr_format: ZarrVersion | None, packed: bool | Packing) -> None:  # noqa: FBT001 - as in open_daf
    """Refuse ways of writing that do not go together, before anything is made."""
    _Style(zarr_format, packing_of(packed)).check(what, "w")


def MemoryDaf(  # noqa: N802 - as in all implementations
    *,
    name: str | None = None,
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
) -> DafWriter:
    """Create an empty Daf data set in memory; the options are those of `open_daf`.

    Examples
    --------
    >>> MemoryDaf().axes_set()
    set()
    """
    style = _Style(zarr_format, packing_of(packed))
    style.check("a data set in memory", "w")
    tree = WritableZarrTree(
        MemoryStore(), consolidated=False, zarr_format=style.version, packing=style.packing
    )
    create_skeleton(tree)
    return DafWriter(tree, name=unique_name(name or "memory"))


def create_skeleton(tree: WritableTree) -> None:
    """Make an empty data set; the version marker comes last, so that a crash leaves none."""
    with tree.batch(), tree.transaction() as changes, tree.lock():
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


def _parsed(path: str | Path) -> DafPath:
    """Parse a path; of an archive of several data sets, say which there are."""
    try:
        return parse_path(path)
    except errors.InvalidInputError as error:
        container = Path(str(path).rstrip("#"))
        if not container.name.endswith(SHARED_ARCHIVE_SUFFIX) or not container.is_file():
            raise
        with MmapZipStore(container) as store:
            groups = errors.known_names(archives.groups_of(store), none="no data sets")
        raise errors.InvalidInputError(f"{error}; it holds {groups}") from None


@dataclass(frozen=True, slots=True)
class _Style:
    """How a data set is written."""

    zarr_format: ZarrVersion | None
    """The version of Zarr that was asked for."""
    packing: Packing | None
    """How arrays are packed, if they are."""

    @property
    def version(self) -> ZarrVersion | None:
        """The version to create; None for the default, which is that of what is there."""
        return self.zarr_format or (3 if self.packing is not None else None)

    def check(self, what: str, mode: OpenMode) -> None:
        """Refuse what does not go together."""
        if self.zarr_format not in (None, 2, 3):
            raise errors.InvalidInputError(
                f"{what}: there is no Zarr format {self.zarr_format!r}; choose 2 or 3"
            )
        if self.packing is not None and mode == "r":
            raise errors.InvalidInputError(
                f"{what}: packed= says how to write, and mode 'r' only reads; leave it out"
            )
        if self.packing is not None and self.zarr_format == 2:
            raise errors.InvalidInputError(
                f"{what}: Zarr v2 would need a file for each small chunk, so it is not packed; "
                "use zarr_format=3, or leave packed out"
            )

    def check_found(self, tree: ZarrTree) -> None:
        """Refuse a data set of another version than was asked for, or than packing needs."""
        if tree.kind("") is None or self.version in (None, tree.format.version):
            return
        needs = f"zarr_format={self.version}" if self.zarr_format else "packed="
        raise errors.InvalidInputError(
            f"{tree.location}: it is stored in Zarr v{tree.format.version}, and {needs} was asked "
            "for; convert it to a new path"
        )


def _open_directory_for_writing(
    where: DafPath, mode: OpenMode, name: str | None, style: _Style
) -> DafWriter:
    root, given = follow_links(where.container, where.given), where.given
    remove_leftovers(root)
    if mode == "r+" or interrupted_exchange(root):
        _existing(root, given)
    if mode == "w" and root.exists():
        _empty(root, given)
    store: WritableStore = DirectoryStore(root, location=given)
    found = find_version(store)
    tree = WritableZarrTree(
        store,
        consolidated=True,
        zarr_format=found or style.version,
        packing=style.packing,
    )
    style.check_found(tree)
    if mode == "r+":
        _check_group(tree)
    if mode != "r+" and root.exists() and not root.is_dir():
        raise errors.NotADafError(f"{given}: there is a file of this name, not a directory")
    _make_or_check(tree, mode)
    if backup.restore_backup(where):
        tree.refresh()
    _recover(tree)
    return DafWriter(tree, name=unique_name(_name(tree, name, where)))


def _recover(tree: WritableZarrTree) -> None:
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
            archive_recovery.RecoveryWarning,
            stacklevel=5,
        )


def _open_archive(where: DafPath, mode: OpenMode, name: str | None, style: _Style) -> DafReader:
    if where.group and mode == "w":
        raise errors.InvalidModeError(
            f"{where.given}: can't truncate one data set of an archive, which is append-only; "
            "open it with mode 'w+' to create it or add to it"
        )
    if mode in {"r", "r+"} and not where.container.is_file():
        if where.container.is_dir():
            raise errors.NotADafError(f"{where.given}: there is a directory of this name")
        if where.container.exists():
            raise errors.NotADafError(f"{where.given}: this is not a regular file")
        raise errors.SourceNotFoundError(
            f"no such file: {where.container}{_siblings(where.container)}"
        )
    lease = archives.lease(where.container, mode, where.given_container)
    try:
        if mode == "r":
            tree = ZarrTree(lease.resource, where.group)
            style.check_found(tree)
            _check_group(tree)
            layout.check_version(tree)
            reader_name = _reader_name(tree, name, where)
            return DafReader(tree, name=reader_name, on_close=lease.release)
        writable = WritableZarrTree(
            lease.resource,
            where.group,
            consolidated=False,
            zarr_format=find_version(lease.resource, where.group) or style.version,
            packing=style.packing,
        )
        style.check_found(writable)
        if mode == "r+":
            _check_group(writable)
        elif where.group:
            _check_free_group(lease.resource, where)
        _make_or_check(writable, mode)
        archive_recovery.recover_archive(lease.resource, writable, where.group)
        archive_recovery.take_out_consolidated(lease.resource, writable, where.group)
        writer_name = unique_name(_name(writable, name, where))
        return DafWriter(writable, name=writer_name, on_close=lease.release)
    except BaseException:
        lease.release()
        raise


def open_directory_tree(where: DafPath) -> WritableZarrTree:
    """Open the tree of a data set in a directory for mending."""
    store: WritableStore = _existing(where.container, where.given)
    tree = WritableZarrTree(store, consolidated=True)
    _check_group(tree)
    layout.check_version(tree)
    return tree


def _make_or_check(tree: WritableTree, mode: OpenMode) -> None:
    """Make the data set if there is none and the mode allows it; check its version if there is."""
    if not layout.is_daf(tree):
        if mode == "r+":
            raise errors.NotADafError(
                f"{tree.location}: not a daf data set: it has no array named 'daf'"
            )
        create_skeleton(tree)
    layout.check_version(tree)


def _check_free_group(store: MmapZipStore, where: DafPath) -> None:
    """Refuse a group that lies among the properties of another data set."""
    parts = where.group.split("/")
    for depth in range(1, len(parts)):
        above = ZarrTree(store, "/".join(parts[:depth]))
        if parts[depth] in (*layout.SKELETON, layout.DAF) and layout.is_daf(above):
            raise errors.InvalidInputError(
                f"{where.given}: {'/'.join(parts[:depth])!r} is a data set itself, and "
                f"{parts[depth]!r} is part of it; choose another group"
            )


def _existing(root: Path, given: str, *, is_read: bool = False) -> DirectoryStore:
    moved = interrupted_exchange(root)
    if (moved is not None or was_interrupted(root)) and is_read:
        raise errors.SourceNotFoundError(
            f"{given}: another program was stopped while it replaced this; open it for writing, "
            f"or run 'daf repair {given}', to get back what was there"
        )
    if moved is not None:
        os.rename(moved, root)
    if not root.is_dir():
        if root.exists():
            raise errors.NotADafError(f"{given}: there is a file of this name, not a directory")
        raise errors.SourceNotFoundError(f"no such directory: {root}{_siblings(root)}")
    if not os.access(root, os.R_OK | os.X_OK):
        raise errors.ReadOnlyError(f"{given}: no permission to read this directory")
    return DirectoryStore(root, location=given)


def _siblings(root: Path) -> str:
    """Name the data sets beside a path that does not exist."""
    try:
        names = os.listdir(root.parent)
    except OSError:
        return ""
    beside = [name for name in names if name.endswith(_SUFFIXES) and not name.startswith(".")]
    return f"; beside it are {errors.known_names(beside, none='')}" if beside else ""


def _check_group(tree: ZarrTree) -> None:
    if tree.kind("") != "group":
        raise errors.NotADafError(
            f"not a zarr group: {tree.location}; it has no .zgroup or zarr.json"
        )


def _empty(root: Path, given: str) -> None:
    """Delete a data set for mode ``w``; anything that is not one is left alone."""
    if not root.is_dir():
        raise errors.NotADafError(f"{given}: there is a file of this name, not a directory")
    is_zarr = any((root / name).exists() for name in (".zgroup", "zarr.json"))
    if any(root.iterdir()) and not is_zarr:
        raise errors.NotADafError(
            f"{given}: this directory is not a Zarr group, so mode 'w' does not empty it; "
            "delete it yourself if that is what you want"
        )
    with scratch(root) as trash:
        os.rename(root, trash)


def _reader_name(tree: Tree, name: str | None, where: DafPath) -> str:
    return unique_name(f"{_name(tree, name, where)}.read_only")


def _name(tree: Tree, name: str | None, where: DafPath) -> str:
    return _named(tree, name, where.full)


def _named(tree: Tree, name: str | None, full_name: str) -> str:
    if name is not None:
        return name
    try:
        array = layout.open_array(tree, layout.scalar_path("name"))
        if array is None or array.info.size != 1:
            return full_name
        if array.info.storage_type.is_string:
            return str(array.read_strings()[0].as_py())
        return str(array.read().reshape(-1)[0].item())
    except (errors.FormatError, errors.ReadOnlyError):
        return full_name  # who asks for the scalar learns why; the data set has a name anyway
