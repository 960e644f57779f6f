"""The process of one measurement: ``python -m benchmarks._worker`` with a request as JSON, and JSON in the last line."""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from benchmarks import _answers, _data, _machine, _systems, _works
from benchmarks._systems._base import NotOfferedError, Place, System

_LONG_SECONDS: Final = 0.1
"""Garbage is collected after a run that takes longer."""


class Measurement:
    """A system, a work and a data set, and where that is."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.work = _works.ALL[request["work"]]
        self.system: System = _systems.make(request["system"])
        self.folder = Path(request["folder"])
        self.data = _data.from_json(request["data"])
        self.repeats: int = request["repeats"]
        self.seconds: float = request["seconds"]
        self.is_timed: bool = request["is_timed"]
        self.result: dict[str, Any] = {"times": []}

    def run(self) -> dict[str, Any]:
        """Measure."""
        started = time.perf_counter()
        self.system.load()
        self.result["import_seconds"] = time.perf_counter() - started
        self.result["versions"] = self.system.versions()
        self.result["bytes_after_imports"] = _machine.status("VmRSS")
        {
            "prepare": self._prepare,
            "warm": self._warm,
            "open": self._open,
            "first": self._first,
            "cold": self._first,
        }[self.work.mode]()
        self.result.setdefault("peak_bytes", _machine.status("VmHWM"))
        return self.result

    def _place(self, data: Any) -> Place:
        return Place(data, data.source(self.folder), self.folder / data.key / self.system_folder)

    @property
    def system_folder(self) -> str:
        """The name of the folder of what the system prepared."""
        return f"system-{self.system.__class__.__module__.rpartition('.')[2]}-{self.system.__class__.__name__}"

    def _open_system(self, data: Any) -> None:
        self.system.open(self._place(data))

    def _prepare(self) -> None:
        place = self._place(self.data)
        final = place.folder
        part = final.with_name(f"{final.name}.part")
        if not self.system.in_place:
            if self.data != self.data.twin():  # to warm up
                self._prepare_into(part, self.data.twin())
            self.result["times"] = [self._prepare_into(part, self.data)]
        _remove(final)
        part.mkdir(parents=True, exist_ok=True)
        part.rename(final)
        os.sync()
        self.result["disk_bytes"] = sum(
            _machine.bytes_on_disk(path) for path in self.system.paths(place)
        )

    def _prepare_into(self, folder: Path, data: Any) -> float:
        """Return how long it took."""
        _remove(folder)
        folder.mkdir(parents=True)
        started = time.perf_counter()
        with _machine.watched() as memory:
            self.system.prepare(replace(self._place(data), folder=folder))
        self.result["anonymous_bytes"] = memory.most
        return time.perf_counter() - started

    def _warm(self) -> None:
        started = time.perf_counter()
        self._open_system(self.data)
        self.result["open_seconds"] = time.perf_counter() - started
        self._repeat(lambda: self.system.run(self.work))

    def _open(self) -> None:
        def ask() -> Any:
            self._open_system(self.data)
            answer = self.system.run(self.work)
            self.system.close()
            return answer

        self._repeat(ask)

    def _first(self) -> None:
        """Answer for the tiny data set, and then once for the one that is measured."""
        self._open_system(self.data.twin())
        self.system.run(self.work)
        self.system.close()
        if self.work.mode == "cold":
            share = _machine.drop_from_cache(self.system.paths(self._place(self.data)))
            self.result["resident_share"] = share
        gc.collect()
        if not self.is_timed:
            with _machine.watched() as memory:
                self._open_system(self.data)
                answer = self.system.run(self.work)
            self.result["anonymous_bytes"] = memory.most
            self.result["peak_bytes"] = _machine.status("VmHWM")
        else:
            started = time.perf_counter()
            self._open_system(self.data)
            answer = self.system.run(self.work)
            self.result["times"] = [time.perf_counter() - started]
        self.result["answer"] = _answers.described(answer)

    def _repeat(self, ask: Callable[[], Any]) -> None:
        """Ask once to warm up, watching memory, and then for as long as there is time.

        At least three times, or once if that takes all of the time.  Garbage is collected before
        the first of them, and after long ones, so that memory does not grow.  Between short ones
        it would empty the caches of the processor, of which each would then pay for the refill.
        """
        started = time.perf_counter()
        with _machine.watched() as memory:
            answer = ask()
        fewest = 1 if time.perf_counter() - started >= self.seconds else 3
        self.result["anonymous_bytes"] = memory.most
        self.result["peak_bytes"] = _machine.status("VmHWM")  # before the answer is copied
        first = _answers.described(answer)
        self.result["answer"] = first
        times: list[float] = self.result["times"]
        while len(times) < self.repeats and (len(times) < fewest or sum(times) < self.seconds):
            del answer
            if not times or times[-1] > _LONG_SECONDS:
                gc.collect()
            started = time.perf_counter()
            answer = ask()
            times.append(time.perf_counter() - started)
        problem = _answers.difference(_answers.described(answer), first)
        if problem:
            self.result["problem"] = f"the last answer is not the first: {problem}"


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Measure what the argument asks for, and print the result."""
    warnings.simplefilter("ignore")
    try:
        result = Measurement(json.loads(sys.argv[1])).run()
    except NotOfferedError:
        result = {"problem": "not offered"}
    except Exception as error:  # noqa: BLE001 - whatever a system raises is the reason of its row
        traceback.print_exc()
        result = {"problem": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
    sys.stdout.flush()
    print(f"\n{json.dumps(result)}", flush=True)
    os._exit(0)  # some libraries wait for their threads


if __name__ == "__main__":
    main()
