"""Strings as views, taken by codes out of the distinct ones: Arrow's own decoding judges."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_query.scan import cast_to

STRINGS = st.one_of(st.none(), st.text(max_size=4), st.text(min_size=11, max_size=40))


@pytest.mark.parametrize("kind", [pa.string(), pa.string_view(), pa.large_string()], ids=str)
@given(
    distinct=st.lists(STRINGS, min_size=1, max_size=8),
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
