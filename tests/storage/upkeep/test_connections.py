"""Tests of the connections of a server."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator

import pytest

from daf_storage.upkeep._connections import Connections, RequestReader


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    """Return three pairs of sockets that are connected."""
    made = [socket.socketpair() for _ in range(3)]
    for ours, theirs in made:
        ours.settimeout(10)
        theirs.settimeout(10)
    yield made
    for ours, theirs in made:
        ours.close()
        theirs.close()


def test_the_one_that_waits_longest_gives_way(
    pairs: list[tuple[socket.socket, socket.socket]],
) -> None:
    """From the end of its last answer on; its client reads the end, and it is not answered."""
    connections = Connections(2)
    (first, _), (second, second_client), (third, _) = pairs
    assert connections.admit(first)
    assert connections.admit(second)
    assert connections.answer(first)
    connections.wait(first)
    assert connections.admit(third)
    assert second_client.recv(1) == b""
    assert not connections.answer(second)
    assert connections.answer(first)
    assert len(connections) == 2


def test_what_is_being_answered_does_not_give_way(
    pairs: list[tuple[socket.socket, socket.socket]],
) -> None:
    """A new one is refused instead, until one of them is done."""
    connections = Connections(1)
    (first, _), (second, _), _ = pairs
    assert connections.admit(first)
    assert connections.answer(first)
    assert not connections.admit(second)
    connections.forget(first)
    assert connections.admit(second)
    connections.wait(first)  # it is forgotten, and stays so
    assert len(connections) == 1


def test_a_client_that_hung_up_gives_way_as_well(
    pairs: list[tuple[socket.socket, socket.socket]],
) -> None:
    """Its socket can no longer be shut down, which is no error."""
    connections = Connections(1)
    (first, _), (second, _), _ = pairs
    assert connections.admit(first)
    first.close()
    assert connections.admit(second)


def test_a_request_that_comes_byte_by_byte_ends_in_time(
    pairs: list[tuple[socket.socket, socket.socket]],
) -> None:
    """The time counts from its beginning, and from that of the next request again."""
    now = [0.0]
    ours, theirs = pairs[0]
    raw = RequestReader(ours, 30.0, clock=lambda: now[0])
    reader = io.BufferedReader(raw)
    theirs.sendall(b"GET /\n")
    assert reader.readline() == b"GET /\n"
    now[0] = 29.0
    theirs.sendall(b"H")
    assert reader.read(1) == b"H"
    now[0] = 30.0
    theirs.sendall(b"o")
    with pytest.raises(TimeoutError, match="took too long"):
        reader.read(1)
    raw.begin()
    assert reader.read(1) == b"o"
    assert ours.gettimeout() == 30.0  # for what is sent
