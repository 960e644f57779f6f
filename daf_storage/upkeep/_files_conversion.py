"""Between the two formats of directories of the family: plain files, and Zarr."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from daf_storage import errors
from daf_storage.base import IfExists, Packing, ShowProgress
from daf_storage.opening import DafPath, parse_path
from daf_storage.stores import is_remote
from daf_storage.trees import ZarrVersion
from daf_storage.upkeep._copy import convert


def files_to_zarr(
    files_path: str | Path,
    zarr_path: str | Path,
    *,
    if_exists: IfExists = "error",
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
    link: bool = True,
    progress: ShowProgress = "auto",
) -> None:
    """Make a Zarr directory of a directory of plain files; see `convert`.

    Parameters
    ----------
    files_path
        A `FilesDaf`.
    zarr_path
        ``something.daf.zarr``, where nothing is yet.
    link
        Whether the two share the files of numbers, by hard links, as in the reference
        implementation: that takes no time and no space.  No writer here changes a file in place,
        but another program might.  Across file systems they are copied.
    if_exists, zarr_format, packed, progress
        As for `convert`.  What is packed is decompressed, and packed again if asked for.

    Raises
    ------
    InvalidInputError
        One of the paths is that of another format, or of an archive.
    SourceNotFoundError, ExistsError
        There is no source, or something at the destination.

    Examples
    --------
    >>> import tempfile, daf_storage
    >>> folder = tempfile.mkdtemp()
    >>> daf_storage.FilesDaf(f"{folder}/x.daf", "w").add_axis("cell", ["A", "B"])
    >>> files_to_zarr(f"{folder}/x.daf", f"{folder}/x.daf.zarr")
    >>> daf_storage.open_daf(f"{folder}/x.daf.zarr").axis_length("cell")
    2
    """
    _check(files_path, "files")
    _check(zarr_path, "zarr")
    convert(
        files_path,
        zarr_path,
        if_exists=if_exists,
        zarr_format=zarr_format,
        packed=packed,
        link=link,
        progress=progress,
    )


def zarr_to_files(
    zarr_path: str | Path,
    files_path: str | Path,
    *,
    if_exists: IfExists = "error",
    packed: bool | Packing = False,
    link: bool = True,
    progress: ShowProgress = "auto",
) -> None:
    """Make a directory of plain files of a Zarr directory; see `files_to_zarr`.

    Raises
    ------
    UnsupportedInputError
        A string has a line break in it, for which plain files have no place.

    Examples
    --------
    >>> import pathlib, tempfile, daf_storage
    >>> folder = tempfile.mkdtemp()
    >>> daf_storage.ZarrDaf(f"{folder}/x.daf.zarr", "w").add_axis("cell", ["A", "B"])
    >>> zarr_to_files(f"{folder}/x.daf.zarr", f"{folder}/x.daf")
    >>> pathlib.Path(f"{folder}/x.daf/axes/cell.txt").read_text().split()
    ['A', 'B']
    """
    _check(zarr_path, "zarr")
    _check(files_path, "files")
    convert(zarr_path, files_path, if_exists=if_exists, packed=packed, link=link, progress=progress)


def _check(path: str | Path, form: Literal["files", "zarr"]) -> None:
    """Refuse what is no directory of this format."""
    where: DafPath | None = None if is_remote(path) else parse_path(path)
    if where is None or where.form != form or where.kind != "directory":
        wanted = "X.daf, plain files" if form == "files" else "X.daf.zarr, a Zarr directory"
        raise errors.InvalidInputError(
            f"{path}: expected the path of {wanted}; convert() takes all formats, archives and URLs"
        )
