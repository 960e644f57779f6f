"""The chunks of one array as zarr-python is shown them: decompressed here, within bounds.

zarr-python decodes whatever a chunk says of itself.  What it is shown has no compression any more,
and is no larger than the array allows.
"""

from __future__ import annotations

import asyncio
import math
import posixpath
from collections.abc import Mapping
from typing import Any

import zarr
from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype

from daf_storage.base import METADATA_NAMES
from daf_storage.errors import UnsupportedDataError
from daf_storage.stores import Snapshot, SnapshotZarrStore, check_within
from daf_storage.trees._chunked_array import check_string_count
from daf_storage.trees._decompress import (
    limit_of_filtered,
    limit_of_stored,
    limit_of_strings,
    undone,
)
from daf_storage.trees._metadata import ArrayMetadata, ZarrVersion

_DOCUMENTS = {2: ".zarray", 3: "zarr.json"}


def element_of(snapshot: Snapshot, path: str, version: ZarrVersion) -> Any:
    """Return a group or an array as zarr-python has it."""
    return zarr.open(SnapshotZarrStore(snapshot), path=path, mode="r", zarr_format=version)


class ForeignChunks(SnapshotZarrStore):
    """A store of one array, of which zarr-python may decode the chunks.

    Parameters
    ----------
    snapshot, path
        Where the array is.
    metadata
        Its metadata.
    what
        The array as messages name it.
    """

    def __init__(
        self, snapshot: Snapshot, path: str, metadata: ArrayMetadata, *, what: str
    ) -> None:
        document = metadata.document
        key = posixpath.join(path, _DOCUMENTS[metadata.version])
        super().__init__(snapshot, {} if document is None else {key: document})
        self._metadata = metadata
        self._what = what
        self._last: tuple[str, memoryview | None] | None = None

    @property
    def _codecs(self) -> tuple[Mapping[str, Any], ...]:
        return self._metadata.compressions

    def find_bytes(self, key: str) -> memoryview | None:
        """Return a document, or a chunk without its compression."""
        if posixpath.basename(key) in METADATA_NAMES:
            return super().find_bytes(key)
        last = self._last
        if last is not None and last[0] == key:
            return last[1]
        check_within(self._snapshot, key, self._most_stored_bytes, what=self._what)
        data = super().find_bytes(key)
        found = None if data is None else self._opened(key, data)
        self._last = (key, found)
        return found

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return bytes; chunks are decompressed side by side."""
        if not self._codecs or posixpath.basename(key) in METADATA_NAMES:
            return await super().get(key, prototype, byte_range)
        data = await asyncio.to_thread(self.find_bytes, key)
        return None if data is None else self.part_of(data, prototype, byte_range)

    def _opened(self, key: str, data: memoryview) -> memoryview:
        """Undo the compressions of a chunk, and check what comes out."""
        what = f"{self._what}: chunk {key!r}"
        data = undone(self._codecs, data, self._limit(len(data)), what=what)
        if self._has_variable_items and not self._metadata.is_sharded:
            self._check_count(key, data)
        return data

    @property
    def _has_variable_items(self) -> bool:
        return self._metadata.info.storage_type.is_string and not self._metadata.item_bytes

    @property
    def _most_stored_bytes(self) -> int:
        """How many bytes a chunk, or a file of several, may have before it is decompressed."""
        count = max(math.prod(self._metadata.info.chunks), self._metadata.info.size)
        return limit_of_filtered(limit_of_stored(count, self._metadata.item_bytes))

    def _limit(self, stored_bytes: int) -> int:
        count = math.prod(self._metadata.info.chunks)
        if self._has_variable_items:
            return limit_of_strings(count, stored_bytes)
        size_bytes = count * self._metadata.item_bytes
        return limit_of_filtered(size_bytes) if self._metadata.has_filters else size_bytes

    def _check_count(self, key: str, data: memoryview) -> None:
        """Check how many strings a chunk claims to have: as many objects would be made."""
        if self._metadata.has_filters:
            raise UnsupportedDataError(
                f"{self._what}: its strings are stored with filters that are not read; "
                "write them again without"
            )
        count = math.prod(self._metadata.info.chunks)
        check_string_count(data, count, what=f"{self._what}: chunk {key!r}")
