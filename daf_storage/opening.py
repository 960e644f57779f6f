"""From a path and a mode to a reader or a writer.

The one place that knows which store and which tree a path means.  Rules: docs/reference/format.md,
"paths, modes and names".
"""

from __future__ import annotations

import itertools
import os
import shutil
import threading
import uuid
from collections import Counter
from pathlib import Path
from typing import Final

import numpy as np

from daf_storage import errors, layout
from daf_storage.model import OpenMode, check_mode
from daf_storage.reader import DafReader
from daf_storage.stores import DirectoryStore, MemoryStore, WritableStore
from daf_storage.trees import WritableZarrTree, ZarrTree
from daf_storage.writer import DafWriter

ZARR_DIRECTORY_SUFFIX: Final = ".daf.zarr"

_names_lock = threading.Lock()
_names_used: Counter[str] = Counter()


def open_daf(path: str | Path, mode: OpenMode = "r", *, name: str | None = None) -> DafReader:
    """Open a Daf data set; its format follows from the path.

    Parameters
    ----------
    path
        ``something.daf.zarr``, a Zarr directory.
    mode
        ``r`` to read, ``r+`` to read and write, ``w+`` to create it if missing, ``w`` to create
        it or empty it first.
    name
        Its name; by default its scalar ``name``, else its full path.

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
    """
    return ZarrDaf(path, mode, name=name)


def ZarrDaf(  # noqa: N802 - the constructor's name in all implementations
    path: str | Path, mode: OpenMode = "r", *, name: str | None = None
) -> DafReader:
    """Open a Daf data set in a Zarr v2 directory; see `open_daf`.

    Opening reads a few small metadata files, whatever the size of the data.
    """
    check_mode(mode)
    given = check_path(path)
    root = Path(os.path.abspath(given))
    if mode == "r":
        tree = ZarrTree(_existing(root, given))
        _check_group(tree, given)
        layout.check_version(tree)
        return DafReader(tree, name=_unique(f"{_name(tree, name, root)}.read_only"))
    return _open_for_writing(root, given, mode, name)


def check_path(path: str | Path) -> str:
    """Return a path as text if it has the form of a data set's."""
    given = os.fspath(path)
    if not given.rstrip("/").endswith(ZARR_DIRECTORY_SUFFIX):
        hint = ""
        if given.endswith(".h5ad"):
            hint = (
                f"; turn an h5ad file into one with: daf import {given} OUT{ZARR_DIRECTORY_SUFFIX}"
            )
        raise errors.InvalidInputError(
            f"can't parse as ZarrDaf path: {given}; expected <stem>{ZARR_DIRECTORY_SUFFIX}{hint}"
        )
    return given


def MemoryDaf(*, name: str | None = None) -> DafWriter:  # noqa: N802 - as in all implementations
    """Create an empty Daf data set in memory.

    Examples
    --------
    >>> MemoryDaf().axes_set()
    set()
    """
    tree = WritableZarrTree(MemoryStore(), consolidated=False)
    create_skeleton(tree)
    return DafWriter(tree, name=_unique(name or "memory"))


def create_skeleton(tree: WritableZarrTree) -> None:
    """Make an empty data set; the version marker comes last, so that a crash leaves none."""
    with tree.transaction() as changes, tree.lock():
        changes.create_root()
        for group in layout.SKELETON:
            if tree.kind(group) is None:
                changes.create_group(group)
                changes.publish(group, replace=False)
            elif tree.children(group):
                raise errors.NotADafError(
                    f"{tree.location}: not a daf data set, and its group {group!r} is not empty; "
                    "choose another path"
                )
        changes.write_array(layout.DAF, np.array(layout.VERSION, dtype=np.uint8))
        changes.publish(layout.DAF, replace=False)


def _open_for_writing(root: Path, given: str, mode: OpenMode, name: str | None) -> DafWriter:
    if mode == "r+":
        _existing(root, given)
    if mode == "w" and root.exists():
        _empty(root, given)
    store: WritableStore = DirectoryStore(root, location=given)
    tree = WritableZarrTree(store, consolidated=True)
    if mode == "r+":
        _check_group(tree, given)
    if tree.kind(layout.DAF) is None:
        if mode == "r+":
            raise errors.NotADafError(f"{given}: not a daf data set: it has no array named 'daf'")
        if root.exists() and not root.is_dir():
            raise errors.NotADafError(f"{given}: there is a file of this name, not a directory")
        create_skeleton(tree)
    layout.check_version(tree)
    tree.recover()
    return DafWriter(tree, name=_unique(_name(tree, name, root)))


def _existing(root: Path, given: str) -> DirectoryStore:
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
        beside = [p.name for p in root.parent.iterdir() if p.name.endswith(ZARR_DIRECTORY_SUFFIX)]
    except OSError:
        return ""
    return f"; beside it are {errors.known_names(beside, none='')}" if beside else ""


def _check_group(tree: ZarrTree, given: str) -> None:
    if tree.kind("") != "group":
        raise errors.NotADafError(f"not a zarr group: {given}; it has no .zgroup file")


def _empty(root: Path, given: str) -> None:
    """Delete a data set for mode ``w``; anything that is not one is left alone."""
    if not root.is_dir():
        raise errors.NotADafError(f"{given}: there is a file of this name, not a directory")
    if any(root.iterdir()) and not (root / ".zgroup").exists():
        raise errors.NotADafError(
            f"{given}: this directory is not a Zarr group, so mode 'w' does not empty it; "
            "delete it yourself if that is what you want"
        )
    trash = root.with_name(f".{root.name}.{uuid.uuid4().hex}")
    os.rename(root, trash)
    shutil.rmtree(trash)


def _name(tree: ZarrTree, name: str | None, root: Path) -> str:
    if name is not None:
        return name
    array = layout.open_array(tree, layout.scalar_path("name"))
    if array is None or array.info.size != 1:
        return str(root)
    if array.info.storage_type.is_string:
        return str(array.read_strings()[0].as_py())
    return str(array.read().reshape(-1)[0].item())


def _unique(name: str) -> str:
    """Return the name, with ``#2``, ``#3`` and so on if this process has used it already."""
    if "!" in name:
        return name
    with _names_lock:
        _names_used[name] += 1
        count = _names_used[name]
        if count == 1:
            return name
        for number in itertools.count(count):
            unique = f"{name}#{number}"
            if not _names_used[unique]:
                _names_used[unique] += 1
                return unique
    raise AssertionError("itertools.count does not end")
