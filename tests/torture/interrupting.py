"""A campaign of Ctrl-C: at lines of Python within a query, and at any time as a real signal.

After each, the same session answers in any thread, nothing is locked, and no thread is left.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from daf_query import DafSession, connect
from tests.support import Interruption
from tests.torture.samples import Form, create
from tests.torture.tally import ChildHangError, WrongAnswerError

_ROWS = 3_000
_LINES_PER_CASE = 4
_SIGNALS_PER_CASE = 2
_MOST_SECONDS = 10.0
"""On a busy machine; alone, the limit is two."""

Question = Callable[[DafSession], Any]

QUESTIONS: dict[str, Question] = {
    "scan": lambda s: s.sql("SELECT name, age FROM cell WHERE age > 40").to_pandas(),
    "groups": lambda s: s.sql(
        "SELECT donor, count(*) AS n, median(age) AS m FROM cell GROUP BY donor ORDER BY donor"
    ).to_pandas(),
    "gene": lambda s: s.sql(
        "SELECT name, X['g3'] AS x FROM cell WHERE age % 7 > 2 ORDER BY index"
    ).to_pandas(),
    "join": lambda s: s.sql(
        "SELECT a.name, count(*) AS n FROM cell a JOIN cell b ON a.donor = b.donor "
        "WHERE a.age + b.age = 10 GROUP BY a.name ORDER BY a.name"
    ).to_pandas(),
    "batches": lambda s: [
        batch.num_rows for batch in s.sql("SELECT upper(donor) FROM cell WHERE age = 1").batches()
    ],
    "slice": lambda s: s.matrix("cell", "gene", "X", rows="age > 40", columns=["g1"]).to_pandas(),
    "profile": lambda s: s.profile("cell", "gene", "X", by="donor").to_pandas(),
}


@cache
def _stored(form: Form) -> tuple[str, dict[str, tuple[str, int]]]:
    """Return where a data set is, and the answers to all questions, with how many lines each has."""
    with create(Path(tempfile.mkdtemp(prefix="daf-interrupted-")), form) as daf:
        daf.add_axis("cell", [f"c{i}" for i in range(_ROWS)])
        daf.add_axis("gene", [f"g{i}" for i in range(20)])
        daf.set_vector("cell", "age", np.arange(_ROWS) % 90)
        daf.set_vector("cell", "donor", [f"d{i % 7}" for i in range(_ROWS)])
        daf.set_matrix("cell", "gene", "X", np.arange(_ROWS * 20.0).reshape(_ROWS, 20) % 11)
        path = daf.location
    answers = {}
    for name, ask in QUESTIONS.items():
        with connect(path) as session, Interruption(0) as uninterrupted:
            answers[name] = _text(ask(session)), uninterrupted.lines
    return path, answers


def _text(answer: Any) -> str:
    return answer if isinstance(answer, str) else str(getattr(answer, "to_csv", answer.__str__)())


def interrupt(form: Form, _folder: Path, rng: random.Random) -> None:
    """Interrupt questions."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored here
    path, answers = _stored(form)
    name = rng.choice(sorted(QUESTIONS))
    ask, (expected, lines) = QUESTIONS[name], answers[name]
    for _ in range(_LINES_PER_CASE):
        with connect(path) as session:
            interruption = Interruption(rng.randint(1, lines))
            what = _interrupted(lambda: ask(session), interruption)
            _check_usable(session, ask, expected, f"{name} at {what}")
    for _ in range(_SIGNALS_PER_CASE):
        with connect(path) as session:
            _signalled(lambda: ask(session), rng.uniform(0, 0.05))
            _check_usable(session, ask, expected, f"{name} after a signal")


def _interrupted(work: Callable[[], Any], interruption: Interruption) -> str:
    """Do some work with an interruption; return where it came, if the work ended with it."""
    start = time.monotonic()
    try:
        with interruption:
            work()
    except KeyboardInterrupt:
        pass
    else:
        if interruption.where != "nowhere":
            raise WrongAnswerError(f"the interrupt at {interruption.where} was lost")
    if time.monotonic() - start > _MOST_SECONDS:
        raise ChildHangError(f"the interrupt at {interruption.where} came late")
    return interruption.where


def _signalled(work: Callable[[], Any], seconds: float) -> None:
    """Do some work, and send this process a signal after a time.

    Python itself drops a signal that comes while an object is freed, and says so: that is right.
    """
    dropped: list[bool] = []
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    outer_hook = sys.unraisablehook
    sys.unraisablehook = lambda what: dropped.append(what.exc_type is KeyboardInterrupt)
    try:
        timer.start()
        work()
        timer.join()
        time.sleep(0 if any(dropped) else _MOST_SECONDS)  # the work was done before it came
    except KeyboardInterrupt:
        return
    finally:
        sys.unraisablehook = outer_hook
    if not any(dropped):
        raise WrongAnswerError("a signal was lost")


def _check_usable(session: DafSession, ask: Question, expected: str, what: str) -> None:
    """Ask a session again, in another thread and in this one."""
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(_text(ask(session))), daemon=True)
    thread.start()
    thread.join(_MOST_SECONDS)
    if thread.is_alive():
        raise ChildHangError(f"{what}: the next question is never answered")
    if answers != [expected] or _text(ask(session)) != expected:
        raise WrongAnswerError(f"{what}: the next answer is another")
    if not gc.isenabled():
        raise WrongAnswerError(f"{what}: garbage is collected no more")
    end = time.monotonic() + _MOST_SECONDS
    while any(each.name == "daf-attended" for each in threading.enumerate()):
        if time.monotonic() > end:
            raise ChildHangError(f"{what}: a thread that computed for it never ends")
        time.sleep(0.01)
