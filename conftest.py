"""Settings of every test and docstring example: a time limit, and files in memory."""

from __future__ import annotations

import faulthandler
import fcntl
import gc
import os
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

LIMIT_SECONDS: Final = 600
"""After so long a test hangs, even on a busy machine: all stacks are printed and the process ends.

With pytest-xdist the test fails, and another process goes on with the next one.
"""
FIRST: Final = ("test_benchmarks.py", "test_torture.py", "test_mutants.py")
"""Files of long tests: begun early, they do not keep one process busy when the others are done."""
APART: Final = {"browser": "browser", "engines": "engines", "gallery": "notebooks"}
"""Folders of tests, all of one mark: not imported where the mark is left out."""
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
_MEMORY_BYTES: Final = 4 << 30
_STDERR: Final = pytest.StashKey[int]()
_FOLDER: Final = pytest.StashKey[Path]()
_PREFIX: Final = "daf-pytest-"
_YOUNG_SECONDS: Final = 60


def pytest_configure(config: pytest.Config) -> None:
    """Note where to print stacks, and choose the folder for files unless one is chosen already."""
    config.stash[_STDERR] = os.dup(2)  # which is captured during a test
    config.add_cleanup(gc.unfreeze)  # see `pytest_collection_finish`
    if config.pluginmanager.has_plugin("cacheprovider"):
        _keep_compiled()
    if "TMPDIR" in os.environ or not _has_room(_MEMORY):
        return
    _remove_leftovers()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_MEMORY))
    folder.chmod(0o755)  # also for tests that have become another user
    _lock(folder)  # until this process ends
    config.stash[_FOLDER] = folder
    os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
    tempfile.tempdir = None  # so that it is looked up again


def pytest_unconfigure(config: pytest.Config) -> None:
    """Give the memory back."""
    folder = config.stash.get(_FOLDER, None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
        del os.environ["TMPDIR"], os.environ["PYTEST_DEBUG_TEMPROOT"]
        tempfile.tempdir = None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Start three processes for two cores: a fifth of their time tests wait, as for a child."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    is_linux = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if is_linux else os.cpu_count() or 1
    return cores + (cores + 1) // 2


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out folders whose tests would all be deselected."""
    mark = APART.get(collection_path.name)
    is_apart = mark is not None and f"not {mark}" in config.option.markexpr
    return True if is_apart and collection_path.parent.name == "tests" else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[Any], list[Any]]:
    """Look for examples in docstrings of packages and helpers; tests have none."""
    found = yield
    is_of_tests = file_path.name.startswith("test_")
    return [each for each in found if not (is_of_tests and type(each).__name__ == "DoctestModule")]


def pytest_collection() -> None:
    """Collect no garbage while hundreds of modules are imported, which are none."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over the tests and all that was imported."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put long tests first, and leave out cases of those that are marked as ``sampled``.

    Unless all are wanted, as by `make test-every`, or tests are named.
    """
    items.sort(key=lambda item: item.path.name not in FIRST)
    if "DAF_TEST_EVERY" in os.environ or any("::" in name for name in config.args):
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out = set[pytest.Item]()
    for alike in cases.values():
        mark = alike[0].get_closest_marker("sampled")
        if mark is not None:
            left_out.update(set(alike) - _sample(alike, mark.args[0]))
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=[*left_out])


def _sample(cases: list[pytest.Item], count: int) -> set[pytest.Item]:
    """Return as many cases, always the same ones, with as many values of parameters as can be."""
    left = sorted(cases, key=lambda item: zlib.crc32(item.name.encode()))
    params = {item: getattr(getattr(item, "callspec", None), "params", {}) for item in left}
    values = {item: {(name, repr(of[name])) for name in of} for item, of in params.items()}
    seen, chosen = set[tuple[str, str]](), set[pytest.Item]()
    while left and len(chosen) < count:
        best = max(left, key=lambda item: len(values[item] - seen))
        left.remove(best)
        chosen.add(best)
        seen |= values[best]
    return chosen


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """End the process if a test, with its fixtures, takes longer than the limit."""
    faulthandler.dump_traceback_later(LIMIT_SECONDS, exit=True, file=item.config.stash[_STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _keep_compiled() -> None:
    """Keep compiled modules, as `make test` does: each of hundreds of processes imports them.

    Whoever wants nothing in the tree turns off pytest's own cache too.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def _remove_leftovers() -> None:
    """Give back the memory of runs that were killed: nobody holds the lock of their folders."""
    for folder in _MEMORY.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another run removes it, or another user owns it
            is_young = time.time() - folder.stat().st_ctime < _YOUNG_SECONDS
            if not is_young and _lock(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _lock(folder: Path) -> bool:
    """Lock a folder for as long as this process lives, and return whether that was possible."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    return True


def _has_room(folder: Path) -> bool:
    """Return whether a folder can take the files of all tests."""
    if not os.access(folder, os.W_OK):
        return False
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize >= _MEMORY_BYTES
