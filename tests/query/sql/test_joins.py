"""Tests of joins of axes: the rows are those of pandas, also where small tables are in memory."""

from __future__ import annotations

from typing import Any

import pytest

from daf_query import DafSession, ScanOptions, connect
from daf_storage import DafWriter
from tests.support import data_set

pytestmark = pytest.mark.filterwarnings("ignore::daf_query.DuplicateColumnsWarning")


def sample(name: str = "joins") -> DafWriter:
    """Return cells with a type, of which some are missing and one is none, and a mate."""
    daf = data_set(name=name, type=["B", "T", "NK", "é"])
    daf.set_vector("type", "color", ["blue", "teal", "red", "grey"])
    data_set(daf, cell={"name": ["a", "b", "c", "d", "e"], "type": ["T", "B", "", "T", "X"]})
    daf.set_vector("cell", "type.gaps", ["é", "", "", "B", "B"], empty_is_missing=True)
    daf.set_vector("cell", "cell.mate", ["b", "a", "e", "", "a"])
    daf.set_vector("cell", "age", [1, 2, 3, 4, 5])
    daf.set_vector("cell", "kind", ["T", "T", "B", "B", "B"])
    return daf


def rows_of(session: DafSession, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query, sorted, and its columns."""
    table = session.sql(query).to_arrow_table()
    columns = [column.to_pylist() for column in table.columns]
    return [tuple(table.column_names), *sorted(zip(*columns, strict=True), key=str)]


def test_small_tables_are_in_memory_beside_long_ones() -> None:
    """The engine knows how many rows they have, and makes a hash table of them in a join."""
    query = "SELECT c.name, color, X['x'] AS x FROM cell c JOIN type t ON c.type = t.name"
    daf = sample()
    data_set(daf, gene=["x"], matrices={("cell", "gene", "X"): [[1], [3], [5], [7], [9]]})
    options = ScanOptions(min_joined_rows=5, max_values_in_memory=12)
    with connect({"joins": daf}, scan_options=options) as session:
        report = session.explain_analyze(query)
        assert "mode=CollectLeft" in report.plan
        assert report.plan.count("DatasetExec") == 1
        tables = {scan.table: dict(scan.values) for scan in report.scans}
        assert tables == {
            "type": {"name": 4, "index": 4, "color": 4},
            "cell": {"name": 5, "type": 5, "X['x']": 5},
        }
        daf.set_vector("type", "color", ["1", "2", "3", "4"], if_exists="replace")
        assert [row[1] for row in rows_of(session, query)[1:]] == ["2", "1", "2"]
        fewer = ScanOptions(min_joined_rows=5, max_values_in_memory=11)
        plan = connect({"joins": daf}, scan_options=fewer).explain(query)
        assert plan.physical.count("DatasetExec") == 2
