"""Tests of uniqueness, against a set of Python strings."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_storage import MemoryDaf
from daf_storage.base import first_duplicate

STRINGS = st.lists(
    st.one_of(
        st.text(max_size=3),
        st.sampled_from(["", "a", "a\0", "abcdefgh", "abcdefghi", "x" * 256, "x" * 257, "é" * 200]),
        st.text("ab", min_size=7, max_size=18),
    ),
    max_size=30,
)


def expected(strings: list[str]) -> str | None:
    """Return the first string that a Counter counts more than once."""
    return next((text for text, count in Counter(strings).items() if count > 1), None)


@given(STRINGS, st.integers(0, 3), st.sampled_from([pa.string(), pa.large_string()]))
def test_the_first_duplicate_is_that_of_a_counter(
    strings: list[str], start: int, kind: pa.DataType
) -> None:
    """Of any strings, also of slices, whatever their widths."""
    assert first_duplicate(pa.array(strings, kind).slice(start)) == expected(strings[start:])


@pytest.mark.parametrize("requested", [["e7"], ["e7", "no", "e7", "e3"], ["no"], []])
def test_a_few_entries_are_found_among_many(requested: list[str]) -> None:
    """As when all are looked for, which goes the other way round."""
    daf = MemoryDaf()
    entries = [f"e{n}" for n in range(200)]
    daf.add_axis("cell", entries)
    few = daf.axis_indices("cell", requested, allow_missing=True).tolist()
    many = daf.axis_indices("cell", requested + entries, allow_missing=True).tolist()
    assert few == [entries.index(name) if name in entries else -1 for name in requested]
    assert many[: len(requested)] == few
    assert many[len(requested) :] == list(range(200))
