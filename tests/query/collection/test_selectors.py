"""Tests of rows= and columns= over several data sets: every form, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from daf_query import DafSession, MatrixSlice
from daf_storage import errors
from tests.query.collection.cases import (
    RUNS,
    daf_of,
    expected_of,
    names_of,
    session_of,
    session_with,
)

ALL = list(expected_of(RUNS, "inner", 0).index)


@pytest.fixture(scope="module")
def db() -> DafSession:
    """Return a session of a collection of four data sets."""
    return session_of()


def chosen(db: DafSession, rows: Any) -> list[tuple[str, str]]:
    """Return the data set and the name of each chosen row."""
    part = db.matrix("cell", "gene", "X", rows=rows)
    assert isinstance(part, MatrixSlice)
    return list(zip(part.datasets, part.rows, strict=True))


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
    assert [" ".join(pair) for pair in chosen(db, rows)] == expected


def test_the_result_of_a_query_chooses_rows(db: DafSession) -> None:
    """With the data set and the name or the position, in its order."""
    result = db.sql("SELECT dataset, name FROM cell ORDER BY age DESC, name LIMIT 2")
    assert chosen(db, result) == [("monday", "d"), ("tuesday", "f")]
    assert chosen(db, db.sql("SELECT dataset, index FROM cell WHERE age = 7")) == [("tuesday", "e")]


@pytest.mark.parametrize(
    ("rows", "error", "match"),
    [
        (
            ["a"],
            errors.InvalidInputError,
            "'a' of axis 'cell' occurs in 2 data sets .monday, tuesday",
        ),
        (["zz"], errors.EntryNotFoundError, "no data set has an entry 'zz' on axis 'cell'"),
        ([9], errors.EntryNotFoundError, "from 0 to 8"),
        (np.ones(4, bool), errors.InvalidInputError, "9"),
        ("SELECT index FROM cell", errors.QueryError, "'index' counts within each of runs"),
        (
            "SELECT age FROM cell",
            errors.QueryError,
            "has to yield 'dataset' and 'index', or 'name'",
        ),
        ("SELECT NULL AS name FROM cell", errors.QueryError, "NULL as 'name' 9 times"),
        ("is_odd", errors.VectorNotFoundError, "pass this predicate as columns="),
        ("agee > 3", errors.VectorNotFoundError, "'age'"),
        ("h", errors.VectorNotFoundError, r"pass a list: rows=\['h'\]"),
        (" ", errors.QueryError, "empty predicate"),
        ("age >", errors.QueryError, "rows= on axis 'cell'"),
        ([("sunday", "a")], errors.NotFoundError, "no data set 'sunday' has the axis 'cell'"),
        ([("friday", "a")], errors.EntryNotFoundError, "'a'"),
        (
            pd.DataFrame({"dataset": ["friday"], "index": [2]}),
            errors.EntryNotFoundError,
            "from 0 to 1",
        ),
        (pd.DataFrame({"dataset": ["friday"], "index": ["x"]}), errors.QueryError, "not integers"),
    ],
)
def test_rows_that_are_refused(
    db: DafSession, rows: Any, error: type[Exception], match: str
) -> None:
    """By an error that names what there is instead."""
    with pytest.raises(error, match=match):
        chosen(db, rows)


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


@pytest.mark.parametrize(
    ("columns", "error", "match"),
    [
        (["g0"], errors.EntryNotFoundError, "friday, tuesday has no entry 'g0' .*join='outer'"),
        (["g77"], errors.EntryNotFoundError, "no data set has an entry 'g77' on axis 'gene'"),
        ("SELECT 'g77' AS name FROM gene", errors.EntryNotFoundError, "'g77'"),
        ("SELECT index FROM gene", errors.QueryError, "counts within each"),
        (pd.Series([True] * 3, index=list("abc")), errors.LabelsError, "not the entries"),
        ("age > 3", errors.VectorNotFoundError, "pass this predicate as rows="),
    ],
)
def test_columns_that_are_refused(
    db: DafSession, columns: Any, error: type[Exception], match: str
) -> None:
    """Also names that are listed, and that the join leaves out."""
    with pytest.raises(error, match=match):
        db.matrix("cell", "gene", "X", columns=columns)


def test_labels_of_a_mask_are_those_of_all(db: DafSession) -> None:
    """In the order of the union table."""
    mask = pd.Series([True] * 9, index=[name for _, name in ALL][::-1])
    with pytest.raises(errors.LabelsError, match="not the entries of axis 'cell'"):
        chosen(db, mask)


def test_parameters_are_bound(db: DafSession) -> None:
    """Those of rows and columns together, as of one data set."""
    part = db.matrix(
        "cell",
        "gene",
        "X",
        rows="age > $age",
        columns="name IN $genes",
        params={"age": 30, "genes": ["g1", "g2"]},
    )
    assert part.shape == (1, 2)


def test_a_single_data_set_as_a_collection() -> None:
    """Is one like any other."""
    one = session_with({"monday": daf_of("monday", RUNS["monday"])})
    assert chosen(one, ["b"]) == [("monday", "b")]
    assert names_of({"monday": RUNS["monday"]}, "inner") == list(
        one.matrix("cell", "gene", "X").columns
    )
