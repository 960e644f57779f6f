"""Make, refresh and remove the sidecar of an attached data set.

A sidecar appears when it is complete, with what an older one had; a crash leaves what was there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from daf_storage import errors
from daf_storage.base import NAME_VECTOR, ShowProgress, is_remote, progress_bar
from daf_storage.data import (
    DafReader,
    StoredMatrix,
    StoredVector,
    check_reader,
    copy_stored,
    is_in_place,
    layout,
    ordered,
    size_bytes,
    stored_properties,
    write_transposed,
)
from daf_storage.opening import MemoryDaf, new_data_set, open_daf
from daf_storage.sidecars import (
    SIDECAR_SCALAR,
    SIDECARS_VARIABLE,
    SidecarDocument,
    SidecarTree,
    array_checksums,
    array_types,
    is_sidecar,
    property_problem,
    read_document,
    sidecar_path,
    source_digest,
    source_state,
    stable_state,
)
from daf_storage.stores import os_errors, scratch
from daf_storage.upkeep._copy import copy_all
from daf_storage.upkeep._index_storage import IndexStorage


@dataclass(frozen=True, slots=True)
class SidecarStatus:
    """What is known of the sidecar of a data set."""

    path: str
    """Where it is."""
    is_used: bool
    """Whether it was made of the source as it is."""
    problem: str
    """Why it is not used."""
    size_bytes: int
    """Of its files."""
    properties: tuple[str, ...]
    """What it has: axes, vectors and matrices, by their path in the data set."""
    indexes: tuple[str, ...]
    """The vectors that have an index in it, as ``axis/name``."""


def sidecar_status(daf: DafReader) -> SidecarStatus | None:
    """Return what is known of the sidecar of a data set; None if it has none."""
    check_reader(daf, "sidecar_status")
    tree = daf.tree
    return _status(daf) if isinstance(tree, SidecarTree) and is_sidecar(tree.sidecar) else None


def _status(daf: DafReader) -> SidecarStatus:
    tree = sidecar_tree(daf)
    document = tree.document()
    is_used = document is not None
    return SidecarStatus(
        str(tree.sidecar),
        is_used=is_used,
        problem="" if is_used else tree.problem or "it was changed just now",
        size_bytes=size_of(tree.sidecar),
        properties=() if document is None else tuple(document.arrays),
        indexes=_indexes_of(daf) if is_used else (),
    )


def sidecar_indexes(daf: DafReader) -> tuple[str, ...]:
    """Return the vectors that have an index in the sidecar, also of one that is not used."""
    try:
        with open_daf(sidecar_tree(daf).sidecar) as opened:
            return _indexes_of(opened)
    except errors.DafError:
        return ()


def _indexes_of(daf: DafReader) -> tuple[str, ...]:
    places = IndexStorage(daf).places()
    return tuple(sorted({f"{place.axis}/{place.columns[0]}" for place in places}))


def can_have_sidecar(daf: DafReader) -> bool:
    """Return whether a sidecar of a data set is used, or would be, as it was opened.

    >>> from daf_storage import MemoryDaf
    >>> can_have_sidecar(MemoryDaf())
    False
    """
    return isinstance(daf.tree, SidecarTree)


def sidecar_tree(daf: DafReader) -> SidecarTree:
    """Return the tree of a data set that can have a sidecar.

    Raises
    ------
    InvalidInputError
        It has none: it is a data set of Daf, or lies on a server.
    """
    check_reader(daf, "a sidecar")
    if isinstance(daf.tree, SidecarTree):
        return daf.tree
    if is_in_place(daf) and daf.origin is not None and is_remote(daf.origin.path):
        raise errors.InvalidInputError(
            f"{daf.location}: the sidecar of a file on a server lies on this machine, where you "
            f"say: open_daf(URL, sidecar='mine.daf.zarr') (on the command line: daf index "
            f"{daf.location} --into mine.daf.zarr), or in the directory that the variable "
            f"{SIDECARS_VARIABLE} names"
        )
    if is_in_place(daf) and daf.origin is not None:
        raise errors.InvalidInputError(
            f"{daf.location}: it was opened without its sidecar, as one is whose axes have other "
            "names; open it with open_daf(path), or name a sidecar for these names: "
            "open_daf(path, obs_is=..., sidecar='other.daf.zarr')"
        )
    raise errors.InvalidInputError(
        f"{daf.location}: only a file of others that is read in place, such as an h5ad, has a "
        "sidecar; in a data set of Daf, store the other layout with relayout_matrix and indexes "
        "with build_index"
    )


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of the files below a directory."""
    try:
        state = source_state(path)
    except errors.DafError:
        return 0
    return 0 if state is None else state.size_bytes


def write_sidecar(
    daf: DafReader,
    matrices: str | Sequence[str] = (),
    *,
    columns: Iterable[tuple[str, str]] = (),
    slow_columns: bool = True,
    path: str | Path | None = None,
    max_bytes: int | None = None,
    progress: ShowProgress = "auto",
) -> SidecarStatus:
    """Write the other layout of matrices, and decoded columns, beside a data set read in place.

    They are used at once, and whenever the data set is opened again, while its files are unchanged.
    What an older sidecar of the same source has is kept.

    Parameters
    ----------
    daf
        An AnnData that was opened in place: ``open_daf("atlas.h5ad")``.
    matrices
        Names of matrices of two axes; each is written in the layout that the source lacks.
    columns
        Vectors to decode, as pairs of an axis and a name (``name`` for the entries alone).  The
        entries of their axes come along.
    slow_columns
        Whether to decode all vectors that take long to read as well: strings that are stored one
        by one, and numbers that are compressed.
    path
        Where to write it, a name that ends in ``.daf.zarr``; by default where it is, or beside the
        source.  A sidecar that is not beside it is named when the source is opened:
        ``open_daf("atlas.h5ad", sidecar=...)``.
    max_bytes
        How large all of it may become.
    progress
        Whether to show a bar on stderr.

    Raises
    ------
    InvalidInputError
        The data set is not one that is read in place, or a matrix has one axis only.
    MatrixNotFoundError, VectorNotFoundError
        There is none of this name.
    BudgetError
        It would be larger than ``max_bytes``; nothing was written.
    ExistsError
        There is something else at the path.
    InUseError
        The source was changed meanwhile; nothing was written.
    """
    tree = sidecar_tree(daf)
    target = tree.sidecar if path is None else sidecar_path(path)
    if target.exists() and not is_sidecar(target):
        raise errors.ExistsError(
            f"{target}: what is here is no sidecar, and is not replaced; name another path"
        )
    names = [matrices] if isinstance(matrices, str) else list(dict.fromkeys(matrices))
    vectors = [*columns, *(_slow_vectors(daf) if slow_columns else ())]
    old = tree.document() if target == tree.sidecar else None
    if old is not None and tree.damage():
        refresh_sidecar(daf, progress=progress)
    return _made(daf, target, names, vectors, None if old is None else target, max_bytes, progress)


def _made(
    daf: DafReader,
    target: Path,
    names: Iterable[str],
    vectors: Iterable[tuple[str, str]],
    old: Path | None,
    max_bytes: int | None,
    progress: ShowProgress,
) -> SidecarStatus:
    """Write a sidecar with what an older one has; matrices in the layout that the source lacks."""
    tree = sidecar_tree(daf)
    matrices = {matrix: None for name in names for matrix in _matrices_of(daf, name)}
    vectors = dict.fromkeys(vectors)
    axes = {axis for *pair, _ in matrices for axis in pair} | {axis for axis, _ in vectors}
    with MemoryDaf() if old is None else open_daf(old) as previous:
        new_axes = sorted(axes - previous.axes_set())
        new_vectors = {
            layout.vector_path(axis, name): daf.open_vector(axis, name)
            for axis, name in vectors
            if name != "name" and not _has(previous, layout.vector_path(axis, name))
        }
        new_matrices = [
            daf.open_matrix(*matrix)
            for matrix in matrices
            if not _has(previous, layout.matrix_path(matrix[1], matrix[0], matrix[2]))
        ]
        new: list[StoredVector | StoredMatrix] = [*new_vectors.values(), *new_matrices]
        size = size_bytes(daf.string_array(axis, NAME_VECTOR) for axis in new_axes)
        size += size_bytes(array for one in new for array in one.arrays().values())
        old_bytes = 0 if old is None else size_of(target)
        _check_budget(daf, old_bytes + size, max_bytes)
        state = stable_state(tree.source)
        if state is None:
            raise errors.SourceNotFoundError(f"no such file or directory: {tree.source}")
        if old is None:
            _check_replaceable(target)
        with (
            progress_bar("sidecar", size + state.size_bytes, show=progress) as bar,
            new_data_set(target, if_exists="replace") as made,
        ):
            copy_all(previous, made, link=True, progress="never")
            for axis in new_axes:
                made.add_entries(axis, daf.get_pa_vector(axis, "name"))
            for path, vector in new_vectors.items():
                with made.change(path) as changes:
                    copy_stored(changes, path, vector, add=bar.add)
            for stored in new_matrices:
                info = stored.info
                path = layout.matrix_path(info.columns_axis, info.rows_axis, info.name)
                with made.change(path) as changes:
                    write_transposed(changes, path, ordered(stored), progress=bar.add)
            digest = source_digest(tree.source, state, bar.add)
            if digest is None or source_state(tree.source) != state:
                raise errors.InUseError(
                    f"{tree.source}: it was changed while its sidecar was being written, which was "
                    "discarded; try again when nothing writes to it"
                )
            axis_paths = map(layout.axis_path, made.axes_set())
            paths = sorted([*axis_paths, *(path for path, _ in stored_properties(made))])
            arrays = {path: array_types(made.tree, path) for path in paths}
            checksums = {path: array_checksums(made.tree, path) for path in arrays}
            name, size = Path(str(tree.source)).name, state.size_bytes
            document = SidecarDocument(name, state.fingerprint, digest, size, arrays, checksums)
            made.set_scalar(SIDECAR_SCALAR, document.text(), if_exists="replace")
            if max_bytes is not None:
                _check_budget(daf, size_of(Path(made.location)), max_bytes)
    tree.look_at(target)
    return _status(daf)


def refresh_sidecar(daf: DafReader, *, progress: ShowProgress = "auto") -> SidecarStatus:
    """Make a sidecar fit the source again; return what it has.

    Both are read once.  If the source holds what it held, as a copy does, and the sidecar what was
    written, that is noted, else all that the sidecar had is written again, without indexes.  The
    old one stays until that is complete.

    Raises
    ------
    SourceNotFoundError
        There is no sidecar.
    """
    tree = sidecar_tree(daf)
    target = tree.sidecar
    if not is_sidecar(target):
        raise errors.SourceNotFoundError(f"{daf.location}: there is no sidecar at {target}")
    try:
        with open_daf(target) as opened:
            document = read_document(opened.tree)
            is_sound = not any(
                property_problem(opened.tree, document, path) for path in document.arrays
            )
    except errors.DafError:
        return write_sidecar(daf, progress=progress)
    state = stable_state(tree.source)
    if is_sound and state is not None and state.size_bytes == document.size_bytes:
        with progress_bar("check", state.size_bytes, show=progress) as bar:
            digest = source_digest(tree.source, state, bar.add)
        if digest == document.digest:
            with open_daf(target, "r+") as writer:
                note = replace(document, fingerprint=state.fingerprint)
                writer.set_scalar(SIDECAR_SCALAR, note.text(), if_exists="replace")
            tree.look_at(target)
            return _status(daf)
    parts = [path.split("/") for path in document.arrays]
    columns = [(p[1], p[2]) for p in parts if p[0] == layout.VECTORS and _has(daf, "/".join(p))]
    names = [p[3] for p in parts if p[0] == layout.MATRICES]
    matrices = {name for *_, name in _flippable(daf)}
    names = [name for name in dict.fromkeys(names) if name in matrices]
    columns += [(p[1], "name") for p in parts if p[0] == layout.AXES and daf.has_axis(p[1])]
    tree.look_at(target / "nothing")  # so that nothing is copied from the old one
    try:
        return _made(daf, target, names, columns, None, None, progress)
    finally:
        tree.look_at(target)


def remove_sidecar(daf: DafReader) -> bool:
    """Take the sidecar of a data set away; return whether there was one."""
    tree = sidecar_tree(daf)
    target = tree.sidecar
    if not is_sidecar(target):
        return False
    _take_away(target)
    tree.look_at(target)
    return True


def _check_replaceable(target: Path) -> None:
    """Take a sidecar away that cannot be opened; a stale one stays until the next is complete."""
    if is_sidecar(target):
        try:
            open_daf(target).close()
        except errors.DafError:
            _take_away(target)


def _take_away(target: Path) -> None:
    with os_errors(str(target)), scratch(target) as aside:
        target.rename(aside)  # the end of the block deletes it


# Planning


def _flippable(daf: DafReader) -> list[tuple[str, str, str]]:
    axes = sorted(daf.axes_set())
    return [
        (rows, cols, name)
        for rows, cols in itertools.permutations(axes, 2)
        for name in sorted(daf.matrices_set(rows, cols))
    ]


def _matrices_of(daf: DafReader, name: str) -> list[tuple[str, str, str]]:
    """Return the matrices of a name that the source has in one layout."""
    base, every = sidecar_tree(daf).base, _flippable(daf)
    found = [key for key in every if key[2] == name and base.kind(layout.matrix_path(*key))]
    if not found:
        has = errors.shown_names({each for *_, each in every})
        raise errors.MatrixNotFoundError(
            f"{daf.location}: no two axes have a matrix {name!r}; there are {has}"
        )
    return found


def _slow_vectors(daf: DafReader) -> Iterable[tuple[str, str]]:
    """Yield the vectors that take longer to read where they are than in a sidecar."""
    tree = sidecar_tree(daf)
    for axis in sorted(daf.axes_set()):
        for name in sorted(daf.vectors_set(axis)):
            node = tree.base.node(layout.vector_path(axis, name))
            array = None if node is None or node.kind != "array" else node.array()
            if array is not None and not array.is_coded and not array.info.is_mappable:
                yield axis, name


def _has(daf: DafReader, path: str) -> bool:
    return daf.tree.kind(path) is not None


def _check_budget(daf: DafReader, size_bytes: int, max_bytes: int | None) -> None:
    if max_bytes is not None and size_bytes > max_bytes:
        raise errors.BudgetError(
            f"{daf.location}: the sidecar would take {size_bytes:,} bytes, more than the "
            f"{max_bytes:,} that it may; name fewer matrices or columns, or allow more"
        )
