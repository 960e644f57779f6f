"""Limits of a server of Flight SQL."""

from __future__ import annotations

from dataclasses import dataclass, fields

from daf_storage import errors


@dataclass(frozen=True, slots=True)
class FlightSqlLimits:
    """What a server gives at most; None is no limit.

    Raises
    ------
    InvalidInputError
        A limit is not positive.
    """

    max_rows: int | None = None
    """Rows of one result."""
    max_bytes: int | None = None
    """Bytes of one result, as Arrow has them in memory."""
    max_memory_bytes: int | None = None
    """Bytes of memory in which one query sorts, joins and groups; of all, ``max_queries`` times."""
    max_seconds: float | None = 600.0
    """Seconds from the beginning of a query until its last row is sent."""
    max_queries: int = 8
    """Queries that are planned or run at the same time."""
    max_statements: int = 1000
    """Prepared statements that are remembered; the least recently used is forgotten first."""
    max_query_bytes: int = 1 << 20
    """Bytes of the SQL of a query, with the values of its parameters."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not value > 0:
                raise errors.InvalidInputError(f"{field.name}= has to be positive, not {value!r}")


def limit_reached(problem: str, option: str) -> str:
    """Return the sentence that says which limit was reached, and who can change it.

    >>> limit_reached("the result has more than 5 rows", "max_rows")
    'the result has more than 5 rows, a limit of this server: --max-rows, or max_rows= in Python'
    """
    written = option.replace("_", "-")
    return f"{problem}, a limit of this server: --{written}, or {option}= in Python"
