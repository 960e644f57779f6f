"""Sessions of Spark that know the format ``daf``."""

from __future__ import annotations

from typing import Any

from daf_query.spark._data_source import DafDataSource


def register(spark: Any) -> None:
    """Make the format ``daf`` known to a session of Spark.

    Parameters
    ----------
    spark
        A ``SparkSession``, of Sail or of Apache Spark 4.1 or newer.
    """
    spark.dataSource.register(DafDataSource)
