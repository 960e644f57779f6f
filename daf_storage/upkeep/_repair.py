"""Repair a data set after a crash or an incomplete copy; tell what is lost."""

from __future__ import annotations

import os
import posixpath
import warnings
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daf_storage import errors
from daf_storage.base import ShowProgress, is_remote
from daf_storage.data import Damage, RecoveryWarning, damage_of, layout, lost_entries, one_each
from daf_storage.opening import (
    DafPath,
    foreign_path,
    groups_of,
    open_archive,
    open_daf,
    open_directory_tree,
    recovery_of,
    tree_of,
)
from daf_storage.stores import follow_links, os_errors, remove_leftovers, shown_url
from daf_storage.trees import WritableTree
from daf_storage.upkeep._verify import container_of, verify


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What `repair` did, and what is lost or damaged."""

    done: tuple[str, ...]
    """What was done, a sentence each; empty if there was nothing to do."""
    lost: tuple[Damage, ...]
    """Properties that are no longer there: their data could not be read."""
    damaged: tuple[Damage, ...]
    """Properties that are still there and wrong, which `verify` lists as errors."""
    indexes: tuple[Damage, ...] = ()
    """Indexes that were lost or damaged, which is no loss: `daf_query` builds them again."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is lost and nothing is damaged."""
        return not self.lost and not self.damaged


def repair(path: str | Path, *, progress: ShowProgress = "auto") -> RepairReport:
    """Mend the container of a data set, and report what was done, and what is lost or damaged.

    Archive: what cannot be read is taken out of it and named, and bytes behind the end are cut off.
    Directory: leftovers of crashed writers are cleared away, missing groups are added and the
    consolidated metadata is written again.  Then everything is read, as `verify` does.  Data that
    is damaged and can be read is left as it is.  Indexes are no data: `daf_query.rebuild_indexes`
    builds them again, as ``daf repair`` does.

    Parameters
    ----------
    progress
        Whether to show a bar on stderr.

    Raises
    ------
    SourceNotFoundError
        There is nothing at this path.
    CorruptDataError
        It is not an archive, or not a complete one.
    UnsupportedDataError
        Another program packed the archive.
    InUseError
        A writer has it open.
    ReadOnlyError
        It is an AnnData, or on a server.

    Examples
    --------
    >>> import tempfile, daf_storage
    >>> path = tempfile.mkdtemp() + "/x.daf.zarr.zip"
    >>> daf_storage.ZarrDaf(path, "w").close()
    >>> daf_storage.repair(path)
    RepairReport(done=(), lost=(), damaged=(), indexes=())
    """
    if is_remote(path):
        raise errors.ReadOnlyError(
            f"{shown_url(str(path))}: data sets on a server are read-only; repair it there"
        )
    if foreign_path(path) is not None:
        if not Path(path).exists():
            open_daf(path).close()  # which says so
        raise errors.ReadOnlyError(
            f"{path}: what lies here is read in place and never written, so it is not repaired; "
            "write it again with the program that made it, or import what can be read of an "
            f"AnnData: daf import {errors.in_shell(path)} OUT.daf.zarr; a sidecar is made again "
            f"with 'daf index {errors.in_shell(path)} --refresh'"
        )
    where = container_of(path)
    with os_errors(where.given):
        leftovers = remove_leftovers(follow_links(where.container, where.given))
        cleared = ["cleared away what a killed program had left beside it"] * bool(leftovers)
        if cleared and not where.container.exists():
            return RepairReport(tuple(cleared), (), ())
        done, lost = _repair_container(where)
    whole = where.given_container if where.kind == "archive" else where.given
    findings = [f for f in verify(whole, progress=progress) if f.level == "error"]
    damaged = one_each(damage_of(finding.path, finding.problem) for finding in findings)
    return RepairReport(
        (*cleared, *done),
        tuple(one for one in lost if not one.is_index),
        tuple(one for one in damaged if not one.is_index),
        one_each(one for one in (*lost, *damaged) if one.is_index),
    )


def _repair_container(where: DafPath) -> tuple[list[str], tuple[Damage, ...]]:
    """Mend a container; return what was done, and what was lost."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecoveryWarning)
        if where.kind == "archive":
            return _repair_archive(where)
        if where.kind != "hdf5":
            return _repair_directory(where), ()
        with open_daf(where.given, "r+") as daf:
            return _add_groups(daf.writable_tree), ()


def _repair_directory(where: DafPath) -> list[str]:
    tree, done, root = open_directory_tree(where), list[str](), os.path.realpath(where.container)
    before, repeated = tree.consolidated(), dict[str, Any]()
    with suppress(errors.FormatError, errors.ReadOnlyError):
        for key, document in tree.repeated().items():
            folder = f"{root}/{posixpath.dirname(key)}"
            if os.path.realpath(folder) == folder:  # not outside of it, by dots or by a link
                repeated[key] = document
    done += ["cleared away what a crashed writer had left"] * bool(tree.recover())
    done += _add_groups(tree)
    done += [f"took {key} from the consolidated metadata" for key in tree.restore(repeated)]
    tree.refresh()
    if tree.consolidated() != before:
        done.append("wrote the consolidated metadata again")
    return done


def _repair_archive(where: DafPath) -> tuple[list[str], tuple[Damage, ...]]:
    with ExitStack() as held:
        store = open_archive(where, "r+", held)
        found = store.recovery
        lost = [] if where.form == "files" else lost_entries(found)
        done = [f"dropped {name}, which was not complete" for name in found.dropped]
        done += [f"completed {name}, whose data was there" for name in found.completed]
        if found.cut_bytes:
            cut = f"gave back {found.cut_bytes:,} bytes that belonged to no entry"
            done.append(cut if found.cut_bytes > 0 else "wrote the records at its end again")
        for group in groups_of(store):
            tree = tree_of(store, group)
            recovered = recovery_of(tree)(store, tree, group)
            lost += recovered
            gone = [damage.path for damage in recovered if damage.path]
            done += [f"took away {path}, of which a part was missing" for path in gone]
            done += _add_groups(tree, f"{group}/" if group else "")
    return done, one_each(lost)


def _add_groups(tree: WritableTree, prefix: str = "") -> list[str]:
    """Add the groups that each axis needs and does not have; say so."""
    axes = sorted(name for name, kind in tree.children(layout.AXES).items() if kind == "array")
    needed = [*layout.SKELETON, *map(layout.vectors_path, axes)]
    for axis in axes:
        needed += [f"{layout.MATRICES}/{axis}", *(layout.matrices_path(axis, o) for o in axes)]
    missing = [path for path in needed if tree.kind(path) is None]
    with tree.batch(), tree.transaction() as changes, tree.lock():
        for path in missing:
            try:
                changes.create_group(path)
                changes.publish(path, replace=False)
            except FileExistsError:  # only what says that it is a group was lost
                changes.mark_group(path)
    return [f"added the group {prefix}{path}, which was missing" for path in missing]
