"""Tests of Daft, which reads tables in threads of this process."""

from __future__ import annotations

import math
from typing import Any

import pytest

from daf_query import connect
from tests.engines.conftest import CELLS, FORMS

daft = pytest.importorskip("daft", reason="daft has no wheel here")

from daf_query.daft import read_daf  # noqa: E402 - it imports Daft

COLUMNS = ("name", "age", "score", "donor", "cell_type", "is_doublet")


def plain(rows: Any) -> list[tuple[Any, ...]]:
    """Return rows as tuples in an order, NaN as None."""
    values = [
        tuple(None if isinstance(v, float) and math.isnan(v) else v for v in row.values())
        for row in rows
    ]
    return sorted(values, key=str)


QUESTIONS = {
    "age >= 30 AND age < 60 AND donor IN ('d1', 'd3') AND NOT is_doublet": lambda c: (
        (c("age") >= 30) & (c("age") < 60) & c("donor").is_in(["d1", "d3"]) & ~c("is_doublet")
    ),
    "score IS NULL OR score BETWEEN 0.25 AND 0.5": lambda c: (
        c("score").is_null() | c("score").between(0.25, 0.5)
    ),
    "age * 2 > 100 AND cell_type <> 'B'": lambda c: (c("age") * 2 > 100) & (c("cell_type") != "B"),
}


@pytest.mark.parametrize("form", FORMS)
def test_daft_answers_as_the_session_does(forms: dict[str, str], form: str) -> None:
    """Each form: columns, filters, groups, limits and genes, in tasks of 64 rows."""
    genes = {"g3": ("var", "X", "gene_3")}
    with connect(forms[form]) as session:
        frame = read_daf(forms[form], "obs", matrix_columns=genes, rows_per_task=64)
        for condition, expression in QUESTIONS.items():
            query = f"SELECT {', '.join(COLUMNS)}, X['gene_3'] AS g3 FROM obs WHERE {condition}"
            expected = session.sql(query).to_arrow_table().to_pylist()
            rows = frame.where(expression(daft.col)).select(*COLUMNS, "g3").to_pylist()
            assert expected
            assert plain(rows) == plain(expected), condition
        groups = frame.groupby("donor").agg(daft.col("age").sum().alias("s")).to_pylist()
        query = "SELECT donor, sum(age) AS s FROM obs GROUP BY donor"
        assert plain(groups) == plain(session.sql(query).to_arrow_table().to_pylist())
    assert len(frame.limit(70).to_pylist()) == 70
    assert frame.count_rows() == CELLS
    assert len(frame.where(daft.col("age") > 200).to_pylist()) == 0
