"""New data sets: apart from all that is read, and in their place when they are complete."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from daf_storage import errors
from daf_storage.base import IfExists, Packing, check_if_exists
from daf_storage.combined import stored_members
from daf_storage.data import DafReader, DafWriter
from daf_storage.opening._open import create_in, open_daf, style_at
from daf_storage.opening._paths import DafPath, parse_path
from daf_storage.sidecars import is_sidecar
from daf_storage.stores import follow_links, is_remote, put_in_place, replace_archive, scratch
from daf_storage.trees import ZarrVersion, indexes_beside


@contextmanager
def new_data_set(
    path: str | Path,
    *,
    if_exists: IfExists,
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
) -> Iterator[DafWriter]:
    """Hand out an empty data set that is put in its place when the block ends well.

    A data set within an archive or a file of several is made in place, and never replaced: an
    archive has all of it or nothing when the block ends.  Where the path is a symbolic link, what
    it leads to is made or replaced, and the link stays.

    Raises
    ------
    ExistsError
        There is something at the path, and ``if_exists`` is ``"error"``; also at the end, when
        another program has put it there meanwhile.
    NotADafError
        What is there is no data set, so it is not replaced.
    """
    check_if_exists(if_exists)
    where = parse_path(path)
    style = style_at(where, "w", zarr_format, packed)
    if where.group:
        with (
            open_daf(where.given, "w+", zarr_format=zarr_format, packed=packed) as daf,
            daf.batch(),
        ):
            _check_empty(daf, where)
            yield daf
        return
    target = follow_links(where.container, where.given)
    if target.exists() and if_exists == "error":
        raise errors.path_exists(where.given)
    if not target.parent.is_dir():
        raise errors.SourceNotFoundError(
            f"cannot create {where.given}: no such directory: {target.parent}"
        )
    checked = _check_replaceable(where, target)
    with errors.os_errors(where.given), scratch(target) as aside:
        prepared = replace(where, container=aside)
        with create_in(prepared, name=where.given, style=style) as daf, daf.batch():
            yield daf
        if _identity(target) != checked:
            _check_replaceable(where, target)
        _put_in_place(aside, target, where, if_exists=if_exists)
        if where.kind == "hdf5":  # those of what was replaced
            shutil.rmtree(indexes_beside(target), ignore_errors=True)


def _check_empty(daf: DafWriter, where: DafPath) -> None:
    """Refuse a data set of several that has something already."""
    if daf.axes_set() or daf.scalars_set():
        raise errors.ExistsError(
            f"{where.given} exists already, and one data set of several in a file is not replaced; "
            "name another one after #/"
        )


def _check_replaceable(where: DafPath, target: Path) -> tuple[int, int, int] | None:
    """Refuse to replace what is no data set; return what tells it from any other."""
    if target.exists():
        open_daf(where.given).close()
    return _identity(target)


def _identity(target: Path) -> tuple[int, int, int] | None:
    """Return inode and time of what is at a path; file systems give a free inode to the next."""
    try:
        status = target.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _put_in_place(aside: Path, target: Path, where: DafPath, *, if_exists: IfExists) -> None:
    try:
        if where.is_archive and if_exists == "replace":
            replace_archive(aside, target, where.given)
        else:
            put_in_place(aside, target, replace=if_exists == "replace")
    except FileExistsError:
        raise errors.with_remedy(
            errors.ExistsError(
                f"{where.given}: another program has put something here while this was being made; "
                "that was left alone, and this was discarded"
            ),
            errors.Remedy("name another path, or pass ", errors.REPLACE, " to replace it"),
        ) from None


def check_apart(base: DafReader, overlay: str | Path | DafWriter) -> None:
    """Refuse an overlay that is its base, in it or around it, by whichever path.

    Raises
    ------
    InvalidInputError
        It is one of these; or the sidecar of a file, of which a refresh would discard it.
    """
    if isinstance(overlay, DafWriter):
        if any(member.tree is overlay.tree for member in stored_members(base)):
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
    for given, theirs, group in _places_of(base):
        mine, my_group = place_of(path)
        if mine == theirs and not (my_group != group and my_group and group):
            raise _not_apart(path, "is the data set", given)
        if theirs in mine.parents:
            raise _not_apart(path, "lies within the data set", given)
        if mine in theirs.parents:
            raise _not_apart(path, "has in it the data set", given)


def is_stored_at(daf: DafReader, path: str | Path) -> bool:
    """Return whether a file or directory is one that a data set is read from, by whichever path.

    Of a chain or a view, those of its members count.

    >>> from daf_storage import MemoryDaf
    >>> is_stored_at(MemoryDaf(), "atlas.h5ad")
    False
    """
    return any(_is_same_file(path, container) for _, container, _ in _places_of(daf))


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
    around = place_of(os.fspath(path))[0].parents
    for given, container, _ in _places_of(daf):
        if container in around:
            raise errors.InvalidInputError(
                f"cannot write {str(path)!r}: this lies within the data set {given} that "
                "is read, whose directory is for its own files; name a path beside it"
            )


def _places_of(daf: DafReader) -> Iterator[tuple[str, Path, str]]:
    """Yield the paths of the local data sets that one consists of, and their places."""
    for member in stored_members(daf):
        if member.origin is not None and not is_remote(member.origin.path):
            yield member.origin.path, *place_of(member.origin.path)


def _is_same_file(path: str | Path, container: Path) -> bool:
    try:
        return container.samefile(path)
    except (OSError, ValueError):  # nothing that could be lost, or it was moved away
        return False


def place_of(path: str) -> tuple[Path, str]:
    """Return the file or directory that a path leads to, and the group in it."""
    container, _, group = path.partition("#/")
    return Path(os.path.realpath(container)), group.strip("/")


def _not_apart(overlay: str, relation: str, base: str) -> errors.InvalidInputError:
    return errors.InvalidInputError(
        f"{overlay}: the overlay {relation} that it is on top of, {base}, which is only read; name "
        "another path for the overlay, beside it"
    )
