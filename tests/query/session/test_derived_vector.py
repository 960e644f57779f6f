"""Tests of vectors out of queries: values, order, types, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from daf_query import DafSession
from daf_storage import DafWriter
from tests.support import data_set


@pytest.fixture
def daf() -> DafWriter:
    """Return cells of donors."""
    daf = data_set(cell=["a", "b", "c", "d"], donor=["N1", "N2"])
    daf.set_vector("cell", "donor", ["N2", "N1", "N2", "N1"])
    daf.set_vector("cell", "age", [1, 2, 3, 4])
    daf.set_vector("cell", "score", [0.5, np.nan, 1.5, 2.5])
    daf.set_vector("donor", "sex", ["f", "m"])
    return daf


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
