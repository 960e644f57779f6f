"""Tests of entries of matrices as columns in SQL: ``X['FOXP3']``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from daf_query import DafSession, connect
from daf_storage import DafWriter, MemoryDaf
from tests.support import create, data_set

VALUES = np.array([[0, 1, 5], [2, 0, 0], [0, 3, 0], [4, 0, 0]], np.float32)
GENES = ["FOXP3", "CD8A", 'it\'s "β".1']


def fill(daf: DafWriter) -> None:
    """Add four cells, three genes, and matrices dense and sparse, of both layouts and of one."""
    data_set(daf, cell={"name": ["c1", "c2", "c3", "c4"], "age": [60, 61, 62, 63]}, gene=GENES)
    daf.set_vector("cell", "donor", ["N1", "N2", "N1", "N2"])
    daf.set_matrix("cell", "gene", "X", sp.csc_array(VALUES))
    daf.set_matrix("cell", "gene", "dense", VALUES)
    daf.set_matrix("gene", "cell", "turned", sp.csc_array(VALUES.T), relayout=False)


@pytest.fixture(scope="module")
def session() -> DafSession:
    """Return a session over the data set of `fill`."""
    daf = MemoryDaf()
    fill(daf)
    return connect(daf)


def rows(session: DafSession, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query as tuples."""
    return [tuple(row.values()) for row in session.sql(query).to_pylist()]


class TestQueries:
    def test_the_filter_is_evaluated_by_the_scan(self, session: DafSession) -> None:
        """Nothing is left for the engine, and a column of the result is read late."""
        query = "SELECT X['CD8A'] FROM cell WHERE dense['FOXP3'] > 3 AND age > 60"
        plan = session.explain(query)
        assert "FilterExec" not in plan.physical
        report = session.explain_analyze(query).scans[0]
        assert report.predicate == "dense['FOXP3'] > 3.0 AND age > 60"
        assert report.as_dict()["values"]["X['CD8A']"] == 1

    def test_strings_are_compared_last(self) -> None:
        """Those of a matrix, of the rows that are left by what is cheaper to compare."""
        daf = data_set(cell={"name": 100, "age": range(100)}, gene=["g", "h"])
        daf.set_matrix("cell", "gene", "calls", np.array([["a", "b"], ["c", "d"]] * 50))
        query = "SELECT name FROM cell WHERE calls['g'] = 'a' AND age > 98"
        report = connect(daf).explain_analyze(query).scans[0]
        assert report.as_dict()["values"] == {"age": 100, "calls['g']": 1}


class TestWildcards:
    def test_tables_and_files_that_are_made_of_a_wildcard(self, tmp_path: Path) -> None:
        """CREATE TABLE and COPY have the vectors alone."""
        daf = MemoryDaf()
        fill(daf)
        session = connect(daf)
        columns = session.table("cell").schema.names
        query = "SELECT * FROM cell WHERE X['FOXP3'] > 0"
        session.sql(f"CREATE TABLE made AS {query}", allow="write")
        assert session.sql("SELECT * FROM made").column_names == columns
        kinds = "SELECT DISTINCT arrow_typeof(donor) AS kind FROM made"
        assert session.sql(kinds).to_pylist() == [{"kind": "Utf8"}]
        session.sql(f"COPY ({query}) TO '{tmp_path}/x.parquet'", allow="write").collect()
        assert pq.read_schema(tmp_path / "x.parquet").names == columns
        session.sql(query).save(tmp_path / "y.parquet")
        assert pq.read_schema(tmp_path / "y.parquet").names == columns


class TestElsewhere:
    def test_selectors_and_orders_of_slices(self, session: DafSession) -> None:
        """``rows=`` and ``columns=`` may name entries, also with parameters."""
        rows, columns = "X['FOXP3'] > 1 ORDER BY X['FOXP3'] DESC", "X['c1'] + X['c3'] > $least"
        options: Any = {"rows": rows, "columns": columns, "params": {"least": 2}}
        chosen = session.matrix("cell", "gene", "X", **options)
        assert chosen.to_numpy().tolist() == [[0, 0], [0, 0]]
        assert chosen.rows.tolist() == ["c4", "c2"]
        assert chosen.columns.tolist() == GENES[1:]

    def test_a_replaced_matrix_is_read_again(self, tmp_path: Path) -> None:
        """What the session remembers goes by what is stored, of this writer or another."""
        path = tmp_path / "m.daf.zarr"
        writer = create(path)
        fill(writer)
        session = connect(path)
        query = "SELECT name FROM cell WHERE {}['FOXP3'] > 3"
        for matrix in ("X", "dense", "turned"):
            assert rows(session, query.format(matrix)) == [("c4",)]
        for matrix, stored in (
            ("X", sp.csc_array(VALUES[::-1])),
            ("dense", VALUES[::-1]),
            ("turned", sp.csc_array(VALUES[::-1].T)),
        ):
            pair = ("gene", "cell") if matrix == "turned" else ("cell", "gene")
            options: Any = {"if_exists": "replace", "relayout": matrix != "turned"}
            writer.set_matrix(*pair, matrix, stored, **options)
            assert rows(session, query.format(matrix)) == [("c1",)]

    @pytest.mark.parametrize("part", ["turned['FOXP3']", "name"])
    def test_the_plan_says_what_the_other_layout_costs(
        self, session: DafSession, part: str
    ) -> None:
        """Before anything is read, of filters and of what is selected."""
        query = f"SELECT {part} FROM cell WHERE turned['FOXP3'] > 1"
        plan = session.explain(query)
        assert list(plan.notes) == ["turned['FOXP3']"]
        assert "relayout_matrix('gene', 'cell', 'turned')" in str(plan)
        assert plan.as_dict()["notes"] == plan.notes
        assert session.explain("SELECT X['FOXP3'] FROM cell").notes == {}

    def test_two_data_sets_with_one_axis(self) -> None:
        """A qualifier with the data set is of its table alone, also before a wildcard."""
        values: Any = {("cell", "gene", "X"): [[1, 2], [3, 4]]}
        cells = ["c1", "c2"]
        session = connect(
            {
                "a": data_set(cell=cells, gene=["A", "B"], matrices=values),
                "b": data_set(cell=cells, gene=["A", "C"], matrices=values),
            }
        )
        joined = "FROM a.cell JOIN b.cell ON a.cell.name = b.cell.name"
        for query, expected in (
            (f"SELECT b.cell.* {joined} WHERE b.cell.X['C'] > 2", [("c2", 1)]),
            (f"SELECT a.cell.* {joined} WHERE b.cell.X['C'] > 2", [("c2", 1)]),
            (f"SELECT b.cell.* {joined} WHERE a.cell.X['B'] > 2", [("c2", 1)]),
            (f"SELECT a.cell.X['B'] {joined} WHERE b.cell.X['C'] > 2", [(4,)]),
        ):
            assert rows(session, query) == expected

    def test_a_union_is_null_where_an_entry_is_lacking(self, tmp_path: Path) -> None:
        """A gene of one data set is NULL in the other, and one of none is an error."""
        for name, genes in (("a", ["FOXP3", "CD8A"]), ("b", ["CD8A", "CST3"])):
            daf = data_set(create(tmp_path / f"{name}.daf.zarr"), cell=["c1", "c2"], gene=genes)
            daf.set_matrix("cell", "gene", "X", sp.csc_array(np.array([[0, 2], [1, 0]])))
        session = connect(str(tmp_path / "*.daf.zarr"))
        query = "SELECT dataset, name, X['FOXP3'], X['CD8A'] FROM cell ORDER BY dataset, name"
        assert rows(session, query) == [
            ("a", "c1", 0, 2),
            ("a", "c2", 1, 0),
            ("b", "c1", None, 0),
            ("b", "c2", None, 1),
        ]
        assert rows(session, "SELECT dataset FROM cell WHERE X['FOXP3'] IS NULL") == [("b",)] * 2
        assert rows(session, "SELECT dataset FROM cell WHERE X['FOXP3'] > 0") == [("a",)]
        query = "SELECT * FROM cell WHERE X['CD8A'] > 0"
        assert session.sql(query).column_names == (session.table("cell").schema.names)
