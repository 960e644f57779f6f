"""A copy of a whole directory, changed, that takes the place of the directory in one step."""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import uuid
from pathlib import Path

from daf_storage import errors
from daf_storage.base import STAGING_NAME
from daf_storage.stores import _swap
from daf_storage.stores._directory_write import TRASH
from daf_storage.stores._locks import (
    discard,
    make_directories,
    remove_if_empty,
)

REBUILD_SUFFIX = ".rebuilt"
"""How the copies end that are to take the place of a directory."""


_READY_SUFFIX = ".ready"
OLD_SUFFIX = ".old"


def unfinished_rebuilds(root: Path) -> list[Path]:
    """Return the copies beside a directory that a crash kept from taking its place."""
    return rebuilds_beside(Path(os.path.realpath(root)), "")


def rebuilds_beside(root: Path, ending: str) -> list[Path]:
    """Return the copies beside a directory, in whatever state their names end with."""
    start = glob.escape(f".{root.name}.")
    return sorted(root.parent.glob(f"{start}*{REBUILD_SUFFIX}{ending}"))


def interrupted_exchange(root: Path) -> Path | None:
    """Return where a directory is that a crash caught between two renames.

    What is beside one that is there is not listed: that of many takes long.
    """
    if root.exists():
        return None
    moved = rebuilds_beside(root, OLD_SUFFIX)
    return moved[0] if moved else None


def state_of_files(root: Path, token: str) -> str:
    """Return what tells a rebuild of these very files from any other."""
    digest = hashlib.sha256(token.encode())
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name != STAGING_NAME)
        for file in sorted(files):
            status = os.stat(os.path.join(folder, file))
            identity = (os.path.relpath(os.path.join(folder, file), root), status.st_ino)
            digest.update(repr((*identity, status.st_size, status.st_mtime_ns)).encode())
    return digest.hexdigest()[:16]


def link_tree(source: Path, target: Path, without: list[str]) -> None:
    """Link every file into another directory, but for those at or below some prefixes."""
    left_out = {os.path.join(source, prefix) for prefix in without} | {str(source / STAGING_NAME)}
    try:
        target.mkdir(exist_ok=True)
    except PermissionError as error:
        raise errors.ReadOnlyError(
            f"{source}: this needs permission to write in the directory that it is in, "
            f"{source.parent}"
        ) from error
    for folder, names, files in os.walk(source):
        names[:] = [name for name in names if os.path.join(folder, name) not in left_out]
        copy = target / os.path.relpath(folder, source)
        copy.mkdir(exist_ok=True)
        shutil.copystat(folder, copy)
        for half in copy.glob(".*.copied"):
            half.unlink()
        for file in files:
            if os.path.join(folder, file) not in left_out and not (copy / file).exists():
                _link(os.path.join(folder, file), copy / file)


def _link(source: str, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        aside = target.with_name(f".{target.name}.copied")
        shutil.copyfile(source, aside)
        os.replace(aside, target)  # a crash must not leave half of it to be found again


def exchange_directories(aside: Path, root: Path) -> None:
    """Put a copy in the place of a directory; the old one goes when no reader needs it."""
    ready = aside.with_name(f"{aside.name}{_READY_SUFFIX}")  # from here on nothing is resumed
    os.rename(aside, ready)
    old = ready
    if not _swap.exchange(ready, root):
        old = aside.with_name(f"{aside.name}{OLD_SUFFIX}")
        os.rename(root, old)
        os.rename(ready, root)
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
