"""Properties and directories as nodes of the tree."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

from daf_storage.base import DecodedCache, StorageType
from daf_storage.errors import CorruptDataError
from daf_storage.files_daf._arrays import (
    LinesArray,
    elements_in,
    lines_in,
    missing,
    open_array,
    scalar_array,
)
from daf_storage.files_daf._descriptors import (
    PartForm,
    PropertyForm,
    check_document_bytes,
    parse_object,
    parse_property,
    parse_scalar,
)
from daf_storage.files_daf._places import ATTRIBUTES_FILE, STRINGS_PART, Place
from daf_storage.stores import (
    ArchiveSnapshot,
    DirectorySnapshot,
    PropertyFiles,
    RemoteSnapshot,
    Snapshot,
)
from daf_storage.trees import NodeKind, StoredArray

SharedSnapshot: TypeAlias = ArchiveSnapshot | RemoteSnapshot
"""A view of a whole directory of which nothing changes but by new files."""

LengthOf: TypeAlias = Callable[[str], int]
"""The length of an axis by its name."""


class PropertyNode:
    """A scalar, an axis, a vector or a matrix, pinned; see `Node`.

    Parameters
    ----------
    snapshot
        Its files, by their names.
    length_of
        The lengths of axes, from which shapes follow.
    chunk_cache
        The decoded chunks of the tree that are remembered.
    """

    def __init__(
        self,
        snapshot: PropertyFiles | SharedSnapshot,
        place: Place,
        length_of: LengthOf,
        *,
        chunk_cache: DecodedCache,
        what: str,
    ) -> None:
        self.snapshot = snapshot
        """Its files."""
        self._place = place
        self._length_of = length_of
        self._chunk_cache = chunk_cache
        self._what = what
        self._arrays: dict[str, StoredArray | None] = {}
        self._form: PropertyForm | None = None
        if place.kind not in ("scalar", "axis"):
            self._form = parse_property(read_document(snapshot, place, what), what=what)
        is_group = self._form is not None and self._form.kind == "sparse"
        self.kind: NodeKind = "group" if is_group else "array"

    @property
    def identity(self) -> Hashable:
        """What a cache goes by."""
        return identity_of(self.snapshot, self._place)

    def is_same(self, other: object) -> bool:
        """Return whether another node is the very same stored one."""
        if not isinstance(other, PropertyNode):
            return False
        ours, theirs = self.snapshot, other.snapshot
        if isinstance(ours, PropertyFiles) or isinstance(theirs, PropertyFiles):
            return ours.is_same(theirs)
        is_same_place = self._place.path == other._place.path  # noqa: SLF001 - of the same class
        return is_same_place and ours.directory_identity == theirs.directory_identity

    def array(self, name: str = "") -> StoredArray | None:
        """Return this array, or a part of a sparse property; None if absent."""
        if name not in self._arrays:
            self._arrays[name] = self._open(name)
        return self._arrays[name]

    def attribute(self, name: str) -> Any:
        """Return what the document has under a name that is not of the format."""
        return None if self._form is None else self._form.attributes.get(name)

    def _open(self, name: str) -> StoredArray | None:
        if self._form is None:
            return None if name else self._scalar_or_entries()
        if self._form.kind == "dense":
            return None if name else self._dense(self._form.parts[""])
        return self._part(name, self._form)

    def _scalar_or_entries(self) -> StoredArray:
        if self._place.kind == "scalar":
            data = read_document(self.snapshot, self._place, self._what)
            return scalar_array(parse_scalar(data, what=self._what))
        shape = (self._length_of(self._place.name),)
        return LinesArray(self.snapshot, self._place.document, shape, what=self._what)

    def _dense(self, form: PartForm) -> StoredArray:
        file = self._place.file("", form)
        shape = self._shape(file, form)
        return self._open_array(file, form, shape, self._what)

    def _open_array(
        self, file: str, form: PartForm, shape: tuple[int, ...], what: str
    ) -> StoredArray:
        return open_array(
            self.snapshot, file, form, shape, chunk_cache=self._chunk_cache, what=what
        )

    def _shape(self, file: str, form: PartForm) -> tuple[int, ...]:
        """Return the shape of a dense array: of its axes, or of the file where they may differ."""
        axes = self._place.axes
        is_flat = form.packed is None and not form.storage_type.is_string
        if not axes:
            if form.shape is not None:
                return form.shape
            if form.length is not None:
                return (form.length,)
            return (self._count(file, form),)
        if len(axes) == 1 and is_flat and self.snapshot.is_local:
            return (self._count(file, form),)
        return tuple(self._length_of(axis) for axis in axes)

    def _part(self, name: str, form: PropertyForm) -> StoredArray | None:
        """Return a part of a sparse property."""
        part = form.parts.get("nzval" if name == STRINGS_PART else name)
        if part is None or part.storage_type.is_string != (name == STRINGS_PART):
            return None
        what = f"{self._what}/{name}"
        stored = "nzval" if name == STRINGS_PART else name
        file = self._place.file(stored, part)
        if not form.is_explicit and self.snapshot.size(file) is None:
            if name == "nzval" and part.storage_type is not StorageType.BOOL:
                raise missing(self._what, file)
            return None
        length = part.length
        if length is None:
            length = self._count(file, part)
        return self._open_array(file, part, (length,), what)

    def _count(self, file: str, form: PartForm) -> int:
        """Return how many elements a file has."""
        if form.packed is not None:
            raise CorruptDataError(
                f"{self._what}: the document does not say how many elements {file!r} has, which "
                "is needed where they are packed; write it again"
            )
        if form.storage_type.is_string:
            return lines_in(self.snapshot, file, what=self._what)
        return elements_in(self.snapshot, file, form.storage_type, what=self._what)


class FolderNode:
    """A directory, pinned as far as its own names go; see `Node`."""

    kind: NodeKind = "group"

    def __init__(
        self,
        snapshot: DirectorySnapshot | SharedSnapshot,
        array: Callable[[str], StoredArray | None],
        *,
        what: str,
    ) -> None:
        self.snapshot = snapshot
        """Its files."""
        self._array = array
        self._what = what

    @property
    def identity(self) -> Hashable:
        """What a cache goes by."""
        return self.snapshot.identity()

    def is_same(self, other: object) -> bool:
        """Return whether another node is the very same directory."""
        return isinstance(other, FolderNode) and self.snapshot.is_same(other.snapshot)

    def array(self, name: str = "") -> StoredArray | None:
        """Return the array of that name in this directory; None if absent."""
        return self._array(name) if name else None

    def attribute(self, name: str) -> Any:
        """Return an attribute of the directory; None if it has none of this name."""
        data = self.snapshot.read(ATTRIBUTES_FILE)
        if data is None:
            return None
        return parse_object(data, what=f"{self._what}/{ATTRIBUTES_FILE}").get(name)


def identity_of(snapshot: PropertyFiles | SharedSnapshot, place: Place) -> Hashable:
    """Return what differs whenever a property was replaced or written to."""
    if isinstance(snapshot, PropertyFiles):
        return snapshot.identity()
    return snapshot.archive_identity, place.path


def read_document(snapshot: Snapshot, place: Place, what: str) -> bytes:
    """Return the document of a property."""
    if snapshot.is_local:
        check_document_bytes(snapshot.size(place.document), what=what)
    data = snapshot.read(place.document)
    if data is None:
        raise missing(what, place.document)
    return data
