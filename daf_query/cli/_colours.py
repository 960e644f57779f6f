"""Colours of a terminal; none in pipes and files, and none where ``NO_COLOR`` is set."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, Literal, TextIO, TypeAlias

Style: TypeAlias = Literal["heading", "faint", "error"]
"""What is set apart."""

_CODES: Final = {"heading": "1", "faint": "2", "error": "1;31"}


def has_colours(stream: TextIO) -> bool:
    """Return whether a stream is a terminal with colours that nobody has switched off."""
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return not is_plain and stream.isatty()


def coloured(text: str, style: Style, stream: TextIO) -> str:
    """Return text as it is printed on a stream."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if has_colours(stream) else text


def coloured_table(lines: Sequence[str], stream: TextIO) -> list[str]:
    """Return the lines of a table, of which the first two are the names of its columns."""
    if not has_colours(stream):
        return list(lines)
    heads = [coloured(lines[0], "heading", stream)] + [
        coloured(line, "faint", stream) for line in lines[1:2]
    ]
    return heads + list(lines[2:])
