"""Tests of uniqueness by sorted hashes, against a set of Python strings."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_storage import MemoryDaf, errors
from daf_storage.base import _duplicates as duplicates
from daf_storage.base import first_duplicate
from daf_storage.base._duplicates import hashes_of

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


@given(STRINGS, st.integers(1, 5), st.integers(1, 9), st.integers(1, 3))
def test_hashes_that_meet_decide_nothing(
    strings: list[str], rows: int, n_bytes: int, compared: int
) -> None:
    """With hashes of two bits, blocks of a few rows, and few hashes compared at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "hashes_of", lambda block: hashes_of(block) % np.uint64(4))
        patch.setattr(duplicates, "_BLOCK_STRINGS", rows)
        patch.setattr(duplicates, "_MAX_BLOCK_BYTES", n_bytes)
        patch.setattr(duplicates, "_COMPARED_HASHES", compared)
        found = first_duplicate(pa.array(strings, pa.string()))
    assert (found is None) == (expected(strings) is None)
    assert found is None or strings.count(found) > 1


@given(STRINGS, st.integers(1, 5))
def test_a_hash_depends_on_the_string_only(strings: list[str], cut: int) -> None:
    """Not on its neighbours, on its place in the block, or on the type of the offsets."""
    whole = hashes_of(pa.array(strings, pa.string())).tolist() if strings else []
    parts = [hashes_of(pa.array([text], pa.large_string())).tolist()[0] for text in strings]
    assert whole == parts
    if len(strings) > cut:
        assert hashes_of(pa.array(strings).slice(cut)).tolist() == whole[cut:]


def test_similar_names_have_different_hashes() -> None:
    """Numbered names, and those that differ in length or in a NUL only: no two meet."""
    strings = [f"cell_{n}" for n in range(200_000)]
    strings += ["\0" * n for n in range(400)] + ["a" * n for n in range(1, 400)]
    strings += [f"{n:030}" for n in range(20_000)] + [f"{n:020}x{n:020}" for n in range(20_000)]
    assert np.unique(hashes_of(pa.array(strings))).size == len(strings)


def test_blocks_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few long strings do not make a block of a million bytes each."""
    seen: list[int] = []

    def recorded(block: pa.Array) -> duplicates.Hashes:
        seen.append(pa.compute.sum(pa.compute.binary_length(block)).as_py())
        return hashes_of(block)

    monkeypatch.setattr(duplicates, "hashes_of", recorded)
    monkeypatch.setattr(duplicates, "_MAX_BLOCK_BYTES", 1000)
    strings = [str(n) * 100 for n in range(100)] + ["y" * 5000]
    assert first_duplicate(pa.array(strings)) is None
    assert max(seen) == 5000
    assert sum(seen) == sum(map(len, strings))
    assert sorted(seen)[-2] <= 1000


def test_duplicates_are_named_by_every_door() -> None:
    """Adding an axis, and reading one that another program wrote."""
    daf = MemoryDaf()
    with pytest.raises(errors.DuplicateEntriesError, match="'b' occurs more than once"):
        daf.add_axis("cell", ["a", "b", "c", "b", "c"])
    daf.add_axis("cell", ["a", "b", "c"])
    with daf.writable_tree.transaction() as changes:
        changes.write_strings("axes/cell", pa.array(["a", "b", "b"]), (3,))
        changes.publish("axes/cell", replace=True)
    with pytest.raises(errors.CorruptDataError, match="its entry 'b' occurs more than once"):
        daf.axis_entries("cell")


@pytest.mark.parametrize("asked", [["e7"], ["e7", "no", "e7", "e3"], ["no"], []])
def test_a_few_entries_are_found_among_many(asked: list[str]) -> None:
    """As when all are looked for, which goes the other way round."""
    daf = MemoryDaf()
    entries = [f"e{n}" for n in range(200)]
    daf.add_axis("cell", entries)
    few = daf.axis_indices("cell", asked, allow_missing=True).tolist()
    many = daf.axis_indices("cell", asked + entries, allow_missing=True).tolist()
    assert few == [entries.index(name) if name in entries else -1 for name in asked]
    assert many[: len(asked)] == few
    assert many[len(asked) :] == list(range(200))
