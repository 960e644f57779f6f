"""Tests of R-trees in Zarr groups: damaged, foreign, or of geometries that were rewritten."""

from __future__ import annotations

import random
import struct
import time
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.core.dtype import VariableLengthBytes

from daf_query import DafSession, UnusedIndexWarning, build_spatial_index, connect, zarr_table
from daf_storage import errors
from tests import seams
from tests.support import recorded_calls, there

geodatafusion = pytest.importorskip("geodatafusion")
rtree = pytest.importorskip("geoindex_rs.rtree")

pytestmark = [
    pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning"),
]

N = 60
STABLE_SECONDS = 0.15
WHOLE = (-10.0, -10.0, 1000.0, 1000.0)
QUERY = (
    "SELECT n FROM meta WHERE ST_Intersects(bbox, "
    "ST_GeomFromText('POLYGON((0 0, 9 0, 9 9, 0 9, 0 0))')) ORDER BY n"
)


def square(x: float, y: float) -> bytes:
    """Return a square as WKB."""
    corners = (x, y, x + 1, y, x + 1, y + 1, x, y + 1, x, y)
    return struct.pack("<BIII10d", 1, 3, 1, 5, *corners)


def boxes(*, shift: float = 0.0) -> Any:
    """Return squares along a diagonal."""
    return np.array([*(square(2.0 * i + shift, 2.0 * i) for i in range(N)), None], object)[:-1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a table of squares, without an index."""
    path = tmp_path / "x.zarr"
    meta = zarr.open_group(path, mode="w", zarr_format=3).create_group("meta")
    kind: Any = VariableLengthBytes()
    meta.create_array("bbox", shape=(N,), dtype=kind, chunks=(16,), compressors=None)[:] = boxes()
    meta.create_array("n", data=np.arange(N), chunks=(16,))
    return path


def foreign_index(path: Path, *, node_size: int = 4) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Store an index as another tool does, without attributes; return its bytes."""
    low = 2.0 * np.arange(N)
    builder = rtree.RTreeBuilder(num_items=N, node_size=node_size)
    builder.add(low, low, low + 1, low + 1)
    data = np.frombuffer(builder.finish(), np.uint8)
    indexes = zarr.open_group(path, mode="r+").require_group("indexes")
    indexes.create_array("bbox", data=data, chunks=(len(data),), compressors=None, overwrite=True)
    return data


def session_of(path: Path) -> DafSession:
    """Return a session that knows functions of geometries."""
    session = connect(zarr_table(path))
    geodatafusion.register_all(session.context)
    return session


def chunk_of(path: Path) -> Path:
    """Return the file of the bytes of the index."""
    return path / "indexes/bbox/c/0"


def damaged(data: bytes, at: int, rng: random.Random) -> bytes:
    """Return bytes with one bit changed."""
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


@pytest.mark.sampled(0)
def test_each_bit_of_an_index_that_was_built_here(path: Path) -> None:
    """A changed one is noticed by the checksum, with one warning; a scan has the same rows."""
    expected = session_of(path).sql(QUERY).to_pydict()
    assert build_spatial_index(path) == N
    assert session_of(path).sql(QUERY).to_pydict() == expected == {"n": [0, 1, 2, 3, 4]}
    data, rng = chunk_of(path).read_bytes(), random.Random(1)
    for at in range(0, len(data), 11):
        chunk_of(path).write_bytes(damaged(data, at, rng))
        table = zarr_table(path)
        with pytest.warns(UnusedIndexWarning, match="its checksum is wrong; build it") as caught:
            assert [table.rtree("bbox"), table.rtree("bbox")] == [None, None]
        assert len(caught) == 1
    with pytest.warns(UnusedIndexWarning):
        assert session_of(path).sql(QUERY).to_pydict() == expected
    chunk_of(path).write_bytes(data[:-1])
    with pytest.warns(UnusedIndexWarning):
        assert session_of(path).sql(QUERY).to_pydict() == expected


def test_each_bit_of_an_index_of_another_tool(path: Path) -> None:
    """But for the boxes of the items, nothing can be wrong that is not noticed or harmless."""
    data = bytes(foreign_index(path))
    leaves = range(8, 8 + 32 * N)
    rng, refused = random.Random(2), 0
    for at in [*range(8), *range(leaves.stop, len(data), 3)]:
        chunk_of(path).write_bytes(damaged(data, at, rng))
        with warnings.catch_warnings(
            record=True, action="always", category=UnusedIndexWarning
        ) as caught:
            tree = zarr_table(path).rtree("bbox")
        refused += tree is None
        said = [one for one in caught if one.category is UnusedIndexWarning]
        assert len(said) == (tree is None)
        if tree is not None:  # the box of a node became larger
            assert tree.search(WHOLE).tolist() == list(range(N))
            assert tree.search((0.0, 0.0, 9.0, 9.0)).tolist() == [0, 1, 2, 3, 4]
    assert refused > 20


@pytest.mark.parametrize("kind", ["f8", "i4", "<U3", "2-D"])
def test_an_array_that_is_no_tree(path: Path, kind: str) -> None:
    """Is not used, and no error."""
    expected = session_of(path).sql(QUERY).to_pydict()
    data = np.zeros((3, 4), "u1") if kind == "2-D" else np.zeros(12).astype(kind)
    zarr.open_group(path, mode="r+").require_group("indexes").create_array("bbox", data=data)
    with pytest.warns(UnusedIndexWarning, match="it is no R-tree: it is not a list of bytes"):
        assert session_of(path).sql(QUERY).to_pydict() == expected


def test_geometries_that_are_rewritten_in_place(path: Path) -> None:
    """An index that was built here is not used any more, in an open session and in a new one."""
    time.sleep(STABLE_SECONDS)
    build_spatial_index(path)
    time.sleep(STABLE_SECONDS)
    session = session_of(path)
    assert session.sql(QUERY).to_pydict() == {"n": [0, 1, 2, 3, 4]}
    other = zarr.open_group(path.parent / "y.zarr", mode="w", zarr_format=3)
    kind: Any = VariableLengthBytes()
    made = other.create_array("bbox", shape=(N,), dtype=kind, chunks=(16,), compressors=None)
    made[:] = boxes()[::-1]
    for chunk in (path.parent / "y.zarr/bbox/c").iterdir():
        with (path / "meta/bbox/c" / chunk.name).open("r+b") as file:
            file.write(chunk.read_bytes())
    new = {"n": [N - 5, N - 4, N - 3, N - 2, N - 1]}
    for each in (session, session_of(path)):
        with pytest.warns(UnusedIndexWarning, match="the geometries were changed since"):
            assert each.sql(QUERY).to_pydict() == new
    build_spatial_index(path)
    assert session_of(path).sql(QUERY).to_pydict() == new


def test_a_copy_in_an_archive(path: Path) -> None:
    """The index is used there too, and not when the geometries in it were rewritten in place."""
    build_spatial_index(path)
    archive = path.parent / "x.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for one in sorted(path.rglob("*")):
            file.write(one, one.relative_to(path))
    time.sleep(STABLE_SECONDS)
    session = session_of(archive)
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
    """Further queries look at the files alone."""
    build_spatial_index(path)
    time.sleep(STABLE_SECONDS)
    table = zarr_table(path)
    first = there(table.rtree("bbox"))
    assert table.rtree("bbox") is first
    build_spatial_index(path)
    time.sleep(STABLE_SECONDS)
    assert table.rtree("bbox") is not first


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


def test_columns_without_an_index(path: Path) -> None:
    """Nothing is found; an index that is built meanwhile is."""
    table = zarr_table(path)
    assert table.rtree("bbox") is None
    build_spatial_index(path)
    assert table.rtree("bbox") is not None
    for name in ("n", "nope"):
        assert table.rtree(name) is None
