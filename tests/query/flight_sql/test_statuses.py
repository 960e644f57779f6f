"""Tests of errors as clients get them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from daf_query.flight_sql import FlightSqlLimits
from daf_query.flight_sql._answers import InvalidRequest, NotSupported, Statuses
from daf_storage import errors

STATUSES = Statuses(
    {"/lab/data/pbmc.daf.zarr": "pbmc", "runs/a.daf.zarr": "runs", "s3://lab/atlas.h5ad": "atlas"}
)


def test_each_error_has_a_fitting_status() -> None:
    """What the client did wrong, what failed elsewhere, and what is a fault of the server."""
    for error, status in [
        (errors.QueryError("no"), InvalidRequest),
        (errors.AxisNotFoundError("no"), InvalidRequest),
        (errors.BudgetError("no"), InvalidRequest),
        (errors.ReadOnlyError("no"), flight.FlightUnauthorizedError),
        (errors.RemoteError("no"), flight.FlightUnavailableError),
        (errors.CorruptDataError("no"), flight.FlightInternalError),
        (MemoryError(), InvalidRequest),
        (flight.FlightTimedOutError("no"), flight.FlightTimedOutError),
        (NotSupported("no"), NotSupported),
    ]:
        assert type(STATUSES.status(error)) is status
    assert issubclass(InvalidRequest, pa.ArrowInvalid)
    assert issubclass(NotSupported, NotImplementedError)


def test_faults_are_logged_and_not_sent(capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever they say."""
    status = STATUSES.status(RuntimeError("at /home/me/secret.py"))
    assert (
        str(status)
        == "the server failed at this request, which is a fault of it: its own log says why"
    )
    assert "at /home/me/secret.py" in capfd.readouterr().err


def test_paths_of_the_server_are_not_sent() -> None:
    """Data sets are called by their schemas; a path that the client wrote stays."""
    relative = Path("runs/a.daf.zarr").absolute()
    for message, shown in [
        ("/lab/data/pbmc.daf.zarr: no vector", "pbmc: no vector"),
        ("/lab/data/pbmc.daf.zarr/cell/age/0: cut off", "pbmc/cell/age/0: cut off"),
        ("'/lab/data/pbmc.daf.zarr' is", "'pbmc' is"),
        ("/lab/data/pbmc.daf.zarr2: no", "(a file of the server): no"),
        (f"runs/a.daf.zarr, {relative}", "runs, runs"),
        ("s3://lab/atlas.h5ad: gone", "atlas: gone"),
        ("open('/var/lib/x/y.txt') failed", "open('(a file of the server)') failed"),
        ("age / 10 + n/2 */comment/x", "age / 10 + n/2 */comment/x"),
    ]:
        assert STATUSES.shown(message) == shown
    asked = "SELECT * FROM '/etc/passwd'"
    assert STATUSES.shown("no table '/etc/passwd'", asked) == "no table '/etc/passwd'"
    assert "/etc/shadow" not in STATUSES.shown("no table '/etc/shadow'", asked)


def test_remedies_are_those_of_a_client() -> None:
    """Arguments of Python are of no use to it."""
    error: Any = errors.with_remedy(
        errors.ReadOnlyError("the query was refused"),
        errors.Remedy("pass ", errors.ALLOW_WRITE, " to sql()"),
    )
    assert str(STATUSES.status(error)) == "the query was refused; this server only reads"


def test_limits_are_positive() -> None:
    """None is no limit, and zero is none either."""
    for name in (
        "max_rows",
        "max_bytes",
        "max_memory_bytes",
        "max_seconds",
        "max_queries",
        "max_statements",
    ):
        options: dict[str, Any] = {name: 0}
        with pytest.raises(errors.InvalidInputError, match=f"{name}= has to be positive, not 0"):
            FlightSqlLimits(**options)
    assert FlightSqlLimits(max_seconds=None).max_seconds is None
