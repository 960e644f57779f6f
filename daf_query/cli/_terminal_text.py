"""Standard output as a terminal, for what is written as bytes: control characters as escapes."""

from __future__ import annotations

import io
import sys
from typing import Any

from daf_storage.spi import visible


class TerminalBytes(io.RawIOBase):
    """Prints UTF-8 that is written for programs on standard output, a terminal, visibly."""

    def __init__(self) -> None:
        self._kept = b""

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, content: Any) -> int:
        """Print the whole lines that there are."""
        part = bytes(memoryview(content))
        lines, newline, self._kept = (self._kept + part).rpartition(b"\n")
        self._print(lines + newline)
        return len(part)

    def close(self) -> None:
        """Print the rest."""
        if not self.closed:
            self._print(self._kept)
        super().close()

    def _print(self, content: bytes) -> None:
        sys.stdout.write(visible(content.decode("utf-8", "replace")))
