"""Tests of indexes of strings: the rows they find, the values they read, and that a stale one is not used."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import time
from pathlib import Path
from typing import Any

import duckdb
import hypothesis.strategies as st
import numcodecs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import scipy.sparse
from hypothesis import given

from daf_query import connect
from daf_query.cli import main
from daf_query.index import _stored as indexes
from daf_query.index import build_index, build_point_index
from daf_query.scan import ZONE_ROWS, ScanOptions
from daf_storage import DafWriter, MemoryDaf, Packing, open_daf, verify
from daf_storage.base import _strings as strings
from tests.limits import lower
from tests.random_conditions import Conditions
from tests.support import create, data_set, every, filled, reopen, there

N = 5_000


@given(
    st.lists(st.text(st.characters(codec="utf-8")), max_size=50), st.sampled_from([1, 40, 1 << 22])
)
def test_hashes_of_many_are_those_of_each(strings: list[str], block: int) -> None:
    """In blocks of any size, also of slices."""
    each = [int(indexes.hashes_of(pa.array([text], pa.string()))[0]) for text in strings]
    with pytest.MonkeyPatch.context() as patch:
        lower(patch, hashed_bytes=block)
        found = indexes.hashes_of(pa.array(["skipped", *strings], pa.string()).slice(1))
    assert found.tolist() == each


def test_hashes_of_different_strings_differ() -> None:
    """Of a hundred thousand names, also those that differ in order or length alone."""
    names = [f"cell_{i}" for i in range(100_000)] + ["", "\0", "\0\0", "ab", "ba", "a", "aa"]
    assert len(set(indexes.hashes_of(pa.array(names)).tolist())) == len(names)


def _cells(daf: DafWriter) -> DafWriter:
    """Set names, a text with duplicates, and a text with few values."""
    names = [f"é{i}" for i in range(N)]
    codes = [f"code {i % 4_000}" * (i % 3 + 1) for i in range(N)]
    columns = {"name": names, "barcode": codes, "donor": ["a", "b"] * (N // 2)}
    return data_set(daf, cell={"age": np.arange(N), **columns})


@pytest.fixture(params=["x.daf.zarr", "x.daf.zarr.zip"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a data set of them."""
    path = tmp_path / str(request.param)
    filled(path, _cells).close()
    time.sleep(0.15)  # the index remembers the time of a file, which must lie a little back
    return path


QUERIES = [
    "SELECT name, age FROM cell WHERE name = 'é4999'",
    "SELECT age FROM cell WHERE name IN ('é3', 'nope', 'é77', 'é3') ORDER BY age",
    "SELECT name FROM cell WHERE barcode IN ('code 7', 'code 8code 8code 8') AND age > 10 ORDER BY name",
]


def test_the_rows_are_the_same(path: Path) -> None:
    """With and without; in a directory and in an archive."""
    expected = [connect(path).sql(query).to_pydict() for query in QUERIES]
    for _ in range(2):  # one that fits stays, also in an archive, which could not replace it
        with reopen(path) as daf:
            assert build_index(daf, "cell") == ["name", "barcode"]
    session = connect(path)
    assert [session.sql(query).to_pydict() for query in QUERIES] == expected
    assert expected[0] == {"name": ["é4999"], "age": [4999]}
    explanation = session.explain_analyze(QUERIES[1])
    assert explanation.scans[0].index_rows == 2
    assert explanation.scans[0].values["age"] == 2
    assert "index    left 2 rows" in str(explanation)
    assert [f for f in verify(path) if f.level == "error"] == []
    with open_daf(path) as reader:
        assert reader.axes_set() == {"cell"}


def test_a_look_up_decodes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The strings of a few rows are read one by one out of the mapped chunk."""
    with reopen(path) as daf:
        build_index(daf, "cell")

    session = connect(path)
    monkeypatch.setattr(strings, "decode_vlen_utf8", None)
    assert session.sql(QUERIES[0]).to_pydict() == {"name": ["é4999"], "age": [4999]}
    query = "SELECT name FROM cell WHERE age > 4997 ORDER BY age"
    assert session.sql(query).to_pydict() == {"name": ["é4998", "é4999"]}


def test_a_stale_index_is_not_used(tmp_path: Path) -> None:
    """After the column was replaced, by this software or any other; the answer is the new one."""
    path = tmp_path / "x.daf.zarr"
    daf = data_set(create(path), cell={"name": 100, "code": [f"x{i:03}" for i in range(100)]})
    time.sleep(0.15)
    build_index(daf, "cell")
    session = connect(daf)
    query = "SELECT name FROM cell WHERE code = 'x007'"
    assert session.explain_analyze(query).scans[0].index_rows == 1
    daf.set_vector("cell", "code", [f"x{99 - i:03}" for i in range(100)], if_exists="replace")
    assert session.sql(query).to_pydict() == {"name": ["c92"]}
    assert session.explain_analyze(query).scans[0].index_rows is None
    time.sleep(0.15)
    assert session.sql(query).to_pydict() == {"name": ["c92"]}
    assert build_index(daf, "cell", ["code"]) == ["code"]
    assert session.explain_analyze(query).scans[0].index_rows == 1
    chunk = path / "vectors/cell/code/0"
    data = chunk.read_bytes()
    # Another program, in place, of the same length.
    chunk.write_bytes(data.replace(b"x007", b"x___"))
    os.utime(chunk, ns=(time.time_ns() + 10**9, time.time_ns() + 10**9))
    fresh = connect(path)
    assert fresh.sql("SELECT name FROM cell WHERE code = 'x___'").to_pydict() == {"name": ["c92"]}
    daf.reorder_axis("cell", np.arange(100)[::-1], progress="never")
    query = "SELECT index FROM cell WHERE name = 'c3'"
    assert connect(path).sql(query).to_pydict() == {"index": [96]}


def test_a_fragment_of_an_index_and_another_filter(path: Path) -> None:
    """The rows that an index left out for one filter are there for another."""
    with reopen(path) as daf:
        build_index(daf, "cell")
    table = connect(path).table("cell")
    only = pc.field("name") == "é7"
    fragments = list(table.get_fragments(only))
    assert sum(f.to_table(filter=only).num_rows for f in fragments) == 1
    found = sum(f.to_table(columns=["age"]).num_rows for f in fragments)
    assert found == sum(part.size for f in fragments for _, part in f.pieces)


MADE: dict[str, dict[str, Any]] = {
    "x.daf.zarr": {},
    "x.daf.zarr.zip": {},
    "v3.daf.zarr": {"zarr_format": 3},
    "packed.daf.zarr": {"packed": Packing(chunk_kb=8)},
    "x.h5df": {},
}


def fill(daf: DafWriter) -> None:
    """Set vectors of several types: random, with NaN, infinite, near the limits, and sparse."""
    rng = np.random.default_rng(1)
    f = rng.random(N)
    f[rng.integers(0, N, 300)] = np.nan
    f[:4] = [0.0, -0.0, np.inf, -np.inf]
    x = np.round(rng.random(N) * 100, 1).astype("f4")
    x[5], x[6] = np.nan, np.inf
    columns = {
        "u": rng.integers(0, 256, N).astype("u1"),
        "f": f,
        "big": np.uint64(2**64 - 1) - rng.integers(0, 100_000, N).astype("u8"),
        "x": x,
        "y": np.round(rng.random(N) * 50, 1),
        "sparse": scipy.sparse.csc_array((rng.random(N) < 0.01).astype("i2")[:, None] * 5),
        "code": [f"é{n}" for n in rng.integers(0, 200, N)],
    }
    data_set(daf, cell={"name": N, **columns})


@pytest.fixture(params=[*MADE, "memory"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> DafWriter:
    """Return a new data set of every format."""
    name = request.param
    return MemoryDaf() if name == "memory" else open_daf(tmp_path / name, "w", **MADE[name])


def test_rows_found_by_indexes_are_the_same(empty: DafWriter) -> None:
    """In every format, of every type, at the borders of ranges, with NaN and the infinities."""
    pytest.importorskip("geoindex_rs")
    fill(numbers := empty)
    random_ones = Conditions(connect(numbers).table("cell").to_table(), 5)
    box = "x BETWEEN 10 AND 12 AND y BETWEEN 3 AND 4"
    of_columns = [random_ones.of_columns(depth=1) for _ in range(40 // every(4))]
    conditions = [box, f"{box} AND u < 100", *of_columns]
    queries = [f"SELECT index FROM cell WHERE {where} ORDER BY index" for where in conditions]
    expected = [connect(numbers).sql(query).to_pydict() for query in queries]
    names = ["name", "u", "f", "big", "code", "sparse", "x"]
    assert build_index(numbers, "cell", names) == names
    assert build_point_index(numbers, "cell", "x", "y") == N
    indexed = connect(numbers)
    assert [indexed.sql(query).to_pydict() for query in queries] == expected
    for condition, used in {
        "u = 7": [],
        "code = 'é7' AND u IN (7, 8)": ["code"],
        box: ["x, y"],
        "x > 10 AND y BETWEEN 3 AND 4": [],  # open at a side
        "x BETWEEN 0 AND 99 AND y BETWEEN 0 AND 49": [],  # more points than are worth it
    }.items():
        scans = indexed.explain_analyze(f"SELECT index FROM cell WHERE {condition}").scans
        assert [scan.indexes for scan in scans] == [used], condition
    query = "SELECT f FROM cell WHERE x > 10.0 AND x < 12 AND y > 3.0 AND y < 4"
    assert indexed.explain_analyze(query).rows < 100


def test_a_look_up_reads_its_rows_alone(tmp_path: Path) -> None:
    """The filter looks at what the index names; so many that a scan is faster are scanned."""
    path = tmp_path / "x.daf.zarr"
    daf = data_set(create(path), cell=[str(i) for i in range(N)])
    daf.set_vector("cell", "code", [f"rare {i}" if i < 3 else "common" for i in range(N)])
    daf.set_vector("cell", "score", np.arange(N) / 7)
    build_index(daf, "cell", ["code"])
    session = connect(path)
    query = "SELECT score FROM cell WHERE code IN ('rare 0', 'rare 2')"
    explanation = session.explain_analyze(query)
    assert explanation.scans[0].values == {"code": 2, "score": 2}
    assert explanation.scans[0].indexes == ["code"]
    explanation = session.explain_analyze(f"{query} AND code IN ('rare 2', 'rare 1')")
    assert explanation.scans[0].index_rows == 1  # of both conditions
    explanation = session.explain_analyze("SELECT score FROM cell WHERE code = 'common'")
    assert explanation.scans[0].indexes == []
    assert explanation.rows == N - 3


def test_stored_ranges_are_there_from_the_first_query(tmp_path: Path) -> None:
    """What is outside of them is not read, in a session that has read nothing yet."""
    n = 3 * ZONE_ROWS
    path = tmp_path / "x.daf.zarr"
    daf = data_set(create(path), cell=[str(i) for i in range(n)])
    daf.set_vector("cell", "batch", np.arange(n) // 10)
    query = "SELECT count(*) AS n FROM cell WHERE batch > 100000"
    assert connect(path).explain_analyze(query).scans[0].rows_pruned == 0
    assert build_index(daf, "cell", []) == []
    assert build_index(daf, "cell") == ["name"]
    explanation = connect(path).explain_analyze(query)
    assert [scan for scan in explanation.scans if scan.read] == []
    assert explanation.plan
    daf.set_vector("cell", "batch", np.arange(n), if_exists="replace")
    assert connect(path).sql(query).to_pydict() == {"n": [n - 100001]}


def test_a_copied_directory_keeps_its_indexes(path: Path, tmp_path: Path) -> None:
    """The times of its files differ, the contents do not."""
    with reopen(path) as daf:
        build_index(daf, "cell", ["barcode"])
    other = tmp_path / "other"
    shutil.copytree(tmp_path, other, copy_function=shutil.copyfile, ignore=lambda *_: [other.name])
    query = "SELECT age FROM cell WHERE barcode = 'code 6'"
    assert connect(other / path.name).explain_analyze(query).scans[0].indexes == ["barcode"]


def test_points_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``daf index --points``, with and without other vectors."""
    pytest.importorskip("geoindex_rs")
    path = tmp_path / "x.daf.zarr"
    fill(create(path))
    assert main(["index", str(path), "cell", "--points", "x", "y"]) == 0
    assert "indexed the points (x, y) of axis cell" in capsys.readouterr().out
    assert main(["index", str(path), "cell", "u", "--points", "x", "y"]) == 0
    assert "indexed u, the points (x, y) of axis cell" in capsys.readouterr().out
    assert [f for f in verify(path) if f.level == "error"] == []


@pytest.mark.sampled(2)
def test_random_changes_indexes_and_queries(empty: DafWriter) -> None:
    """Whatever was replaced after an index was built, the rows are those that DuckDB finds."""
    pytest.importorskip("geoindex_rs")
    options = ScanOptions(index_divisor=2, sparse_divisor=3)
    made, is_fixed = empty, empty.is_append_only
    seed = len(made.description())
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    n = 800

    def vector(column: str) -> Any:
        if column == "s":
            return [f"t{x}" for x in numbers.integers(0, rng.choice([5, n]), n)]
        if column == "i":
            return numbers.integers(-5, 60, n).astype(rng.choice(["i1", "i4", "i8"]))
        values = np.round(numbers.random(n) * 30, 1)
        values[numbers.integers(0, n, 20)] = np.nan
        return values

    made.add_axis("cell", [f"c{i}" for i in range(n)])
    for column in "figs":
        made.set_vector("cell", column, vector(column))
    session = connect(made, cache_bytes=rng.choice([0, 1 << 28]), scan_options=options)
    for _ in range(24 // every(4)):
        if rng.random() < 0.4 and not is_fixed:
            column = rng.choice("figs")
            made.set_vector("cell", column, vector(column), if_exists="replace")
        if rng.random() < 0.5 and not is_fixed:
            build_index(made, "cell", rng.sample(["name", "f", "i", "s"], 2))
            build_point_index(made, "cell", "f", "g")
        connection = duckdb.connect()
        connection.register("whole", session.table("cell").to_table())
        random_ones = Conditions(session.table("cell").to_table(), rng.randrange(1 << 30))
        for number in range(5):
            box = f"f > {number} AND f < {number + 2} AND g > 1 AND g < 4"
            condition = f"({random_ones.of_columns(depth=1)}) OR ({box})" if number else box
            query = f"SELECT count(*) AS n, sum(index) AS s FROM TABLE WHERE {condition}"
            rows = session.sql(query.replace("TABLE", "cell")).to_pylist()
            expected = connection.sql(query.replace("TABLE", "whole")).fetchall()
            assert str([tuple(row.values()) for row in rows]) == str(expected), condition


@pytest.mark.parametrize("n", [0, 1, 2])
def test_axes_of_few_entries(n: int) -> None:
    """None have no index, one and two have."""
    pytest.importorskip("geoindex_rs")
    daf = data_set(cell={"name": n, "x": np.arange(n) * 1.0, "y": np.arange(n)})
    assert build_index(daf, "cell", ["name", "x"]) == (["name", "x"] if n else [])
    assert build_point_index(daf, "cell", "x", "y") == n
    query = "SELECT name FROM cell WHERE x BETWEEN 0 AND 0.5 AND y BETWEEN -1 AND 3 AND name <> 'z'"
    assert connect(daf).sql(query).to_pydict() == {"name": ["c0"][:n]}


def test_one_name_is_not_taken_for_its_letters() -> None:
    """A string is the name of one vector, also where each of its letters is one."""
    daf = data_set(cell=["a", "b"])
    for name in ("a", "b", "ab"):
        daf.set_vector("cell", name, [1, 2])
    assert build_index(daf, "cell", "ab") == ["ab"]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_rows_of_an_index_are_counted_as_they_are_returned(
    path: Path, order: tuple[int, int, int]
) -> None:
    """However many other conditions there are, each of which leaves some of them."""
    with reopen(path) as daf:
        build_index(daf, "cell")
    conditions = ["age <> 20", "age > 10", "age < 50"]
    where = " AND ".join(conditions[number] for number in order)
    listed = ", ".join(f"'é{number}'" for number in range(60))
    query = f"SELECT count(*) AS n FROM cell WHERE name IN ({listed}) AND {where}"
    session = connect(path)
    assert session.explain_analyze(query).scans[0].indexes == ["name"]
    assert session.sql(query).to_pydict() == {"n": [38]}


def test_strings_whose_hashes_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found is compared."""
    few, real = np.uint64(1 << 58), indexes.hashes_of
    monkeypatch.setattr(indexes, "hashes_of", lambda strings: real(strings) // few)
    daf = data_set(cell={"name": N, "donor": [f"donor{i % 97}" for i in range(N)]})
    build_index(daf, "cell", ["donor"])
    query = "SELECT index FROM cell WHERE donor = 'donor7'"
    explanation = connect(daf).explain_analyze(query).scans[0]
    assert explanation.index_rows is not None
    assert connect(daf).sql(query).to_pydict() == {"index": [*range(7, N, 97)]}


def test_single_strings_of_a_chunk() -> None:
    """Each is found by the offset of one of sixteen; not where the chunk is not what it was."""
    strings = [*(f"é{'x' * (n % 5)}{n}" for n in range(40)), ""]
    chunk = memoryview(numcodecs.VLenUTF8().encode(np.array(strings, object)))
    arrays = indexes.arrays_of_strings(pa.array(strings))
    index = indexes.StringIndex("s", arrays, chunk)
    for positions in ([0], [15, 16, 17], [39, 0, 39, 40], list(range(40)), []):
        array = there(index.strings(np.array(positions, np.int64)))
        assert array.to_pylist() == [strings[n] for n in positions]
    assert indexes.StringIndex("s", arrays, None).strings(np.array([0])) is None
    for cut in (1, 5):
        assert indexes.StringIndex("s", arrays, chunk[: -4 - cut]).strings(np.array([39])) is None
