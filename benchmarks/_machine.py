"""The machine, and what a process may ask of it: its memory, and files out of the page cache."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace


def described() -> dict[str, str]:
    """Return the machine in words, without its name."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = re.search("model name.*: (.*)", info)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {
        "processor": f"{model[1] if model else platform.machine()}, {os.cpu_count()} cores",
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "load at the start": f"{os.getloadavg()[0]:.1f}",
    }


def status(field: str) -> int:
    """Return a number of bytes from the status of this process, such as ``VmHWM``; 0 where there is none."""
    path = Path("/proc/self/status")
    found = re.search(
        rf"^{field}:\s+(\d+)", path.read_text() if path.exists() else "", re.MULTILINE
    )
    return int(found[1]) * 1024 if found else 0


@contextmanager
def watched() -> Iterator[SimpleNamespace]:
    """Note the most anonymous memory, that is memory not mapped from files, in ``most``."""
    seen = SimpleNamespace(most=status("RssAnon"))
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            seen.most = max(seen.most, status("RssAnon"))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()
        seen.most = max(seen.most, status("RssAnon"))


def files(path: Path) -> list[Path]:
    """Return the files of a path, itself or all below."""
    return [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())


def bytes_on_disk(path: Path) -> int:
    """Return how many bytes the files of a path have."""
    return sum(file.stat().st_size for file in files(path))


def drop_from_cache(paths: list[Path]) -> float:
    """Ask for files to be taken out of the page cache, and return the share of their pages that stayed."""
    resident = total = 0
    for path in (file for below in paths for file in files(below)):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            if sys.platform == "linux":
                here, size = _resident_pages(file.fileno())
                resident, total = resident + here, total + size
    return resident / total if total else 1.0


def _resident_pages(descriptor: int) -> tuple[int, int]:
    size = os.fstat(descriptor).st_size
    if not size:
        return 0, 0
    pages = -(-size // mmap.PAGESIZE)
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    ]  # fmt: skip
    library.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    address = library.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    try:
        present = ctypes.create_string_buffer(pages)
        if library.mincore(address, size, present):
            return pages, pages
        return sum(byte & 1 for byte in present.raw), pages
    finally:
        library.munmap(address, size)
