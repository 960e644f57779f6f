"""Tests of Spark without Java: Sail, in one process and with two workers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from daf_query import connect
from daf_query.spark import register
from tests.engines.conftest import FORMS

pytest.importorskip("pysail", reason="pysail has no wheel here")


@pytest.fixture(scope="module", params=["local", "local-cluster"])
def spark(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return a session of Spark on Sail."""
    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAIL_MODE", request.param)
        patch.setenv("SAIL_CLUSTER__WORKER_INITIAL_COUNT", "2")
        patch.setenv("SAIL_CLUSTER__WORKER_MAX_COUNT", "2")
        server = SparkConnectServer(ip="127.0.0.1", port=0)
        server.start(background=True)
        address, port = server.listening_address
        session = SparkSession.builder.remote(f"sc://{address}:{port}").create()
        register(session)
        yield session
        session.stop()
        server.stop()


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


@pytest.mark.parametrize("form", FORMS)
def test_spark_answers_as_the_session_does(spark: Any, forms: dict[str, str], form: str) -> None:
    """Each form, filters and groups, in partitions of 64 rows."""
    load(spark, forms[form], rows_per_partition=64).createOrReplaceTempView("obs")
    with connect(forms[form]) as session:
        for query in QUESTIONS.values():
            expected = session.sql(query).to_arrow_table().to_pylist()
            rows = spark.sql(query).collect()
            assert plain(rows) == plain(row.values() for row in expected), query
