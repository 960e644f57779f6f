"""Where the indexes of a data set in an HDF5 file are: in a Zarr directory beside the file.

They can be made again from the data, so no failed write of theirs may harm the file.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final
from urllib.parse import quote

from daf_storage.stores import DirectoryStore, MemoryStore
from daf_storage.trees._zarr_tree import WritableZarrTree

INDEXES_SUFFIX: Final = ".indexes"
"""What the directory has behind the name of the file."""

_MAX_NAME_BYTES: Final = 200


def indexes_beside(path: str | Path) -> Path:
    """Return the directory of the indexes of an HDF5 file."""
    real = Path(os.path.realpath(path))
    return real.with_name(f"{real.name}{INDEXES_SUFFIX}")


def index_store(path: str | None, location: str) -> DirectoryStore | MemoryStore:
    """Return the store of the indexes of a file; in memory for what is no file."""
    if path is None:
        return MemoryStore(location=f"{location}{INDEXES_SUFFIX}")
    return DirectoryStore(indexes_beside(path), location=f"{location}{INDEXES_SUFFIX}")


def index_tree(store: DirectoryStore | MemoryStore, group: str) -> WritableZarrTree:
    """Return the tree of the indexes of one data set of a file."""
    return WritableZarrTree(store, group_name(group), consolidated=False, zarr_format=2)


def group_name(group: str) -> str:
    """Return the name of the directory for one data set: no other one has it.

    >>> group_name(""), group_name("day/1")
    ('@', '@day%2F1')
    """
    name = f"@{quote(group, safe='')}"
    if len(name) <= _MAX_NAME_BYTES:
        return name
    return f"@@{hashlib.sha256(group.encode()).hexdigest()}"
