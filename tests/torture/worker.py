"""A child process that runs the cases of some campaigns within limits, and its supervisor."""

from __future__ import annotations

import faulthandler
import itertools
import math
import multiprocessing
import os
import random
import resource
import shutil
import signal
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from unittest import mock

from daf_storage import DafError
from tests.faulty_disk import environment
from tests.torture.tally import (
    ChildCrashError,
    ChildHangError,
    LossError,
    Tally,
    Verdict,
    WrongAnswerError,
)

MEMORY_BYTES = 3 << 30
"""How much a worker may allocate."""
_START_SECONDS = 180


def case_seconds() -> float:
    """Return how long a case may take, on a busy machine, before it counts as a hang."""
    return float(os.environ.get("DAF_TORTURE_CASE_SECONDS", "40"))


Case = Callable[[Path, random.Random], None]
"""Runs one case in an empty folder; raises what must not happen."""


def turn_of(turn: int, campaigns: Sequence[str]) -> tuple[str, int]:
    """Return the campaign whose turn it is, and the number of the case among its own."""
    return campaigns[turn % len(campaigns)], turn // len(campaigns)


_VERDICTS: dict[type[BaseException], Verdict] = {
    WrongAnswerError: Verdict.WRONG,
    LossError: Verdict.LOSS,
    ChildCrashError: Verdict.CRASH,
    ChildHangError: Verdict.HANG,
}


def run_case(case: Case, folder: Path, seed: str) -> tuple[Verdict, str]:
    """Run one case in an empty folder of its own and return how it ended."""
    folder.mkdir(parents=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case(folder, random.Random(seed))
    except DafError as error:
        return Verdict.LOSS, f"refused where it must work: {_where(error)}"
    except BaseException as error:
        return _VERDICTS.get(type(error), Verdict.FOREIGN), _where(error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Verdict.FINE, ""


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    last = [f"{Path(f.filename).name}:{f.lineno}" for f in frames[-3:]]
    return f"{type(error).__name__}: {str(error)[:300]} [{' > '.join(last)}]"


def limit_memory() -> None:
    """Let allocations beyond the limit fail, not counting what libraries have reserved so far."""
    status = Path("/proc/self/status").read_text()
    reserved_kb = int(status.partition("VmData:")[2].split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, ((reserved_kb << 10) + MEMORY_BYTES, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def work(campaigns: Sequence[str], seed: int, first: int, folder: Path, report: Connection) -> None:
    """Run cases of each campaign in turn, from one turn on; report when it begins, and each end."""
    from tests.torture.campaigns import CAMPAIGNS
    from tests.torture.pranks import PRANKS

    output = os.open(folder / "stderr", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    limit_memory()
    faulthandler.enable()
    report.send(None)
    for turn in itertools.count(first):
        faulthandler.dump_traceback_later(0.95 * case_seconds())
        name, number = turn_of(turn, campaigns)
        case = (CAMPAIGNS | PRANKS)[name]
        outcome = run_case(case, folder / "cases" / str(turn), f"{name}:{seed}:{number}")
        faulthandler.cancel_dump_traceback_later()
        report.send(outcome)


def supervise(
    campaigns: Sequence[str], seed: int, tally: Tally, *, seconds: float, most: float = math.inf
) -> None:
    """Keep a worker of some campaigns going for a time, or until so many cases of each; count them."""
    end = time.monotonic() + seconds
    turn = 0
    while time.monotonic() < end and turn < most * len(campaigns):
        with closing(_outcomes(campaigns, seed, turn)) as outcomes:
            for verdict, detail in outcomes:
                tally.add(*turn_of(turn, campaigns), verdict, detail)
                turn += 1
                if time.monotonic() > end or turn >= most * len(campaigns):
                    break


_STARTING = threading.Lock()


def _outcomes(campaigns: Sequence[str], seed: int, first: int) -> Generator[tuple[Verdict, str]]:
    """Yield how the cases of a worker end, from one turn on; after a crash or a hang it has ended."""
    reading, writing = multiprocessing.Pipe(duplex=False)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - for a while
    with tempfile.TemporaryDirectory(prefix="daf-torture-", dir=memory) as folder:
        arguments = (campaigns, seed, first, Path(folder), writing)
        worker = multiprocessing.get_context("spawn").Process(target=work, args=arguments)
        with _STARTING, mock.patch.dict(os.environ, environment()):
            worker.start()
        writing.close()
        patience = float(_START_SECONDS)
        try:
            while reading.poll(patience):
                outcome = reading.recv()
                patience = case_seconds()
                if outcome is not None:
                    yield outcome
            yield Verdict.HANG, _tail(Path(folder))
        except EOFError:
            worker.join()
            code = worker.exitcode or 0
            status = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            yield Verdict.CRASH, f"{status}: {_tail(Path(folder))}"
        finally:
            reading.close()
            worker.kill()
            worker.join()


def _tail(folder: Path) -> str:
    lines = (folder / "stderr").read_text(errors="replace").strip().splitlines()
    return " | ".join(line.strip() for line in lines[-14:])[-900:]
