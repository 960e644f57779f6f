"""What every store has to do; a store's tests inherit `StoreSuite` and give it a store."""

from __future__ import annotations

import numpy as np
import pytest

from daf_storage.stores import WritableStore


class StoreSuite:
    """The contract of `ReadableStore` and `WritableStore`."""

    @pytest.fixture
    def store(self) -> WritableStore:
        """Return an empty store; overridden by each store's tests."""
        raise AssertionError("a store's tests override this")

    def test_an_empty_store_has_nothing(self, store: WritableStore) -> None:
        """A prefix without keys cannot be pinned."""
        assert store.pin("a/b") is None

    def test_published_keys_can_be_read(self, store: WritableStore) -> None:
        """What was published reads back, by read, map, size and names."""
        with store.transaction() as changes:
            changes.write("a/b/x", b"12")
            changes.write("a/b/x", b"3")
            changes.write("a/b/c/y", b"")
            changes.publish("a/b", replace=False)
        pin = store.pin("a/b")
        assert pin is not None
        assert pin.names() == ["c", "x"]
        assert pin.names("c") == ["y"]
        assert pin.names("nothing") == []
        assert pin.read("x") == b"123"
        assert pin.size("x") == 3
        mapped = pin.map("x")
        assert mapped is not None
        assert bytes(mapped) == b"123"
        assert mapped.readonly
        assert pin.map("c/y") == b""
        assert (pin.read("z"), pin.size("z"), pin.map("z")) == (None, None, None)

    def test_nothing_shows_before_it_is_published(self, store: WritableStore) -> None:
        """Prepared keys are invisible, and are dropped if they are never published."""
        with store.transaction() as changes:
            changes.write("a/x", b"1")
            assert store.pin("a") is None
        assert store.pin("a") is None

    def test_reserved_bytes_are_zero_and_can_be_filled(self, store: WritableStore) -> None:
        """A reserved key is handed out as zeros, and what is filled in is published."""
        with store.transaction() as changes:
            array = changes.reserve("a/x", 4)
            assert array.tolist() == [0, 0, 0, 0]
            array[:] = [1, 2, 3, 4]
            changes.publish("a", replace=False)
        pin = store.pin("a")
        assert pin is not None
        assert pin.read("x") == bytes([1, 2, 3, 4])

    def test_publish_refuses_to_replace_unasked(self, store: WritableStore) -> None:
        """A prefix that is there stays, unless replacing it was asked for."""
        for value, replace in ((b"1", False), (b"2", True)):
            with store.transaction() as changes:
                changes.write("a/x", value)
                changes.publish("a", replace=replace)
        with store.transaction() as changes:
            changes.write("a/x", b"3")
            with pytest.raises(FileExistsError):
                changes.publish("a", replace=False)
        pin = store.pin("a")
        assert pin is not None
        assert pin.read("x") == b"2"

    def test_a_pin_survives_replacement_and_removal(self, store: WritableStore) -> None:
        """What is read through one pin belongs together, whatever writers do meanwhile."""
        with store.transaction() as changes:
            changes.write("a/x", b"old")
            changes.write("a/y", b"old")
            changes.publish("a", replace=False)
        pin = store.pin("a")
        assert pin is not None
        view = pin.map("x")
        with store.transaction() as changes:
            changes.write("a/x", b"new")
            changes.publish("a", replace=True)
            changes.remove("a")
        assert store.pin("a") is None
        assert view == b"old"

    def test_identity_changes_with_the_contents(self, store: WritableStore) -> None:
        """Replacing a prefix changes its identity."""
        seen = []
        for value in (b"1", b"2"):
            with store.transaction() as changes:
                changes.write("a/x", value)
                changes.publish("a", replace=True)
            pin = store.pin("a")
            assert pin is not None
            seen.append(pin.identity())
        assert seen[0] != seen[1]

    def test_removing_what_is_not_there_is_nothing(self, store: WritableStore) -> None:
        """Removal of an absent prefix is no error."""
        with store.transaction() as changes:
            changes.remove("a/b/c")

    def test_a_single_key_can_be_replaced(self, store: WritableStore) -> None:
        """`replace_file` writes one key, over and over."""
        with store.transaction() as changes:
            for value in (b"1", b"22"):
                changes.replace_file("top", value)
        pin = store.pin("")
        assert pin is not None
        assert pin.read("top") == b"22"

    def test_an_empty_reservation_is_possible(self, store: WritableStore) -> None:
        """Reserving no bytes hands out an empty array."""
        with store.transaction() as changes:
            assert np.asarray(changes.reserve("a/x", 0)).size == 0
            changes.publish("a", replace=False)
        assert store.pin("a") is not None

    def test_a_fresh_store_needs_no_recovery(self, store: WritableStore) -> None:
        """There is nothing to recover where nothing crashed."""
        assert not store.recover()
