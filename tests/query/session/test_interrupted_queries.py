"""Tests of Ctrl-C within queries and slices: it arrives as what it is, and leaves nothing behind."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daf_query import DafSession, connect
from tests.support import Interruption, create, data_set, wait_until

QUESTIONS: dict[str, Callable[[DafSession], Any]] = {
    "scan": lambda session: session.sql("SELECT name FROM cell WHERE age > 4").to_pydict(),
    "query": lambda session: session.sql(
        "SELECT donor, median(age) AS m FROM cell WHERE age % 7 > 2 GROUP BY donor ORDER BY donor"
    ).to_pydict(),
    "batches": lambda session: [
        batch.to_pydict() for batch in session.sql("SELECT upper(donor) FROM cell").batches()
    ],
    "slice": lambda session: (
        session.matrix("cell", "gene", "X", rows="age > 4", columns=["g1"]).to_numpy().tolist()
    ),
}
LONG = (
    "SELECT count(*) FROM cell a JOIN cell b ON a.kind = b.kind JOIN cell c ON b.kind = c.kind "
    "WHERE a.age + b.age + c.age > 7"
)

INTERRUPTED = """
import os, signal, sys, threading, time
from daf_query import connect
signal.signal(signal.SIGINT, signal.default_int_handler)
session = connect(sys.argv[1])
sent = []
def interrupt():
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Timer(1.5, interrupt).start()
try:
    session.sql(sys.argv[2]).to_pandas()
except KeyboardInterrupt:
    print(time.monotonic() - sent[0])
    print(session.sql("SELECT count(*) AS n FROM cell").to_pydict()["n"][0], flush=True)
    os._exit(0)
"""


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Return a small data set in a directory."""
    path = tmp_path / "x.daf.zarr"
    cells = {"name": 50, "age": list(range(50)), "donor": [f"d{i % 3}" for i in range(50)]}
    values = {("cell", "gene", "X"): [[i, -i] for i in range(50)]}
    data_set(create(path), cell=cells, gene=["g0", "g1"], matrices=values)
    return path


def answered(ask: Callable[[DafSession], Any], session: DafSession) -> Any:
    """Return what another thread is answered, or that it is not."""
    answers: list[Any] = ["never"]
    thread = threading.Thread(target=lambda: answers.append(ask(session)), daemon=True)
    thread.start()
    thread.join(20)
    return answers[-1]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_an_interrupt_at_any_line(stored: Path, ask: Callable[[DafSession], Any]) -> None:
    """It is a KeyboardInterrupt, and the same session answers the next question in any thread."""
    with connect(stored) as session:
        expected = ask(session)
    uninterrupted = [Interruption(0) for _ in range(3)]
    for run in uninterrupted:  # one that had to wait passes more lines
        with connect(stored) as session, run:
            ask(session)
    for line in range(1, min(run.lines for run in uninterrupted) + 1, 3):
        with connect(stored) as session:
            with pytest.raises(KeyboardInterrupt), Interruption(line) as interruption:
                ask(session)
            assert answered(ask, session) == expected, interruption.where
            assert ask(session) == expected, interruption.where
            assert gc.isenabled()
    wait_until(lambda: all(thread.name != "daf-attended" for thread in threading.enumerate()))


def test_a_signal_within_a_long_batch(tmp_path: Path) -> None:
    """It is raised within two seconds, and the session answers.

    In a process of its own: a join of the engine that has all its rows looks at nothing until it
    has joined them.
    """
    path = tmp_path / "x.daf.zarr"
    cells = {"name": 20_000, "kind": ["B"] * 20_000, "age": list(range(20_000))}
    data_set(create(path), cell=cells)
    run = [sys.executable, "-c", INTERRUPTED, str(path), LONG]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    seconds, count = done.stdout.split()
    assert float(seconds) < 10  # on a busy machine; alone, two
    assert count == "20000"
