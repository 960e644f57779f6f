"""Which tests execute which line, measured once with coverage.py and kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import coverage

_SETTINGS = """
[run]
source = daf_storage,daf_query
relative_files = true
omit = */testing/*
"""


def measure(root: Path, folder: Path) -> None:
    """Run the whole suite with a context per test; takes a few times as long as the suite."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "coveragerc"
    settings.write_text(_SETTINGS)
    command = [sys.executable, "-m", "pytest", "-q", "--numprocesses", "auto"]
    command += ["--cov", "--cov-context=test", f"--cov-config={settings}", "--cov-report="]
    command += ["--deselect", "tests/test_torture.py"]
    data = folder / "coverage.sqlite"
    environment = os.environ | {"COVERAGE_FILE": str(data), "PYTHONPATH": str(root)}
    subprocess.run(command, cwd=root, env=environment, check=True)


class CoveringTests:
    """The tests that execute a line."""

    def __init__(self, data: Path) -> None:
        stored = coverage.CoverageData(str(data))
        stored.read()
        self._tests: dict[str, dict[int, list[str]]] = {}
        for path in stored.measured_files():
            by_line: dict[int, list[str]] = defaultdict(list)
            for line, contexts in stored.contexts_by_lineno(path).items():
                tests = {context.partition("|")[0] for context in contexts} - {""}
                by_line[line] = sorted(tests)
            self._tests[path] = by_line

    def of_line(self, path: str, line: int) -> list[str]:
        """Return the node ids of the tests that execute a line of a file."""
        return self._tests.get(path, {}).get(line, [])


def copy_tree(root: Path, target: Path) -> None:
    """Copy what the tests need: the packages, the tests, the documents."""
    shutil.rmtree(target, ignore_errors=True)
    ignored = shutil.ignore_patterns(".git", ".venv*", "build", ".*_cache", "__pycache__", "dist")
    shutil.copytree(root, target, ignore=ignored)
