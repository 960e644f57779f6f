"""Tests of what a process keeps open for tasks: bounded, opened once, opened again if outdated."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from daf_query.dask_blocks import InMemorySource, let_go, reader_at
from daf_query.dask_blocks import _opened as opening
from daf_storage import ZarrDaf, errors


@dataclass
class CountingSource:
    """A source that counts how often it is opened."""

    key: str
    opened: list[str] = field(default_factory=list)

    def open(self) -> CountingSource:
        self.opened.append(self.key)
        return self

    def read(self, piece: int) -> int:
        return piece


@pytest.fixture(autouse=True)
def _nothing_open() -> Iterator[None]:
    let_go()
    yield
    let_go()


def test_a_source_is_opened_once_until_others_displace_it() -> None:
    """The least recently used is let go, and no more are kept than allowed."""
    first = CountingSource("first")
    for number in range(opening.MAX_SOURCES - 1):
        opening.opened(CountingSource(str(number)))
        assert opening.opened(first).read(number) == number
    assert first.opened == ["first"]
    for number in range(opening.MAX_SOURCES):
        opening.opened(CountingSource(f"other {number}"))
    assert len(opening.SOURCES) == opening.MAX_SOURCES
    opening.opened(first)
    assert first.opened == ["first", "first"]


def test_one_reader_for_a_path(tiny_path: Path) -> None:
    """However many sources read of it; a new one where it is of no use any more."""
    origin = ZarrDaf(tiny_path).require_origin()
    reader = reader_at(origin)
    assert reader_at(origin) is reader
    assert reader_at(origin, lambda daf: daf is not reader) is not reader
    assert len(opening.READERS) == 1
    let_go()
    assert len(opening.READERS) == 0


def test_what_is_in_memory_does_not_travel() -> None:
    """The error says what to do; in this process it is used as it is."""
    source = InMemorySource("key", CountingSource("x"), "<tiny>")
    assert opening.opened(source).read(3) == 3
    travelled = pickle.loads(pickle.dumps(source))
    with pytest.raises(
        errors.InvalidInputError, match="<tiny>: no path leads .* copy_all.*'threads'"
    ):
        opening.opened(travelled)
