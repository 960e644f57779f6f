"""Tests of joins of axes where small tables are in memory; rows are in the table of queries."""

from __future__ import annotations

from daf_query import ScanOptions, connect
from tests.support import data_set


def test_small_tables_are_in_memory_beside_long_ones() -> None:
    """The engine knows how many rows they have, and makes a hash table of them in a join."""
    query = "SELECT color, X['x'] AS x FROM cell c JOIN type t ON c.type = t.name ORDER BY c.name"
    daf = data_set(
        type={"name": ["B", "T", "NK", "é"], "color": ["blue", "teal", "red", "grey"]},
        cell={"name": ["a", "b", "c", "d", "e"], "type": ["T", "B", "", "T", "X"]},
        gene=["x"],
        matrices={("cell", "gene", "X"): [[1], [3], [5], [7], [9]]},
    )
    options = ScanOptions(min_joined_rows=5, max_values_in_memory=12)
    with connect(daf, scan_options=options) as session:
        report = session.explain_analyze(query)
        assert "mode=CollectLeft" in report.plan
        assert report.plan.count("DatasetExec") == 1
        tables = {scan.table: dict(scan.values) for scan in report.scans}
        assert tables == {
            "type": {"name": 4, "index": 4, "color": 4},
            "cell": {"name": 5, "type": 5, "X['x']": 5},
        }
        daf.set_vector("type", "color", ["1", "2", "3", "4"], if_exists="replace")
        assert session.sql(query).to_pydict() == {"color": ["2", "1", "2"], "x": [1, 3, 7]}
        fewer = ScanOptions(min_joined_rows=5, max_values_in_memory=11)
        assert connect(daf, scan_options=fewer).explain(query).physical.count("DatasetExec") == 2
