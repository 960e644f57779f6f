"""Take out of an archive what a writer had left half done in it."""

from __future__ import annotations

import posixpath

from daf_storage.data import Damage, damage_of, kept, layout, one_each, warn_of_lost
from daf_storage.errors import DafError
from daf_storage.files_daf._descriptors import METADATA_FILE, parse_property
from daf_storage.files_daf._node import read_document
from daf_storage.files_daf._places import Place, place_of
from daf_storage.files_daf._tree import FilesTree
from daf_storage.files_daf._writable_tree import WritableFilesTree
from daf_storage.stores import MmapZipStore


def recover_archive(store: MmapZipStore, tree: WritableFilesTree) -> list[Damage]:
    """Take what cannot be read out of an archive, and return the properties that are lost by it.

    Other programs add the files of a property one by one: one that is stopped in between leaves a
    document without its data.
    """
    dropped = store.recovery.dropped
    store.recover()
    lost = [damage_of(property_path(name), "its data was not whole") for name in dropped]
    incomplete = incomplete_properties(tree)
    lost += [damage_of(tree.key(path), "part of its data is missing") for path in incomplete]
    start = tree.key("")
    here = [n.removeprefix(f"{start}/") for n in dropped if not start or n.startswith(f"{start}/")]
    paths = {*incomplete, *(property_path(name) for name in here)}
    unwanted = [key for path in sorted(paths) for key in _keys(tree, path) if key in store]
    if unwanted:
        store.remove_entries(unwanted)
    damages = one_each(lost)
    warn_of_lost(store.location, damages)
    return list(damages)


def take_out_metadata(store: MmapZipStore, tree: WritableFilesTree) -> bool:
    """Take ``metadata.json`` out of an archive, and say whether there was one.

    A directory that was packed with a ZIP program has brought it in.  Nothing could be added to it.
    """
    key = tree.key(METADATA_FILE)
    if key not in store:
        return False
    store.remove_entries([key])
    return True


def incomplete_properties(tree: FilesTree) -> list[str]:
    """Return the paths of properties of which a file is missing; no data are read."""
    return [path for path in tree.paths() if not _is_complete(tree, place_of(path))]


def _is_complete(tree: FilesTree, place: Place) -> bool:
    snapshot = tree.folder(place.folder)
    if place.kind in ("scalar", "axis") or snapshot is None:
        return True
    try:
        form = parse_property(read_document(snapshot, place, place.path), what=place.path)
    except DafError:
        return False
    parts = {**form.parts}
    if not form.is_explicit:  # it does not say which parts there are
        first = ("nzind",) if place.kind == "vector" else ("colptr", "rowval")
        parts = {part: form.parts[part] for part in first}
    return all(snapshot.size(place.file(part, one)) is not None for part, one in parts.items())


def _keys(tree: WritableFilesTree, path: str) -> list[str]:
    place = place_of(path)
    folder = tree.key(place.folder)
    return [posixpath.join(folder, name) for name in (place.document, *place.candidates)]


def property_path(key: str) -> str:
    """Return the path of the property that a file of an archive belongs to, with its group.

    >>> property_path("day/vectors/cell/age.data")
    'day/vectors/cell/age'
    """
    parts = key.split("/")
    groups = (*layout.SKELETON, kept.GROUP)
    start = next((n for n, name in enumerate(parts) if name in groups), 0)
    folder, name = "/".join(parts[start:-1]), parts[-1]
    stems = name.split(".")
    for stop in range(1, len(stems)):
        place = place_of(posixpath.join(folder, ".".join(stems[:stop])))
        if name in (place.document, *place.candidates):
            return posixpath.join(*parts[:start], place.path)
    return key
