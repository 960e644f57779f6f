"""How much memory of its own a process takes at most; mapped pages are the file's."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Self


def status(name: str) -> int:
    """Return a figure of this process from Linux, in bytes."""
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return 1024 * int(found.group(1)) if found else 0


class OwnMemory:
    """Watches how much memory of its own the process takes; mapped pages are the file's."""

    def __init__(self) -> None:
        self.most = status("RssAnon")
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_done.wait(0.002):
            self.most = max(self.most, status("RssAnon"))
