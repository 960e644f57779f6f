"""Data sets that others wrote, opened in place for reading: AnnData in HDF5 and in Zarr."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.anndata_rules import AnnDataWarning
from daf_storage.base import OpenMode, optional_import
from daf_storage.data import DafReader, layout
from daf_storage.opening import _archives as archives
from daf_storage.opening import _hdf5_files as hdf5_files
from daf_storage.opening._paths import H5AD_SUFFIX, ContainerKind, DafPath, parse_path, path_input
from daf_storage.opening._skeleton import check_groups, reader_name
from daf_storage.opening._zarr_directories import siblings
from daf_storage.sidecars import SIDECAR_SUFFIX, SidecarTree
from daf_storage.stores import DirectoryStore
from daf_storage.trees import Hdf5Tree, Tree, ZarrTree, check_contained, h5py

if TYPE_CHECKING:
    from daf_storage import attached
else:
    attached = lazy_module("daf_storage.attached")

_ZARR_SUFFIX: Final = ".zarr"
_ZIP_SUFFIX: Final = ".zarr.zip"
_OF_DAF: Final = (".daf", ".dafs")


def foreign_path(path: str | Path) -> DafPath | None:
    """Return what a path means whose suffix is none of Daf's, but one that AnnData are stored by.

    >>> foreign_path("a/atlas.h5ad").kind, foreign_path("x.daf.zarr") is None
    ('hdf5', True)
    """
    given = path_input(path)
    plain = given.rstrip("/")
    container = Path(os.path.abspath(plain))
    if plain.endswith(H5AD_SUFFIX):
        return DafPath(given, container, "hdf5", "")
    for suffix in (_ZIP_SUFFIX, _ZARR_SUFFIX):
        if plain.endswith(suffix) and not plain.removesuffix(suffix).endswith(_OF_DAF):
            kind: ContainerKind = "archive" if suffix == _ZIP_SUFFIX else "directory"
            return DafPath(given, container, kind, "")
    return None


def read_path(path: str | Path) -> DafPath:
    """Return what the path of a data set that is read means: Daf's, or an AnnData.

    Raises
    ------
    InvalidInputError
        It has none of their forms.
    """
    return foreign_path(path) or parse_path(path)


def open_foreign(
    where: DafPath,
    mode: OpenMode,
    name: str | None,
    sidecar: str | Path | Literal[False] | None = None,
    names: Mapping[str, Any] = MappingProxyType({}),
) -> DafReader:
    """Open an AnnData in place; or a data set of Daf under such a name.

    An AnnData has the sidecar that is given, or the one beside it, if there is one that fits it.
    The names of its axes, ``names``, are those of `AnnDataTree`; the sidecar beside it has others.

    Raises
    ------
    ReadOnlyError
        It is an AnnData, and was to be written.
    NotADafError
        It is neither.
    InvalidInputError
        A data set that is written has another suffix.
    """
    if mode != "r":
        if _holds_anndata(where):
            raise written_in_place(where.given, mode)
        parse_path(where.given)  # says which suffixes there are
    if sidecar and not os.fspath(sidecar).endswith(SIDECAR_SUFFIX):
        raise errors.InvalidInputError(
            f"{sidecar}: the path of a sidecar ends in {SIDECAR_SUFFIX}: it is a directory of Daf"
        )
    if not where.container.exists():
        raise errors.SourceNotFoundError(
            f"no such file or directory: {where.container}{_no_pattern(where.given)}"
            f"{siblings(where.container)}"
        )
    tree, release = _tree_of(where)
    try:
        readable = readable_tree(tree)
        is_renamed = any(name is not None for name in names.values())
        if is_renamed:
            readable = renamed_tree(readable, names)
        is_beside = sidecar is None and not is_renamed
        if readable is not tree and (is_beside or sidecar):
            place = Path(os.path.abspath(sidecar)) if sidecar else None
            readable = SidecarTree(readable, where.container, place)
        return DafReader(readable, name=reader_name(readable, name, where.full), on_close=release)
    except BaseException:
        if release is not None:
            release()
        raise


def _no_pattern(given: str) -> str:
    """Say where a path may be a pattern, if this one looks like it."""
    if not any(character in given for character in "*?["):
        return ""
    return (
        "; a pattern is taken by connect() and the commands info, sql, extract, profile and "
        "concat: name one data set"
    )


def _holds_anndata(where: DafPath) -> bool:
    """Return whether there is an AnnData at a path."""
    release: Callable[[], None] | None = None
    try:
        tree, release = _tree_of(where)
        return attached.is_anndata(tree)
    except errors.DafError:
        return False
    finally:
        if release is not None:
            release()


def _tree_of(where: DafPath) -> tuple[Tree, Callable[[], None] | None]:
    """Return the tree of what is at a path, and how to let go of it."""
    if where.kind == "directory":
        if not where.container.is_dir():
            raise errors.NotADafError(
                f"{where.given}: there is a file of this name, not a directory"
            )
        if not os.access(where.container, os.R_OK | os.X_OK):
            raise errors.ReadOnlyError(f"{where.given}: no permission to read this directory")
        return ZarrTree(DirectoryStore(where.container, location=where.given)), None
    if where.kind == "hdf5":
        optional_import("h5py", extra="anndata")  # what is in the file may need anndata as well
        file = hdf5_files.lease(where.container, "r", where.given)
        return Hdf5Tree(file.resource), file.release
    if not where.container.is_file():
        raise errors.NotADafError(f"{where.given}: this is not a regular file")
    archive = archives.lease(where.container, "r", where.given)
    return ZarrTree(archive.resource), archive.release


@contextmanager
def anndata_at(path: str | Path, **options: Any) -> Iterator[attached.AnnDataTree]:
    """Hand out an AnnData as it is presented in place, to be copied; see `AnnDataTree`.

    Raises
    ------
    SourceNotFoundError
        There is nothing.
    FormatError
        It is no AnnData.
    UnsupportedDataError
        Something in it is in another file, which is not read.
    """
    where = foreign_path(path) or DafPath(path_input(path), Path(path), "hdf5", "")
    is_file = where.kind == "hdf5"
    optional_import("anndata", extra="anndata")
    if not where.container.exists():
        raise errors.SourceNotFoundError(f"no such file: {path}")
    if is_file and (where.container.is_dir() or not h5py().is_hdf5(where.container)):
        raise errors.FormatError(
            f"{path}: not an h5ad file: it is not HDF5; an h5ad is written by AnnData.write_h5ad()"
        )
    tree, release = _tree_of(where)
    try:
        if layout.is_daf(tree):
            raise errors.FormatError(
                f"{path}: this is a data set of Daf, not an AnnData; copy it with convert() (on "
                f"the command line: daf convert {path} OUT)"
            )
        if isinstance(tree, Hdf5Tree):
            with tree.element("") as root:
                check_contained(root.file, what=where.given)
        missing = [part for part in ("obs", "var") if tree.kind(part) is None]
        if missing:
            kind = "an h5ad file" if is_file else "an AnnData"
            raise errors.FormatError(
                f"{path}: not {kind}: it has no {' and no '.join(missing)}; "
                f"it has {', '.join(sorted(tree.children(''))) or 'nothing'}"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AnnDataWarning)  # whoever copies it names what is lost
            found = attached.AnnDataTree(tree, **options)
        yield found
    finally:
        if release is not None:
            release()


def readable_tree(tree: Tree) -> Tree:
    """Return the tree of a data set to be read: itself if it is Daf's, else that of an AnnData.

    Raises
    ------
    NotADafError, VersionError
        It is neither, or of a version that this code does not know.
    """
    if not layout.is_daf(tree):
        if attached.is_anndata(tree):
            return attached.AnnDataTree(tree)
        if not isinstance(tree, Hdf5Tree) and tree.kind("") != "group":
            raise errors.NotADafError(
                f"not a zarr group: {tree.location}; it has no .zgroup or zarr.json"
            )
        raise errors.NotADafError(
            f"{tree.location}: not a daf data set: it has no array named 'daf'; and no AnnData, "
            "which is a group with obs and var"
        )
    layout.check_version(tree)
    if isinstance(tree, Hdf5Tree):
        check_groups(tree)
    return tree


def renamed_tree(tree: Tree, names: Mapping[str, Any]) -> Tree:
    """Return the tree of an AnnData whose axes have other names.

    Raises
    ------
    InvalidInputError
        It is a data set of Daf, whose axes have names.
    """
    if isinstance(tree, attached.AnnDataTree):
        return attached.AnnDataTree(tree.base, **names)
    axes = ", ".join(sorted(tree.children(layout.AXES))) or "no axes"
    given = " and ".join(f"{key}={name!r}" for key, name in names.items() if name is not None)
    raise errors.InvalidInputError(
        f"{tree.location}: {given} names the axes of an AnnData that is read in place, and this is "
        f"a data set of Daf, which has the axes {axes}; leave it out, or rename axes by view()"
    )


def refuse_writing(tree: Tree, mode: OpenMode) -> None:
    """Raise if an AnnData is to be written."""
    if mode != "r" and not layout.is_daf(tree) and attached.is_anndata(tree):
        raise written_in_place(tree.location, mode)


def written_in_place(location: str, mode: OpenMode) -> errors.ReadOnlyError:
    """Say that an AnnData is not written."""
    return errors.ReadOnlyError(
        f"{location}: an AnnData is read in place and never written, so it cannot be opened with "
        f"mode {mode!r}; import it into a data set of its own (daf import {location} "
        f'OUT.daf.zarr), or write beside it: connect({location!r}, overlay="mine.daf.zarr")'
    )
