"""Measure this revision beside an earlier one, in one run: whether anything has become slower.

    python benchmarks/compare.py REVISION [--small] [--rounds 5]

The sources of the other revision are taken from git into a temporary folder.  Each round starts a
process for either, in turn, so that both see the same machine; each process does the same tasks on the
same files, several times, and the fastest time of all rounds counts.  The answers of both are compared
before their times are.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("daf_storage", "daf_query")
SECONDS = 0.3
"""How long a process repeats each task, at least twice."""


def digest(answer: Any) -> str:
    """Return a fingerprint of an Arrow table, a numpy array or a sparse matrix."""
    if sp.issparse(answer):
        parts = [np.asarray(part) for part in (answer.shape, answer.toarray())]
    elif hasattr(answer, "to_pydict"):  # rows come in any order, unless the query has one
        answer = answer.sort_by([(name, "ascending") for name in answer.column_names])
        return hashlib.sha256(json.dumps(answer.to_pydict(), default=str).encode()).hexdigest()
    else:
        parts = [np.asarray(answer)]
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


def fill(folder: Path, rows: int) -> None:
    """Write the data set that all tasks read, in a directory and as an archive."""
    import daf_storage

    random = np.random.default_rng(0)
    daf = daf_storage.open_daf(str(folder / "x.daf.zarr"), "w")
    daf.add_axis("cell", [f"cell_{number}" for number in range(rows)])
    daf.add_axis("gene", [f"gene_{number}" for number in range(200)])
    daf.set_vector("cell", "age", random.integers(0, 90, rows))
    daf.set_vector("cell", "score", random.random(rows))
    daf.set_vector("cell", "donor", [f"N{number}" for number in random.integers(0, 20, rows)])
    counts = sp.random(rows // 10, 200, 0.1, format="csc", random_state=1, dtype=np.float32)
    daf.add_axis("part", [f"part_{number}" for number in range(rows // 10)])
    daf.set_matrix("part", "gene", "X", counts)
    daf.close()
    daf_storage.convert(str(folder / "x.daf.zarr"), str(folder / "x.daf.zarr.zip"))


def tasks(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return what is measured, by its name: only calls that both revisions have."""
    import daf_query
    import daf_storage

    path, archive = str(folder / "x.daf.zarr"), str(folder / "x.daf.zarr.zip")
    session = daf_query.connect(path)
    reader = daf_storage.open_daf(path)
    queries = {
        "count(*)": "SELECT count(*) AS n FROM cell",
        "numeric filter": "SELECT name, age FROM cell WHERE age > 88 AND score > 0.9",
        "text equality": "SELECT avg(score) AS s FROM cell WHERE donor = 'N3'",
        "residual filter": "SELECT count(*) AS n FROM cell WHERE donor LIKE '%1%' AND age < 3",
        "group by": "SELECT donor, count(*) AS n FROM cell GROUP BY donor ORDER BY donor",
        "top 10": "SELECT name, score FROM cell ORDER BY score DESC LIMIT 10",
        "IN list": "SELECT score FROM cell WHERE name IN ('cell_5', 'cell_77', 'cell_999')",
        "join": (
            "SELECT count(*) AS n FROM cell c JOIN part p ON c.index = p.index WHERE c.age > 60"
        ),
    }
    found: dict[str, Callable[[], Any]] = {
        name: lambda sql=sql: session.sql(sql).to_arrow_table() for name, sql in queries.items()
    }
    return found | {
        "open a directory": lambda: np.array([len(daf_storage.open_daf(path).axes_set())]),
        "open an archive": lambda: np.array([len(daf_storage.open_daf(archive).axes_set())]),
        "connect and ask": lambda: (
            daf_query.connect(path).sql("SELECT max(age) AS m FROM cell").to_arrow_table()
        ),
        "a vector": lambda: reader.get_np_vector("cell", "score"),
        "a slice by SQL": lambda: session.matrix(
            "part", "gene", "X", rows="index < 2000 AND index > 500", columns="index < 40"
        ).to_scipy(),
        "a slice by names": lambda: session.matrix(
            "part", "gene", "X", columns=["gene_7", "gene_50"]
        ).to_numpy(),
    }


def child(folder: Path) -> None:
    """Measure all tasks in this process and print their times, answers, and what the imports took."""
    started = time.process_time()
    importlib.import_module("daf_query")
    times: dict[str, float] = {"import daf_query (CPU)": 1e3 * (time.process_time() - started)}
    answers: dict[str, str] = {}
    for name, task in tasks(folder).items():
        answers[name] = digest(task())
        spent: list[float] = []
        while sum(spent) < SECONDS or len(spent) < 2:
            begun = time.perf_counter()
            task()
            spent.append(time.perf_counter() - begun)
        times[name] = 1e3 * min(spent)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"times": times, "answers": answers, "memory": memory}))


def run(tree: Path, folder: Path, *options: str) -> Any:
    """Start a process with the packages of a tree and return what it printed."""
    command = [sys.executable, str(Path(__file__).resolve()), "--folder", str(folder), *options]
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1"}
    printed = subprocess.run(
        command, env=environment, cwd=folder, check=True, stdout=subprocess.PIPE
    ).stdout
    return json.loads(printed) if printed else None


def check_out(revision: str, target: Path) -> Path:
    """Return a folder with the two packages as they were at a revision."""
    archive = subprocess.run(
        [shutil.which("git") or "git", "archive", "--format=tar", revision, *PACKAGES],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(target, filter="data")
    return target


def compare(revision: str, *, rounds: int, rows: int) -> None:
    """Print a line for each task: before, now, and the ratio."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = check_out(revision, folder / "before")
        run(before, folder, "--fill", str(rows))
        best: dict[str, dict[str, float]] = {"before": {}, "now": {}}
        for _ in range(rounds):
            answers = {}
            for side, tree in (("before", before), ("now", ROOT)):
                measured = run(tree, folder, "--measure")
                answers[side] = measured["answers"]
                for task, milliseconds in measured["times"].items():
                    best[side][task] = min(best[side].get(task, milliseconds), milliseconds)
            if answers["before"] != answers["now"]:
                raise SystemExit(f"the answers differ: {answers}")
    print(f"{'':28} {revision[:12]:>12} {'now':>12}   now / before")
    for task, was in best["before"].items():
        now = best["now"][task]
        print(f"{task:28} {was:9.2f} ms {now:9.2f} ms   {now / was:6.2f} x")


def main() -> None:
    """Compare, or be one of the processes that are compared."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision", nargs="?", default="HEAD")
    parser.add_argument("--small", action="store_true", help="little data, one round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--fill", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fill:
        fill(options.folder, options.fill)
    elif options.measure:
        child(options.folder)
    elif options.small:
        compare(options.revision, rounds=1, rows=20_000)
    else:
        compare(options.revision, rounds=options.rounds, rows=1_000_000)


if __name__ == "__main__":
    main()
