"""Tests that every store passes, for those who write another one.

Needs pytest, which the extra ``testing`` installs.  A test class inherits a suite and gives it an
empty store, as a fixture: what can be changed passes `ChangingStoreSuite`, what can only be added
to `AppendOnlyStoreSuite`.

>>> import pytest
>>> from daf_storage.spi import MemoryStore
>>> from daf_storage.testing import ChangingStoreSuite
>>> class TestMine(ChangingStoreSuite):
...     @pytest.fixture
...     def store(self) -> MemoryStore:
...         return MemoryStore()
"""

from __future__ import annotations

import numpy as np
import pytest

from daf_storage import errors
from daf_storage.stores import Snapshot, WritableStore

__all__ = ["AppendOnlyStoreSuite", "ChangingStoreSuite", "StoreSuite"]


def _put(store: WritableStore, key: str, data: bytes, *, replace: bool = False) -> None:
    """Publish a prefix with the key that is directly below it."""
    with store.transaction() as changes:
        changes.write(key, data)
        changes.publish(key.rpartition("/")[0], replace=replace)


def _pinned(store: WritableStore, prefix: str) -> Snapshot:
    """Return a view of a prefix that is there."""
    snapshot = store.snapshot(prefix)
    assert snapshot is not None
    return snapshot


class StoreSuite:
    """The contract of `ReadableStore` and `WritableStore`."""

    @pytest.fixture
    def store(self) -> WritableStore:
        """Return an empty store; overridden by each store's tests."""
        raise AssertionError("a store's tests override this")

    def test_an_empty_store_has_nothing(self, store: WritableStore) -> None:
        """A prefix without keys cannot be pinned."""
        assert store.snapshot("a/b") is None

    def test_published_keys_can_be_read(self, store: WritableStore) -> None:
        """What was published reads back, by read, map, size and names."""
        with store.transaction() as changes:
            changes.write("a/b/x", b"12")
            changes.write("a/b/x", b"3")
            changes.write("a/b/c/y", b"")
            changes.publish("a/b", replace=False)
        snapshot = _pinned(store, "a/b")
        assert snapshot.names() == ["c", "x"]
        assert snapshot.names("c") == ["y"]
        assert snapshot.names("nothing") == []
        assert snapshot.read("x") == b"123"
        assert snapshot.size("x") == 3
        mapped = snapshot.map("x")
        assert mapped is not None
        assert bytes(mapped) == b"123"
        assert mapped.readonly
        assert snapshot.map("c/y") == b""
        assert (snapshot.read("z"), snapshot.size("z"), snapshot.map("z")) == (None, None, None)

    def test_nothing_shows_before_it_is_published(self, store: WritableStore) -> None:
        """Prepared keys are invisible, and are dropped if they are never published."""
        with store.transaction() as changes:
            changes.write("a/x", b"1")
            assert store.snapshot("a") is None
        assert store.snapshot("a") is None

    def test_reserved_bytes_are_zero_and_can_be_filled(self, store: WritableStore) -> None:
        """A reserved key is handed out as zeros, and what is filled in is published."""
        with store.transaction() as changes:
            array = changes.reserve("a/x", 4)
            assert array.tolist() == [0, 0, 0, 0]
            array[:] = [1, 2, 3, 4]
            changes.publish("a", replace=False)
        snapshot = _pinned(store, "a")
        assert snapshot.read("x") == bytes([1, 2, 3, 4])

    def test_a_single_key_can_be_published(self, store: WritableStore) -> None:
        """A key that is itself the prefix is put in place, and it alone; then it is taken."""
        with store.transaction() as changes:
            changes.write("one", b"1")
            changes.write("other", b"2")
            changes.publish("one", replace=False)
        snapshot = _pinned(store, "")
        assert (snapshot.read("one"), snapshot.read("other")) == (b"1", None)
        with store.transaction() as changes:
            changes.write("one", b"2")
            with pytest.raises(FileExistsError):
                changes.publish("one", replace=False)
        again = _pinned(store, "")
        assert again.read("one") == b"1"

    def test_removing_what_is_not_there_is_nothing(self, store: WritableStore) -> None:
        """Removal of an absent prefix is no error."""
        with store.transaction() as changes:
            changes.remove("a/b/c")

    def test_an_empty_reservation_is_possible(self, store: WritableStore) -> None:
        """Reserving no bytes hands out an empty array."""
        with store.transaction() as changes:
            assert np.asarray(changes.reserve("a/x", 0)).size == 0
            changes.publish("a", replace=False)
        assert store.snapshot("a") is not None

    def test_a_fresh_store_needs_no_recovery(self, store: WritableStore) -> None:
        """There is nothing to recover where nothing crashed."""
        assert not store.recover()


class ChangingStoreSuite(StoreSuite):
    """The contract of stores in which keys can be replaced and removed."""

    def test_publish_refuses_to_replace_unasked(self, store: WritableStore) -> None:
        """A prefix that is there stays, unless replacing it was asked for."""
        for value, replace in ((b"1", False), (b"2", True)):
            _put(store, "a/x", value, replace=replace)
        with store.transaction() as changes:
            changes.write("a/x", b"3")
            with pytest.raises(FileExistsError):
                changes.publish("a", replace=False)
        assert _pinned(store, "a").read("x") == b"2"

    def test_a_snapshot_survives_replacement_and_removal(self, store: WritableStore) -> None:
        """What is read through one pin belongs together, whatever writers do meanwhile."""
        with store.transaction() as changes:
            changes.write("a/x", b"old")
            changes.write("a/y", b"old")
            changes.publish("a", replace=False)
        view = _pinned(store, "a").map("x")
        with store.transaction() as changes:
            changes.write("a/x", b"new")
            changes.publish("a", replace=True)
            changes.remove("a")
        assert store.snapshot("a") is None
        assert view == b"old"

    def test_identity_changes_with_the_contents(self, store: WritableStore) -> None:
        """Replacing a prefix changes its identity."""
        seen = []
        for value in (b"1", b"2"):
            _put(store, "a/x", value, replace=True)
            seen.append(_pinned(store, "a").identity())
        assert seen[0] != seen[1]

    def test_a_single_key_can_be_replaced(self, store: WritableStore) -> None:
        """`replace_file` writes one key, over and over."""
        with store.transaction() as changes:
            for value in (b"1", b"22"):
                changes.replace_file("top", value)
        assert _pinned(store, "").read("top") == b"22"


class AppendOnlyStoreSuite(StoreSuite):
    """The contract of stores that can be added to, and nothing else."""

    def test_what_is_there_stays(self, store: WritableStore) -> None:
        """Replacing and removing are refused; what is there is as it was."""
        assert store.is_append_only
        _put(store, "a/x", b"1")
        with store.transaction() as changes:
            changes.write("a/x", b"2")
            with pytest.raises(FileExistsError):
                changes.publish("a", replace=False)
            with pytest.raises(errors.AppendOnlyError, match="append-only; store it under another"):
                changes.publish("a", replace=True)
            with pytest.raises(errors.AppendOnlyError):
                changes.remove("a")
            with pytest.raises(errors.AppendOnlyError):
                changes.replace_file("a/x", b"2")
            changes.replace_file("a/x", b"1")
        assert _pinned(store, "a").read("x") == b"1"

    def test_a_pin_does_not_see_what_comes_later(self, store: WritableStore) -> None:
        """A view of a prefix stays as it was while more is added below it."""
        pins = []
        for name in "xyz":
            _put(store, f"a/{name}/0", name.encode())
            pins.append(_pinned(store, "a"))
        assert [snapshot.names() for snapshot in pins] == [["x"], ["x", "y"], ["x", "y", "z"]]
        assert pins[0].read("y/0") is None
        assert pins[0].size("z/0") is None
        assert len({snapshot.identity() for snapshot in pins}) == 3

    def test_large_reservations(self, store: WritableStore) -> None:
        """Several at a time, published in another order than they were made, or not at all."""
        size = 2 << 20
        with store.transaction() as changes, store.transaction() as others:
            first = changes.reserve("a/x", size)
            dropped = others.reserve("b/x", size)
            second = changes.reserve("c/x", size)
            assert not first.any()
            assert not second.any()
            first[:], dropped[:], second[:] = 1, 2, 3
            changes.write("c/y", b"last")
            changes.publish("c", replace=False)
            changes.publish("a", replace=False)
        for prefix, value in (("a", 1), ("c", 3)):
            data = _pinned(store, prefix).map("x")
            assert data is not None
            assert np.all(np.frombuffer(data, np.uint8) == value)
        assert store.snapshot("b") is None

    def test_a_batch_is_undone_by_an_error(self, store: WritableStore) -> None:
        """What was published within the block is gone, what was there before is not."""

        def fail() -> None:
            with store.batch():
                _put(store, "b/x", b"1")
                assert store.snapshot("b") is not None
                with store.batch():
                    _put(store, "c/x", b"1")
                raise RuntimeError

        _put(store, "a/x", b"1")
        with pytest.raises(RuntimeError):
            fail()
        assert [store.snapshot(key) is not None for key in "abc"] == [True, False, False]
        _put(store, "b/x", b"1")
        assert store.snapshot("b") is not None
