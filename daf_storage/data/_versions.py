"""Versions of stored properties: digests that any process computes alike, without reading values.

An identity (`DafReader.axis_identity`) is for caches of one process.  A version goes to others:
whoever is to read the same data compares it with what is there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable
from typing import Any, Final

from daf_storage.data import _layout as layout
from daf_storage.data._reader import DafReader
from daf_storage.trees import version_of

_DIGEST_BYTES: Final = 16
_NAME: Final = "name"
_FILE_PARTS: Final = 5
"""Name, inode, size, time of the data and time of the inode of a file, in a version."""


def matrix_version(daf: DafReader, rows_axis: str, columns_axis: str, name: str) -> str | None:
    """Return a digest that changes with a matrix, in either layout, and with its axes' entries.

    It is made of sizes and times of files, in an archive of places, sizes and CRCs of entries; of
    HDF5, of the whole file.  None if that cannot be known: in memory, on a server.  Copies of
    directories that kept the times of their files have the same, on any machine.
    """
    return _digest(
        daf,
        [
            layout.axis_path(rows_axis),
            layout.axis_path(columns_axis),
            layout.matrix_path(rows_axis, columns_axis, name),
            layout.matrix_path(columns_axis, rows_axis, name),
        ],
    )


def vectors_version(daf: DafReader, axis: str, names: Iterable[str]) -> str | None:
    """Return a digest that changes with the entries of an axis, and with some of its vectors.

    As `matrix_version`; vectors that do not exist count as such.
    """
    vectors = [layout.vector_path(axis, name) for name in names if name != _NAME]
    return _digest(daf, [layout.axis_path(axis), *vectors])


def _digest(daf: DafReader, paths: Iterable[str]) -> str | None:
    daf.axes_set()  # raises if the data set was closed
    tree = daf.tree
    versions: list[Hashable] = []
    for path in dict.fromkeys(paths):
        if tree.kind(path) is None:
            versions.append(None)
            continue
        version = version_of(tree, path)
        if version is None:
            return None
        versions.append(_of_data(version))
    return hashlib.blake2b(repr(versions).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _of_data(version: Any) -> Hashable:
    """Return a version without inodes and what only they have.

    >>> _of_data((("", 7, 4096, 10, 11), ("0", 8, 12, 10, 11)))
    (('0', 12, 10),)
    """
    if not isinstance(version, tuple):
        known: Hashable = version
        return known
    if len(version) == _FILE_PARTS and isinstance(version[0], str):
        name, _, size, time_of_data, _ = version
        return name, size, time_of_data
    return tuple(_of_data(part) for part in version if not _is_folder(part))


def _is_folder(part: Any) -> bool:
    """Return whether a part of a version is of the directory itself, whose size says nothing."""
    return isinstance(part, tuple) and part[:1] == ("",)
