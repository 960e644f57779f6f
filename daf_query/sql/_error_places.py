"""Places of errors in SQL: what is unknown, or where the parser stopped."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from daf_query.syntax import tokens_of, unquoted_name
from daf_storage import DafError, errors
from daf_storage.spi import text_width

_NAMED: Final = (
    re.compile(r"has no (?:vector|column|entry) '(?P<name>(?:[^'\\]|\\.)*)'"),
    re.compile(r"there is no (?:table|axis|table function) '(?P<name>(?:[^'\\]|\\.)*)'"),
    re.compile(r"Invalid function '(?P<name>[^']*)'"),
)
"""How messages name what the SQL has."""


@dataclass(frozen=True, slots=True)
class ErrorPlace:
    """Where in SQL something is wrong."""

    line: int
    """From 1."""
    column: int
    """From 1."""
    length: int
    """How many characters are wrong."""

    def mark(self, sql: str) -> str:
        r"""Return the line of the SQL, with a mark below the place.

        >>> print(ErrorPlace(2, 3, 4).mark("SELECT name,\n  agee FROM cell"))
          agee FROM cell
          ^^^^
        >>> print(ErrorPlace(1, 13, 2).mark("SELECT '细', 细胞 FROM cell"))
        SELECT '细', 细胞 FROM cell
                     ^^^^
        """
        lines = sql.split("\n")
        line = lines[self.line - 1] if self.line <= len(lines) else ""
        start = self.column - 1
        tabs = re.sub(r"[^\t]+", lambda part: " " * text_width(part[0]), line[:start].ljust(start))
        marked = line[start : start + self.length].ljust(self.length)
        return f"{line}\n{tabs}{'^' * text_width(marked)}"


def error_place(error: BaseException, sql: str) -> ErrorPlace | None:
    r"""Return the place of what is wrong; None where it is unknown.

    >>> error = errors.VectorNotFoundError("x: axis 'cell' has no vector 'agee'")
    >>> error_place(error, "SELECT name,\n  agee FROM cell")
    ErrorPlace(line=2, column=3, length=4)
    """
    if not isinstance(error, DafError):
        return None
    tokens = list(tokens_of(sql))
    if isinstance(error, errors.QueryError) and error.line and error.column:
        starts = _starts(sql)
        start = starts[min(error.line, len(starts)) - 1] + error.column - 1
        length = next((t.stop - t.start for t in tokens if t.start == start), 1)
        return ErrorPlace(error.line, error.column, length)
    for pattern in _NAMED:
        match = pattern.search(str(error))
        if match is None:
            continue
        for token in tokens:
            if _means(sql[token.start : token.stop], match["name"]):
                return ErrorPlace(*_line_and_column(sql, token.start), token.stop - token.start)
    return None


def _means(written: str, name: str) -> bool:
    """Return whether a token is a name, or a string that is one."""
    plain = name.replace("\\'", "'").replace("\\\\", "\\")
    if written.startswith("'"):
        return written[1:-1].replace("''", "'") == plain
    return unquoted_name(written) == plain


def _starts(sql: str) -> list[int]:
    """Return where the lines begin."""
    return [0, *(place + 1 for place, character in enumerate(sql) if character == "\n")]


def _line_and_column(sql: str, offset: int) -> tuple[int, int]:
    before = sql[:offset]
    return before.count("\n") + 1, offset - before.rfind("\n")
