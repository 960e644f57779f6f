"""Indexes of few distinct strings, in each format, beside the same without an index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from daf_query import DafSession, connect
from daf_query.index import build_index, hashes_of
from daf_storage import DafWriter, MemoryDaf, open_daf
from tests.random_conditions import Conditions

N = 40_000
DONORS = [f"donor{n}" for n in range(97)] + ["", "é"]
FORMS = ("x.daf.zarr", "x.daf.zarr.zip", "x.h5df", "packed.daf.zarr")


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


@pytest.mark.parametrize("seed", range(6))
def test_the_rows_are_those_without_an_index(
    session: DafSession, plain: DafSession, seed: int
) -> None:
    """Counted, returned and grouped, in a new session and in one that has answered before."""
    conditions = Conditions(plain.table("cell").to_table(columns=["donor", "age"]), seed)
    condition = conditions.of_columns(depth=1)
    for query in (
        f"SELECT count(*) AS n FROM cell WHERE {condition}",
        f"SELECT name, donor, age FROM cell WHERE {condition} ORDER BY index",
        f"SELECT age, count(*) AS n FROM cell WHERE {condition} GROUP BY age ORDER BY age",
    ):
        expected = plain.sql(query).to_arrow_table()
        for _ in range(2):
            assert session.sql(query).to_arrow_table().equals(expected)


def test_strings_whose_hashes_meet(monkeypatch: pytest.MonkeyPatch, plain: DafSession) -> None:
    """What is found is compared."""
    few = np.uint64(1 << 58)
    module = "daf_query.index._stored"
    monkeypatch.setattr(f"{module}.hashes_of", lambda strings: hashes_of(strings) // few)
    daf = MemoryDaf()
    fill(daf, indexed=True)
    query = "SELECT name FROM cell WHERE donor = 'donor7'"
    assert connect(daf).sql(query).to_arrow_table().equals(plain.sql(query).to_arrow_table())
