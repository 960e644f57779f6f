"""Verify what only data sets of plain files have: the file that repeats all documents."""

from __future__ import annotations

from collections.abc import Iterator

from daf_storage.errors import CorruptDataError, DafError
from daf_storage.files_daf import (
    METADATA_FILE,
    FilesTree,
    WritableFilesTree,
    parse_consolidated,
)
from daf_storage.stores import DirectoryStore
from daf_storage.upkeep._finding import Finding


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
