"""From a path and a mode to a reader or a writer.

A path is parsed once: it names a container and a form, from which a tree is got.  Rules:
docs/reference/format.md, "paths, modes and names".
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack, cast, overload

from daf_storage import errors, stores
from daf_storage._lazy import lazy_module
from daf_storage.base import OpenMode, Packing, check_mode, optional_import
from daf_storage.data import DafReader, DafWriter, Origin
from daf_storage.opening._containers import (
    Style,
    groups_of,
    name_of,
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
    other_kind_at,
    parse_path,
    path_input,
    siblings,
)
from daf_storage.sidecars import SIDECAR_SUFFIX, RemoteSource, SidecarTree, sidecar_beside
from daf_storage.stores import MappingStore, MemoryStore, MmapZipStore, is_remote, shown_url
from daf_storage.trees import Hdf5Tree, Tree, ZarrVersion, check_contained

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from daf_storage import anndata
    from daf_storage.anndata import AnnDataTree
else:
    anndata = lazy_module("daf_storage.anndata")

_WriteMode: TypeAlias = Literal["r+", "w+", "w"]
_Sidecar: TypeAlias = str | Path | Literal[False] | None
_PathOrStore: TypeAlias = "str | Path | MutableMapping[str, Any] | Store"


class _How(TypedDict, total=False):
    name: str | None
    packed: bool | Packing


class _ZarrHow(_How, total=False):
    zarr_format: ZarrVersion | None


class _AnyHow(_ZarrHow, total=False):
    sidecar: _Sidecar
    obs_is: str | None
    var_is: str | None


@overload
def open_daf(path: _PathOrStore, mode: Literal["r"] = "r", **how: Unpack[_AnyHow]) -> DafReader: ...
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
    with errors.os_errors(str(path)):
        is_there = container.exists()
    if is_there or any(character in str(path) for character in "#*?["):
        return error
    beside = siblings(Path(os.path.abspath(path)))
    return errors.with_message(error, f"{error}; there is no such file{beside}")


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
    daf: DafReader
    with errors.os_errors(where.given), ExitStack() as held:
        # Before it is opened: what is put there meanwhile is another one.
        is_file = mode == "r" and where.kind in ("archive", "hdf5")
        inode = stores.inode_of(where.container) if is_file else None
        if mode == "r":
            tree = _tree_to_read(where, style, held, names, sidecar)
        else:
            _check_writable(where, mode)
            tree = written = written_tree(where, mode, style, held)
            refuse_names(tree, names)
        full = tree.location if where.kind in ("mapping", "url") else where.full
        unique = name_of(tree, name, full, mode)
        close = held.pop_all().close
        if mode == "r":
            daf = DafReader(tree, name=unique, on_close=close)
        else:
            daf = DafWriter(written, name=unique, on_close=close)
        if where.can_be_opened_again:
            given = {"sidecar": sidecar, **names}
            options = {key: option for key, option in given.items() if option is not None}
            again = partial(open_daf, **cast("Any", options)) if options else open_daf
            daf.origin = Origin(again, where.full, daf.name, inode)
        return daf


def _tree_to_read(
    where: DafPath,
    style: Style,
    held: ExitStack,
    names: Mapping[str, Any],
    sidecar: _Sidecar,
) -> Tree:
    """Return the tree of a data set, or of an AnnData in place, with its sidecar if it has one."""
    tree = read_tree(where, held)
    style.check_found(tree)
    shown = readable_tree(tree, names)
    is_named = any(name is not None for name in names.values())
    if sidecar is False or (sidecar is None and (is_named or shown is tree)):
        return shown
    if sidecar and not os.fspath(sidecar).endswith(SIDECAR_SUFFIX):
        raise errors.InvalidInputError(
            f"{sidecar}: the path of a sidecar ends in {SIDECAR_SUFFIX}: it is a directory of Daf"
        )
    made_of, group = _sidecar_source(where, tree)
    if sidecar and (made_of is None or shown is tree):
        raise errors.InvalidInputError(
            f"{tree.location}: only an AnnData that is read in place has a sidecar, on a server "
            "one in an HDF5 file; leave sidecar= out"
        )
    if made_of is None or (group and not sidecar):
        return shown
    place = Path(os.path.abspath(sidecar)) if sidecar else sidecar_beside(made_of)
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
            is_known = anndata.form_of(read_tree(where, held)) is not None
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
def ZarrDaf(path: _PathOrStore, mode: Literal["r"] = "r", **how: Unpack[_ZarrHow]) -> DafReader: ...
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
def FilesDaf(
    path: str | Path, mode: Literal["r"] = "r", *, name: str | None = None
) -> DafReader: ...
@overload
def FilesDaf(path: str | Path, mode: _WriteMode, *, name: str | None = None) -> DafWriter: ...
def FilesDaf(  # noqa: N802 - the constructor's name in all implementations
    path: str | Path,
    mode: OpenMode = "r",
    *,
    name: str | None = None,
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
            f"can't parse as FilesDaf path: {where.given}; it is another format: open it with "
            "open_daf"
        )
    return open_at(where, mode, name, style_of(where, mode))


@overload
def H5df(root: Any, mode: Literal["r"] = "r", **how: Unpack[_How]) -> DafReader: ...
@overload
def H5df(root: Any, mode: _WriteMode, **how: Unpack[_How]) -> DafWriter: ...
def H5df(  # noqa: N802 - the constructor's name in all implementations
    root: Any,
    mode: OpenMode = "r",
    *,
    name: str | None = None,
    packed: bool | Packing = False,
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
