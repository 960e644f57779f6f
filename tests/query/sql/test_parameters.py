"""Tests of parameters: values arrive as they are, and nothing else does."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_query import DafSession, connect
from daf_query.sql import bind
from daf_storage import MemoryDaf
from tests.support import data_set

ENGINE = connect(MemoryDaf())
NAMES = ["plain", "it's", '"', "--", "/*", "$x", "?", "N\0L", "é\U0001f600", "\\n", "';--", ""]

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(),
    st.text(alphabet="'\"$?-/*\\;\0\n x"),
    st.binary(max_size=20),
    st.dates(),
    st.datetimes(),
)


@pytest.fixture
def session() -> DafSession:
    """Return a session with odd names."""
    daf = data_set(cell={"name": NAMES, "age": np.arange(len(NAMES)) - 3}, gene=["a", "b", "c"])
    daf.set_vector("cell", "score", [math.nan, *(np.arange(len(NAMES) - 1) / 7)])
    daf.set_matrix("cell", "gene", "UMIs", np.arange(3 * len(NAMES)).reshape(-1, 3))
    return connect(daf)


def _same(left: Any, right: Any) -> bool:
    is_nan = isinstance(left, float) and math.isnan(left)
    return (is_nan and math.isnan(right)) or (type(left) is type(right) and left == right)


@given(VALUES)
def test_any_value_comes_back_as_it_is(value: Any) -> None:
    """Booleans, 64 bits, NaN and infinity, odd strings, bytes, dates and timestamps; and NULL."""
    for query, params in (("SELECT $it AS it", {"it": value}), ("SELECT ? AS it", [value])):
        (row,) = ENGINE.sql(query, params=params).to_pylist()
        assert _same(row["it"], value)


@given(st.lists(st.one_of(st.text(alphabet="'\"$?-;\0 x", max_size=3), st.sampled_from(NAMES))))
def test_lists_are_those_of_in(values: list[str]) -> None:
    """The same rows as Python's own; of an empty one, none, and all for NOT IN."""
    db = connect(data_set(cell=NAMES))
    for written in ("$these", "($these)"):
        query = f"SELECT name FROM cell WHERE name {{}} {written} ORDER BY index"
        chosen = db.sql(query.format("IN"), params={"these": values})
        others = db.sql(query.format("NOT IN"), params={"these": set(values)})
        assert chosen.to_pydict()["name"] == [name for name in NAMES if name in values]
        assert others.to_pydict()["name"] == [name for name in NAMES if name not in values]


@pytest.mark.parametrize("kind", ["f4", "f8", "i4"])
@pytest.mark.parametrize("zero", [-0.0, 0.0, np.float32(-0.0)])
def test_a_zero_of_a_list_is_one_of_either_sign(kind: str, zero: float) -> None:
    """As in comparisons, whatever evaluates the condition: the engine tells the zeros apart."""
    daf = data_set(cell={"name": list("abcd"), "x": np.array([0.0, -0.0, 5.0, 8.0], kind)})
    session = connect(daf)
    params = {"values": [zero, 5.5, 6.5, 8.0]}
    for end in ("", " AND random() < 2", " OR random() > 2"):
        for said, names in (("IN", ["a", "b", "d"]), ("NOT IN", ["c"])):
            query = f"SELECT name FROM cell WHERE (x {said} $values){end} ORDER BY name"
            assert session.sql(query, params=params).to_pydict()["name"] == names, query


@pytest.mark.parametrize(
    "values",
    [
        np.array([1, 3]),
        pd.Series([1, 3]),
        pl.Series([1, 3]),
        pa.array([1, 3]),
        pa.chunked_array([[1], [3]]),
        {1, 3},
        (np.int8(1), pa.scalar(3)),
    ],
)
def test_lists_of_other_libraries(session: DafSession, values: Any) -> None:
    """Whatever holds values is a list."""
    query = "SELECT age FROM cell WHERE age IN $ages ORDER BY age"
    assert session.sql(query, params={"ages": values}).to_pydict() == {"age": [1, 3]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.1), float(np.float32(0.1))),
        (Decimal("-0.10"), -0.1),
        (Decimal("Infinity"), math.inf),
        (Decimal(2**53), Decimal(2**53)),
        (pa.scalar(Decimal("-12345678901234567.89")), Decimal("-12345678901234567.89")),
        (np.bool_(True), True),
        (np.str_("a'b"), "a'b"),
        (np.datetime64("2024-02-03"), dt.date(2024, 2, 3)),
        (np.datetime64("2024-02-03T04:05:06.000007"), dt.datetime(2024, 2, 3, 4, 5, 6, 7)),  # noqa: DTZ001
        (np.datetime64("NaT"), None),
        (pd.NaT, None),
        (pd.Timestamp("2024-02-03T04:05:06.123456789"), pd.Timestamp("2024-02-03T04:05:06.123456789")),
        (
            dt.datetime(2024, 2, 3, 4, tzinfo=dt.timezone(dt.timedelta(hours=3))),
            dt.datetime(2024, 2, 3, 1, tzinfo=dt.timezone.utc),  # noqa: UP017
        ),
    ],
)  # fmt: skip
def test_values_of_other_libraries(value: Any, expected: Any) -> None:
    """Numpy's, Arrow's and pandas'; time zones become UTC."""
    assert ENGINE.sql("SELECT ? AS it", params=[value]).to_pylist()[0]["it"] == expected


def test_what_is_no_parameter() -> None:
    """Marks in strings, quoted names and comments stay."""
    query = """SELECT '$x ?' AS "$x ?", $$?$$ AS s /* $y ? */, $x AS x -- $z ?"""
    assert ENGINE.sql(query, params={"x": 5}).to_pylist() == [{"$x ?": "$x ?", "s": "?", "x": 5}]
    assert bind("SELECT 1", None) == bind("SELECT 1", []) == bind("SELECT 1", {}) == "SELECT 1"


@pytest.mark.parametrize("name", NAMES)
def test_slices_by_values(session: DafSession, name: str) -> None:
    """Both predicates of a matrix share the values; each is used by one of them at least."""
    chosen: Any = {"rows": "name = $name", "columns": "name IN $genes"}
    params = {"name": name, "genes": ["c", "a"]}
    part = session.matrix("cell", "gene", "UMIs", params=params, **chosen)
    assert (part.rows.tolist(), part.columns.tolist()) == ([name], ["a", "c"])
    by_position = session.matrix("cell", "gene", "UMIs", rows="name = ?", params=[name])
    assert by_position.rows.tolist() == [name]
