"""The consolidated metadata of a Zarr hierarchy: one file at the root that repeats all documents.

For readers that cannot list a directory, such as those of servers.  It is brought up to date after
each change, which can fail when the change is already in place; `lists_all` is the cheap way to see
that.
"""

from __future__ import annotations

import json
import posixpath
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from daf_storage.base import METADATA_NAMES
from daf_storage.errors import CorruptDataError, FormatError, ReadOnlyError
from daf_storage.stores import Snapshot
from daf_storage.trees._metadata import ZarrFormat

MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What parsing a consolidated file raises."""


class Consolidated:
    """The consolidated documents, kept so that one change costs one property, not all.

    They are read again whenever the file is not the one that was written last: another process
    has changed the data set.
    """

    def __init__(self, documents: ZarrFormat) -> None:
        self._format = documents
        self._documents: dict[str, bytes] = {}
        self._last: bytes | None = None

    def updated(self, snapshot: Snapshot, path: str | None) -> bytes:
        """Return the new consolidated metadata after a change at ``path``."""
        last = consolidated_of(self._format, snapshot)
        if path is None or self._last is None or last != self._last:
            self._documents = dict(self._format.documents(snapshot, ""))
        else:
            start = f"{path}/"
            kept = {k: v for k, v in self._documents.items() if not f"{k}/".startswith(start)}
            self._documents = {**kept, **dict(self._format.documents(snapshot, path))}
        self._last = self._format.consolidated(snapshot, self._documents)
        return self._last


def consolidated_of(documents: ZarrFormat, snapshot: Snapshot) -> bytes | None:
    """Return the file with the consolidated metadata; None if it is missing or unreadable."""
    try:
        return snapshot.read(documents.consolidated_file)
    except (FormatError, ReadOnlyError):
        return None


def consolidated_paths(documents: ZarrFormat, snapshot: Snapshot) -> set[str]:
    """Return the groups and arrays that the consolidated metadata name; none if it is malformed."""
    try:
        listed = documents.listed(consolidated_of(documents, snapshot) or b"")
    except MALFORMED:
        return set()
    return {posixpath.dirname(key) for key in listed}


def has_consolidated(documents: ZarrFormat, snapshot: Snapshot) -> bool:
    """Return whether there is consolidated metadata, of whatever quality."""
    data = snapshot.read(documents.consolidated_file)
    return data is not None and documents.unconsolidated(data) != data


def differences(
    documents: ZarrFormat, snapshot: Snapshot, paths: Iterable[str]
) -> Iterator[tuple[str, Literal["not in", "different in", "gone, and still in"]]]:
    """Yield the keys at and below some paths of which the consolidated metadata is wrong, and how.

    Reads every document.

    Raises
    ------
    CorruptDataError
        It is malformed.
    """
    data = snapshot.read(documents.consolidated_file) or b""
    try:
        listed = documents.listed(data)
    except MALFORMED:
        raise CorruptDataError("the consolidated metadata is malformed") from None
    for path in paths:
        found = dict(documents.documents(snapshot, path))
        if documents.version == 3:
            found = {posixpath.join(key, "zarr.json"): data for key, data in found.items()}
        for key, document in found.items():
            is_same = key in listed and json.loads(listed[key]) == json.loads(document)
            if not is_same and not (key.endswith(".zattrs") and document == b"{}"):
                yield key, "different in" if key in listed else "not in"
        for key in listed:
            if key.startswith(f"{path}/") and key not in found and not key.endswith(".zattrs"):
                yield key, "gone, and still in"


def lists_all(documents: ZarrFormat, snapshot: Snapshot) -> bool:
    """Return whether the consolidated metadata names the groups and arrays that are there.

    Costs one file and a listing of each group: neither documents nor arrays are read.
    What the documents say is not compared.
    """
    data = consolidated_of(documents, snapshot)
    try:
        listed = documents.listed(data or b"")
    except MALFORMED:
        return False
    children = _children(listed)
    return all(_is_same(documents, snapshot, group, names) for group, names in children.items())


def _children(listed: Mapping[str, bytes]) -> dict[str, set[str]]:
    """Return the names below each group that some documents, given by their keys, speak of."""
    children: defaultdict[str, set[str]] = defaultdict(set)
    children[""] = set()
    for key, document in listed.items():
        path, name = posixpath.split(key)
        if name == ".zattrs":
            continue
        if name == ".zgroup" or b'"node_type":"group"' in document:
            children[path] |= set()
        if path:
            above, child = posixpath.split(path)
            children[above].add(child)
    return children


def _is_same(documents: ZarrFormat, snapshot: Snapshot, group: str, listed: set[str]) -> bool:
    """Return whether these names are those of the groups and arrays below a group."""
    found = set(snapshot.names(group))
    if not listed <= found:
        return False
    return not any(
        documents.kind(snapshot, posixpath.join(group, name)) is not None
        for name in found - listed
        if name not in METADATA_NAMES
    )
