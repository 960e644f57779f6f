"""Create a whole data set atomically: it appears when it is complete, or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from daf_storage import errors
from daf_storage.base import IfExists, Packing, check_if_exists
from daf_storage.data import DafWriter
from daf_storage.opening._open import create_in, open_daf, style_at
from daf_storage.opening._paths import DafPath, parse_path
from daf_storage.stores import follow_links, put_in_place, replace_archive, scratch
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
