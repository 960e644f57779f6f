"""The tests that execute each line, measured once with coverage.py and kept."""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import coverage

_SETTINGS = """
[run]
source = daf_storage,daf_query
relative_files = true
omit = */testing.py
"""
_ENGINES = Path("tests", "engines")
_PACKAGES = ("daf_storage", "daf_query")
_FEW = 20
"""Tests of a line, up to which others of its file are tried."""
_CASES_A_TURN = 8
"""Cases of a parametrized test of the module itself that are tried beside one of each other test."""
_ELSEWHERE = ("tests/test_torture.py", "tests/test_benchmarks.py", "tests/test_mutants.py")
"""Tests that run the packages in other processes, which are not traced."""
MARKED = ["-m", "not benchmarks and not browser and not notebooks"]
"""Which tests can notice a mutant: also those of engines, which the suite leaves out."""


def measure(root: Path, folder: Path, *, jobs: int) -> int:
    """Run the suite, and the tests of engines, with a context per test; return pytest's exit code.

    That takes a few times as long as without.  The sources are kept beside the data, so that lines
    are found again after changes.
    """
    measured = folder / "measured"
    shutil.rmtree(measured, ignore_errors=True)
    measured.mkdir(parents=True)
    for package in _PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(root / package, measured / package, ignore=ignored)
    settings = measured / "coveragerc"
    settings.write_text(_SETTINGS)
    command = [sys.executable, "-m", "pytest", "-q", "--numprocesses", str(jobs), *MARKED]
    command += ["--cov", "--cov-context=test", f"--cov-config={settings}", "--cov-report="]
    command += ["--dist", "worksteal", *(f"--ignore={file}" for file in _ELSEWHERE)]
    data = measured / "coverage.sqlite"
    environment = os.environ | {"COVERAGE_FILE": str(data), "PYTHONPATH": str(root)}
    return subprocess.run(command, cwd=root, env=environment, check=False).returncode


class CoveringTests:
    """The tests that execute a line, those of the line's module and the most specific ones first.

    Parameters
    ----------
    folder
        Where `measure` put what it found.
    root
        The project, whose lines are asked for.
    existing
        The node ids of all tests; others, which were renamed, are left out.
    """

    def __init__(self, folder: Path, root: Path, existing: set[str]) -> None:
        self._existing = existing
        self._tests: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        measured = folder / "measured"
        stored = coverage.CoverageData(str(measured / "coverage.sqlite"))
        stored.read()
        for path in stored.measured_files():
            if (root / path).exists():
                moved = moved_lines((measured / path).read_text(), (root / path).read_text())
                for line, contexts in stored.contexts_by_lineno(path).items():
                    tests = {context.partition("|")[0] for context in contexts} & existing
                    if line in moved:
                        self._tests[path][moved[line]] |= tests
        self._lines = Counter(
            test for lines in self._tests.values() for tests in lines.values() for test in tests
        )
        self._unmeasured = {test for test in existing if test not in self._lines}

    def of_line(self, path: str, line: int) -> list[str]:
        """Return the node ids of the tests that execute a line of a file.

        Python's tracing does not see what the engine's own threads and other processes call.  So
        the other tests of the line's module come last, and, for a line with few tests, those that
        execute most lines of the file, and all others of its package.  Tests of the package that were
        written since all were measured come last, too.
        """
        module = {test for test in self._existing if is_of_module(test, path)}
        found = self._tests[path][line]
        others = module - found | {test for test in self._unmeasured if _is_beside(test, path)}
        if len(found) < _FEW:
            lines = Counter(test for tests in self._tests[path].values() for test in tests)
            others |= {test for test, _ in lines.most_common(40)}
            others |= {test for test in self._existing if _is_beside(test, path)}
        return [*self._ordered(found, module), *self._ordered(others, module)]

    def _ordered(self, tests: set[str], module: set[str]) -> list[str]:
        """Return tests of the module and specific ones first; of each function one, then more.

        Of the module's own functions, as many cases as there are come within a few turns: often one
        of them is what the line is there for.
        """
        turns: Counter[str] = Counter()
        turn: dict[str, int] = {}
        specific = sorted(tests, key=lambda test: (self._lines[test], test))
        for test in specific:
            function = test.partition("[")[0]
            turn[test] = turns[function]
            turns[function] += 1

        def place(test: str) -> tuple[int, bool, int]:
            cases = _CASES_A_TURN if test in module else 1
            return turn[test] // cases, test not in module, turn[test]

        return sorted(specific, key=place)


def is_of_module(test: str, path: str) -> bool:
    """Return whether a test is in the file that belongs to a module, or to the package it is in.

    Examples
    --------
    >>> is_of_module("tests/storage/trees/test_zarr_v3.py::test", "daf_storage/trees/_zarr.py")
    True
    >>> is_of_module("tests/query/table/test_zarr.py::test", "daf_storage/trees/_zarr.py")
    False
    >>> is_of_module("tests/storage/h5ad/test_h5ad.py::test", "daf_storage/h5ad/_import.py")
    True
    >>> is_of_module("tests/engines/test_spark.py::test", "daf_query/spark/_query.py")
    True
    """
    file, module = Path(test.partition("::")[0]), Path(path)
    package, *folders = module.parts[:-1]
    if file.parent == _ENGINES:
        return bool(folders) and folders[0].startswith(file.stem.removeprefix("test_"))
    folder = Path("tests", package.removeprefix("daf_"), *folders)
    is_of_package = file.parent == folder.parent and file.name.startswith(f"test_{folder.name}")
    is_in_package = file.parent == folder and (
        module.stem.strip("_") in file.stem or file.stem == f"test_{folder.name}"
    )
    return file == module or is_in_package or (bool(folders) and is_of_package)


def _is_beside(test: str, path: str) -> bool:
    """Return whether a test is in the folder of the tests of a module's package."""
    package, *folders = Path(path).parts[:-1]
    file = Path(test.partition("::")[0])
    return bool(folders) and file.parent == Path("tests", package.removeprefix("daf_"), *folders)


def moved_lines(before: str, after: str) -> dict[int, int]:
    r"""Return where the lines of a file are that did not change, counted from 1.

    Examples
    --------
    >>> moved_lines("a\nb\nc\n", "a\nx\nb\n")
    {1: 1, 2: 3}
    """
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    return {
        old + number + 1: new + number + 1
        for old, new, size in matcher.get_matching_blocks()
        for number in range(size)
    }


def copy_tree(root: Path, target: Path) -> None:
    """Copy what the tests need: the packages, the tests, the documents."""
    shutil.rmtree(target, ignore_errors=True)
    ignored = shutil.ignore_patterns(".git", ".venv*", "build", ".*_cache", "__pycache__", "dist")
    shutil.copytree(root, target, ignore=ignored)
