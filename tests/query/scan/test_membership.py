"""Tests of membership in a list as SQL has it, where Arrow evaluates the filter."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from daf_query import connect
from daf_query.scan import evaluate, parse
from daf_storage import MemoryDaf

TABLE = pa.table({"x": ["a", "b", None, ""], "y": ["a", "c", "d", None], "n": [1, 2, None, 4]})
X, Y, NULL = pc.field("x"), pc.field("y"), pa.scalar(None, pa.string())

CASES: dict[str, tuple[Any, str]] = {
    "in": (X.isin(["a"]), "x IN ('a')"),
    "not in": (~X.isin(["a"]), "x NOT IN ('a')"),
    "with a null": (X.isin(pa.array(["a", None])), "x IN ('a', NULL)"),
    "not with a null": (~X.isin(pa.array(["a", None])), "x NOT IN ('a', NULL)"),
    "two columns": (~X.isin(["a"]) & (X != Y), "x NOT IN ('a') AND x <> y"),
    "or": (~X.isin(["a"]) | (X < Y), "x NOT IN ('a') OR x < y"),
    "not and": (~(X.isin(["a", "b"]) & (X == Y)), "NOT (x IN ('a', 'b') AND x = y)"),
    "null": (~X.isin(["a"]) | X.is_null(), "x NOT IN ('a') OR x IS NULL"),
    "valid": (X.isin(["b"]) & Y.is_valid(), "x IN ('b') AND y IS NOT NULL"),
    "bounds": (~X.isin(["z"]) & (X > "") & (X <= "b"), "x NOT IN ('z') AND x > '' AND x <= 'b'"),
    "bounds of columns": (~X.isin(["z"]) & (X >= Y), "x NOT IN ('z') AND x >= y"),
}


@pytest.mark.parametrize("name", CASES)
def test_rows_are_those_of_sql(name: str) -> None:
    """Also under a negation, and with a null in the list."""
    expression, condition = CASES[name]
    oracle = TABLE
    columns = {name: oracle[name].combine_chunks() for name in oracle.column_names}
    mask = evaluate(parse(expression, oracle.schema), columns.__getitem__, len(oracle))
    found = oracle.filter(pa.array(mask)).to_pylist()
    expected = duckdb.sql(f"SELECT * FROM oracle WHERE {condition}").fetchall()
    assert [tuple(row.values()) for row in found] == expected


@pytest.mark.parametrize(
    "condition",
    [
        "x NOT IN (1, 3, 5, 6, 7) OR y > x",
        "NOT (x IN (1, 3, 5, 6, 7) AND y <> x)",
        "(x NOT IN (1, 3, 5, 6, 7) AND y >= x) OR name = 'D'",
    ],
)
def test_not_in_beside_a_comparison_of_columns(condition: str) -> None:
    """The engine hands over the whole condition, and Arrow evaluates it."""
    daf = MemoryDaf()
    daf.add_axis("cell", list("ABCDEF"))
    x, y = np.array([1.0, np.nan, 3.0, 4.0, 9.0, 1.0]), np.array([1.0, 2.0, 3.0, 4.0, 9.0, 7.0])
    daf.set_vector("cell", "x", x)
    daf.set_vector("cell", "y", y)
    oracle = pa.table({"name": list("ABCDEF"), "x": pa.array(x, from_pandas=True), "y": y})
    expected = duckdb.sql(f"SELECT name FROM oracle WHERE {condition}").fetchall()
    found = connect(daf).sql(f"SELECT name FROM cell WHERE {condition} ORDER BY name")
    assert [tuple(row.values()) for row in found.to_pylist()] == expected
    assert len(oracle) == 6
