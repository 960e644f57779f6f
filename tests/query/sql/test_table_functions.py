"""Tests of table functions: matrices in SQL, what of them is read, and errors of wrong uses."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from daf_query import DafSession, connect
from tests.support import data_set


@pytest.fixture
def db() -> DafSession:
    """Return a session with 100 cells and 60 genes, a fifth of the elements stored."""
    rng = np.random.default_rng(1)
    daf = data_set(name="pbmc", cell={"name": 100, "age": np.arange(100)}, gene=60)
    daf.set_vector("gene", "marker", np.arange(60) % 3 == 0)
    values = np.where(rng.random((100, 60)) < 0.2, rng.integers(1, 9, (100, 60)), 0)
    daf.set_matrix("cell", "gene", "X", sp.csc_array(values.astype(np.float32)))
    daf.set_matrix("cell", "gene", "D", values)
    return connect({"pbmc": daf})


def dense(db: DafSession) -> Any:
    """Return the matrix as numpy."""
    return db.reader().get_np_matrix("cell", "gene", "D")


def elements_read(db: DafSession, query: str) -> int:
    """Return for how many elements of matrices a query looks at the values or a code."""
    scans = db.explain_analyze(query).scans
    return sum(scan.rows_in for scan in scans if scan.table.startswith("matrix("))


class TestMatrix:
    @pytest.mark.parametrize(
        "condition",
        [
            "gene = 'g7'",
            "gene IN ('g7', 'x')",
            "gene IN ('g7', 'u', 'v', 'w', 'x', 'y', 'z')",
            "gene IN ('g7', 'u', 'v', 'w', 'x', 'y', 'z') AND value > 0",
            "gene LIKE 'g7%'",
            "gene >= 'g7' AND gene < 'g8'",
            "gene IN ('g1', 'g2', 'g3', 'g4', 'g7') AND gene NOT IN ('g1', 'g2', 'g3', 'g4', 'x')",
        ],
    )
    def test_predicates_become_slices(self, db: DafSession, condition: str) -> None:
        """Also long lists and LIKE, which the engine keeps for itself: one gene is read."""
        query = f"SELECT cell, value FROM matrix('cell', 'gene', 'X') WHERE {condition}"
        column = dense(db)[:, 7]
        found = {row["cell"]: row["value"] for row in db.sql(query).to_pylist()}
        assert found == {f"c{n}": column[n] for n in np.flatnonzero(column)}
        assert elements_read(db, query) == np.count_nonzero(column)

    def test_predicates_on_the_axes(self, db: DafSession) -> None:
        """As fourth and fifth argument; NULL is all; only their elements are read."""
        values = dense(db)
        for arguments, part in (
            ("'age >= 95'", values[95:]),
            ("NULL, 'marker'", values[:, ::3]),
            ("'age >= 95', 'marker AND name <> ''g0'''", values[95:, 3::3]),
        ):
            query = f"SELECT sum(value) AS s FROM matrix('cell', 'gene', 'X', {arguments})"
            assert db.sql(query).to_pydict() == {"s": [part.sum()]}
        query = "SELECT sum(value) AS s FROM matrix('cell', 'gene', 'X', 'age >= 95')"
        assert elements_read(db, query) == np.count_nonzero(values[95:])

    def test_several_threads(self, db: DafSession) -> None:
        """Queries with predicates are planned side by side: none waits for another forever."""
        values = dense(db)

        def total(age: int) -> float:
            query = f"SELECT sum(value) AS s FROM matrix('cell', 'gene', 'X', 'age < {age}')"
            return float(db.sql(query).to_pydict()["s"][0])

        with ThreadPoolExecutor(8) as executor:
            found = list(executor.map(total, range(10, 40)))
        assert found == [values[:age].sum() for age in range(10, 40)]

    def test_the_tables_of_the_query_are_not_those_of_the_predicates(self, db: DafSession) -> None:
        """A filter that restricts ``cell`` in the query does not in the predicate of the rows."""
        query = """
            SELECT sum(value) AS s FROM matrix('cell', 'gene', 'X', 'age < 5') AS m, cell
            WHERE cell.name LIKE 'c9%' AND cell.age * 1.0 > 98.5
        """
        assert db.sql(query).to_pydict() == {"s": [dense(db)[:5].sum()]}

    def test_matrix_table(self, db: DafSession) -> None:
        """Rows and columns as for a slice: predicates with parameters, names, positions."""
        values = dense(db)
        table = db.matrix_table(
            "cell", "gene", "X", rows="age >= $least", columns=[3, 1, 3], params={"least": 95}
        )
        assert table.count_rows() == np.count_nonzero(values[95:][:, [1, 3]])
        flipped = db.matrix_table("gene", "cell", "X", columns="age >= 95")
        assert flipped.schema.names == ["gene", "cell", "value"]
        assert flipped.count_rows() == np.count_nonzero(values[95:])
