"""Tests of the completion of SQL."""

from __future__ import annotations

import pyarrow as pa
import pytest

from daf_query import connect
from daf_query.completion import SqlCompleter
from daf_storage import DafWriter
from tests.support import data_set


def cells_and_genes() -> DafWriter:
    """Return cells and genes, with names that need quotes."""
    daf = data_set(
        cell={"name": ["A", "B"], "age": [30, 60], "n counts": [1.0, 2.0], "order": [1, 2]},
        gene={"name": ["CD8A", "CD8B", "LYZ", "it's"], "is_marker": [True, False, True, False]},
    )
    daf.add_axis("raw gene", ["CD8A", "MALAT1"])
    for name in ("UMIs", "X"):
        daf.set_matrix("cell", "gene", name, [[1, 2, 0, 0], [3, 4, 0, 0]])
    daf.set_matrix("cell", "raw gene", "X", [[1, 2], [3, 4]])
    return daf


@pytest.fixture(scope="module")
def completer() -> SqlCompleter:
    """Return a completer of one data set."""
    return SqlCompleter(connect({"one": cells_and_genes()}))


def completed(completer: SqlCompleter, typed: str) -> dict[str, str]:
    """Return what may stand at the mark, ``|``, and what each is."""
    found = completer.completions(typed.replace("|", ""), typed.index("|"))
    return {each.text: each.kind for each in found}


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("SELECT a| FROM cell", "age"),
        ("SELECT n| FROM cell", '"n counts"'),
        ('SELECT "n| FROM cell', '"n counts"'),
        ("SELECT or| FROM cell", '"order"'),
        ("SELECT c.ag| FROM cell AS c", "age"),
        ("SELECT c.ag| FROM gene g JOIN cell c ON true", "age"),
        ("SELECT cell.a| FROM cell, gene", "age"),
        ("SELECT is_| FROM cell, gene", "is_marker"),
        ("SELECT 1; SELECT age FROM cell WHERE AG|", "age"),
    ],
)
def test_columns(completer: SqlCompleter, typed: str, expected: str) -> None:
    """Those of the tables of the statement, by their aliases, with quotes where they need them."""
    assert completed(completer, typed)[expected] == "column"


def test_tables(completer: SqlCompleter) -> None:
    """After FROM, JOIN and a comma, with quotes; also by their schema."""
    tables = {"cell", "gene", '"raw gene"', "matrices", "relations", "scalars"}
    assert tables <= set(completed(completer, "SELECT * FROM |"))
    assert completed(completer, "SELECT * FROM cell, ge|") == {"gene": "table"}
    assert completed(completer, "SELECT * FROM cell JOIN r|")['"raw gene"'] == "table"
    assert completed(completer, "SELECT * FROM one.ce|") == {"cell": "table"}
    assert "matrix(" in completed(completer, "SELECT * FROM ma|")
    assert completed(completer, "SELECT max(age), ce| FROM cell")["cell"] == "table"


def test_entries(completer: SqlCompleter) -> None:
    """Those of the matrix, in either case, with what closes the brackets."""
    genes = {"CD8A']": "entry", "CD8B']": "entry"}
    assert completed(completer, "SELECT UMIs['cd8| FROM cell") == genes
    found = completed(completer, "SELECT c.UMIs['CD8|'] FROM cell c")
    assert found == {"CD8A": "entry", "CD8B": "entry"}
    assert completed(completer, 'SELECT "raw gene.X"[\'M|') == {"MALAT1']": "entry"}
    assert completed(completer, "SELECT UMIs['it|") == {"it''s']": "entry"}
    assert completed(completer, "SELECT UMIs['it''|") == {"it''s']": "entry"}
    assert completed(completer, "SELECT UMIs['A| FROM gene") == {"A']": "entry"}
    entries = set(completed(completer, "SELECT X['| FROM cell"))
    assert entries == {"CD8A']", "CD8B']", "LYZ']", "it''s']", "MALAT1']"}
    assert completed(completer, "SELECT nope['CD|") == {}


def test_matrices(completer: SqlCompleter) -> None:
    """A name that several matrices have is completed with its axis."""
    assert completed(completer, "SELECT UM| FROM cell") == {"UMIs['": "matrix"}
    typed = completed(completer, "SELECT x| FROM cell")
    assert "X['" not in typed
    assert completed(completer, "SELECT raw| FROM cell") == {'"raw gene.X"[\'': "matrix"}


@pytest.mark.parametrize(
    "typed",
    [
        "SELECT 'ag|",
        "SELECT 1 -- ag|",
        "SELECT /* ag|",
        "SELECT /* x */ -- ag|",
        "SELECT -- x */ ag|",
        "SELECT -- x\n/* -- y\n ag|",
        "SELECT 12|",
        "SELECT 'age'|",
        "SELECT $a|",
    ],
)
def test_nothing(completer: SqlCompleter, typed: str) -> None:
    """Strings, comments, numbers and parameters are not completed."""
    assert completed(completer, typed) == {}


def test_several_data_sets() -> None:
    """Their tables have the names of their schemas, and tables of your own none."""
    session = connect({"a": cells_and_genes(), "b": cells_and_genes()})
    completer = SqlCompleter(session)
    assert completed(completer, "SELECT * FROM ce|") == {"a.cell": "table", "b.cell": "table"}
    assert completed(completer, "SELECT * FROM a|").keys() >= {"a.cell", "a.gene"}
    assert completed(completer, "SELECT ag| FROM b.cell")["age"] == "column"
    assert completed(completer, "SELECT UMIs['L| FROM b.cell") == {"LYZ']": "entry"}
    session.register(pa.table({"centre": ["Basel"]}), "samples")
    completer.forget()
    assert completed(completer, "SELECT * FROM sa|") == {"samples": "table"}
    assert completed(completer, "SELECT cen| FROM samples") == {"centre": "column"}


@pytest.mark.parametrize(
    ("typed", "replaced", "names"),
    [
        ("SELECT x, ag|e FROM cell", "ag", {"age"}),
        ('SELECT "n c| FROM cell', '"n c', {"n counts"}),
        ("SELECT UMIs['cd8a| FROM cell", "cd8a", {"CD8A"}),
        ("SELECT UMIs['it''|'] FROM cell", "it''", {"it's"}),
        ("SELECT one.ge|", "ge", {"gene"}),
        ("SELECT cell . ag| FROM cell", "ag", {"age"}),
        ('SELECT 1 FROM "raw ge|', '"raw ge', {"raw gene"}),
        ("SELECT UM| FROM cell", "UM", {"UMIs['...']"}),
    ],
)
def test_what_is_replaced(
    completer: SqlCompleter, typed: str, replaced: str, names: set[str]
) -> None:
    """From where the word begins, with its quote, to the cursor; entries after theirs."""
    cursor = typed.index("|")
    found = completer.completions(typed.replace("|", ""), cursor)
    assert {typed[each.start : cursor] for each in found} == {replaced}
    assert {each.name for each in found} == names


@pytest.mark.parametrize(
    ("typed", "has", "lacks"),
    [
        ("|", {"SELECT", "FROM", "SHOW TABLES"}, {"cell", "AND"}),
        ("EXPLAIN |", {"SELECT", "WITH"}, {"age"}),
        ("EXPLAIN SELECT |", {"age", "DISTINCT"}, {"SHOW TABLES"}),
        ("SELECT 1; |", {"SELECT"}, {"age"}),
        ("SELECT age FROM cell, |", {"gene", "profile("}, {"age"}),
        ("SELECT age, |", {"age", "avg("}, {"matrices"}),
        ("SELECT age FROM cell ORDER BY age, |", {"age", "DESC"}, {"gene"}),
        ("SELECT age FROM (SELECT 1, |", {"age"}, {"matrices"}),
        ("SELECT age FROM (SELECT 1) x, |", {"gene"}, {"age"}),
        ("SELECT age FROM cell WHERE age IN (1, |", {"age"}, {"gene"}),
        ("DESCRIBE |", {"gene"}, {"age"}),
        ("SELECT age FROM one.|", {"cell", "gene"}, {"age", "profile("}),
        ("SELECT cell.| FROM cell", {"age"}, {"gene", "SELECT"}),
        ("SELECT gene.| FROM cell", {"is_marker"}, {"age"}),
        ("SELECT * FROM cell.|", set(), {"age", "gene"}),
        ("SELECT 'a' |", {"FROM"}, set()),
        ("SELECT 1 -- x\n|", {"FROM"}, set()),
        ("SELECT 1 /* x -- \n y */ |", {"FROM"}, set()),
        ("SELECT 1 -- x /* y\n|", {"FROM"}, set()),
        ("/* x */ -- y\n|", {"SELECT"}, {"age"}),
        ("SELECT nothing.|", set(), {"age", "cell"}),
    ],
)
def test_what_may_stand_where(
    completer: SqlCompleter, typed: str, has: set[str], lacks: set[str]
) -> None:
    """Beginnings, tables and expressions, each in its place."""
    found = set(completed(completer, typed))
    assert has <= found
    assert not lacks & found


def test_what_cannot_be_looked_up_has_no_completions() -> None:
    """As of a session that is closed; what was looked up before stays known."""
    session = connect(cells_and_genes())
    completer = SqlCompleter(session)
    assert completed(completer, "SELECT ag| FROM cell") == {"age": "column"}
    session.close()
    assert completed(completer, "SELECT UMIs['CD| FROM cell") == {}
