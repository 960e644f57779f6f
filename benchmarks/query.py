"""SQL over an axis of ten million entries, against DataFusion and DuckDB on Parquet of the same data.

    python benchmarks/query.py [--small]

Times are the best of the runs that fit into 0.8 seconds, of two with --small, for each side alike,
warm; the first use of a text column decodes it, and is printed apart, with the memory (not mapped from
files) by which the process grew at most meanwhile.  Every answer is compared with the others'.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

import datafusion
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from daf_query import connect
from daf_query.index import build_index
from daf_storage import DafWriter, open_daf

INDEXED = ("IN of 100 names", "a number")
"""What is asked again when there are indexes."""


def best(work: Callable[[], Any], seconds: float = 0.8, fewest: int = 5) -> float:
    """Return the milliseconds of the fastest of the runs that fit into some time."""
    found: list[float] = []
    while sum(found) < seconds or len(found) < fewest:
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return 1e3 * min(found)


class Memory:
    """Watches how much memory of its own the process takes."""

    def __init__(self) -> None:
        self.most = self._start = self._anonymous()
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_done.set()
        self._thread.join()

    def growth(self) -> float:
        """Return by how many MiB it grew at most."""
        return (self.most - self._start) / 1024

    def _watch(self) -> None:
        while not self._is_done.wait(0.002):
            self.most = max(self.most, self._anonymous())
        self.most = max(self.most, self._anonymous())

    @staticmethod
    def _anonymous() -> int:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))


def make(folder: Path, n: int) -> None:
    """Write the data set and the Parquet file."""
    rng = np.random.default_rng(0)
    names = pa.array(np.char.add("cell_", np.arange(n).astype(str)))
    donors = np.array([f"donor{i}" for i in range(50)])
    columns = {
        "age": rng.integers(0, 100, n).astype("u1"),
        "score": rng.random(n),
        "donor": pa.array(donors[rng.integers(0, 50, n)]),
        "batch": np.sort(rng.integers(0, 1000, n)).astype("i4"),
        "code": rng.permutation(n).astype("i4"),
        "small": rng.random(n).astype("f4"),
    }
    daf = open_daf(folder / "big.daf.zarr", "w")
    assert isinstance(daf, DafWriter)
    daf.add_axis("cell", names)
    for name, values in columns.items():
        daf.set_vector("cell", name, values)
    daf.add_axis("donor", donors)
    sex = np.array(["f", "m"])[rng.integers(0, 2, 50)]
    daf.set_vector("donor", "sex", sex)
    pq.write_table(pa.table({"name": names, **columns}), folder / "cell.parquet")
    pq.write_table(pa.table({"name": donors, "sex": sex}), folder / "donor.parquet")


def queries(n: int) -> dict[str, str]:
    """Return what is asked."""
    names = ", ".join(f"'cell_{i * (n // 101)}'" for i in range(100))
    return {
        "count(*)": "SELECT count(*) AS n FROM cell",
        "numeric filter": "SELECT count(*) AS n FROM cell WHERE age > 98 AND score > 0.5",
        "numeric filter, rows": "SELECT score, batch FROM cell WHERE age > 98 AND score > 0.99 ORDER BY score",
        "range of a sorted column": "SELECT round(sum(score), 4) AS s FROM cell WHERE batch BETWEEN 500 AND 503",
        "Float32 and a decimal": "SELECT count(*) AS n FROM cell WHERE small > 0.999 AND age > 98",
        "text equality": "SELECT count(*) AS n FROM cell WHERE donor = 'donor7'",
        "text equality, average": "SELECT round(avg(score), 8) AS s FROM cell WHERE donor = 'donor7'",
        "IN of 100 names": f"SELECT name, age FROM cell WHERE name IN ({names}) ORDER BY name",
        "text by its beginning": "SELECT round(avg(score), 8) AS s FROM cell WHERE donor LIKE 'donor4%'",
        "a number": f"SELECT score, age FROM cell WHERE code = {n // 3}",
        "group by": "SELECT donor, count(*) AS n, round(avg(score), 8) AS s FROM cell GROUP BY donor ORDER BY donor",
        "top 10": "SELECT score FROM cell ORDER BY score DESC LIMIT 10",
        "join": "SELECT sex, count(*) AS n FROM cell JOIN donor ON cell.donor = donor.name WHERE age > 90 GROUP BY sex ORDER BY sex",
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="a fiftieth of the data")
    is_small = parser.parse_args().small
    n = 200_000 if is_small else 10_000_000
    fastest = partial(best, seconds=0, fewest=2) if is_small else best
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, n)
        daf = open_daf(folder / "big.daf.zarr")
        db = connect(daf)
        context = datafusion.SessionContext()
        connection = duckdb.connect()
        for table in ("cell", "donor"):
            context.register_parquet(table, folder / f"{table}.parquet")
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM '{folder}/{table}.parquet'")
        age, score = daf.get_np_vector("cell", "age"), daf.get_np_vector("cell", "score")
        numpy_ms = fastest(lambda: np.flatnonzero((age > 98) & (score > 0.5)).size)
        print(f"{n:,} rows, milliseconds; the ratio is the better of the two others to daf-query")
        print(
            f"{'':<27}{'MiB':>6}{'first':>9}{'daf-query':>11}{'DataFusion':>12}{'DuckDB':>10}{'ratio':>9}"
        )
        asked = queries(n)
        asked |= {f"{label}, with index": asked[label] for label in INDEXED}
        is_indexed = False
        for label, query in asked.items():
            if label.endswith("with index") and not is_indexed:
                is_indexed = True
                writer = open_daf(folder / "big.daf.zarr", "r+")
                assert isinstance(writer, DafWriter)
                build_index(writer, "cell", ["name", "code"])
                db = connect(daf)  # without what the queries before have decoded
            start = time.perf_counter()
            with Memory() as memory:
                ours = db.sql(query).to_arrow_table()
            first = 1e3 * (time.perf_counter() - start)
            theirs = [context.sql(query).to_arrow_table(), connection.sql(query).to_arrow_table()]
            for other in theirs:
                assert [*map(str, ours.to_pylist())] == [*map(str, other.to_pylist())], label
            times = [
                fastest(lambda query=query, db=db: db.sql(query).to_arrow_table()),
                fastest(lambda query=query: context.sql(query).to_arrow_table()),
                fastest(lambda query=query: connection.sql(query).to_arrow_table()),
            ]
            ratio = min(times[1:]) / times[0]
            print(
                f"{label:<27}{memory.growth():>6.0f}{first:>9.1f}{times[0]:>11.1f}{times[1]:>12.1f}{times[2]:>10.1f}"
                f"{ratio:>7.1f} x"
            )
        print(f"{'numeric filter by numpy':<42}{numpy_ms:>11.1f}")


if __name__ == "__main__":
    main()
