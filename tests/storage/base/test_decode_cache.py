"""Tests of the memory of decoded strings."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from daf_storage.base import DecodedCache


def decoder(calls: list[str], name: str) -> Callable[[], pa.Array]:
    """Return a function that decodes 100 bytes or so and writes down that it did."""

    def decode() -> pa.Array:
        calls.append(name)
        return pa.array([name * 25] * 4)

    return decode


def test_an_array_is_decoded_once_per_identity() -> None:
    """Again only when it was replaced."""
    cache, calls = DecodedCache(), list[str]()
    for identity in (1, 1, 2, 2):
        cache.get("a", identity, decoder(calls, "a"))
    assert calls == ["a", "a"]


def test_the_least_recently_used_goes_first() -> None:
    """The memory is bounded in bytes; the newest entry always stays."""
    cache, calls = DecodedCache(max_bytes=300), list[str]()
    for name in "abac":
        cache.get(name, 0, decoder(calls, name))
    cache.get("a", 0, decoder(calls, "a"))
    cache.get("b", 0, decoder(calls, "b"))
    assert calls == ["a", "b", "c", "b"]
    tiny = DecodedCache(max_bytes=1)
    tiny.get("a", 0, decoder(calls, "x"))
    tiny.get("a", 0, decoder(calls, "x"))
    assert calls[-2:] == ["b", "x"]


def test_clearing_forgets_everything() -> None:
    """A dropped array is decoded again."""
    cache, calls = DecodedCache(), list[str]()
    cache.get("a", 0, decoder(calls, "a"))
    cache.clear()
    cache.get("a", 0, decoder(calls, "a"))
    assert len(calls) == 2
