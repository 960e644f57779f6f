"""From a path and a mode to a reader or a writer.

A path is parsed once: it names a container and a form, from which a tree is got.  Rules:
docs/reference/format.md, "paths, modes and names".

A data set on top of others is opened as a chain: the scalar ``base_daf_repository`` is the path of
the base, relative to the directory in which the data set is, so that both can be moved together.
Source: docs/reference/format.md, "Chains".  A new one is made apart from all that is read.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, Unpack, cast, overload
from urllib.parse import urljoin

from daf_storage import errors, stores
from daf_storage._lazy import lazy_module
from daf_storage.base import (
    IfExists,
    OpenMode,
    Packing,
    check_choice,
    check_mode,
    is_remote,
    optional_import,
    unique_name,
)
from daf_storage.combined import ChainReader, ChainWriter, ViewReader, parse_view, stored_members
from daf_storage.data import DafReader, DafWriter, Origin, check_reader
from daf_storage.opening._containers import (
    Style,
    form_of,
    groups_of,
    read_tree,
    readable_tree,
    refuse_names,
    style_of,
    written_in_place,
    written_tree,
)
from daf_storage.opening._paths import (
    SHARED_ARCHIVES,
    DafPath,
    in_unicode,
    other_kind_at,
    parse_path,
    path_input,
    siblings,
)
from daf_storage.sidecars import (
    RemoteSource,
    SidecarTree,
    is_sidecar,
    sidecar_beside,
    sidecar_path,
)
from daf_storage.stores import (
    MappingStore,
    MemoryStore,
    MmapZipStore,
    follow_links,
    put_in_place,
    replace_archive,
    scratch,
    shown_url,
)
from daf_storage.trees import Hdf5Tree, Tree, ZarrVersion, check_contained, indexes_beside

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from daf_storage import anndata
    from daf_storage.anndata import AnnDataTree
else:
    anndata = lazy_module("daf_storage.anndata")


_Read: TypeAlias = Literal["r"]
_WriteMode: TypeAlias = Literal["r+", "w+", "w"]
_Sidecar: TypeAlias = str | Path | Literal[False] | None
_PathOrStore: TypeAlias = "str | Path | MutableMapping[str, Any] | Store"


class _Named(TypedDict, total=False):
    name: str | None


class _How(_Named, total=False):
    packed: bool | Packing


class _ZarrHow(_How, total=False):
    zarr_format: ZarrVersion | None


class _AnyHow(_ZarrHow, total=False):
    sidecar: _Sidecar
    obs_is: str | None
    var_is: str | None


@overload
def open_daf(path: _PathOrStore, mode: _Read = "r", **how: Unpack[_AnyHow]) -> DafReader: ...
@overload
def open_daf(path: _PathOrStore, mode: _WriteMode, **how: Unpack[_AnyHow]) -> DafWriter: ...
def open_daf(  # noqa: PLR0913 - how each format is opened
    path: _PathOrStore,
    mode: OpenMode = "r",
    *,
    name: str | None = None,
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
    sidecar: _Sidecar = None,
    obs_is: str | None = None,
    var_is: str | None = None,
) -> DafReader:
    """Open a Daf data set; its format follows from the path.

    Parameters
    ----------
    path
        ``something.daf.zarr``, a Zarr directory; ``something.daf.zarr.zip``, the same in one
        ZIP archive; ``something.dafs.zarr.zip#/group``, one of several data sets in an archive;
        ``something.daf``, a directory of plain files (`FilesDaf`), or any directory that is marked
        as one by a ``daf.json``; ``something.daf.zip`` and ``something.dafs.zip#/group``, the
        same in an archive; ``something.h5df``, an HDF5 file; ``something.h5dfs#/group``, one of
        several in a file.  Those of Zarr and of plain files may be URLs too, for reading:
        ``https://...``, ``s3://...``, ``gs://...``.
        ``something.h5`` and ``something.hdf5`` are HDF5 files too, with or without ``#/group``.
        An AnnData is read in place, whatever the suffix: ``atlas.h5ad``, ``atlas.zarr``,
        ``atlas.zarr.zip``; and so is a MuData, ``pbmc.h5mu``, the table of a SpatialData, and a
        matrix of Cell Ranger, ``filtered_feature_bc_matrix.h5``, of several genomes with
        ``#/genome`` behind it.
        A mutable mapping of keys to bytes is a Zarr store (`MappingStore`), and so is a store of
        zarr-python (``zarr.storage.MemoryStore()``).
    mode
        ``r`` to read, ``r+`` to read and write, ``w+`` to create it if missing, ``w`` to create
        it or empty it first.
    name
        Its name; by default its scalar ``name``, else its full path.
    zarr_format
        The version of Zarr in which to create it, 2 or 3; 2 by default, 3 if it is packed.
    packed
        Whether to cut what is written into small chunks and compress them, and how; not in Zarr
        v2.  What is filled in place is not packed.
    sidecar
        Where the sidecar of an AnnData is that is read in place, see `write_sidecar`; by default
        beside it.  False if none is to be used.
    obs_is, var_is
        What the axes of an AnnData that is read in place are called; by default what it says of
        itself, else ``obs`` and ``var``.  Under other names, a sidecar is used only if it is named.

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
    InUseError
        It is an archive that is open for writing in another process, or, to be opened for
        writing, for reading in this one.

    Examples
    --------
    >>> import daf_storage, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> with daf_storage.open_daf(folder / "new.daf.zarr", "w") as writer:
    ...     writer.add_axis("cell", ["A", "B"], vectors={"age": [30, 60]})
    >>> daf = daf_storage.open_daf(folder / "new.daf.zarr")
    >>> daf.get_np_vector("cell", "age").tolist()
    [30, 60]
    """
    where = _place(path, mode, partial(parse_path, is_read=True))
    style = style_of(where, mode, zarr_format, packed)
    if sidecar and mode != "r":
        raise errors.InvalidInputError(
            f"{path}: a sidecar belongs to an AnnData that is read in place; leave sidecar= out"
        )
    names = {"obs_is": obs_is, "var_is": var_is}
    return open_at(where, mode, name, style, names=names, sidecar=sidecar)


def _place(path: Any, mode: OpenMode, parse: Callable[..., DafPath] = parse_path) -> DafPath:
    """Return where a data set is."""
    check_mode(mode)
    abc = sys.modules.get("zarr.abc.store")  # which whoever has a store has imported
    if abc is not None and isinstance(path, abc.Store):
        path = stores.path_or_mapping(path)
    if isinstance(path, MutableMapping):
        return _of_mapping(MappingStore(path))
    if is_remote(path):
        return DafPath(str(path), Path(), "url")
    try:
        return parse(path)
    except errors.InvalidInputError as error:
        other = other_kind_at(path) if isinstance(path, str | Path) else None
        raise other or _named_at(path, error, mode) from None


def _of_mapping(store: MappingStore) -> DafPath:
    return DafPath(store.location, Path(), "mapping", opened=store)


def _named_at(
    path: Any, error: errors.InvalidInputError, mode: OpenMode
) -> errors.InvalidInputError:
    """Say of a path that is none what there is: several data sets, nothing, or something else."""
    container = Path(str(path).rstrip("#"))
    if container.name.endswith(SHARED_ARCHIVES) and container.is_file():
        with MmapZipStore(container) as store:
            groups = errors.shown_names(groups_of(store), none="no data sets")
        return errors.with_message(error, f"{error}; it holds {groups}")
    if mode != "r" or not isinstance(path, str | os.PathLike):
        return error
    with stores.os_errors(str(path)):
        is_there = container.exists()
    if is_there or any(character in str(path) for character in "#*?["):
        return error
    beside = siblings(Path(os.path.abspath(path)))
    return errors.with_message(error, f"no such file: {path}{beside}; {error}")


def open_at(
    where: DafPath,
    mode: OpenMode,
    name: str | None,
    style: Style,
    *,
    names: Mapping[str, str | None] = MappingProxyType({}),
    sidecar: _Sidecar = None,
) -> DafReader:
    """Open a data set; what was opened for it is closed again if anything is wrong.

    Parameters
    ----------
    names
        What the axes of an AnnData are called, see `AnnDataTree`.
    sidecar
        That of an AnnData; None for the one beside it.
    """
    with stores.os_errors(where.given), ExitStack() as held:
        # Before it is opened: what is put there meanwhile is another one.
        is_file = mode == "r" and where.kind in ("archive", "hdf5")
        inode = stores.inode_of(where.container) if is_file else None
        made: Callable[..., DafReader] = DafReader if mode == "r" else DafWriter
        if mode == "r":
            tree = _tree_to_read(where, style, held, names, sidecar)
        else:
            _check_writable(where, mode)
            tree = written_tree(where, mode, style, held)
            refuse_names(tree, names)
        full = tree.location if where.kind in ("mapping", "url") else where.full
        found = name if name is not None else _own_name(tree) or in_unicode(full)
        unique = unique_name(f"{found}.read_only" if mode == "r" else found)
        daf = made(tree, name=unique, on_close=held.pop_all().close)
        if where.opened is None:
            given = {"sidecar": sidecar, **names}
            options = {key: option for key, option in given.items() if option is not None}
            again = partial(open_daf, **cast("Any", options)) if options else open_daf
            daf.origin = Origin(again, where.full, daf.name, inode)
        return daf


def _own_name(tree: Tree) -> str | None:
    try:
        name = DafReader(tree, name="!").get_scalar("name", default=None)
    except (errors.FormatError, errors.ReadOnlyError):
        return None  # who asks for the scalar learns why; the data set has a name anyway
    return None if name is None else str(name)


def _tree_to_read(
    where: DafPath, style: Style, held: ExitStack, names: Mapping[str, Any], sidecar: _Sidecar
) -> Tree:
    """Return the tree of a data set, or of an AnnData in place, with its sidecar if it has one."""
    tree = read_tree(where, held)
    style.check_found(tree)
    shown = readable_tree(tree, names)
    is_named = any(name is not None for name in names.values())
    if sidecar is False or (sidecar is None and (is_named or shown is tree)):
        return shown
    made_of, group = _sidecar_source(where, tree)
    if sidecar and (made_of is None or shown is tree):
        raise errors.InvalidInputError(
            f"{tree.location}: only an AnnData that is read in place has a sidecar, on a server "
            "one in an HDF5 file; leave sidecar= out"
        )
    if made_of is None or (group and not sidecar):
        return shown
    place = sidecar_path(sidecar) if sidecar else sidecar_beside(made_of)
    return shown if place is None else SidecarTree(shown, made_of, place)


def _sidecar_source(where: DafPath, tree: Tree) -> tuple[Path | RemoteSource | None, str]:
    """Return of what a sidecar of a tree would be made, if it can have one, and the group in it."""
    if where.kind != "url":
        return None if where.opened is not None else where.container, where.group
    version = tree.server_version if isinstance(tree, Hdf5Tree) else None
    source = None if version is None else RemoteSource(tree.location, version)
    return source, where.given.partition("#")[2]


def _check_writable(where: DafPath, mode: OpenMode) -> None:
    """Refuse to write what is on a server, or of another format."""
    if where.kind == "url":
        raise errors.ReadOnlyError(
            f"can't open a data set on a server in mode: {mode}; it is read-only there: "
            f"{shown_url(where.given)}"
        )
    if where.is_foreign:
        is_known = False
        with suppress(errors.DafError), ExitStack() as held:
            is_known = form_of(read_tree(where, held)) is not None
        if is_known:
            raise written_in_place(where.given, mode)
        parse_path(where.given)  # says which suffixes there are


@contextmanager
def anndata_at(path: str | Path, **options: Any) -> Iterator[AnnDataTree]:
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
    where = _place(path_input(path), "r", partial(parse_path, is_read=True))
    optional_import("anndata", extra="anndata")
    given = {key: option for key, option in options.items() if option}
    with ExitStack() as held:
        base = read_tree(where, held)
        if isinstance(base, Hdf5Tree):
            with base.element("") as root:
                check_contained(root.file, what=base.location)
        with warnings.catch_warnings():  # whoever copies it names what is lost
            warnings.simplefilter("ignore", anndata.AnnDataWarning)
            tree = readable_tree(base, given)
        if not isinstance(tree, anndata.AnnDataTree):
            raise errors.FormatError(
                f"{path}: this is no AnnData; copy it with convert() (on the command line: daf "
                f"convert {path} OUT)"
            )
        yield tree


@overload
def ZarrDaf(path: _PathOrStore, mode: _Read = "r", **how: Unpack[_ZarrHow]) -> DafReader: ...
@overload
def ZarrDaf(path: _PathOrStore, mode: _WriteMode, **how: Unpack[_ZarrHow]) -> DafWriter: ...
def ZarrDaf(  # noqa: N802 - the constructor's name in all implementations
    path: _PathOrStore,
    mode: OpenMode = "r",
    *,
    name: str | None = None,
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
) -> DafReader:
    """Open a Daf data set in a Zarr directory, ZIP archive or mutable mapping; see `open_daf`.

    Opening reads a few small metadata files, or the directory of the archive, whatever the size of
    the data.  An archive can only be added to.  All handles of one archive share one mapping.

    Warns
    -----
    RecoveryWarning
        It was opened for writing, and something that a crashed writer had left half done had to
        be taken away.
    """
    where = _place(path, mode)
    if where.form != "zarr":
        kind = "an HDF5 file" if where.form == "hdf5" else "a FilesDaf"
        raise errors.InvalidInputError(
            f"can't parse as ZarrDaf path: {path}; it is {kind}: open it with open_daf"
        )
    return open_at(where, mode, name, style_of(where, mode, zarr_format, packed))


@overload
def FilesDaf(path: str | Path, mode: _Read = "r", **how: Unpack[_Named]) -> DafReader: ...
@overload
def FilesDaf(path: str | Path, mode: _WriteMode, **how: Unpack[_Named]) -> DafWriter: ...
def FilesDaf(  # noqa: N802 - the constructor's name in all implementations
    path: str | Path, mode: OpenMode = "r", *, name: str | None = None
) -> DafReader:
    r"""Open a Daf data set of plain files, the family's own default format; see `open_daf`.

    Numbers are stored as they are in memory, strings a line each, and small JSON files say what is
    what: any program can read it.

    Parameters
    ----------
    path
        A directory, usually called ``something.daf``; ``something.daf.zip``, the same in a ZIP
        archive, which can only be added to; ``something.dafs.zip#/group``, one of several in an
        archive; or, for reading, the URL of any of them.
    mode, name
        As for `open_daf`.

    Raises
    ------
    SourceNotFoundError
        There is nothing at this path.
    NotADafError, VersionError
        There is something else, which is left alone whatever the mode, or a version that this
        code does not know.

    Warns
    -----
    RecoveryWarning
        It was opened for writing, and something that a crashed writer had left half done had to
        be taken away.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = tempfile.mkdtemp() + "/x.daf"
    >>> daf = FilesDaf(path, "w")
    >>> daf.add_axis("cell", ["A", "B"])
    >>> pathlib.Path(path, "axes/cell.txt").read_text()
    'A\nB\n'
    """
    where = _place(path, mode, partial(parse_path, expects_files=True))
    if where.form != "files" and where.kind != "url":
        raise errors.InvalidInputError(
            f"can't parse as FilesDaf path: {where.given}; it is another format: use open_daf"
        )
    return open_at(where, mode, name, style_of(where, mode))


@overload
def H5df(root: Any, mode: _Read = "r", **how: Unpack[_How]) -> DafReader: ...
@overload
def H5df(root: Any, mode: _WriteMode, **how: Unpack[_How]) -> DafWriter: ...
def H5df(  # noqa: N802 - the constructor's name in all implementations
    root: Any, mode: OpenMode = "r", *, name: str | None = None, packed: bool | Packing = False
) -> DafReader:
    """Open a Daf data set in an HDF5 file; needs the extra ``hdf5``.

    Parameters
    ----------
    root
        The path of a file; ``file.h5dfs#/group``; or an open ``h5py.File`` or ``h5py.Group``,
        which stays open when the data set is closed.
    mode, name, packed
        As for `open_daf`.  Mode ``w`` empties the whole file, or just the group that is named; it
        refuses to empty what is no data set.

    Raises
    ------
    NotADafError
        There is something else at this place; it is left alone, whatever the mode.
    InUseError
        HDF5 lets one process write a file, or several read it.

    Warns
    -----
    UnsafeAlignmentWarning
        The open file that was passed does not align what is written to it.
    """
    if type(root).__module__.partition(".")[0] == "h5py" and hasattr(root, "file"):
        check_mode(mode)
        given, group = str(root.file.filename), root.name.strip("/")
        where = DafPath(given, Path(os.path.abspath(given)), "hdf5", group, "hdf5", opened=root)
    else:
        given = path_input(root, "an open h5py.File or h5py.Group")
        where = _place(given, mode, _parsed_as_hdf5)
    return open_at(where, mode, name, style_of(where, mode, None, packed))


def _parsed_as_hdf5(given: str) -> DafPath:
    """Return what a path means that is one of HDF5, whatever it ends in."""
    if "#" in Path(given).name or "#/" in given:
        return parse_path(given)
    return DafPath(given, Path(os.path.abspath(given)), "hdf5", "", "hdf5")


def MemoryDaf(  # noqa: N802 - as in all implementations
    *,
    name: str | None = None,
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
) -> DafWriter:
    """Create an empty Daf data set in memory; the options are those of `open_daf`.

    Examples
    --------
    >>> MemoryDaf().axes_set()
    set()
    """
    where = _of_mapping(MemoryStore())
    style = style_of(where, "w", zarr_format, packed)
    return cast("DafWriter", open_at(where, "w", name or "memory", style))


BASE: Final = "base_daf_repository"
"""The scalar that has the path of the base."""

BASE_VIEW: Final = "base_daf_view"
"""The scalar that says which part of the base is meant."""

_MOST_BASES: Final = 64

CompleteMode: TypeAlias = Literal["r", "r+"]
"""Whether the last data set of a chain is opened for reading, or can be changed."""


@overload
def complete_daf(path: str | Path, mode: _Read = "r", **how: Unpack[_Named]) -> DafReader: ...
@overload
def complete_daf(path: str | Path, mode: Literal["r+"], **how: Unpack[_Named]) -> DafWriter: ...
def complete_daf(
    path: str | Path, mode: CompleteMode = "r", *, name: str | None = None
) -> DafReader:
    """Open a data set with all that it is based on, as a chain.

    Its scalar ``base_daf_repository`` is the path of its base, which may have a base too.  If it
    has a scalar ``base_daf_view``, it is on top of that part of its base: see `view`.

    Parameters
    ----------
    path
        As of `open_daf`.
    mode
        ``r+`` to write to it; the bases are only read.
    name
        Its name; by default its path and ``.complete``.

    Returns
    -------
    DafReader
        A chain, which closes what it opened when it is closed; without a base, the data set.  A
        `DafWriter` for mode ``r+``.

    Raises
    ------
    SourceNotFoundError
        There is nothing at a path.
    LengthError
        An axis has another length in the base; other entries are a ``LabelsError``, see
        `chain_reader`.
    FormatError
        The bases form a circle, there are more than 64, one is no path of a data set, or
        ``base_daf_view`` is a query that is not read.

    Examples
    --------
    >>> import daf_storage, os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with daf_storage.open_daf(os.path.join(folder, "base.daf.zarr"), "w") as base:
    ...     base.add_axis("cell", ["A", "B"])
    >>> mine = os.path.join(folder, "mine.daf.zarr")
    >>> with daf_storage.open_daf(mine, "w") as daf:
    ...     daf.set_scalar("base_daf_repository", "base.daf.zarr")
    >>> with daf_storage.complete_daf(mine) as daf:
    ...     daf.axis_length("cell")
    2
    """
    if mode not in ("r", "r+"):
        raise errors.InvalidModeError(
            f"{path}: complete_daf() has the modes 'r' and 'r+', not {mode!r}; create a data set "
            "with open_daf() or open_overlay()"
        )
    members = _opened_with_bases(path_input(path), mode)
    chain = _chain(members, name=name or f"{path}.complete")
    if chain.origin is not None:
        chain.origin = Origin(complete_daf, chain.origin.path, chain.name)
    return chain


def open_overlay(
    base: DafReader,
    overlay: str | Path | DafWriter,
    mode: OpenMode = "w+",
    *,
    name: str | None = None,
) -> DafReader:
    """Open a data set on top of another one, which is only read; see `chain_writer`.

    The overlay has what is set; its scalar ``base_daf_repository`` has the path of the base,
    relative to its own directory, so that `complete_daf` opens both again; of a URL, without user,
    password and query.

    Parameters
    ----------
    base
        An open data set; it is closed with the chain.
    overlay
        The path of the data set that is written, as of `open_daf`; or one that is open.
    mode
        ``w+`` makes the overlay if it is missing; ``r+`` needs one; ``w`` empties it first; ``r``
        only reads it.
    name
        The name of the chain; by default both names, joined by ``;``.

    Returns
    -------
    DafReader
        A `DafWriter` unless the mode is ``r``.

    Raises
    ------
    InvalidInputError
        The overlay is of another base, which is still there; or it is the base, in it or around
        it.
    LengthError
        An axis has other entries than that of the base: `chain_reader` says when that is noticed.

    Examples
    --------
    >>> import daf_storage
    >>> atlas, mine = daf_storage.MemoryDaf(), daf_storage.MemoryDaf()
    >>> atlas.add_axis("cell", ["A", "B"])
    >>> both = open_overlay(atlas.read_only(), mine)
    >>> both.set_vector("cell", "label", ["x", "y"])
    >>> mine.get_np_vector("cell", "label").tolist()
    ['x', 'y']
    """
    check_reader(base, "open_overlay()")
    if mode != "r" or isinstance(overlay, DafWriter):
        check_apart(base, overlay)
    last = overlay if isinstance(overlay, DafWriter) else open_daf(overlay, mode)
    try:
        _record_base(base, last)
        return _chain([base, last], name=name or f"{base.name};{last.name}")
    except Exception:
        if last is not overlay:
            last.close()
        raise


def _opened_with_bases(
    path: str,
    mode: CompleteMode,
    above: DafReader | None = None,
    seen: frozenset[str] = frozenset(),
) -> list[DafReader]:
    """Open a data set and all it is based on; the first base comes first.

    Parameters
    ----------
    above
        The data set that is based on it.
    seen
        What is open already, to notice a circle.
    """
    key = path if is_remote(path) else os.path.realpath(path)
    if key in seen:
        raise errors.CorruptDataError(
            f"{path}: the data sets that {BASE!r} names form a circle; correct that scalar"
        )
    if len(seen) > _MOST_BASES:
        raise errors.UnsupportedDataError(
            f"{path}: more than {_MOST_BASES} data sets are based on each other; make one "
            "of some of them with copy_all()"
        )
    opened = [open_daf(path, mode) if above is None else _opened_base(path, above)]
    try:
        [daf] = opened
        base = daf.get_scalar(BASE, default=None)
        if base is None:
            return opened
        path = _base_path(daf, path, base)
        bases = _opened_with_bases(path, "r", daf, seen | {key})
        opened = [*bases, daf]
        if daf.has_scalar(BASE_VIEW):
            opened = [_part_of_base(_chain(bases, name=f"{path}.complete"), daf), daf]
        return opened
    except Exception:
        for each in opened:
            each.close()
        raise


def _opened_base(path: str, child: DafReader) -> DafReader:
    try:
        return open_daf(path)
    except errors.SourceNotFoundError as error:
        raise errors.SourceNotFoundError(
            f"{child.location}: its base {path} is not there ({error}); put it back, or correct "
            f"the scalar {BASE!r}"
        ) from error
    except errors.InvalidInputError as error:
        raise errors.CorruptDataError(
            f"{child.location}: its scalar {BASE!r} is no path that can be opened ({error})"
        ) from error


def _base_path(daf: DafReader, path: str, base: object) -> str:
    if not isinstance(base, str) or not base or "\0" in base:
        raise errors.CorruptDataError(
            f"{daf.location}: the scalar {BASE!r} is {base!r:.80}, and not the path of a data set"
        )
    if is_remote(base):
        return base
    if is_remote(path):
        return urljoin(path, base)
    container, separator, group = base.partition("#/")
    return f"{os.path.normpath(_folder(path) / container)}{separator}{group}"


def _part_of_base(base: DafReader, child: DafReader) -> DafReader:
    """Return the part of a base that a data set says it is based on."""
    written = child.get_scalar(BASE_VIEW)
    what = f"{child.location}: its scalar {BASE_VIEW!r}"
    axes, data = parse_view(written, what=what)
    try:
        name = unique_name(f"{base.name}.view")
        return ViewReader(base, axes, data, name=name, is_owner=True)
    except (errors.NotFoundError, errors.InvalidInputError) as error:
        raise errors.UnsupportedDataError(
            f"{what} cannot be read: {error}; only views that rename and hide are read, and "
            "none with the query language of other implementations"
        ) from error


def _folder(path: str) -> Path:
    """Return the directory in which a data set is."""
    return Path(path.partition("#/")[0].rstrip("/")).parent


def _chain(members: list[DafReader], *, name: str) -> DafReader:
    *bases, last = members
    if not bases:
        return last
    unique = unique_name(name)
    if isinstance(last, DafWriter):
        return ChainWriter(bases, last, name=unique, is_owner=True)
    return ChainReader(members, name=unique, is_owner=True)


def _record_base(base: DafReader, overlay: DafReader) -> None:
    """Write into an overlay what it is based on, or check what it says."""
    recorded = overlay.get_scalar(BASE, default=None)
    if base.origin is None or overlay.origin is None:
        return
    path, own = _shareable(base.origin.path), overlay.origin.path
    if recorded is not None:
        named = _base_path(overlay, own, recorded)
        if place_of(named) == place_of(path):
            return
        if _exists(named):
            raise errors.InvalidInputError(
                f"{overlay.location}: it was made on top of {named}, not of {path}; make another "
                f"overlay, or correct its scalar {BASE!r}"
            )
    if isinstance(overlay, DafWriter) and not (recorded is not None and overlay.is_append_only):
        overlay.set_scalar(BASE, _relative(path, own), if_exists="replace")


def _shareable(path: str) -> str:
    """Return a path without what may be a secret in a URL: whoever gets the overlay reads it."""
    container, separator, group = path.partition("#/")
    return f"{shown_url(container)}{separator}{group}" if is_remote(path) else path


def _relative(path: str, own: str) -> str:
    if is_remote(path) or is_remote(own):
        return path
    container, separator, group = path.partition("#/")
    relative = os.path.relpath(container, _folder(own))
    return posixpath.join(*Path(relative).parts) + separator + group


def _exists(path: str) -> bool:
    with suppress(OSError):  # a name that is too long, or in a folder that may not be read
        return is_remote(path) or place_of(path)[0].exists()
    return False


# New ones, apart from all that is read, and in their place when they are complete


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
    check_choice(if_exists, IfExists, "if_exists")
    where = parse_path(path)
    style = style_of(where, "w", zarr_format, packed)
    if where.group:
        with cast("DafWriter", open_at(where, "w+", None, style)) as daf, daf.batch():
            _check_empty(daf, where)
            yield daf
        return
    target = follow_links(where.container, where.given)
    if target.exists() and if_exists == "error":
        raise errors.path_exists(where.given)
    if not target.parent.is_dir():
        raise errors.SourceNotFoundError(
            f"cannot create {where.given}: no such directory: {target.parent}"
            f"{errors.unresolved(target)}"
        )
    _check_replaceable(where, target)
    with stores.os_errors(where.given), scratch(target) as aside:
        prepared = replace(where, container=aside)
        made = cast("DafWriter", open_at(prepared, "w", where.given, style))
        with made as daf, daf.batch():
            yield daf
        _check_replaceable(where, target)  # which may be another one by now
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


def _check_replaceable(where: DafPath, target: Path) -> None:
    """Refuse to replace what is no data set."""
    if target.exists():
        open_daf(where.given).close()


def _put_in_place(aside: Path, target: Path, where: DafPath, *, if_exists: IfExists) -> None:
    try:
        if where.kind == "archive" and if_exists == "replace":
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
