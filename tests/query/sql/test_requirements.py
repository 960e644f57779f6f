"""Tests of what other engines need for a query: columns, rows and entries of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from daf_query import DafSession, connect
from daf_query.scan import Compare, In, IsNull, Or
from daf_storage import errors
from tests.support import data_set


@pytest.fixture(scope="module")
def session() -> DafSession:
    """Return a session over two axes with a matrix."""
    daf = data_set(cell=["A", "B", "C"], donor=["N1", "N2"], gene=["CD8A", "it's"])
    daf.set_vector("cell", "age", np.array([1, 2, 3], "i4"))
    daf.set_vector("cell", "score", np.array([0.5, 1.5, 2.5]))
    daf.set_vector("cell", "half", np.array([0.5, 1.5, 2.5], "f4"))
    daf.set_vector("cell", "donor", ["N1", "N2", "N2"])
    daf.set_vector("donor", "sex", ["f", "m"])
    daf.set_matrix("cell", "gene", "X", np.zeros((3, 2), "f4"))
    return connect(daf)


COLUMNS = [
    ("SELECT count(*) FROM cell", {"cell": ("name",)}),
    ("SELECT max(age) FROM cell", {"cell": ("age",)}),
    ("SELECT age FROM cell WHERE donor = 'N1'", {"cell": ("age", "donor")}),
    ("SELECT age FROM cell WHERE score + 1 > 2", {"cell": ("age", "score")}),
    ("SELECT donor.sex FROM cell JOIN donor ON cell.donor = donor.name",
     {"cell": ("name", "donor"), "donor": ("name", "sex")}),
    ("SELECT a.age, b.score FROM cell a JOIN cell b ON a.name = b.name",
     {"cell": ("name", "age", "score")}),
    ("WITH young AS (SELECT * FROM cell WHERE age < 2) SELECT score FROM young",
     {"cell": ("name", "index", "age", "donor", "half", "score")}),
    ("SELECT name FROM cell ORDER BY age LIMIT 1", {"cell": ("name", "age")}),
    ("SELECT 1", {}),
    ("SELECT age FROM cell WHERE name IS NOT NULL", {"cell": ("name", "age")}),
    ("SELECT name FROM cell WHERE name IS NULL", {"cell": ("name",)}),
    ("SELECT age FROM cell WHERE 1 = 0", {"cell": ("age",)}),
    ("SELECT age FROM cell LIMIT 0", {"cell": ("age",)}),
    ("SELECT age FROM (SELECT age, score FROM cell)", {"cell": ("age", "score")}),
    ("SELECT c.age FROM cell c JOIN donor d ON c.donor = d.name WHERE d.name IS NULL",
     {"cell": ("name", "age", "donor"), "donor": ("name",)}),
    ("SELECT age FROM (SELECT age, donor FROM cell)", {"cell": ("age", "donor")}),
    ("WITH t AS (SELECT max(age) AS m FROM cell) SELECT * FROM t", {"cell": ("age",)}),
    ("SELECT name FROM cell c WHERE EXISTS (SELECT 1 FROM donor d WHERE d.name = c.donor)",
     {"cell": ("name", "donor"), "donor": ("name",)}),
    # A wildcard of fewer columns would number others.
    ("SELECT half, score FROM (SELECT * FROM cell ORDER BY 3 LIMIT 1)",
     {"cell": ("name", "index", "age", "donor", "half", "score")}),
    ("SELECT b FROM (SELECT * FROM donor) AS d(a, b, c)", {"donor": ("name", "index", "sex")}),
    ("SELECT name FROM (SELECT * FROM donor UNION ALL SELECT name, 2, donor FROM cell)",
     {"cell": ("name", "donor"), "donor": ("name", "index", "sex")}),
    # Functions and spellings of another engine.
    ("SELECT collect_set(donor) FROM cell WHERE age RLIKE 2",
     {"cell": ("age", "donor")}),
    ("SELECT AGE FROM CELL", {"cell": ("age",)}),
    ("SELECT collect_set(3 * age) FROM cell", {"cell": ("age",)}),
    ("SELECT collect_set(1) FROM cell", {"cell": ("name",)}),
]  # fmt: skip


@pytest.mark.parametrize(("query", "columns"), COLUMNS)
def test_the_columns_of_a_query(
    session: DafSession, query: str, columns: dict[str, tuple[str, ...]]
) -> None:
    """Those that it names, and at least one."""
    tables = session.requirements(query).tables
    in_order = {axis: session.table(axis).schema.names for axis in columns}
    expected = {axis: sorted(names, key=in_order[axis].index) for axis, names in columns.items()}
    if query in ("SELECT count(*) FROM cell", "SELECT collect_set(1) FROM cell"):
        expected = {"cell": in_order["cell"][:1]}
    assert {axis: list(needs.columns) for axis, needs in tables.items()} == expected


AGE = Compare("age", ">", 1)
PREDICATES: list[tuple[str, Any]] = [
    ("age > 1", AGE),
    ("age > 1 AND length(name) = 1", AGE),
    ("donor IN ('N1', 'N3')", In("donor", ("N1", "N3"))),
    ("age > 1 OR donor = 'N1'", Or((AGE, Compare("donor", "==", "N1")))),
    ("score >= 1.5", Compare("score", ">=", 1.5)),
    ("age > -1", Compare("age", ">", -1)),
    ("score IS NULL", IsNull("score")),
    ("age > 1 OR score IS NULL", Or((AGE, IsNull("score")))),
    ("half > 0.5", Compare("half", ">", 0.5)),
    # What engines may convert otherwise is left to them.
    ("name = 5", None),
    ("age = '2'", None),
    ("age + 1 > 2", None),
]


@pytest.mark.parametrize(("condition", "predicate"), PREDICATES)
def test_the_rows_of_a_query(session: DafSession, condition: str, predicate: Any) -> None:
    """Those for which its conditions are true, as far as any engine agrees on that."""
    needs = session.requirements(f"SELECT score FROM cell WHERE {condition}").tables["cell"]
    if isinstance(predicate, In):
        values = [value for part in getattr(needs.predicate, "parts", [needs.predicate])
                  for value in getattr(part, "values", [getattr(part, "value", None)])]  # fmt: skip
        assert values == list(predicate.values)
    else:
        assert needs.predicate == predicate


@pytest.mark.parametrize(
    "query",
    [
        "SELECT score FROM cell WHERE age > 1 UNION ALL SELECT score FROM CELL",
        "SELECT score FROM cell WHERE age > 1 UNION ALL SELECT score FROM Cell WHERE age < 1",
        "SELECT score FROM cell WHERE age > 1 UNION ALL TABLE cell",
        "SELECT * FROM cell PIVOT (count(*) FOR donor IN ('N1', 'N2')) WHERE N1 > 3",
    ],
)
def test_a_table_that_is_read_once_more_in_another_way(session: DafSession, query: str) -> None:
    """All rows: in capitals it may be the same one, and TABLE and PIVOT have no WHERE of it."""
    assert session.requirements(query).tables["cell"].predicate is None


@pytest.mark.parametrize(
    ("query", "predicate"),
    [
        ("SELECT a.age FROM cell a JOIN donor d ON a.donor = d.name WHERE age > 1", AGE),
        ("SELECT a.age FROM donor d LEFT JOIN cell a ON a.donor = d.name WHERE a.age > 1", None),
        (
            "SELECT a.age FROM (donor d LEFT JOIN cell a ON a.donor = d.name) CROSS JOIN gene WHERE a.age > 1",
            None,
        ),
        ("SELECT a.age FROM cell a, donor d WHERE name = 'A'", None),
        ("SELECT collect_set(donor) FROM cell WHERE age > 1 AND age RLIKE 2", AGE),
    ],
)
def test_the_rows_of_a_join(session: DafSession, query: str, predicate: Any) -> None:
    """Conditions on the columns of one table say which of its rows are needed, in inner joins."""
    assert session.requirements(query).tables["cell"].predicate == predicate


def test_entries_of_matrices_are_columns(session: DafSession) -> None:
    """The query has a quoted name for each; one that is not there is an error."""
    needs = session.requirements("SELECT X['CD8A'] FROM cell WHERE X['it''s'] > 2")
    assert needs.query == """SELECT "X['CD8A']" FROM cell WHERE "X['it''s']" > 2"""
    assert needs.tables["cell"].columns == ("X['CD8A']", "X['it''s']")
    assert {entry.entry for entry in needs.tables["cell"].entries.values()} == {"CD8A", "it's"}
    with pytest.raises(errors.EntryNotFoundError, match="NONE"):
        session.requirements("SELECT X['NONE'] FROM cell")
