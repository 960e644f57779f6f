"""The status of the sidecar of a data set: where it is, its contents, and whether it is used."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from daf_storage import errors
from daf_storage.data import DafReader, check_reader, is_in_place, layout
from daf_storage.opening import open_daf
from daf_storage.sidecars import SidecarTree, is_sidecar, source_state
from daf_storage.stores import is_remote
from daf_storage.trees import Tree


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
    tree = daf.tree
    if not isinstance(tree, SidecarTree) or not is_sidecar(tree.sidecar):
        return None
    document = tree.document()
    if document is None:
        return unused_status(tree)
    return SidecarStatus(
        str(tree.sidecar),
        is_used=True,
        problem="",
        size_bytes=size_of(tree.sidecar),
        properties=document.properties,
        indexes=_indexes_of(tree),
    )


def sidecar_indexes(daf: DafReader) -> tuple[str, ...]:
    """Return the vectors that have an index in the sidecar, also of one that is not used."""
    try:
        with open_daf(sidecar_tree(daf).sidecar) as known:
            return _indexes_of(known.tree)
    except errors.DafError:
        return ()


def _indexes_of(tree: Tree) -> tuple[str, ...]:
    names = [
        f"{axis}/{name}"
        for axis in tree.children(layout.INDEXES)
        for name in tree.children(f"{layout.INDEXES}/{axis}")
    ]
    return tuple(sorted(names))


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
    if is_in_place(daf) and daf.origin is not None and not is_remote(daf.origin.path):
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


def unused_status(tree: SidecarTree) -> SidecarStatus:
    size = size_of(tree.sidecar)
    return SidecarStatus(
        str(tree.sidecar),
        is_used=False,
        problem=tree.problem or "it was changed just now",
        size_bytes=size,
        properties=(),
        indexes=(),
    )


def size_of(folder: Path) -> int:
    try:
        state = source_state(folder)
    except errors.DafError:
        return 0
    return 0 if state is None else state.size_bytes
