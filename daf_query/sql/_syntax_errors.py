"""Errors of the syntax of SQL, which show the place.  Pure."""

from __future__ import annotations

from daf_storage import errors


def syntax_error(
    reason: str, written: str, line: int, column: int, *, where: str
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
    """
    lines = written.split("\n")
    shown = lines[line - 1] if line <= len(lines) else ""
    error = errors.QueryError(
        f"SQL syntax error {where}: {reason}\n  {shown}\n  {' ' * (column - 1)}^"
    )
    error.line, error.column, error.reason = line, column, reason
    return error


def in_second_line(error: errors.DafError, written: str, what: str) -> errors.DafError:
    """Return an error of a query whose second line begins what was written, with the place in it.

    What is missing at its end, the engine finds missing in the line after it.
    """
    if not isinstance(error, errors.QueryError) or not (error.line and error.column):
        return error
    lines = written.split("\n")
    line, column = error.line - 1, error.column
    if line > len(lines):
        line, column = len(lines), len(lines[-1]) + 1
    return syntax_error(error.reason or str(error), written, line, column, where=f"in the {what}")
