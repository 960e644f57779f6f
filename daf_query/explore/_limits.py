"""Limits of the explorer."""

from __future__ import annotations

from dataclasses import dataclass, fields

from daf_storage import errors


@dataclass(frozen=True, slots=True)
class ExploreLimits:
    """What the server of the explorer gives at most.

    Raises
    ------
    InvalidInputError
        A limit is not positive.

    Examples
    --------
    >>> ExploreLimits(seconds=30).rows
    1000000
    """

    rows: int = 1_000_000
    """Rows of the result of one query; the others are left out, and the page says so."""
    bytes: int = 1 << 30
    """Bytes of one answer."""
    seconds: float = 120.0
    """Seconds from the beginning of a query until its last row is sent."""
    queries: int = 8
    """Answers that are computed at the same time."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise errors.InvalidInputError(f"{field.name}= has to be positive, not {value!r}")
