"""Starts a process for each measurement, in turn, and compares the answers."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import _answers, _data, _works
from benchmarks._data import Data
from benchmarks._environments import ROOT, EnvironmentMissingError, python_of
from benchmarks._systems import INFOS
from benchmarks._works import Work

REFERENCE = ("limit", "daf")
"""Whose answers the others are compared with."""


@dataclass(frozen=True)
class Limits:
    """How long a measurement may take."""

    repeats: int
    """Times that count."""
    seconds: float
    """After so long, fewer of them are enough: three, or one if that takes as long or something is prepared."""
    timeout: float
    """When the process is ended."""
    deadline: float = float("inf")
    """When no measurement is started any more, as `time.monotonic`."""


@dataclass(frozen=True)
class Part:
    """A data set, and what is measured on it."""

    data: Data
    systems: tuple[str, ...]
    works: tuple[Work, ...]
    is_import_measured: bool = False
    """Whether what systems prepare is made again, and counts."""


@dataclass
class Result:
    """A system and a work on a data set: times in seconds, or why there are none."""

    data: Data
    work: Work
    system: str
    problem: str = ""
    times: list[float] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float | None:
        """The time that counts."""
        return None if self.problem or not self.times else statistics.median(self.times)

    @property
    def spread(self) -> tuple[float, float]:
        """The quartiles."""
        if len(self.times) < 2:
            return self.times[0], self.times[0]
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return low, high

    def to_json(self) -> dict[str, Any]:
        """Return all of it."""
        return {
            "data": _data.to_json(self.data),
            "work": self.work.key,
            "system": self.system,
            "problem": self.problem or None,
            "median_seconds": self.median,
            "quartiles_seconds": self.spread if self.times else None,
            "times_seconds": self.times,
            **self.details,
        }


class Runner:
    """Measures parts, one after the other."""

    def __init__(self, build: Path, limits: Limits) -> None:
        self._environments = build / "bench-envs"
        self._folder = build / "bench"
        self._limits = limits
        self.results: list[Result] = []
        self._expected: dict[tuple[str, str], dict[str, Any]] = {}
        """The first answer to each work on each data set."""

    def run(self, part: Part) -> None:
        """Prepare, and measure each work with all systems in turn."""
        _say(f"\n{part.data.title}")
        for data in (part.data.twin(), part.data):
            started = time.monotonic()
            data.make(self._folder)
            if time.monotonic() - started > 1:
                _say(f"  made in {time.monotonic() - started:.0f} s")
        systems = [name for name in part.systems if part.data.kind in INFOS[name].kinds]
        ready = [name for name in systems if self._is_ready(part, name)]
        for work in part.works:
            for name in sorted(ready, key=lambda name: name not in REFERENCE):
                result = self._measure(part.data, work, name)
                answer = result.details.pop("answer", None)
                if answer is not None and not result.problem:
                    expected = self._expected.setdefault((part.data.key, work.key), answer)
                    wrong = _answers.difference(answer, expected)
                    if wrong:
                        result.problem, result.times = f"another answer: {wrong}", []
                self._note(result)

    def _is_ready(self, part: Part, name: str) -> bool:
        """Prepare the tiny data set and the data set, where that was not done, or is measured."""
        for data in (part.data.twin(), part.data):
            marker = self._folder / data.key / f"{name}.json"
            is_measured = data is part.data and part.is_import_measured
            if marker.exists() and not is_measured:
                saved = json.loads(marker.read_text())
                if data is part.data:
                    self.results.append(Result(data, _works.PREPARE, name, details=saved))
                continue
            marker.unlink(missing_ok=True)
            result = self._measure(data, _works.PREPARE, name)
            if result.problem:
                self._note(Result(part.data, _works.PREPARE, name, result.problem))
                return False
            marker.write_text(json.dumps(result.details))
            if data is part.data:
                if not is_measured:
                    result.times = []
                self._note(result)
        return True

    def _note(self, result: Result) -> None:
        self.results.append(result)
        title = f"  {result.work.title:<46}{INFOS[result.system].title:<32}"
        if result.median is None:
            _say(f"{title}{result.problem or 'prepared'}")
        else:
            low, high = result.spread
            _say(
                f"{title}{1e3 * result.median:10.2f} ms ({1e3 * low:.2f} to {1e3 * high:.2f}, {len(result.times)} times)"
            )

    def _measure(self, data: Data, work: Work, name: str) -> Result:
        result = Result(data, work, name)
        if time.monotonic() > self._limits.deadline:
            result.problem = "no time left"
            return result
        if work.mode in {"warm", "open"}:
            self._ask(result, is_timed=True)
            return result
        # A process for each time; the first of them only gives the answer and warms the page cache.
        spent, limits, fewest = 0.0, self._limits, 1
        if work.mode != "prepare":
            self._ask(result, is_timed=False)
            fewest = 3
        while not result.problem and len(result.times) < limits.repeats:
            if len(result.times) >= fewest and spent >= limits.seconds:
                break
            started, before = time.monotonic(), len(result.times)
            self._ask(result, is_timed=True)
            if len(result.times) == before:  # read in place: there is nothing to prepare
                break
            spent += time.monotonic() - started
            if result.times[-1] >= limits.seconds:
                fewest = 1
        return result

    def _ask(self, result: Result, *, is_timed: bool) -> None:
        """Start a process, and add what it says to a result."""
        request = {
            "system": result.system,
            "work": result.work.key,
            "data": _data.to_json(result.data),
            "folder": str(self._folder.resolve()),
            "repeats": self._limits.repeats,
            "seconds": self._limits.seconds,
            "is_timed": is_timed,
        }
        info = INFOS[result.system]
        try:
            python = (
                str(python_of(info.environment, self._environments))
                if info.environment
                else sys.executable
            )
        except EnvironmentMissingError as error:
            result.problem = f"not installed: {error}"
            return
        said = _answer_of([python, "-m", "benchmarks._worker", json.dumps(request)], self._limits)
        result.problem = said.pop("problem", "")
        result.times += said.pop("times", [])
        answer, before = said.get("answer"), result.details.get("answer")
        if answer and before and not result.problem:
            wrong = _answers.difference(answer, before)
            result.problem = f"the answers of two processes differ: {wrong}" if wrong else ""
        if is_timed and result.work.mode in {"first", "cold"}:
            said.pop("peak_bytes", None)
        result.details |= said


def _answer_of(command: list[str], limits: Limits) -> dict[str, Any]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=limits.timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return {"problem": f"took more than {limits.timeout:.0f} s"}
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    last = output.strip().rpartition("\n")[2]
    if not last.startswith("{"):
        lines = errors.strip().splitlines() or ["no message"]
        return {"problem": f"the process ended with {process.returncode}: {lines[-1][:200]}"}
    said: dict[str, Any] = json.loads(last)
    return said


def _say(line: str) -> None:
    print(line, flush=True)
