"""Paths of data sets, parsed.  Pure; rules: docs/reference/format.md, "paths"."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from daf_storage import errors
from daf_storage.base import name_problem

DIRECTORY_SUFFIX: Final = ".daf.zarr"
ARCHIVE_SUFFIX: Final = ".daf.zarr.zip"
SHARED_ARCHIVE_SUFFIX: Final = ".dafs.zarr.zip"

HDF5_SUFFIX: Final = ".h5df"
SHARED_HDF5_SUFFIX: Final = ".h5dfs"
OTHER_HDF5_SUFFIXES: Final = (".h5", ".hdf5")
"""Suffixes of HDF5 files that may hold anything, a data set at the root or groups of them."""

ContainerKind: TypeAlias = Literal["directory", "archive", "hdf5"]
"""What holds a data set: a directory, a ZIP archive, or an HDF5 file."""

_EXPECTED = (
    f"<stem>{DIRECTORY_SUFFIX}, <stem>{ARCHIVE_SUFFIX}, <stem>{SHARED_ARCHIVE_SUFFIX}#/<group>, "
    f"<stem>{HDF5_SUFFIX}, <stem>{SHARED_HDF5_SUFFIX}#/<group>, <stem>.h5, <stem>.hdf5"
)


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
        It is neither a string nor a path; ``other`` is what may be passed instead of one.
    """
    given = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if isinstance(given, str):
        return given
    shown = "an open data set" if hasattr(path, "axes_set") else repr(path)
    if isinstance(path, bytes):
        shown += "; decode it with os.fsdecode"
    raise errors.InvalidInputError(
        f"not the path of a data set: {shown}; pass a str or a pathlib.Path, or {other}"
    )


def parse_path(path: str | Path) -> DafPath:
    """Return what a path means.

    >>> parse_path("x.dafs.zarr.zip#/day/1").group
    'day/1'

    Raises
    ------
    InvalidInputError
        It has none of the forms of a data set's path.
    """
    given = path_input(path)
    shared: tuple[tuple[str, ContainerKind], ...] = (
        (SHARED_ARCHIVE_SUFFIX, "archive"),
        (SHARED_HDF5_SUFFIX, "hdf5"),
        *((suffix, "hdf5") for suffix in OTHER_HDF5_SUFFIXES),
    )
    for suffix, kind in shared:
        container, separator, group = given.partition(f"{suffix}#/")
        if separator:
            return _parse_group(given, container + suffix, kind, group)
    plain = given.rstrip("/")
    single: tuple[tuple[str, ContainerKind], ...] = (
        (DIRECTORY_SUFFIX, "directory"),
        (ARCHIVE_SUFFIX, "archive"),
        (HDF5_SUFFIX, "hdf5"),
        *((suffix, "hdf5") for suffix in OTHER_HDF5_SUFFIXES),
    )
    for suffix, kind in single:
        if plain.endswith(suffix):
            return DafPath(given, Path(os.path.abspath(plain)), kind, "")
    if f"{ARCHIVE_SUFFIX}#" in given:
        raise errors.InvalidInputError(
            f"can't address a sub-daf in a singular ZarrDaf path: {given}; an archive of several "
            f"data sets is called <stem>{SHARED_ARCHIVE_SUFFIX}, and one of them "
            f"<stem>{SHARED_ARCHIVE_SUFFIX}#/<group>"
        )
    if plain.rstrip("#").endswith((SHARED_ARCHIVE_SUFFIX, SHARED_HDF5_SUFFIX)):
        raise errors.InvalidInputError(
            f"missing '#/<group>' in plural path: {given}; say which of the data sets"
        )
    for suffix, _ in shared:
        container, separator, group = given.partition(f"{suffix}#")
        if separator:
            raise errors.InvalidInputError(
                f"can't parse as path of a data set: {given}; a group is written with a slash: "
                f"{container}{suffix}#/{group}"
            )
    hint = ""
    if given.endswith(".h5ad"):
        hint = f"; turn an h5ad file into one with: daf import {given} OUT{DIRECTORY_SUFFIX}"
    raise errors.InvalidInputError(
        f"can't parse as path of a data set: {given}; expected one of: {_EXPECTED}{hint}"
    )


def _parse_group(given: str, container: str, kind: ContainerKind, group: str) -> DafPath:
    name = group.strip("/")
    if not name:
        raise errors.InvalidInputError(f"empty group name after '#/' in path: {given}")
    for part in name.split("/"):
        problem = name_problem(part)
        if problem is not None:
            raise errors.InvalidNameError(f"{given}: the group {part!r} {problem}")
    return DafPath(given, Path(os.path.abspath(container)), kind, name)
