"""What the metadata of Zarr v2 and v3 have in common, as value objects and a protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from daf_storage.errors import CorruptDataError
from daf_storage.model import StorageType
from daf_storage.packing import Packing
from daf_storage.stores import Pin
from daf_storage.trees._protocol import ArrayInfo, NodeKind

ZarrVersion: TypeAlias = Literal[2, 3]
"""The versions of the Zarr format."""


@dataclass(frozen=True, slots=True)
class ShardLayout:
    """How a file of many small chunks is made up: an index, and each chunk compressed by itself."""

    grid: tuple[int, ...]
    """How many chunks there are along each dimension."""
    codec: Mapping[str, Any] | None
    """Name and options of the compression of a chunk; None if it has none."""
    index_at_start: bool
    """Whether the index comes before the chunks; if not, it comes after them."""
    has_checksum: bool
    """Whether a CRC-32C of the index follows it."""


@dataclass(frozen=True, slots=True)
class ArrayMetadata:
    """The parsed metadata of an array."""

    version: ZarrVersion
    """The version of the format."""
    info: ArrayInfo
    """Shape, element type and chunks."""
    has_plain_chunk: bool
    """Whether there is one chunk, neither compressed nor filtered (but for strings)."""
    fill_value: Any
    """What missing chunks hold; None if they must not be missing."""
    separator: str
    """What stands between the numbers of a chunk key."""
    prefix: str = ""
    """What a chunk key begins with."""
    shard: ShardLayout | None = None
    """How its single file is made up, if it is one of small chunks; ``info`` has their shape."""
    document: bytes | None = None
    """The metadata to show to zarr-python, where that refuses the stored ones."""

    def chunk_key(self, position: tuple[int, ...]) -> str:
        """Return the key of the file at a position of the grid."""
        if not position:
            return self.prefix or "0"
        start = f"{self.prefix}{self.separator}" if self.prefix else ""
        return start + self.separator.join(map(str, position))

    @property
    def first_chunk_key(self) -> str:
        """The key of the file at the origin."""
        return self.chunk_key((0,) * len(self.info.shape))


class ZarrFormat(Protocol):
    """The documents of one version of Zarr: where they are, and what they say."""

    version: ZarrVersion
    consolidated_file: str
    """The file at the root that repeats all documents."""

    @property
    def node_files(self) -> tuple[str, ...]:
        """The files of which each node has one or more, which say what it is."""
        ...

    def kind(self, pin: Pin, path: str) -> NodeKind | None:
        """Return what is at ``path``."""
        ...

    def array(self, pin: Pin, path: str, *, what: str) -> ArrayMetadata | None:
        """Return the metadata of an array; None if there is none."""
        ...

    def marker(self, pin: Pin, name: str) -> Any:
        """Return an attribute of the root group; None if it has none, or the version keeps none."""
        ...

    def attribute(self, pin: Pin, path: str, name: str, *, what: str) -> Any:
        """Return an attribute of the group or array at ``path``; None if it has none."""
        ...

    def group_documents(self) -> dict[str, bytes]:
        """Return the documents of a group by their names."""
        ...

    def annotated(
        self, documents: Mapping[str, bytes], attributes: Mapping[str, str]
    ) -> dict[str, bytes]:
        """Return the documents of a group or an array with attributes."""
        ...

    def root_document(self, old: bytes | None, attributes: Mapping[str, Any]) -> dict[str, bytes]:
        """Return the document of the root with more attributes; nothing if there are none."""
        ...

    def array_documents(
        self, shape: tuple[int, ...], storage_type: StorageType
    ) -> dict[str, bytes]:
        """Return the documents of an array in a single uncompressed chunk, by their names."""
        ...

    def packed_documents(
        self, shape: tuple[int, ...], storage_type: StorageType, packing: Packing
    ) -> dict[str, bytes]:
        """Return the documents of a packed array, by their names."""
        ...

    def chunk_key(self, shape: tuple[int, ...]) -> str:
        """Return the key of the single chunk of an array that is written."""
        ...

    def documents(self, pin: Pin, path: str) -> Iterator[tuple[str, bytes]]:
        """Yield the documents at and below ``path`` as compact JSON, to be consolidated."""
        ...

    def consolidated(self, pin: Pin, documents: Mapping[str, bytes]) -> bytes:
        """Return the consolidated metadata of these documents."""
        ...

    def listed(self, consolidated: bytes) -> dict[str, bytes]:
        """Return the documents of consolidated metadata by their keys, the root's too.

        Raises ``ValueError``, ``KeyError``, ``TypeError`` or ``AttributeError`` if malformed.
        """
        ...


def parse_json(data: bytes, *, what: str) -> dict[str, Any]:
    """Parse a JSON object."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptDataError(f"{what} is not JSON ({error})") from None
    if not isinstance(document, dict):
        raise CorruptDataError(f"{what} holds no JSON object")
    return document


def compact(data: bytes | None) -> bytes | None:
    """Return a document on one line; None where it is missing, or no JSON object."""
    try:
        return None if data is None else to_json(parse_json(data, what=""))
    except CorruptDataError:
        return None


def to_json(document: Any) -> bytes:
    """Return a document on one line."""
    return json.dumps(document, separators=(",", ":")).encode()


def lengths_of(value: Any) -> tuple[int, ...]:
    """Return a list of lengths; ``ValueError`` if it is none."""
    lengths = tuple(value)
    if not all(type(n) is int and n >= 0 for n in lengths):
        raise ValueError(f"lengths {value!r}")
    return lengths
