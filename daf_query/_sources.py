"""What can be connected: paths, patterns of paths, readers, lists and tables."""

from __future__ import annotations

import glob
import re
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from daf_query.sql import Collection
from daf_query.table import META, TableDataset, zarr_table
from daf_storage import DafReader, errors, open_daf
from daf_storage.spi import INDEXES_SUFFIX, is_remote

Source: TypeAlias = str | Path | DafReader | TableDataset | Sequence[str | Path | DafReader]
"""A path of a data set, a reader of one, or a table; a pattern or a list for several as one."""

_SUFFIXES: Final = re.compile(r"(\.dafs?)?(\.zarr|\.h5dfs?)?(\.zip)?$")
_DAF: Final = re.compile(r"\.(dafs?\.zarr|h5dfs?)(\.zip)?(#/.*)?$")
_GROUP_FILES: Final = ("zarr.json", ".zgroup")


def opened(source: object) -> DafReader | Collection | TableDataset:
    """Open what can be connected: a data set, several as one, or a table."""
    if isinstance(source, DafReader | TableDataset):
        return source
    if isinstance(source, str | Path):
        if _is_table(source):
            return zarr_table(source)
        return _matching(str(source)) if _is_pattern(source) else open_daf(source)
    if isinstance(source, Sequence) and source:
        return _collection(source, f"{len(source):,} data sets")
    raise errors.InvalidInputError(
        f"cannot connect to {source!r} of type {type(source).__name__}; pass a path, a reader, a "
        "pattern of paths, a list, or a mapping of names to any of them"
    )


def _is_table(path: str | Path) -> bool:
    """Return whether a path is of a Zarr group that is no Daf data set."""
    if is_remote(path) or _DAF.search(str(path)):
        return False
    if str(path).endswith(".zip"):
        return zipfile.is_zipfile(path) and _has_group(path)
    return any(Path(path, META, name).is_file() for name in _GROUP_FILES)


def _has_group(path: str | Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
    return any(f"{META}/{name}" in names for name in _GROUP_FILES)


def _is_pattern(path: str | Path) -> bool:
    """Return whether a path means several: a file may have any characters in its name."""
    return glob.has_magic(str(path)) and not is_remote(path) and not Path(path).exists()


def _matching(pattern: str) -> Collection:
    """Open all data sets whose path matches a pattern."""
    before, separator, group = pattern.partition("#/")
    found = sorted(glob.glob(before, recursive=True))  # noqa: PTH207 - Path.glob is relative
    paths = [path + separator + group for path in found if not _is_index(Path(path))]
    if not paths:
        raise errors.SourceNotFoundError(f"no file or directory matches {pattern!r}")
    return _collection(paths, pattern)


def _is_index(path: Path) -> bool:
    """Return whether a path is of the indexes beside an HDF5 file, or below them."""
    return any(
        one.name.endswith(INDEXES_SUFFIX) and one.with_suffix("").is_file()
        for one in (path, *path.parents)
    )


def _collection(sources: Iterable[object], location: str) -> Collection:
    """Open several data sets as one; each is called by its file name, or its path if two agree."""
    opened: list[tuple[str, DafReader]] = []
    for source in sources:
        daf = source if isinstance(source, DafReader) else open_daf(str(source))
        opened.append((daf.name if daf.location.startswith("<") else daf.location, daf))
    stems = [_stem(path) for path, _ in opened]
    members: dict[str, DafReader] = {}
    for (path, daf), stem in zip(opened, stems, strict=True):
        name = stem if stems.count(stem) == 1 else path
        if name in members:
            raise errors.ExistsError(
                f"two of {location} are called {name!r}; give the readers names of their own, or "
                "pass each once"
            )
        members[name] = daf
    return Collection(location, members)


def schema_name(source: object, found: DafReader | Collection | TableDataset) -> str:
    """Return what people would call a data set: its file name; several, that of their folder."""
    if isinstance(found, DafReader):
        return _stem(found.location)
    if isinstance(found, TableDataset):
        return found.table_columns.table
    folder = Path(source).parent.name if isinstance(source, str | Path) else ""
    return folder if folder and not glob.has_magic(folder) else "all"


def _stem(path: str) -> str:
    """Return a file name without suffixes."""
    return _SUFFIXES.sub("", Path(path).name).strip("<>") or "daf"
