"""Tests of R-trees in Zarr groups: damaged, foreign, or of geometries that were rewritten."""

from __future__ import annotations

import random
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from daf_query import UnusedIndexWarning, build_spatial_index, zarr_table
from daf_storage import errors
from tests import seams
from tests.query.table.zarr_groups import BYTES, age, squares, with_geometry
from tests.support import recorded_calls, there

pytest.importorskip("geodatafusion")
pytest.importorskip("geoindex_rs.rtree")

pytestmark = [
    pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning"),
]

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
    path = tmp_path / "x.zarr"
    meta = zarr.open_group(path, mode="w", zarr_format=3).create_group("meta")
    meta.create_array("bbox", shape=(N,), dtype=BYTES, chunks=(16,), compressors=None)[:] = boxes()
    meta.create_array("n", data=np.arange(N), chunks=(16,))
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
    with pytest.warns(UnusedIndexWarning):
        assert with_geometry(path).sql(QUERY).to_pydict() == expected
    chunk.write_bytes(data[:-1])
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
    build_spatial_index(path)
    age()
    session = with_geometry(path)
    assert session.sql(QUERY).to_pydict() == {"n": [0, 1, 2, 3, 4]}
    other = zarr.open_group(path.parent / "y.zarr", mode="w", zarr_format=3)
    made = other.create_array("bbox", shape=(N,), dtype=BYTES, chunks=(16,), compressors=None)
    made[:] = boxes()[::-1]
    for chunk in (path.parent / "y.zarr/bbox/c").iterdir():
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
    build_spatial_index(path)
    age()
    first = there(table.rtree("bbox"))
    assert table.rtree("bbox") is first
    build_spatial_index(path)
    age()
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
