"""Paths of data sets, parsed; rules: docs/reference/format.md, "paths".

Pure, but that a directory of any name is looked at: it is a FilesDaf if it is marked as one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from daf_storage import errors
from daf_storage.base import name_problem
from daf_storage.files_daf import DAF_FILE

DIRECTORY_SUFFIX: Final = ".daf.zarr"
ARCHIVE_SUFFIX: Final = ".daf.zarr.zip"
SHARED_ARCHIVE_SUFFIX: Final = ".dafs.zarr.zip"

FILES_SUFFIX: Final = ".daf"
FILES_ARCHIVE_SUFFIX: Final = ".daf.zip"
SHARED_FILES_ARCHIVE_SUFFIX: Final = ".dafs.zip"

HDF5_SUFFIX: Final = ".h5df"
SHARED_HDF5_SUFFIX: Final = ".h5dfs"
H5AD_SUFFIX: Final = ".h5ad"
"""The suffix of an AnnData in HDF5."""
OTHER_HDF5_SUFFIXES: Final = (".h5", ".hdf5")
"""Suffixes of HDF5 files that may hold anything, a data set at the root or groups of them."""

ContainerKind: TypeAlias = Literal["directory", "archive", "hdf5"]
"""What holds a data set: a directory, a ZIP archive, or an HDF5 file."""

Form: TypeAlias = Literal["zarr", "files", "hdf5"]
"""How a data set is stored in its container: as Zarr, as plain files, or as HDF5."""

_ZARR_SUFFIX: Final = ".zarr"
_ZIP_SUFFIX: Final = ".zarr.zip"
_OF_DAF: Final = (".daf", ".dafs")

_EXPECTED = (
    f"<stem>{DIRECTORY_SUFFIX}, <stem>{ARCHIVE_SUFFIX}, <stem>{SHARED_ARCHIVE_SUFFIX}#/<group>, "
    f"<stem>{FILES_SUFFIX}, <stem>{FILES_ARCHIVE_SUFFIX}, "
    f"<stem>{SHARED_FILES_ARCHIVE_SUFFIX}#/<group>, "
    f"<stem>{HDF5_SUFFIX}, <stem>{SHARED_HDF5_SUFFIX}#/<group>, <stem>.h5, <stem>.hdf5"
)

_ANNDATA = "<stem>.h5ad, <stem>.zarr, <stem>.zarr.zip"

_HDF5: Final[tuple[ContainerKind, Form]] = ("hdf5", "hdf5")
_SHARED: Final[Mapping[str, tuple[ContainerKind, Form]]] = {
    SHARED_ARCHIVE_SUFFIX: ("archive", "zarr"),
    SHARED_FILES_ARCHIVE_SUFFIX: ("archive", "files"),
    SHARED_HDF5_SUFFIX: _HDF5,
    **dict.fromkeys(OTHER_HDF5_SUFFIXES, _HDF5),
}
_SINGLE: Final[Mapping[str, tuple[ContainerKind, Form]]] = {
    DIRECTORY_SUFFIX: ("directory", "zarr"),
    ARCHIVE_SUFFIX: ("archive", "zarr"),
    FILES_ARCHIVE_SUFFIX: ("archive", "files"),
    FILES_SUFFIX: ("directory", "files"),
    HDF5_SUFFIX: _HDF5,
    **dict.fromkeys(OTHER_HDF5_SUFFIXES, _HDF5),
}
SUFFIXES: Final = tuple(
    suffix for suffix in (*_SINGLE, *_SHARED) if suffix not in OTHER_HDF5_SUFFIXES
)
"""The suffixes of files and directories that are data sets."""
_PLURALS: Final = {
    ARCHIVE_SUFFIX: SHARED_ARCHIVE_SUFFIX,
    FILES_ARCHIVE_SUFFIX: SHARED_FILES_ARCHIVE_SUFFIX,
}


@dataclass(frozen=True, slots=True)
class DafPath:
    """Where a data set is."""

    given: str
    """The path as the caller wrote it, for messages."""
    container: Path
    """The directory or the archive, as an absolute path."""
    kind: ContainerKind
    """What the container is."""
    group: str
    """The group within an archive or file; empty for all of it."""
    form: Form = "zarr"
    """How the data set is stored in the container."""
    is_foreign: bool = False
    """Whether its suffix is that of an AnnData, which is read in place."""

    @property
    def is_files(self) -> bool:
        """Whether it is stored as plain files."""
        return self.form == "files"

    @property
    def is_archive(self) -> bool:
        """Whether the container is a ZIP archive."""
        return self.kind == "archive"

    @property
    def full(self) -> str:
        """The absolute path, with the group."""
        return f"{self.container}#/{self.group}" if self.group else str(self.container)

    @property
    def given_container(self) -> str:
        """The container as the caller wrote it."""
        return self.given.split("#/", 1)[0] if self.group else self.given


def path_input(path: object, other: str = "a mutable mapping of keys to bytes") -> str:
    """Return a path as a string.

    >>> path_input(Path("x.daf.zarr"))
    'x.daf.zarr'

    Raises
    ------
    InvalidInputError
        It is neither a string nor a path; ``other`` is what may be passed instead of one.  Or a
        NUL character is in it.
    """
    given = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if isinstance(given, str) and "\0" in given:
        raise errors.InvalidInputError(
            f"not the path of a data set: {given!r}; no path has a NUL character in it"
        )
    if isinstance(given, str):
        return given
    shown = "an open data set" if hasattr(path, "axes_set") else repr(path)
    if isinstance(path, bytes):
        shown += "; decode it with os.fsdecode"
    raise errors.InvalidInputError(
        f"not the path of a data set: {shown}; pass a str or a pathlib.Path, or {other}"
    )


def parse_path(path: str | Path, *, any_directory: bool = False) -> DafPath:
    """Return what a path means.

    Parameters
    ----------
    any_directory
        Whether a path that has no other form is that of a FilesDaf, also where nothing is there.

    >>> parse_path("x.dafs.zarr.zip#/day/1").group
    'day/1'

    Raises
    ------
    InvalidInputError
        It has none of the forms of a data set's path.
    """
    given = path_input(path)
    for suffix, (kind, form) in _SHARED.items():
        container, separator, group = given.partition(f"{suffix}#/")
        if separator:
            return _parse_group(given, container + suffix, kind, form, group)
    plain = given.rstrip("/")
    for suffix, (kind, form) in _SINGLE.items():
        if plain.endswith(suffix):
            return DafPath(given, Path(os.path.abspath(plain)), kind, "", form)
    is_plain = any_directory and "#" not in given and not plain.endswith((".zip", ".zarr"))
    with errors.os_errors(given):  # a name may be too long to look for it
        is_files = is_plain or Path(plain, DAF_FILE).is_file()  # it may have any name
    if is_files:
        return DafPath(given, Path(os.path.abspath(plain)), "directory", "", "files")
    _refuse_group(given, plain)
    hint = ""
    if given.endswith(".h5ad"):
        hint = f"; turn an h5ad file into one with: daf import {given} OUT{DIRECTORY_SUFFIX}"
        if not Path(given).exists():  # it was to be written
            hint = (
                f"; write one of these, and make the h5ad of it: daf export OUT{DIRECTORY_SUFFIX} "
                f"{given}"
            )
    elif Path(plain or given).is_dir():
        hint = f"; it is a directory: a pattern takes what is in it, as {plain}/*.h5ad"
    raise errors.InvalidInputError(
        f"can't parse as path of a data set: {given}; expected one of: {_EXPECTED}; "
        f"to be read also an AnnData, {_ANNDATA}{hint}"
    )


def _refuse_group(given: str, plain: str) -> None:
    """Raise if a group is named where there are none, or not named where there are several."""
    for single, several in _PLURALS.items():
        if f"{single}#" in given:
            name = "ZarrDaf" if single == ARCHIVE_SUFFIX else "FilesDaf"
            raise errors.InvalidInputError(
                f"can't address a sub-daf in a singular {name} path: {given}; an archive of "
                f"several data sets is called <stem>{several}, and one of them "
                f"<stem>{several}#/<group>"
            )
    if plain.rstrip("#").endswith((*_PLURALS.values(), SHARED_HDF5_SUFFIX)):
        raise errors.InvalidInputError(
            f"missing '#/<group>' in plural path: {given}; say which of the data sets"
        )
    for suffix in _SHARED:
        container, separator, group = given.partition(f"{suffix}#")
        if separator:
            raise errors.InvalidInputError(
                f"can't parse as path of a data set: {given}; a group is written with a slash: "
                f"{container}{suffix}#/{group}"
            )


def _parse_group(
    given: str, container: str, kind: ContainerKind, form: Form, group: str
) -> DafPath:
    name = group.strip("/")
    if not name:
        raise errors.InvalidInputError(f"empty group name after '#/' in path: {given}")
    for part in name.split("/"):
        problem = name_problem(part)
        if problem is not None:
            raise errors.InvalidNameError(f"{given}: the group {part!r} {problem}")
    return DafPath(given, Path(os.path.abspath(container)), kind, name, form)


def foreign_path(path: str | Path) -> DafPath | None:
    """Return what a path means whose suffix is none of Daf's, but one that AnnData are stored by.

    >>> foreign_path("a/atlas.h5ad").kind, foreign_path("x.daf.zarr") is None
    ('hdf5', True)
    """
    given = path_input(path)
    plain = given.rstrip("/")
    container = Path(os.path.abspath(plain))
    if plain.endswith(H5AD_SUFFIX):
        return DafPath(given, container, "hdf5", "", "hdf5", is_foreign=True)
    for suffix in (_ZIP_SUFFIX, _ZARR_SUFFIX):
        if plain.endswith(suffix) and not plain.removesuffix(suffix).endswith(_OF_DAF):
            kind: ContainerKind = "archive" if suffix == _ZIP_SUFFIX else "directory"
            return DafPath(given, container, kind, "", is_foreign=True)
    return None


def read_path(path: str | Path) -> DafPath:
    """Return what the path of a data set that is read means: Daf's, or an AnnData.

    Raises
    ------
    InvalidInputError
        It has none of their forms.
    """
    return foreign_path(path) or parse_path(path)
