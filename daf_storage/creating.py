"""Making a whole data set at once: it appears when it is complete, or not at all."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from daf_storage import errors
from daf_storage.opening import check_style, open_daf
from daf_storage.packing import Packing
from daf_storage.paths import DafPath, parse_path
from daf_storage.stores import replace_archive, replace_directory
from daf_storage.trees import ZarrVersion
from daf_storage.writer import DafWriter


@contextmanager
def new_data_set(
    path: str | Path,
    *,
    overwrite: bool,
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
) -> Iterator[DafWriter]:
    """Hand out an empty data set that is put in its place when the block ends well.

    A data set within an archive or a file of several is made in place: an archive has all of it or
    nothing when the block ends.

    Raises
    ------
    ExistsError
        There is something at the path, and ``overwrite`` is false.
    NotADafError
        What is there is no data set, so it is not replaced.
    """
    where = parse_path(path)
    style: Any = {"zarr_format": zarr_format, "packed": packed}
    check_style(where.given, zarr_format, packed)
    if where.kind == "hdf5" and zarr_format is not None:
        raise errors.InvalidInputError(f"{where.given}: an HDF5 file has no zarr_format")
    if where.group:
        with open_daf(where.given, "w+", **style) as daf, _writer(daf, where).batch():
            yield _writer(daf, where)
        return
    target = where.container
    if target.exists() and not overwrite:
        raise errors.ExistsError(
            f"{where.given} exists already; ask to overwrite it, or name another path"
        )
    if not target.parent.is_dir():
        raise errors.SourceNotFoundError(
            f"cannot create {where.given}: no such directory: {target.parent}"
        )
    if target.exists():
        open_daf(target).close()
    aside = target.with_name(f".{uuid.uuid4().hex}.{target.name}")
    try:
        with open_daf(aside, "w", name=where.given, **style) as daf, _writer(daf, where).batch():
            yield _writer(daf, where)
        _replace(aside, where)
    finally:
        if where.kind == "directory":
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.unlink(missing_ok=True)


def _writer(daf: object, where: DafPath) -> DafWriter:
    if not isinstance(daf, DafWriter):
        raise errors.ReadOnlyError(f"{where.given} cannot be written")
    return daf


def _replace(aside: Path, where: DafPath) -> None:
    match where.kind:
        case "archive":
            replace_archive(aside, where.container, where.given)
        case "hdf5":
            os.replace(aside, where.container)
        case "directory":
            replace_directory(aside, where.container)
