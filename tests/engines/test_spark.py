"""Tests of Spark: of Sail in one process and with two workers; make test-spark: with Java."""

from __future__ import annotations

import math
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from daf_query import connect
from daf_query.spark import DafDataSource, register, sql
from tests.engines.conftest import FORMS

pytest.importorskip("pyspark", reason="pyspark is not installed")

MODES = ("local", "local-cluster") if find_spec("pysail") else ("java",)
"""Sail, in one process and with two workers; in an environment without it, Spark with Java."""


@pytest.fixture(scope="module", params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    """Return how Spark runs."""
    return str(request.param)


@pytest.fixture(scope="module")
def spark(mode: str) -> Iterator[Any]:
    """Return a session of Spark."""
    with (_on_java if mode == "java" else _on_sail)(mode) as session:
        register(session)
        yield session


@contextmanager
def _on_sail(mode: str) -> Iterator[Any]:
    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        # Otherwise pyspark takes a worker of pytest-xdist for its own doctests.
        patch.setattr(sys, "ps1", ">>> ", raising=False)
        patch.setenv("SAIL_MODE", mode)
        patch.setenv("SAIL_CLUSTER__WORKER_INITIAL_COUNT", "2")
        patch.setenv("SAIL_CLUSTER__WORKER_MAX_COUNT", "2")
        server = SparkConnectServer(ip="127.0.0.1", port=0)
        server.start(background=True)
        address, port = server.listening_address
        session = SparkSession.builder.remote(f"sc://{address}:{port}").create()
        yield session
        session.stop()
        server.stop()


@contextmanager
def _on_java(mode: str) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    if shutil.which("java") is None:
        pytest.skip(f"there is no Java for Spark in mode {mode}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        builder = SparkSession.builder.master("local[2,3]")  # two workers, three attempts
        for name, value in {
            "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
        }.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        yield session
        session.stop()


def load(spark: Any, path: str, table: str = "obs", **options: Any) -> Any:
    """Return a table as a DataFrame of Spark."""
    reader = spark.read.format("daf").option("path", path).option("table", table)
    return reader.options(**options).load()


def plain(rows: Any) -> list[tuple[Any, ...]]:
    """Return rows as tuples in an order, NaN as None."""
    values = [
        tuple(None if isinstance(v, float) and math.isnan(v) else v for v in row) for row in rows
    ]
    return sorted(values, key=str)


QUESTIONS = {
    "rows": "SELECT name, age, score, donor, cell_type, is_doublet FROM obs",
    "filters": """
        SELECT name, score FROM obs
        WHERE age >= 30 AND age < 60 AND donor IN ('d1', 'd3') AND NOT is_doublet AND score > 0.25
    """,
    "groups": "SELECT donor, count(*) AS n, sum(age) AS s FROM obs GROUP BY donor",
    "null": "SELECT count(*) AS n FROM obs WHERE score IS NULL AND name LIKE 'cell_1%'",
}


PLANNED = {
    "genes": """
        SELECT cell_type, avg(X['gene_3']) AS mean, count(*) AS n FROM obs
        WHERE X['gene_4'] > 0 OR age > 80 GROUP BY cell_type
    """,
    "or": "SELECT name FROM obs WHERE age > 85 OR donor IN ('d1', 'd2') AND score < 0.1",
    "twice": """
        WITH old AS (SELECT * FROM obs WHERE age > 60)
        SELECT old.donor, count(*) AS n FROM old JOIN obs ON old.name = obs.name
        WHERE obs.score > 0.5 GROUP BY old.donor
    """,
    "named, and not needed": "SELECT donor FROM (SELECT donor, age FROM obs) WHERE age IS NULL",
    "nothing": "SELECT name FROM obs WHERE 1 = 0",
    "numbered": "SELECT name, score FROM (SELECT * FROM obs ORDER BY 3, 1 LIMIT 9)",
    "braces": "SELECT count(*) AS n FROM obs WHERE donor <> '{d1}'",
}


@pytest.mark.parametrize("form", FORMS)
def test_spark_answers_as_the_session_does(spark: Any, forms: dict[str, str], form: str) -> None:
    """Queries of its own, and those that are planned here: with genes, and a WITH of their own."""
    load(spark, forms[form], rows_per_partition=64).createOrReplaceTempView("obs")
    with connect(forms[form]) as session:
        for query in QUESTIONS.values():
            expected = session.sql(query).to_arrow_table().to_pylist()
            rows = spark.sql(query).collect()
            assert plain(rows) == plain(row.values() for row in expected), query
        for query in PLANNED.values():
            expected = session.sql(query).to_arrow_table().to_pylist()
            rows = sql(spark, query, forms[form], rows_per_partition=64).collect()
            assert plain(rounded(rows)) == plain(rounded(row.values() for row in expected)), query


def rounded(rows: Any) -> list[list[Any]]:
    """Return rows with floats of few digits: sums depend on the order of their terms."""
    return [[round(v, 9) if isinstance(v, float) else v for v in row] for row in rows]


@pytest.mark.parametrize("form", FORMS)
def test_the_long_form_of_a_matrix(spark: Any, forms: dict[str, str], form: str) -> None:
    """Its elements by predicates on both axes, and by a filter of Spark."""
    matrix = load(
        spark, forms[form], "matrix", matrix="X", axes="obs, var", rows="age > 45",
        rows_per_partition=300,
    )  # fmt: skip
    chosen = matrix.filter("var IN ('gene_1', 'gene_2', 'gene_7', 'gene_8') AND value > 3")
    with connect(forms[form]) as session:
        expected = session.sql(
            "SELECT * FROM matrix('obs', 'var', 'X', 'age > 45') "
            "WHERE var IN ('gene_1', 'gene_2', 'gene_7', 'gene_8') AND value > 3"
        ).to_arrow_table()
    assert expected.num_rows > 50
    assert plain(chosen.collect()) == plain(row.values() for row in expected.to_pylist())


def test_a_view_is_made_by_sql(spark: Any, forms: dict[str, str]) -> None:
    """CREATE TEMPORARY VIEW with options."""
    query = f"""CREATE OR REPLACE TEMPORARY VIEW cells USING daf OPTIONS (
            path '{forms["zipped"]}', table 'obs', matrix_columns "X['gene_3'] AS g3")"""
    spark.sql(query)
    with connect(forms["zipped"]) as session:
        expected = session.sql("SELECT sum(X['gene_3']) AS s FROM obs").to_pydict()["s"]
    assert [row.s for row in spark.sql("SELECT sum(g3) AS s FROM cells").collect()] == expected


def test_an_error_is_a_sentence(spark: Any, forms: dict[str, str]) -> None:
    """It names the source and what is there instead."""
    with pytest.raises(Exception, match="has no column 'agee'; it has .*age"):
        load(spark, forms["plain"], select="agee").collect()
    with pytest.raises(Exception, match="no option 'tabel'"):
        load(spark, forms["plain"], tabel="obs").collect()


def test_a_worker_that_is_lost_costs_no_rows(
    spark: Any, mode: str, forms: dict[str, str], tmp_path: Path
) -> None:
    """Its part is read again, all of it."""
    if mode != "java":
        pytest.skip("workers of Sail are threads of its server: none can be killed alone")
    is_first = tmp_path / "first"
    is_first.touch()

    class Losing(DafDataSource):
        """A source of which one read is broken off after its first rows."""

        @classmethod
        def name(cls) -> str:
            return "losing"

        def reader(self, schema: Any) -> Any:
            reader = super().reader(schema)
            reader.__class__ = _losing(type(reader), str(is_first))
            return reader

    spark.dataSource.register(Losing)
    options = {"path": forms["plain"], "table": "obs", "rows_per_partition": "100"}
    frame = spark.read.format("losing").options(**options).load()
    with connect(forms["plain"]) as session:
        expected = session.sql("SELECT name, age FROM obs").to_arrow_table().to_pylist()
    rows = frame.select("name", "age").collect()
    assert plain(rows) == plain(row.values() for row in expected)
    assert not is_first.exists()


def _losing(base: Any, is_first: str) -> Any:
    """Return a reader whose first read kills its process."""

    class LosingReader(base):  # type: ignore[misc,unused-ignore]  # pyspark has no types
        def read(self, partition: Any) -> Iterator[Any]:
            for batch in super().read(partition):
                yield batch.slice(0, 10)
                try:
                    Path(is_first).unlink()
                except FileNotFoundError:
                    yield batch.slice(10)
                    continue
                os.kill(os.getpid(), signal.SIGKILL)

    return LosingReader
