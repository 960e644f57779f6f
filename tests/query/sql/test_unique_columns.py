"""Tests of results with several columns of one name: none is lost, in any form."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from daf_query import DuplicateColumnsWarning, QueryResult, connect
from tests.support import data_set

JOIN = "SELECT * FROM cell c JOIN louvain l ON c.cluster = l.name ORDER BY c.index"
EXPECTED = {
    "name": ["A", "B", "C"],
    "index": [0, 1, 2],
    "cluster": ["t", "u", "t"],
    "name_1": ["x", "y", "z"],
    "name_2": ["t", "u", "t"],
    "index_1": [0, 1, 0],
    "color": ["red", "blue", "red"],
}


@pytest.fixture
def result() -> QueryResult:
    """Return a join of two axes, with a vector that is called like a renamed column."""
    daf = data_set(
        name="joined",
        cell={"name": ["A", "B", "C"], "cluster": ["t", "u", "t"], "name_1": ["x", "y", "z"]},
        louvain={"name": ["t", "u"], "color": ["red", "blue"]},
    )
    with pytest.warns(DuplicateColumnsWarning) as warned:
        found = connect({"joined": daf}).sql(JOIN)
    assert [warning.filename for warning in warned] == [__file__]
    return found


@pytest.mark.parametrize(
    "form",
    [
        lambda r: r.to_pydict(),
        lambda r: r.to_arrow_table().to_pydict(),
        lambda r: r.to_pandas().to_dict("list"),
        lambda r: r.to_pandas(arrow_backed=True).to_dict("list"),
        lambda r: r.to_polars().to_dict(as_series=False),
        lambda r: {k: [row[k] for row in r.to_pylist()] for k in r.to_pylist()[0]},
        lambda r: pa.Table.from_batches(r.collect()).to_pydict(),
        lambda r: pa.Table.from_batches(list(r.batches())).to_pydict(),
        lambda r: pa.table(r).to_pydict(),
        lambda r: pl.DataFrame(r).to_dict(as_series=False),
        lambda r: {n: list(v) for n, v in zip(r.to_duckdb().columns, zip(*r.to_duckdb().fetchall(), strict=True), strict=True)},
        lambda r: r.limit(9).to_pydict(),
    ],
)  # fmt: skip
def test_no_form_loses_a_column(result: QueryResult, form: Any) -> None:
    """Each has all columns, with names of their own and the right values."""
    assert form(result) == EXPECTED
