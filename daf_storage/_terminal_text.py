"""Text of data as a terminal shows it: control characters as escapes, and its width in columns.

Names and values are whatever a file says.  As they are, they could move the cursor, set the title
of the window, turn the text around, or begin a line that looks as if the program had written it.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""All but line feeds and tabs; also what turns text around."""
_BLANKS: Final = str.maketrans({"\n": "\\n", "\t": "\\t"})
_WIDE: Final = "WF"
_WITHOUT_WIDTH: Final = ("Mn", "Me", "Cf")


def visible(text: object) -> str:
    r"""Return text with its control characters written as JSON writes them.

    >>> print(visible("a\x1b[31mb"))
    a\u001b[31mb
    """
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", str(text))


def visible_name(name: object) -> str:
    r"""Return a name, or what is to be one line, with its line feeds and tabs written, too.

    >>> print(visible_name("a\nb"))
    a\nb
    """
    return visible(name).translate(_BLANKS)


def text_width(text: str) -> int:
    """Return how many columns of a terminal text takes.

    >>> text_width("CD8A"), text_width("细胞"), text_width("e\N{COMBINING ACUTE ACCENT}")
    (4, 4, 1)
    """
    return len(text) if text.isascii() else sum(map(_width_of, text))


def _width_of(character: str) -> int:
    r"""Return how many columns of a terminal a character takes.

    >>> [_width_of(each) for each in ("a", "漢", "\u0301", "\u200b")]
    [1, 2, 0, 0]
    """
    if unicodedata.category(character) in _WITHOUT_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1
