"""Tests of posting lists: what is stored is checked in full before anything is found by it."""

from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np
import pytest

from daf_query.index import UnfitIndexError
from daf_query.index._sorted_index import (
    FENCE_KEYS,
    NumberIndex,
    PostingLists,
    StringIndex,
    posting_lists,
)
from daf_query.index._stored import _zone_map
from daf_query.scan import ZONE_ROWS, Compare, In, ZoneMap
from daf_storage.upkeep import PagedArray

LENGTH = 8
LISTS: dict[str, Any] = {
    "key": np.array([1.0, 2.0, 5.0]),
    "row": np.array([0, 3, 6, 1, 2, 7], np.uint32),
    "first": np.array([0, 3, 4, 6], np.uint64),
}
ROWS: dict[str, Any] = {"key": np.array([1.0, 2.0, 2.0]), "row": np.array([5, 0, 7], np.uint32)}


def paged(arrays: dict[str, Any]) -> dict[str, PagedArray]:
    """Return arrays as they are stored, with the fences of their keys."""
    fenced = {"fence": arrays["key"][::FENCE_KEYS], **arrays}
    return {name: PagedArray.of(values) for name, values in fenced.items()}


def unreported(problem: object) -> None:
    """Fail, since nothing is wrong."""
    raise AssertionError(problem)


def numbers(arrays: dict[str, Any]) -> NumberIndex:
    """Return an index of stored arrays."""
    postings = PostingLists.from_arrays(paged(arrays), LENGTH, np.dtype("f8"))
    return NumberIndex("x", postings, unreported)


def strings_index(arrays: dict[str, Any], length: int, chunk: memoryview | None) -> StringIndex:
    """Return an index of stored arrays."""
    return StringIndex.from_arrays("s", paged(arrays), length, unreported, chunk)


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


def test_rows_of_a_key_in_any_order() -> None:
    """They are ascending where they are found, and none of them is there twice."""
    turned = {**LISTS, "row": np.array([6, 0, 3, 1, 7, 2], np.uint32)}
    postings = PostingLists.from_arrays(paged(turned), LENGTH, np.dtype("f8"))
    for key_range, expected in (((0, 1), [0, 3, 6]), ((0, 2), [0, 1, 3, 6]), ((2, 3), [2, 7])):
        found = postings.rows([key_range], LENGTH)
        assert found is not None
        assert found.tolist() == expected
        assert found.dtype == np.int64
    nothing = postings.rows([], LENGTH)
    assert nothing is not None
    assert nothing.size == 0
    for rows in ([0, 3, 3, 1, 2, 7], [3, 0, 3, 1, 2, 7]):
        repeated = {**LISTS, "row": np.array(rows, np.uint32)}
        postings = PostingLists.from_arrays(paged(repeated), LENGTH, np.dtype("f8"))
        with pytest.raises(UnfitIndexError, match="rows twice"):
            postings.rows([(0, 1)], LENGTH)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"row": np.arange(9, dtype="u4")}, "beyond the 8"),
        ({"key": np.array([1, 2, 5])}, "'key'"),
        ({"row": np.array([0, 3, 6, 1, 2, 7], "i8")}, "'row'"),
        ({"first": np.array([0, 3, 6], "u8")}, "do not follow"),
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
    index = strings_index(arrays, 40, chunk)
    for positions in ([0], [15, 16, 17], [39, 0, 39], list(range(40)), []):
        array = index.strings(np.array(positions, np.int64))
        assert array is not None
        assert array.to_pylist() == [strings[n] for n in positions]
    assert strings_index(arrays, 40, None).strings(np.array([0])) is None
    last = np.array([39])
    for cut in (1, 5):
        starts = PagedArray.of(arrays["start"])
        index = StringIndex("s", index._postings, unreported, starts, chunk[:-cut])
        assert index.strings(last) is None
    starts = PagedArray.of(arrays["start"] + np.uint64(5))
    broken = StringIndex("s", index._postings, unreported, starts, chunk)
    assert broken.strings(last) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": np.arange(39, dtype="u8"), "row": np.arange(39, dtype="u4")}, "39 rows of the 40"),
        ({"start": np.array([4, 100], "u8")}, "2 offsets for a chunk of 40"),
    ],
)
def test_offsets_that_do_not_fit(changes: dict[str, Any], message: str) -> None:
    """One for every sixteenth string, in ascending order, within the chunk."""
    arrays, chunk = string_arrays([f"string {n}" for n in range(40)])
    with pytest.raises(UnfitIndexError, match=message):
        strings_index(arrays | changes, 40, chunk)


def test_the_last_offset_just_within_its_chunk() -> None:
    """The last string may be empty."""
    arrays, chunk = string_arrays(["a"] * 16 + [""])
    index = strings_index(arrays, 17, chunk)
    array = index.strings(np.array([16]))
    assert array is not None
    assert array.to_pylist() == [""]


N = 5 * FENCE_KEYS // 2
DTYPES = ("f8", "f4", "i8", "i2", "u8")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "n_distinct", [1, 3, FENCE_KEYS, FENCE_KEYS + 1, N // 2 - 1, N // 2 + 1, N]
)
def test_places_among_keys_of_several_pages(dtype: str, n_distinct: int) -> None:
    """As numpy finds them in all keys, also beside fences and where equal keys fill pages."""
    rng = np.random.default_rng(n_distinct)
    values = rng.integers(0, n_distinct, N).astype(dtype) * np.array(3, dtype)
    arrays = posting_lists(values, np.argsort(values, kind="stable"), N)
    postings = PostingLists.from_arrays(paged(arrays), N, np.dtype(dtype))
    keys = arrays["key"]
    at = [0, 1, FENCE_KEYS - 1, FENCE_KEYS, FENCE_KEYS + 1, 2 * FENCE_KEYS, len(keys) - 1]
    beside = np.array([keys[min(n, len(keys) - 1)] for n in at])
    one = np.array(1, dtype)
    asked = np.unique(np.concatenate([beside, beside + one, beside - one, values[:50]]))
    for side in ("left", "right"):
        expected = np.searchsorted(keys, asked, side=side)  # type: ignore[call-overload]
        assert postings.places(asked, side).tolist() == expected.tolist()  # type: ignore[arg-type]
    rows = postings.rows(postings.key_ranges(asked), N)
    assert rows is not None
    assert rows.tolist() == np.flatnonzero(np.isin(values, asked)).tolist()


def test_a_look_up_reads_a_page_of_each_array() -> None:
    """However many keys there are."""
    values = np.random.default_rng(3).permutation(20 * FENCE_KEYS)
    arrays = paged(posting_lists(values, np.argsort(values), len(values)))
    index = NumberIndex(
        "x", PostingLists.from_arrays(arrays, len(values), values.dtype), unreported
    )
    assert {name: array.verified_bytes for name, array in arrays.items()} == {
        "key": 0,
        "row": 0,
        "fence": 1 << 16,
    }
    rows = index.find([Compare("x", "==", 12_345)], 10)
    assert rows is not None
    assert rows.tolist() == np.flatnonzero(values == 12_345).tolist()
    assert {array.verified_bytes for array in arrays.values()} == {1 << 16}
    assert len({array.nbytes for array in arrays.values()}) == 3


@pytest.mark.parametrize("n_distinct", [2 * FENCE_KEYS, 20 * FENCE_KEYS])
def test_pages_that_do_not_fit(n_distinct: int) -> None:
    """Whatever is changed where a look-up reads: it says so once, and finds nothing any more."""
    values = np.random.default_rng(4).permutation(20 * FENCE_KEYS) % n_distinct
    built = posting_lists(values, np.argsort(values, kind="stable"), len(values))
    asked = Compare("x", "==", int(built["key"][FENCE_KEYS + 7]))
    expected = np.flatnonzero(values == asked.value)
    place = int(np.searchsorted(values[np.argsort(values, kind="stable")], asked.value))
    far = len(values) + 3
    changes: list[tuple[str, int, Any, str]] = [
        ("key", FENCE_KEYS + 9, 0, "not sorted"),
        ("key", FENCE_KEYS, -1, "fences"),
        ("key", 2 * FENCE_KEYS - 1, far, "fences|not sorted"),
        ("row", place, far, "beyond"),
    ]
    if "first" in built:
        changes += [
            ("first", FENCE_KEYS + 7, len(values) + 1, "follow each other"),
            ("first", FENCE_KEYS + 8, 0, "follow each other"),
            ("first", FENCE_KEYS + 8, len(values) + 1, "follow each other"),
            ("row", place, built["row"][place + 1], "twice"),
        ]
    for name, at, value, problem in changes:
        if (name, at) == ("key", 2 * FENCE_KEYS - 1) and at == len(built["key"]) - 1:
            continue  # there is no fence behind it
        changed = {key: array.copy() for key, array in built.items()}
        changed[name][at] = value
        sound, damaged = paged(built), paged(changed | {"fence": built["fence"]})
        for arrays, why in (
            (damaged, problem),
            ({**damaged, name: PagedArray(changed[name], sound[name]._sums)}, "checksum"),
        ):
            problems: list[object] = []
            postings = PostingLists.from_arrays(arrays, len(values), values.dtype)
            index = NumberIndex("x", postings, problems.append)
            for _ in range(2):
                assert index.find([asked], len(values)) is None
            assert len(problems) == 1
            assert re.search(why, str(problems[0])), (name, at, problems)
    postings = PostingLists.from_arrays(paged(built), len(values), values.dtype)
    rows = NumberIndex("x", postings, unreported).find([asked], len(values))
    assert rows is not None
    assert rows.tolist() == expected.tolist()


@pytest.mark.parametrize("fences", [[1.0, 2.0], [], [np.nan]])
def test_fences_that_do_not_fit(fences: list[float]) -> None:
    """One for each page of keys, and sorted."""
    with pytest.raises(UnfitIndexError, match="fences for 3 keys|NaN"):
        numbers({**LISTS, "fence": np.array(fences)})


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
