"""A sidecar on top of an attached data set: what the sidecar has is read there, all else below.

A sidecar has the other layout of a matrix, decoded columns and indexes.  It is looked for at every
access, and used only while the source is the one that it was made of.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from daf_storage import errors
from daf_storage.base import ForkLock
from daf_storage.data import layout
from daf_storage.sidecars._document import (
    SIDECAR_GROUPS,
    SIDECAR_SCALAR,
    SidecarDocument,
    Source,
    property_problem,
    read_document,
    sidecar_beside,
    source_digest,
    source_state,
    stable_state,
)
from daf_storage.stores import DirectoryStore, fingerprint, inode_of
from daf_storage.trees import Node, NodeKind, Tree, ZarrTree

_CHECKED_BYTES: Final = 1 << 18
"""Up to which size the contents of a property are compared with their checksums before its use."""
_MAX_DIGEST_BYTES: Final = 1 << 28
"""Up to which size a source whose times differ is read, to see whether it is a copy."""


class SidecarWarning(errors.DafWarning):
    """A sidecar is ignored: its source was changed, or it is damaged."""


@dataclass(slots=True)
class _Loaded:
    """A sidecar that was made of the source as it is."""

    tree: ZarrTree
    document: SidecarDocument
    state: Hashable
    identities: dict[str, Hashable]
    """Of what the properties were made, where the files below are many."""
    damaged: set[str] = field(default_factory=set)
    checked: set[str] = field(default_factory=set)


class SidecarTree:
    """An attached data set with the sidecar that it may have; see `Tree`.

    Parameters
    ----------
    base
        The attached data set.
    source
        The file or directory that it is in.
    sidecar
        Where the sidecar is.
    """

    def __init__(self, base: Tree, source: Source, sidecar: Path) -> None:
        self.base = base
        self.source = source
        self._place(sidecar)
        self._file = source if isinstance(source, Path) and not source.is_dir() else None
        self._opened = None if self._file is None else inode_of(self._file)
        self._lock = ForkLock()
        self._seen: Hashable = None
        self._loaded: _Loaded | None = None
        self.problem = ""
        """Why a sidecar that is there is not used."""
        self._current()  # so that a warning comes when it is opened

    @property
    def location(self) -> str:
        """Where the attached data set is, for messages."""
        return self.base.location

    @property
    def sidecar(self) -> Path:
        """Where the sidecar is, or would be."""
        return self._sidecar

    def look_at(self, sidecar: Path) -> None:
        """Use the sidecar at another place."""
        with self._lock:
            self._place(sidecar)
            self._seen = None

    def _place(self, sidecar: Path) -> None:
        self._sidecar = sidecar
        # As a string: it is looked at for each node that is opened.
        self._marker_path = os.fspath(sidecar / layout.scalar_path(SIDECAR_SCALAR))

    def document(self) -> SidecarDocument | None:
        """Return what the sidecar in use says of itself; None if none is used."""
        loaded = self._current()
        return None if loaded is None else loaded.document

    def damage(self) -> list[tuple[str, str]]:
        """Return what is wrong with properties of the sidecar in use, which are used no more.

        Reads all of it.
        """
        loaded = self._current()
        if loaded is None:
            return []
        document = loaded.document
        problems = [
            (place, property_problem(loaded.tree, document, place)) for place in document.properties
        ]
        found = [(place, problem) for place, problem in problems if problem]
        loaded.damaged.update(place for place, _ in found)
        return found

    # Tree

    def kind(self, path: str) -> NodeKind | None:
        """Return what is at ``path``; None if nothing is."""
        owner = self._owner(path)
        result = None if owner is None else owner.kind(path)
        is_new = result is None and owner is self.base and bool(self._names_below(path))
        return "group" if is_new else result

    def children(self, path: str) -> dict[str, NodeKind]:
        """Return the names directly below a group, and what each is."""
        owner = self._owner(path)
        names = {} if owner is None else owner.children(path)
        for name in self._names_below(path) if owner is self.base else ():
            below = f"{path}/{name}" if path else name
            if name not in names and (kind := self.kind(below)) is not None:
                names[name] = kind
        return names

    def identity(self, path: str) -> Hashable:
        """Return a value that changes whenever something at or below ``path`` does."""
        owner = self._owner(path)
        owned = None if owner is None else owner.identity(path)
        return owned if owned is None or owner is self.base else ("sidecar", owned)

    def version(self, path: str) -> Hashable:
        """Return what differs whenever something at or below ``path`` does, in any process.

        What the sidecar has of a property follows from the source.
        """
        place = _property_of(path)
        base_path = path if place is None else self._base_place(place)
        return None if base_path is None or _is_index(path) else self.base.version(base_path)

    def listing_identity(self, path: str) -> Hashable:
        """Return a value that changes whenever a child of ``path`` does."""
        loaded, listing = self._current(), self.base.listing_identity(path)
        return listing if loaded is None else (listing, loaded.state, frozenset(loaded.damaged))

    def node(self, path: str) -> Node | None:
        """Return the group or array at ``path``, pinned; None if there is none."""
        tree = self._tree_of(path)
        if tree is not None:
            try:
                node = tree.node(path)
                if node is not None or _is_index(path):  # few vectors have an index
                    return node
                problem = "it is missing"
            except errors.DafError as error:
                problem = str(error)
            self._note_damage(path, problem)
        return None if _is_index(path) else self.base.node(path)

    @property
    def index_tree(self) -> SidecarTree:
        """The tree of its indexes: this one, which has those of the sidecar."""
        return self

    def __getattr__(self, name: str) -> Any:
        """Return other attributes of the tree below, such as `Remarked.remarks`."""
        return getattr(object.__getattribute__(self, "base"), name)  # a copy has none at first

    # What is used of the sidecar

    def _owner(self, path: str) -> Tree | None:
        """Return the tree that has what is at a path; None of indexes that there are not."""
        tree = self._tree_of(path)
        return tree if tree is not None or _is_index(path) else self.base

    def _tree_of(self, path: str) -> ZarrTree | None:
        """Return the tree of the sidecar if what is at a path is to be read there."""
        if _is_index(path):
            loaded = self._current()
            return None if loaded is None else loaded.tree
        place = _property_of(path)
        loaded = None if place is None else self._current()
        if loaded is None or place is None or not self._has(loaded, place):
            return None
        if loaded.identities and self._base_identity(place) != loaded.identities.get(place):
            loaded = self._current(is_changed=True)  # the source was written to meanwhile
            if loaded is None or not self._has(loaded, place):
                return None
        return loaded.tree

    def _has(self, loaded: _Loaded, place: str) -> bool:
        """Return whether a property of the sidecar is one of the source, and sound."""
        if place not in loaded.document.properties or place in loaded.damaged:
            return False
        if place not in loaded.checked:
            loaded.checked.add(place)
            problem = "there is none of this name in the source"
            if self._base_place(place) is not None:  # sizes of files, of what is small the contents
                tree, document = loaded.tree, loaded.document
                problem = property_problem(tree, document, place, max_bytes=_CHECKED_BYTES)
            if problem:
                self._note_damage(place, problem)
                return False
        return True

    def _base_place(self, place: str) -> str | None:
        """Return where the source has a property: a matrix may be there in the other layout."""
        top, *names = place.split("/")
        places = [place]
        if top == layout.MATRICES:
            places.append(layout.matrix_path(names[1], names[0], names[2]))
        return next((found for found in places if self.base.kind(found) is not None), None)

    def _base_identity(self, place: str) -> Hashable:
        base_path = self._base_place(place)
        return None if base_path is None else self.base.identity(base_path)

    def _names_below(self, path: str) -> list[str]:
        """Return the names that the sidecar has directly below a group of properties."""
        if _property_of(path) is not None or path == layout.SCALARS:
            return []
        loaded = self._current()
        if loaded is None:
            return []
        start = f"{path}/" if path else ""
        below = (
            shown_path.removeprefix(start).partition("/")[0]
            for shown_path in loaded.document.properties
            if shown_path.startswith(start) and shown_path not in loaded.damaged
        )
        return sorted(set(below))

    # Loading

    def _current(self, *, is_changed: bool = False) -> _Loaded | None:
        """Return the sidecar if it is there and was made of the source as it is now."""
        with self._lock:
            seen = self._look()
            if is_changed or seen != self._seen:
                self._loaded = None if seen is None else self._load(seen)
                self._seen = seen
            return self._loaded

    def _look(self) -> Hashable:
        """Return what differs whenever the sidecar or the source was written to; None without."""
        if not os.access(self._marker_path, os.F_OK):
            return None  # asked for each node: an exception takes three times as long
        try:
            state = fingerprint(os.stat(self._marker_path))
            if self._file is None:
                return state
            status = os.stat(self._file)
        except OSError:
            return None
        return state, fingerprint(status), status.st_dev

    def _load(self, seen: Hashable) -> _Loaded | None:
        self.problem = ""
        if self._file is not None and inode_of(self._file) != self._opened:
            self.problem = f"{self._file.name} was replaced since it was opened; open it again"
            return None
        tree = ZarrTree(DirectoryStore(self._sidecar))
        try:
            layout.check_version(tree)
            document = read_document(tree)
        except errors.DafError as error:
            self._warn(f"it is damaged: {error}")
            return None
        loaded = _Loaded(tree, document, seen, {})
        if self._file is None:  # what changes between here and the comparison is noticed
            for place in document.properties:
                loaded.identities[place] = self._base_identity(place)
        try:
            is_made_of_this = self._is_made_of_this(document)
        except errors.DafError as error:
            self._warn(f"what it was made of cannot be read: {error}")
            return None
        if not is_made_of_this:
            self._warn(
                f"{self.source.name} is not the file that it was made of, or was changed or copied "
                "since"
            )
            return None
        return loaded if self._look() == seen else None

    def _is_made_of_this(self, document: SidecarDocument) -> bool:
        state = source_state(self.source)
        if state is None:
            return False
        if state.fingerprint == document.fingerprint:
            return True
        if state.size_bytes != document.size_bytes or state.size_bytes > _MAX_DIGEST_BYTES:
            return False
        stable = stable_state(self.source)
        return stable is not None and source_digest(self.source, stable) == document.digest

    def _note_damage(self, path: str, problem: str) -> None:
        place = _property_of(path) or path
        loaded = self._loaded
        if loaded is not None and place not in loaded.damaged:
            loaded.damaged.add(place)
            self._warn(f"{place} is damaged: {problem}")

    def _warn(self, problem: str) -> None:
        self.problem = problem
        is_default = self._sidecar == sidecar_beside(self.source)
        command = f"daf index {self.source}{'' if is_default else f' --into {self._sidecar}'}"
        warnings.warn(
            f"{self._sidecar}: this sidecar is ignored: {problem}; make it again with "
            f"'{command} --refresh', or take it away with '{command} --remove'",
            SidecarWarning,
            stacklevel=2,
        )


def _is_index(path: str) -> bool:
    return path == layout.INDEXES or path.startswith(f"{layout.INDEXES}/")


def _property_of(path: str) -> str | None:
    """Return the path of the axis, vector or matrix at or above a path; None for what is above.

    >>> _property_of("vectors/obs/age/nzind"), _property_of("vectors/obs")
    ('vectors/obs/age', None)
    """
    place = layout.property_of(path)
    return place.path if place is not None and path.partition("/")[0] in SIDECAR_GROUPS else None
