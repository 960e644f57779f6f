"""Measure questions about 100 million rows: the session alone, Sail and Dask with 1 and 2 workers.

    python benchmarks/scale_out.py                    100 data sets of a million rows, as one
    python benchmarks/scale_out.py --files 10         fewer of them
    python benchmarks/scale_out.py --engines dask     one of session, dask, sail
    python benchmarks/scale_out.py --small            all of it on little data, to see that it works

The data are one generated data set of a million rows, and directories of hard links to its files: 100 million rows take the
disk of one million, and each file is opened, mapped and read by its own path.

Every engine runs in a process of its own, which starts its workers, asks each question once to warm up and then again, and prints
seconds, processor seconds of itself and its workers, partitions and their bytes.  Answers are compared first.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc

import daf_query
import daf_storage
from daf_query.fragments import Fragment, plan_fragments

ENGINES: Final = ("session", "sail", "dask")
DONORS: Final = 8
SLOTS: Final = 128
"""Task slots of a worker of Sail: all partitions of a table need one at the same time."""


@dataclass(frozen=True)
class Question:
    """A question in SQL, and what Dask does for it."""

    sql: str
    columns: tuple[str, ...]
    condition: pc.Expression | None


QUESTIONS: Final = {
    "filtered count": Question(
        "SELECT count(*) AS n, sum(age) AS s FROM cell WHERE age >= 30",
        ("age",),
        pc.field("age") >= 30,
    ),
    "groups": Question(
        "SELECT donor, count(*) AS n, sum(age) AS s FROM cell GROUP BY donor ORDER BY donor",
        ("donor", "age"),
        None,
    ),
    "one data set": Question(
        "SELECT count(*) AS n, sum(age) AS s FROM cell WHERE dataset = 'run001' AND age >= 30",
        ("age",),
        (pc.field("dataset") == "run001") & (pc.field("age") >= 30),
    ),
}


def prepared(folder: Path, files: int, rows: int) -> str:
    """Make the data sets that are not there yet; return their pattern."""
    target = folder / f"rows-{files}x{rows}"
    base = target / "base"
    if not base.exists():
        rng = np.random.default_rng(0)
        part = target / "part.daf.zarr"
        shutil.rmtree(part, ignore_errors=True)
        part.parent.mkdir(parents=True, exist_ok=True)
        with daf_storage.ZarrDaf(part, "w") as daf:
            daf.add_axis("cell", np.char.add("c", np.arange(rows).astype(str)))
            daf.set_vector("cell", "age", rng.integers(0, 90, rows).astype("int32"))
            daf.set_vector("cell", "score", rng.random(rows))
            daf.set_vector(
                "cell", "donor", np.char.add("d", rng.integers(0, DONORS, rows).astype(str))
            )
        part.rename(base)
    for number in range(files):
        path = target / f"run{number:03}.daf.zarr"
        if not path.exists():
            shutil.copytree(base, path, copy_function=os.link)
    return str(target / "run*.daf.zarr")


def cpu_seconds() -> float:
    """Return the processor seconds of this process and of those that it started."""
    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))


# Each engine hands out a function that answers a question, as (answer, bytes of each partition).
# Those of Sail are not known: its workers hand batches on within the engine.

Ask = Callable[[Question], tuple[list[Any], list[int]]]


@contextmanager
def session_alone(pattern: str, workers: int, rows: int) -> Iterator[Ask]:  # noqa: ARG001 - as the others
    """DataFusion in one process."""
    sizes: dict[str, list[int]] = {}
    with daf_query.connect(pattern) as session:

        def ask(question: Question) -> tuple[list[Any], list[int]]:
            if question.sql not in sizes:
                scans = session.explain_analyze(question.sql).scans
                sizes[question.sql] = [sum(scan.bytes.values()) for scan in scans]
            answer = session.sql(question.sql).to_pylist()
            return plain(answer), sizes[question.sql]

        yield ask


@contextmanager
def sail(pattern: str, workers: int, rows: int) -> Iterator[Ask]:
    """Sail in local-cluster mode."""
    os.environ["SAIL_MODE"] = "local-cluster"
    os.environ["SAIL_CLUSTER__WORKER_INITIAL_COUNT"] = str(workers)
    os.environ["SAIL_CLUSTER__WORKER_MAX_COUNT"] = str(workers)
    os.environ["SAIL_CLUSTER__WORKER_TASK_SLOTS"] = str(SLOTS)  # Sail runs a stage as a whole
    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    from daf_query.spark import sql

    server = SparkConnectServer(ip="127.0.0.1", port=0)
    server.start(background=True)
    address, port = server.listening_address
    spark = SparkSession.builder.remote(f"sc://{address}:{port}").create()
    try:

        def ask(question: Question) -> tuple[list[Any], list[int]]:
            answer = sql(spark, question.sql, pattern, rows_per_partition=rows).collect()
            return plain([row.asDict() for row in answer]), []

        yield ask
    finally:
        spark.stop()
        server.stop()


@contextmanager
def dask(pattern: str, workers: int, rows: int) -> Iterator[Ask]:
    """Dask with processes as workers: a task for each fragment, whose sums are added."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):

        def ask(question: Question) -> tuple[list[Any], list[int]]:
            plan = plan_fragments(
                pattern,
                "cell",
                columns=question.columns,
                filter=question.condition,
                rows_per_fragment=rows,
            )
            parts = client.gather(client.map(partial_sums, plan.fragments, pure=False))
            keys = [name for name in question.columns if name != "age"]
            sums = pa.concat_tables([pa.Table.from_pylist(rows) for rows, _ in parts])
            answer = sums.group_by(keys).aggregate([("n", "sum"), ("s", "sum")])
            answer = answer.rename_columns(
                [*keys, "n", "s"] if answer.column_names[0] in keys else ["n", "s", *keys]
            )
            order = [(key, "ascending") for key in keys]
            return plain(answer.sort_by(order).to_pylist() if order else answer.to_pylist()), [
                size for _, size in parts
            ]

        yield ask


def partial_sums(fragment: Fragment) -> tuple[list[dict[str, Any]], int]:
    """Return the count and the sum of each group of a fragment, and the bytes that it handed on."""
    table = pa.Table.from_batches(fragment.read(), fragment.schema)
    keys = [name for name in fragment.schema.names if name != "age"]
    sums = table.group_by(keys).aggregate([([], "count_all"), ("age", "sum")])
    renamed = {"count_all": "n", "age_sum": "s"}
    sums = sums.rename_columns([renamed.get(name, name) for name in sums.column_names])
    return sums.to_pylist(), table.nbytes


def plain(rows: list[dict[str, Any]]) -> list[Any]:
    """Return rows as lists with their columns in alphabetical order."""
    return [[row[name] for name in sorted(row)] for row in rows]


RUNNERS: Final = {"session": session_alone, "sail": sail, "dask": dask}


def measure(engine: str, pattern: str, workers: int, rows: int) -> None:
    """Ask all questions of one engine; print a line of JSON for each."""
    with RUNNERS[engine](pattern, workers, rows) as ask:
        for name, question in QUESTIONS.items():
            ask(question)
            seconds, cpu = time.perf_counter(), cpu_seconds()
            answer, sizes = ask(question)
            seconds, cpu = time.perf_counter() - seconds, cpu_seconds() - cpu
            print(
                json.dumps(
                    {"task": name, "answer": answer, "seconds": seconds, "cpu": cpu, "sizes": sizes}
                )
            )


def run(engine: str, pattern: str, workers: int, rows: int) -> list[dict[str, Any]]:
    """Measure an engine in a process of its own."""
    command = [sys.executable, __file__, "--measure", engine, "--pattern", pattern]
    command += ["--workers", str(workers), "--partition-rows", str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{engine} with {workers} workers failed:\n{done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def main() -> None:
    """Make the data, run all engines, compare and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--engines", nargs="*", choices=ENGINES, default=ENGINES)
    parser.add_argument("--counts", nargs="*", type=int, default=(1, 2), help="numbers of workers")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "daf-scale-out"
    )
    parser.add_argument("--partition-rows", type=int, default=1 << 20)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--measure", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--pattern", help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(given.measure, given.pattern, given.workers, given.partition_rows)
        return
    if given.small:
        given.files, given.rows, given.partition_rows, given.counts = 4, 2_000, 1_000, (2,)
    pattern = prepared(given.folder, given.files, given.rows)
    print(f"{given.files * given.rows:,} rows in {given.files} data sets")
    expected: dict[str, Any] = {}
    for engine in given.engines:
        for workers in (1,) if engine == "session" else given.counts:
            for result in run(engine, pattern, workers, given.partition_rows):
                first = expected.setdefault(result["task"], result["answer"])
                if result["answer"] != first:
                    raise SystemExit(f"{engine} answers {result['answer']}, and not {first}")
                sizes = result["sizes"]
                parts = f"{len(sizes):4} partitions, {sum(sizes) / 1e6:8.1f} MB, " if sizes else ""
                most = f"at most {max(sizes) / 1e6:.2f} MB each, " if sizes else ""
                print(
                    f"{result['task']:15} {engine:8} {workers} worker(s)  {parts}{most}"
                    f"{result['seconds']:7.2f} s, {result['cpu']:7.2f} processor seconds"
                )


if __name__ == "__main__":
    main()
