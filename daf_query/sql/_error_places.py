"""Places of errors in SQL: what is unknown, or where the parser stopped."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from daf_query.syntax import line_and_column, place_of, span_at, span_of_name
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
    if isinstance(error, errors.QueryError) and error.line and error.column:
        start, stop = span_at(sql, place_of(sql, error.line, error.column))
        return ErrorPlace(error.line, error.column, stop - start)
    for pattern in _NAMED:
        match = pattern.search(str(error))
        name = match["name"].replace("\\'", "'").replace("\\\\", "\\") if match else ""
        span = span_of_name(sql, name) if match else None
        if span is not None:
            return ErrorPlace(*line_and_column(sql, span[0]), span[1] - span[0])
    return None
