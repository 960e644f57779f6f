"""Indexes of few distinct strings: what they find need not be compared again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daf_query import DafSession, connect
from daf_query.index import build_index, hashes_of
from daf_query.index._sorted_index import StringIndex
from daf_query.index._string_hash import hash_of
from daf_query.scan import MAX_SINGLE_STRINGS, Compare, ScanOptions, plan_scan
from daf_query.table import AxisDataset
from daf_storage import DafWriter, MemoryDaf, open_daf
from daf_storage.upkeep import IndexPlace, IndexStorage

N = 40_000
DONORS = [f"donor{n}" for n in range(97)] + ["", "é"]
FORMS = ("x.daf.zarr", "x.daf.zarr.zip", "x.h5df", "packed.daf.zarr")
CONDITIONS = (
    "donor = 'donor7'",
    "donor IN ('donor1', 'é', 'nobody')",
    "donor = 'nobody'",
    "donor = ''",
    "donor IS NULL",
    "donor <> 'donor7'",
    "donor NOT IN ('donor7', 'é')",
    "donor = 'donor7' AND age > 50",
    "donor = 'donor7' AND name < 'c2'",
    "donor = 'donor7' AND donor <> 'donor7'",
    "donor = 'donor7' OR age = 3",
    "donor = 'donor7' AND (donor = 'donor7' OR age > 3)",
    "donor IN ('donor1', 'donor2') AND donor IN ('donor2', 'donor3')",
)


def fill(daf: DafWriter, *, indexed: bool = False) -> None:
    """Write an axis with a column of few distinct strings, some of them missing."""
    rng = np.random.default_rng(3)
    daf.add_axis("cell", [f"c{n}" for n in range(N)])
    donors = np.array(DONORS, dtype=object)[rng.integers(0, len(DONORS), N)]
    daf.set_vector("cell", "donor", donors, empty_is_missing=True)
    daf.set_vector("cell", "age", rng.integers(0, 100, N))
    if indexed:
        build_index(daf, "cell", ["donor"])


@pytest.fixture(scope="module", params=FORMS)
def session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DafSession]:
    """Return a session over an indexed data set of each format."""
    path = tmp_path_factory.mktemp("exact") / request.param
    options: Any = {"packed": True} if "packed" in request.param else {}
    with open_daf(path, "w", **options) as daf:
        assert isinstance(daf, DafWriter)
        fill(daf, indexed=True)
    with connect(path) as session:
        yield session


@pytest.fixture(scope="module")
def plain() -> DafSession:
    """Return a session over the same without an index."""
    daf = MemoryDaf()
    fill(daf)
    return connect(daf)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_rows_are_those_without_an_index(
    session: DafSession, plain: DafSession, condition: str
) -> None:
    """Counted, returned and grouped, in a new session and in one that has answered before."""
    for query in (
        f"SELECT count(*) AS n FROM cell WHERE {condition}",
        f"SELECT name, donor, age FROM cell WHERE {condition}",
        f"SELECT age, count(*) AS n FROM cell WHERE {condition} GROUP BY age ORDER BY age",
    ):
        expected = plain.sql(query).to_arrow_table()
        for _ in range(2):
            assert session.sql(query).to_arrow_table().equals(expected)


def test_what_an_index_settles_is_not_compared(tmp_path: Path) -> None:
    """A first query reads no strings but a few of those that it finds, and decodes none."""
    path = tmp_path / "x.daf.zarr"
    with open_daf(path, "w") as daf:
        assert isinstance(daf, DafWriter)
        fill(daf, indexed=True)
    with open_daf(path) as daf:
        table = AxisDataset(daf, "cell").open_table()
        plan = plan_scan(table, Compare("donor", "==", "donor7"))
        assert not plan.conditions
        assert plan.rows is not None
        assert list(plan.indexes) == ["donor"]
        for unsettled in ("", "nobody"):
            other = Compare("donor", "!=", unsettled)
            assert plan_scan(table, other).conditions == [other]
    with connect(path) as session:
        query = "SELECT count(*) AS n FROM cell WHERE donor = 'donor7'"
        assert session.sql(query).to_pylist() == [{"n": plan.rows.size}]
        [scan] = session.explain_analyze(query).scans
        assert not scan.values
        assert scan.rows_in == scan.rows_out == plan.rows.size


def test_more_rows_than_are_read_one_by_one(
    tmp_path: Path, plain: DafSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are searched where they are stored; the whole column is not decoded for them."""
    path = tmp_path / "x.daf.zarr"
    with open_daf(path, "w") as daf:
        assert isinstance(daf, DafWriter)
        fill(daf, indexed=True)
    monkeypatch.setattr(StringIndex, "settled", lambda *_: [])
    options = ScanOptions(min_searched_strings=1, string_index_divisor=2)
    with connect(path, scan_options=options) as session:
        monkeypatch.setattr(
            "daf_storage.data.StoredVector.read_strings", lambda _: pytest.fail("all were decoded")
        )
        names = ", ".join(f"'donor{n}'" for n in range(10))
        query = f"SELECT count(*) AS n FROM cell WHERE donor IN ({names})"
        [row] = session.sql(query).to_pylist()
        assert row == plain.sql(query).to_pylist()[0]
        assert row["n"] > MAX_SINGLE_STRINGS


def test_strings_whose_hashes_meet(monkeypatch: pytest.MonkeyPatch, plain: DafSession) -> None:
    """Then a hash is not of one string, and what is found is compared."""
    few = np.uint64(1 << 58)
    monkeypatch.setattr(
        "daf_query.index._build.hashes_of", lambda strings: hashes_of(strings) // few
    )
    monkeypatch.setattr(
        "daf_query.index._sorted_index.hash_of", lambda string: hash_of(string) // int(few)
    )
    daf = MemoryDaf()
    fill(daf, indexed=True)
    stored = IndexStorage(daf).load(IndexPlace("cell", "lookup", ("donor",)))
    assert stored is not None
    assert "exact" not in stored.arrays
    query = "SELECT name FROM cell WHERE donor = 'donor7'"
    assert connect(daf).sql(query).to_arrow_table().equals(plain.sql(query).to_arrow_table())


def test_a_string_that_is_not_there_with_the_hash_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rows that have the hash tell that they are of another string."""
    daf = MemoryDaf()
    fill(daf, indexed=True)

    def hash_of_another(string: str) -> int:
        return hash_of("donor7" if string == "nobody" else string)

    monkeypatch.setattr("daf_query.index._sorted_index.hash_of", hash_of_another)
    session = connect(daf)
    for asked, count in (("donor = 'nobody'", 0), ("donor IN ('nobody', 'nemo')", 0)):
        query = f"SELECT count(*) AS n FROM cell WHERE {asked}"
        assert session.sql(query).to_pylist() == [{"n": count}]


def test_indexes_of_many_distinct_strings_say_nothing_of_it() -> None:
    """Each of their rows is read, which is one or few."""
    daf = MemoryDaf()
    daf.add_axis("cell", [f"c{n}" for n in range(100)])
    build_index(daf, "cell", ["name"])
    stored = IndexStorage(daf).load(IndexPlace("cell", "lookup", ("name",)))
    assert stored is not None
    assert "exact" not in stored.arrays
