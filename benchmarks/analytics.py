"""Sixteen analytic queries, beside DataFusion and DuckDB on Parquet files of the same columns.

    python benchmarks/analytics.py [--small] [--rows 5000000] [--folder FOLDER] [--runs 7]

The systems answer in turn, query by query, in one process; the medians of the runs are compared.
No time counts before the answers are equal: rows in any order, floats to nine digits.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS: Final = 5_000_000
GROUPS: Final = 50
DIGITS: Final = 9

QUERIES: Final = {
    "group by one key": "SELECT donor, count(*) AS n FROM cell GROUP BY donor",
    "group by one key, means": "SELECT donor, avg(score) AS s, max(umis) AS u FROM cell GROUP BY donor",
    "group by two keys": "SELECT donor, phase, count(*) AS n, sum(umis) AS u FROM cell "
    "GROUP BY donor, phase",
    "group by an expression": "SELECT umis / 1000 AS k, count(*) AS n FROM cell GROUP BY umis / 1000",
    "group by, filtered": "SELECT donor, avg(score) AS s FROM cell "
    "WHERE umis > 5000 AND phase <> 'G1' GROUP BY donor",
    "count distinct": "SELECT count(DISTINCT donor) AS n FROM cell",
    "count distinct in groups": "SELECT phase, count(DISTINCT donor) AS n FROM cell GROUP BY phase",
    "median": "SELECT phase, median(score) AS m FROM cell GROUP BY phase",
    "join": "SELECT d.sex, count(*) AS n FROM cell c JOIN donor d ON c.donor = d.name GROUP BY d.sex",
    "join, two aggregates": "SELECT d.sex, avg(c.score) AS s, sum(c.umis) AS u FROM cell c "
    "JOIN donor d ON c.donor = d.name GROUP BY d.sex",
    "join, filtered": "SELECT d.name, count(*) AS n FROM cell c JOIN donor d ON c.donor = d.name "
    "WHERE d.age > 60 AND c.umis > 5000 GROUP BY d.name",
    "top n": "SELECT score, umis FROM cell ORDER BY score DESC LIMIT 10",
    "window": "SELECT max(r) AS r, min(score) AS s FROM (SELECT score, row_number() OVER "
    "(PARTITION BY donor ORDER BY score DESC) AS r FROM cell WHERE umis > 9000)",
    "arithmetic of narrow integers": "SELECT sum(CAST(umis AS BIGINT) - CAST(genes AS BIGINT)) AS d "
    "FROM cell",
    "filter of text": "SELECT count(*) AS n FROM cell WHERE donor LIKE 'donor1%' AND phase = 'S'",
    "filter of numbers": "SELECT sum(score) AS s FROM cell WHERE score BETWEEN 0.2 AND 0.4 "
    "AND genes < 1500",
}


def make(folder: Path, rows: int) -> None:
    """Write the columns as a data set and as Parquet files, unless they are there."""
    from daf_storage import open_daf

    if (folder / "x.daf.zarr").exists():
        return
    rng = np.random.default_rng(0)
    donors = np.array([f"donor{number}" for number in range(GROUPS)])
    cell = {
        "name": np.char.add("cell_", np.arange(rows).astype(str)),
        "donor": donors[rng.integers(0, GROUPS, rows)],
        "phase": np.array(["G1", "S", "G2M"])[rng.integers(0, 3, rows)],
        "score": rng.random(rows),
        "umis": rng.integers(0, 10_000, rows).astype("u2"),
        "genes": rng.integers(0, 3_000, rows).astype("u2"),
    }
    donor = {
        "name": donors,
        "sex": np.array(["f", "m"])[rng.integers(0, 2, GROUPS)],
        "age": rng.integers(20, 90, GROUPS).astype("u1"),
    }
    with open_daf(folder / "x.daf.zarr", "w") as daf:
        for axis, columns in (("cell", cell), ("donor", donor)):
            daf.add_axis(axis, columns["name"])
            for name, values in columns.items():
                if name != "name":
                    daf.set_vector(axis, name, values)
            pq.write_table(pa.table(columns), folder / f"{axis}.parquet")


def systems(folder: Path) -> dict[str, Callable[[str], pa.Table]]:
    """Return what answers a query, by the name of the system."""
    import datafusion
    import duckdb

    import daf_query

    session = daf_query.connect(folder / "x.daf.zarr")
    context = datafusion.SessionContext()
    connection = duckdb.connect()
    for axis in ("cell", "donor"):
        path = str(folder / f"{axis}.parquet")
        context.register_parquet(axis, path)
        connection.execute(f"CREATE VIEW {axis} AS SELECT * FROM '{path}'")
    return {
        "daf": lambda query: session.sql(query).to_arrow_table(),
        "datafusion": lambda query: pa.table(context.sql(query).to_arrow_table()),
        # Its division of integers is //.
        "duckdb": lambda query: connection.sql(query.replace("/ 1000", "// 1000")).to_arrow_table(),
    }


def answer(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return rows that are equal where answers are: sorted, floats to some digits."""

    def plain(value: Any) -> Any:
        is_number = value is not None and not isinstance(value, str)
        return float(f"{float(value):.{DIGITS}g}") if is_number else value

    columns = [table.column(number).to_pylist() for number in range(table.num_columns)]
    return sorted(tuple(map(plain, row)) for row in zip(*columns, strict=True))


def measure(
    requested: dict[str, Callable[[str], pa.Table]], runs: int
) -> dict[str, dict[str, float]]:
    """Return the milliseconds of each system for each query; their answers are compared first."""
    found: dict[str, dict[str, float]] = {}
    for label, query in QUERIES.items():
        answers = {name: answer(ask(query)) for name, ask in requested.items()}
        first = next(iter(answers.values()))
        for name, rows in answers.items():
            if rows != first:
                raise SystemExit(f"{label}: {name} answers {rows[:3]}, daf {first[:3]}")
        times: dict[str, list[float]] = {name: [] for name in requested}
        for _ in range(runs):
            for name, ask in requested.items():
                start = time.perf_counter()
                ask(query)
                times[name].append(1e3 * (time.perf_counter() - start))
        found[label] = {name: statistics.median(each) for name, each in times.items()}
    return found


def show(found: dict[str, dict[str, float]]) -> None:
    """Print the times, and how many times as long as daf the others take."""
    names = next(iter(found.values()))
    others = [name for name in names if name != "daf"]
    print("| query | " + " | ".join(f"{name}, ms" for name in names), end=" | ")
    print(" | ".join(f"{name} / daf" for name in others) + " |")
    print("| --- |" + " ---: |" * (len(names) + len(others)))
    for label, times in found.items():
        cells = [f"{times[name]:.0f}" for name in names]
        cells += [f"{times[name] / times['daf']:.2f}" for name in others]
        print(f"| {label} | {' | '.join(cells)} |")
    means = [
        math.exp(statistics.fmean(math.log(times[name] / times["daf"]) for times in found.values()))
        for name in others
    ]
    blank = " |" * len(names)
    print(f"| geometric mean |{blank} {' | '.join(f'{mean:.2f}' for mean in means)} |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="a hundredth of the data")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="for the data; by default a temporary one")
    options = parser.parse_args()
    rows = options.rows // 100 if options.small else options.rows
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        make(folder, rows)
        show(measure(systems(folder), 2 if options.small else options.runs))


if __name__ == "__main__":
    main()
