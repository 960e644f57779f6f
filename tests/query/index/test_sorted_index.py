"""Tests of the arrays of indexes: single strings by their offsets, and stored zone maps."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from daf_query.index import UnfitIndexError
from daf_query.index._stored import StringIndex, _zone_map, arrays_of_strings
from daf_query.scan import ZONE_ROWS, Compare, In, ZoneMap


def index_of(strings: list[str]) -> tuple[StringIndex, memoryview]:
    """Return the index of strings that are stored in a chunk, and the chunk."""
    encoded = [text.encode() for text in strings]
    data = b"".join(struct.pack("<I", len(raw)) + raw for raw in encoded)
    chunk = memoryview(struct.pack("<I", len(strings)) + data)
    return StringIndex("s", arrays_of_strings(pa.array(strings)), chunk), chunk


def test_rows_of_strings() -> None:
    """Ascending, of equal strings and of several; none where they are too many, or not restricted."""
    index, _ = index_of(["b", "a", "b", "", "c", "b"])
    for condition, expected in (
        (Compare("s", "==", "b"), [0, 2, 5]),
        (Compare("s", "==", "x"), []),
        (In("s", ("c", "", "b", "x")), [0, 2, 3, 4, 5]),
    ):
        rows = index.find([condition], len(expected))
        assert rows is not None
        assert rows.tolist() == expected
        assert rows.dtype == np.int64
        assert not expected or index.find([condition], len(expected) - 1) is None
    both = index.find([In("s", ("a", "b")), Compare("s", "==", "a")], 6)
    assert both is not None
    assert both.tolist() == [1]
    assert index.find([], 6) is None
    assert index.find([In("s", ("b",), is_negated=True), Compare("s", ">", "a")], 6) is None


def test_single_strings_of_a_chunk() -> None:
    """Each is found by the offset of one of sixteen; not where the chunk is not what it was."""
    strings = [f"é{'x' * (n % 5)}{n}" for n in range(40)]
    index, chunk = index_of([*strings, ""])
    for positions in ([0], [15, 16, 17], [39, 0, 39, 40], list(range(40)), []):
        array = index.strings(np.array(positions, np.int64))
        assert array is not None
        assert array.to_pylist() == [[*strings, ""][n] for n in positions]
    arrays = arrays_of_strings(pa.array(strings))
    assert StringIndex("s", arrays, None).strings(np.array([0])) is None
    for cut in (1, 5):
        assert StringIndex("s", arrays, chunk[: -4 - cut]).strings(np.array([39])) is None


ZONES: dict[str, Any] = {
    "low": np.array([1, 5], np.int32),
    "high": np.array([4, 5], np.int32),
    "null": np.array([0, 3], np.int64),
    "zone": np.array([ZONE_ROWS], np.int64),
}


def zone_map(arrays: dict[str, Any]) -> ZoneMap:
    """Return the zone map of a column of a zone and five rows."""
    return _zone_map(arrays, ZONE_ROWS + 5)


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
        ({"null": np.array([0, -1])}, "more nulls than rows"),
        ({"null": np.array([0, 6])}, "more nulls than rows"),
        ({"null": np.array([ZONE_ROWS + 1, 0])}, "more nulls than rows"),
        ({"low": np.array([5, 5], "i4")}, "smaller than the smallest"),
        ({"low": np.array([1, 9], "i4")}, "smaller than the smallest"),
    ],
)
def test_zones_that_do_not_fit(changes: dict[str, Any], message: str) -> None:
    """They would leave out rows that a filter keeps."""
    with pytest.raises(UnfitIndexError, match=message):
        zone_map(ZONES | changes)
