"""Findings of `verify`, and the checks of what only data sets of plain files have.

That is the file that repeats all documents, and of an AnnData in a Zarr directory files that are
missing: Zarr leaves out chunks that hold the fill value alone, so that only some are noticed.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from daf_storage.base import METADATA_NAMES
from daf_storage.errors import CorruptDataError, DafError
from daf_storage.files_daf import (
    METADATA_FILE,
    FilesTree,
    WritableFilesTree,
    parse_consolidated,
)
from daf_storage.stores import DirectoryStore
from daf_storage.trees import Node, ZarrTree, consolidated_paths

Level: TypeAlias = Literal["error", "warning"]


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
        return f"{self.level}: {self.path}: {self.problem}" if self.path else self._short()

    def _short(self) -> str:
        return f"{self.level}: {self.problem}"


def verify_metadata_file(store: DirectoryStore, remedy: str) -> Iterator[Finding]:
    """Check that ``metadata.json`` says of a directory what its documents say."""
    tree = WritableFilesTree(store)
    data = tree.consolidated()
    if data is None:
        yield Finding(
            "warning",
            METADATA_FILE,
            f"there is no {METADATA_FILE}, which readers over HTTP need; {remedy}",
        )
        return
    try:
        listed = parse_consolidated(data, what=METADATA_FILE)
        found = dict(tree.documents(""))
    except CorruptDataError as error:
        yield Finding("error", METADATA_FILE, f"{error}; {remedy}")
        return
    for path in sorted(listed.keys() | found.keys()):
        if path not in found and tree.kind(path) is not None:
            continue  # its document cannot be read, which is found when it is read
        if listed.get(path) != found.get(path):
            problem = "is not in" if path not in listed else "is no longer as in"
            yield Finding("warning", path, f"it {problem} {METADATA_FILE}; {remedy}")


def verify_no_metadata_file(tree: FilesTree, remedy: str) -> Iterator[Finding]:
    """Check that an archive has no ``metadata.json``, which nothing could be added to."""
    snapshot = tree.folder("")
    try:
        is_there = snapshot is not None and snapshot.size(METADATA_FILE) is not None
    except DafError:
        is_there = True
    if is_there:
        yield Finding(
            "warning",
            METADATA_FILE,
            f"an archive should have none, since nothing could be added to it; {remedy}",
        )


def verify_zarr_directory(store: DirectoryStore) -> Iterator[Finding]:
    """Look for files of an AnnData that are missing, as far as other files say so."""
    tree, snapshot = ZarrTree(store), store.snapshot("")
    named = set() if snapshot is None else consolidated_paths(tree.format, snapshot)
    gone = {path for path in named if tree.kind(path) is None}
    for path in sorted(gone):
        if posixpath.dirname(path) not in gone:
            problem = "it is gone, and still in the consolidated metadata, by which others read it"
            yield Finding("error", path, problem)
    for place, folders, files in os.walk(store.root):
        path = Path(place).relative_to(store.root).as_posix()
        if not folders and not files and path != ".":
            yield Finding(
                "warning",
                path,
                "this folder is empty: a chunk that was here is missing, and is read as the fill "
                "value; unless it was set to that since, it is lost",
            )
        if {"data", "indices", "indptr"} <= set(folders):
            yield from _verify_elements(tree, path, Path(place))


def _verify_elements(tree: ZarrTree, path: str, folder: Path) -> Iterator[Finding]:
    """Look for chunks of the elements of a sparse matrix where those of their positions are.

    The other way round, reading the matrix is an error where it would be wrong.
    """
    try:
        node = tree.node(path)
        if node is None or not _are_alike(node):
            return
        data, indices = _chunk_files(folder / "data"), _chunk_files(folder / "indices")
    except DafError:  # found when the matrix was read
        return
    if data and indices - data:
        yield Finding(
            "warning",
            f"{path}/data",
            f"the chunk file {min(indices - data)!r} is missing, and that of the positions is "
            "there: unless all of its elements are stored zeros, they are lost",
        )


def _chunk_files(folder: Path) -> set[str]:
    return {
        (Path(place) / file).relative_to(folder).as_posix()
        for place, _, files in os.walk(folder)
        for file in files
        if file not in METADATA_NAMES
    }


def _are_alike(node: Node) -> bool:
    """Return whether elements and positions are stored in chunks of the same length."""
    arrays = [node.array(name) for name in ("data", "indices")]
    infos = [None if array is None else (array.info.shape, array.info.chunks) for array in arrays]
    return None not in infos and infos[0] == infos[1]
