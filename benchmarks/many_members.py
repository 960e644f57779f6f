"""Measure a collection of thousands of small data sets: connect, count, and memory.

    python benchmarks/many_members.py                     10,000 archives of 200 cells
    python benchmarks/many_members.py --form directory    directories instead
    python benchmarks/many_members.py --small             a few, to see that it works

The data sets are copies of twenty that differ in their lengths, in --folder; 0.4 GB of archives. Of
directories the files are hard links. Prints processor seconds and the memory of the process, its
own (RssAnon) and that with the mapped files, and what a plan for another process takes.
"""

from __future__ import annotations

import argparse
import os
import pickle
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow.compute as pc
import scipy.sparse as sp

import daf_query
import daf_storage
from daf_query.fragments import plan_fragments

SEEDS: Final = 20
GENES: Final = 30
SUFFIXES: Final = {"archive": ".daf.zarr.zip", "directory": ".daf.zarr"}

_T = TypeVar("_T")


def prepared(folder: Path, count: int, form: str) -> str:
    """Make the data sets that are not there yet; return their pattern."""
    target, suffix = folder / f"{form}-{count}", SUFFIXES[form]
    (target / "seeds").mkdir(parents=True, exist_ok=True)
    seeds = [target / "seeds" / f"seed{number}{suffix}" for number in range(SEEDS)]
    for number, seed in enumerate(seeds):
        if not seed.exists():
            with daf_storage.open_daf(seed, "w") as daf:
                fill(daf, 190 + number, np.random.default_rng(number))
    for number in range(count):
        path, seed = target / f"run{number:05}{suffix}", seeds[number % SEEDS]
        if form == "archive" and not path.exists():
            shutil.copyfile(seed, path)
        elif not path.exists():
            shutil.copytree(seed, path, copy_function=os.link)
    return str(target / f"run*{suffix}")


def fill(daf: Any, rows: int, rng: np.random.Generator) -> None:
    """Add two axes, six vectors and a matrix."""
    daf.add_axis("cell", [f"c{row}" for row in range(rows)])
    daf.add_axis("gene", [f"g{gene}" for gene in range(GENES)])
    daf.set_vector("cell", "age", rng.integers(0, 90, rows).astype("int32"))
    daf.set_vector("cell", "score", rng.random(rows))
    daf.set_vector("cell", "n_genes", rng.integers(0, 5000, rows))
    daf.set_vector("cell", "is_doublet", rng.random(rows) < 0.1)
    daf.set_vector("cell", "donor", rng.choice(["d1", "d2", "d3"], rows).astype(str))
    daf.set_vector("cell", "cell_type", rng.choice(["B", "T", "NK"], rows).astype(str))
    counts = sp.random(rows, GENES, 0.1, format="csr", dtype="float32", rng=rng)
    daf.set_matrix("cell", "gene", "X", counts)


def memory() -> str:
    """Return the memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) / 1e6 for line in lines if " kB" in line}
    return f"{sizes['RssAnon']:.2f} GB own, {sizes['VmRSS']:.2f} GB with mapped files"


def step(name: str, act: Callable[[], _T]) -> _T:
    """Do something, and print what it took."""
    started = time.process_time()
    result = act()
    print(f"{name:24} {time.process_time() - started:7.2f} processor seconds, {memory()}")
    return result


def main() -> None:
    """Make the data, measure, compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--form", choices=SUFFIXES, default="archive")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "daf-members")
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    pattern = prepared(given.folder, 40 if given.small else given.count, given.form)
    query = "SELECT count(*) AS n FROM cell WHERE donor = 'd1' AND age > 40"
    session = step("connect", lambda: daf_query.connect(pattern))
    first = step("first filtered count", lambda: session.sql(query).to_pylist())
    again = step("the same again", lambda: session.sql(query).to_pylist())
    other = query.replace("d1", "d2").replace("40", "9")
    step("another one", lambda: session.sql(other).to_pylist())
    one = f"{query} AND dataset = 'run00007'"
    step("one data set of all", lambda: session.sql(one).to_pylist())
    assert first == again
    session.close()

    def plan() -> Any:
        return plan_fragments(pattern, "cell", columns=["age"], filter=pc.field("age") > 40)

    step("plan for workers", plan)
    fragments = step("plan for workers again", plan).fragments
    size = sum(len(pickle.dumps(fragment)) for fragment in fragments)
    print(f"{len(fragments)} fragments, {size / 1e6:.2f} MB pickled")


if __name__ == "__main__":
    main()
