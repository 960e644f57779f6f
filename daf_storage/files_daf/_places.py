"""The files that belong to a path of the tree.  Pure."""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from daf_storage.data import layout
from daf_storage.errors import InvalidNameError
from daf_storage.files_daf._descriptors import DOCUMENT_ENDING, PartForm, PropertyForm

LINES_ENDING: Final = ".txt"
STRINGS_PART: Final = "nztxt"
"""What the tree calls the strings of a sparse property; documents call them ``nzval``."""

ATTRIBUTES_FILE: Final = ".attributes"
"""The file of the attributes of a plain directory."""

INDEXES_FOLDER: Final = ".daf.indexes"
"""The directory of the indexes, a Zarr hierarchy."""

_PART_NAMES: Final = ("nzind", "colptr", "rowval", "nzval")
_SPARSE_ENDINGS: Final = tuple(f".{part}{end}" for part in _PART_NAMES for end in ("", ".zip"))
_DENSE_ENDINGS: Final = (".data", LINES_ENDING, ".zip")
_LONGEST_NAME_BYTES: Final = 255
_VECTOR_DEPTH: Final = 3
_MATRIX_DEPTH: Final = 4

PlaceKind: TypeAlias = Literal["scalar", "axis", "vector", "matrix", "other"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node of the tree is."""

    path: str
    """Its path in the tree."""
    kind: PlaceKind
    """What is there, by the path."""

    @property
    def folder(self) -> str:
        """The directory of its files."""
        return posixpath.dirname(self.path)

    @property
    def name(self) -> str:
        """The last component."""
        return posixpath.basename(self.path)

    @property
    def document(self) -> str:
        """The name of its document."""
        return self.name + (LINES_ENDING if self.kind == "axis" else DOCUMENT_ENDING)

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of its dimensions, slowest first; none if its shape does not follow from any."""
        names = self.path.split("/")
        if self.kind == "vector":
            return (names[1],)
        return (names[2], names[1]) if self.kind == "matrix" else ()

    @property
    def may_be_sparse(self) -> bool:
        """Whether a group at this path is a sparse property, and no directory."""
        return self.kind in ("vector", "matrix")

    @property
    def candidates(self) -> list[str]:
        """The names that files of it may have, without the document."""
        if self.kind in ("scalar", "axis"):
            return []
        endings: tuple[str, ...] = (*_DENSE_ENDINGS, f".{STRINGS_PART}")
        if self.may_be_sparse:
            endings = (*endings, *_SPARSE_ENDINGS)
        return [self.name + ending for ending in endings]

    def file(self, part: str, form: PartForm) -> str:
        """Return the name of the file of one of its arrays, which is called ``part``."""
        stem = f"{self.name}.{part}" if part else self.name
        if form.packed is not None:
            return f"{stem}.zip"
        if form.storage_type.is_string:
            return f"{self.name}.{STRINGS_PART}" if part else f"{stem}{LINES_ENDING}"
        return stem if part else f"{stem}.data"

    def files(self, form: PropertyForm) -> list[str]:
        """Return the names of the files of a property, without the document."""
        return [self.file(part, part_form) for part, part_form in form.parts.items()]

    def check_name(self, location: str) -> None:
        """Refuse a name by which files would be those of a part of another one, or be too long."""
        if self.kind != "axis" and self.name.endswith(_SPARSE_ENDINGS):
            raise InvalidNameError(
                f"{location}: {self.name!r} cannot be the name of a property in FilesDaf, where "
                f"the parts of sparse properties are called so; choose another name"
            )
        size_bytes = len(os.fsencode(self.name))
        longest_bytes = _LONGEST_NAME_BYTES - len(self._longest_ending)
        if size_bytes > longest_bytes:
            raise InvalidNameError(
                f"{location}: {self.name[:32]!r}... cannot be the name of the {self.kind} in "
                f"FilesDaf: it has {size_bytes} bytes, and the names of its files have room for "
                f"{longest_bytes}; choose a shorter one"
            )

    @property
    def _longest_ending(self) -> str:
        endings = (DOCUMENT_ENDING, *(_SPARSE_ENDINGS if self.may_be_sparse else ()))
        return max(endings, key=len)

    @property
    def may_exist(self) -> bool:
        """Whether a file can have the name of its document."""
        return len(os.fsencode(self.document)) <= _LONGEST_NAME_BYTES


def place_of(path: str) -> Place:
    """Return where a node of the tree is.

    >>> place_of("matrices/cell/gene/UMIs").axes
    ('gene', 'cell')
    """
    names = path.split("/")
    group, depth = names[0], len(names)
    kind: PlaceKind = "other"
    if group in (layout.SCALARS, layout.AXES) and depth == 2:
        kind = "scalar" if group == layout.SCALARS else "axis"
    elif group == layout.VECTORS and depth == _VECTOR_DEPTH:
        kind = "vector"
    elif group == layout.MATRICES and depth == _MATRIX_DEPTH:
        kind = "matrix"
    return Place(path, kind)


def is_sparse(name: str, names: set[str]) -> bool:
    """Return whether the property of this name is sparse, by the names of all files beside it."""
    first = (f"{name}.nzind", f"{name}.colptr")
    return any(stem in names or f"{stem}.zip" in names for stem in first)
