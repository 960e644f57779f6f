"""The documents of properties, as value objects, and the arrays that they describe.

Documents are untrusted: any JSON value at any place becomes a value object or an error of ours.
"""

from __future__ import annotations

import json
import math
import os
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage._lazy import pc
from daf_storage.base import Packing, Span, StorageType
from daf_storage.data import layout, stored_numbers
from daf_storage.errors import (
    CorruptDataError,
    InvalidInputError,
    InvalidNameError,
    UnsupportedDataError,
    UnsupportedInputError,
    VersionError,
)
from daf_storage.stores import Fingerprint, ReadEstimate, Snapshot, translated
from daf_storage.trees import (
    ArrayInfo,
    StoredArray,
    estimate_strings,
    limit_of_stored,
    parse_json,
    shown,
)

DOCUMENT_ENDING: Final = ".json"
DAF_FILE: Final = "daf.json"
"""The file that marks a data set."""

VERSION: Final = (1, 1)
"""The version that is written, and the highest that is read."""

PARTS: Final[tuple[str, ...]] = ("nzind", "colptr", "rowval", "nzval")
"""The parts of sparse properties, in the order of the documents that are written."""

MAX_DOCUMENT_BYTES: Final = 1 << 20
_MAX_LENGTH: Final = 2**62
_COMPRESSIONS: Final = ("blosc_zstd_bitshuffle", "blosc_lz4_bitshuffle", "zstd", "gzip")
_FORMAT_KEYS: Final = {
    "format",
    "eltype",
    "indtype",
    "n_elements",
    "shape",
    "packed_format",
    "chunk_shape",
    "compression",
    "compression_level",
    "index_location",
    *PARTS,
}
_TYPES: Final = {kind.value.lower(): kind for kind in StorageType}
_WORDS: Final = ("nan", "inf", "infinity")


@dataclass(frozen=True, slots=True)
class PartForm:
    """What a document says of one stored array."""

    storage_type: StorageType
    """The type of its elements."""
    length: int | None = None
    """Number of elements; None where the document does not say it."""
    shape: tuple[int, ...] | None = None
    """Its shape, slowest dimension first; None where that follows from axes."""
    chunks: tuple[int, ...] | None = None
    """Lengths of the chunks into which another program has cut it, slowest dimension first."""
    codec: str = ""
    """How these are compressed: ``blosc``, ``zstd`` or ``gzip``."""


@dataclass(frozen=True, slots=True)
class PropertyForm:
    """What a document says of a vector or a matrix."""

    parts: Mapping[str, PartForm]
    """Its arrays by name; the one of a dense property has the empty name."""
    is_explicit: bool = True
    """Whether the document names each part of a sparse property, as those of version 1.1 do."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """What else the document has, which others ignore."""

    @property
    def is_sparse(self) -> bool:
        """Whether only the non-zero elements are stored."""
        return "" not in self.parts


def parse_version(data: bytes, *, what: str) -> tuple[int, int]:
    """Return the version of a data set.

    Raises
    ------
    VersionError
        It is none that this code reads.
    """
    found = parse_object(data, what=what).get("version")
    if not isinstance(found, list) or len(found) != 2 or not all(type(n) is int for n in found):
        raise VersionError(f"{what}: malformed version {shown(found)}; it is written [1,1]")
    if found[0] != VERSION[0] or not 0 <= found[1] <= VERSION[1]:
        raise VersionError(
            f"{what}: incompatible format version: {found[0]}.{found[1]}; the code supports "
            f"version: {VERSION[0]}.{VERSION[1]}; a newer release may read it"
        )
    return found[0], found[1]


def version_document() -> bytes:
    """Return the document that marks a data set."""
    return to_json({"version": list(VERSION)}) + b"\n"


def parse_property(data: bytes, *, what: str) -> PropertyForm:
    """Return what the document of a vector or a matrix says."""
    document = parse_object(data, what=what)
    kind = document.get("format")
    attributes = {key: value for key, value in document.items() if key not in _FORMAT_KEYS}
    if kind == "dense":
        return PropertyForm({"": _part(document, what)}, attributes=attributes)
    if kind != "sparse":
        raise CorruptDataError(
            f"{what}: its format is {shown(kind)}, and neither 'dense' nor 'sparse'"
        )
    if "eltype" in document:
        parts = dict.fromkeys(PARTS, PartForm(_type(document.get("indtype"), what)))
        parts["nzval"] = PartForm(_type(document["eltype"], what))
        return PropertyForm(parts, is_explicit=False, attributes=attributes)
    found = {}
    for part in PARTS:
        if part in document:
            if not isinstance(document[part], dict):
                raise CorruptDataError(f"{what}: its {part} is {shown(document[part])}")
            found[part] = _part(document[part], f"{what}: {part}")
    return PropertyForm(found, attributes=attributes)


def property_document(parts: Mapping[str, PartForm], attributes: Mapping[str, Any]) -> bytes:
    """Return the document of a vector or a matrix."""
    others = {k: v for k, v in attributes.items() if k not in _FORMAT_KEYS}
    if "" in parts:
        return to_json({**_part_document(parts[""]), **others}) + b"\n"
    found = {name: _part_document(parts[name]) for name in PARTS if name in parts}
    return to_json({"format": "sparse", **found, **others}) + b"\n"


def parse_scalar(data: bytes, *, what: str) -> tuple[StorageType, Any]:
    """Return the type of the scalar in a document, and a string or a numpy scalar of that type."""
    document = parse_object(data, what=what)
    kind = _type(document.get("type"), what)
    value = document.get("value")
    problem = f"{what}: its value {shown(value)} is no {kind.value}"
    if kind.is_string:
        if not isinstance(value, str):
            raise CorruptDataError(problem)
        return kind, value
    is_float = kind.dtype.kind == "f"
    if is_float and value is None:
        value = math.nan
    elif is_float and isinstance(value, str) and value.lower().lstrip("+-") in _WORDS:
        value = float(value.lower())
    is_bool = isinstance(value, bool)
    if not isinstance(value, int | float) or (is_bool and kind is not StorageType.BOOL):
        raise CorruptDataError(problem)
    try:
        number = np.asarray(value, np.float64 if is_float else object)
        return kind, stored_numbers(number, kind.dtype, what=what)[()]
    except (UnsupportedInputError, OverflowError):
        raise CorruptDataError(problem) from None


def scalar_document(kind: StorageType, scalar: Any) -> bytes:
    r"""Return the document of a scalar: a string, or a numpy scalar of this type.

    >>> scalar_document(StorageType.FLOAT32, np.float32(0.1))
    b'{"type":"Float32","value":0.1}\n'
    """
    value = scalar if kind.is_string else scalar.item()
    if kind is StorageType.FLOAT32 and math.isfinite(value):
        value = float(str(scalar))  # the shortest that reads back, as for 64 bits
    return to_json({"type": kind.value, "value": value}) + b"\n"


def check_packing(packing: Packing | None, location: str) -> None:
    """Refuse to pack what is written."""
    if packing is not None:
        raise InvalidInputError(
            f"{location}: plain files (FilesDaf) are not packed; write a .daf.zarr or a .h5df"
        )


def parse_object(data: bytes, *, what: str) -> dict[str, Any]:
    """Return the JSON object in a file."""
    return parse_json(data, what=f"{what}: it")


def to_json(document: Any) -> bytes:
    """Return a document on one line, as other programs of the family write it."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def _part(document: Mapping[str, Any], what: str) -> PartForm:
    length, shape = document.get("n_elements"), document.get("shape")
    if length is not None and not _is_length(length):
        raise CorruptDataError(f"{what}: its n_elements is {shown(length)}")
    if shape is not None and not _are_lengths(shape):
        raise CorruptDataError(f"{what}: its shape is {shown(shape)}")
    return PartForm(
        _type(document.get("eltype"), what),
        length,
        None if shape is None else tuple(shape),
        *_packed(document, what),
    )


def _packed(document: Mapping[str, Any], what: str) -> tuple[tuple[int, ...] | None, str]:
    """Return the shape of the chunks of a part that is packed, and their codec."""
    form = document.get("packed_format")
    if form is None:
        return None, ""
    chunks, name = document.get("chunk_shape"), document.get("compression")
    if not _are_lengths(chunks) or not chunks or 0 in chunks or len(chunks) > 2:
        raise CorruptDataError(f"{what}: its chunk_shape is {shown(chunks)}")
    is_indexed = form == "indexed+zipped" and document.get("index_location", "start") == "start"
    if not is_indexed or name not in _COMPRESSIONS:
        raise UnsupportedDataError(
            f"{what}: it is packed as {shown(form)} with {shown(name)}, which is not read; "
            f"'indexed+zipped' is, with the index at the start and {', '.join(_COMPRESSIONS)}"
        )
    return tuple(reversed(chunks)), name.partition("_")[0]


def _part_document(form: PartForm) -> dict[str, Any]:
    document: dict[str, Any] = {"format": "dense", "eltype": form.storage_type.value}
    if form.length is not None:
        document["n_elements"] = form.length
    if form.shape is not None:
        document["shape"] = list(form.shape)
    return document


def _type(name: Any, what: str) -> StorageType:
    found = _TYPES.get(name.lower()) if isinstance(name, str) else None
    if found is None:
        types = ", ".join(kind.value for kind in StorageType)
        raise CorruptDataError(f"{what}: there is no element type {shown(name)}; known are {types}")
    return found


def _is_length(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MAX_LENGTH


def _are_lengths(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= 32
        and all(_is_length(n) for n in value)
        and math.prod(max(n, 1) for n in value) <= _MAX_LENGTH
    )


METADATA_FILE: Final = "metadata.json"


def parse_consolidated(data: bytes, *, what: str) -> dict[str, dict[str, Any]]:
    """Return the documents by their paths.

    Raises
    ------
    CorruptDataError
        It is not JSON, or holds something else.
    """
    documents = parse_object(data, what=what)
    for path, document in documents.items():
        if not isinstance(document, dict):
            raise CorruptDataError(f"{what}: what it says of {path[:80]!r} is no JSON object")
    return documents


def documents_of(data: bytes, *, what: str) -> dict[str, bytes]:
    """Return the documents as files, by their names; of axes too, which have none on the disk."""
    documents: Mapping[str, Any] = parse_consolidated(data, what=what)
    return {f"{path}{DOCUMENT_ENDING}": to_json(document) for path, document in documents.items()}


LINES_ENDING: Final = ".txt"
STRINGS_PART: Final = "nztxt"
"""What the tree calls the strings of a sparse property; documents call them ``nzval``."""

INDEXES_FOLDER: Final = ".daf.indexes"
"""The directory of the indexes, a Zarr hierarchy."""

_SPARSE_ENDINGS: Final = tuple(f".{part}{end}" for part in PARTS for end in ("", ".zip"))
_DENSE_ENDINGS: Final = (".data", LINES_ENDING, ".zip")
_LONGEST_NAME_BYTES: Final = 255

PlaceKind: TypeAlias = Literal["scalar", "axis", "vector", "matrix", "other"]

_KINDS: Final[Mapping[str, PlaceKind]] = {
    layout.SCALARS: "scalar",
    layout.AXES: "axis",
    layout.VECTORS: "vector",
    layout.MATRICES: "matrix",
}


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
        return tuple(reversed(self.path.split("/")[1:-1])) if self.may_be_sparse else ()

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
        if form.chunks is not None:
            return f"{stem}.zip"
        if form.storage_type.is_string:
            return f"{self.name}.{STRINGS_PART}" if part else f"{stem}{LINES_ENDING}"
        return stem if part else f"{stem}.data"

    def check_name(self, location: str) -> None:
        """Refuse a name by which files would be those of a part of another one, or be too long."""
        if self.kind != "axis" and self.name.endswith(_SPARSE_ENDINGS):
            raise InvalidNameError(
                f"{location}: {self.name!r} cannot be the name of a property in FilesDaf, where "
                f"the parts of sparse properties are called so; choose another name"
            )
        size_bytes = len(os.fsencode(self.name))
        endings = (DOCUMENT_ENDING, *(_SPARSE_ENDINGS if self.may_be_sparse else ()))
        longest_bytes = _LONGEST_NAME_BYTES - max(map(len, endings))
        if size_bytes > longest_bytes:
            raise InvalidNameError(
                f"{location}: {self.name[:32]!r}... cannot be the name of the {self.kind} in "
                f"FilesDaf: it has {size_bytes} bytes, and the names of its files have room for "
                f"{longest_bytes}; choose a shorter one"
            )

    @property
    def may_exist(self) -> bool:
        """Whether a file can have the name of its document."""
        return len(os.fsencode(self.document)) <= _LONGEST_NAME_BYTES


def place_of(path: str) -> Place:
    """Return where a node of the tree is.

    >>> place_of("matrices/cell/gene/UMIs").axes
    ('gene', 'cell')
    """
    group, names, depth = layout.split(path)
    is_property = depth is not None and len(names) == depth + 1
    return Place(path, _KINDS.get(group, "other") if is_property else "other")


def is_sparse(name: str, names: set[str]) -> bool:
    """Return whether the property of this name is sparse, by the names of all files beside it."""
    first = (f"{name}.nzind", f"{name}.colptr")
    return any(stem in names or f"{stem}.zip" in names for stem in first)


_NEWLINE: Final = 10
_COUNT_BYTES: Final = 1 << 20
_LARGE_BYTES: Final = 2**31
_BLOCK_ROWS: Final = 1 << 18


def count_lines(data: memoryview, *, what: str) -> int:
    r"""Return how many lines there are.

    >>> count_lines(memoryview(b"A\nB\n"), what="x")
    2

    Raises
    ------
    CorruptDataError
        The last one does not end: the file is truncated.
    """
    if len(data) and data[-1] != _NEWLINE:
        raise CorruptDataError(
            f"{what}: its last line does not end with a newline, so it is truncated; write it again"
        )
    values = np.frombuffer(data, np.uint8)
    blocks = range(0, values.size, _COUNT_BYTES)
    return sum(int(np.count_nonzero(values[n : n + _COUNT_BYTES] == _NEWLINE)) for n in blocks)


def decode_lines(
    data: memoryview, count: int, *, what: str
) -> pa.StringArray | pa.LargeStringArray:
    r"""Return lines as Arrow strings, which own their memory.

    >>> decode_lines(memoryview("é\n\n".encode()), 2, what="x").to_pylist()
    ['é', '']

    Raises
    ------
    CorruptDataError
        There are more or fewer than ``count``, or they are not UTF-8.
    """
    n_lines = count_lines(data, what=what)
    if n_lines != count:
        raise CorruptDataError(f"{what}: it has {n_lines:,} lines instead of {count:,}")
    if not count:
        return pa.array([], pa.string())
    ends = pa.py_buffer(np.array([0, len(data) - 1]))
    whole = pa.Array.from_buffers(pa.large_string(), 1, [None, ends, pa.py_buffer(data)])
    found = pc.split_pattern(whole, "\n").flatten()
    with translated(pa.ArrowException, CorruptDataError, f"{what}: its lines are not UTF-8"):
        found.validate(full=True)
    return found if len(data) >= _LARGE_BYTES else found.cast(pa.string())


def encode_lines(strings: pa.Array, *, what: str) -> Iterator[memoryview]:
    r"""Yield the lines of strings in blocks of bytes.

    >>> b"".join(encode_lines(pa.array(["A", ""]), what="x"))
    b'A\n\n'

    Raises
    ------
    UnsupportedInputError
        A string has a line break in it.
    """
    for start in range(0, len(strings), _BLOCK_ROWS):
        yield _encoded(strings.slice(start, _BLOCK_ROWS), start, what)


def _encoded(strings: pa.Array, start: int, what: str) -> memoryview:
    has_break = pc.match_substring(strings, "\n")
    number = pc.index(has_break, True).as_py()
    if number >= 0:
        raise UnsupportedInputError(
            f"{what} has a line break in {strings[number].as_py()!r} at position "
            f"{start + number:,}, and FilesDaf stores a string a line; take the line break out, or "
            "use another format (.daf.zarr, .h5df)"
        )
    kind = pa.large_string()
    ending = pa.scalar("", kind), pa.scalar("\n", kind)
    lines = pc.binary_join_element_wise(strings.cast(kind), *ending)
    size_bytes = len(strings) + (pc.sum(pc.binary_length(strings)).as_py() or 0)
    return memoryview(lines.buffers()[2])[:size_bytes]


_MOST_EXPANDED_BYTES = 1 << 30
"""Of the entries of an axis, of which nothing says how many there are."""


class LinesArray(StoredArray):
    """Strings, each on a line of a file; see `StoredArray`.

    Parameters
    ----------
    shape
        Its shape; lines are in C order.
    """

    def __init__(self, snapshot: Snapshot, file: str, shape: tuple[int, ...], *, what: str) -> None:
        self.info = ArrayInfo(shape, StorageType.STRING, no_zeros(shape), is_mappable=False)
        self._snapshot = snapshot
        self._file = file
        self._what = what

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings, flattened in C order."""
        return decode_lines(self._lines(), self.info.size, what=self._where)

    def check_stored(self, *, is_complete: bool = False) -> None:  # noqa: ARG002 - nothing stands in
        """Raise if the file is missing, or has fewer bytes than lines."""
        if not self._snapshot.is_local:
            return
        size_bytes = self._snapshot.size(self._file)
        if size_bytes is None:
            raise missing(self._what, self._file)
        if size_bytes < self.info.size:
            raise CorruptDataError(
                f"{self._where}: it has {size_bytes:,} bytes, which cannot hold "
                f"{self.info.size:,} lines; it is truncated"
            )

    def fingerprint(self) -> Fingerprint | None:
        """Return numbers that change with the file."""
        return self._snapshot.fingerprint(self._file)

    def estimate(
        self,
        spans: list[Span],
        estimate: ReadEstimate,
        within: Span | None = None,  # noqa: ARG002 - all lines are read
    ) -> None:
        """Add the whole file: lines are found by reading them."""
        estimate_strings(self, self._snapshot, spans, estimate)

    @property
    def _where(self) -> str:
        return f"{self._what}: {self._file}"

    def _lines(self) -> memoryview:
        most_bytes = limit_of_stored(self.info.size, 0)
        data = self._snapshot.map_within(self._file, most_bytes, what=self._what)
        if data is None:
            raise missing(self._what, self._file)
        return data


def lines_in(snapshot: Snapshot, file: str, *, what: str) -> int:
    """Return how many lines a file of a pinned property has."""
    data = snapshot.map_within(file, _MOST_EXPANDED_BYTES, what=what)
    if data is None:
        raise missing(what, file)
    return count_lines(data, what=f"{what}: {file}")


def missing(what: str, file: str) -> CorruptDataError:
    """Return the error for a file that a document asks for and that is not there."""
    return CorruptDataError(
        f"{what}: the file {file!r} is missing: a program was stopped while it wrote this, or the "
        "copy is not complete; write it again"
    )


def no_zeros(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the one chunk that an array consists of."""
    return tuple(max(length, 1) for length in shape)
