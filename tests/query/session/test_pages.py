"""Tests of what notebooks show of sessions, tables, results, slices and profiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp

from daf_query import DafSession, connect
from daf_storage import DafWriter, errors
from tests.support import data_set

HOSTILE = "<img src=x onerror=alert(1)>"


def _daf(name: str = "runs", cells: int = 3000) -> DafWriter:
    rng = np.random.default_rng(5)
    daf = data_set(name=name, cell=[f"{name}{n}" for n in range(cells)])
    daf.add_axis("gene", [HOSTILE, "CD8A", "CST3"])
    daf.set_vector("cell", "age", np.arange(cells))
    daf.set_vector("cell", "type", np.array([HOSTILE, "B"])[np.arange(cells) % 2])
    daf.set_matrix("cell", "gene", "X", sp.random_array((cells, 3), density=0.5, rng=rng))
    daf.set_matrix("cell", "gene", HOSTILE, np.ones((cells, 3)))
    return daf


@pytest.fixture(scope="module")
def db() -> DafSession:
    """Return a session of one data set, and a table."""
    return connect(_daf())


@pytest.fixture(scope="module")
def runs() -> DafSession:
    """Return a session of a collection."""
    return connect([_daf("page monday", 4), _daf("page tuesday", 3)])


def test_a_session_shows_its_data_sets_and_tables(db: DafSession, runs: DafSession) -> None:
    """Values of one, the lengths of several as one, and the names of tables."""
    page = db._repr_html_()
    assert "0 to 2,999" in page
    assert "3,000 entries" in page
    both = connect({"one": _daf("one", 5), "two": _daf("two", 6)})
    both.register(pd.DataFrame({"x": [1]}), "mine")
    days = ("page monday", "page tuesday", "<td>7</td>")
    for each, shown in (
        (both, ("one", "two", "tables: mine", "5 entries", "6 entries")),
        (runs, ("collection of 2 data sets", *days)),
    ):
        page = each._repr_html_()
        assert [words for words in shown if words not in page] == []


def test_nothing_hostile_is_markup(db: DafSession, runs: DafSession) -> None:
    """Names of axes, vectors, matrices and entries; values."""
    shown: list[Any] = [db, runs]
    shown += [each.table("cell") for each in (db, runs)]
    shown += [each.matrix("cell", "gene", HOSTILE) for each in (db, runs)]
    shown.append(db.sql(f'SELECT type, age AS "{HOSTILE}" FROM cell'))
    shown.append(db.profile("cell", "gene", "X", by="type"))
    for each in shown:
        page = each._repr_html_()
        assert "<img" not in page, repr(each)
        assert "<script" not in page
        assert "daf-view" in page
    query = f"SELECT name FROM cell WHERE type = '{HOSTILE}'"
    diagnosis = db.diagnose("cell", f"type = '{HOSTILE}'")
    for said in (diagnosis, db.explain(query), db.explain_analyze(query)):
        assert "&lt;img" in said._repr_html_()
        assert "<img" not in said._repr_html_()


def test_a_result_shows_its_first_rows(db: DafSession) -> None:
    """How many there are, as far as that is known; charts are of the first thousand."""
    few = db.sql("SELECT age, type FROM cell WHERE age < 4 ORDER BY age")._repr_html_()
    assert "4 rows" in few
    assert '<td class="number">3</td>' in few
    assert "▁" in few or "█" in few
    many = db.sql("SELECT age, type, NULL AS nothing FROM cell ORDER BY age")._repr_html_()
    assert "the first 10 of more than 1,000 rows; charts are of the first 1,000" in many
    assert many.count("<tr>") == 11
    assert many.count(">NULL</td>") == 10
    wide = ", ".join(f"age AS a{n}" for n in range(40))
    assert "10 more columns" in db.sql(f"SELECT {wide} FROM cell LIMIT 1")._repr_html_()
    none = db.sql("SELECT age FROM cell WHERE age < 0")._repr_html_()
    assert "0 rows" in none


def _odd_columns() -> dict[str, pa.Array]:
    """Return columns with values that Python has no object for, or that cannot be compared."""
    return {
        "far": pa.array([10_000_000, 1, None], pa.int32()).cast(pa.date32()),
        "farther": pa.array([10**12, 1, None], pa.int64()).cast(pa.timestamp("s")),
        "mars": pa.array([0, 1, None], pa.int64()).cast(pa.timestamp("ns", "Mars/Base")),
        "long": pa.array([10**18, 1, None], pa.int64()).cast(pa.duration("s")),
        "bytes": pa.array([b"a", b"b", None], pa.binary_view()),
        "lists": pa.DictionaryArray.from_arrays(pa.array([0, 0, None]), pa.array([[1]])),
        "close": pa.array([1234.1, 1234.2, None]),
    }


@pytest.mark.parametrize("name", _odd_columns())
def test_odd_values_are_shown(name: str) -> None:
    """As a string where Python has no object for one; the other columns are shown beside them."""
    session = connect(_daf("odd", 3))
    session.register(pa.table({"odd": _odd_columns()[name], "after": ["x", "y", "z"]}), "mine")
    shown = session.sql("SELECT * FROM mine")._repr_mimebundle_()
    assert "<td>z</td>" in shown["text/html"]
    assert "odd" in shown["text/plain"]
    wanted = {
        "far": "1970-01-02 to 29349-01-26",
        "farther": "out of range: 1000000000000",
        "long": "1000000000000000000",
        "close": "1234.1 to 1234.2",
    }
    assert wanted.get(name, "NULL") in shown["text/html"]


def test_an_error_of_the_rows_is_shown_once(db: DafSession) -> None:
    """In their place, as text and as a page: a notebook would show an error for each form."""
    result = db.sql(f"SELECT 1 / (age - age) AS x, '{HOSTILE}' AS y FROM cell")
    shown = result._repr_mimebundle_()
    title = "QueryError: SQL error at line 1, column 8: Divide by zero error"
    assert shown["text/plain"].startswith(title)
    assert title in shown["text/html"]
    assert "<img" not in result._repr_html_()
    with pytest.raises(errors.QueryError):
        result.to_pandas()


def test_a_closed_session_is_said(tiny_path: Path) -> None:
    """By its results and slices, which are shown all the same."""
    session = connect(tiny_path)
    shown: list[Any] = [session, session.sql("SELECT * FROM cell")]
    shown.append(session.matrix("cell", "gene", "UMIs"))
    session.close()
    for each in shown:
        assert "was closed" in each._repr_html_(), repr(type(each))
