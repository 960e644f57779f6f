"""Tests of what happens to queries that are still read when the interpreter ends."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from daf_query.scan import _interpreter_end, until_interpreter_ends
from daf_storage import errors

SCRIPT = """
import time
import daf_query, daf_storage
from daf_query import ScanOptions
from daf_query.scan import Scan

ROWS = 64 << 10
daf = daf_storage.MemoryDaf(name="ending")
daf.add_axis("cell", [f"c{n}" for n in range(ROWS)])
made = Scan.batches
def slow(self, names, partitions=None):
    for batch in made(self, names, partitions):
        yield batch
        for _ in range(500):  # it asks for the interpreter again and again
            time.sleep(0.001)
Scan.batches = slow
db = daf_query.connect(daf, scan_options=ScanOptions(partition_rows=8 << 10))
print(db.sql(%r).to_pylist())
"""


def test_a_script_ends_in_order_while_threads_still_read() -> None:
    """Other partitions are being read when the row that was asked for is there."""
    script = SCRIPT % "SELECT upper(name) AS u FROM cell LIMIT 1"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("[{")


def test_batches_are_handed_on() -> None:
    """Until the reader is closed, or at its end, and each once."""
    readers = _interpreter_end._readers
    opened = len(readers.opened)
    batches = until_interpreter_ends(iter(range(3)))
    assert next(batches) == 0
    assert len(readers.opened) == opened + 1
    assert list(batches) == [1, 2]
    assert len(readers.opened) == opened
    left = until_interpreter_ends(iter(range(3)))
    next(left)
    left.close()  # type: ignore[attr-defined]
    assert len(readers.opened) == opened
    assert not readers.running


def test_the_end_waits_for_a_batch_that_is_being_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """And for nothing else; afterwards no batch is made."""
    readers = _interpreter_end._Readers()
    monkeypatch.setattr(_interpreter_end, "_readers", readers)
    polls = 0

    def sleep(_: float) -> None:
        nonlocal polls
        polls += 1
        if polls == 3:
            readers.running.clear()
            readers.last_step = float("-inf")

    monkeypatch.setattr("daf_query.scan._interpreter_end.time.sleep", sleep)
    readers.end()
    assert polls == 0
    readers.running.add(object())
    readers.end()
    assert polls == 3

    batches = iter([1])
    with pytest.raises(errors.InUseError, match="interpreter is ending"):
        next(until_interpreter_ends(batches))
    assert next(batches) == 1
    assert not readers.running
    assert not readers.opened


def test_a_reader_is_waited_for_while_its_last_step_is_recent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Longer while one is open; not if there was none."""
    module = _interpreter_end
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 100.0))
    readers = module._Readers()
    assert readers._is_recent() is False
    for opened, quiet in (((), module._QUIET_SECONDS), ((1,), module._QUIET_WHILE_OPEN_SECONDS)):
        readers.opened.update(opened)
        for seconds, is_recent in ((0.0, True), (quiet * 0.9, True), (quiet * 1.1, False)):
            readers.last_step = 100.0 - seconds
            assert readers._is_recent() is is_recent
    readers.forget()
    assert not readers.opened
