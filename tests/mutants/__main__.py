"""The command line of the mutation tests; see the package."""

from __future__ import annotations

import argparse
import os
import queue
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.covering import CoveringTests, copy_tree, measure
from tests.mutants.mutations import Mutation, mutations

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "mutants"
WITHOUT_EFFECT = Path(__file__).with_name("without_effect.txt")
_MOST_TESTS = 120
_LIMIT_SECONDS = 240


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant."""

    mutation: Mutation
    is_noticed: bool
    tests: int
    """How many tests execute the line."""

    def __str__(self) -> str:
        one = self.mutation
        word = "noticed " if self.is_noticed else "SURVIVED"
        place = f"{one.path}:{one.line}"
        return f"{word} {place}\n    - {one.before.strip()}\n    + {one.after.strip()}"


def all_mutations(only: str) -> list[Mutation]:
    """Return every mutation of the two packages, in files whose path contains ``only``."""
    files = sorted([*ROOT.glob("daf_storage/**/*.py"), *ROOT.glob("daf_query/**/*.py")])
    found: list[Mutation] = []
    for file in files:
        path = str(file.relative_to(ROOT))
        if "/testing/" not in path and not path.endswith("demo.py") and only in path:
            found += mutations(path, file.read_text())
    return found


def without_effect() -> set[str]:
    """Return the mutations that are known to change nothing."""
    lines = WITHOUT_EFFECT.read_text().splitlines()
    return {line.rpartition("  # ")[0] for line in lines if line and not line.startswith("#")}


def try_mutant(mutation: Mutation, tree: Path, tests: list[str], rng: random.Random) -> Outcome:
    """Change the line in a copy of the project and run the tests that execute it."""
    if not tests:
        return Outcome(mutation, is_noticed=False, tests=0)
    chosen = tests if len(tests) <= _MOST_TESTS else rng.sample(tests, _MOST_TESTS)
    file = tree / mutation.path
    source = file.read_text()
    file.write_text(mutation.apply(source))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*command, *chosen],
            cwd=tree,
            env=environment,
            timeout=_LIMIT_SECONDS,
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        is_noticed = done.returncode != 0
    except subprocess.TimeoutExpired:
        is_noticed = True
    finally:
        file.write_text(source)
    return Outcome(mutation, is_noticed, len(tests))


def run(chosen: list[Mutation], covering: CoveringTests, *, jobs: int) -> list[Outcome]:
    """Try mutants side by side, each in a copy of the project."""
    trees: queue.Queue[Path] = queue.Queue()
    for number in range(jobs):
        copy_tree(ROOT, FOLDER / f"tree{number}")
        trees.put(FOLDER / f"tree{number}")

    def one(mutation: Mutation) -> Outcome:
        tree = trees.get()
        try:
            tests = covering.of_line(mutation.path, mutation.line)
            outcome = try_mutant(mutation, tree, tests, random.Random(mutation.key))
        finally:
            trees.put(tree)
        print(outcome, flush=True)
        return outcome

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, chosen))


def main() -> int:
    """Try a sample of mutants and return 1 if fewer are noticed than asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="how many mutants to try")
    parser.add_argument("--seed", type=int, default=1, help="another seed takes another sample")
    parser.add_argument("--only", default="", help="only in files whose path contains this")
    parser.add_argument("--least", type=float, default=95.0, help="per cent to be noticed")
    parser.add_argument("--measure", action="store_true", help="measure coverage again")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    data = FOLDER / "coverage.sqlite"
    if arguments.measure or not data.exists():
        measure(ROOT, FOLDER)
    known = without_effect()
    candidates = [one for one in all_mutations(arguments.only) if one.key not in known]
    rng = random.Random(arguments.seed)
    chosen = rng.sample(candidates, min(arguments.count, len(candidates)))
    start = time.monotonic()
    outcomes = run(chosen, CoveringTests(data), jobs=arguments.jobs)
    survivors = [one for one in outcomes if not one.is_noticed]
    share = 100 * (1 - len(survivors) / len(outcomes))
    print("\nSurvivors:" if survivors else "\nNo survivors.")
    for one in sorted(survivors, key=lambda one: (one.mutation.path, one.mutation.line)):
        print(one if one.tests else f"{one}\n    no test executes this line")
    print(
        f"{len(outcomes)} mutants of {len(candidates):,}, seed {arguments.seed}: "
        f"{len(outcomes) - len(survivors)} noticed, {len(survivors)} survived, {share:.1f} % "
        f"({time.monotonic() - start:.0f} s)"
    )
    return int(share < arguments.least)


if __name__ == "__main__":
    sys.exit(main())
