"""Threads that stay for the next task."""

from __future__ import annotations

import os
import threading

from daf_storage.base import kept_threads


def test_the_same_threads_serve_one_purpose() -> None:
    """Another purpose, or another number of them, has its own."""
    threads = kept_threads("test", 1)
    assert kept_threads("test", 1) is threads
    assert kept_threads("test", 2) is not threads
    assert kept_threads("another test", 1) is not threads
    idents = {threads.submit(threading.get_ident).result() for _ in range(5)}
    assert len(idents) == 1


def test_a_fork_has_its_own() -> None:
    """Those of its parent do not run there."""
    kept_threads("test", 1).submit(int).result()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        found = kept_threads("test", 1).submit(sum, [1, 2]).result(timeout=30)
        os.write(writing, str(found).encode())
        os._exit(0)
    os.close(writing)
    assert os.read(reading, 10) == b"3"
    os.waitpid(child, 0)
    os.close(reading)
