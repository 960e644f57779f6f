"""Sources that can be connected: paths, patterns of paths, readers, lists and tables."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

from daf_query import table as tables
from daf_query.sql import Collection, Connectable
from daf_query.table import UserTable, is_user_table, table_name, user_table
from daf_storage import DafReader, DafWriter, errors, open_daf, open_overlay
from daf_storage.base import is_remote
from daf_storage.data import is_in_place
from daf_storage.display import shortened
from daf_storage.opening import in_unicode, short_names, stem_of
from daf_storage.sidecars import is_sidecar
from daf_storage.stores import MmapZipStore, is_url_pattern, matching_urls
from daf_storage.trees import INDEXES_SUFFIX

Source: TypeAlias = (
    "str | Path | DafReader | tables.TableDataset | Sequence[str | Path | DafReader]"
)
"""A path of a data set, a reader of one, or a table; a pattern or a list for several as one."""

Frame: TypeAlias = Any
"""A table that a user brings: of pandas, polars, DuckDB, Arrow or whatever hands out Arrow."""


AxisNames: TypeAlias = Mapping[str, Any]
"""``obs_is`` and ``var_is``: what the axes of an AnnData that is read in place are called."""
NO_NAMES: Final[AxisNames] = {}

Mode: TypeAlias = Literal["r", "r+"]
"""Whether data sets are opened for reading, or for changing what is there as well."""

_T = TypeVar("_T")

_DAF: Final = re.compile(r"\.(dafs?\.zarr|h5dfs?)(\.zip)?(#/.*)?$")
_GROUP_FILES: Final = ("meta/zarr.json", "meta/.zgroup")
_OF_CALLS: Final = (errors.InvalidInputError, errors.MissingDependencyError)
"""What is wrong with a call, or with what is installed, and with no data set."""
_LEAVE_OUT: Final = errors.Remedy("pass ", errors.SKIP_BROKEN, " to leave it out")


def opened(
    source: object,
    closing: ExitStack,
    mode: Mode = "r",
    *,
    names: AxisNames = NO_NAMES,
    skip_broken: bool | None = None,
) -> Connectable:
    """Open what can be connected: a data set, several as one, or a table.

    Parameters
    ----------
    closing
        What closes the readers that are opened by their paths, and not passed, if it is closed
        itself: whoever connects them takes them out of it.
    names
        What the axes of AnnData that are opened by their paths are called.
    skip_broken
        Whether those of several that cannot be opened are left out; None if the caller has no
        choice.

    Raises
    ------
    InvalidModeError
        The mode is neither ``r`` nor ``r+``; or ``r+`` was asked for what is only read.
    """
    check_mode(mode)
    if isinstance(source, DafReader):
        return _in_mode(source, mode)
    if isinstance(source, Collection):
        return source
    if is_user_table(source):
        return source if isinstance(source, tables.TableDataset) else user_table(source)
    if isinstance(source, str | Path):
        if _is_table(source):
            return tables.zarr_table(source)
        if not is_pattern(source):
            return _closed_by(closing, open_daf(source, mode, **names))
        location, source = str(source), matching_paths(str(source))
    elif isinstance(source, Sequence) and source:
        location = f"{len(source):,} data sets"
    else:
        raise _not_connectable(source)
    readers = usable(source, lambda each: _member(each, mode, names, closing), skip_broken, mode)
    return Collection(location, _by_name(readers, location))


def _closed_by(closing: ExitStack, daf: DafReader) -> DafReader:
    closing.callback(daf.close)
    return daf


def usable(
    sources: Sequence[Any],
    opening: Callable[[Any], _T],
    skip_broken: bool | None,  # noqa: FBT001 - as it was given
    mode: Mode = "r",
) -> list[_T]:
    """Return what can be opened; there is a warning for each of the others.

    Parameters
    ----------
    skip_broken
        Whether those that cannot be opened are left out; None if the caller has no choice.
    mode
        How they are opened: one that may not be read is left out, one that may not be written not.

    Raises
    ------
    InvalidInputError
        There is none.
    DafError
        One cannot be opened, and is not to be left out.
    """
    found = []
    of_calls = _OF_CALLS if mode == "r" else (*_OF_CALLS, errors.ReadOnlyError)
    for each in sources:
        try:
            found.append(opening(each))
        except errors.DafError as error:
            if not skip_broken or isinstance(error, of_calls):
                if skip_broken is False and not isinstance(error, of_calls):
                    errors.with_remedy(error, error.remedy or _LEAVE_OUT)
                raise
            errors.warn(f"left out: {error}", errors.DafWarning)
    if not found:
        raise errors.InvalidInputError(f"none of {len(sources):,} data sets can be opened")
    return found


def _member(source: object, mode: Mode, names: AxisNames, closing: ExitStack) -> DafReader:
    """Open one of several; the names are of those that are AnnData."""
    if isinstance(source, DafReader):
        return _in_mode(source, mode)
    daf = open_daf(str(source), mode)
    if names and is_in_place(daf):
        daf.close()
        daf = open_daf(str(source), mode, **names)
    return _closed_by(closing, daf)


def _not_connectable(source: object) -> errors.InvalidInputError:
    """Say what can be connected instead of something else."""
    if isinstance(source, Sequence):
        return errors.InvalidInputError("cannot connect to an empty list; name a data set in it")
    kind = type(source)
    if kind.__name__ == "AnnData":
        return errors.InvalidInputError(
            "cannot connect to an AnnData in memory; pass the path of its file, which is read in "
            "place, or make a data set of it: connect(daf_storage.from_anndata(adata))"
        )
    return errors.InvalidInputError(
        f"cannot connect to {shortened(repr(source))} of type {kind.__name__}; pass a path, a "
        "reader, a pattern of paths, a list, a data frame, or a mapping of names to any of them"
    )


def check_mode(mode: Mode) -> None:
    """Refuse a mode that `connect` does not have."""
    if mode not in ("r", "r+"):
        raise errors.InvalidModeError(
            f"connect() has the modes 'r' and 'r+', not {mode!r}; create a data set with open_daf()"
        )


def opened_overlay(
    source: object,
    overlay: str | Path | DafWriter,
    closing: ExitStack,
    mode: Mode | None,
    *,
    names: AxisNames,
    skip_broken: bool,
) -> tuple[str, DafReader]:
    """Open one data set for reading, and another one on top of it; return its name, too.

    Parameters
    ----------
    mode
        ``r`` opens the overlay for reading; else it is written, and made if it is missing unless
        the mode is ``r+``.

    Raises
    ------
    InvalidInputError
        There are several data sets, or none that an overlay can be on top of.
    """
    check_mode(mode or "r")
    if isinstance(source, Mapping):
        raise errors.InvalidInputError(
            f"overlay={str(overlay)!r} is on top of one data set, and a mapping names several; "
            "connect that alone"
        )
    if isinstance(source, Sequence) and not isinstance(source, str) and len(source) == 1:
        source = source[0]
    base = opened(source, closing, names=names, skip_broken=skip_broken)
    if isinstance(base, Collection) and len(base.members) == 1:
        base = next(iter(base.members.values()))
    if not isinstance(base, DafReader):
        what = f"{base.location} holds several" if isinstance(base, Collection) else "it is a table"
        raise errors.InvalidInputError(
            f"overlay={str(overlay)!r} is on top of one data set, and {what}; connect that alone"
        )
    return schema_name(source, base), open_overlay(base, overlay, mode or "w+")


def _in_mode(daf: DafReader, mode: Mode) -> DafReader:
    if mode == "r+" and not isinstance(daf, DafWriter):
        raise errors.ReadOnlyError(
            f"{daf.location}: it was opened for reading; open it with mode 'r+', or pass its path"
        )
    return daf


def _is_table(path: str | Path) -> bool:
    """Return whether a path is of a Zarr group that is no Daf data set."""
    if is_remote(path) or _DAF.search(str(path)):
        return False
    if str(path).endswith(".zip"):
        # A pipe may never have a writer: what is no file is refused where it is opened.
        return os.path.isfile(path) and _has_group(path)  # noqa: PTH113 - see below
    # Path.is_file raises where a folder may not be entered, which is said where it is opened.
    return any(os.path.isfile(Path(path, name)) for name in _GROUP_FILES)  # noqa: PTH113


def _has_group(path: str | Path) -> bool:
    try:
        with MmapZipStore(path) as archive:
            return any(name in archive for name in _GROUP_FILES)
    except errors.DafError:  # whoever opens it says what is wrong with it
        return False


def is_pattern(path: str | Path) -> bool:
    """Return whether a path means several: a file may have any characters in its name."""
    if is_remote(path):
        return is_url_pattern(path)
    try:
        return glob.has_magic(str(path)) and not Path(path).stat()
    except (OSError, ValueError) as error:  # whoever opens it says that it may not be looked at
        return not isinstance(error, PermissionError)


def matching_paths(pattern: str) -> list[str]:
    """Return the paths of the data sets that a pattern means.

    Raises
    ------
    SourceNotFoundError
        There is none.
    """
    before, separator, group = pattern.partition("#/")
    if is_remote(pattern):
        matching = matching_urls(before)
    else:
        names = sorted(glob.glob(before, recursive=True))  # noqa: PTH207 - Path.glob is relative
        folders = {path: Path(path).parent for path in names}
        of_indexes = {f for f in set(folders.values()) if any(map(_is_index, (f, *f.parents)))}
        matching = [p for p in names if folders[p] not in of_indexes and not _is_index(Path(p))]
    paths = [path + separator + group for path in matching]
    if not paths:
        hint = errors.unresolved(pattern)
        raise errors.SourceNotFoundError(f"no file or directory matches {pattern!r}{hint}")
    return paths


def _is_index(folder: Path) -> bool:
    """Return whether a directory has the indexes of the file beside it, or is a sidecar."""
    is_beside = folder.name.endswith(INDEXES_SUFFIX) and folder.with_suffix("").is_file()
    return is_beside or is_sidecar(folder)


def _by_name(readers: Sequence[DafReader], location: str) -> dict[str, DafReader]:
    """Return readers by what the column ``dataset`` calls them."""
    paths = [daf.name if daf.location.startswith("<") else daf.location for daf in readers]
    return _named(short_names(paths), readers, location)


def _named(names: Sequence[str], found: Sequence[_T], location: str) -> dict[str, _T]:
    """Return what was opened by its names, which have to differ."""
    named = dict(zip(names, found, strict=True))
    if len(named) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise errors.ExistsError(
            f"two of {location} are called {twice!r}; pass each once, and readers by names of "
            "their own"
        )
    return named


def schema_name(source: object, connected: Connectable) -> str:
    """Return what people would call a data set: its file name; several, that of their folder."""
    if isinstance(connected, DafReader):
        return stem_of(connected.location)
    if isinstance(connected, tables.TableDataset):
        return connected.table_columns.table
    if isinstance(connected, UserTable):
        if isinstance(source, str | Path):
            return table_name(source)
        raise errors.InvalidInputError(
            f"{connected.location} has no name; say what queries call it: "
            "register(frame, 'samples')"
        )
    folder = in_unicode(Path(source).parent.name) if isinstance(source, str | Path) else ""
    return folder if folder and not glob.has_magic(folder) else "all"


def named_sources(sources: Sequence[str | Path]) -> dict[str, Connectable]:
    """Open sources, each by the name that people would call it; by what differs, if two share it.

    Raises
    ------
    ExistsError
        Two are the same.
    """
    with ExitStack() as closing:
        found = [opened(source, closing) for source in sources]
        names = [schema_name(source, each) for source, each in zip(sources, found, strict=True)]
        if len(set(names)) < len(names):
            names = short_names([each.location for each in found])
        named = _named(names, found, f"{len(names):,} data sets")
        closing.pop_all()
    return named
