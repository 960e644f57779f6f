"""Tests of tickets and prepared statements."""

from __future__ import annotations

import pyarrow as pa
import pytest

from daf_query.flight_sql import FlightSqlLimits
from daf_query.flight_sql._statements import Prepared, PreparedStatements, Tickets


def test_a_ticket_is_its_query_for_one_client() -> None:
    """Not for another one, not of another server, not with one bit changed, and each has an id."""
    tickets = Tickets()
    handle = tickets.sealed("SELECT 'é'", "one")
    opened = tickets.opened(handle, "one")
    assert opened.query == "SELECT 'é'"
    assert opened.query_id != tickets.opened(tickets.sealed("SELECT 'é'", "one"), "one").query_id
    changed = [
        handle[:place] + bytes([handle[place] ^ 1]) + handle[place + 1 :]
        for place in range(len(handle))
    ]
    for other in (b"", handle[:40], handle + b" ", *changed):
        with pytest.raises(pa.ArrowInvalid, match="not one that this server gave"):
            tickets.opened(other, "one")
    for server, client in ((tickets, "two"), (tickets, ""), (Tickets(), "one")):
        with pytest.raises(pa.ArrowInvalid, match="not one that this server gave"):
            server.opened(handle, client)


def test_statements_that_are_used_stay() -> None:
    """The least recently used is forgotten; those of others cannot be used, bound or closed."""
    statements = PreparedStatements(FlightSqlLimits(max_statements=2))
    first = statements.add(Prepared("SELECT ?", "one"))
    second = statements.add(Prepared("SELECT 2", "one", "SELECT 2"))
    assert statements.find(first, "one").bound is None
    third = statements.add(Prepared("SELECT 3", "two", "SELECT 3"))
    assert len(statements) == 2
    with pytest.raises(pa.ArrowInvalid, match=r"at most 2 are remembered.*--max-statements"):
        statements.find(second, "one")
    statements.bind(first, "one", "SELECT 1")
    assert statements.find(first, "one") == Prepared("SELECT ?", "one", "SELECT 1")
    for handle, client in ((third, "one"), (first, "two"), (b"", "one")):
        with pytest.raises(pa.ArrowInvalid, match="unknown"):
            statements.find(handle, client)
        with pytest.raises(pa.ArrowInvalid, match="unknown"):
            statements.bind(handle, client, "SELECT 0")
        statements.close(handle, client)
    assert len(statements) == 2
    statements.close(first, "one")
    statements.close(first, "one")
    assert len(statements) == 1


def test_long_statements_are_forgotten_sooner() -> None:
    """Together they take 64 times the largest one at most, with what is bound to them."""
    statements = PreparedStatements(FlightSqlLimits(max_query_bytes=100))
    handles = [statements.add(Prepared("x" * 100, "one")) for _ in range(64)]
    assert len(statements) == 64
    statements.bind(handles[-1], "one", "y" * 100)
    assert len(statements) == 63
    handles += [statements.add(Prepared("x", "one")) for _ in range(100)]
    assert len(statements) == 162
    assert statements.find(handles[63], "one").bound == "y" * 100
    with pytest.raises(pa.ArrowInvalid, match="unknown"):
        statements.find(handles[0], "one")
