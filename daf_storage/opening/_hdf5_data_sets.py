"""Data sets in HDF5 files, given by path or as an open file or group."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from daf_storage import errors
from daf_storage.base import OpenMode, Packing
from daf_storage.data import DafReader, DafWriter, RecoveryWarning, layout
from daf_storage.opening import _hdf5_files as hdf5_files
from daf_storage.opening._foreign_data_sets import readable_tree, refuse_writing
from daf_storage.opening._paths import (
    SHARED_HDF5_SUFFIX,
    DafPath,
)
from daf_storage.opening._skeleton import check_groups, make_or_check, reader_name, writer_name
from daf_storage.trees import (
    ALIGNMENT,
    Hdf5File,
    WritableHdf5Tree,
)


def open_hdf5_file(
    where: DafPath, mode: OpenMode, name: str | None, packing: Packing | None
) -> DafReader:
    """Open a data set by the path of its file; the handles of one file share what is open."""
    file_mode: OpenMode = "w+" if where.group and mode == "w" else mode
    lease = hdf5_files.lease(where.container, file_mode, where.given_container)
    try:
        tree = WritableHdf5Tree(lease.resource, where.group, packing=packing)
        return _open_tree(tree, mode, name, where.full, on_close=lease.release)
    except BaseException:
        lease.release()
        raise


def open_hdf5_handle(
    root: Any, mode: OpenMode, name: str | None, packing: Packing | None
) -> DafReader:
    """Open a data set in a file or group that is open, and stays so."""
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
    tree = WritableHdf5Tree(shared, group, packing=packing)
    return _open_tree(tree, mode, name, _full_name(root), on_close=None)


def is_hdf5_handle(root: object) -> bool:
    """Return whether this is an open file or group of h5py; asks nothing of h5py if not."""
    return type(root).__module__.partition(".")[0] == "h5py" and hasattr(root, "file")


def path_of_handle(root: Any) -> str | None:
    """Return the path at which the group of an open file can be opened again, if there is one."""
    full_name = _full_name(root)
    is_named = root.name == "/" or f"{SHARED_HDF5_SUFFIX}#/" in full_name
    return full_name if Path(root.file.filename).is_file() and is_named else None


def _full_name(root: Any) -> str:
    path, group = os.path.abspath(root.file.filename), root.name.strip("/")
    return f"{path}#/{group}" if group else path


def _open_tree(
    tree: WritableHdf5Tree,
    mode: OpenMode,
    name: str | None,
    full_name: str,
    *,
    on_close: Callable[[], None] | None,
) -> DafReader:
    root_kind = tree.kind("")
    if root_kind == "array" or (root_kind is None and mode in {"r", "r+"}):
        raise errors.NotADafError(f"not a daf data set: {tree.location}; there is no such group")
    is_daf = root_kind is not None and layout.is_daf(tree)
    if mode == "r":
        if tree.is_half_replaced():
            raise errors.CorruptDataError(
                f"{tree.location}: a writer was stopped while it changed an axis: its entries and "
                "their data do not belong together; open it for writing or run 'daf repair "
                f"{tree.location}', to get back what was there"
            )
        readable = readable_tree(tree.read_only())
        return DafReader(readable, name=reader_name(readable, name, full_name), on_close=on_close)
    if root_kind is not None:
        refuse_writing(tree, mode)
    children = sorted(tree.children("")) if root_kind is not None else []
    if children and not is_daf and mode != "r+":
        raise errors.NotADafError(
            f"{tree.location}: not a daf data set, and not empty: it holds "
            f"{errors.known_names(children, none='')}; nothing was changed; choose another file or "
            "group"
        )
    if mode == "w" and is_daf:
        tree.recover()
        with tree.transaction() as changes, tree.lock():
            for child in (layout.DAF, *(child for child in children if child != layout.DAF)):
                changes.remove(child)
    make_or_check(tree, mode)
    check_groups(tree)
    if tree.is_half_replaced():
        warnings.warn(
            f"{tree.location}: a writer was stopped while it changed an axis; what was there "
            "before is there again",
            RecoveryWarning,
            stacklevel=4,
        )
    tree.recover()
    _recover_indexes(tree, mode)
    return DafWriter(tree, name=writer_name(tree, name, full_name), on_close=on_close)


def _recover_indexes(tree: WritableHdf5Tree, mode: OpenMode) -> None:
    """Clear away what a crashed writer has left of indexes; all of them with the data set."""
    indexes = tree.index_tree
    if mode == "w":
        for child in indexes.children(""):
            indexes.discard(child)
    indexes.recover()
