"""Tests of axes out of queries: entries, vectors and their types, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from daf_query import DafSession, connect
from daf_storage import DafWriter, MemoryDaf, open_daf
from tests.support import data_set

QUERY = (
    "SELECT type AS name, count(*) AS n, avg(score) AS mean, max(donor) AS donor, "
    "bool_and(age > 1) AS is_old FROM cell GROUP BY type ORDER BY n DESC"
)


def fill(daf: DafWriter) -> DafWriter:
    """Add cells of types."""
    data_set(daf, cell={"name": ["a", "b", "c", "d", "e"], "type": ["T", "B", "T", "T", "B"]})
    daf.set_vector("cell", "donor", ["N2", "N1", "N2", "N1", ""])
    daf.set_vector("cell", "age", [1, 2, 3, 4, 5])
    daf.set_vector("cell", "score", [0.5, np.nan, 1.5, 2.5, np.nan])
    return daf


@pytest.fixture
def daf() -> DafWriter:
    """Return a data set in memory."""
    return fill(MemoryDaf())


@pytest.mark.parametrize("suffix", ["daf.zarr", "daf.zarr.zip", "h5df"])
def test_a_group_axis(tmp_path: Path, suffix: str) -> None:
    """Of a GROUP BY, in the order of its rows, on the disk and in the tables at once."""
    path = tmp_path / f"x.{suffix}"
    fill(open_daf(path, "w")).close()
    with connect(path, mode="r+") as session:
        session.save_axis("type", QUERY)
        joined = "SELECT c.name, t.n FROM cell AS c JOIN type AS t ON c.type = t.name ORDER BY 1"
        assert session.sql(joined).to_pydict()["n"] == [3, 2, 3, 3, 2]
    with open_daf(path) as found:
        assert found.axis_entries("type").tolist() == ["T", "B"]
        assert found.get_np_vector("type", "n").dtype == np.int64
        names = ("n", "mean", "donor", "is_old")
        values = [found.get_np_vector("type", name).tolist() for name in names]
        assert str(values) == str([[3, 2], [1.5, np.nan], ["N2", "N1"], [False, True]])


def test_all_forms_of_rows_say_the_same(session: DafSession, daf: DafWriter) -> None:
    """A query with parameters, its result, and frames of Arrow, pandas and polars."""
    query = "SELECT type AS name, count(*) AS n FROM cell WHERE age > $least GROUP BY 1 ORDER BY 1"
    result = session.sql(query, params={"least": 1})
    session.save_axis("by_query", query, params={"least": 1})
    for name, rows in {
        "by_result": result,
        "by_arrow": result.to_arrow_table(),
        "by_pandas": result.to_pandas(),
        "by_polars": result.to_polars(),
        "by_index": result.to_pandas().set_index("name"),
    }.items():
        session.save_axis(name, rows)
        assert daf.axis_entries(name).tolist() == daf.axis_entries("by_query").tolist()
        assert daf.get_np_vector(name, "n").tolist() == [2, 2]


def test_replacing(session: DafSession, daf: DafWriter) -> None:
    """The old axis stays unless it is to be replaced; then its vectors and matrices go with it."""
    session.save_axis("type", QUERY)
    daf.set_matrix("cell", "type", "share", np.ones((5, 2)))
    session.save_axis("type", "SELECT donor AS name FROM cell GROUP BY 1", if_exists="replace")
    assert sorted(daf.axis_entries("type").tolist()) == ["", "N1", "N2"]
    assert daf.vectors_set("type") == set()
    session.save_axis("type", QUERY, if_exists="replace")
    assert daf.vectors_set("type") == {"n", "mean", "donor", "is_old"}
    assert not daf.matrices_set("cell", "type")
