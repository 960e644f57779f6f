"""The command line of the mutation tests; see the package."""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from tests.mutants.covering import measure
from tests.mutants.mutations import Mutation, is_python, mutations
from tests.mutants.trying import try_all

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "mutants"
LEFT_OUT = ("testing.py", "demo.py", "/web/")
"""The suites for other stores, what speaks to people, and what builds the page."""
_OF_TORCH, _HAS_TORCH = re.compile("[Tt]orch|tensor"), find_spec("torch") is not None
"""What no test executes where torch is not installed."""
LEAST_PERCENT = 95.0
"""How many have to be noticed."""
WITHOUT_EFFECT = Path(__file__).with_name("without_effect.txt")


def all_mutations(only: Sequence[str]) -> list[Mutation]:
    """Return every mutation of the two packages, in files whose path contains one of ``only``."""
    files = sorted([*ROOT.glob("daf_storage/**/*.py"), *ROOT.glob("daf_query/**/*.py")])
    found: list[Mutation] = []
    for file in files:
        path = str(file.relative_to(ROOT))
        if not any(part in path for part in LEFT_OUT):
            if not only or any(part in path for part in only):
                found += mutations(path, file.read_text())
    return [one for one in found if _HAS_TORCH or not _OF_TORCH.search(one.function)]


def without_effect() -> set[str]:
    """Return the mutations that are known to change nothing."""
    lines = WITHOUT_EFFECT.read_text().splitlines()
    return {line.rpartition("  # ")[0] for line in lines if line and not line.startswith("#")}


def sample(candidates: list[Mutation], count: int, seed: int) -> list[Mutation]:
    """Return some of the mutations, as many as asked for if there are.

    What a seed takes depends on each mutation alone, and stays the same while the lines do,
    whatever else is written or moved: a sample that was worked on can be tried again years later.
    """
    seen: Counter[str] = Counter()
    places: list[tuple[bytes, int]] = []
    for index, one in enumerate(candidates):
        seen[one.key] += 1  # the same line may be there twice
        named = f"{seed} {seen[one.key]} {one.key}".encode()
        places.append((hashlib.blake2b(named, digest_size=16).digest(), index))
    shuffled = (candidates[index] for _, index in sorted(places))
    valid = (one for one in shuffled if is_python(one.apply((ROOT / one.path).read_text())))
    return list(itertools.islice(valid, count))


def main() -> int:
    """Try a sample of mutants and return 1 if too few are noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="how many mutants to try")
    parser.add_argument("--seed", type=int, default=1, help="another seed takes another sample")
    parser.add_argument(
        "--only", nargs="+", default=[], help="only in files whose path contains one of these"
    )
    parser.add_argument("--measure", action="store_true", help="measure coverage again")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if arguments.measure or not (FOLDER / "measured").exists():
        code = measure(ROOT, FOLDER, jobs=arguments.jobs)
        if code:
            print(f"Some tests fail (exit code {code}); they notice no mutants.")
    unnoticeable = without_effect()
    every = all_mutations(arguments.only)
    for key in sorted(unnoticeable - {one.key for one in every}) if not arguments.only else ():
        print(f"without_effect.txt has what is no mutation any more: {key}")
    candidates = [one for one in every if one.key not in unnoticeable]
    start = time.monotonic()
    chosen = sample(candidates, arguments.count, arguments.seed)
    outcomes = try_all(chosen, ROOT, FOLDER, jobs=arguments.jobs)
    survivors = [one for one in outcomes if not one.is_noticed]
    print("\nSurvivors:" if survivors else "\nNo survivors.")
    for one in sorted(survivors, key=lambda one: (one.mutation.path, one.mutation.line)):
        print(one)
    share = 100 * (1 - len(survivors) / max(len(outcomes), 1))
    print(
        f"{len(outcomes)} mutants of {len(candidates):,}, seed {arguments.seed}: "
        f"{len(outcomes) - len(survivors)} noticed, {len(survivors)} survived, {share:.1f} % "
        f"({time.monotonic() - start:.0f} s)"
    )
    return int(share < LEAST_PERCENT)


if __name__ == "__main__":
    sys.exit(main())
