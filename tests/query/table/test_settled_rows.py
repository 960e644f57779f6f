"""Tests of geometries that are not decoded, since the index alone tells that a condition is true."""

from __future__ import annotations

import json
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datafusion
import numpy as np
import pytest
import zarr
from zarr.core.dtype import VariableLengthBytes

from daf_query import DafSession, QueryResult, append_rows, build_spatial_index, connect, zarr_table
from daf_query.index import RTree
from tests.query.table.test_zarr import recorded_chunks

geodatafusion = pytest.importorskip("geodatafusion")
rtree = pytest.importorskip("geoindex_rs.rtree")

pytestmark = [pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")]

N = 240
CHUNK = 8
SETTLED_SECONDS = 0.15
NAN = float("nan")
BINARY: Any = VariableLengthBytes()


def point(x: float, y: float) -> bytes:
    """Return a point as WKB."""
    return struct.pack("<BI2d", 1, 1, x, y)


def line(*corners: tuple[float, float]) -> bytes:
    """Return a line as WKB."""
    return struct.pack("<BII", 1, 2, len(corners)) + b"".join(
        struct.pack("<2d", *one) for one in corners
    )


def polygon(*rings: list[tuple[float, float]]) -> bytes:
    """Return a polygon as WKB."""
    parts = [
        struct.pack("<I", len(ring)) + b"".join(struct.pack("<2d", *p) for p in ring)
        for ring in rings
    ]
    return struct.pack("<BII", 1, 3, len(rings)) + b"".join(parts)


def several(kind: int, *parts: bytes) -> bytes:
    """Return several geometries as one: 4 of points, 7 of any."""
    return struct.pack("<BII", 1, kind, len(parts)) + b"".join(parts)


def box(x: float, y: float, width: float, height: float) -> list[tuple[float, float]]:
    """Return the ring of a rectangle."""
    return [(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)]


def random_geometry(rng: np.random.Generator) -> bytes:
    """Return a geometry of any kind, on a grid, so that many of them touch each other."""
    x, y, size = (float(one) for one in (*rng.integers(0, 20, 2), rng.integers(1, 5)))
    made = [
        lambda: point(x, y),
        lambda: line((x, y), (x + size, y + 1)),
        lambda: polygon(box(x, y, size, size)),
        lambda: polygon([(x, y), (x + size, y), (x, y + size), (x, y)]),
        lambda: polygon(box(x, y, 4, 4), box(x + 1, y + 1, 1, 2)),
        lambda: several(4, point(x, y), point(x + size, y)),
        lambda: several(7, point(x, y), line((x, y), (x + 1, y + size))),
        polygon,
        lambda: several(7, point(x, y), polygon()),
    ]
    return made[rng.integers(len(made))]()


def store_of(path: Path, geometries: list[bytes]) -> Path:
    """Store geometries and their numbers, with an index; its files are old enough to be known."""
    meta = zarr.open_group(path, mode="w", zarr_format=3).create_group("meta")
    count = len(geometries)
    values = np.array([*geometries, None], object)[:-1]
    meta.create_array("bbox", shape=(count,), dtype=BINARY, chunks=(CHUNK,))[:] = values
    meta.create_array("n", data=np.arange(count), chunks=(CHUNK,))
    build_spatial_index(path)
    time.sleep(SETTLED_SECONDS)
    return path


def session_of(path: Path) -> DafSession:
    """Return a session that knows functions of geometries."""
    session = connect(zarr_table(path))
    geodatafusion.register_all(session.context)
    return session


def without_index(path: Path) -> DafSession:
    """Return a session over a copy that has no index."""
    copy = path.with_name("plain.zarr")
    shutil.copytree(path, copy)
    shutil.rmtree(copy / "indexes")
    return session_of(copy)


def rectangle(x: float, y: float, width: float, height: float) -> str:
    """Return a rectangle in SQL."""
    corners = ", ".join(f"{a} {b}" for a, b in box(x, y, width, height))
    return f"ST_GeomFromText('POLYGON(({corners}))')"


def is_settled(session: DafSession, query: str) -> bool:
    """Return whether some geometries need not be decoded for a query."""
    return session._engine.planned(query).extendable is not None


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    """Return a table of small squares: the one at column ``x`` and row ``y`` is 16 y + x."""
    return store_of(
        tmp_path / "grid.zarr",
        [polygon(box(x, y, 0.5, 0.5)) for y in range(16) for x in range(16)],
    )


CONDITIONS = [
    "ST_Intersects(bbox, {})",
    "ST_Intersects({}, bbox)",
    "ST_Within(bbox, {})",
    "ST_CoveredBy(bbox, {})",
    "ST_Contains({}, bbox)",
    "ST_Covers({}, bbox)",
    "ST_Contains(bbox, {})",
    "ST_Touches(bbox, {})",
    "NOT ST_Within(bbox, {})",
    "ST_Intersects(bbox, {}) AND n % 3 = 1.0",
    "ST_Within(bbox, {}) AND n > 20 AND n < 200",
]


def test_random_rectangles(tmp_path: Path) -> None:
    """Rows are those of a scan without an index, for geometries of every kind that touch borders."""
    rng = np.random.default_rng(11)
    path = store_of(tmp_path / "x.zarr", [random_geometry(rng) for _ in range(N)])
    indexed, plain = session_of(path), without_index(path)
    settled = 0
    for number in range(44):
        sides = (*rng.integers(-2, 15, 2), *rng.integers(1, 24, 2))
        shift = 0.0 if number % 2 else 0.25
        area = rectangle(*(float(side) + shift for side in sides))
        condition = CONDITIONS[number % len(CONDITIONS)].format(area)
        query = f"SELECT n FROM meta WHERE {condition} ORDER BY n"
        settled += is_settled(indexed, query)
        expected = plain.sql(query).to_pydict()
        assert indexed.sql(query).to_pydict() == expected, query
    assert 20 < settled < 44


def test_chunks_that_are_decoded(grid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those with a geometry whose box crosses the border; none if there is no such one."""
    query = "SELECT count(*) AS n FROM meta WHERE ST_Intersects(bbox, {})"
    with recorded_chunks(monkeypatch) as chunks:
        whole = session_of(grid).sql(query.format(rectangle(-1, -1, 20, 20)))
        assert whole.to_pydict() == {"n": [256]}
        assert chunks == []
        inner = session_of(grid).sql(query.format(rectangle(-1, 1.25, 20, 5)))
        assert inner.to_pydict() == {"n": [16 * 6]}  # rows 1 to 6, of which 1 and 6 cross it
        assert sorted(chunks) == [("bbox", n) for n in (2, 3, 12, 13)]
        chunks.clear()
        touching = session_of(grid).sql(query.format(rectangle(-1, 2, 20, 4)))
        assert touching.to_pydict() == {"n": [16 * 5]}  # rows 2 and 6 touch it
        assert sorted(chunks) == [("bbox", n) for n in (4, 5, 12, 13)]
        chunks.clear()
        rows = "SELECT n FROM meta WHERE ST_Within(bbox, {}) ORDER BY n"
        found = session_of(grid).sql(rows.format(rectangle(-1, 1.25, 20, 5))).to_pydict()
        assert found == {"n": list(range(32, 96))}
        assert {name for name, n in chunks if n not in (2, 3, 12, 13)} == {"n"}


def test_every_form_of_the_rows(grid: Path, tmp_path: Path) -> None:
    """And an archive, have the same rows."""
    query = f"SELECT n FROM meta WHERE ST_Within(bbox, {rectangle(1.75, 1.75, 4, 4)}) ORDER BY n"
    expected = [16 * y + x for y in (2, 3, 4, 5) for x in (2, 3, 4, 5)]
    archive = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", grid))
    time.sleep(SETTLED_SECONDS)
    for path in (grid, archive):
        session = session_of(path)
        assert is_settled(session, query)
        result = session.sql(query)
        assert result.to_pydict() == {"n": expected}
        assert result.to_arrow_table().to_pydict() == {"n": expected}
        assert [row["n"] for row in result.to_pylist()] == expected
        assert result.to_pandas()["n"].tolist() == expected
        assert [n for batch in result.batches() for n in batch["n"].to_pylist()] == expected
        assert sum(batch.num_rows for batch in result.collect()) == result.count() == 16
        assert result.save(tmp_path / "rows.csv") == 16
        assert session.explain_analyze(query).rows == 16


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM meta WHERE ST_Intersects(bbox, {0}) ORDER BY n",
        "SELECT n FROM meta WHERE ST_Intersects(bbox, {0}) ORDER BY bbox, n",
        "SELECT n, ST_AsText(bbox) AS t FROM meta WHERE ST_Intersects(bbox, {0}) ORDER BY n",
        "SELECT n FROM meta WHERE ST_Intersects(bbox, {0}) AND ST_XMin(bbox) > 2.5 ORDER BY n",
        "SELECT n FROM meta WHERE ST_Intersects(bbox, {0}) AND ST_Within(bbox, {1}) ORDER BY n",
        "SELECT n FROM meta WHERE ST_Intersects(bbox, {0}) AND bbox > X'01' ORDER BY n",
        "SELECT n FROM meta WHERE ST_Intersects(bbox, {0}) AND bbox IS NOT NULL ORDER BY n",
        "SELECT count(DISTINCT bbox) AS n FROM meta WHERE ST_Intersects(bbox, {0})",
        "SELECT count(*) FILTER (WHERE ST_XMin(bbox) > 2.5) AS n FROM meta WHERE ST_Intersects(bbox, {0})",
        "SELECT array_agg(n ORDER BY bbox) AS n FROM meta WHERE ST_Intersects(bbox, {0})",
        "SELECT n FROM (SELECT n, bbox AS b FROM meta WHERE ST_Intersects(bbox, {0})) WHERE ST_XMin(b) > 2.5 ORDER BY n",
        "SELECT a.n FROM meta a JOIN meta b ON a.bbox = b.bbox WHERE ST_Intersects(a.bbox, {0}) ORDER BY 1",
        "SELECT n FROM meta WHERE ST_Intersects(bbox, {0}) UNION ALL SELECT n FROM meta WHERE ST_XMin(bbox) > 14.5 ORDER BY n",
        "SELECT n FROM meta WHERE ST_Intersects(bbox, {0}) OR ST_XMin(bbox) > 14.5 ORDER BY n",
        "SELECT n FROM meta WHERE ST_Intersects(bbox, ST_GeomFromText('POLYGON((0 0, 9 0, 9 9, 0 0))')) ORDER BY n",
    ],
)
def test_geometries_that_are_used_otherwise(grid: Path, query: str) -> None:
    """Or are asked for by another shape than a rectangle, are decoded, and rows are right."""
    asked = query.format(rectangle(1.75, 1.75, 4, 4), rectangle(2.75, 2.75, 9, 9))
    session = session_of(grid)
    assert not is_settled(session, asked)
    assert session.sql(asked).to_pydict() == without_index(grid).sql(asked).to_pydict()


def test_a_result_that_is_built_upon(grid: Path) -> None:
    """May be sorted by the geometries, which the engine then takes from the table."""
    query = f"SELECT n FROM meta WHERE ST_Intersects(bbox, {rectangle(1.75, 1.75, 4, 4)})"
    session, plain = session_of(grid), without_index(grid)
    assert is_settled(session, query)
    key = datafusion.col("bbox").sort(ascending=False)
    changes: list[Callable[[QueryResult], Any]] = [
        lambda result: result,
        lambda result: result.frame.repartition(2),
        lambda result: result.limit(100),
    ]
    for change in changes:
        found, expected = (
            change(each.sql(query)).sort(key, datafusion.col("n")).to_pydict()
            for each in (session, plain)
        )
        assert found == expected
    assert session.sql(query).filter(datafusion.col("n") > 60).count() == 8


def test_views_and_renamed_columns(grid: Path) -> None:
    """Are seen through."""
    session, plain = session_of(grid), without_index(grid)
    for each in (session, plain):
        each.sql("CREATE VIEW v AS SELECT n AS number, bbox AS b FROM meta", allow="write")
    for handed_on in ("number", "number, b"):
        query = f"SELECT {handed_on} FROM v WHERE ST_Within(b, {rectangle(1.75, 1.75, 4, 4)}) ORDER BY number"
        assert session.sql(query).to_pydict() == plain.sql(query).to_pydict()


@pytest.mark.parametrize("missing", ["inexact", "source", "checksum"])
def test_indexes_that_do_not_say_enough(grid: Path, missing: str) -> None:
    """Of other tools, or of before, only leave rows out: each row that is left is decoded."""
    query = f"SELECT n FROM meta WHERE ST_Within(bbox, {rectangle(1.75, 1.75, 4, 4)}) ORDER BY n"
    file = grid / "indexes/bbox/zarr.json"
    document = json.loads(file.read_text())
    del document["attributes"]["daf_index"][missing]
    file.write_text(json.dumps(document))
    session = session_of(grid)
    assert zarr_table(grid).rtree("bbox") is not None
    assert not is_settled(session, query)
    assert session.sql(query).count() == 16


def test_geometries_that_change(grid: Path) -> None:
    """Between planning and reading, the stored ones are decoded again."""
    query = "SELECT n FROM meta WHERE ST_Within(bbox, {}) AND n < 1000.5 ORDER BY n"
    session = session_of(grid)
    query = query.format(rectangle(-1, -1, 4.75, 1.75))
    result = session.sql(query)
    assert result.to_pydict() == {"n": [0, 1, 2, 3]}
    array: Any = zarr.open_group(grid, mode="r+")["meta/bbox"]
    array[1:2] = np.array([polygon(box(50, 50, 1, 1)), None], object)[:1]
    assert result.to_pydict() == {"n": [0, 2, 3]}
    time.sleep(SETTLED_SECONDS)
    assert result.to_pydict() == {"n": [0, 2, 3]}
    with pytest.warns(UserWarning, match="changed since"):
        assert session.sql(query).to_pydict() == {"n": [0, 2, 3]}


def test_rows_that_no_box_tells_of(tmp_path: Path) -> None:
    """Are noted beside the index; those that are not finite would make the engine abort."""
    geometries = [
        polygon(box(1, 1, 1, 1)),
        polygon(),
        point(1, NAN),
        several(7, point(1, 1), polygon()),
    ]
    geometries += [polygon([(1, 1), (2, NAN), (2, 2), (1, 1)]), point(float("inf"), 1), point(1, 1)]
    path = store_of(tmp_path / "x.zarr", geometries)
    table = zarr_table(path)
    assert table.found_index("bbox").inexact == (1, 2, 3, 4, 5)
    build_spatial_index(store_of(tmp_path / "y.zarr", [polygon()] * 1001))
    found = zarr_table(tmp_path / "y.zarr").found_index("bbox")
    assert (found.tree is None, found.is_exact, found.inexact) == (False, False, ())


def test_rows_that_are_added(grid: Path) -> None:
    """Have no index, and are found; with a new one, they may be settled."""
    query = f"SELECT n FROM meta WHERE ST_Within(bbox, {rectangle(-1, -1, 3.75, 1.75)}) ORDER BY n"
    append_rows(grid, {"bbox": np.array([point(0, 0), None], object)[:1], "n": [999]})
    with pytest.warns(UserWarning, match="256 items for 257 rows"):
        assert session_of(grid).sql(query).to_pydict() == {"n": [0, 1, 2, 999]}
    build_spatial_index(grid)
    time.sleep(SETTLED_SECONDS)
    session = session_of(grid)
    assert is_settled(session, query)
    assert session.sql(query).to_pydict() == {"n": [0, 1, 2, 999]}


@pytest.mark.parametrize("count", [1, 5, 16, 17, 300, 5000])
@pytest.mark.parametrize("node_size", [2, 16])
def test_items_within_a_box(count: int, node_size: int) -> None:
    """Are those whose sides are strictly within, whatever the number of levels."""
    rng = np.random.default_rng(count)
    low = rng.integers(0, 30, (2, count)).astype(float)
    high = low + rng.integers(0, 4, (2, count))
    builder = rtree.RTreeBuilder(num_items=count, node_size=node_size)
    builder.add(low[0], low[1], high[0], high[1])
    tree = RTree.open(np.frombuffer(builder.finish(), np.uint8), count)
    for _ in range(50):
        x, y, width, height = (float(side) for side in rng.integers(-3, 30, 4))
        is_within = (low[0] > x) & (low[1] > y) & (high[0] < x + width) & (high[1] < y + height)
        assert (
            tree.items_within((x, y, x + width, y + height)).tolist()
            == np.flatnonzero(is_within).tolist()
        )


def test_trees_of_less_precision() -> None:
    """Tell of no item that it is within: its box may have been rounded."""
    builder = rtree.RTreeBuilder(num_items=1, coord_type="float32")
    builder.add(*(np.array([side], np.float32) for side in (1, 1, 2, 2)))
    tree = RTree.open(np.frombuffer(builder.finish(), np.uint8), 1)
    assert tree.search((0, 0, 3, 3)).tolist() == [0]
    assert tree.items_within((0, 0, 3, 3)).tolist() == []


@pytest.mark.parametrize(
    ("shape", "is_rectangle"),
    [
        ("POLYGON((1.75 1.75, 5.75 1.75, 5.75 5.75, 1.75 5.75, 1.75 1.75))", True),
        ("POLYGON((1.75 1.75, 1.75 5.75, 5.75 5.75, 5.75 1.75, 1.75 1.75))", True),
        ("POLYGON((5.75 5.75, 1.75 5.75, 1.75 1.75, 5.75 1.75, 5.75 5.75))", True),
        ("POLYGON((1 1, 5 5, 5 1, 1 5, 1 1))", False),
        ("POLYGON((1 1, 5 1, 5 5, 1 5.5, 1 1))", False),
        ("POLYGON((1 1, 5 1, 5 5, 1 1))", False),
        ("POLYGON((1 1, 9 1, 9 9, 1 9, 1 1), (2 2, 3 2, 3 3, 2 3, 2 2))", False),
        ("POLYGON EMPTY", False),
        ("POINT(1.25 1.25)", False),
        ("LINESTRING(1 1, 5 1, 5 5, 1 5, 1 1)", False),
    ],
)
def test_what_is_a_rectangle(grid: Path, shape: str, *, is_rectangle: bool) -> None:
    """One ring round four right corners, from any of them and in either direction."""
    query = f"SELECT n FROM meta WHERE ST_Intersects(bbox, ST_GeomFromText('{shape}')) ORDER BY n"
    session = session_of(grid)
    assert is_settled(session, query) == is_rectangle
    assert session.sql(query).to_pydict() == without_index(grid).sql(query).to_pydict()
