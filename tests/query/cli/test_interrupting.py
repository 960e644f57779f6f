"""Tests of Ctrl-C while the engine computes a batch that takes it minutes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from daf_storage import open_daf
from tests.support import data_set

INTERRUPTED = 130
LONG = (
    "SELECT count(*) FROM cell a JOIN cell b ON a.kind = b.kind JOIN cell c ON b.kind = c.kind "
    "WHERE a.number + b.number + c.number > 7"
)
"""Of 10**13 combinations, all of them in the first batch."""
COMMAND = """
import faulthandler, signal, sys, threading
from daf_query import _runs, cli

timers = [threading.Timer(0, int)]

def announced(function):
    def call(*arguments):
        timers[-1].cancel()
        timers.append(threading.Timer(1.0, lambda: print("ready", file=sys.stderr, flush=True)))
        timers[-1].start()
        return function(*arguments)
    return call

_runs.call_engine.__globals__["_called_beside"] = announced(_runs._called_beside)
signal.signal(signal.SIGINT, signal.default_int_handler)
faulthandler.dump_traceback_later(120, exit=True)
cli.run()
"""


IMPORTING = """
import sys
from daf_query import cli

class Finder:
    def find_spec(self, name, *_):
        if name == "daf_query.cli._main":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Finder())
cli.run()
"""
FREEING = """
import signal, time
from daf_query import cli
from daf_query.cli import _main

class Freed:
    def __del__(self):
        signal.raise_signal(signal.{})

def freeing(_):
    Freed()
    time.sleep(60)

signal.signal(signal.SIGINT, signal.default_int_handler)
_main._parsed = freeing
cli.run()
"""


@pytest.mark.parametrize(
    ("command", "exit_code", "sentence"),
    [
        (IMPORTING, INTERRUPTED, "interrupted"),
        (FREEING.format("SIGINT"), INTERRUPTED, "interrupted"),
        (FREEING.format("SIGTERM"), 128 + signal.SIGTERM, "ended by SIGTERM"),
    ],
)
def test_an_interrupt_where_nothing_can_be_raised(
    command: str, exit_code: int, sentence: str
) -> None:
    """While modules are imported or objects freed: the same line and code, and no traceback."""
    script = [sys.executable, "-c", command]
    done = subprocess.run(script, check=False, capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (exit_code, f"daf: error: {sentence}\n")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("number", "exit_code", "sentence"),
    [
        (signal.SIGINT, INTERRUPTED, "interrupted"),
        (signal.SIGTERM, 128 + signal.SIGTERM, "ended by SIGTERM"),
    ],
)
def test_a_long_batch_is_not_waited_for(
    tmp_path: Path, number: signal.Signals, exit_code: int, sentence: str
) -> None:
    """The command ends at once, with its exit code and one sentence, and writes no file."""
    path, output = tmp_path / "x.daf.zarr", tmp_path / "rows.csv"
    with open_daf(path, "w") as daf:
        data_set(daf, cell={"name": 20_000, "kind": ["B"] * 20_000, "number": list(range(20_000))})
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, "sql", str(path), LONG, "-o", str(output)],
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        os.kill(process.pid, number)
        assert process.stderr.read() == f"daf: error: {sentence}\n"
    assert process.returncode == exit_code
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
