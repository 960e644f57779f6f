"""Arrays that an attached AnnData has and its file has not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from daf_storage.attached._virtual import CodedStrings, Converted
from daf_storage.base import Span, StorageType
from daf_storage.errors import CorruptDataError
from daf_storage.trees import MemoryArray


@pytest.mark.parametrize("count", [2, 127, 128, 200])
def test_codes_that_hold_no_number_beyond_the_categories(count: int) -> None:
    """What is missing stays so, however many categories there are for codes of one byte."""
    names = [f"c{number}" for number in range(count)]
    codes = np.array([1, -1, 0], np.int8)
    strings = CodedStrings(MemoryArray(lambda: codes), lambda: pa.array(names), what="codes")
    assert strings.read_strings().to_pylist() == ["c1", "", "c0"]
    assert strings.read_rows(Span(1, 3)).tolist() == ["", "c0"]
    assert [part.tolist() for part in strings.read_spans([Span(0, 1)])] == [["c1"]]


@pytest.mark.parametrize("code", [-2, -128, 2, 127])
def test_codes_of_no_category_are_damage(code: int) -> None:
    """Of strings that are read all at once, or as codes; a range without them is read."""
    codes = np.array([1, code, 0], np.int8)
    strings = CodedStrings(MemoryArray(lambda: codes), lambda: pa.array(["a", "b"]), what="codes")
    with pytest.raises(CorruptDataError, match="a code leaves the range -1 to 1 of its"):
        strings.read_strings()
    with pytest.raises(CorruptDataError, match="a code leaves the range -1 to 1 of its"):
        strings.codes(Span(1, 3))
    assert strings.codes(Span(2, 3)).tolist() == [0]


def test_converted_numbers_are_those_of_their_range_and_cannot_be_changed() -> None:
    """Whichever way they are asked for."""
    stored = np.arange(12, dtype="f2").reshape(4, 3)
    asked: list[tuple[slice, slice | None]] = []

    def read_range(rows: slice, columns: slice | None) -> np.ndarray:
        asked.append((rows, columns))
        return stored[rows] if columns is None else stored[rows, columns]

    array = Converted((4, 3), (4, 3), StorageType.of(np.dtype("f4")), read_range)
    found = [
        array.read(),
        array.read_rows(Span(1, 3)),
        *array.read_spans([Span(0, 2), Span(3, 4)], Span(1, 3)),
        *array.read_spans([Span(2, 3)]),
    ]
    expected = [stored, stored[1:3], stored[0:2, 1:3], stored[3:4, 1:3], stored[2:3]]
    for values, judge in zip(found, expected, strict=True):
        assert values.dtype == np.float32
        assert values.tolist() == judge.tolist()
        assert not values.flags.writeable
    assert asked[2] == (slice(0, 2), slice(1, 3))
    with pytest.raises(TypeError, match="numbers are no strings"):
        array.read_strings()
