"""Sidecars: data sets of Daf beside files that are read in place, and on top of these.

**Nouns.** A *source* is a file, or a directory, of another format.  A `SidecarDocument` says of
which state of it a sidecar was made, and which arrays the sidecar has.  `SidecarTree` reads those
in the sidecar, as long as the source is in that state, and all else below.

A sidecar has the other layout of a matrix, decoded columns and indexes.  It is looked for at every
access, and used only while the source is the one that it was made of.

A file is known by inode, size and times.  The time of its inode cannot be set back, so a file that
was changed in place shows, also if its size and the time of its data are the same.  A copy has
other times: what it holds is compared, by a digest of all of it.

Must not know what the source is, nor how a sidecar is written.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from daf_storage import errors
from daf_storage.base import ForkLock
from daf_storage.data import contents_of, layout, size_bytes
from daf_storage.errors import CorruptDataError, DafError
from daf_storage.stores import (
    DirectoryStore,
    fingerprint,
    inode_of,
    is_stable,
    os_errors,
    status_at,
)
from daf_storage.trees import Node, NodeKind, StoredArray, Tree, ZarrTree

_PIECE_BYTES: Final = 1 << 24
_DIGEST_BYTES: Final = 16
_MAX_WAIT_SECONDS: Final = 0.25
_WAIT_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class SourceState:
    """What the file system says of the files of a source; nothing of them was read."""

    fingerprint: str
    """Changes with every write to any of them."""
    size_bytes: int
    """Of all of them."""
    is_stable: bool
    """Whether the next write is bound to change the fingerprint."""


@dataclass(frozen=True, slots=True)
class RemoteSource:
    """A file on a server: one version of it, as long as it is open."""

    name: str
    """Its URL."""
    version: tuple[Any, ...]
    """Its length, and the server's ETag and date."""

    def __str__(self) -> str:
        return self.name


Source: TypeAlias = Path | RemoteSource
"""What a sidecar is made of."""


def source_state(path: Source) -> SourceState | None:
    """Return the state of a file, or of all files below a directory; None if it is absent.

    Raises
    ------
    DafError
        A directory cannot be read, so that a change below it would not show.
    """
    if isinstance(path, RemoteSource):
        return SourceState(_digest(path.version), int(path.version[0]), is_stable=True)
    try:
        with os_errors(""):
            files = list(_files(path))
    except errors.SourceNotFoundError:
        return None
    listed = [(name, *fingerprint(status)) for name, status in files]
    return SourceState(
        _digest(listed),
        sum(status.st_size for _, status in files),
        all(is_stable(status) for _, status in files),
    )


def _digest(value: object) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def stable_state(path: Source) -> SourceState | None:
    """Return the state of a source once its next write is bound to show; waits for a moment."""
    end = time.monotonic() + _MAX_WAIT_SECONDS
    state = source_state(path)
    while state is not None and not state.is_stable and time.monotonic() < end:
        time.sleep(_WAIT_SECONDS)
        state = source_state(path)
    return state


def source_digest(
    path: Source, state: SourceState, progress: Callable[[int], None] = lambda _: None
) -> str | None:
    """Return a digest of all bytes of a source and the names of its files.

    None if it changed meanwhile.  What is on a server is not read for it: its state stands for its
    bytes.

    Raises
    ------
    DafError
        A file cannot be read.
    """
    if isinstance(path, RemoteSource):
        return state.fingerprint
    last_state, last_digest = _DIGESTS.get(path, (None, None))
    if last_state == state:
        return last_digest
    total = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    try:
        with os_errors(""):
            for name, status in _files(path):
                total.update(f"{name}\0{status.st_size}\0".encode(errors="surrogatepass"))
                if stat.S_ISREG(status.st_mode):
                    with (path / name if name else path).open("rb") as file:
                        while piece := file.read(_PIECE_BYTES):
                            total.update(piece)
                            progress(len(piece))
    except errors.SourceNotFoundError:
        return None
    if not state.is_stable or source_state(path) != state:
        return None
    _DIGESTS[path] = (state, total.hexdigest())
    return total.hexdigest()


_DIGESTS: Final[dict[Path, tuple[SourceState, str]]] = {}
"""Of sources, with their states then: all of their bytes are read for one."""


def _files(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files of a source by their names below it; a file itself has none.

    Those of a folder come before those of its folders, also where links lead to them.
    """
    status = path.stat()
    if not stat.S_ISDIR(status.st_mode):
        yield "", status
        return
    for folder, folders, names in os.walk(path, onerror=_refuse, followlinks=True):
        real = os.path.realpath(folder)
        if folder != str(path) and Path(os.path.realpath(Path(folder).parent)).is_relative_to(real):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), folder)
        folders.sort()
        for name in sorted(names):
            file = os.path.join(folder, name)
            yield os.path.relpath(file, path), status_at(file)


def _refuse(error: OSError) -> None:
    raise error


SIDECAR_SUFFIX: Final = ".daf.zarr"
"""What a sidecar has behind the name of the file that it is beside."""
SIDECAR_SCALAR: Final = "sidecar_of"
"""The scalar in which a sidecar says what it was made of."""

SIDECARS_VARIABLE: Final = "DAF_SIDECARS"
"""The variable of the environment with a directory for sidecars."""

SIDECAR_GROUPS: Final = (layout.AXES, layout.VECTORS, layout.MATRICES)
"""The groups of which a sidecar has properties."""

ArrayTypes: TypeAlias = dict[str, list[Any]]
"""Types of elements and shapes of the arrays of a property, by their names; its own is ''."""

_FORMAT: Final = 1
_MALFORMED: Final = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
_PLACE_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class SidecarDocument:
    """Of what a sidecar was made, and what it has."""

    source: str
    """The name of the file or directory."""
    fingerprint: str
    """The state of its files."""
    digest: str
    """Of all of its bytes."""
    size_bytes: int
    """Of all of its files."""
    arrays: dict[str, ArrayTypes]
    """Of each axis, vector and matrix that it has, by its path, the arrays that it consists of."""
    checksums: dict[str, dict[str, int]]
    """Of their contents."""

    def text(self) -> str:
        """Return it as JSON."""
        return json.dumps({"format": _FORMAT, **asdict(self)})

    @staticmethod
    def parse(text: str) -> SidecarDocument:
        """Read it from JSON.

        Raises
        ------
        CorruptDataError
            It is no such document, or of another version.

        Examples
        --------
        >>> SidecarDocument.parse('{"format": 0}')
        Traceback (most recent call last):
        daf_storage.errors.CorruptDataError: it has the format 0, not 1
        >>> SidecarDocument.parse('{"format": 1, "arrays": {"nothing": []}, "checksums": {}}')
        Traceback (most recent call last):
        daf_storage.errors.CorruptDataError: its scalar 'sidecar_of' names what is no property
        >>> SidecarDocument.parse("[]")
        Traceback (most recent call last):
        daf_storage.errors.CorruptDataError: its scalar 'sidecar_of' is malformed
        """
        try:
            values: dict[str, Any] = json.loads(text)
            version = values.pop("format")
            if type(version) is not int or version != _FORMAT:
                raise CorruptDataError(f"it has the format {version!r}, not {_FORMAT}")
            values |= {part: dict(values[part]) for part in ("arrays", "checksums")}
            "".join(values["arrays"]).encode()  # of a lone surrogate no file has a name
            if any(_property_of(path) != path or "\0" in path for path in values["arrays"]):
                raise CorruptDataError(f"its scalar {SIDECAR_SCALAR!r} names what is no property")
            return SidecarDocument(**values)
        except _MALFORMED as error:
            if isinstance(error, CorruptDataError):
                raise
            raise CorruptDataError(f"its scalar {SIDECAR_SCALAR!r} is malformed") from None


def read_document(tree: Tree) -> SidecarDocument:
    """Return what a data set says of itself as a sidecar.

    Raises
    ------
    CorruptDataError
        It says nothing, or nothing that can be understood.
    """
    array = layout.open_array(tree, layout.scalar_path(SIDECAR_SCALAR))
    if array is None or not array.info.storage_type.is_string or array.info.size != 1:
        raise CorruptDataError(f"it has no scalar {SIDECAR_SCALAR!r}")
    return SidecarDocument.parse(array.read_strings()[0].as_py())


def _arrays(tree: Tree, path: str) -> dict[str, StoredArray]:
    """Return the arrays that a property consists of, by their names."""
    node = tree.node(path)
    if node is None:
        return {}
    names = [""] if node.kind == "array" else sorted(tree.children(path))
    arrays = {name: node.array(name) for name in names}
    return {name: array for name, array in arrays.items() if array is not None}


def array_types(tree: Tree, path: str) -> ArrayTypes:
    """Return the types and shapes of the arrays that a property consists of."""
    infos = {name: array.info for name, array in _arrays(tree, path).items()}
    return {name: [info.storage_type.value, list(info.shape)] for name, info in infos.items()}


def array_checksums(tree: Tree, path: str) -> dict[str, int]:
    """Return the checksums of the contents of the arrays that a property consists of."""
    return {name: contents_of([array])[1] for name, array in _arrays(tree, path).items()}


def property_problem(
    tree: Tree, document: SidecarDocument, path: str, *, max_bytes: int | None = None
) -> str:
    """Return why a property of a sidecar cannot be used; empty if it can.

    Parameters
    ----------
    max_bytes
        Up to which size its contents are read, and compared with their checksums; if not given,
        of any size.
    """
    try:
        if array_types(tree, path) != document.arrays[path]:
            return "it does not consist of the arrays that were written"
        arrays = _arrays(tree, path)
        for array in arrays.values():
            array.check_stored(is_complete=True)
        is_read = max_bytes is None or size_bytes(arrays.values()) <= max_bytes
        if is_read and array_checksums(tree, path) != document.checksums.get(path):
            return "its contents are not those that were written: the checksum is wrong"
    except DafError as error:
        return str(error)
    return ""


def sidecar_beside(path: Source) -> Path | None:
    """Return where the sidecar of a file or a directory is by default.

    That is beside it.  If there is none, and the environment names a directory for sidecars
    (``DAF_SIDECARS``), it is there, by a name that has the whole path in it.  None for a file on a
    server, if no directory is named.
    """
    folder, beside = os.environ.get(SIDECARS_VARIABLE), None
    if isinstance(path, RemoteSource):
        parent, _, name = path.name.rpartition("/")
    else:
        real = path.resolve()
        parent, name = os.fspath(real.parent), real.name
        beside = real.with_name(f"{name}{SIDECAR_SUFFIX}")
    if not folder or (beside is not None and is_sidecar(beside)):
        return beside
    place = hashlib.blake2b(os.fsencode(parent), digest_size=_PLACE_BYTES).hexdigest()
    return Path(os.path.abspath(folder), f"{name}-{place}{SIDECAR_SUFFIX}")


def sidecar_path(path: str | Path) -> Path:
    """Return a path that was given for a sidecar as an absolute one, if it can be one.

    >>> sidecar_path("/data/x.daf.zarr/").name
    'x.daf.zarr'
    """
    absolute = Path(os.path.abspath(path))
    if not absolute.name.endswith(SIDECAR_SUFFIX):
        raise errors.InvalidInputError(
            f"{path}: the path of a sidecar ends in {SIDECAR_SUFFIX}: it is a directory of Daf"
        )
    return absolute


def is_sidecar(path: str | Path) -> bool:
    """Return whether a directory is a sidecar, by the name of its scalar alone."""
    # Path.is_dir raises where a folder may not be entered.
    return os.path.isdir(Path(path, layout.scalar_path(SIDECAR_SCALAR)))


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
        self.location = base.location
        """Where the attached data set is, for messages."""
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

    def look_at(self, sidecar: Path) -> None:
        """Use the sidecar at another place."""
        with self._lock:
            self._place(sidecar)
            self._seen = None

    def _place(self, sidecar: Path) -> None:
        self.sidecar = sidecar
        """Where the sidecar is, or would be."""
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
            (place, property_problem(loaded.tree, document, place)) for place in document.arrays
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
        if place not in loaded.document.arrays or place in loaded.damaged:
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
            for shown_path in loaded.document.arrays
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
        tree = ZarrTree(DirectoryStore(self.sidecar))
        try:
            layout.check_version(tree)
            document = read_document(tree)
        except errors.DafError as error:
            self._warn(f"it is damaged: {error}")
            return None
        loaded = _Loaded(tree, document, seen, {})
        if self._file is None:  # what changes between here and the comparison is noticed
            for place in document.arrays:
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
        is_default = self.sidecar == sidecar_beside(self.source)
        into = "" if is_default else f" --into {errors.in_shell(self.sidecar)}"
        command = f"daf index {errors.in_shell(self.source)}{into}"
        errors.warn(
            f"{self.sidecar}: this sidecar is ignored: {problem}; make it again with "
            f"'{command} --refresh', or take it away with '{command} --remove'",
            SidecarWarning,
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
