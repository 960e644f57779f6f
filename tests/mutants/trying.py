"""Tries mutants, each in a copy of the project, on the tests that execute its line."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.covering import MARKED, CoveringTests, copy_tree
from tests.mutants.mutations import Mutation

MOST_TESTS = 600
BUDGET_SECONDS = 120.0
"""Processor time after which no further test is tried."""
LIMIT_SECONDS = 240.0
"""Processor time after which a run is taken to hang."""
IMPORTED_ONCE = (
    *("numpy", "scipy.sparse", "pandas", "pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet"),
    *("datafusion", "h5py", "anndata", "zarr", "numcodecs", "duckdb", "polars"),
    *("hypothesis", "_hypothesis_pytestplugin", "pytest_asyncio", "xdist.plugin", "pytest_cov"),
)
"""What the tests need but the packages themselves."""
_NO_TESTS = 5
"""Pytest's exit code for having run nothing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant."""

    mutation: Mutation
    is_noticed: bool
    by: str = ""
    """The test that failed first, or why there is none."""

    def __str__(self) -> str:
        one = self.mutation
        word = "noticed " if self.is_noticed else "SURVIVED"
        place = f"{one.path}:{one.line} ({one.function})"
        return f"{word} {place} {self.by}\n    - {one.before.strip()}\n    + {one.after.strip()}"


class Copy:
    """A copy of the project, in which mutated code runs and leaves its files."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        copy_tree(root, folder)
        environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "tests.mutants.runner", str(LIMIT_SECONDS)]
        command += IMPORTED_ONCE
        self._runner = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, arguments: list[str], *, budget_seconds: float = LIMIT_SECONDS) -> int | None:
        """Return pytest's exit code, or None if it took too long."""
        assert self._runner.stdin is not None
        assert self._runner.stdout is not None
        quiet = ["-q", "-n0", "-p", "no:cacheprovider", *MARKED]
        quiet += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        run = {"arguments": [*quiet, *arguments], "budget_seconds": budget_seconds}
        self._runner.stdin.write(json.dumps(run) + "\n")
        self._runner.stdin.flush()
        answer: int | None = json.loads(self._runner.stdout.readline())
        return answer

    def output(self) -> list[str]:
        """Return the lines that the last run printed."""
        return (self.folder / "output.txt").read_text(errors="replace").splitlines()

    def failed(self) -> list[str]:
        """Return the node ids of the tests that failed in the last run."""
        lines = [line for line in self.output() if line.startswith(("FAILED ", "ERROR "))]
        return [line.partition(" ")[2].partition(" - ")[0] for line in lines]

    def try_mutant(self, mutation: Mutation, tests: list[str]) -> Outcome:
        """Change the line and run the tests."""
        if not tests:
            return Outcome(mutation, is_noticed=False, by="no test executes this line")
        file = self.folder / mutation.path
        source = file.read_text()
        file.write_text(mutation.apply(source))
        try:
            code = self.run(["-x", *tests], budget_seconds=BUDGET_SECONDS)
        finally:
            file.write_text(source)
        by = "" if code in (0, _NO_TESTS) else f"exit code {code}" if code else "limit reached"
        return Outcome(mutation, bool(by), next(iter(self.failed()), by) if by else "")

    def close(self) -> None:
        """End the process that runs the tests."""
        self._runner.communicate()


class Trial:
    """Copies of the project, side by side."""

    def __init__(self, copies: list[Copy], folder: Path, root: Path) -> None:
        self._copies: queue.Queue[Copy] = queue.Queue()
        for copy in copies:
            self._copies.put(copy)
        copies[0].run(["--collect-only"])
        existing = {line for line in copies[0].output() if "::" in line and " " not in line[:12]}
        self._covering = CoveringTests(folder, root, existing)
        self._jobs = len(copies)

    def run(self, chosen: list[Mutation]) -> list[Outcome]:
        """Try mutants, and those again that were noticed by a test that fails anyway."""
        without: set[str] = set()
        outcomes = self._each(chosen, without=without)
        while unfit := self._failing({one.by for one in outcomes if "::" in one.by}):
            again = [one.mutation for one in outcomes if one.by in unfit]
            print(f"\n{len(again)} mutants again: these tests fail without them: {sorted(unfit)}")
            outcomes = [one for one in outcomes if one.by not in unfit]
            without |= unfit
            outcomes += self._each(again, without=without)
        return outcomes

    def _each(self, chosen: list[Mutation], *, without: set[str]) -> list[Outcome]:
        def one(mutation: Mutation) -> Outcome:
            tests = self._covering.of_line(mutation.path, mutation.line)
            tests = [test for test in tests if test not in without][:MOST_TESTS]
            with self._copy() as copy:
                outcome = copy.try_mutant(mutation, tests)
            print(outcome, flush=True)
            return outcome

        with ThreadPoolExecutor(self._jobs) as pool:
            return list(pool.map(one, chosen))

    def _failing(self, tests: set[str]) -> set[str]:
        """Return those of the tests that fail in the project as it is."""
        found: set[str] = set()
        ordered = sorted(tests)
        step = 10
        for start in range(0, len(ordered), step):
            with self._copy() as copy:
                if copy.run(ordered[start : start + step]) != 0:
                    found |= set(copy.failed()) & tests
        return found

    @contextmanager
    def _copy(self) -> Iterator[Copy]:
        copy = self._copies.get()
        try:
            yield copy
        finally:
            self._copies.put(copy)


def try_all(chosen: list[Mutation], root: Path, folder: Path, *, jobs: int) -> list[Outcome]:
    """Try mutants, as many side by side as there are jobs."""
    copies = [Copy(root, folder / f"tree{number}") for number in range(jobs)]
    try:
        return Trial(copies, folder, root).run(chosen)
    finally:
        for copy in copies:
            copy.close()
