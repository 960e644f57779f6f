"""Arrays that an attached AnnData has and its file has not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from daf_storage.attached._virtual import CodedStrings
from daf_storage.base import Span
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
