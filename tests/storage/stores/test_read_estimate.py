"""Tests of the sums of what reads cost."""

from __future__ import annotations

from daf_storage.stores import MemoryStore, ReadEstimate, estimate_ranges


def test_bytes_and_requests_add_up() -> None:
    """Of this machine and of a server; what is inexact makes the sum so."""
    estimate = ReadEstimate()
    assert (estimate.size_bytes, estimate.requests) == (0, 0)
    assert (estimate.is_remote, estimate.is_exact) == (False, True)
    estimate.add_bytes(5)
    estimate.add_bytes(6)
    assert (estimate.size_bytes, estimate.requests, estimate.is_remote) == (11, 0, False)
    estimate.add_inexact(7, requests=0)
    assert (estimate.size_bytes, estimate.requests) == (18, 0)
    assert (estimate.is_remote, estimate.is_exact) == (False, False)
    estimate.add_inexact(1, requests=2)
    assert (estimate.size_bytes, estimate.requests, estimate.is_remote) == (19, 2, True)
    estimate.add_inexact(1, requests=0)
    assert estimate.is_remote
    other = ReadEstimate()
    other.add_request(9)
    other.add_request(1)
    assert (other.size_bytes, other.requests) == (10, 2)
    assert (other.is_remote, other.is_exact) == (True, True)


def test_blocks_and_lengths_count_once() -> None:
    """Of each file on its own."""
    estimate = ReadEstimate()
    asked = [("a", 1), ("a", 2), ("b", 1), ("a", 1), ("b", 1)]
    assert [estimate.is_new(path, block) for path, block in asked] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert [estimate.is_new_size(path) for path in "abab"] == [True, True, False, False]


def test_ranges_of_what_is_in_memory() -> None:
    """Their bytes, without a request."""
    store = MemoryStore()
    with store.transaction() as changes:
        changes.write("a/x", b"12345")
        changes.publish("a", replace=False)
    pinned = store.snapshot("a")
    assert pinned is not None
    estimate = ReadEstimate()
    estimate_ranges(pinned, "x", [(0, 2), (4, 5), (3, 3)], estimate)
    assert (estimate.size_bytes, estimate.requests, estimate.is_remote) == (3, 0, False)
