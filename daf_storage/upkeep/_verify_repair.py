"""Verify a data set by reading all of it, and repair it after a crash or an incomplete copy.

`verify` checks the container (the archive, or the directory), then every rule of the Daf layout:
lengths, unique entries, bounds and order of sparse indices, and that the two orientations of a
matrix hold the same values.  It changes nothing; `repair` does, and tells what is lost.  Of an
AnnData in a Zarr directory it looks for files that are missing: Zarr leaves out chunks that hold
the fill value alone, so that only some are noticed.
"""

from __future__ import annotations

import itertools
import os
import posixpath
import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from daf_storage import errors
from daf_storage.base import Progress, ShowProgress, is_remote, name_problem, progress_bar
from daf_storage.data import (
    ConventionWarning,
    DafReader,
    Damage,
    RecoveryWarning,
    check_bools,
    damage_of,
    digest,
    incomplete_properties,
    is_in_place,
    kept,
    layout,
    lost_entries,
    one_each,
    ordered,
    relation_of,
    size_bytes,
    values_without_entry,
)
from daf_storage.errors import DafError, MissingDependencyError, in_shell
from daf_storage.files_daf import FilesTree
from daf_storage.files_daf import incomplete_properties as incomplete_files
from daf_storage.opening import (
    SHARED_ARCHIVES,
    DafPath,
    foreign_path,
    groups_of,
    open_archive,
    open_daf,
    open_directory_tree,
    parse_path,
    recovery_of,
    tree_of,
)
from daf_storage.sidecars import SidecarTree
from daf_storage.stores import (
    DirectoryStore,
    MmapZipStore,
    abandoned,
    follow_links,
    os_errors,
    remove_leftovers,
    shown_url,
)
from daf_storage.stores.mmap_zip import check_entries, unused_bytes
from daf_storage.trees import Remarked, StoredArray, Tree, WritableTree, WritableZarrTree, ZarrTree
from daf_storage.upkeep._index_storage import IndexStorage
from daf_storage.upkeep._sidecar import size_of

Level: TypeAlias = Literal["error", "warning"]
Add: TypeAlias = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a data set that is not as it should be."""

    level: Level
    """An ``error`` makes data wrong or unreadable; a ``warning`` is untidy, or hampers others."""
    path: str
    """What it is about: a property, an entry of the archive, or empty for all of it."""
    problem: str
    """What is wrong, in a sentence."""

    def __str__(self) -> str:
        return ": ".join([self.level, *([self.path] if self.path else []), self.problem])


class _Findings(list[Finding]):
    """Collects what is wrong.

    Parameters
    ----------
    location
        Where the data set is, which messages need not say again.
    prefix
        What comes before the paths: the data set within an archive.
    """

    def __init__(self, location: str = "", prefix: str = "") -> None:
        super().__init__()
        self._location = location
        self._prefix = prefix

    def error(self, path: str, problem: str) -> None:
        """Note what makes data wrong or unreadable."""
        self.append(Finding("error", f"{self._prefix}{path}", problem))

    def warning(self, path: str, problem: str) -> None:
        """Note what is untidy, or hampers others."""
        self.append(Finding("warning", f"{self._prefix}{path}", problem))

    def attempt(self, path: str, read: Callable[[], Any]) -> Any:
        """Return what reading a property yields; what it raises is noted, and None returned.

        Attributes that make no sense, of which reading it warns, are noted too.
        """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConventionWarning)
            try:
                return read()
            except (DafError, OSError) as error:
                self.error(path, self._shortened(path, error))
                return None
            finally:
                for each in caught:
                    self.warning(path, self._shortened(path, each.message))

    def _shortened(self, path: str, message: object) -> str:
        return str(message).removeprefix(f"{self._location}: ").removeprefix(f"{path}: ")

    def listed(self, path: str, read: Callable[[], Iterable[str]]) -> list[str]:
        """Return the names in a group, sorted; none, and an error, if it cannot be listed.

        A name that no property may have is reported as an error, and left out.
        """
        names = self.attempt(path, lambda: sorted(read())) or []
        problems = {name: problem for name in names if (problem := name_problem(name))}
        for name, problem in problems.items():
            self.error(f"{path}/{name}", f"its name {problem}")
        return [name for name in names if name not in problems]


def _check_zarr_directory(found: _Findings, store: DirectoryStore) -> None:
    """Look for files of an AnnData that are missing, as far as other files say so."""
    tree, named = WritableZarrTree(store, consolidated=False), set[str]()
    with suppress(DafError):
        named.update(map(posixpath.dirname, tree.repeated()))
    gone = {path for path in named if tree.kind(path) is None}
    for path in sorted(gone):
        if posixpath.dirname(path) not in gone:
            problem = "it is gone, and still in the consolidated metadata, by which others read it"
            found.error(path, problem)
    for place, folders, files in os.walk(store.root):
        path = Path(place).relative_to(store.root).as_posix()
        if not folders and not files and path != ".":
            found.warning(
                path,
                "this folder is empty: a chunk that was here is missing, and is read as the fill "
                "value; unless it was set to that since, it is lost",
            )
        if {"data", "indices", "indptr"} <= set(folders):
            with suppress(DafError):  # found when the matrix was read
                _check_elements(found, tree, path)


def _check_elements(found: _Findings, tree: ZarrTree, path: str) -> None:
    """Look for chunks of the elements of a sparse matrix where those of their positions are.

    The other way round, reading the matrix is an error where it would be wrong.
    """
    node = tree.node(path)
    data, indices = (None if node is None else node.array(name) for name in ("data", "indices"))
    if data is None or indices is None:
        return
    missing = {span: name for name, span in data.unstored_chunks(asks_server=True)}
    is_empty = sum(span.size for span in missing) == data.info.size
    for _, span in indices.unstored_chunks(asks_server=True):
        missing.pop(span, None)
    if missing and data.info.chunks == indices.info.chunks and not is_empty:
        chunk = missing[min(missing, key=lambda span: span.start)].rpartition(": ")[2]
        found.warning(
            f"{path}/data",
            f"{chunk} is missing, and that of the positions is there: unless all of its "
            "elements are stored zeros, they are lost",
        )


def verify(path: str | Path, *, progress: ShowProgress = "auto") -> list[Finding]:
    """Read a whole data set and return everything that is wrong with it.

    Parameters
    ----------
    path
        A data set, also by its URL; or a whole archive of several, ``x.dafs.zarr.zip``, all of
        which are read.
    progress
        Whether to show a bar on stderr.

    Returns
    -------
    list of Finding
        Empty if everything is as it should be.

    Raises
    ------
    SourceNotFoundError
        There is nothing at this path.

    Examples
    --------
    >>> import tempfile, daf_storage
    >>> path = tempfile.mkdtemp() + "/x.daf.zarr.zip"
    >>> daf_storage.ZarrDaf(path, "w").close()
    >>> daf_storage.verify(path)
    []
    """
    found = _Findings()
    where = None if is_remote(path) else foreign_path(path)
    if is_remote(path) or where is not None:
        with open_daf(path) as daf:
            _check_sidecar(found, daf)
            found += _verify_data(daf, lambda _: None)
            if where is not None and where.kind == "directory" and is_in_place(daf):
                _check_zarr_directory(found, DirectoryStore(where.container))
        return found
    container = container_of(path)
    _check_abandoned(found, container)
    if container.kind == "archive" and container.container.is_file():
        _verify_archive(found, container, progress)
        return found
    with open_daf(container.given) as daf:
        if container.kind == "directory":
            _verify_directory(found, container)
        with _bar(container, size_of(container.container), progress) as bar:
            found += _verify_data(daf, bar.add)
    return found


def _check_sidecar(found: _Findings, daf: DafReader) -> None:
    """Compare all that the sidecar of a data set has with what was written."""
    tree = daf.tree
    if isinstance(tree, SidecarTree):
        for path, problem in tree.damage():
            remedy = f"'daf index {in_shell(tree.source)} --refresh' makes it again"
            found.error(f"{tree.sidecar.name}/{path}", f"{problem}; {remedy}")


def container_of(path: str | Path) -> DafPath:
    """Return what a path means; an archive of several data sets may stand for all of them."""
    plain = str(path).rstrip("/")
    if plain.endswith(SHARED_ARCHIVES):
        return replace(parse_path(f"{plain}#/all"), given=plain, group="")
    return parse_path(path)


def _check_abandoned(found: _Findings, where: DafPath) -> None:
    """Look for what killed programs have left that were making or replacing the container."""
    for folder in abandoned(follow_links(where.container, where.given)):
        found.warning(
            "",
            f"a program that was making or replacing this was killed, and left {folder.name}; "
            f"'daf repair {in_shell(where.given)}' removes it",
        )


def _verify_archive(found: _Findings, where: DafPath, progress: ShowProgress) -> None:
    try:
        store = MmapZipStore(where.container, location=where.given_container)
    except DafError as error:
        found.error("", str(error))
        return
    with store:
        if not store.ends_with_directory:
            found.warning(
                "",
                "a writer stopped in the middle of adding something; what was complete is served, "
                f"and 'daf repair {in_shell(where.container)}' takes the rest away",
            )
        total = 2 * sum(entry.size_bytes for entry in store.entries())
        with _bar(where, total, progress) as bar:
            for name, problem in check_entries(store, bar.add):
                found.error(name, problem)
            unused = unused_bytes(store) if store.is_own else 0
            if unused > 0:
                found.warning("", f"{unused:,} bytes of the archive belong to no entry")
            groups = [where.group] if where.group else groups_of(store)
            if not groups:
                found.error("", "there is no data set in this archive")
            for group in groups:
                found += _verify_group(where, store, group, bar.add)


def _verify_group(where: DafPath, store: MmapZipStore, group: str, add: Add) -> _Findings:
    """Verify a data set of an archive."""
    prefix = f"{group}/" if group and not where.group else ""
    tree, found = tree_of(store, group), _Findings(prefix=prefix)
    for path in (
        incomplete_files(tree)
        if isinstance(tree, FilesTree)
        else incomplete_properties(tree, store, group)
    ):
        found.error(path, "part of its data is missing")
    try:
        layout.check_version(tree)
    except DafError as error:
        found.error(layout.DAF, str(error))
        return found
    found += _verify_data(DafReader(tree, name=where.given), add, prefix)
    return found


def _verify_directory(found: _Findings, where: DafPath) -> None:
    """Check what only directories have: consolidated metadata, and leftovers of writers."""
    store = DirectoryStore(where.container, location=where.given)
    command = f"daf repair {in_shell(where.given)}"
    if store.has_leftovers():
        found.warning("", f"a writer is at work, or left something behind; '{command}' clears it")
    tree, remedy = open_directory_tree(where), f"'{command}' writes it again"
    try:
        if not tree.repeated():
            problem = "there is no consolidated metadata, which readers over HTTP need"
            found.warning(tree.consolidated_file, f"{problem}; {remedy}")
            return
        for key, problem in tree.differences((*layout.SKELETON, layout.KEPT)):
            is_lost = tree.lost_file(key) is not None
            note = found.error if is_lost else found.warning
            does = "puts it back" if is_lost else "writes that again"
            note(key, f"{problem} the consolidated metadata; '{command}' {does}")
    except DafError as error:
        found.error(tree.consolidated_file, f"{error}; {remedy}")


# The rules of the layout


def _verify_data(daf: DafReader, add: Add, prefix: str = "") -> _Findings:
    """Read everything."""
    found = _Findings(daf.location, prefix)
    axes = found.listed(layout.AXES, daf.axes_set)
    _check_groups(found, daf.tree, set(axes))
    for name in found.listed(layout.SCALARS, daf.scalars_set):
        path = layout.scalar_path(name)
        found.attempt(path, partial(daf.get_scalar, name))
    whole = []
    for axis in axes:
        path = layout.axis_path(axis)
        found.attempt(path, partial(daf.get_pa_vector, axis, "name"))
        with suppress(DafError, OSError):
            daf.axis_length(axis)
            whole.append(axis)
    for axis in whole:
        for name in found.listed(layout.vectors_path(axis), partial(daf.vectors_set, axis)):
            path = layout.vector_path(axis, name)
            found.attempt(path, partial(_read_vector, daf, axis, name, add))
            with suppress(DafError, OSError):  # found when it was read
                _check_relation(found, daf, axis, name, whole)
    for rows, columns in itertools.product(whole, whole):
        read = partial(daf.matrices_set, rows, columns, relayout=False)
        for name in found.listed(layout.matrices_path(rows, columns), read):
            _check_matrix(found, daf, rows, columns, name, add)
    for path, array in kept.arrays(daf.tree).items():
        found.attempt(path, partial(_read_kept, path, array, add))
    _check_indexes(found, daf)
    for what, problem in daf.tree.losses() if isinstance(daf.tree, Remarked) else ():
        found.error(what, problem.removeprefix(f"{daf.location}: "))
    return found


def _check_indexes(found: _Findings, daf: DafReader) -> None:
    """Check that each index is what was stored, and of what its vectors are now."""
    indexes = IndexStorage(daf)
    for place in indexes.places():
        index = indexes.load(place)
        if index is not None and index.state != "fit":
            note = found.error if index.state == "damaged" else found.warning
            note(
                place.path,
                f"{index.problem}; queries do not use this index, and "
                f"'daf repair {in_shell(daf.location)}' builds it again",
            )


def _check_groups(found: _Findings, tree: Tree, axes: set[str]) -> None:
    """Check that each axis has its groups, as others need, and that no group lacks its axis."""
    for group in layout.SKELETON:
        if tree.kind(group) != "group":
            found.error(group, "this group is missing")
    for path in layout.groups_of_axes(axes):
        if tree.kind(path) is None:
            found.warning(path, "this group is missing; some other programs depend on it")
    for group in (layout.VECTORS, layout.MATRICES):
        for name in found.listed(group, partial(tree.children, group)):
            if name not in axes and layout.has_arrays(tree, f"{group}/{name}"):
                found.error(f"{group}/{name}", f"there is no axis {name!r}")


def _read_vector(daf: DafReader, axis: str, name: str, add: Add) -> None:
    vector = daf.open_vector(axis, name)
    values: Any = vector.values()
    numbers = values.nzval if vector.info.is_sparse else values
    if isinstance(numbers, np.ndarray):
        check_bools(numbers)
    add(size_bytes(vector.arrays().values()))


def _read_kept(path: str, array: StoredArray, add: Add) -> None:
    """Read a part that is kept for AnnData; without h5py, whether it can be read stays open."""
    add(array.read().nbytes)
    with suppress(MissingDependencyError), kept.opened(array, what=path):
        pass


def _check_relation(
    found: _Findings, daf: DafReader, axis: str, name: str, axes: list[str]
) -> None:
    """Check that the values of a vector are entries of the axis that it refers to.

    A name may be what it is by chance; what was recorded is not.
    """
    path = layout.vector_path(axis, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConventionWarning)
        vector = daf.open_vector(axis, name)
    recorded = vector.info.entries_of
    relation = relation_of(axes, vector.info)
    if recorded is not None and not daf.has_axis(recorded):
        found.warning(
            path,
            f"it is recorded that its values are entries of the axis {recorded!r}, which is "
            "not there; add that axis, or set the vector again",
        )
    if relation is None:
        return
    entries = daf.get_pa_vector(relation.to_axis, "name")
    unknown = values_without_entry(vector.string_batches(), entries)
    if unknown is None:
        return
    first, count = unknown
    why, remedy, note = ("its name says", "give the vector another name", found.warning)
    if relation.source == "import":
        why, remedy, note = ("it is recorded", "set the vector again", found.error)
    note(
        path,
        f"{why} that its values are entries of the axis {relation.to_axis!r}, but {count:,} of "
        f"{vector.info.length:,} are not, first {first!r}; add such entries, or {remedy}",
    )


def _check_matrix(
    found: _Findings, daf: DafReader, rows: str, columns: str, name: str, add: Add
) -> None:
    path, other = layout.matrix_path(rows, columns, name), layout.matrix_path(columns, rows, name)
    own = found.attempt(path, lambda: digest(ordered(daf.open_matrix(rows, columns, name)), add))
    if own is None or rows >= columns:
        return
    with suppress(DafError, OSError):  # found when it is its own turn
        flipped = daf.open_matrix(columns, rows, name)
        if flipped.info.storage_type is not daf.matrix_info(rows, columns, name).storage_type:
            found.error(path, f"it and {other} have elements of different types")
        elif digest(flipped, lambda _: None, flipped=True) != own:
            found.error(path, f"it and {other} are not the same matrix: delete one and relayout")


def _bar(where: DafPath, total_bytes: int, show: ShowProgress) -> AbstractContextManager[Progress]:
    return progress_bar(f"verify {where.container.name}", total_bytes, show=show)


def data_set_paths(path: str | Path) -> list[str]:
    """Return the paths of the data sets of a path: one, or those of a whole archive of several."""
    where = container_of(path)
    if not where.given.endswith(SHARED_ARCHIVES):
        return [where.given]
    with MmapZipStore(where.container, location=where.given_container) as store:
        return [f"{where.given}#/{group}" for group in groups_of(store)]


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
            f"AnnData: daf import {in_shell(path)} OUT.daf.zarr; a sidecar is made again "
            f"with 'daf index {in_shell(path)} --refresh'"
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
    needed = [*layout.SKELETON, *layout.groups_of_axes(axes)]
    missing = [path for path in needed if tree.kind(path) is None]
    with tree.batch(), tree.transaction() as changes, tree.lock():
        for path in missing:
            try:
                changes.create_group(path)
                changes.publish(path, replace=False)
            except FileExistsError:  # only what says that it is a group was lost
                changes.mark_group(path)
    return [f"added the group {prefix}{path}, which was missing" for path in missing]
