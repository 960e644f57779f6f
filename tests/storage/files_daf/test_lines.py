"""Tests of strings as lines of text."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daf_storage import errors
from daf_storage.files_daf import _lines as lines

STRINGS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=5))


@settings(max_examples=50, deadline=None)
@given(STRINGS, st.integers(0, 3), st.booleans())
def test_lines_are_what_python_writes(strings: list[str], start: int, is_large: bool) -> None:  # noqa: FBT001 - of Hypothesis
    """Also of a part of an array, and of large strings; and they read back."""
    kind = pa.large_string() if is_large else pa.string()
    array = pa.array(["x"] * start + strings, kind).slice(start)
    data = b"".join(lines.encode_lines(array, what="x"))
    assert data == "".join(f"{one}\n" for one in strings).encode()
    assert lines.lines_bytes(array) == len(data)
    assert lines.count_lines(memoryview(data), what="x") == len(strings)
    found = lines.decode_lines(memoryview(data), len(strings), what="x")
    assert found.to_pylist() == strings


def test_many_lines_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted and written piece by piece, and large where the offsets need it."""
    monkeypatch.setattr(lines, "_BLOCK_ROWS", 3)
    monkeypatch.setattr(lines, "_COUNT_BYTES", 4)
    monkeypatch.setattr(lines, "_LARGE_BYTES", 10)
    array = pa.array([str(n) for n in range(10)])
    blocks = list(lines.encode_lines(array, what="x"))
    assert len(blocks) == 4
    data = memoryview(b"".join(blocks))
    assert lines.count_lines(data, what="x") == 10
    found = lines.decode_lines(data, 10, what="x")
    assert found.type == pa.large_string()
    assert found.to_pylist() == array.to_pylist()
    with pytest.raises(
        errors.UnsupportedInputError, match=r"x has a line break in 'a\\nb' at posi.* 4,"
    ):
        list(lines.encode_lines(pa.array([*"0123", "a\nb"]), what="x"))


@pytest.mark.parametrize(
    ("data", "count", "message"),
    [
        (b"a\nb", 2, "truncated"),
        (b"a\n", 2, "1 lines instead of 2"),
        (b"\xff\n", 1, "not UTF-8"),
        (b"\xc3\n\xa9\n", 2, "not UTF-8"),
    ],
)
def test_damaged_lines(data: bytes, count: int, message: str) -> None:
    """A character that is cut by a line break is no character."""
    with pytest.raises(errors.CorruptDataError, match=message):
        lines.decode_lines(memoryview(data), count, what="x")
