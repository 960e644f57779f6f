"""Runs pytest again and again without importing the big libraries each time.

A process in a copy of the project: it imports the modules that its further arguments name, then
forks for each line on its standard input (JSON: pytest's arguments, and the processor seconds after
which no further test is begun) and answers with a line: pytest's exit code, or null where the limit of processor seconds (the first argument) or
of memory was reached, or where nothing was computed for half of that time.  A run has its own process group, which is killed with it; temporary files and the home
folder are in the copy of the project.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

import pytest

_MOST_MEMORY_BYTES = 8 << 30
_POLL_SECONDS = 0.05
_WAITING = 3
"""How many times as long as it may compute a run may take."""
_IDLE = 0.5
"""The part of the time that it may compute, for which it may wait without computing."""


def main() -> None:
    """Serve runs until the standard input ends."""
    limit_seconds = float(sys.argv[1])
    scratch = Path("scratch").resolve()
    os.environ.update(HOME=str(scratch), TMPDIR=str(scratch), XDG_CACHE_HOME=str(scratch))
    for name in sys.argv[2:]:
        importlib.import_module(name)
    for line in sys.stdin:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        child = os.fork()
        if child == 0:
            _run(**json.loads(line), scratch=scratch)
        print(json.dumps(_wait(child, limit_seconds)), flush=True)


class _Budget:
    """A plugin of pytest that leaves out tests once the time is used up."""

    def __init__(self, seconds: float) -> None:
        self._end = time.process_time() + seconds

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> bool | None:
        """Return that there is nothing to do."""
        return True if time.process_time() > self._end else None


def _run(arguments: list[str], budget_seconds: float, scratch: Path) -> None:
    """Be the run: never returns."""
    os.setsid()
    output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for new, old in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(new, old)
    code = 3  # what pytest says where it failed itself
    try:
        code = int(
            pytest.main([*arguments, f"--basetemp={scratch / 'pytest'}"], [_Budget(budget_seconds)])
        )
    except BaseException:  # noqa: BLE001 - a copy of the process must not go on as if it were it
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code)


def _wait(child: int, limit_seconds: float) -> int | None:
    """Return the exit code of a run, or None where it took too long."""
    end = time.monotonic() + _WAITING * limit_seconds
    busy, idle_end = 0.0, time.monotonic() + _IDLE * limit_seconds
    while (
        time.monotonic() < min(end, idle_end)
        and _busy_seconds(child) < limit_seconds
        and _memory_bytes(child) < _MOST_MEMORY_BYTES
    ):
        if _busy_seconds(child) > busy:
            busy, idle_end = _busy_seconds(child), time.monotonic() + _IDLE * limit_seconds
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            _kill_group(child)  # what its tests started and left
            return os.waitstatus_to_exitcode(status)
        time.sleep(_POLL_SECONDS)
    _kill_group(child)
    os.waitpid(child, 0)
    return None


def _busy_seconds(child: int) -> float:
    """Return the processor time; how long a run takes depends on what else the machine does."""
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory_bytes(child: int) -> int:
    """Return the resident memory; address space has no limit, as archives map a tebibyte."""
    pages = Path(f"/proc/{child}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def _kill_group(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


if __name__ == "__main__":
    main()
