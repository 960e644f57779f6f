"""Tests of metadata in which anything may stand anywhere: errors of ours, of the one array."""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Iterator
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest

from daf_storage import errors
from daf_storage.stores import DirectoryStore, MemoryStore
from daf_storage.trees import FORMATS, ArrayMetadata, ZarrFormat, ZarrVersion, _metadata
from daf_storage.trees._metadata import MAX_DOCUMENT_BYTES, read_document
from tests.support import there

MISSING = object()
REPLACEMENTS: list[Any] = [
    None, 5, 1.5, "x", [], {}, [None], -1, 2**70, True, "x" * 300, [[]], {"id": 1}, 2**62, "<f4",
]  # fmt: skip

V2: list[dict[str, Any]] = [
    {
        "zarr_format": 2, "shape": [3, 4], "chunks": [2, 4], "dtype": "<i8", "fill_value": 0,
        "order": "C", "compressor": {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 1},
        "filters": [{"id": "delta", "dtype": "<i8"}], "dimension_separator": "/",
    },
    {
        "zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "|O", "fill_value": "",
        "order": "C", "compressor": None, "filters": [{"id": "vlen-utf8"}],
    },
    {
        "zarr_format": 2, "shape": [3], "chunks": [2], "dtype": "<U3", "fill_value": "",
        "order": "C", "compressor": {"id": "gzip", "level": 1}, "filters": None,
    },
]  # fmt: skip

_LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
_GRID = {"name": "regular", "configuration": {"chunk_shape": [2]}}
_KEYS = {"name": "default", "configuration": {"separator": "/"}}
V3: list[dict[str, Any]] = [
    {
        "zarr_format": 3, "node_type": "array", "shape": [3], "data_type": "float64",
        "chunk_grid": _GRID, "chunk_key_encoding": _KEYS, "fill_value": "NaN", "attributes": {},
        "codecs": [_LITTLE, {"name": "gzip", "configuration": {"level": 5}}],
    },
    {
        "zarr_format": 3, "node_type": "array", "shape": [3], "data_type": "string",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "chunk_key_encoding": _KEYS, "fill_value": "", "storage_transformers": [],
        "codecs": [{
            "name": "sharding_indexed",
            "configuration": {
                "chunk_shape": [2],
                "codecs": [{"name": "vlen-utf8"}, {"name": "zstd", "configuration": {"level": 1}}],
                "index_codecs": [_LITTLE, {"name": "crc32c"}], "index_location": "start",
            },
        }],
    },
    {
        "zarr_format": 3, "node_type": "array", "shape": [3], "chunk_key_encoding": _KEYS,
        "data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 12}},
        "chunk_grid": _GRID, "fill_value": "", "codecs": [_LITTLE],
    },
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each node of a JSON document, the document itself too."""
    yield path
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(child, (*path, key))


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return a document with something else at one of its nodes, or without it."""
    if not path:
        return value
    found = copy.deepcopy(document)
    at = reduce(getitem, path[:-1], found)
    at[path[-1]] = value
    if value is MISSING:
        del at[path[-1]]
    return found


def variants(document: Any) -> Iterator[Any]:
    """Yield a document with each of its nodes missing, or with anything else in its place."""
    for path in places(document):
        for value in (*REPLACEMENTS, *[MISSING][: len(path)]):
            yield replaced(document, path, value)


def parsed(documents: ZarrFormat, data: bytes) -> ArrayMetadata | None:
    """Return what the metadata of an array say."""
    store = MemoryStore()
    name = ".zarray" if documents.version == 2 else "zarr.json"
    store.change([], {f"x/{name}": memoryview(data)})
    snapshot = there(store.snapshot(""))
    documents.kind(snapshot, "x")
    return documents.array(snapshot, "x", what="here: x")


def refusal(documents: ZarrFormat, data: bytes) -> str | None:
    """Return the message with which metadata are refused; None if they can be used."""
    try:
        found = parsed(documents, data)
    except errors.FormatError as error:
        return str(error)
    if found is not None:
        assert len(found.chunk_key((0,) * len(found.info.shape))) < 80, data
        assert all(type(n) is int and n > 0 for n in found.info.chunks), data
        assert isinstance(found.info.is_mappable, bool)
    return None


@pytest.mark.parametrize("version", [2, 3])
def test_any_value_at_any_place(version: ZarrVersion) -> None:
    """What is parsed is used without harm; the rest is an error of ours, in a short sentence."""
    documents = FORMATS[version]
    count = refused = 0
    started = time.monotonic()
    for document in V2 if version == 2 else V3:
        assert parsed(documents, json.dumps(document).encode()) is not None
        for variant in variants(document):
            count += 1
            message = refusal(documents, json.dumps(variant).encode())
            if message is not None:
                refused += 1
                assert message.startswith("here: x"), variant
                assert len(message) < 500, variant
    assert count > 300
    assert refused > count / 2
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("version", [2, 3])
def test_documents_that_are_deep_or_large(version: ZarrVersion) -> None:
    """Nesting of any depth and documents of any size are errors, not crashes."""
    documents = FORMATS[version]
    document = (V2 if version == 2 else V3)[0]
    for depth in (50, 900, 5000, 200_000):
        deep = b"[" * depth + b"]" * depth
        for name in ("dtype", "data_type", "codecs", "filters", "fill_value", "attributes"):
            text = json.dumps({**document, name: "HERE"}).encode().replace(b'"HERE"', deep)
            assert len(refusal(documents, text) or "") < 500
    padded = json.dumps(document).encode() + b" " * MAX_DOCUMENT_BYTES
    with pytest.raises(errors.CorruptDataError, match="metadata have no more than"):
        parsed(documents, padded)


_FIRST = ("codecs", 0, "configuration")


def _transposed(order: Any) -> list[dict[str, Any]]:
    """Return codecs that change the order of dimensions."""
    return [{"name": "transpose", "configuration": {"order": order}}, _LITTLE]


@pytest.mark.parametrize(
    ("document", "path", "value", "message"),
    [
        (V2[0], ("chunks",), [2], "differ in length"),
        (V2[0], ("chunks",), [0, 4], "are empty, and the shape"),
        (V2[0], ("shape",), [2**40, 2**40], "more elements than any memory holds"),
        (V2[0], ("zarr_format",), 3, "of Zarr format 3, not 2"),
        (V2[0], ("order",), "A", "order 'A'"),
        (V2[2], ("dtype",), "<U9999999", "each element has 39,999,996 bytes"),
        (V3[0], ("codecs",), _transposed([1]), "order .1."),
        (V3[0], ("codecs",), _transposed("A"), "lengths 'A'"),
        (V3[0], ("codecs", 0, "name"), "crc32c", "'bytes' is needed"),
        (V3[0], (*_FIRST, "endian"), "middle", "the order of its bytes is 'middle'"),
        (V3[1], ("chunk_grid", "configuration", "chunk_shape"), [1], "chunks .2. in files of .1."),
        (V3[1], (*_FIRST, "index_location"), "middle", "index_location 'middle'"),
        (V3[1], (*_FIRST, "index_codecs"), [{"name": "gzip"}], "only an index of plain numbers"),
    ],
)
def test_parts_that_contradict_each_other(
    document: dict[str, Any], path: tuple[Any, ...], value: Any, message: str
) -> None:
    """The message says which."""
    changed = json.dumps(replaced(document, path, value)).encode()
    assert re.search(message, refusal(FORMATS[document["zarr_format"]], changed) or "")


@pytest.mark.parametrize(
    ("fill", "dtype"),
    [
        (300, "|u1"),
        (-1, "<u4"),
        (1.5, "<i4"),
        ("x", "<f4"),
        (2, "|b1"),
        (2**70, "<i8"),
        ([], "<f8"),
    ],
)
def test_fill_values_of_another_type(fill: Any, dtype: str) -> None:
    """Any other is an error, and never wraps into the type."""
    document = {**V2[0], "dtype": dtype, "fill_value": fill, "filters": None}
    with pytest.raises(errors.CorruptDataError, match="fill_value"):
        parsed(FORMATS[2], json.dumps(document).encode())


@pytest.mark.parametrize(
    ("document", "chunks"),
    [(V2[0], ("chunks",)), (V3[0], ("chunk_grid", "configuration", "chunk_shape"))],
)
def test_chunks_that_are_larger_than_any_array(
    document: dict[str, Any], chunks: tuple[str, ...]
) -> None:
    """A chunk of 10 GB for an array of 5 entries is refused before anything is read."""
    large = json.dumps(replaced({**document, "shape": [5]}, chunks, [10**10])).encode()
    with pytest.raises(errors.UnsupportedDataError, match="the whole array of shape"):
        parsed(FORMATS[document["zarr_format"]], large)


def test_documents_of_the_longest_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit itself is read, and one byte more is not; what is consolidated has its own."""
    (tmp_path / "a").mkdir()
    for name in ("a/.zarray", ".zmetadata"):
        (tmp_path / name).write_bytes(b"1234")
    snapshot = there(DirectoryStore(tmp_path).snapshot(""))
    for limit, name in (
        ("MAX_DOCUMENT_BYTES", "a/.zarray"),
        ("MAX_CONSOLIDATED_BYTES", ".zmetadata"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(_metadata, limit, 4)
            assert read_document(snapshot, name, what="a") == b"1234"
            patch.setattr(_metadata, limit, 3)
            with pytest.raises(errors.CorruptDataError, match="has 4 bytes"):
                read_document(snapshot, name, what="a")
