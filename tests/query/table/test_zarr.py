"""Tests of groups of Zarr arrays as tables: types, chunks, spatial indexes, and appending."""

from __future__ import annotations

import datetime as dt
import shutil
import traceback
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import zarr
from zarr.core.dtype import RawBytes

from daf_query import append_rows, build_spatial_index, connect, zarr_table
from daf_query.cli import main
from daf_query.scan import ScanOptions
from daf_storage import errors
from tests import seams
from tests.query.table.zarr_groups import (
    BYTES,
    TEXT,
    archived,
    objects,
    squares,
    store_of,
    with_geometry,
)
from tests.support import recorded_calls

pytest.importorskip("geodatafusion")
rtree = pytest.importorskip("geoindex_rs.rtree")

pytestmark = [
    # The table of the tests has columns of complex numbers, and opening it is a warning.
    pytest.mark.filterwarnings("ignore:the table 'meta' lacks the column 'complex"),
    pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning"),
]

N = 100
INTEGERS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
NUMBERS = ["bool", *INTEGERS, "float16", "float32", "float64"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store with a column of each type, in chunks of ten rows."""
    path = tmp_path / "scenes.zarr"
    meta = zarr.open_group(path, mode="w", zarr_format=3).create_group("meta")
    for kind in (*NUMBERS, "complex64", "complex128"):
        meta.create_array(kind, data=(np.arange(N) % 120).astype(kind), chunks=(10,))
    for unit in ("s", "ms", "us", "ns"):
        meta.create_array(f"time {unit}", data=np.arange(N).astype(f"M8[{unit}]"), chunks=(10,))
    for name, dtype, values in (
        ("bbox", BYTES, squares(((i, i) for i in range(N)), 0.5)),
        ("blob", BYTES, [b"\x00" * (i % 3) for i in range(N)]),
        ("id", TEXT, [f"scene {i} é" for i in range(N)]),
    ):
        meta.create_array(name, shape=(N,), dtype=dtype, chunks=(10,))[:] = objects(values)
    meta.create_array("raw", shape=(N,), dtype=RawBytes(length=2), chunks=(10,))[:] = np.array(
        [bytes([i, 7]) for i in range(N)], dtype="V2"
    )
    return path


def recorded_chunks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Record which chunks of which arrays are decoded."""

    def chunk(self: Any, _: str, span: Any) -> tuple[str, int]:
        return self._column.field.name, span.start // self._column.chunk_rows

    return recorded_calls(monkeypatch, seams.ZARR_CHUNK_DECODED, chunk)


def test_every_type(store: Path) -> None:
    """As the table of the convention has it; complex numbers are refused by name."""
    table = zarr_table(store)
    types = {field.name: field.type for field in table.schema}
    assert [types[kind] for kind in NUMBERS] == [pa.type_for_alias(kind) for kind in NUMBERS]
    for unit in ("s", "ms", "us", "ns"):
        assert types[f"time {unit}"] == pa.timestamp(unit)
    assert types["id"] == pa.string_view()
    assert types["raw"] == types["blob"] == types["bbox"] == pa.binary_view()
    bbox = table.schema.field("bbox").metadata
    assert bbox[b"ARROW:extension:name"] == b"geoarrow.wkb"
    assert b'"EPSG:4326"' in bbox[b"ARROW:extension:metadata"]
    assert table.schema.field("blob").metadata is None
    assert set(table.table_columns.problems) == {"complex64", "complex128"}
    message = "meta/complex64 has complex64.*other columns can be used"
    with pytest.raises(errors.UnsupportedDataError, match=message):
        table.to_table(columns=["complex64"])
    found = table.to_table()
    assert found.schema == table.schema
    row = found.slice(7, 1).to_pylist()[0]
    assert row["id"] == "scene 7 é"
    assert (row["raw"], row["blob"], row["bbox"]) == (b"\x07\x07", b"\x00", *squares([(7, 7)], 0.5))
    assert (row["uint64"], row["float16"], row["bool"]) == (7, 7.0, True)
    assert row["time ms"] == dt.datetime(1970, 1, 1, 0, 0, 0, 7000)  # noqa: DTZ001 - as stored


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_queries_equal_numpy(tmp_path: Path, zarr_format: Any) -> None:
    """Filters over every kind, in both versions of Zarr, as a directory, an archive, and through three engines."""
    meta = zarr.open_group(tmp_path / "x.zarr", mode="w", zarr_format=zarr_format).create_group(
        "meta"
    )
    rng = np.random.default_rng(0)
    cloud = rng.random(1000).astype("f4")
    day = rng.integers(0, 1000, 1000).astype("M8[s]")
    cloud[::7], day[::5] = np.nan, np.datetime64("NaT")  # they are NULL
    name = objects([f"n{i % 7}" for i in range(1000)])
    meta.create_array("cloud", data=cloud, chunks=(64,))
    meta.create_array("day", data=day, chunks=(64,))
    meta.create_array("name", shape=(1000,), dtype=TEXT, chunks=(64,))[:] = name
    mask = (cloud > 0.5) & (name == "n3") & (day < np.datetime64(700, "s"))
    for path in (tmp_path / "x.zarr", archived(tmp_path / "x.zarr")):
        table = zarr_table(path)
        query = "SELECT count(*) AS n FROM meta WHERE cloud > 0.5 AND name = 'n3' AND day < '1970-01-01T00:11:40'"
        found = connect(table).sql(query)
        assert found.to_pydict() == {"n": [int(mask.sum())]}
        query = "SELECT count(*) - count(cloud) AS c, count(*) - count(day) AS d FROM meta WHERE cloud IS NULL OR day IS NULL"
        assert connect(table).sql(query).to_pydict() == {"c": [143], "d": [200]}
        only_name = pc.field("name") == "n3"
        assert table.count_rows(only_name) == int((name == "n3").sum())
        scenes = table  # DuckDB finds it by this name
        by_duckdb = duckdb.sql("SELECT count(*) FROM scenes WHERE name = 'n3'").fetchall()
        assert by_duckdb == [(scenes.count_rows(only_name),)]
        lazy = pl.scan_pyarrow_dataset(table).filter(pl.col("name") == "n3").select("name")
        assert lazy.collect().height == int((name == "n3").sum())


def test_only_the_chunks_that_are_needed(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter's column is decoded once, the others only where rows are left; counting decodes nothing."""
    session = connect(zarr_table(store))
    chunks = recorded_chunks(monkeypatch)
    assert session.sql("SELECT count(*) AS n FROM meta").to_pydict() == {"n": [N]}
    assert chunks == []
    found = session.sql("SELECT id, blob FROM meta WHERE int32 = 42").to_pydict()
    assert found == {"id": ["scene 42 é"], "blob": [b""]}
    assert sorted(chunks) == [("blob", 4), ("id", 4), *(("int32", n) for n in range(10))]


def test_the_seeds_own_flow(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Index with geoindex-rs, query with geodatafusion: the same rows, of fewer chunks."""
    queries = [
        "SELECT id FROM meta WHERE ST_Intersects(bbox, ST_GeomFromText('POLYGON((0 0,3 0,3 3,0 3,0 0))')) ORDER BY id",
        "SELECT id FROM meta WHERE ST_Within(bbox, ST_GeomFromText('POLYGON((10 10,22.7 10,22.7 22.7,10 22.7,10 10))')) AND int32 > 15 ORDER BY id",
        "SELECT m.id FROM meta AS m WHERE ST_Contains(bbox, ST_GeomFromText('POINT(50.2 50.3)'))",
        "SELECT count(*) AS n FROM meta WHERE ST_Intersects(ST_GeomFromText('POINT(200 200)'), bbox)",
        "SELECT count(*) AS n FROM meta WHERE ST_Intersects(bbox, ST_GeomFromText('POINT(5.1 5.1)')) OR int32 = 9",
        "SELECT count(*) AS n FROM meta WHERE NOT ST_Intersects(bbox, ST_GeomFromText('POINT(5.1 5.1)'))",
        "SELECT count(*) AS n FROM meta WHERE ST_Disjoint(bbox, ST_GeomFromText('POINT(5.1 5.1)'))",
        "SELECT count(*) AS n FROM meta AS a JOIN meta AS b ON a.int32 = b.int32 WHERE ST_Intersects(a.bbox, ST_GeomFromText('POINT(5.1 5.1)'))",
        "SELECT count(*) AS n FROM meta WHERE ST_Intersects(bbox, ST_GeomFromText('POLYGON EMPTY'))",
        "SELECT id, (SELECT count(id) FROM meta) AS n FROM meta WHERE ST_Intersects(bbox, ST_GeomFromText('POINT(5.1 5.1)'))",
        "SELECT id FROM meta WHERE ST_Intersects(bbox, ST_GeomFromText('POINT(5.1 5.1)')) AND int32 < (SELECT max(int32) FROM meta)",
        "SELECT id FROM meta AS m WHERE ST_Intersects(bbox, ST_GeomFromText('POINT(5.1 5.1)')) AND EXISTS (SELECT 1 FROM meta AS k WHERE k.int32 = m.int32 + 50)",
    ]
    plain = with_geometry(store)
    expected = [plain.sql(query).to_pydict() for query in queries]
    builder = rtree.RTreeBuilder(num_items=N)
    low = np.arange(float(N))
    builder.add(low, low, low + 0.5, low + 0.5)
    buffer = np.frombuffer(builder.finish(), dtype=np.uint8)
    zarr.open_group(store, mode="r+").create_group("indexes").create_array("bbox", data=buffer)
    indexed = with_geometry(store)
    assert [indexed.sql(query).to_pydict() for query in queries] == expected
    assert expected[0] == {"id": ["scene 0 é", "scene 1 é", "scene 2 é", "scene 3 é"]}
    chunks = recorded_chunks(monkeypatch)
    indexed = with_geometry(store)  # remembers nothing yet
    indexed.sql(queries[0]).to_pydict()
    assert sorted(set(chunks)) == [("bbox", 0), ("id", 0)]
    chunks.clear()
    indexed.sql(queries[3]).to_pydict()
    assert chunks == []
    shutil.rmtree(store / "indexes")
    plain = with_geometry(store)
    plain.sql(queries[0]).to_pydict()
    assert len(set(chunks)) == 20  # the engine evaluates the condition, on all rows


def test_appending(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All arrays or none: an error gives them back their length, and so does the next call after a crash."""
    for name in ("complex64", "complex128"):
        shutil.rmtree(store / "meta" / name)
    before = zarr_table(store).to_table()
    group: Any = zarr.open_group(store, mode="r")
    rows = {name: group[f"meta/{name}"][:3] for name in before.column_names}
    real = zarr.Array.resize
    done: list[int] = []

    def fail(self: Any, shape: Any) -> None:
        if shape[0] > N:
            done.append(1)
            if len(done) == 5:
                raise RuntimeError
        real(self, shape)

    with monkeypatch.context() as patch:
        patch.setattr(zarr.Array, "resize", fail)
        with pytest.raises(RuntimeError):
            append_rows(store, rows)
        assert zarr_table(store).to_table().equals(before)
        done.clear()
        patch.setattr(seams.RECOVER, lambda _: None)
        with pytest.raises(RuntimeError):
            append_rows(store, rows)
    with pytest.raises(errors.FormatError, match=r"different lengths \(.*: 103, .*: 100"):
        zarr_table(store)
    assert append_rows(store, rows) == N + 3
    after = zarr_table(store).to_table()
    assert after.slice(0, N).equals(before)
    assert after.slice(N).equals(before.slice(0, 3))


def test_an_index_of_many_parts_is_in_the_order_of_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many partitions, each row still finds its own box."""
    options = ScanOptions(min_partition_rows=50, partition_rows=50, threads=4)
    monkeypatch.setattr(seams.ZARR_TABLE, lambda *args: zarr_table(*args).with_options(options))
    count = 2_000
    store_of(tmp_path, squares(((i, i) for i in range(count)), 0.5), 50)
    assert build_spatial_index(tmp_path) == count
    index: Any = zarr.open_array(tmp_path / "indexes/bbox", mode="r")
    for row in range(0, count, 37):
        found = np.asarray(rtree.search(index[:], row + 0.1, row + 0.1, row + 0.2, row + 0.2))
        assert found.tolist() == [row]


@pytest.mark.parametrize("dtype", [TEXT, "U3", "S3"])
def test_strings_are_appended_as_they_are(tmp_path: Path, dtype: Any) -> None:
    """One that is longer than the array has room for is an error, and so is what is none."""
    meta = zarr.open_group(tmp_path, mode="w").create_group("meta")
    meta.create_array("x", shape=(0,), dtype=dtype, chunks=(10,))
    wrong: dict[Any, list[Any]] = {"S3": [b"abcd"], "U3": [None, 5, "abcd"]}
    for value in wrong.get(dtype, [None, 5]):
        with pytest.raises(errors.UnsupportedInputError, match="string"):
            append_rows(tmp_path, {"x": [value]})
    assert append_rows(tmp_path, {"x": []}) == 0
    values = [b"abc", b""] if dtype == "S3" else ["abc", ""]
    assert append_rows(tmp_path, {"x": values}) == 2
    assert zarr_table(tmp_path).to_table().to_pydict() == {"x": values}


def test_an_append_that_was_interrupted_is_told(tmp_path: Path) -> None:
    """Arrays may be aligned and lack values; what others added since is never taken away."""
    meta = zarr.open_group(tmp_path, mode="w").create_group("meta")
    meta.create_array("x", data=np.arange(5), chunks=(10,)).resize((7,))
    meta.attrs["daf_append"] = [5, 7]
    with pytest.raises(errors.FormatError, match="may lack values"):
        zarr_table(tmp_path)
    assert append_rows(tmp_path, {"x": [8]}) == 6
    assert zarr_table(tmp_path).to_table().to_pydict() == {"x": [0, 1, 2, 3, 4, 8]}
    meta.attrs["daf_append"] = [5, 7]
    with pytest.raises(errors.FormatError, match="another program has changed them"):
        append_rows(tmp_path, {"x": [9]})
    assert meta["x"].shape == (6,)  # type: ignore[union-attr]


def test_secrets_of_a_url_are_in_no_message() -> None:
    """Not in the message and not in what it was raised from."""
    pytest.importorskip("obstore")
    word = "hid" + "den"  # a traceback shows this line too
    message = "127.0.0.1:1/x.zarr/.zmetadata: the server"
    with pytest.raises(errors.RemoteError, match=message) as caught:
        zarr_table(f"http://me:{word}@127.0.0.1:1/x.zarr?token={word}")
    assert word not in "".join(traceback.format_exception(caught.value))


def test_the_index_on_the_command_line(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``daf index STORE GROUP`` builds the R-tree."""
    assert main(["index", str(store), "meta"]) == 0
    assert f"indexed bbox of 100 rows of meta of {store}" in capsys.readouterr().out
    assert zarr_table(store).rtree("bbox") is not None


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_path_is_a_table(
    tmp_path: Path, zarr_format: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a directory or an archive with the group ``meta``; also on the command line."""
    path = tmp_path / "scenes.zarr"
    meta = zarr.open_group(path, mode="w", zarr_format=zarr_format).create_group("meta")
    meta.create_array("x", data=np.arange(5.0), chunks=(2,))
    for source in (path, archived(path)):
        assert connect(source).sql("SELECT count(*) AS n FROM meta").to_pydict() == {"n": [5]}
        session = connect({"one": source})
        assert session.sql("SELECT max(x) AS m FROM one").to_pydict() == {"m": [4.0]}
        session.register(source)
        assert session.tables() == ["meta", "one"]
        assert main(["sql", str(source), "SELECT x FROM meta WHERE x > 3", "--format", "csv"]) == 0
        assert capsys.readouterr().out == '"x"\n4\n'


def test_a_table_without_rows(tmp_path: Path) -> None:
    """Has no index, and no rows within a polygon."""
    meta = zarr.open_group(tmp_path / "s.zarr", mode="w").create_group("meta")
    meta.create_array("bbox", shape=(0,), dtype=BYTES, chunks=(10,))
    assert build_spatial_index(tmp_path / "s.zarr") == 0
    session = with_geometry(tmp_path / "s.zarr")
    query = (
        "SELECT count(*) AS n FROM meta WHERE ST_Intersects(bbox, ST_GeomFromText('POINT(1 1)'))"
    )
    assert session.sql(query).to_pydict() == {"n": [0]}
