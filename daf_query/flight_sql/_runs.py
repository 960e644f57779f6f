"""Queries that run within the limits of a server; where one ends early, clients get a status."""

from __future__ import annotations

from typing import Final

from pyarrow import flight

from daf_query._runs import Endings, Interruptible
from daf_query._runs import Runs as AnyRuns
from daf_query.flight_sql._limits import FlightSqlLimits, limit_reached

__all__ = ["Interruptible", "Runs"]


def _overdue(seconds: float) -> Exception:
    problem = f"the query has not ended after {seconds:g} seconds"
    error: Exception = flight.FlightTimedOutError(limit_reached(problem, "max_seconds"))
    return error


def _busy(most: int) -> Exception:
    running = "1 query is running" if most == 1 else f"{most} queries are running"
    error: Exception = flight.FlightUnavailableError(limit_reached(running, "max_queries"))
    return error


_ENDINGS: Final = Endings(
    _overdue, _busy, flight.FlightCancelledError, flight.FlightUnavailableError
)


class Runs(AnyRuns):
    """The queries of a server of Flight SQL."""

    def __init__(self, limits: FlightSqlLimits) -> None:
        super().__init__(_ENDINGS, max_seconds=limits.max_seconds, max_queries=limits.max_queries)
