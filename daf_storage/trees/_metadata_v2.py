"""The JSON documents of Zarr v2: ``.zarray``, ``.zgroup``, ``.zattrs`` and ``.zmetadata``.

Pure: bytes in, value objects out, and back.  Source: the Zarr v2 storage specification; what is
written follows docs/reference/format.md to the letter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import numpy as np

from daf_storage.base import METADATA_NAMES, Packing, StorageType
from daf_storage.errors import (
    CorruptDataError,
    FormatError,
    ReadOnlyError,
    UnsupportedDataError,
    UnsupportedInputError,
)
from daf_storage.stores import Snapshot
from daf_storage.trees._decompress import is_bounded
from daf_storage.trees._metadata import (
    ArrayMetadata,
    ZarrVersion,
    check_chunk_bytes,
    check_chunks,
    check_item_bytes,
    compact,
    fill_of,
    key_below,
    lengths_of,
    parse_json,
    read_document,
    remembering,
    separator_of,
    shown,
    to_json,
)
from daf_storage.trees._protocol import ArrayInfo, NodeKind

GROUP_FILE: Final = ".zgroup"
ARRAY_FILE: Final = ".zarray"
ATTRIBUTES_FILE: Final = ".zattrs"
CONSOLIDATED_FILE: Final = ".zmetadata"

GROUP_BYTES: Final = b'{"zarr_format":2}'
ATTRIBUTES_BYTES: Final = b"{}"

_VLEN_UTF8: Final = [{"id": "vlen-utf8"}]
_DTYPE: Final = re.compile(r"[<>|=]?[a-zA-Z?]\d{0,9}")
_MAX_NAMES: Final = 200


class ZarrV2:
    """The documents of Zarr v2; see `ZarrFormat`."""

    version: ZarrVersion = 2
    consolidated_file = CONSOLIDATED_FILE
    node_files: tuple[str, ...] = (".zarray", ".zgroup")

    def kind(self, snapshot: Snapshot, path: str) -> NodeKind | None:
        """Return what is at ``path``: the presence of a document says it.

        What cannot be looked at is an array: the reason is raised when it is used.
        """
        try:
            if snapshot.size(key_below(path, ARRAY_FILE)) is not None:
                return "array"
            return "group" if snapshot.size(key_below(path, GROUP_FILE)) is not None else None
        except (FormatError, ReadOnlyError):
            return "array"

    def array(self, snapshot: Snapshot, path: str, *, what: str) -> ArrayMetadata | None:
        """Return the metadata of an array; None if there is none."""
        data = read_document(snapshot, key_below(path, ARRAY_FILE), what=what)
        return None if data is None else _parsed(data, what)

    def marker(self, snapshot: Snapshot, name: str) -> None:  # noqa: ARG002 - the same for both versions
        """Return nothing: the marker of Zarr v2 is an array."""
        return

    def attribute(self, snapshot: Snapshot, path: str, name: str, *, what: str) -> Any:
        """Return an attribute of a group or array."""
        key = key_below(path, ATTRIBUTES_FILE)
        if (snapshot.size(key) or 0) <= len(ATTRIBUTES_BYTES):  # of a server: without a request
            return None
        data = read_document(snapshot, key, what=what)
        return None if data is None else parse_json(data, what=f"{what}: {key}").get(name)

    def group_documents(self) -> dict[str, bytes]:
        """Return the documents of a group by their names."""
        return {GROUP_FILE: GROUP_BYTES, ATTRIBUTES_FILE: ATTRIBUTES_BYTES}

    def annotated(
        self, documents: Mapping[str, bytes], attributes: Mapping[str, str]
    ) -> dict[str, bytes]:
        """Return the documents of a group or an array with attributes."""
        return {**documents, ATTRIBUTES_FILE: to_json(dict(attributes))}

    def root_document(self, old: bytes | None, attributes: Mapping[str, Any]) -> dict[str, bytes]:  # noqa: ARG002 - as above
        """Return nothing: the root has no attributes."""
        return {}

    def array_documents(
        self, shape: tuple[int, ...], storage_type: StorageType
    ) -> dict[str, bytes]:
        """Return the documents of an array in a single uncompressed chunk, by their names."""
        return {ARRAY_FILE: render_array(shape, storage_type), ATTRIBUTES_FILE: ATTRIBUTES_BYTES}

    def packed_documents(
        self,
        shape: tuple[int, ...],
        storage_type: StorageType,
        packing: Packing,
    ) -> dict[str, bytes]:
        """Refuse: Zarr v2 would need a file for each small chunk."""
        raise UnsupportedInputError(
            f"an array of shape {list(shape)} of {storage_type.value} cannot be packed "
            f"({packing.codec}) in Zarr v2; use zarr_format=3"
        )

    def chunk_key(self, shape: tuple[int, ...]) -> str:
        """Return the key of the single chunk of an array that is written."""
        return ".".join("0" * len(shape))

    def documents(self, snapshot: Snapshot, path: str) -> Iterator[tuple[str, bytes]]:
        """Yield the documents at and below ``path``."""
        names = snapshot.names(path)
        for name in (GROUP_FILE, ARRAY_FILE):
            data = _document(snapshot, key_below(path, name)) if name in names else None
            if data is None:
                continue
            yield key_below(path, name), data
            attributes = _document(snapshot, key_below(path, ATTRIBUTES_FILE))
            yield key_below(path, ATTRIBUTES_FILE), attributes or ATTRIBUTES_BYTES
            if name == GROUP_FILE:
                for child in names:
                    if child not in METADATA_NAMES:
                        yield from self.documents(snapshot, key_below(path, child))

    def consolidated(self, snapshot: Snapshot, documents: Mapping[str, bytes]) -> bytes:  # noqa: ARG002 - as above
        """Return the contents of ``.zmetadata``."""
        return render_consolidated(documents)

    def unconsolidated(self, consolidated: bytes) -> None:  # noqa: ARG002 - as above
        """Return nothing: it is a file of its own."""
        return

    def listed(self, consolidated: bytes) -> dict[str, bytes]:
        """Return the documents of a ``.zmetadata`` by their keys."""
        try:
            found = json.loads(consolidated)["metadata"].items()
            return {path: to_json(document) for path, document in found}
        except RecursionError as error:
            raise ValueError(str(error)) from None


def parse_array(data: bytes, *, what: str) -> ArrayMetadata:
    """Parse a ``.zarray``; ``what`` names the array in messages.

    Raises
    ------
    CorruptDataError
        Not JSON, or not the metadata of a Zarr v2 array.
    UnsupportedDataError
        Valid, but pickled, or of a dtype that Daf does not have.
    """
    document = parse_json(data, what=f"{what}: {ARRAY_FILE}")
    if document.get("zarr_format") not in (2, None):
        raise UnsupportedDataError(
            f"{what}: the array is of Zarr format {shown(document['zarr_format'])}, not 2"
        )
    try:
        shape = lengths_of(document["shape"])
        chunks = lengths_of(document["chunks"])
        dtype = document["dtype"]
        order = _order(document["order"])
        compressor = document["compressor"]
        filters = _filters(document["filters"])
        separator = separator_of(document.get("dimension_separator", "."))
        fill_value = document["fill_value"]
    except (KeyError, TypeError, ValueError) as error:
        raise _malformed(what, error) from None
    check_chunks(shape, chunks, what=what)
    _check_codecs([compressor, *filters], what=what)
    storage_type = _storage_type(dtype, filters, what=what)
    try:
        fill = fill_of(fill_value, storage_type)
    except ValueError as error:
        raise _malformed(what, error) from None
    is_single = all(n <= c or n == 0 for n, c in zip(shape, chunks, strict=True)) and order == "C"
    is_exact = is_single and all(n in (c, 0) for n, c in zip(shape, chunks, strict=True))
    is_vlen = dtype == "|O"
    is_plain = is_exact and compressor is None and filters == (_VLEN_UTF8 if is_vlen else [])
    little = not is_vlen and not storage_type.is_string and np.dtype(dtype) == storage_type.dtype
    has_plain_chunk = is_plain and (is_vlen or little)
    item_bytes = 0 if is_vlen else check_item_bytes(np.dtype(dtype).itemsize, what=what)
    check_chunk_bytes(shape, chunks, item_bytes, what=what)
    compressions, left = _split(compressor, filters)
    without = {**document, "compressor": None, "filters": left or None}
    return ArrayMetadata(
        version=2,
        info=ArrayInfo(
            shape=shape,
            storage_type=storage_type,
            chunks=tuple(max(c, 1) for c in chunks),
            is_mappable=has_plain_chunk and not is_vlen,
        ),
        has_plain_chunk=has_plain_chunk,
        fill_value=fill,
        separator=separator,
        item_bytes=item_bytes,
        compressions=tuple(compressions),
        has_filters=left not in ([], _VLEN_UTF8),
        chunk_dtype=None if left or not item_bytes else np.dtype(dtype),
        is_fortran=order == "F",
        has_plain_strings=is_vlen and left == _VLEN_UTF8 and len(shape) <= 1,
        document=to_json(without) if compressions else None,
    )


@remembering
def _parsed(data: bytes, what: str) -> ArrayMetadata:
    return parse_array(data, what=what)


def render_array(shape: tuple[int, ...], storage_type: StorageType) -> bytes:
    """Return the ``.zarray`` of an array in a single uncompressed chunk.

    A chunk length of 0 would keep other implementations from opening the whole data set, so an
    empty dimension has chunks of 1 and no chunk file.

    >>> render_array((3,), StorageType.STRING).decode()[:42]
    '{"zarr_format":2,"shape":[3],"chunks":[3],'
    """
    document = {
        "zarr_format": 2,
        "shape": list(shape),
        "chunks": [max(n, 1) for n in shape],
        "dtype": "|O" if storage_type.is_string else storage_type.dtype.str,
        "compressor": None,
        "fill_value": None,
        "order": "C",
        "filters": _VLEN_UTF8 if storage_type.is_string else None,
    }
    return to_json(document)


def render_consolidated(documents: Mapping[str, bytes]) -> bytes:
    """Return a ``.zmetadata`` of these documents by their path, sorted.

    Sorted because zarr-python needs the keys of one group to be neighbours.  The documents are
    compact JSON already, so they are joined as text: the cost stays small for many properties.
    """
    lines = ",\n".join(
        f"        {json.dumps(path)}: {documents[path].decode()}" for path in sorted(documents)
    )
    return (
        f'{{\n    "metadata": {{\n{lines}\n    }},\n    "zarr_consolidated_format": 1\n}}'.encode()
    )


def _document(snapshot: Snapshot, path: str) -> bytes | None:
    """Return a document to be consolidated; None if it is missing or cannot be used."""
    try:
        return compact(read_document(snapshot, path, what=path))
    except (FormatError, ReadOnlyError):
        return None


def _malformed(what: str, error: Exception) -> CorruptDataError:
    return CorruptDataError(f"{what}: {ARRAY_FILE} is incomplete or malformed ({error!r})")


def _order(value: Any) -> str:
    if value not in ("C", "F"):
        raise ValueError(f"order {shown(value)}")
    return str(value)


def _filters(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise TypeError(f"filters {shown(value)}")
    return value


def _split(
    compressor: dict[str, Any] | None, filters: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return what is undone within bounds, in this order, and the filters that are left."""
    if compressor is not None and not is_bounded(compressor):
        return [], [*filters, compressor]
    compressions = [] if compressor is None else [compressor]
    left = list(filters)
    while left and is_bounded(left[-1]):
        compressions.append(left.pop())
    return compressions, left


def _check_codecs(codecs: list[Any], *, what: str) -> None:
    """Raise unless these are codecs that may be tried; the first is the compressor, or None."""
    for number, codec in enumerate(codecs):
        if codec is None and number == 0:
            continue
        if not isinstance(codec, dict) or not isinstance(codec.get("id"), str):
            raise CorruptDataError(
                f"{what}: {ARRAY_FILE} has a codec without an id: {shown(codec)}"
            )
        if codec["id"] == "pickle":
            raise UnsupportedDataError(
                f"{what}: the array holds pickled Python objects, which can run any program when "
                "loaded; they are never read. Rewrite it as numbers or strings"
            )


def _storage_type(dtype: Any, filters: list[Any], *, what: str) -> StorageType:
    if dtype == "|O":
        if filters and filters[0]["id"] == "vlen-utf8":
            return StorageType.STRING
        used = ", ".join(codec["id"] for codec in filters) or "none"
        raise UnsupportedDataError(
            f"{what}: the array holds Python objects with filters {used[:_MAX_NAMES]}; "
            "only vlen-utf8 strings are read"
        )
    found = None
    if isinstance(dtype, str) and _DTYPE.fullmatch(dtype):
        with suppress(TypeError, ValueError):
            found = StorageType.from_numpy(np.dtype(dtype))
    if found is None:
        raise UnsupportedDataError(
            f"{what}: the array has dtype {shown(dtype)}; Daf has Bool, Int8 to Int64, UInt8 to "
            "UInt64, Float32, Float64 and strings"
        )
    return found
