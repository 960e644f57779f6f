"""Tests of posting lists: what is stored is checked in full before anything is found by it."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from daf_query.index import UnfitIndexError
from daf_query.index._sorted_index import NumberIndex, PostingLists, StringIndex
from daf_query.index._stored import _zone_map
from daf_query.scan import Compare, In, ZoneMap
from daf_query.scan._options import ZONE_ROWS

LENGTH = 8
LISTS: dict[str, Any] = {
    "key": np.array([1.0, 2.0, 5.0]),
    "row": np.array([0, 3, 6, 1, 2, 7], np.uint32),
    "first": np.array([0, 3, 4, 6], np.uint64),
}
ROWS: dict[str, Any] = {"key": np.array([1.0, 2.0, 2.0]), "row": np.array([5, 0, 7], np.uint32)}


def numbers(arrays: dict[str, Any]) -> NumberIndex:
    """Return an index of stored arrays."""
    return NumberIndex("x", PostingLists.from_arrays(arrays, LENGTH, np.dtype("f8")))


@pytest.mark.parametrize("arrays", [LISTS, ROWS])
def test_rows_of_values(arrays: dict[str, Any]) -> None:
    """Ascending, of several values and of ranges; none where they are too many."""
    index = numbers(arrays)
    pairs = (
        list(
            zip(
                arrays["key"].repeat(np.diff(arrays["first"].astype(int))),
                arrays["row"],
                strict=True,
            )
        )
        if "first" in arrays
        else list(zip(arrays["key"], arrays["row"], strict=True))
    )
    for value in (0.0, 1.0, 2.0, 3.0, 5.0, 6.0):
        for operator, is_true in {
            "==": lambda key, value=value: key == value,
            "<": lambda key, value=value: key < value,
            "<=": lambda key, value=value: key <= value,
            ">": lambda key, value=value: key > value,
            ">=": lambda key, value=value: key >= value,
        }.items():
            expected = sorted(row for key, row in pairs if is_true(key))
            condition: Any = Compare("x", operator, value)  # type: ignore[arg-type]
            rows = index.find([condition], LENGTH)
            assert rows is not None
            assert rows.tolist() == expected
            at_most = index.find([condition], len(expected))
            assert at_most is not None
            if expected:
                assert index.find([condition], len(expected) - 1) is None
    some = index.find([In("x", (1.0, 5.0, 9.0)), Compare("x", "<", 5.0)], LENGTH)
    assert some is not None
    assert some.tolist() == sorted(row for key, row in pairs if key == 1)
    assert index.find([], LENGTH) is None
    assert index.find([In("x", (1.0,), is_negated=True), Compare("x", "!=", 1.0)], LENGTH) is None
    assert set(index._postings.arrays) == set(arrays)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"row": np.array([0, 3, 6, 1, 2, 8], "u4")}, "beyond the 8"),
        ({"row": np.arange(9, dtype="u4")}, "beyond the 8"),
        ({"row": np.array([0, 3, 6, 1, 2, 0], "u4")}, "rows twice"),
        ({"key": np.array([1.0, 5.0, 2.0])}, "not sorted"),
        ({"key": np.array([1.0, 2.0, 2.0])}, "not sorted"),
        ({"key": np.array([1.0, 2.0, np.nan])}, "not sorted|NaN"),
        ({"key": np.array([1, 2, 5])}, "'key'"),
        ({"row": np.array([0, 3, 6, 1, 2, 7], "i8")}, "'row'"),
        ({"first": np.array([0, 3, 6], "u8")}, "do not follow"),
        ({"first": np.array([1, 3, 4, 6], "u8")}, "do not follow"),
        ({"first": np.array([0, 3, 4, 5], "u8")}, "do not follow"),
        ({"first": np.array([0, 3, 3, 6], "u8")}, "do not follow"),
        ({"first": np.array([0, 4, 3, 6], "u8")}, "do not follow"),
        ({"first": np.array([0, 3, 4, 6], "u4")}, "'first'"),
    ],
)
def test_lists_that_do_not_fit(changes: dict[str, Any], message: str) -> None:
    """Any of them would be wrong rows, missing rows, or rows twice."""
    with pytest.raises(UnfitIndexError, match=message):
        numbers(LISTS | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": np.array([2.0, 1.0, 2.0])}, "not sorted"),
        ({"key": np.array([np.nan])}, "NaN is among|keys for"),
        ({"key": np.array([np.nan]), "row": np.array([1], "u4")}, "NaN is among"),
        ({"key": np.array([1.0, 2.0])}, "2 keys for 3 rows"),
    ],
)
def test_keys_of_each_row_that_do_not_fit(changes: dict[str, Any], message: str) -> None:
    """Equal keys may follow each other there."""
    with pytest.raises(UnfitIndexError, match=message):
        numbers(ROWS | changes)


def string_arrays(strings: list[str]) -> tuple[dict[str, Any], memoryview]:
    """Return the arrays of an index of strings, and their chunk."""
    chunk, starts = struct.pack("<I", len(strings)), []
    for number, string in enumerate(strings):
        if number % 16 == 0:
            starts.append(len(chunk))
        raw = string.encode()
        chunk += struct.pack("<I", len(raw)) + raw
    arrays = {
        "key": np.arange(len(strings), dtype="u8"),
        "row": np.arange(len(strings), dtype="u4"),
        "start": np.array(starts, "u8"),
    }
    return arrays, memoryview(chunk)


def test_single_strings_of_a_chunk() -> None:
    """Each is found by the offset of one of sixteen; not where the chunk is not what it was."""
    strings = [f"é{'x' * (n % 5)}{n}" for n in range(40)]
    arrays, chunk = string_arrays(strings)
    index = StringIndex.from_arrays("s", arrays, 40, chunk)
    for positions in ([0], [15, 16, 17], [39, 0, 39], list(range(40)), []):
        array = index.strings(np.array(positions, np.int64))
        assert array is not None
        assert array.to_pylist() == [strings[n] for n in positions]
    assert StringIndex.from_arrays("s", arrays, 40, None).strings(np.array([0])) is None
    last = np.array([39])
    for cut in (1, 5):
        index = StringIndex("s", index._postings, arrays["start"], chunk[:-cut])
        assert index.strings(last) is None
    broken = StringIndex("s", index._postings, arrays["start"] + np.uint64(5), chunk)
    assert broken.strings(last) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": np.arange(39, dtype="u8"), "row": np.arange(39, dtype="u4")}, "39 rows of the 40"),
        ({"start": np.array([4, 100], "u8")}, "2 offsets for a chunk of 40"),
        ({"start": np.array([3, 100, 200], "u8")}, "not those of strings"),
        ({"start": np.array([4, 67, 200], "u8")}, "not those of strings"),
        ({"start": np.array([4, 200, 100], "u8")}, "not those of strings"),
        ({"start": np.array([4, 100, 2**62], "u8")}, "not those of strings"),
    ],
)
def test_offsets_that_do_not_fit(changes: dict[str, Any], message: str) -> None:
    """One for every sixteenth string, in ascending order, within the chunk."""
    arrays, chunk = string_arrays([f"string {n}" for n in range(40)])
    with pytest.raises(UnfitIndexError, match=message):
        StringIndex.from_arrays("s", arrays | changes, 40, chunk)


def test_the_last_offset_just_within_its_chunk() -> None:
    """The last string may be empty."""
    arrays, chunk = string_arrays(["a"] * 16 + [""])
    index = StringIndex.from_arrays("s", arrays, 17, chunk)
    array = index.strings(np.array([16]))
    assert array is not None
    assert array.to_pylist() == [""]
    with pytest.raises(UnfitIndexError, match="not those of strings"):
        StringIndex.from_arrays("s", arrays, 17, chunk[:-1])


ZONES: dict[str, Any] = {
    "low": np.array([1, 5], np.int32),
    "high": np.array([4, 5], np.int32),
    "null": np.array([0, 3], np.int64),
    "zone": np.array([ZONE_ROWS], np.int64),
}


def zone_map(arrays: dict[str, Any]) -> ZoneMap:
    """Return the zone map of a column of a zone and five rows."""
    return _zone_map(arrays, ZONE_ROWS + 5, np.dtype(np.int32))


def test_zones_that_fit() -> None:
    """Bounds do not count in a zone without values."""
    assert {name: array.tolist() for name, array in zone_map(ZONES).arrays.items()} == {
        name: array.tolist() for name, array in ZONES.items()
    }
    zone_map(ZONES | {"low": np.array([1, 9], "i4"), "null": np.array([0, 5])})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"low": np.array([1], "i4")}, "no 2 ranges"),
        ({"high": np.array([4, 5, 6], "i4")}, "no 2 ranges"),
        ({"null": np.array([0])}, "no 2 ranges"),
        ({"zone": np.array([ZONE_ROWS + 1])}, "no 2 ranges"),
        ({"zone": np.array([ZONE_ROWS, ZONE_ROWS])}, "does not say how many rows"),
        ({"zone": np.array([], "i8")}, "does not say how many rows"),
        ({"null": np.array([0, -1])}, "more nulls than rows"),
        ({"null": np.array([0, 6])}, "more nulls than rows"),
        ({"null": np.array([ZONE_ROWS + 1, 0])}, "more nulls than rows"),
        ({"low": np.array([5, 5], "i4")}, "smaller than the smallest"),
        ({"low": np.array([1, 9], "i4")}, "smaller than the smallest"),
        ({"low": np.array([1, 5], "i8")}, "'low'"),
    ],
)
def test_zones_that_do_not_fit(changes: dict[str, Any], message: str) -> None:
    """They would leave out rows that a filter keeps."""
    with pytest.raises(UnfitIndexError, match=message):
        zone_map(ZONES | changes)
