"""Tests of chunks decoded without zarr-python: the same values, what is left to it, and what is broken."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pyarrow as pa
import pytest
import zarr
from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, ZstdCodec

from daf_query import DafSession, UnreadableVectorWarning, connect, zarr_table
from daf_query.scan import cast_to
from daf_storage import errors
from daf_storage.base import decode_vlen_bytes
from daf_storage.trees import ZarrVersion
from tests import seams
from tests.query.table.zarr_groups import BYTES, TEXT, age, archived, objects
from tests.support import edited_json, recorded_calls
from tests.test_untrusted_files import BOMBS, in_time, put_pipe

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
    group.create_array("other", data=data, chunks=(3,), compressors=numcodecs.Base64())
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


# Tables of which one array is broken: it takes itself only, and never hangs


N = 20


def made(path: Path, version: ZarrVersion = 3) -> Path:
    """Store a table of four columns in chunks of five rows."""
    meta = zarr.open_group(path, mode="w", zarr_format=version).create_group("meta")
    meta.create_array("good", data=np.arange(N), chunks=(5,))
    meta.create_array("bad", data=np.arange(N), chunks=(5,))
    text = meta.create_array("text", shape=(N,), dtype=TEXT, chunks=(5,))
    text[:] = objects(f"scene {n}" for n in range(N))
    meta.create_array("other", data=np.arange(N) / 2, chunks=(N,), compressors=None)
    return path


def edit(path: Path, file: str = "zarr.json", **changes: Any) -> None:
    """Change the metadata of an array."""
    with edited_json(path / file) as document:
        document.update(changes)


def regular(rows: int) -> dict[str, Any]:
    """Return a chunk grid."""
    return {"name": "regular", "configuration": {"chunk_shape": [rows]}}


BROKEN: dict[str, Callable[[Path], Any]] = {
    "no JSON": lambda p: (p / "zarr.json").write_text("{"),
    "deep JSON": lambda p: (p / "zarr.json").write_text("[" * 100_000),
    "a list": lambda p: (p / "zarr.json").write_text("[]"),
    "large": lambda p: (p / "zarr.json").write_text(
        (p / "zarr.json").read_text() + " " * (1 << 24)
    ),
    "a pipe": lambda p: put_pipe(p / "zarr.json"),
    "complex": lambda p: edit(p, data_type="complex64", fill_value=[0, 0]),
    "wider complex": lambda p: edit(p, data_type="complex128", fill_value=[0, 0]),
    "complex of v2": lambda p: edit(p, ".zarray", dtype="<c8"),
    "wider complex of v2": lambda p: edit(p, ".zarray", dtype="<c16"),
    "unknown type": lambda p: edit(p, data_type="int1024"),
    "codecs": lambda p: edit(p, codecs=[1.5]),
    "rows": lambda p: edit(p, shape=[2**62], chunk_grid=regular(2**62)),
    "chunks": lambda p: edit(p, chunk_grid=regular(10**12)),
}


@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
@pytest.mark.parametrize("form", ["directory", "archive"])
@pytest.mark.parametrize("damage", BROKEN)
def test_one_broken_column(tmp_path: Path, damage: str, form: str) -> None:
    """The table lacks it, with one warning; asked for by name, the reason is an error."""
    path = made(tmp_path / "x.zarr", 2 if damage.endswith("v2") else 3)
    if form == "archive" and damage in ("a pipe", "large"):
        pytest.skip("of directories alone")
    BROKEN[damage](path / "meta/bad")
    path = archived(path) if form == "archive" else path
    message = "lacks the column 'bad': .*meta/bad"
    with pytest.warns(UnreadableVectorWarning, match=message) as warned:
        table = in_time(lambda: zarr_table(path))
    assert len(warned) == 1
    assert set(table.schema.names) == {"good", "text", "other"}
    with pytest.warns(UnreadableVectorWarning, match="'bad'"):
        session = connect(path)
    found = session.sql("SELECT * FROM meta WHERE good > 17").to_pydict()
    assert found == {"good": [18, 19], "other": [9.0, 9.5], "text": ["scene 18", "scene 19"]}
    with pytest.raises(errors.UnsupportedDataError, match="meta/bad"):
        session.sql("SELECT bad FROM meta")
    with pytest.raises(errors.UnsupportedDataError, match="meta/bad"):
        table.to_table(columns=["bad"])


def test_the_most_rows_that_are_believed(tmp_path: Path) -> None:
    """2^40 are; one more is no column."""
    path = made(tmp_path / "x.zarr")
    for name in ("good", "text", "other"):
        shutil.rmtree(path / "meta" / name)
    edit(path / "meta/bad", shape=[1 << 40])
    assert zarr_table(path).table_columns.length == 1 << 40
    edit(path / "meta/bad", shape=[(1 << 40) + 1])
    with pytest.raises(errors.FormatError, match="is said to have 1,099,511,627,777 rows"):
        zarr_table(path)


@pytest.mark.parametrize("form", ["directory", "archive"])
@pytest.mark.parametrize("version", [2, 3])
def test_a_damaged_chunk(tmp_path: Path, version: ZarrVersion, form: str) -> None:
    """It shows when it is decoded; then the table is queried without the column."""
    path = made(tmp_path / "x.zarr", version)
    names = {2: ("bad/1", "text/2"), 3: ("bad/c/1", "text/c/2")}[version]
    for name in names:
        chunk = path / "meta" / name
        chunk.write_bytes(chunk.read_bytes()[:-4])
    session = connect(archived(path) if form == "archive" else path)
    with pytest.warns(UnreadableVectorWarning) as warned:
        found = session.sql("SELECT * FROM meta").to_pydict()
    assert set(found) == {"good", "other"}
    assert {str(one.message).split("'")[3] for one in warned} == {"bad", "text"}
    assert session.sql("SELECT * FROM meta").count() == N
    with pytest.raises(errors.FormatError, match="meta/bad"):
        session.sql("SELECT sum(bad) FROM meta").to_pydict()


@pytest.mark.parametrize("form", ["directory", "archive"])
@pytest.mark.parametrize("codec", ["zstd", "gzip", "blosc", "lz4", "zlib"])
def test_chunks_that_expand(tmp_path: Path, codec: str, form: str) -> None:
    """A chunk of 100 MB where five rows should be is an error, for numbers and for strings."""
    meta = zarr.open_group(tmp_path / "x.zarr", mode="w", zarr_format=2).create_group("meta")
    compressor = numcodecs.get_codec({"id": codec})
    for name, filters in (("n", None), ("d", [numcodecs.Delta(dtype="<i8")])):
        options: Any = {"filters": filters, "compressors": compressor}
        meta.create_array(name, data=np.arange(N), chunks=(5,), **options)
    meta.create_array("other", data=np.arange(N), chunks=(N,))
    bomb = BOMBS[codec](bytes(10**8))
    for name in ("n", "d"):
        (tmp_path / f"x.zarr/meta/{name}/2").write_bytes(bomb)
    path = archived(tmp_path / "x.zarr") if form == "archive" else tmp_path / "x.zarr"
    table = zarr_table(path)
    for name in ("n", "d"):
        with pytest.raises(errors.CorruptDataError, match="cannot be decompressed"):
            table.to_table(columns=[name])
    assert table.readable().to_table().column_names == ["other"]
