"""Tests of filters that Spark pushes: exact, or given back."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from daf_query import connect
from daf_query.spark._filters import accepted, conjunction_of
from daf_storage import MemoryDaf

ROWS: list[dict[str, Any]] = [
    {"name": "a", "age": 3, "score": 0.5, "donor": "N1", "good": True},
    {"name": "b", "age": 200, "score": None, "donor": "", "good": False},
    {"name": "c", "age": 0, "score": -1.5, "donor": "N2", "good": True},
]


@pytest.fixture(scope="module")
def table() -> Any:
    """Return a table with a column of each sort."""
    daf = MemoryDaf()
    daf.add_axis("cell", [row["name"] for row in ROWS])
    daf.set_vector("cell", "age", np.array([row["age"] for row in ROWS], "u1"))
    scores = [np.nan if row["score"] is None else row["score"] for row in ROWS]
    daf.set_vector("cell", "score", np.array(scores, "f4"))
    daf.set_vector("cell", "donor", [row["donor"] for row in ROWS])
    daf.set_vector("cell", "good", [row["good"] for row in ROWS])
    return connect(daf).table("cell")


PUSHED = [
    (EqualTo(("age",), 200), "b"),
    (EqualTo(("donor",), ""), "b"),
    (EqualTo(("good",), True), "ac"),
    (Not(EqualTo(("good",), True)), "b"),
    (Not(EqualTo(("age",), 3)), "bc"),
    (Not(GreaterThan(("score",), 0.0)), "c"),
    (EqualNullSafe(("score",), None), "b"),
    (EqualNullSafe(("score",), 0.5), "a"),
    (GreaterThan(("age",), -1), "abc"),
    (GreaterThan(("age",), 1000), ""),
    (GreaterThanOrEqual(("score",), -1.5), "ac"),
    (LessThan(("score",), 0.5), "c"),
    (LessThanOrEqual(("name",), "b"), "ab"),
    (In(("age",), (3, 0, 7, 400)), "ac"),
    (In(("donor",), ("N1", None)), "a"),
    (Not(In(("donor",), ("N1", "N2"))), "b"),
    (IsNull(("score",)), "b"),
    (IsNotNull(("score",)), "ac"),
    (Not(IsNull(("score",))), "ac"),
]


@pytest.mark.parametrize(("given", "names"), PUSHED, ids=str)
def test_a_filter_that_is_taken_leaves_the_rows_that_spark_would(
    table: Any, given: Any, names: str
) -> None:
    """Also where a value is NULL, which no comparison and no negation of one is true for."""
    expressions, others = accepted([given], table.schema)
    assert others == []
    rows = table.to_table(columns=["name"], filter=conjunction_of(expressions))
    assert "".join(rows.column("name").to_pylist()) == names


@dataclass(frozen=True)
class Unheard:
    """A filter of a version to come."""

    attribute: tuple[str, ...]
    value: Any


GIVEN_BACK = [
    StringStartsWith(("donor",), "N"),
    StringContains(("donor",), "N"),
    Not(StringContains(("donor",), "N")),
    Not(EqualTo(("score",), 0.5)),
    EqualTo(("age",), 3.5),
    EqualTo(("age",), "3"),
    EqualTo(("age",), None),
    EqualTo(("donor",), 5),
    EqualTo(("good",), 1),
    EqualTo(("age",), True),
    EqualTo(("score",), float("nan")),
    EqualTo(("age",), dt.date(2020, 1, 1)),
    EqualTo(("unknown",), 3),
    EqualTo(("a", "b"), 3),
    In(("age",), (3, "x")),
    In(("age",), ()),
    Not(In(("donor",), ("N1", None))),
    Not(EqualNullSafe(("score",), 0.5)),
    GreaterThan(("age",), 1 << 70),
    Unheard(("age",), 3),
]


@pytest.mark.parametrize("given", GIVEN_BACK, ids=str)
def test_a_filter_that_may_mean_something_else_is_given_back(table: Any, given: Any) -> None:
    """The very object, as Spark wants it."""
    expressions, others = accepted([given, IsNull(("score",))], table.schema)
    assert len(expressions) == 1
    assert others[0] is given
