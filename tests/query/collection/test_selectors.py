"""Tests of rows= and columns= over several data sets: every form, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from daf_query import DafSession
from tests.query.collection.cases import RUNS, expected_of, session_of

ALL = list(expected_of(RUNS, "inner", 0).index)


@pytest.fixture(scope="module")
def db() -> DafSession:
    """Return a session of a collection of four data sets."""
    return session_of()


def chosen(db: DafSession, rows: Any) -> list[str]:
    """Return the data set and the name of each chosen row."""
    part = db.matrix("cell", "gene", "X", rows=rows)
    return [" ".join(pair) for pair in zip(part.datasets, part.rows, strict=True)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("age > 25", ["monday c", "monday d", "tuesday f"]),
        ("age > 25 ORDER BY age DESC", ["monday d", "tuesday f", "monday c"]),
        ("age < 10 ORDER BY donor LIMIT 2", ["monday a", "tuesday e"]),
        ("LIMIT 5", ["monday a", "monday b", "monday c", "monday d", "tuesday e"]),
        ("(dataset == 'friday') & (age > 10)", ["friday h"]),
        ("name = 'a'", ["monday a", "tuesday a"]),
        ("SELECT dataset, name FROM cell WHERE age > 30", ["monday d"]),
        ("SELECT dataset, index FROM cell ORDER BY age DESC LIMIT 2", ["monday d", "tuesday f"]),
        (
            "SELECT name FROM cell WHERE name IN ('h', 'b') ORDER BY name DESC",
            ["friday h", "monday b"],
        ),
        ([8, 0, 0], ["friday h", "monday a", "monday a"]),
        (slice(3, 6), ["monday d", "tuesday e", "tuesday a"]),
        (np.arange(9) % 4 == 1, ["monday b", "tuesday a"]),
        (["h", "b", "h"], ["friday h", "monday b", "friday h"]),
        ({"h", "b"}, ["monday b", "friday h"]),
        (pa.array(["g"]), ["friday g"]),
        (
            pd.Series([name == "e" for _, name in ALL], index=[name for _, name in ALL]),
            ["tuesday e"],
        ),
        ([("tuesday", "a"), ("monday", "a")], ["tuesday a", "monday a"]),
        (
            {("tuesday", "a"), ("monday", "b"), ("monday", "a")},
            ["monday a", "monday b", "tuesday a"],
        ),
        (pd.MultiIndex.from_tuples([("friday", "g")]), ["friday g"]),
        (pd.DataFrame({"dataset": ["tuesday"], "name": ["a"]}), ["tuesday a"]),
        (
            pl.DataFrame({"dataset": ["friday", "monday"], "index": [1, 2]}),
            ["friday h", "monday c"],
        ),
        (pa.table({"name": ["f", "c"]}), ["tuesday f", "monday c"]),
        ([], []),
    ],
)
def test_rows(db: DafSession, rows: Any, expected: list[str]) -> None:
    """Ties of an order come in the order of the data sets, whatever they are called."""
    assert chosen(db, rows) == expected


def test_the_result_of_a_query_chooses_rows(db: DafSession) -> None:
    """With the data set and the name or the position, in its order."""
    for query, expected in (
        (
            "SELECT dataset, name FROM cell ORDER BY age DESC, name LIMIT 2",
            ["monday d", "tuesday f"],
        ),
        ("SELECT dataset, index FROM cell WHERE age = 7", ["tuesday e"]),
    ):
        assert chosen(db, db.sql(query)) == expected


@pytest.mark.parametrize(
    ("columns", "join", "expected"),
    [
        (None, "inner", ["g1", "g2", "g4"]),
        (None, "outer", ["g0", "g1", "g2", "g3", "g4", "g6", "g5"]),
        ("is_odd", "inner", ["g1"]),
        ("is_odd", "outer", ["g1", "g3", "g5"]),
        ("is_odd ORDER BY rank DESC", "outer", ["g5", "g3", "g1"]),
        ("dataset = 'friday'", "outer", ["g1", "g2", "g4", "g5"]),
        ("SELECT name FROM gene WHERE rank > 2 ORDER BY rank DESC", "inner", ["g4"]),
        ("SELECT dataset, index FROM gene WHERE rank > 4", "outer", ["g6", "g5"]),
        (["g6", "g1"], "outer", ["g6", "g1"]),
        (["g4", "g1", "g4"], "inner", ["g4", "g1", "g4"]),
        (pd.DataFrame({"name": ["g2"]}), "inner", ["g2"]),
        ([True, False, True], "inner", ["g1", "g4"]),
        (pd.Series([True, False, True], index=["g1", "g2", "g4"]), "inner", ["g1", "g4"]),
        ([-1 + 2, 0], "inner", ["g2", "g1"]),
    ],
)
def test_columns(db: DafSession, columns: Any, join: Any, expected: list[str]) -> None:
    """A name is chosen if it is in any data set, and dropped if the join leaves it out."""
    assert list(db.matrix("cell", "gene", "X", columns=columns, join=join).columns) == expected


def test_parameters_are_bound(db: DafSession) -> None:
    """Those of rows and columns together, as of one data set."""
    chosen: Any = {"rows": "age > $age", "columns": "name IN $genes"}
    part = db.matrix("cell", "gene", "X", params={"age": 30, "genes": ["g1", "g2"]}, **chosen)
    assert part.shape == (1, 2)


def test_a_single_data_set_as_a_collection() -> None:
    """Is one like any other."""
    one = session_of({"monday": RUNS["monday"]})
    assert chosen(one, ["b"]) == ["monday b"]
    assert list(one.matrix("cell", "gene", "X").columns) == RUNS["monday"].genes
