"""A child process that runs the cases of some campaigns within limits, and its supervisor."""

from __future__ import annotations

import faulthandler
import json
import os
import random
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

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


def work(cases: Mapping[str, Case], seed: int, first: int, folder: Path, report: int) -> None:
    """Run cases of each campaign in turn, from one turn on, and write a line before and after each."""
    limit_memory()
    faulthandler.enable()
    names = list(cases)
    turn = first
    while True:
        _tell(report, {"turn": turn})
        faulthandler.dump_traceback_later(0.95 * case_seconds())
        name, number = turn_of(turn, names)
        verdict, detail = run_case(cases[name], folder / str(turn), f"{name}:{seed}:{number}")
        faulthandler.cancel_dump_traceback_later()
        _tell(report, {"turn": turn, "verdict": verdict.name, "detail": detail})
        turn += 1


def _tell(report: int, message: dict[str, Any]) -> None:
    os.write(report, json.dumps(message).encode() + b"\n")


class Supervisor:
    """Keeps a worker of one or several campaigns going, and counts what becomes of their cases."""

    def __init__(self, campaigns: Sequence[str], seed: int, tally: Tally) -> None:
        self._campaigns = campaigns
        self._seed = seed
        self._tally = tally
        self._next = 0

    def run(self, *, seconds: float, most: int | None = None) -> None:
        """Run cases for a time, or until so many of each campaign have ended."""
        end = time.monotonic() + seconds
        most = None if most is None else most * len(self._campaigns)
        while time.monotonic() < end and (most is None or self._next < most):
            with tempfile.TemporaryDirectory(prefix="daf-torture-", dir=_fast_folder()) as folder:
                self._run_worker(Path(folder), end, most)

    def _run_worker(self, folder: Path, end: float, most: int | None) -> None:
        reading, writing = os.pipe()
        errors = folder / "stderr"
        command = [sys.executable, "-m", "tests.torture.work", ",".join(self._campaigns)]
        command += [str(self._seed), str(self._next), str(folder / "cases"), str(writing)]
        with errors.open("wb") as stderr:
            worker = subprocess.Popen(
                command,
                cwd=Path(__file__).parents[2],
                pass_fds=[writing],
                stdout=stderr,
                stderr=stderr,
                stdin=subprocess.DEVNULL,
                env=environment(),
            )
        os.close(writing)
        try:
            self._follow(worker, reading, errors, end, most)
        finally:
            os.close(reading)
            worker.kill()
            worker.wait()

    def _follow(
        self,
        worker: subprocess.Popen[bytes],
        reading: int,
        errors: Path,
        end: float,
        most: int | None,
    ) -> None:
        for message in _messages(reading):
            if message is None:  # nothing came in time
                self._count(Verdict.HANG, _tail(errors))
                return
            if "verdict" in message:
                self._count(Verdict[message["verdict"]], message["detail"])
                if time.monotonic() > end or (most is not None and self._next >= most):
                    return
        worker.wait()
        status = f"exit status {worker.returncode}"
        if worker.returncode < 0:
            status = signal.Signals(-worker.returncode).name
        self._count(Verdict.CRASH, f"{status}: {_tail(errors)}")

    def _count(self, verdict: Verdict, detail: str) -> None:
        self._tally.add(*turn_of(self._next, self._campaigns), verdict, detail)
        self._next += 1


def _messages(reading: int) -> Iterator[dict[str, Any] | None]:
    """Yield what the worker reports; None if it is silent for too long."""
    rest, patience = b"", float(_START_SECONDS)
    while True:
        ready, _, _ = select.select([reading], [], [], patience)
        if not ready:
            yield None
            return
        data = os.read(reading, 1 << 16)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield json.loads(line)
        patience = case_seconds()


def _tail(errors: Path) -> str:
    lines = errors.read_text(errors="replace").strip().splitlines()
    return " | ".join(line.strip() for line in lines[-14:])[-900:]


def _fast_folder() -> str | None:
    """Return a folder in memory, if there is one: cases are many small files."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - for a while
