"""Tests of queries of a collection that read the metadata of the columns they name."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from daf_query import connect
from daf_storage import DafWriter, errors, open_daf
from tests import seams
from tests.support import data_set, recorded_calls

QUERIES = [
    "SELECT count(*) AS n FROM cell WHERE donor = 'd1' AND age > 40",
    "SELECT count(*) AS n FROM cell WHERE age > 40.5 OR score IS NULL",
    "SELECT count(*) AS n FROM runs.cell WHERE dataset NOT LIKE 'lane0%'",
    "SELECT name, age FROM cell WHERE donor IN ('d1', 'd2') ORDER BY name LIMIT 5",
    "SELECT donor, count(*) AS n, avg(age) AS a FROM cell GROUP BY donor ORDER BY donor",
    "SELECT max(age * 2) AS m, min(score) AS s FROM cell",
    'SELECT count(*) AS n FROM cell WHERE "two words" = 1',
    "SELECT dataset, upper(donor) AS d FROM cell WHERE donor LIKE 'd%' ORDER BY dataset, name",
    "SELECT count(DISTINCT donor) AS n FROM cell WHERE age BETWEEN 3 AND 70",
    "SELECT name FROM cell WHERE only_here > 0 ORDER BY name",
    "SELECT index FROM cell WHERE name = 'c3'",
    "SELECT * FROM cell WHERE age > 80 ORDER BY name",
    "SELECT name FROM (SELECT * FROM cell) WHERE age > 80 ORDER BY name",
    "SELECT a.name FROM cell a JOIN cell b ON a.name = b.name WHERE b.age > 80 ORDER BY a.name",
    "SELECT count(*) AS n FROM cell WHERE age > (SELECT avg(age) FROM cell)",
    "DESCRIBE cell",
    "DESCRIBE SELECT * FROM cell",
]


def members() -> list[DafWriter]:
    """Return data sets whose columns differ in types, and in what there is."""
    made = []
    for number in range(3):
        rows = np.arange(30 + number)
        cell = {
            "name": len(rows),
            "age": (rows * 3 % 90).astype("f4" if number == 1 else "i2"),
            "donor": [f"d{i % 4}" for i in rows],
            "score": np.linspace(0, 1, len(rows)),
            "two words": rows % 2,
        }
        made.append(data_set(name=f"lane{number}", cell=cell))
    made[2].set_vector("cell", "only_here", rows)
    return made


@pytest.mark.parametrize("source", [members()[2], members()], ids=["one", "collection"])
@pytest.mark.parametrize("query", QUERIES)
def test_answers_are_those_of_a_session_that_knows_all(
    query: str, source: DafWriter | list[DafWriter]
) -> None:
    """Types too, where columns of the data sets differ."""
    if "dataset" in query and isinstance(source, DafWriter):
        pytest.skip("of a collection")
    first, later = connect({"runs": source}), connect({"runs": source})
    later.sql("SELECT * FROM cell").to_arrow_table()
    assert first.sql(query).to_arrow_table().equals(later.sql(query).to_arrow_table())


@pytest.mark.parametrize("source", [members()[0], members()], ids=["one", "collection"])
def test_names_of_an_alias_are_by_place(source: DafWriter | list[DafWriter]) -> None:
    """So that a list of them means all columns of a table."""
    names = connect({"runs": source}).sql("SELECT * FROM cell").column_names
    listed = ", ".join(f"v{number}" for number in range(len(names)))
    age, score = names.index("age"), names.index("score")
    found = connect({"runs": source}).sql(
        f"SELECT v{age} AS a, v{score} AS b FROM cell t({listed}) ORDER BY 1, 2"
    )
    expected = connect({"runs": source}).sql("SELECT age AS a, score AS b FROM cell ORDER BY 1, 2")
    assert found.to_arrow_table().equals(expected.to_arrow_table())
    with pytest.raises(errors.QueryError, match=f"{len(names)} columns but only 3 names"):
        connect({"runs": source}).sql("SELECT score, age FROM cell AS t(age, x, score)")


def test_metadata_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of each name that a query is the first to need."""
    session = connect(members()[2])
    described = recorded_calls(monkeypatch, seams.AXIS_COLUMNS, lambda *_, among: among)
    for names in ("age", "donor", "age, donor", "donor AS d", "no", "score", "*", "only_here"):
        with suppress(errors.VectorNotFoundError):
            session.sql(f"SELECT {names} FROM cell LIMIT 1").to_pylist()
    assert described == [{"age", "dataset"}, {"donor"}, {"no"}, None]


def test_only_columns_that_are_named_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the first query; once another names others, only these are; what changed is read again."""
    runs = members()
    session = connect({"runs": runs})
    opened = recorded_calls(monkeypatch, seams.VECTOR_READER_FIND_VECTOR, lambda *call: call[2])
    assert session.sql(QUERIES[0]).to_pylist() == [{"n": 12}]
    assert set(opened) == {"donor", "age", "dataset"}  # and not the alias
    opened.clear()
    session.sql("SELECT count(*) AS n FROM cell WHERE age > 3 AND dataset <> 'x'").to_pylist()
    assert "score" not in opened
    opened.clear()
    runs[1].set_vector("cell", "donor", ["d1"] * 31, if_exists="replace")
    described = recorded_calls(monkeypatch, seams.AXIS_COLUMNS, lambda daf, *_, **__: daf.name)
    assert session.sql(QUERIES[0]).to_pylist() == [{"n": 24}]
    assert described == [runs[1].name]
    opened.clear()
    session.sql("SELECT count(*) AS n FROM cell WHERE score > 0").to_pylist()
    assert opened.count("score") <= 2 * len(runs)  # its metadata, and its values
    assert set(opened) == {"score"}
    opened.clear()
    session.sql("SELECT sum(only_here) AS n FROM cell").to_pylist()
    assert set(opened) == {"only_here"}
    opened.clear()
    session.sql("SELECT * FROM cell LIMIT 1").to_pylist()
    assert "two words" in opened


def test_what_changed_since_is_seen(tmp_path: Path) -> None:
    """A vector of another type, entries, and a vector that a data set lacked."""
    for number in range(3):
        with open_daf(tmp_path / f"run{number}.daf.zarr", "w") as daf:
            data_set(daf, cell={"name": ["A", "B", "C"], "age": np.array([1, 2, 3], "i4")})
            if number:
                daf.set_vector("cell", "late", [1, 1, 1])
    query = "SELECT count(*) AS n, sum(age) AS s, sum(late) AS l FROM cell WHERE age > 1"
    with connect(str(tmp_path / "*.daf.zarr")) as session:
        time.sleep(0.15)
        assert session.sql(query).to_pylist() == [{"n": 6, "s": 15, "l": 4}]
        with open_daf(tmp_path / "run0.daf.zarr", "r+") as daf:
            daf.set_vector("cell", "age", np.array([1.5, 2.5, 3.5]), if_exists="replace")
            daf.set_vector("cell", "late", [5, 5, 5])
        assert session.sql(query).to_pylist() == [{"n": 7, "s": 17.5, "l": 19}]
        with open_daf(tmp_path / "run1.daf.zarr", "w") as daf:
            data_set(daf, cell={"name": ["A", "B", "C", "D"], "age": np.array([0, 9, 9, 9], "i4")})
        assert session.sql(query).to_pylist() == [{"n": 8, "s": 7.5 + 27 + 5, "l": 17}]
