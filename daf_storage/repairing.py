"""Mending a data set after a crash, a full disk or an interrupted copy."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

from daf_storage import archives, errors, layout
from daf_storage.backup import restore_backup
from daf_storage.mending import RecoveryWarning, mend_archive
from daf_storage.opening import open_daf, open_directory_tree
from daf_storage.paths import DafPath
from daf_storage.stores import (
    follow_links,
    is_remote,
    remove_leftovers,
    shown_url,
    unfinished_rebuilds,
)
from daf_storage.stores.mmap_zip import rebuild
from daf_storage.trees import WritableTree, WritableZarrTree
from daf_storage.verifying import container_of
from daf_storage.writer import DafWriter


def repair(path: str | Path) -> list[str]:
    """Mend the container of a data set, and say what was done.

    Archive: what a crashed writer left half done is taken away, bytes behind the end are cut off,
    and a directory that was lost is rebuilt from the entries that are whole.  Directory: leftovers
    of crashed writers are cleared away, missing groups are added and the consolidated metadata is
    written anew.  Data that is damaged is not touched: `verify` lists it.

    Returns
    -------
    list of str
        What was done, a sentence each; empty if there was nothing to do.

    Raises
    ------
    SourceNotFoundError
        There is nothing at this path.
    CorruptDataError
        It is not an archive, and has no entries to rebuild one from.
    InUseError
        Somebody is writing to it.
    """
    if is_remote(path):
        raise errors.ReadOnlyError(
            f"{shown_url(str(path))}: data sets on a server are read-only; repair it where it is "
            "stored"
        )
    where = container_of(path)
    cleared = _remove_leftovers(where)
    if cleared and not where.container.exists():
        return cleared
    return cleared + _repair_container(where)


def _remove_leftovers(where: DafPath) -> list[str]:
    """Remove what killed programs have left that were making the container."""
    count = remove_leftovers(follow_links(where.container, where.given))
    return ["cleared away what a killed program had left beside it"] * bool(count)


def _repair_container(where: DafPath) -> list[str]:
    if where.is_archive:
        return _repair_archive(where)
    if where.kind == "hdf5":
        with open_daf(where.given, "r+") as daf:
            assert isinstance(daf, DafWriter)  # noqa: S101 - that is what the mode means
            return [_missing(one) for one in _add_groups(daf.writable_tree)]
    tree = open_directory_tree(where)
    done = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecoveryWarning)
        if restore_backup(where):
            done.append("put back what another program was reordering when it was stopped")
    for stale in unfinished_rebuilds(where.container):
        shutil.rmtree(stale)
        done.append("cleared away an unfinished reordering")
    if tree.recover():
        done.append("cleared away what a crashed writer had left")
    done += [_missing(one) for one in _add_groups(tree)]
    if tree.refresh():
        done.append("wrote the consolidated metadata anew")
    return done


def _repair_archive(where: DafPath) -> list[str]:
    done = rebuild(where.container, where.given_container)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecoveryWarning)
        lease = archives.lease(where.container, "r+", where.given_container)
        try:
            found = lease.resource.recovery
            done += [f"dropped {name}, which was not complete" for name in found.dropped]
            done += [f"completed {name}, whose data was there" for name in found.completed]
            if found.cut_bytes:
                done.append(f"gave back {found.cut_bytes:,} bytes that belonged to no entry")
            for group in archives.groups_of(lease.resource):
                tree = WritableZarrTree(lease.resource, group, consolidated=False)
                mended = mend_archive(lease.resource, tree, group)
                prefix = f"{group}/" if group else ""
                done += [
                    f"took away {prefix}{path}, of which a part was missing" for path in mended
                ]
                done += [
                    f"added the group {prefix}{one}, which was missing" for one in _add_groups(tree)
                ]
        finally:
            lease.release()
    return done


def _missing(path: str) -> str:
    return f"added the group {path}, which was missing"


def _add_groups(tree: WritableTree) -> list[str]:
    """Add the groups that each axis needs and does not have."""
    axes = sorted(name for name, kind in tree.children(layout.AXES).items() if kind == "array")
    needed = [*layout.SKELETON, *(layout.vectors_path(axis) for axis in axes)]
    for axis in axes:
        needed.append(f"{layout.MATRICES}/{axis}")
        needed += [layout.matrices_path(axis, other) for other in axes]
    missing = [path for path in needed if tree.kind(path) is None]
    with tree.batch(), tree.transaction() as changes, tree.lock():
        for path in missing:
            try:
                changes.create_group(path)
                changes.publish(path, replace=False)
            except FileExistsError:  # only what says that it is a group was lost
                changes.mark_group(path)
    return missing
