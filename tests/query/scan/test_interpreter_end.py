"""Tests of what happens to queries that are still read when the interpreter ends."""

from __future__ import annotations

import subprocess
import sys

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
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("[{")
