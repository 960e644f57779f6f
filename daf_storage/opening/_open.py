"""From a path and a mode to a reader or a writer.

The one place that knows which store and which tree a path means.  Rules: docs/reference/format.md,
"paths, modes and names".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, MutableMapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from daf_storage import errors
from daf_storage.base import OpenMode, Packing, check_mode, packing_of, unique_name
from daf_storage.data import DafReader, DafWriter, Origin
from daf_storage.opening._files_data_sets import FilesDaf, open_files
from daf_storage.opening._foreign_data_sets import (
    foreign_path,
    open_foreign,
    readable_tree,
    renamed_tree,
)
from daf_storage.opening._hdf5_data_sets import (
    is_hdf5_handle,
    open_hdf5_file,
    open_hdf5_handle,
    path_of_handle,
)
from daf_storage.opening._paths import DafPath, parse_path, path_input
from daf_storage.opening._remote import hdf5_on_server, open_closable_tree
from daf_storage.opening._skeleton import create_skeleton, reader_name
from daf_storage.opening._style import Style
from daf_storage.opening._zarr_archives import open_archive, parsed
from daf_storage.opening._zarr_directories import read_directory, siblings, write_directory
from daf_storage.opening._zarr_mappings import open_mapping, path_or_mapping
from daf_storage.stores import (
    MemoryStore,
    is_remote,
    shown_url,
)
from daf_storage.trees import (
    Hdf5Tree,
    WritableZarrTree,
    ZarrVersion,
)

if TYPE_CHECKING:
    from zarr.abc.store import Store


@overload
def open_daf(
    path: str | Path | MutableMapping[str, Any] | Store,
    mode: Literal["r"] = "r",
    *,
    name: str | None = None,
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
    sidecar: str | Path | Literal[False] | None = None,
    obs_is: str | None = None,
    var_is: str | None = None,
) -> DafReader: ...
@overload
def open_daf(
    path: str | Path | MutableMapping[str, Any] | Store,
    mode: Literal["r+", "w+", "w"],
    *,
    name: str | None = None,
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
    sidecar: str | Path | Literal[False] | None = None,
    obs_is: str | None = None,
    var_is: str | None = None,
) -> DafWriter: ...
@overload
def open_daf(
    path: str | Path | MutableMapping[str, Any] | Store,
    mode: OpenMode,
    *,
    name: str | None = None,
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
    sidecar: str | Path | Literal[False] | None = None,
    obs_is: str | None = None,
    var_is: str | None = None,
) -> DafReader: ...
def open_daf(  # noqa: PLR0913 - how each format is opened
    path: str | Path | MutableMapping[str, Any] | Store,
    mode: OpenMode = "r",
    *,
    name: str | None = None,
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
    sidecar: str | Path | Literal[False] | None = None,
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
        ``atlas.zarr.zip``.
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
    path = cast("str | Path | MutableMapping[str, Any]", path_or_mapping(path))
    foreign = None if isinstance(path, MutableMapping) or is_remote(path) else foreign_path(path)
    if foreign is None and sidecar:
        raise errors.InvalidInputError(
            f"{path}: only an AnnData that is read in place has a sidecar, by the suffix .h5ad, "
            ".zarr or .zarr.zip; leave sidecar= out"
        )
    names = {"obs_is": obs_is, "var_is": var_is}
    if foreign is None and (obs_is is not None or var_is is not None):
        again = partial(open_daf, **names)
        return _with_axis_names(open_daf(path, mode, name=name), names, again)
    if isinstance(path, MutableMapping):
        return ZarrDaf(path, mode, name=name, zarr_format=zarr_format, packed=packed)
    if is_remote(path):
        return _open_remote(str(path), mode, name)
    if foreign is not None:
        check_mode(mode)
        again = partial(open_daf, sidecar=sidecar, **names)
        with errors.os_errors(foreign.given):
            daf = open_foreign(foreign, mode, name, sidecar, names)
            return _with_origin(daf, again, foreign.full)
    where = _parsed_to_read(path) if mode == "r" else parsed(path)
    if where.form != "zarr" and zarr_format is not None:
        raise no_zarr_format(where)
    if where.form == "hdf5":
        check_mode(mode)
        with errors.os_errors(where.given):
            reader = open_hdf5_file(where, mode, name, packing_of(packed))
        return _with_origin(reader, open_daf, where.full)
    if where.is_files:
        return FilesDaf(path, mode, name=name, packed=packed)
    return ZarrDaf(path, mode, name=name, zarr_format=zarr_format, packed=packed)


def _parsed_to_read(path: str | Path) -> DafPath:
    """Parse a path; of one that is none, say what else is there, if nothing is at it."""
    try:
        return parsed(path)
    except errors.InvalidInputError as error:
        given = Path(os.path.abspath(path))
        with errors.os_errors(str(path)):
            is_there = given.exists()
        if is_there or any(character in str(path) for character in "#*?["):
            raise
        beside = siblings(given)
        raise errors.with_message(error, f"{error}; there is no such file{beside}") from None


def _with_axis_names(
    daf: DafReader, names: Mapping[str, str | None], again: Callable[..., DafReader]
) -> DafReader:
    """Return an AnnData that was opened in place, with its axes under other names."""
    try:
        renamed = DafReader(renamed_tree(daf.tree, names), name=daf.name, on_close=daf.close)
    except BaseException:
        daf.close()
        raise
    return renamed if daf.origin is None else _with_origin(renamed, again, daf.origin.path)


@overload
def ZarrDaf(
    path: str | Path | MutableMapping[str, Any] | Store,
    mode: Literal["r"] = "r",
    *,
    name: str | None = None,
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
) -> DafReader: ...
@overload
def ZarrDaf(
    path: str | Path | MutableMapping[str, Any] | Store,
    mode: Literal["r+", "w+", "w"],
    *,
    name: str | None = None,
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
) -> DafWriter: ...
@overload
def ZarrDaf(
    path: str | Path | MutableMapping[str, Any] | Store,
    mode: OpenMode,
    *,
    name: str | None = None,
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
) -> DafReader: ...
def ZarrDaf(  # noqa: N802 - the constructor's name in all implementations
    path: str | Path | MutableMapping[str, Any] | Store,
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
    check_mode(mode)
    path = cast("str | Path | MutableMapping[str, Any]", path_or_mapping(path))
    if isinstance(path, MutableMapping):
        return open_mapping(path, mode, name, Style(zarr_format, packing_of(packed)))
    if is_remote(path):
        return _open_remote(str(path), mode, name)
    where = parsed(path)
    if where.form != "zarr":
        kind = "an HDF5 file" if where.form == "hdf5" else "a FilesDaf"
        raise errors.InvalidInputError(
            f"can't parse as ZarrDaf path: {path}; it is {kind}: open it with open_daf"
        )
    style = Style(zarr_format, packing_of(packed))
    style.check(where.given, mode)
    with errors.os_errors(where.given):
        return _open_zarr(where, mode, name, style)


def _open_zarr(where: DafPath, mode: OpenMode, name: str | None, style: Style) -> DafReader:
    if where.is_archive:
        return _with_origin(open_archive(where, mode, name, style), ZarrDaf, where.full)
    if mode == "r":
        return _with_origin(read_directory(where, name, style), ZarrDaf, where.full)
    return _with_origin(write_directory(where, mode, name, style), ZarrDaf, where.full)


def _with_origin(reader: DafReader, open_again: Callable[[str], DafReader], path: str) -> DafReader:
    """Note how a data set can be opened again, which is how it is pickled."""
    reader.origin = Origin(open_again, path, reader.name)
    return reader


def _open_remote(url: str, mode: OpenMode, name: str | None) -> DafReader:
    check_mode(mode)
    if mode != "r":
        raise errors.ReadOnlyError(
            f"can't open a ZarrDaf on a server in mode: {mode}; it is read-only there: "
            f"{shown_url(url)}"
        )
    source, close = open_closable_tree(url)
    tree = readable_tree(source)
    reader = DafReader(tree, name=reader_name(tree, name, tree.location), on_close=close)
    return _with_origin(reader, ZarrDaf, url)


@overload
def H5df(
    root: Any,
    mode: Literal["r"] = "r",
    *,
    name: str | None = None,
    packed: bool | Packing = False,
) -> DafReader: ...
@overload
def H5df(
    root: Any,
    mode: Literal["r+", "w+", "w"],
    *,
    name: str | None = None,
    packed: bool | Packing = False,
) -> DafWriter: ...
@overload
def H5df(
    root: Any,
    mode: OpenMode,
    *,
    name: str | None = None,
    packed: bool | Packing = False,
) -> DafReader: ...
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
    check_mode(mode)
    packing = packing_of(packed)
    if is_hdf5_handle(root):
        reader = _of_daf(open_hdf5_handle(root, mode, name, packing))
        path = path_of_handle(root)
        return reader if path is None else _with_origin(reader, H5df, path)
    given = path_input(root, "an open h5py.File or h5py.Group")
    if is_remote(given):
        raise hdf5_on_server(given)
    where = DafPath(given, Path(os.path.abspath(given)), "hdf5", "", "hdf5")
    if "#" in Path(given).name or "#/" in given:
        where = parse_path(given)
    with errors.os_errors(given):
        reader = _of_daf(open_hdf5_file(where, mode, name, packing))
    return _with_origin(reader, H5df, where.full)


def _of_daf(reader: DafReader) -> DafReader:
    """Return a data set of Daf in an HDF5 file; raise if it is an AnnData."""
    if isinstance(reader.tree, Hdf5Tree):
        return reader
    location = reader.tree.location
    reader.close()
    raise errors.NotADafError(
        f"{location}: this is an AnnData, not a data set of Daf; read it in place by "
        f"open_daf({location!r}), or import it by import_h5ad"
    )


def no_zarr_format(where: DafPath) -> errors.InvalidInputError:
    """Return the error for a version of Zarr that was asked for where there is no Zarr."""
    kind = "an HDF5 file" if where.form == "hdf5" else "a FilesDaf"
    return errors.InvalidInputError(f"{where.given}: {kind} has no zarr_format")


def create_in(
    where: DafPath,
    *,
    name: str,
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
) -> DafReader:
    """Create a data set in ``where.container``; messages call it ``where.given``."""
    style = Style(zarr_format, packing_of(packed))
    if where.kind == "hdf5":
        return _with_origin(open_hdf5_file(where, "w", name, style.packing), H5df, where.full)
    if where.is_files:
        return open_files(where, "w", name, style)
    return _open_zarr(where, "w", name, style)


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
    style = Style(zarr_format, packing_of(packed))
    style.check("a data set in memory", "w")
    tree = WritableZarrTree(
        MemoryStore(), consolidated=False, zarr_format=style.version, packing=style.packing
    )
    create_skeleton(tree)
    return DafWriter(tree, name=unique_name(name or "memory"))
