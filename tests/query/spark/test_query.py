"""Tests of queries that are planned here for Spark, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from daf_query import connect
from daf_query.scan import And, Compare, Constant, In, IsNull, Or, Predicate, parse
from daf_query.spark import sql
from daf_query.spark._query import filter_of, filter_text
from daf_query.syntax import to_local, to_spark
from daf_storage import errors
from tests.support import create, data_set


def recorder() -> Any:
    """Return what stands for a session of Spark: it notes what it is asked for."""
    spark = MagicMock()
    spark.sql.side_effect = lambda query, **frames: (query, frames)
    return spark


def loads(spark: Any) -> list[dict[str, str]]:
    """Return the options of each table that was loaded."""
    assert {call.args for call in spark.read.format.call_args_list} <= {("daf",)}
    return [call.kwargs for call in spark.read.format.return_value.options.call_args_list]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of two axes and a matrix."""
    path = tmp_path_factory.mktemp("query") / "cells.daf.zarr"
    with create(path) as daf:
        data_set(daf, cell={"name": ["A", "B"], "age": [1, 2]}, gene=["CD8A"])
        daf.set_vector("cell", "donor", ["N1", "N2"])
        daf.set_matrix("cell", "gene", "X", [[1.0], [2.0]])
    return path


def test_spark_is_shown_the_columns_and_rows_of_a_query(path: Path) -> None:
    """As tables that WITH defines, which hide none of Spark for longer than the query."""
    spark = recorder()
    query, frames = sql(spark, "SELECT donor FROM cell WHERE age > 1;", path, rows_per_partition=9)
    assert query == "WITH `cell` AS (SELECT * FROM {daf_0}) SELECT donor FROM cell WHERE age > 1"
    assert list(frames) == ["daf_0"]
    (load,) = loads(spark)
    assert str(filter_of(load.pop("predicate"))) == "(age > 1)"
    expected = {"path": str(path), "table": "cell", "select": '["age", "donor"]'}
    assert load == {**expected, "rows_per_partition": "9"}


def test_genes_are_columns_by_their_names(path: Path) -> None:
    """In backticks; braces and the WITH of the query stay."""
    spark = recorder()
    query, _ = sql(
        spark,
        "WITH a AS (SELECT avg(X['CD8A']) m FROM cell WHERE donor <> \"{'}\") SELECT * FROM a",
        [path],
    )
    assert query == (
        "WITH `cell` AS (SELECT * FROM {daf_0}),  a AS (SELECT avg(`X['CD8A']`) m FROM cell "
        "WHERE donor <> '{{\\'}}') SELECT * FROM a"
    )
    assert loads(spark)[0]["matrix_columns"] == """"gene.X"['CD8A'] AS "X['CD8A']\""""
    assert loads(spark)[0]["path"] == f'["{path}"]'


def test_a_query_of_other_tables_stays_as_it_is(path: Path) -> None:
    """Nothing is read here."""
    spark = recorder()
    assert sql(spark, "SELECT `a b` FROM mine", path) == ("SELECT `a b` FROM mine", {})
    assert loads(spark) == []
    with pytest.raises(errors.QueryError, match="several statements"):
        sql(spark, "SELECT 1; SELECT 2", path)
    with pytest.raises(errors.SourceNotFoundError):
        sql(spark, "SELECT 1", "/nowhere.daf.zarr")


@pytest.mark.parametrize(
    ("spark", "local"),
    [
        ('SELECT `a``b`, `c"d`', 'SELECT "a`b", "c""d"'),
        (r"""SELECT 'it\'s', "it's", 'it''s', "a""b" """, """SELECT 'it''s', 'it''s', 'it''s', 'a"b' """),
        (r"SELECT 'a\nb\\c\u0041\101\%'", "SELECT 'a\nb\\cAA\\%'"),
        (r"SELECT r'\d', '\d'", r"SELECT '\d', 'd'"),
        ('SELECT 1 -- `x`\n/* "y" */', 'SELECT 1 -- `x`\n/* "y" */'),
    ],
)  # fmt: skip
def test_quotes_are_translated(spark: str, local: str) -> None:
    """Of names and of strings; and back, to what means the same."""
    assert to_local(spark) == local
    assert to_local(to_spark(local)) == local


P: list[Predicate] = [
    Compare("age", ">", 60),
    Compare("half", "<=", 0.1),
    Compare("big", "!=", 1),
    In("big", (1, (1 << 64) - 1)),
    Compare("donor", "!=", 'it\'s "é"'),
    In("age", (1, 2)),
    In("donor", ("a", "b"), is_negated=True),
    IsNull("half"),
    IsNull("half", is_negated=True),
    Compare("good", "==", True),
    Compare("good", "==", False),
    Constant(value=False),
    And((Compare("age", "==", 1), Or((IsNull("half"), Compare("age", "<", -5))))),
]


@pytest.mark.parametrize("predicate", P, ids=str)
def test_a_predicate_travels_as_text(predicate: Predicate) -> None:
    """What comes out is the same."""
    daf = data_set(cell={"name": ["A"], "age": [1], "half": [0.5]})
    daf.set_vector("cell", "big", np.array([(1 << 64) - 1], "u8"))
    daf.set_vector("cell", "donor", ["N1"])
    daf.set_vector("cell", "good", [True])
    schema = connect(daf).table("cell").schema
    assert parse(filter_of(filter_text(predicate, schema)), schema) == predicate


@pytest.mark.parametrize("written", ["age > 3", "e30=", "QVJST1cxAAA="])
def test_what_is_no_predicate_is_refused(written: str) -> None:
    """With what it is."""
    with pytest.raises(errors.InvalidInputError, match="is no filter"):
        filter_of(written)
