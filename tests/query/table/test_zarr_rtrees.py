"""Tests of R-trees in Zarr groups: used, damaged, foreign, or of geometries that were rewritten."""

from __future__ import annotations

import random
import shutil
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from daf_query import DafSession, UnusedIndexWarning, append_rows, build_spatial_index, zarr_table
from daf_storage import errors
from tests import seams
from tests.query.table.zarr_groups import age, objects, ring, squares, store_of, with_geometry, wkb
from tests.support import every, recorded_calls, there

pytest.importorskip("geodatafusion")
pytest.importorskip("geoindex_rs.rtree")

pytestmark = [pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")]

N = 60
QUERY = (
    "SELECT n FROM meta WHERE ST_Intersects(bbox, "
    "ST_GeomFromText('POLYGON((0 0, 9 0, 9 9, 0 9, 0 0))')) ORDER BY n"
)


def boxes() -> Any:
    """Return squares along a diagonal."""
    return squares(((2.0 * i, 2.0 * i) for i in range(N)), 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a table of squares, without an index."""
    return store_of(tmp_path / "x.zarr", boxes(), 16)


def indexed(path: Path) -> Path:
    """Build an index; its files are old enough to be known."""
    build_spatial_index(path)
    age()
    return path


@pytest.mark.sampled(0)
def test_each_bit_of_an_index_that_was_built_here(path: Path) -> None:
    """A changed one is noticed by the checksum, with one warning; a scan has the same rows."""
    expected = with_geometry(path).sql(QUERY).to_pydict()
    assert build_spatial_index(path) == N
    assert with_geometry(path).sql(QUERY).to_pydict() == expected == {"n": [0, 1, 2, 3, 4]}
    chunk, rng = path / "indexes/bbox/c/0", random.Random(1)
    data = chunk.read_bytes()
    for at in range(0, len(data), 11):
        changed = bytes([data[at] ^ 1 << rng.randrange(8)])
        chunk.write_bytes(data[:at] + changed + data[at + 1 :])
        table = zarr_table(path)
        with pytest.warns(UnusedIndexWarning, match="its checksum is wrong; build it") as caught:
            assert [table.rtree("bbox"), table.rtree("bbox")] == [None, None]
        assert len(caught) == 1
    for changed in (bytes(len(data)), data[:-1]):
        chunk.write_bytes(changed)
        with pytest.warns(UnusedIndexWarning):
            assert with_geometry(path).sql(QUERY).to_pydict() == expected


@pytest.mark.parametrize("kind", ["f8", "i4", "<U3", "2-D", "u1"])
def test_an_array_that_is_no_tree(path: Path, kind: str) -> None:
    """Is not used, and no error."""
    expected = with_geometry(path).sql(QUERY).to_pydict()
    data = np.zeros((3, 4), "u1") if kind == "2-D" else np.zeros(12).astype(kind)
    zarr.open_group(path, mode="r+").require_group("indexes").create_array("bbox", data=data)
    with pytest.warns(
        UnusedIndexWarning, match="it is no R-tree" + ": it is not a list of bytes" * (kind != "u1")
    ):
        assert with_geometry(path).sql(QUERY).to_pydict() == expected


def test_geometries_that_are_rewritten_in_place(path: Path) -> None:
    """An index that was built here is not used any more, in an open session and in a new one."""
    age()
    session = with_geometry(indexed(path))
    assert session.sql(QUERY).to_pydict() == {"n": [0, 1, 2, 3, 4]}
    other = store_of(path.parent / "y.zarr", boxes()[::-1], 16)
    for chunk in (other / "meta/bbox/c").iterdir():
        with (path / "meta/bbox/c" / chunk.name).open("r+b") as file:
            file.write(chunk.read_bytes())
    new = {"n": [N - 5, N - 4, N - 3, N - 2, N - 1]}
    for each in (session, with_geometry(path)):
        with pytest.warns(UnusedIndexWarning, match="the geometries were changed since"):
            assert each.sql(QUERY).to_pydict() == new
    build_spatial_index(path)
    assert with_geometry(path).sql(QUERY).to_pydict() == new


def test_a_copy_in_an_archive(path: Path) -> None:
    """The index is used there too, and not when the geometries in it were rewritten in place."""
    build_spatial_index(path)
    archive = path.parent / "x.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for one in sorted(path.rglob("*")):
            file.write(one, one.relative_to(path))
    age()
    session = with_geometry(archive)
    explanation = session.explain_analyze(QUERY)
    assert (explanation.rows, explanation.scans[0].index_rows) == (5, 5)
    data = archive.read_bytes()
    chunk = (path / "meta/bbox/c/0").read_bytes()
    moved = (path / "meta/bbox/c/1").read_bytes()
    assert (len(moved), data.count(chunk)) == (len(chunk), 1)
    with archive.open("r+b") as file:
        file.seek(data.index(chunk))
        file.write(moved)
    with pytest.warns(UnusedIndexWarning, match="the geometries were changed since"):
        assert session.sql(QUERY).to_pydict() == {"n": []}


def test_a_column_that_changes_while_it_is_indexed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index would be of neither; it is not stored."""

    def change(_: Any) -> None:
        chunk = path / "meta/bbox/c/1"
        chunk.write_bytes(chunk.read_bytes().replace(struct.pack("<d", 40.0), bytes(8)))

    recorded_calls(monkeypatch, seams.GEOMETRY_BOXES, change)
    with pytest.raises(errors.InUseError, match="'bbox' changed while its index"):
        build_spatial_index(path)
    assert zarr_table(path).rtree("bbox") is None
    assert not (path / "indexes").exists()


def test_it_is_checked_once_for_each_state(path: Path) -> None:
    """Also where none was; further queries look at the files alone."""
    table = zarr_table(path)
    assert [table.rtree(name) for name in ("bbox", "n", "nope")] == [None] * 3
    indexed(path)
    first = there(table.rtree("bbox"))
    assert table.rtree("bbox") is first
    indexed(path)
    assert table.rtree("bbox") not in (None, first)


@pytest.mark.parametrize("noted", ["text", ["list"], 5])
def test_a_note_that_is_malformed(path: Path, noted: Any) -> None:
    """The index is not used, with a warning that says so."""
    build_spatial_index(path)
    index = zarr.open_group(path, mode="r+")["indexes/bbox"]
    (attribute,) = index.attrs
    whole = index.attrs[attribute]
    assert isinstance(whole, dict)
    for value in (noted, {**whole, "checksum": 5}):
        index.attrs[attribute] = value
        with pytest.warns(UnusedIndexWarning, match="malformed|checksum is wrong"):
            assert zarr_table(path).rtree("bbox") is None
    index.attrs[attribute] = whole
    assert zarr_table(path).rtree("bbox") is not None


# Predicates on geometries that have an index: rows are those of a table without one


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
    return indexed(store_of(tmp_path / "grid.zarr", squares(corners, 0.5), 8))


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
    shapes = objects(wkb(random_shape(rng) for _ in range(240)))
    path = indexed(store_of(tmp_path / "x.zarr", shapes, 8))
    fast, plain = with_geometry(path), without_index(path)
    for number in range(88 // every(4)):
        sides = (*rng.integers(-2, 15, 2), *rng.integers(1, 24, 2))
        shift = 0.0 if number % 2 else 0.25
        area = rectangle(*(float(side) + shift for side in sides))
        condition = CONDITIONS[number % len(CONDITIONS)].format(area)
        query = f"SELECT n FROM meta WHERE {condition} ORDER BY n"
        expected = plain.sql(query).to_pydict()
        assert fast.sql(query).to_pydict() == expected, query


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
    assert with_geometry(indexed(grid)).sql(query).to_pydict() == {"n": [0, 1, 2, 999]}
