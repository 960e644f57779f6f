"""Data sets on top of others, opened as a chain; and new ones, apart from all that is read.

The scalar ``base_daf_repository`` is the path of the base, relative to the directory in which the
data set is, so that both can be moved together.  Source: docs/reference/format.md, "Chains".
"""

from __future__ import annotations

import os
import posixpath
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, TypeAlias, cast, overload
from urllib.parse import urljoin

from daf_storage import errors
from daf_storage.base import IfExists, OpenMode, Packing, check_choice, unique_name
from daf_storage.combined import ChainReader, ChainWriter, ViewReader, parse_view, stored_members
from daf_storage.data import DafReader, DafWriter, Origin, check_reader
from daf_storage.opening._containers import style_of
from daf_storage.opening._open import open_at, open_daf
from daf_storage.opening._paths import DafPath, parse_path, path_input
from daf_storage.sidecars import is_sidecar
from daf_storage.stores import (
    follow_links,
    is_remote,
    put_in_place,
    replace_archive,
    scratch,
    shown_url,
)
from daf_storage.trees import ZarrVersion, indexes_beside

BASE: Final = "base_daf_repository"
"""The scalar that has the path of the base."""

BASE_VIEW: Final = "base_daf_view"
"""The scalar that says which part of the base is meant."""

_MOST_BASES: Final = 64

CompleteMode: TypeAlias = Literal["r", "r+"]
"""Whether the last data set of a chain is opened for reading, or can be changed."""


@overload
def complete_daf(
    path: str | Path, mode: Literal["r"] = "r", *, name: str | None = None
) -> DafReader: ...
@overload
def complete_daf(
    path: str | Path, mode: Literal["r+"], *, name: str | None = None
) -> DafWriter: ...
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
            f"{path}: the data sets that {BASE!r} names form a circle; correct that scalar "
            "of one of them"
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
            whole = _chain(bases, name=f"{path}.complete")
            opened = [_part_of_base(whole, daf), daf]
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
    return Path(_container(path)).parent


def _container(path: str) -> str:
    """Return a path without the group in the file, and without a slash at its end."""
    return path.partition("#/")[0].rstrip("/")


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
        return is_remote(path) or Path(_container(path)).exists()
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
    checked = _check_replaceable(where, target)
    with errors.os_errors(where.given), scratch(target) as aside:
        prepared = replace(where, container=aside)
        made = cast("DafWriter", open_at(prepared, "w", where.given, style))
        with made as daf, daf.batch():
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
