"""The consolidated metadata of a Zarr hierarchy: one file at the root that repeats all documents.

For readers that cannot list a directory, such as those of servers.  It is brought up to date after
each change, which can fail when the change is already in place; `lists_all` is the cheap way to see
that.
"""

from __future__ import annotations

import json
import posixpath
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import Generic, Literal, TypeVar

from daf_storage.base import METADATA_NAMES
from daf_storage.errors import CorruptDataError, DafError, FormatError, ReadOnlyError
from daf_storage.stores import Snapshot
from daf_storage.trees._zarr_formats import ZarrFormat

T = TypeVar("T")

MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What parsing a consolidated file raises."""


class Consolidated(Generic[T]):
    """The consolidated documents, kept so that one change costs one property, not all.

    They are read again whenever the file is not the one that was written last: another process
    has changed the data set.  Within a batch the file is written once, at the end.
    """

    def __init__(self) -> None:
        self._documents: dict[str, T] = {}
        self._last: bytes | None = None
        self._lock = threading.Lock()
        self._batches = 0
        self._postponed: set[str] | None = set()

    def updated(
        self,
        now: bytes | None,
        paths: Collection[str] | None,
        walk: Callable[[str], Iterable[tuple[str, T]]],
        written: Callable[[Mapping[str, T]], bytes],
    ) -> bytes:
        """Return the new file after changes at some paths.

        Parameters
        ----------
        now
            The file that is there.
        paths
            What has changed, with all below; None for everything.
        walk
            From a path to the documents at and below it, by their keys.
        written
            From all documents to the file.
        """
        if paths is None or self._last is None or now != self._last:
            self._documents = dict(walk(""))
        else:
            gone = frozenset(paths)
            for key in [key for key in self._documents if not gone.isdisjoint(_at_and_above(key))]:
                del self._documents[key]
            for path in paths:
                self._documents.update(walk(path))
        self._last = written(self._documents)
        return self._last

    def is_postponed(self, paths: Collection[str] | None) -> bool:
        """Return whether the end of a batch sees to a change at some paths (None: all)."""
        with self._lock:
            if self._batches and self._postponed is not None:
                self._postponed = None if paths is None else self._postponed.union(paths)
            return self._batches > 0

    @contextmanager
    def written_once(self, refresh: Callable[[Collection[str] | None], None]) -> Iterator[None]:
        """Postpone until the outermost block ends, also by an error; None is for all paths."""
        with self._lock:
            self._batches += 1
        try:
            yield
        except BaseException:
            with suppress(DafError, OSError):  # the first error says more
                self._end_batch(refresh)
            raise
        self._end_batch(refresh)

    def _end_batch(self, refresh: Callable[[Collection[str] | None], None]) -> None:
        paths: set[str] | None = set()
        with self._lock:
            self._batches -= 1
            if not self._batches:
                paths, self._postponed = self._postponed, paths
        if paths is None or paths:
            refresh(paths)


def _at_and_above(key: str) -> Iterator[str]:
    return accumulate(key.split("/"), "{}/{}".format)


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
