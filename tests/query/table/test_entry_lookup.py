"""Tests of the position of one entry."""

from __future__ import annotations

import pytest

from daf_query.table import _matrix_columns as lookup
from daf_query.table import entry_not_found, find_entry
from daf_storage import MemoryDaf
from daf_storage.base import DecodedCache


def test_an_entry_is_found_once() -> None:
    """The position is remembered until the axis is another one."""
    daf = MemoryDaf()
    daf.add_axis("gene", ["A", "B", "ß"])
    cache = DecodedCache()
    assert [find_entry(daf, "gene", name, cache) for name in ("B", "ß", "b", "")] == [
        1,
        2,
        None,
        None,
    ]
    hits = cache.hits
    assert find_entry(daf, "gene", "B", cache) == 1
    assert cache.hits == hits + 1
    daf.reorder_axis("gene", [1, 0, 2])
    assert find_entry(daf, "gene", "B", cache) == 0


def test_the_nearest_entries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of very many, only those that begin alike are compared."""
    daf = MemoryDaf()
    daf.add_axis("gene", ["CD8A", *(f"X{i}" for i in range(50)), "FOXP3", "foxp1"])
    for limit in (20_000, 10):
        monkeypatch.setattr(lookup, "_MAX_COMPARED", limit)
        message = str(entry_not_found(daf, "gene", "FOXP4", DecodedCache()))
        assert "axis 'gene' has no entry 'FOXP4'; did you mean" in message
        assert "'FOXP3'" in message
