"""Tests of membership in a list as SQL has it, where Arrow evaluates the filter."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from daf_query.scan import evaluate, parse

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
    "known": ((~X.isin(pa.array(["a", None]))).is_valid(), "(x NOT IN ('a', NULL)) IS NOT NULL"),
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
