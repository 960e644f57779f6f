"""Errors of the syntax of SQL, which show the place.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from daf_query.syntax._tokens import Edit, edited, line_and_column, place_before, place_of
from daf_storage import errors

_SYNTAX: Final = "SQL syntax error"
_LONGEST: Final = 1000
_LONGEST_LINE: Final = 300
_BEFORE: Final = 100


def syntax_error(
    reason: str, written: str, line: int, column: int, *, where: str, title: str = _SYNTAX
) -> errors.QueryError:
    """Return an error that shows a line of SQL, with a mark below the place.

    Parameters
    ----------
    written
        The SQL as its author knows it.
    line, column
        The place in it, from 1.
    where
        How the message calls the place.
    title
        What it is.
    """
    lines = written.split("\n")
    shown, mark = _around(lines[line - 1] if line <= len(lines) else "", column - 1)
    error = errors.QueryError(f"{title} {where}: {shortened(reason)}\n  {shown}\n  {' ' * mark}^")
    error.line, error.column, error.reason = line, column, reason
    return error


def error_at(
    reason: str, written: str, place: int, *, where: str = "", title: str = _SYNTAX
) -> errors.QueryError:
    """Return an error that shows a place of a text."""
    line, column = line_and_column(written, place)
    where = where or f"at line {line}, column {column}"
    return syntax_error(reason, written, line, column, where=where, title=title)


@dataclass(frozen=True, slots=True)
class WrappedSql:
    """SQL that a caller wrote, and what is written around it, or differently in it."""

    written: str
    """What the caller wrote."""
    edits: tuple[Edit, ...]
    """What stands around it, and in place of parts of it; in their order at one place."""

    @classmethod
    def between(
        cls, before: str, written: str, after: str, edits: Iterable[Edit] = ()
    ) -> WrappedSql:
        """Return what a caller wrote, with something before it and after it."""
        end = len(written)
        return cls(written, (Edit(0, 0, before), *edits, Edit(end, end, after)))

    @property
    def query(self) -> str:
        """The whole query."""
        return edited(self.written, self.edits)

    def error(self, error: errors.DafError, what: str) -> errors.DafError:
        """Return an error of the whole query with its place in what the caller wrote.

        A place around that is its end.

        Parameters
        ----------
        what
            How the message calls what was written.
        """
        if not isinstance(error, errors.QueryError) or not (error.line and error.column):
            return error
        place = place_before(self.edits, place_of(self.query, error.line, error.column))
        place = len(self.written) if place is None else min(place, len(self.written))
        title = str(error).partition(" at line ")[0]
        reason = error.reason or str(error)
        return error_at(reason, self.written, place, where=f"in the {what}", title=title)


def shortened(text: str) -> str:
    """Return a message of the engine, without its middle where it repeats a long value.

    >>> short = shortened(f"Cannot cast string '{'x' * 10_000}' to Int64")
    >>> short[:25], short[745:780], short[-15:]
    ("Cannot cast string 'xxxxx", 'xxxxx ... (9,030 characters) ... xx', "xxxxx' to Int64")
    """
    if len(text) <= _LONGEST:
        return text
    end = _LONGEST // 4
    left = len(text) - _LONGEST
    return f"{text[: _LONGEST - end]} ... ({left:,} characters) ... {text[-end:]}"


def _around(line: str, place: int) -> tuple[str, int]:
    """Return the part of a long line that is around a place, and the place in it."""
    if len(line) <= _LONGEST_LINE:
        return line, place
    start = max(0, min(place, len(line)) - _BEFORE)
    part = line[start : start + _LONGEST_LINE]
    before, after = "..." * (start > 0), "..." * (start + len(part) < len(line))
    return f"{before}{part}{after}", place - start + len(before)
