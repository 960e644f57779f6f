"""Text of data as a terminal shows it: control characters as escapes, and its width in columns.

Names and values are whatever a file says.  As they are, they could move the cursor, set the title
of the window, or turn the text around.
"""

from __future__ import annotations

import io
import re
import sys
import unicodedata
from typing import Any, Final

_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""All but line feeds and tabs; also what turns text around."""
_WIDE: Final = "WF"
_WITHOUT_WIDTH: Final = ("Mn", "Me", "Cf")


def visible(text: str) -> str:
    r"""Return text with its control characters written as JSON writes them.

    >>> print(visible("a\x1b[31mb"))
    a\u001b[31mb
    """
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def width(text: str) -> int:
    """Return how many columns of a terminal text takes.

    >>> width("CD8A"), width("细胞"), width("e\N{COMBINING ACUTE ACCENT}")
    (4, 4, 1)
    """
    return len(text) if text.isascii() else sum(map(_width_of, text))


def _width_of(character: str) -> int:
    if unicodedata.category(character) in _WITHOUT_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1


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
