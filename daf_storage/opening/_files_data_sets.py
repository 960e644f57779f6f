"""Data sets of plain files: in directories, in ZIP archives, and on servers."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, overload

from daf_storage import errors
from daf_storage.base import OpenMode, Packing, check_mode, packing_of
from daf_storage.data import DafReader, DafWriter, Origin, layout
from daf_storage.files_daf import (
    DAF_FILE,
    FilesTree,
    WritableFilesTree,
    check_packing,
    recover_archive,
    take_out_metadata,
)
from daf_storage.opening import _archives as archives
from daf_storage.opening import _reorder_backup as backup
from daf_storage.opening._paths import DafPath, parse_path
from daf_storage.opening._remote import open_closable_tree
from daf_storage.opening._skeleton import make_or_check, reader_name, writer_name
from daf_storage.opening._style import Style
from daf_storage.opening._zarr_archives import archive_lease
from daf_storage.opening._zarr_directories import (
    empty_directory,
    existing_directory,
    recover_directory,
)
from daf_storage.stores import (
    DirectoryStore,
    follow_links,
    interrupted_exchange,
    is_remote,
    remove_leftovers,
    shown_url,
)


@overload
def FilesDaf(
    path: str | Path,
    mode: Literal["r"] = "r",
    *,
    name: str | None = None,
    packed: bool | Packing = False,
) -> DafReader: ...
@overload
def FilesDaf(
    path: str | Path,
    mode: Literal["r+", "w+", "w"],
    *,
    name: str | None = None,
    packed: bool | Packing = False,
) -> DafWriter: ...
@overload
def FilesDaf(
    path: str | Path,
    mode: OpenMode,
    *,
    name: str | None = None,
    packed: bool | Packing = False,
) -> DafReader: ...
def FilesDaf(  # noqa: N802 - the constructor's name in all implementations
    path: str | Path,
    mode: OpenMode = "r",
    *,
    name: str | None = None,
    packed: bool | Packing = False,
) -> DafReader:
    r"""Open a Daf data set of plain files, the family's own default format; see `open_daf`.

    Numbers are stored as they are in memory, strings a line each, and small JSON files say what is
    what: any program can read it.

    Parameters
    ----------
    path
        A directory, usually called ``something.daf``; ``something.daf.zip``, the same in a ZIP
        archive, which can only be added to; ``something.dafs.zip#/group``, one of several in an
        archive; or, for reading, the URL of any of them.
    mode, name, packed
        As for `open_daf`.

    Raises
    ------
    SourceNotFoundError
        There is nothing at this path.
    NotADafError, VersionError
        There is something else, which is left alone whatever the mode, or a version that this
        code does not know.

    Warns
    -----
    RecoveryWarning
        It was opened for writing, and something that a crashed writer had left half done had to
        be taken away.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = tempfile.mkdtemp() + "/x.daf"
    >>> daf = FilesDaf(path, "w")
    >>> daf.add_axis("cell", ["A", "B"])
    >>> pathlib.Path(path, "axes/cell.txt").read_text()
    'A\nB\n'
    """
    check_mode(mode)
    if is_remote(path):
        return _open_remote(str(path), mode, name)
    where = _parsed(path)
    style = Style(None, packing_of(packed))
    style.check(where.given, mode)
    with errors.os_errors(where.given):
        return open_files(where, mode, name, style)


def open_files(where: DafPath, mode: OpenMode, name: str | None, style: Style) -> DafReader:
    """Open a data set of plain files in a directory or an archive."""
    check_packing(style.packing, where.given)
    if where.is_archive:
        reader = _open_archive(where, mode, name, style)
    elif mode == "r":
        reader = _read_directory(where, name)
    else:
        reader = _write_directory(where, mode, name, style)
    reader.origin = Origin(FilesDaf, where.full, reader.name)
    return reader


def open_files_tree(where: DafPath) -> WritableFilesTree:
    """Open the tree of a data set in a directory for mending."""
    tree = WritableFilesTree(existing_directory(where.container, where.given))
    _check_marked(tree)
    return tree


def _parsed(path: str | Path) -> DafPath:
    """Return what a path means; a directory may have any name."""
    where = parse_path(path, any_directory=True)
    if not where.is_files:
        raise errors.InvalidInputError(
            f"can't parse as FilesDaf path: {where.given}; it is another format: open it with "
            "open_daf"
        )
    return where


def _read_directory(where: DafPath, name: str | None) -> DafReader:
    tree = FilesTree(existing_directory(where.container, where.given, is_read=True))
    _check_marked(tree)
    backup.refuse_backup(where)
    return DafReader(tree, name=reader_name(tree, name, where.full))


def _write_directory(where: DafPath, mode: OpenMode, name: str | None, style: Style) -> DafWriter:
    root, given = follow_links(where.container, where.given), where.given
    remove_leftovers(root)
    if mode == "r+" or interrupted_exchange(root):
        existing_directory(root, given)
    if mode == "w" and root.exists():
        empty_directory(root, given, (DAF_FILE,), "a FilesDaf")
    if mode != "r+" and root.exists() and not root.is_dir():
        raise errors.NotADafError(f"{given}: there is a file of this name, not a directory")
    tree = WritableFilesTree(DirectoryStore(root, location=given), packing=style.packing)
    if mode == "r+":
        _check_marked(tree)
    make_or_check(tree, mode)
    if backup.restore_backup(where):
        tree.refresh()
    recover_directory(tree)
    return DafWriter(tree, name=writer_name(tree, name, where.full))


def _open_archive(where: DafPath, mode: OpenMode, name: str | None, style: Style) -> DafReader:
    lease = archive_lease(where, mode)
    try:
        if mode == "r":
            tree = FilesTree(lease.resource, where.group)
            _check_marked(tree)
            return DafReader(tree, name=reader_name(tree, name, where.full), on_close=lease.release)
        writable = WritableFilesTree(lease.resource, where.group, packing=style.packing)
        if mode == "r+":
            _check_marked(writable)
        elif where.group:
            archives.check_free_group(where, writable)
        make_or_check(writable, mode)
        recover_archive(lease.resource, writable)
        take_out_metadata(lease.resource, writable)
        unique = writer_name(writable, name, where.full)
        return DafWriter(writable, name=unique, on_close=lease.release)
    except BaseException:
        lease.release()
        raise


def _open_remote(url: str, mode: OpenMode, name: str | None) -> DafReader:
    if mode != "r":
        raise errors.ReadOnlyError(
            f"can't open a FilesDaf on a server in mode: {mode}; it is read-only there: "
            f"{shown_url(url)}"
        )
    tree, close = open_closable_tree(url, form="files")
    layout.check_version(tree)
    reader = DafReader(tree, name=reader_name(tree, name, tree.location), on_close=close)
    reader.origin = Origin(FilesDaf, url, reader.name)
    return reader


def _check_marked(tree: FilesTree) -> None:
    """Refuse what is not marked as a data set, or has a version that this code does not know."""
    if tree.marker(layout.DAF) is None:
        raise errors.NotADafError(f"{tree.location}: not a daf data set: it has no {DAF_FILE}")
