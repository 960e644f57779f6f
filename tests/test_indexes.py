"""Tests of indexes of texts: found rows, what is read, and that a stale one is never used."""

from __future__ import annotations

import os
import time
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import zarr
from hypothesis import given

from daf_query import build_index, connect, indexes
from daf_query.cli import main
from daf_storage import DafWriter, MemoryDaf, ZarrDaf, convert, errors, open_daf, strings, verify
from tests.support import create, reopen

N = 5_000


@given(st.lists(st.text(), max_size=50), st.sampled_from([1, 40, 1 << 22]))
def test_hashes_of_many_are_those_of_each(texts: list[str], block: int) -> None:
    """In blocks of any size, also of slices."""
    texts = [text for text in texts if not any(0xD800 <= ord(c) < 0xE000 for c in text)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexes, "_BLOCK_BYTES", block)
        found = indexes.hashes_of(pa.array(["skipped", *texts], pa.string()).slice(1))
    assert found.tolist() == [indexes.hash_of(text) for text in texts]


def test_hashes_of_different_texts_differ() -> None:
    """Of a hundred thousand names, also those that differ in order or length alone."""
    names = [f"cell_{i}" for i in range(100_000)] + ["", "\0", "\0\0", "ab", "ba", "a", "aa"]
    assert len(set(indexes.hashes_of(pa.array(names)).tolist())) == len(names)


@pytest.fixture(params=["x.daf.zarr", "x.daf.zarr.zip"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a data set with names, an indexed text with duplicates, and a text with few values."""
    path = tmp_path / str(request.param)
    daf = create(path)
    daf.add_axis("cell", [f"é{i}" for i in range(N)])
    daf.set_vector("cell", "age", np.arange(N))
    daf.set_vector("cell", "barcode", [f"code {i % 4_000}" * (i % 3 + 1) for i in range(N)])
    daf.set_vector("cell", "donor", ["a", "b"] * (N // 2))
    daf.close()
    time.sleep(0.15)  # the index remembers the time of a file, which must lie a little back
    return path


QUERIES = [
    "SELECT name, age FROM cell WHERE name = 'é4999'",
    "SELECT age FROM cell WHERE name IN ('é3', 'nope', 'é77', 'é3') ORDER BY age",
    "SELECT name FROM cell WHERE barcode IN ('code 7', 'code 8code 8code 8') AND age > 10 ORDER BY name",
    "SELECT barcode, name FROM cell WHERE name = 'é5' AND barcode <> 'x'",
    "SELECT count(*) AS n FROM cell WHERE name = 'é5' OR age = 6",
    "SELECT count(*) AS n FROM cell WHERE name <> 'é5'",
    "SELECT count(*) AS n FROM cell WHERE name NOT IN ('é5', 'é6')",
    "SELECT count(*) AS n FROM cell WHERE name = 'é5' AND name = 'é6'",
    "SELECT name FROM cell WHERE age > 4996 ORDER BY age",
    "SELECT max(barcode) AS m, min(name) AS n FROM cell",
    "SELECT count(*) AS n FROM cell AS a JOIN cell AS b ON a.age = b.age WHERE a.name = 'é5'",
]


def test_the_rows_are_the_same(path: Path) -> None:
    """With and without; in a directory and in an archive."""
    expected = [connect(path).sql(query).to_pydict() for query in QUERIES]
    with reopen(path) as daf:
        assert build_index(daf, "cell") == ["name", "barcode"]
    session = connect(path)
    assert [session.sql(query).to_pydict() for query in QUERIES] == expected
    assert expected[0] == {"name": ["é4999"], "age": [4999]}
    told = session.explain(QUERIES[1])
    assert told.scans[0].index_rows == 2
    assert told.scans[0].values["age"] == 2
    assert "index    left 2 rows" in str(told)
    assert [f for f in verify(path) if f.level == "error"] == []
    with open_daf(path) as reader:
        assert reader.axes_set() == {"cell"}


def test_a_look_up_decodes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts of a few rows are read one by one out of the mapped chunk."""
    with reopen(path) as daf:
        build_index(daf, "cell")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("decoded")

    session = connect(path)
    monkeypatch.setattr(strings, "decode_vlen_utf8", refuse)
    assert session.sql(QUERIES[0]).to_pydict() == {"name": ["é4999"], "age": [4999]}
    assert session.sql("SELECT name FROM cell WHERE age > 4997 ORDER BY age").to_pydict() == {
        "name": ["é4998", "é4999"]
    }


def test_a_stale_index_is_not_used(tmp_path: Path) -> None:
    """After the column was replaced, by this software or any other; the answer is the new one."""
    path = tmp_path / "x.daf.zarr"
    daf = create(path)
    daf.add_axis("cell", [f"c{i}" for i in range(100)])
    daf.set_vector("cell", "code", [f"x{i:03}" for i in range(100)])
    time.sleep(0.15)
    build_index(daf, "cell")
    session = connect(daf)
    query = "SELECT name FROM cell WHERE code = 'x007'"
    assert session.explain(query).scans[0].index_rows == 1
    daf.set_vector("cell", "code", [f"x{99 - i:03}" for i in range(100)], overwrite=True)
    assert session.sql(query).to_pydict() == {"name": ["c92"]}
    assert session.explain(query).scans[0].index_rows is None
    time.sleep(0.15)
    assert session.sql(query).to_pydict() == {"name": ["c92"]}
    assert build_index(daf, "cell", ["code"]) == ["code"]
    assert session.explain(query).scans[0].index_rows == 1
    chunk = path / "vectors/cell/code/0"
    data = chunk.read_bytes()
    chunk.write_bytes(
        data.replace(b"x007", b"x___")
    )  # another program, in place, of the same length
    os.utime(chunk, ns=(time.time_ns() + 10**9, time.time_ns() + 10**9))
    fresh = connect(path)
    assert fresh.sql("SELECT name FROM cell WHERE code = 'x___'").to_pydict() == {"name": ["c92"]}
    daf.reorder_axis("cell", np.arange(100)[::-1], progress="never")
    assert connect(path).sql("SELECT index FROM cell WHERE name = 'c3'").to_pydict() == {
        "index": [96]
    }


def test_an_index_that_is_damaged_or_not_ours(path: Path) -> None:
    """Is not used; the data is as readable as before."""
    if path.suffix == ".zip":
        pytest.skip("an archive is not changed in place")
    with reopen(path) as daf:
        build_index(daf, "cell")
    group = zarr.open_group(path / "indexes/cell/name", mode="r+")
    del group["row"]
    assert connect(path).sql(QUERIES[0]).to_pydict()["age"] == [4999]
    (path / "indexes/cell/barcode/.zgroup").unlink()
    assert connect(path).sql("SELECT age FROM cell WHERE barcode = 'code 6'").to_pydict() == {
        "age": [6]
    }


def test_what_cannot_be_indexed() -> None:
    """Each says why; asked for nothing in particular, it is left out."""
    daf = MemoryDaf()
    daf.add_axis("cell", ["a", "b"])
    daf.set_vector("cell", "age", [1, 2])
    daf.set_vector("cell", "code", ["x", "y"])
    assert build_index(daf, "cell") == []
    with pytest.raises(errors.InvalidInputError, match="holds no strings; numbers need no index"):
        build_index(daf, "cell", ["age"])
    with pytest.raises(errors.InvalidInputError, match="holds no strings"):
        build_index(daf, "cell", ["index"])
    with pytest.raises(errors.InvalidInputError, match="only plain Zarr can"):
        build_index(daf, "cell", ["code"])
    with pytest.raises(errors.VectorNotFoundError):
        build_index(daf, "cell", ["nope"])


def test_on_the_command_line(
    path: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """``daf index``; a copy has none, and can get its own."""
    assert main(["index", str(path), "cell"]) == 0
    assert f"indexed name, barcode of axis cell of {path}" in capsys.readouterr().out
    assert main(["index", str(path), "cell", "age"]) == 1
    copy = tmp_path / "copy.daf.zarr"
    convert(path, copy)
    assert ZarrDaf(copy).tree.kind("indexes") is None
    writer = reopen(copy)
    assert isinstance(writer, DafWriter)
    assert (
        indexes.find_index(writer, "cell", "name", connect(writer)._engine.schemas["copy"].cache)
        is None
    )


def test_building_it_again_is_fine(path: Path) -> None:
    """One that fits is kept, also in an archive, which could not replace it."""
    for _ in range(2):
        with reopen(path) as daf:
            assert build_index(daf, "cell", ["name"]) == ["name"]


def test_a_fragment_of_an_index_and_another_filter(path: Path) -> None:
    """The rows that an index left out for one filter are there for another."""
    with reopen(path) as daf:
        build_index(daf, "cell")
    table = connect(path).dataset("cell")
    only = pc.field("name") == "é7"
    fragments = list(table.get_fragments(only))
    assert sum(f.to_table(filter=only).num_rows for f in fragments) == 1
    assert sum(f.to_table(columns=["age"]).num_rows for f in fragments) == sum(
        part.size for f in fragments for part in f.parts
    )
