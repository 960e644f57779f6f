"""Profiles of groups of rows, of which Spark merges the parts.

Numbers of rows and values, minima and maxima are merged exactly, and so are sums of integers below
2**53.  Variances are merged by the formula of Chan, Golub and LeVeque: the squares within each
part, and those of the differences of its mean from the mean of all.
"""

from __future__ import annotations

import json
from typing import Any, Final

from daf_query.fragments import ROWS_PER_FRAGMENT, Paths
from daf_query.spark._data_source import register
from daf_query.spark._options import path_option
from daf_query.syntax import backticked

_SUMMED: Final = """
    sum(count - missing) AS n,
    sum(nonzero) AS nonzero,
    sum(sum) AS sum,
    min(min) AS min,
    max(max) AS max,
    sum(coalesce(variance, 0) * (count - missing - 1)
        + (count - missing) * (mean - whole) * (mean - whole)) AS squares
"""


def profile(  # noqa: PLR0913 - the choices of a profile
    spark: Any,
    paths: Paths,
    rows_axis: str,
    columns_axis: str,
    name: str,
    *,
    by: str = "",
    rows: str | None = None,
    columns: str | None = None,
    rows_per_partition: int = ROWS_PER_FRAGMENT,
) -> Any:
    """Return what a matrix is like in each group of its rows, column by column, as a DataFrame.

    The answer of `DafSession.profile`, in any order: workers read blocks of the matrix, and Spark
    merges their moments.

    Parameters
    ----------
    spark
        A ``SparkSession``; the format ``daf`` is registered in it.
    paths
        A path or a URL, or a pattern or a list for several data sets as one.
    by
        What the rows are grouped by, in our SQL: ``"donor"``, ``"donor, age > 60 AS old"``.  Each
        data set has to have its columns.  By default all rows are one group.
    rows, columns
        Predicates on the entries of each axis; all by default.
    rows_per_partition
        How many elements of the matrix a worker reads at a time, about.

    Returns
    -------
    pyspark.sql.DataFrame
        The group columns, the column that is named as its axis, and ``count``, ``missing``,
        ``nonzero``, ``sum``, ``mean``, ``variance``, ``min`` and ``max``.
    """
    register(spark)
    options = {
        "path": path_option(paths),
        "table": "profile",
        "matrix": name,
        "axes": json.dumps([rows_axis, columns_axis]),
        "rows_per_partition": str(rows_per_partition),
    }
    chosen = {"by": by or None, "rows": rows, "columns": columns}
    options |= {key: value for key, value in chosen.items() if value is not None}
    parts = spark.read.format("daf").options(**options).load()
    keys = parts.columns[: parts.columns.index(columns_axis)]
    return spark.sql(merging(keys, columns_axis), parts=parts)


def merging(keys: list[str], columns_axis: str) -> str:
    """Return the query that merges the parts of a profile, which it calls ``{parts}``."""
    entry = backticked(columns_axis)
    groups = [backticked(key) for key in keys]
    every = ", ".join([*groups, entry])
    of_group = f"PARTITION BY {', '.join(groups)}" if groups else ""
    # Sail refuses to divide by zero also where the result is not used; of no value the sum is NULL.
    # It plans no join of two results of one part, so numbers of rows are those of windows.
    # Not an injection: the names are of columns, and quoted.
    return f"""
        WITH centred AS (
            SELECT *, sum(sum) OVER (PARTITION BY {every})
                / greatest(sum(count - missing) OVER (PARTITION BY {every}), 1) AS whole,
                sum(CASE WHEN {entry} IS NULL THEN count ELSE 0 END) OVER ({of_group}) AS of_group
            FROM {{parts}}
        ), summed AS (
            SELECT {every}, max(of_group) AS of_group, {_SUMMED}
            FROM centred WHERE {entry} IS NOT NULL GROUP BY {every}
        )
        SELECT {every}, of_group AS count, of_group - n AS missing, nonzero, sum,
            sum / greatest(n, 1) AS mean,
            CASE WHEN n > 1 THEN squares / greatest(n - 1, 1) END AS variance, min, max
        FROM summed
    """  # noqa: S608 - names are quoted
