"""The skeleton of a data set: its group, the groups of its properties, a version and a name."""

from __future__ import annotations

from daf_storage import errors
from daf_storage.base import OpenMode, unique_name
from daf_storage.data import layout
from daf_storage.trees import (
    Hdf5Tree,
    Tree,
    WritableTree,
    ZarrTree,
)


def create_skeleton(tree: WritableTree) -> None:
    """Make an empty data set; the version marker comes last, so that a crash leaves none."""
    with tree.batch(), tree.transaction() as changes, tree.lock():
        if layout.is_daf(tree):  # by another program, while this one waited for the lock
            return
        changes.mark_group("")
        for group in layout.SKELETON:
            if tree.kind(group) is None:
                changes.create_group(group)
                changes.publish(group, replace=False)
            elif tree.children(group):
                raise errors.NotADafError(
                    f"{tree.location}: not a daf data set, and its group {group!r} is not empty; "
                    "choose another path"
                )
        changes.mark(layout.DAF, layout.VERSION)


def make_or_check(tree: WritableTree, mode: OpenMode) -> None:
    """Make the data set if there is none and the mode allows it; check its version if there is."""
    if not layout.is_daf(tree):
        if mode == "r+":
            raise errors.NotADafError(
                f"{tree.location}: not a daf data set: it has no array named 'daf'"
            )
        create_skeleton(tree)
    layout.check_version(tree)


def check_groups(tree: Hdf5Tree) -> None:
    """Refuse a data set with a dataset in the place of one of its groups."""
    for name, kind in tree.children("").items():
        if kind == "array" and name in layout.SKELETON:
            raise errors.CorruptDataError(
                f"{tree.location}: {name!r} is a dataset, and a data set of Daf has a group there; "
                "take the file from a backup"
            )


def check_group(tree: ZarrTree) -> None:
    """Refuse what is no Zarr group."""
    if tree.kind("") != "group":
        raise errors.NotADafError(
            f"not a zarr group: {tree.location}; it has no .zgroup or zarr.json"
        )


def reader_name(tree: Tree, name: str | None, full_name: str) -> str:
    """Return the name of a data set that is read, which no other that is open has."""
    return unique_name(f"{_data_set_name(tree, name, full_name)}.read_only")


def writer_name(tree: Tree, name: str | None, full_name: str) -> str:
    """Return the name of a data set that is written, which no other that is open has."""
    return unique_name(_data_set_name(tree, name, full_name))


def _data_set_name(tree: Tree, name: str | None, full_name: str) -> str:
    """Return the name that was given, else the scalar ``name``, else the full path."""
    if name is not None:
        return name
    try:
        array = layout.open_array(tree, layout.scalar_path("name"))
        if array is None or array.info.size != 1:
            return full_name
        if array.info.storage_type.is_string:
            return str(array.read_strings()[0].as_py())
        return str(array.read().reshape(-1)[0].item())
    except (errors.FormatError, errors.ReadOnlyError):
        return full_name  # who asks for the scalar learns why; the data set has a name anyway
