"""Rules that keep what is written apart from what is read: overlays, and files of results."""

from __future__ import annotations

import os
from pathlib import Path

from daf_storage import errors
from daf_storage.combined import stored_members
from daf_storage.data import DafReader, DafWriter
from daf_storage.sidecars import is_sidecar
from daf_storage.stores import is_remote


def check_apart(base: DafReader, overlay: str | Path | DafWriter) -> None:
    """Refuse an overlay that is its base, in it or around it, by whichever path.

    Raises
    ------
    InvalidInputError
        It is one of these; or the sidecar of a file, of which a refresh would discard it.
    """
    members = list(stored_members(base))
    if isinstance(overlay, DafWriter):
        if any(member.tree is overlay.tree for member in members):
            raise _not_apart(overlay.location, "is the data set", overlay.location)
        if overlay.origin is None:
            return
        overlay = overlay.origin.path
    path = os.fspath(overlay)
    if is_remote(path):
        return
    if is_sidecar(path):
        raise errors.InvalidInputError(
            f"{path}: this is a sidecar, which belongs to the file that it was made of; name "
            "another path for the overlay"
        )
    for member in members:
        if member.origin is not None and not is_remote(member.origin.path):
            relation = _relation(path, member.origin.path)
            if relation:
                raise _not_apart(path, relation, member.origin.path)


def is_stored_at(daf: DafReader, path: str | Path) -> bool:
    """Return whether a file or directory is one that a data set is read from, by whichever path.

    Of a chain or a view, those of its members count.

    >>> from daf_storage import MemoryDaf
    >>> is_stored_at(MemoryDaf(), "atlas.h5ad")
    False
    """
    try:
        there = os.stat(path)
    except (OSError, ValueError):  # nothing that could be lost
        return False
    return any(_is_file_of(member, there) for member in stored_members(daf))


def check_outside(daf: DafReader, path: str | Path) -> None:
    """Refuse to write something into the directory of a data set that is read.

    Of a chain or a view, those of its members count.  Another group of the same directory is
    outside.

    Raises
    ------
    InvalidInputError
        It is in there, by whichever path.

    Examples
    --------
    >>> from daf_storage import MemoryDaf
    >>> check_outside(MemoryDaf(), "atlas.daf.zarr/copy.daf.zarr")
    """
    if is_remote(path):
        return
    around = _place(os.fspath(path))[0].parents
    for member in stored_members(daf):
        if member.origin is None or is_remote(member.origin.path):
            continue
        if _place(member.origin.path)[0] in around:
            raise errors.InvalidInputError(
                f"cannot write {str(path)!r}: this lies within the data set {member.location} that "
                "is read, whose directory is for its own files; name a path beside it"
            )


def _is_file_of(member: DafReader, there: os.stat_result) -> bool:
    if member.origin is None or is_remote(member.origin.path):
        return False
    container, _, _ = member.origin.path.partition("#/")
    try:
        return os.path.samestat(os.stat(container), there)
    except OSError:  # it was moved away meanwhile
        return False


def _relation(overlay: str, base: str) -> str:
    """Return how the places of two data sets overlap; empty if they do not."""
    (mine, my_group), (theirs, their_group) = map(_place, (overlay, base))
    if mine == theirs:
        is_shared = my_group != their_group and my_group and their_group
        return "" if is_shared else "is the data set"
    if theirs in mine.parents:
        return "lies within the data set"
    return "has in it the data set" if mine in theirs.parents else ""


def _place(path: str) -> tuple[Path, str]:
    """Return the file or directory that a path leads to, and the group in it."""
    container, _, group = path.partition("#/")
    return Path(os.path.realpath(container)), group.strip("/")


def _not_apart(overlay: str, relation: str, base: str) -> errors.InvalidInputError:
    return errors.InvalidInputError(
        f"{overlay}: the overlay {relation} that it is on top of, {base}, which is only read; name "
        "another path for the overlay, beside it"
    )
