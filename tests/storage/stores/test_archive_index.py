"""Tests of the index of an archive's entries: by name, by number, in order."""

from __future__ import annotations

import pytest

from daf_storage.stores.mmap_zip import _index
from daf_storage.stores.mmap_zip._index import EntryIndex
from daf_storage.stores.mmap_zip._records import Entry, pack_entry


def entries(*names: str) -> list[Entry]:
    """Return entries of these names."""
    return [pack_entry(name, 1, 7, 100 * number) for number, name in enumerate(names)]


@pytest.mark.parametrize("many", [0, 100])
def test_names_stay_sorted_however_many_are_added(
    monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    """One by one, or all at once; a reader sees those that were there before."""
    monkeypatch.setattr(_index, "_MANY", many)
    index = EntryIndex(entries("m", "b"))
    index.add(entries("z", "a", "k"))
    assert index.names() == ["a", "b", "k", "m", "z"]
    assert [index.find(name) for name in ("m", "k", "x")] == [
        index.entries[0],
        index.entries[4],
        None,
    ]
    assert index.find("b", 2) == index.entries[1]
    assert index.find("b", 1) is None
    index.keep([index.entries[1], index.entries[4]])
    assert index.names() == ["b", "k"]
