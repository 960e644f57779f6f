"""Tests of chunks decoded without zarr-python: the same values, and what is left to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pyarrow as pa
import pytest
import zarr
from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, ZstdCodec

from daf_query import DafSession, connect, zarr_table
from daf_query.scan import cast_to
from daf_storage import errors
from daf_storage.base import decode_vlen_bytes
from daf_storage.trees import ZarrVersion
from tests import seams
from tests.query.table.zarr_groups import BYTES, TEXT, age, objects
from tests.support import recorded_calls

pytestmark = [
    pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning"),
    pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3"),
]

COMPRESSORS: dict[ZarrVersion, list[Any]] = {
    2: [
        None, numcodecs.Zstd(), numcodecs.Blosc(), numcodecs.GZip(), numcodecs.LZ4(),
        numcodecs.Zlib(), numcodecs.BZ2(), numcodecs.LZMA(),
    ],
    3: [None, ZstdCodec(), BloscCodec(), GzipCodec()],
}  # fmt: skip
KINDS = {2: ("?", "<i4", ">i4", "<f8", ">u2"), 3: ("bool", "i1", "u8", "f2", "f8", "M8[us]")}
STRINGS = ["", "é", "日本", "a" * 1000, "x\0y", "end", "seven"]


def check(path: Path) -> None:
    """Compare each column of a group with what zarr-python reads."""
    arrays: Any = dict(zarr.open_group(path, mode="r").arrays())
    expected = {name: array[:].tolist() for name, array in arrays.items()}
    assert zarr_table(path, "").to_table().to_pydict() == expected


@pytest.mark.parametrize(
    ("version", "compressor"),
    [(version, compressor) for version, each in COMPRESSORS.items() for compressor in each],
    ids=lambda one: type(one).__name__,
)
def test_each_compressor(
    tmp_path: Path, version: ZarrVersion, compressor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers of both byte orders, times, strings and bytes, the last chunk shorter."""
    group = zarr.open_group(tmp_path, mode="w", zarr_format=version)
    options: Any = {"chunks": (3,), "compressors": compressor}
    for number, kind in enumerate(KINDS[version]):
        group.create_array(f"n{number}", data=np.arange(7).astype(kind), **options)
    encoded = [text.encode() + b"\xff" for text in STRINGS]
    for name, dtype, values in (("text", TEXT, STRINGS), ("bytes", BYTES, encoded)):
        group.create_array(name, shape=(7,), dtype=dtype, **options)[:] = objects(values)
    monkeypatch.setattr(zarr, "open_array", None)  # zarr-python is not asked
    check(tmp_path)


def test_what_is_left_to_zarr_python(tmp_path: Path) -> None:
    """Other codecs and types, shards, and chunks that are missing; too short ones are damaged."""
    group = zarr.open_group(tmp_path, mode="w", zarr_format=3)
    data = np.arange(6)
    delta = zarr.codecs.numcodecs.Delta(dtype="i8")
    group.create_array("big", data=data, chunks=(3,), serializer=BytesCodec(endian="big"))
    group.create_array("delta", data=data, chunks=(3,), filters=[delta])
    group.create_array("wide", data=np.array([*"abcde", "fg"]), chunks=(2,))
    group.create_array("sharded", data=data, chunks=(2,), shards=(4,))
    group.create_array("empty", shape=(6,), dtype="i8", chunks=(3,))
    check(tmp_path)
    group.create_array("broken", data=data, chunks=(3,), compressors=None)
    (tmp_path / "broken/c/1").write_bytes(b"short")
    with pytest.raises(errors.CorruptDataError, match="broken: .* c/1 is damaged"):
        zarr_table(tmp_path, "").to_table(columns=["broken"])


def test_chunks_that_filters_made_larger_are_read(tmp_path: Path) -> None:
    """Up to 16 times: small numbers that are stored as large ones; without filters, none is."""
    group = zarr.open_group(tmp_path, mode="w", zarr_format=2)
    wide = [numcodecs.AsType(encode_dtype="<f8", decode_dtype="<i1")]
    data = np.arange(6, dtype="i1")
    zlib = numcodecs.Zlib()
    group.create_array("wide", data=data, chunks=(3,), filters=wide, compressors=zlib)
    check(tmp_path)
    group.create_array("large", data=data, chunks=(3,), compressors=zlib)
    (tmp_path / "large/0").write_bytes(zlib.encode(bytes(6)))
    with pytest.raises(errors.CorruptDataError, match="expands to more than the 3 bytes"):
        zarr_table(tmp_path, "").to_table(columns=["large"])


def test_bytes_that_are_broken() -> None:
    """Are the same clear error as for strings."""
    with pytest.raises(errors.CorruptDataError, match="truncated"):
        decode_vlen_bytes(memoryview(b"\x01\0\0\0\x05\0\0\0a"), what="it")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a table of a number and a text in chunks of ten rows, written a while ago."""
    meta = zarr.open_group(tmp_path, mode="w").create_group("meta")
    meta.create_array("x", data=np.arange(100.0), chunks=(10,))
    text = meta.create_array("s", shape=(100,), dtype=TEXT, chunks=(10,))
    text[:] = objects([f"s{i % 7}" for i in range(100)])
    age()
    return tmp_path


def answer(session: DafSession) -> Any:
    """Return the rows of a query on both columns."""
    query = "SELECT x, s FROM meta WHERE s = 's3' AND x > 20 ORDER BY x"
    return session.sql(query).to_pydict()


def test_chunks_are_remembered_while_their_files_are_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one that was replaced is decoded again, whoever did so."""
    decoded = recorded_calls(
        monkeypatch, seams.ZARR_CHUNK_DECODED, lambda *call: call[2].start // 10
    )
    session = connect(zarr_table(path))
    first = answer(session)
    assert first["x"] == [float(i) for i in range(21, 100) if i % 7 == 3]
    assert sorted(set(decoded)) == list(range(10))
    assert len(decoded) == 20
    decoded.clear()
    assert answer(session) == first
    assert decoded == []
    x: Any = zarr.open_array(path / "meta/x", mode="r+")
    x[30:40] = -1.0
    assert answer(session)["x"] == [x for x in first["x"] if not 30 <= x < 40]
    age()
    decoded.clear()
    assert answer(session)["x"] == [x for x in first["x"] if not 30 <= x < 40]
    assert 3 in decoded
    assert session.cached_bytes > 0


def test_very_new_files_are_not_remembered(path: Path) -> None:
    """They may change again within the resolution of their times; no old zone map hides new values."""
    session = connect(zarr_table(path))
    x: Any = zarr.open_array(path / "meta/x", mode="r+")
    for value, count in ((50.0, 14), (0.0, 0), (51.0, 14)):
        x[:] = np.full(100, value)
        assert answer(session)["x"] == [value] * count


def test_views_of_short_strings_have_all_buffers(path: Path) -> None:
    """Some versions of pyarrow leave one out, which crashes engines; also for bytes and none."""
    table = zarr_table(path).to_table(columns=["s"])
    for chunk in table["s"].chunks:
        assert all(one is not None for one in chunk.buffers()[2:])
    for kind, values in (
        (pa.string_view(), ["a", ""]),
        (pa.binary_view(), [b"x"]),
        (pa.string_view(), []),
    ):
        plain = pa.array(values, pa.string() if kind == pa.string_view() else pa.binary())
        found = cast_to(plain, kind)
        assert found.to_pylist() == values
        assert all(one is not None for one in found.buffers()[2:])
