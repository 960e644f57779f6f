"""Tests of columns of strings: codes, all of them, and in which order they are asked for."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_query.scan import Codes, DictionaryCodes, Rows, StringColumn, Values, cast_to
from daf_storage import errors
from daf_storage.base import Span

STRINGS = ["b", "a", "é", "b", ""] * 20


def column(calls: list[str], **options: Any) -> StringColumn:
    """Return a column that writes down what it reads."""
    strings = pa.array(STRINGS)

    def decode() -> Any:
        calls.append("decode")
        return strings

    def encode() -> DictionaryCodes:
        calls.append("encode")
        return DictionaryCodes.of(iter([strings.slice(0, 30), strings.slice(30)]), len(strings))

    return StringColumn(decode, encode, **options)


def strings_of(values: Values) -> Any:
    """Return strings, or those behind codes."""
    if isinstance(values, Codes):
        values = values.strings.take(pa.array(values.codes))
    return pa.array(values).to_pylist()


def test_codes_and_strings_in_any_order() -> None:
    """Each is made once, and whatever was made first, the rows are the same."""
    few, every = Rows(Span(3, 9), np.array([0, 2, 5])), Rows(Span(3, 9))
    expected = {few: [STRINGS[3], STRINGS[5], STRINGS[8]], every: STRINGS[3:9]}
    for order in itertools.permutations(itertools.product(("values", "to_arrow"), (few, every))):
        calls: list[str] = []
        found = column(calls)
        for step, rows in order:
            assert strings_of(getattr(found, step)(rows)) == expected[rows]
        assert len(calls) == 1


def test_strings_are_there_after_another_thread_has_let_go_of_the_file() -> None:
    """It made the codes between our asking for them and for the strings."""
    calls: list[str] = []
    found = column(calls)
    codes = found.values(Rows(Span(0, 100)))
    assert isinstance(codes, Codes)
    assert found.to_arrow(Rows(Span(0, 100))).to_pylist() == STRINGS
    assert calls == ["encode"]


def test_codes_of_too_few_strings() -> None:
    """Are an error, not rows of whatever was in memory."""
    with pytest.raises(errors.CorruptDataError, match="2 strings are stored where 3 should be"):
        DictionaryCodes.of(iter([pa.array(["a", "b"])]), 3)


def test_many_distinct_strings_get_no_codes() -> None:
    """Seen from the first piece, or when there are more than fit."""
    many = pa.array([str(i) for i in range(10_000)])
    assert not DictionaryCodes.of(iter([many]), 10_000).is_useful
    later = [pa.array(["a"] * 9_000), pa.array([str(i) for i in range(70_000)])]
    assert not DictionaryCodes.of(iter(later), 79_000).is_useful
    assert (
        DictionaryCodes.of(iter([pa.array(["a"] * 9_000), many]), 19_000).codes.dtype == np.uint16
    )


DISTINCT = st.one_of(st.none(), st.text(max_size=4), st.text(min_size=11, max_size=40))


@pytest.mark.parametrize("kind", [pa.string(), pa.string_view(), pa.large_string()], ids=str)
@given(
    distinct=st.lists(DISTINCT, min_size=1, max_size=8),
    skipped=st.integers(0, 3),
    data=st.data(),
)
def test_views_are_the_strings_of_their_codes(
    kind: pa.DataType, distinct: list[str | None], skipped: int, data: st.DataObject
) -> None:
    """Short and long ones, missing ones, and parts of longer arrays of codes and of strings."""
    strings = pa.array([*["skipped"] * skipped, *distinct], kind).slice(skipped)
    codes = data.draw(st.lists(st.integers(0, len(distinct) - 1), max_size=20))
    start = data.draw(st.integers(0, len(codes)))
    indices = pa.array(codes, pa.int32()).slice(start)
    found = cast_to(pa.DictionaryArray.from_arrays(indices, strings), pa.string_view())
    found.validate(full=True)
    assert found.type == pa.string_view()
    assert found.to_pylist() == [distinct[code] for code in codes[start:]]
