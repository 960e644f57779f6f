"""Tests that the benchmarks run, on little data; nothing is timed here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "run.py"


def test_the_benchmarks_run() -> None:
    """Each comparison finds both sides equal, and prints a line."""
    found = subprocess.run(
        [sys.executable, str(SCRIPT), "--small"], capture_output=True, text=True, check=True
    )
    assert found.stdout.count(" x\n") == 14
