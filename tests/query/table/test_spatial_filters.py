"""Tests of predicates on geometries that have an index: rows are those of a table without one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from daf_query import DafSession, append_rows, build_spatial_index
from tests.query.table.zarr_groups import BYTES, age, objects, ring, squares, with_geometry, wkb

pytest.importorskip("geodatafusion")
pytest.importorskip("geoindex_rs.rtree")

pytestmark = [pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")]

N = 240
CHUNK = 8


def random_shape(rng: np.random.Generator) -> str:
    """Return a shape of any kind, on a grid, so that many of them touch each other."""
    x, y, size = (float(one) for one in (*rng.integers(0, 20, 2), rng.integers(1, 5)))
    made = [
        f"POINT({x} {y})",
        f"LINESTRING({x} {y}, {x + size} {y + 1})",
        f"POLYGON({ring(x, y, size, size)})",
        f"POLYGON(({x} {y}, {x + size} {y}, {x} {y + size}, {x} {y}))",
        f"POLYGON({ring(x, y, 4, 4)}, {ring(x + 1, y + 1, 1, 2)})",
        f"MULTIPOINT({x} {y}, {x + size} {y})",
        f"GEOMETRYCOLLECTION(POINT({x} {y}), LINESTRING({x} {y}, {x + 1} {y + size}))",
        "POLYGON EMPTY",
        f"GEOMETRYCOLLECTION(POINT({x} {y}), POLYGON EMPTY)",
    ]
    return made[rng.integers(len(made))]


def rectangle(x: float, y: float, width: float, height: float) -> str:
    """Return a rectangle in SQL."""
    return f"ST_GeomFromText('POLYGON({ring(x, y, width, height)})')"


def store_of(path: Path, geometries: Any) -> Path:
    """Store geometries and their numbers, with an index; its files are old enough to be known."""
    meta = zarr.open_group(path, mode="w", zarr_format=3).create_group("meta")
    count = len(geometries)
    meta.create_array("bbox", shape=(count,), dtype=BYTES, chunks=(CHUNK,))[:] = geometries
    meta.create_array("n", data=np.arange(count), chunks=(CHUNK,))
    build_spatial_index(path)
    age()
    return path


def without_index(path: Path) -> DafSession:
    """Return a session over a copy that has no index."""
    copy = path.with_name("plain.zarr")
    shutil.copytree(path, copy)
    shutil.rmtree(copy / "indexes")
    return with_geometry(copy)


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    """Return a table of small squares: the one at column ``x`` and row ``y`` is 16 y + x."""
    corners = ((x, y) for y in range(16) for x in range(16))
    return store_of(tmp_path / "grid.zarr", squares(corners, 0.5))


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
    path = store_of(tmp_path / "x.zarr", objects(wkb(random_shape(rng) for _ in range(N))))
    indexed, plain = with_geometry(path), without_index(path)
    for number in range(44):
        sides = (*rng.integers(-2, 15, 2), *rng.integers(1, 24, 2))
        shift = 0.0 if number % 2 else 0.25
        area = rectangle(*(float(side) + shift for side in sides))
        condition = CONDITIONS[number % len(CONDITIONS)].format(area)
        query = f"SELECT n FROM meta WHERE {condition} ORDER BY n"
        expected = plain.sql(query).to_pydict()
        assert indexed.sql(query).to_pydict() == expected, query


SHAPES = [
    "POLYGON((0 0, 9 0, 9 9, 0 0))",
    "POLYGON((1.75 1.75, 5.75 1.75, 5.75 5.75, 1.75 5.75, 1.75 1.75))",
    "POLYGON((1.75 1.75, 1.75 5.75, 5.75 5.75, 5.75 1.75, 1.75 1.75))",
    "POLYGON((5.75 5.75, 1.75 5.75, 1.75 1.75, 5.75 1.75, 5.75 5.75))",
    "POLYGON((1 1, 5 5, 5 1, 1 5, 1 1))",
    "POLYGON((1 1, 5 1, 5 5, 1 5.5, 1 1))",
    "POLYGON((1 1, 5 1, 5 5, 1 1))",
    "POLYGON((1 1, 9 1, 9 9, 1 9, 1 1), (2 2, 3 2, 3 3, 2 3, 2 2))",
    "POLYGON EMPTY",
    "POINT(1.25 1.25)",
    "LINESTRING(1 1, 5 1, 5 5, 1 5, 1 1)",
]
"""Rectangles in either direction, and shapes that nearly are some, or are none."""


@pytest.mark.sampled(6)
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
        *(
            f"SELECT n FROM meta WHERE ST_Intersects(bbox, ST_GeomFromText('{shape}')) ORDER BY n"
            for shape in SHAPES
        ),
    ],
)
def test_geometries_that_are_used_otherwise(grid: Path, query: str) -> None:
    """Or are asked for by another shape than a rectangle, are those that are stored."""
    requested = query.format(rectangle(1.75, 1.75, 4, 4), rectangle(2.75, 2.75, 9, 9))
    session = with_geometry(grid)
    assert session.sql(requested).to_pydict() == without_index(grid).sql(requested).to_pydict()


def test_geometries_that_change(grid: Path) -> None:
    """Between planning and reading, are read as they are then."""
    query = "SELECT n FROM meta WHERE ST_Within(bbox, {}) AND n < 1000.5 ORDER BY n"
    session = with_geometry(grid)
    query = query.format(rectangle(-1, -1, 4.75, 1.75))
    result = session.sql(query)
    assert result.to_pydict() == {"n": [0, 1, 2, 3]}
    array: Any = zarr.open_group(grid, mode="r+")["meta/bbox"]
    array[1:2] = squares([(50, 50)], 1)
    assert result.to_pydict() == {"n": [0, 2, 3]}
    age()
    assert result.to_pydict() == {"n": [0, 2, 3]}
    with pytest.warns(UserWarning, match="changed since"):
        assert session.sql(query).to_pydict() == {"n": [0, 2, 3]}


def test_rows_that_are_added(grid: Path) -> None:
    """Have no index, and are found; so they are with a new one."""
    query = f"SELECT n FROM meta WHERE ST_Within(bbox, {rectangle(-1, -1, 3.75, 1.75)}) ORDER BY n"
    append_rows(grid, {"bbox": objects(wkb(["POINT(0 0)"])), "n": [999]})
    with pytest.warns(UserWarning, match="256 items for 257 rows"):
        assert with_geometry(grid).sql(query).to_pydict() == {"n": [0, 1, 2, 999]}
    build_spatial_index(grid)
    age()
    assert with_geometry(grid).sql(query).to_pydict() == {"n": [0, 1, 2, 999]}
