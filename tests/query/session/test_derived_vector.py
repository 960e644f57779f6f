"""Tests of vectors out of queries: values, order, types, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from daf_query import DafSession, connect
from daf_storage import DafWriter, IfExists, MemoryDaf, ZarrDaf, errors
from tests.support import create


@pytest.fixture
def daf() -> DafWriter:
    """Return cells of donors."""
    daf = MemoryDaf()
    daf.add_axis("cell", ["a", "b", "c", "d"])
    daf.add_axis("donor", ["N1", "N2"])
    daf.set_vector("cell", "donor", ["N2", "N1", "N2", "N1"])
    daf.set_vector("cell", "age", [1, 2, 3, 4])
    daf.set_vector("cell", "score", [0.5, np.nan, 1.5, 2.5])
    daf.set_vector("donor", "sex", ["f", "m"])
    return daf


@pytest.fixture
def session(daf: DafWriter) -> DafSession:
    """Return a session."""
    return connect(daf)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("age * 2", [2, 4, 6, 8]),
        ("age > 2 AND donor = 'N1'", [False, False, False, True]),
        ("score + 1", [1.5, math.nan, 2.5, 3.5]),
        ("upper(name) || '-' || donor", ["A-N2", "B-N1", "C-N2", "D-N1"]),
        ("SELECT name, 10 - age AS x FROM cell ORDER BY age DESC", [9, 8, 7, 6]),
        ("SELECT age + 1 AS x, index FROM cell ORDER BY donor", [2, 3, 4, 5]),
        (
            "SELECT c.name, d.sex FROM cell AS c JOIN donor AS d ON c.donor = d.name",
            ["m", "f", "m", "f"],
        ),
        (
            "SELECT name, rank() OVER (PARTITION BY donor ORDER BY age) AS r FROM cell",
            [1, 1, 2, 2],
        ),
        ("CAST(age AS FLOAT)", [1.0, 2.0, 3.0, 4.0]),
    ],
)
def test_values(session: DafSession, daf: DafWriter, query: str, expected: list[object]) -> None:
    """Of an expression or a SELECT, in the order of the axis whatever that of the rows is."""
    session.save_vector("cell", "new", query)
    assert str(daf.get_np_vector("cell", "new").tolist()) == str(expected)
    assert session.sql("SELECT count(new) AS n FROM cell").to_pydict()["n"][0] >= 3


def test_the_vector_of_another_axis(session: DafSession, daf: DafWriter) -> None:
    """What a GROUP BY says of each donor."""
    query = "SELECT donor AS name, count(*) AS cells FROM cell GROUP BY donor"
    session.save_vector("donor", "cells", query)
    assert daf.get_np_vector("donor", "cells").tolist() == [2, 2]
    session.save_vector("donor", "cells", "1", if_exists="replace")
    assert daf.get_np_vector("donor", "cells").tolist() == [1, 1]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "the query is empty"),
        ("nope > 3", "has no vector 'nope'"),
        ("age >", "syntax error in the expression"),
        (
            "SELECT name, age FROM cell WHERE age > 1",
            "lacks 1 of 4 entries .* first is 'a'; a LEFT",
        ),
        (
            "SELECT name, age FROM cell UNION ALL SELECT name, age FROM cell",
            "more than one row for 4 of 4 entries .* GROUP BY its name",
        ),
        ("SELECT name FROM cell", "needs one column of values"),
        ("SELECT name, age, score FROM cell", "the query yields name, age, score"),
        ("SELECT age FROM cell", "has to yield the column 'name' or 'index'"),
        ("SELECT 'zz' AS name, 1 AS x", "'zz'"),
        ("nullif(age, 2)", "yields NULL for 1 entries .* coalesce"),
        ("CASE WHEN donor = 'N1' THEN '' END", "NULL for some entries .* and '' for others"),
        ("nullif(age > 1, true)", "yields NULL for 3 entries"),
        ("CAST('2020-01-01' AS DATE)", "cannot hold date32.*; CAST it"),
        ("SELECT name, [age] AS x FROM cell", "cannot hold list"),
    ],
)
def test_what_is_refused(session: DafSession, daf: DafWriter, query: str, message: str) -> None:
    """Each with what to do; nothing is stored."""
    with pytest.raises(errors.DafError, match=message):
        session.save_vector("cell", "new", query)
    assert not daf.has_vector("cell", "new")


def test_data_sets_that_cannot_be_written(tmp_path: Path, session: DafSession) -> None:
    """Opened for reading; a vector that is there; an axis that is not."""
    path = tmp_path / "x.daf.zarr"
    create(path).add_axis("cell", ["a"])
    with pytest.raises(errors.ReadOnlyError, match=r"mode 'r\+'"):
        connect(ZarrDaf(path)).save_vector("cell", "x", "1")
    with pytest.raises(errors.ExistsError, match='pass if_exists="replace" to replace it'):
        session.save_vector("cell", "age", "1")
    with pytest.raises(errors.AxisNotFoundError, match="cells"):
        session.save_vector("cells", "x", "1")


@pytest.mark.parametrize("if_exists", ["error", "replace"])
def test_what_is_no_vector(session: DafSession, if_exists: IfExists) -> None:
    """Names that each axis has, and values in place of a query; the messages say what to do."""
    with pytest.raises(errors.InvalidNameError, match="reserved.*choose another name"):
        session.save_vector("cell", "name", "upper(name)", if_exists=if_exists)
    with pytest.raises(
        errors.InvalidInputError, match=r"takes SQL, not ndarray; .* set_vector\(\)"
    ):
        session.save_vector("cell", "new", np.arange(4), if_exists=if_exists)  # type: ignore[arg-type]
