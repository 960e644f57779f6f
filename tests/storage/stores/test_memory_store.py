"""Tests of the store in memory."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from daf_storage.stores import MemoryStore, WritableStore
from daf_storage.testing import ChangingStoreSuite


class TestMemoryStore(ChangingStoreSuite):
    @pytest.fixture
    def store(self) -> WritableStore:
        """Return an empty store."""
        return MemoryStore()


def test_identities_can_be_keys() -> None:
    """Those of one state are equal, those of another are not."""
    store = MemoryStore()
    states: list[Hashable] = []
    for content in (b"1", b"2"):
        with store.transaction() as changes:
            changes.write("a/x", content)
            changes.publish("a", replace=bool(states))
        pinned, again = store.snapshot("a"), store.snapshot("a")
        assert pinned is not None
        assert again is not None
        assert {pinned.identity(): 1}[again.identity()] == 1
        assert pinned.is_same(again)
        states.append(pinned.identity())
        with pytest.raises(KeyError):
            pinned.read_ranges("y", [(0, 1)])
        assert [bytes(part) for part in pinned.read_ranges("x", [(0, 1), (1, 1)])] == [content, b""]
    assert states[0] != states[1]
    assert states[0] != "state"
