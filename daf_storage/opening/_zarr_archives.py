"""Data sets in ZIP archives: one, or several in groups."""

from __future__ import annotations

from pathlib import Path

from daf_storage import errors
from daf_storage.base import OpenMode
from daf_storage.data import DafReader, DafWriter, archive_recovery
from daf_storage.opening import _archives as archives
from daf_storage.opening._foreign_data_sets import readable_tree
from daf_storage.opening._handle_registry import Lease
from daf_storage.opening._paths import (
    SHARED_ARCHIVE_SUFFIX,
    SHARED_FILES_ARCHIVE_SUFFIX,
    DafPath,
    parse_path,
)
from daf_storage.opening._skeleton import check_group, make_or_check, reader_name, writer_name
from daf_storage.opening._style import Style
from daf_storage.opening._zarr_directories import siblings
from daf_storage.stores import (
    MmapZipStore,
)
from daf_storage.trees import (
    WritableZarrTree,
    ZarrTree,
    find_version,
)


def parsed(path: str | Path) -> DafPath:
    """Parse a path; of an archive of several data sets, say which there are."""
    try:
        return parse_path(path)
    except errors.InvalidInputError as error:
        container = Path(str(path).rstrip("#"))
        plurals = (SHARED_ARCHIVE_SUFFIX, SHARED_FILES_ARCHIVE_SUFFIX)
        if not container.name.endswith(plurals) or not container.is_file():
            raise
        with MmapZipStore(container) as store:
            groups = errors.known_names(archives.groups_of(store), none="no data sets")
        raise errors.InvalidInputError(f"{error}; it holds {groups}") from None


def archive_lease(where: DafPath, mode: OpenMode) -> Lease[MmapZipStore]:
    """Return a lease of the archive of a data set, if the mode allows to open it so."""
    if where.group and mode == "w":
        raise errors.InvalidModeError(
            f"{where.given}: can't truncate one data set of an archive, which is append-only; "
            "open it with mode 'w+' to create it or add to it"
        )
    if mode in {"r", "r+"} and not where.container.is_file():
        if where.container.is_dir():
            raise errors.NotADafError(f"{where.given}: there is a directory of this name")
        if where.container.exists():
            raise errors.NotADafError(f"{where.given}: this is not a regular file")
        raise errors.SourceNotFoundError(
            f"no such file: {where.container}{siblings(where.container)}"
        )
    return archives.lease(where.container, mode, where.given_container)


def open_archive(where: DafPath, mode: OpenMode, name: str | None, style: Style) -> DafReader:
    """Open a data set in an archive."""
    lease = archive_lease(where, mode)
    try:
        if mode == "r":
            tree = ZarrTree(lease.resource, where.group)
            style.check_found(tree)
            readable = readable_tree(tree)
            return DafReader(
                readable, name=reader_name(readable, name, where.full), on_close=lease.release
            )
        writable = WritableZarrTree(
            lease.resource,
            where.group,
            consolidated=False,
            zarr_format=find_version(lease.resource, where.group) or style.version,
            packing=style.packing,
        )
        style.check_found(writable)
        if mode == "r+":
            check_group(writable)
        elif where.group:
            archives.check_free_group(where, writable)
        make_or_check(writable, mode)
        archive_recovery.recover_archive(lease.resource, writable, where.group)
        archive_recovery.take_out_consolidated(lease.resource, writable, where.group)
        unique = writer_name(writable, name, where.full)
        return DafWriter(writable, name=unique, on_close=lease.release)
    except BaseException:
        lease.release()
        raise
