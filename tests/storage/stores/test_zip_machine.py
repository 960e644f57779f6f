"""Random operations on an archive and on the store in memory, with reopenings and crashes."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from daf_storage.stores import MemoryStore, MmapZipStore, WritableStore
from tests.support import there
from tests.zip_crash_points import crash_at

PREFIXES = st.sampled_from(["a", "b", "a/x", "b/y/z", "é", "c", "d", "e"])
VALUES = st.dictionaries(
    st.sampled_from([".zarray", "0", "1.0", "n/0"]), st.binary(max_size=300), min_size=1
)

LIMIT = 1 << 32
"""Address space of each archive; those that crashed are not given back at once."""

Change = Callable[[WritableStore], None]


class Stop(Exception):  # noqa: N818 - no error, but a way out of a block
    """An error within a batch."""


def publish(prefix: str, values: dict[str, bytes], filled: int) -> Change:
    """Return a change that adds values, and a key that is filled in place."""

    def change(store: WritableStore) -> None:
        with store.transaction() as changes:
            for key, data in values.items():
                changes.write(f"{prefix}/{key}", data[:5])
                changes.write(f"{prefix}/{key}", data[5:])
            if filled:
                changes.reserve(f"{prefix}/filled", filled)[:] = 7
            with suppress(FileExistsError):
                changes.publish(prefix, replace=False)

    return change


class ArchiveMachine(RuleBasedStateMachine):
    """An archive that has to agree with its model after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "x.zip"
        self.store = MmapZipStore(self.path, "w", max_file_size=LIMIT)
        self.model = MemoryStore()
        self.views: list[tuple[memoryview, bytes]] = []

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    @rule(prefix=PREFIXES, values=VALUES, filled=st.sampled_from([0, 1, 70_000, 1_500_000]))
    def publish(self, prefix: str, values: dict[str, bytes], filled: int) -> None:
        """Add what is not there yet."""
        for store in (self.store, self.model):
            publish(prefix, values, filled)(store)

    @rule(
        changes=st.lists(st.tuples(PREFIXES, VALUES, st.sampled_from([0, 1_200_000])), max_size=3),
        fails=st.booleans(),
    )
    def batch(self, *, changes: list[tuple[str, dict[str, bytes], int]], fails: bool) -> None:
        """Add several things at once, or nothing after an error."""
        with suppress(Stop), self.store.batch():
            for change in changes:
                publish(*change)(self.store)
            if fails:
                raise Stop
        if not fails:
            for change in changes:
                publish(*change)(self.model)

    @rule(prefix=PREFIXES, size=st.integers(1, 2_000_000))
    def give_up(self, prefix: str, size: int) -> None:
        """Reserve and do not publish."""
        with self.store.transaction() as changes:
            changes.reserve(f"{prefix}/dropped", size)[:] = 1

    @rule()
    def reopen(self) -> None:
        """Close and open again."""
        self.store.close()
        self.store = MmapZipStore(self.path, "r+", max_file_size=LIMIT)

    @rule(
        prefix=PREFIXES,
        values=VALUES,
        filled=st.sampled_from([0, 1_500_000]),
        last=st.integers(1, 12),
        part=st.sampled_from([0.0, 0.3, 0.99, 1.0]),
    )
    def crash(
        self, prefix: str, values: dict[str, bytes], filled: int, last: int, part: float
    ) -> None:
        """Die in the middle of adding: all of it is there afterwards, or nothing."""
        existed = self.store.snapshot(prefix) is not None
        crash_at(last, part, lambda: publish(prefix, values, filled)(self.store))
        assert self.store._file is not None
        self.store._file.close()
        self.store = MmapZipStore(self.path, "r+", max_file_size=LIMIT)
        if not existed and self.store.snapshot(prefix) is not None:
            publish(prefix, values, filled)(self.model)

    @precondition(lambda self: bool(self.store.keys()))
    @rule(data=st.data())
    def look(self, data: st.DataObject) -> None:
        """Keep a view: it must stay as it is."""
        key = data.draw(st.sampled_from(self.store.keys()))
        view = there(self.store.get(key))
        self.views.append((view, bytes(view)))

    @invariant()
    def agree(self) -> None:
        """Keys and bytes are those of the model, for us and for another reader of the file."""
        expected = {key: self.model.value(key) for key in self.model.below("")}
        assert self.store.keys() == sorted(expected)
        for key, data in expected.items():
            assert self.store.get(key) == data
        with MmapZipStore(self.path) as other:
            assert other.keys() == sorted(expected)
        if len(expected) % 5 == 1:
            with zipfile.ZipFile(self.path) as archive:
                assert archive.testzip() is None

    @invariant()
    def pins_agree(self) -> None:
        """Compare listings at every level."""
        for prefix in ("", "a", "b", "b/y", "nothing"):
            ours, theirs = self.store.snapshot(prefix), self.model.snapshot(prefix)
            assert (ours is None) == (theirs is None)
            if ours is not None and theirs is not None:
                assert ours.names() == theirs.names()
                assert ours.names("x") == theirs.names("x")

    @invariant()
    def views_stay(self) -> None:
        """Compare what was handed out with what it was."""
        for view, data in self.views:
            assert view == data


ArchiveMachine.TestCase.settings = settings(max_examples=12, stateful_step_count=25, deadline=None)
TestArchiveMachine = pytest.mark.filterwarnings("default")(ArchiveMachine.TestCase)
