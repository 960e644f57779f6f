"""A disk whose n-th write fails, below the libraries: a C library that comes before the system's.

What writes through C libraries, as HDF5 does, cannot be reached by patching ``os``.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char part[4096];
static int first, last, number, count;

void faults_set(const char *path, int from, int to, int error)
{
    snprintf(part, sizeof part, "%s", path);
    first = from, last = to, number = error, count = 0;
}

int faults_count(void) { return count; }

static int fails(int fd)
{
    char link[64], path[4096];
    if (!part[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    if (!strstr(path, part) || ++count < first || count > last) return 0;
    errno = number;
    return 1;
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)
#define WRITES(name, type, parameters, arguments) \
    type name parameters { REAL(name); return fails(fd) ? -1 : real arguments; }
WRITES(write, ssize_t, (int fd, const void *data, size_t size), (fd, data, size))
WRITES(pwrite, ssize_t, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
WRITES(pwrite64, ssize_t, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
WRITES(ftruncate, int, (int fd, off_t size), (fd, size))
WRITES(ftruncate64, int, (int fd, off64_t size), (fd, size))
"""

FOR_EVER = (1 << 31) - 1
"""No later write works either."""


@cache
def _library() -> Path | None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    folder = Path(tempfile.mkdtemp(prefix="daf-faults-"))
    source, library = folder / "faults.c", folder / "faults.so"
    source.write_text(_SOURCE)
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    built = subprocess.run(command, check=False, capture_output=True)
    return library if built.returncode == 0 else None


def has_faults() -> bool:
    """Return whether writes can be made to fail in processes that get `environment`."""
    return _library() is not None


def environment() -> dict[str, str]:
    """Return the environment of a process in which writes can be made to fail."""
    library = _library()
    return {**os.environ, **({} if library is None else {"LD_PRELOAD": str(library)})}


@contextmanager
def faults(folder: Path, first: int, last: int, number: int) -> Iterator[Callable[[], int]]:
    """Let writes to files below a folder fail, from the first to the last of them.

    Hands out what returns how many there were.
    """
    library = ctypes.CDLL(None)
    library.faults_set(os.fsencode(folder), first, last, number)
    try:
        yield library.faults_count
    finally:
        library.faults_set(b"", 0, 0, 0)


def in_child(work: Callable[[], int]) -> str:
    """Return what a forked process makes of some work: a number, or the signal that ended it."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            status = work()
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return str(os.WEXITSTATUS(status))
