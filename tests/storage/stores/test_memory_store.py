"""Tests of the store in memory."""

from __future__ import annotations

import pytest

from daf_storage.stores import MemoryStore, WritableStore
from daf_storage.testing import ChangingStoreSuite


class TestMemoryStore(ChangingStoreSuite):
    @pytest.fixture
    def store(self) -> WritableStore:
        """Return an empty store."""
        return MemoryStore()
