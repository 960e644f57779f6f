"""Tests that a test that hangs is ended, with a traceback that says where."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

CONFTEST = Path(__file__).parent.parent / "conftest.py"
HANGING = """
import time

def test_that_hangs():
    time.sleep(100)
"""


def test_a_test_that_hangs_is_ended(tmp_path: Path) -> None:
    """The process ends at the limit, and the stack is printed although output is captured."""
    text = CONFTEST.read_text()
    assert "LIMIT_SECONDS: Final = 600\n" in text
    text = text.replace("LIMIT_SECONDS: Final = 600\n", "LIMIT_SECONDS: Final = 0.5\n")
    (tmp_path / "conftest.py").write_text(text)
    (tmp_path / "test_it.py").write_text(HANGING)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    options: Any = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 60}
    ended = subprocess.run([*command, "-n0", str(tmp_path)], check=False, **options)
    assert ended.returncode == 1
    assert "in test_that_hangs" in ended.stderr
