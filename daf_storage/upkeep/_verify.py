"""Verify a data set by reading all of it.

`verify` checks the container (the archive, or the directory), then every rule of the Daf layout:
lengths, unique entries, bounds and order of sparse indices, and that the two orientations of a
matrix hold the same values.  It changes nothing.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from daf_storage.base import MatrixInfo, ShowProgress, Span, name_problem, progress_bar
from daf_storage.data import (
    Convention,
    ConventionWarning,
    DafReader,
    check_bools,
    digest,
    incomplete_properties,
    is_in_place,
    kept,
    layout,
    ordered,
    read_convention,
    read_entries_axis,
    relation_of,
    values_without_entry,
)
from daf_storage.errors import CorruptDataError, DafError, MissingDependencyError
from daf_storage.files_daf import FilesTree
from daf_storage.files_daf import incomplete_properties as incomplete_files
from daf_storage.opening import (
    SHARED_ARCHIVE_SUFFIX,
    SHARED_FILES_ARCHIVE_SUFFIX,
    DafPath,
    foreign_path,
    groups_of,
    open_daf,
    parse_path,
    tree_of,
)
from daf_storage.sidecars import SidecarTree
from daf_storage.stores import (
    DirectoryStore,
    MmapZipStore,
    Snapshot,
    abandoned,
    follow_links,
    is_remote,
    unfinished_rebuilds,
)
from daf_storage.stores.mmap_zip import check_entries, ends_with_directory, unused_bytes
from daf_storage.trees import Remarked, StoredArray, Tree, ZarrTree, differences, has_consolidated
from daf_storage.upkeep._index_storage import IndexStorage
from daf_storage.upkeep._verify_files import (
    Finding,
    verify_metadata_file,
    verify_no_metadata_file,
    verify_zarr_directory,
)

_BLOCK = 1 << 20


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
    if is_remote(path) or foreign_path(path) is not None:
        with open_daf(path) as daf:
            found = list(_verify_sidecar(daf))
            found += _verify_data(daf, lambda _: None)
            where = foreign_path(path)
            if where is not None and where.kind == "directory" and is_in_place(daf):
                found += verify_zarr_directory(DirectoryStore(where.container))
            return found
    container = container_of(path)
    if container.is_archive and container.container.is_file():
        return [*_abandoned(container), *_verify_archive(container, progress)]
    with _opened(container) as daf:
        found = list(_abandoned(container))
        found += list(_verify_directory(container)) if container.kind == "directory" else []
        with _bar(container, _size_bytes(container.container), progress) as add:
            return found + list(_verify_data(daf, add))


def _verify_sidecar(daf: DafReader) -> Iterator[Finding]:
    """Compare all that the sidecar of a data set has with what was written."""
    tree = daf.tree
    document = tree.document() if isinstance(tree, SidecarTree) else None
    if not isinstance(tree, SidecarTree) or document is None:
        return
    remedy = f"'daf index {tree.source} --refresh' makes it again"
    for path, problem in tree.damage():
        yield Finding("error", f"{tree.sidecar.name}/{path}", f"{problem}; {remedy}")
    if not document.checksums:
        problem = "it has no checksums, since an older version wrote it, and was not compared"
        yield Finding("warning", tree.sidecar.name, f"{problem}; {remedy}")


def container_of(path: str | Path) -> DafPath:
    """Return what a path means; an archive of several data sets may stand for all of them."""
    plain = str(path).rstrip("/")
    if plain.endswith((SHARED_ARCHIVE_SUFFIX, SHARED_FILES_ARCHIVE_SUFFIX)):
        return replace(parse_path(f"{plain}#/all"), given=plain, group="")
    return parse_path(path)


def _abandoned(where: DafPath) -> Iterator[Finding]:
    """Look for what killed programs have left that were making or replacing the container."""
    for folder in abandoned(follow_links(where.container, where.given)):
        yield Finding(
            "warning",
            "",
            f"a program that was making or replacing this was killed, and left {folder.name}; "
            f"'daf repair {where.given}' removes it",
        )


def _opened(where: DafPath) -> DafReader:
    return open_daf(where.given)


def _verify_archive(where: DafPath, progress: ShowProgress) -> Iterator[Finding]:
    try:
        store = MmapZipStore(where.container, location=where.given_container)
    except DafError as error:
        yield Finding("error", "", str(error))
        return
    with store:
        if not ends_with_directory(where.container):
            yield Finding(
                "warning",
                "",
                "a writer stopped in the middle of adding something; what was complete is served, "
                f"and 'daf repair {where.container}' takes the rest away",
            )
        with _bar(where, 2 * store.storage_bytes(), progress) as add:
            for name, problem in check_entries(store, add):
                yield Finding("error", name, problem)
            unused = unused_bytes(store) if store.is_own else 0
            if unused > 0:
                yield Finding("warning", "", f"{unused:,} bytes of the archive belong to no entry")
            yield from _verify_groups(where, store, add)


def _verify_groups(
    where: DafPath, store: MmapZipStore, add: Callable[[int], None]
) -> Iterator[Finding]:
    groups = [where.group] if where.group else groups_of(store)
    if not groups:
        yield Finding("error", "", "there is no data set in this archive")
    for group in groups:
        prefix = f"{group}/" if group and not where.group else ""
        tree = tree_of(store, group)
        for path in _incomplete(store, tree, group):
            yield Finding("error", prefix + path, "part of its data is missing")
        try:
            layout.check_version(tree)
        except DafError as error:
            yield Finding("error", prefix + layout.DAF, str(error))
            continue
        findings = list(_verify_data(DafReader(tree, name=where.given), add))
        snapshot = store.snapshot(group)
        remedy = f"'daf repair {where.given}' takes it out, since nothing is changed in archives"
        if isinstance(tree, FilesTree):
            findings += verify_no_metadata_file(tree, remedy)
        elif snapshot is not None and has_consolidated(tree.format, snapshot):
            findings += _verify_consolidated(tree, snapshot, remedy)
        for finding in findings:
            yield Finding(finding.level, prefix + finding.path, finding.problem)


def _incomplete(store: MmapZipStore, tree: FilesTree | ZarrTree, group: str) -> list[str]:
    """Return the paths of properties whose metadata is there and part of their data is not."""
    if isinstance(tree, FilesTree):
        return incomplete_files(tree)
    start = f"{group}/" if group else ""
    names = [key[len(start) :] for key in store if key.startswith(start)]
    return incomplete_properties(tree, names)


def _verify_directory(where: DafPath) -> Iterator[Finding]:
    """Check what only directories have: consolidated metadata, and leftovers of writers."""
    store = DirectoryStore(where.container, location=where.given)
    if store.has_leftovers():
        yield Finding(
            "warning",
            "",
            f"a writer is at work, or left something behind; 'daf repair {where.given}' clears it",
        )
    if unfinished_rebuilds(where.container):
        yield Finding(
            "warning",
            "",
            "a reordering was interrupted; do the same again to go on with it, or "
            f"'daf repair {where.given}' to clear away what it left",
        )
    remedy = f"'daf repair {where.given}' writes it again"
    if where.is_files:
        yield from verify_metadata_file(store, remedy)
        return
    tree, snapshot = ZarrTree(store), store.snapshot("")
    if snapshot is None:
        return
    try:
        is_there = has_consolidated(tree.format, snapshot)
    except DafError as error:
        yield Finding("error", tree.format.consolidated_file, str(error))
        return
    if is_there:
        yield from _verify_consolidated(tree, snapshot, remedy)
    else:
        yield Finding(
            "warning",
            tree.format.consolidated_file,
            f"there is no consolidated metadata, which readers over HTTP need; {remedy}",
        )


def _verify_consolidated(tree: ZarrTree, snapshot: Snapshot, remedy: str) -> Iterator[Finding]:
    """Check that the metadata at the root repeats what is there."""
    try:
        for key, problem in differences(tree.format, snapshot, layout.SKELETON):
            yield Finding("warning", key, f"{problem} the consolidated metadata; {remedy}")
    except CorruptDataError as error:
        yield Finding("error", tree.format.consolidated_file, str(error))


# The rules of the layout


def _verify_data(daf: DafReader, add: Callable[[int], None]) -> Iterator[Finding]:
    axes = yield from _listed(daf, layout.AXES, daf.axes_set)
    yield from _verify_groups_there(daf, set(axes))
    for name in (yield from _listed(daf, layout.SCALARS, daf.scalars_set)):
        path = layout.scalar_path(name)
        yield from _bad_name(name, path)
        yield from _attempt(daf.location, path, partial(daf.get_scalar, name))
    whole = []
    for axis in axes:
        path = layout.axis_path(axis)
        yield from _bad_name(axis, path)
        yield from _attempt(daf.location, path, partial(daf.get_pa_vector, axis, "name"))
        if not list(_attempt(daf.location, path, partial(daf.axis_length, axis))):
            whole.append(axis)
    for axis in whole:
        group = layout.vectors_path(axis)
        for name in (yield from _listed(daf, group, partial(daf.vectors_set, axis))):
            path = layout.vector_path(axis, name)
            yield from _bad_name(name, path)
            yield from _attempt(daf.location, path, partial(_check_vector, daf, axis, name, add))
            yield from _bad_convention(daf, path, Convention.EMPTY_IS_MISSING)
            yield from _verify_relation(daf, axis, name, whole)
    for rows, columns in itertools.product(whole, whole):
        group = layout.matrices_path(rows, columns)
        read = partial(daf.matrices_set, rows, columns, relayout=False)
        for name in (yield from _listed(daf, group, read)):
            yield from _verify_matrix(daf, rows, columns, name, add)
    for path, array in kept.arrays(daf.tree).items():
        yield from _attempt(daf.location, path, partial(_check_kept, path, array, add))
    yield from _verify_indexes(daf)
    for what, problem in daf.tree.losses() if isinstance(daf.tree, Remarked) else ():
        yield Finding("error", what, problem.removeprefix(f"{daf.location}: "))


def _listed(
    daf: DafReader, path: str, read: Callable[[], set[str]]
) -> Generator[Finding, None, list[str]]:
    """Return the names in a group, sorted; none, and a finding, if it cannot be listed."""
    names: list[str] = []
    yield from _attempt(daf.location, path, lambda: names.extend(sorted(read())))
    return names


def _verify_indexes(daf: DafReader) -> Iterator[Finding]:
    """Check that each index is what was stored, and of what its vectors are now."""
    indexes = IndexStorage(daf)
    for place in indexes.places():
        found = indexes.load(place)
        if found is not None and found.state != "fit":
            yield Finding(
                "error" if found.state == "damaged" else "warning",
                place.path,
                f"{found.problem}; queries do not use this index, and 'daf repair {daf.location}' "
                "builds it again",
            )


def _verify_groups_there(daf: DafReader, axes: set[str]) -> Iterator[Finding]:
    """Check that each axis has its groups, as others need, and that no group lacks its axis."""
    tree = daf.tree
    for group in layout.SKELETON:
        if tree.kind(group) != "group":
            yield Finding("error", group, "this group is missing")
    needed = [layout.vectors_path(axis) for axis in axes]
    needed += [layout.matrices_path(*pair) for pair in itertools.product(axes, axes)]
    for path in sorted(needed):
        if tree.kind(path) is None:
            yield Finding(
                "warning", path, "this group is missing; some other programs depend on it"
            )
    for group in (layout.VECTORS, layout.MATRICES):
        for name in (yield from _listed(daf, group, partial(_children, tree, group))):
            if name not in axes and _has_arrays(tree, f"{group}/{name}"):
                yield Finding("error", f"{group}/{name}", f"there is no axis {name!r}")


def _children(tree: Tree, path: str) -> set[str]:
    return set(tree.children(path))


def _has_arrays(tree: Tree, path: str) -> bool:
    try:
        children = tree.children(path).items()
    except DafError:
        return True
    return any(kind == "array" or _has_arrays(tree, f"{path}/{name}") for name, kind in children)


def _bad_name(name: str, path: str) -> Iterator[Finding]:
    problem = name_problem(name)
    if problem is not None:
        yield Finding("error", path, f"its name {problem}")


def _bad_convention(daf: DafReader, path: str, *allowed: Convention) -> Iterator[Finding]:
    try:
        node = daf.tree.node(path)
    except DafError:  # found when it was read
        return
    if node is None:
        return
    for problem in (read_convention(node, set(allowed))[0], read_entries_axis(node)[0]):
        if problem:
            yield Finding("warning", path, f"{problem}; it is ignored")


def _attempt(location: str, path: str, read: Callable[[], Any]) -> Iterator[Finding]:
    """Do something that reads a property; what it raises is a finding."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConventionWarning)  # a finding of its own
            read()
    except (DafError, OSError) as error:
        problem = str(error).removeprefix(f"{location}: ").removeprefix(f"{path}: ")
        yield Finding("error", path, problem)


def _check_vector(daf: DafReader, axis: str, name: str, add: Callable[[int], None]) -> None:
    vector = daf.open_vector(axis, name)
    info = vector.info
    if info.storage_type.is_string:
        add(vector.read_strings().nbytes)
    elif info.is_sparse:
        parts = vector.sparse_parts()
        add(parts.nzind.nbytes + (0 if parts.nzval is None else parts.nzval.nbytes))
        if parts.nzval is not None:
            check_bools(parts.nzval)
    else:
        for start in range(0, info.length, _BLOCK):
            block = vector.read(Span(start, min(start + _BLOCK, info.length)))
            check_bools(block)
            add(block.nbytes)


def _verify_relation(daf: DafReader, axis: str, name: str, axes: list[str]) -> Iterator[Finding]:
    """Check that the values of a vector are entries of the axis that it refers to.

    A name may be what it is by chance; what was recorded is not.
    """
    path = layout.vector_path(axis, name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConventionWarning)
            vector = daf.open_vector(axis, name)
        recorded = vector.info.entries_of
        relation = relation_of(axes, vector.info)
        if recorded is not None and not daf.has_axis(recorded):
            yield Finding(
                "warning",
                path,
                f"it is recorded that its values are entries of the axis {recorded!r}, which is "
                "not there; add that axis, or set the vector again",
            )
        if relation is None:
            return
        entries = daf.get_pa_vector(relation.to_axis, "name")
        unknown = values_without_entry(vector.string_batches(), entries)
    except (DafError, OSError):  # found when it was read
        return
    if unknown is None:
        return
    first, count = unknown
    is_recorded = relation.source == "import"
    why = "it is recorded" if is_recorded else "its name says"
    remedy = "set the vector again" if is_recorded else "give the vector another name"
    yield Finding(
        "error" if is_recorded else "warning",
        path,
        f"{why} that its values are entries of the axis {relation.to_axis!r}, but {count:,} of "
        f"{vector.info.length:,} are not, first {first!r}; add such entries, or {remedy}",
    )


def _check_kept(path: str, array: StoredArray, add: Callable[[int], None]) -> None:
    """Read a part that is kept for AnnData; without h5py, whether it can be read stays open."""
    add(array.read().nbytes)
    with suppress(MissingDependencyError):
        kept.check_part(path, array)


def _verify_matrix(
    daf: DafReader, rows: str, columns: str, name: str, add: Callable[[int], None]
) -> Iterator[Finding]:
    path = layout.matrix_path(rows, columns, name)
    yield from _bad_name(name, path)
    if rows == columns:
        yield from _bad_convention(daf, path, Convention.ROW_MAJOR)
    else:
        yield from _bad_convention(daf, path)
    digests: list[int] = []
    found = list(
        _attempt(
            daf.location,
            path,
            lambda: digests.append(digest(ordered(daf.open_matrix(rows, columns, name)), add)),
        )
    )
    yield from found
    has_other = daf.has_matrix(columns, rows, name, relayout=False)
    if found or rows >= columns or not has_other:
        return
    other = layout.matrix_path(columns, rows, name)
    with_other: list[MatrixInfo] = []
    yield from _attempt(
        daf.location, other, lambda: with_other.append(daf.matrix_info(columns, rows, name))
    )
    if not with_other:
        return
    if with_other[0].storage_type is not daf.matrix_info(rows, columns, name).storage_type:
        yield Finding("error", path, f"it and {other} have elements of different types")
        return
    try:
        flipped = digest(daf.open_matrix(columns, rows, name), lambda _: None, flipped=True)
    except (DafError, OSError):
        return  # found when it is its own turn
    if flipped != digests[0]:
        yield Finding(
            "error", path, f"it and {other} are not the same matrix: delete one and relayout"
        )


def _size_bytes(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    folder = path
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@contextmanager
def _bar(where: DafPath, total_bytes: int, show: ShowProgress) -> Iterator[Callable[[int], None]]:
    with progress_bar(f"verify {where.container.name}", total_bytes, show=show) as progress:
        yield progress.add
