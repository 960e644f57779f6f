"""Tests of vlen-utf8 against numcodecs, the codec's reference, and against broken bytes."""

from __future__ import annotations

from typing import Any

import numcodecs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_storage.base import (
    decode_vlen_pieces,
    decode_vlen_utf8,
    encode_vlen_utf8,
)
from daf_storage.errors import CorruptDataError

CODEC = numcodecs.VLenUTF8()
STRING_LISTS = st.lists(st.text(max_size=20), max_size=40)


def encoded(strings: list[str]) -> bytes:
    """Return the bytes that numcodecs writes."""
    return bytes(CODEC.encode(np.array(strings, dtype=object)))


def decoded(data: bytes, **kwargs: Any) -> list[str]:
    """Return the strings that we read."""
    found: list[str] = decode_vlen_utf8(memoryview(data), what="it", **kwargs).to_pylist()
    return found


@given(STRING_LISTS)
def test_bytes_are_those_of_numcodecs(strings: list[str]) -> None:
    """Any strings are encoded to the very bytes of the reference codec, and back."""
    data = b"".join(encode_vlen_utf8(pa.array(strings, pa.string())))
    assert data == (encoded(strings) if strings else bytes(4))
    assert decoded(data) == strings


@given(st.lists(st.sampled_from(["", "x", "xy" * 30, "z" * 200]), max_size=60), st.integers(8, 99))
def test_pages_end_between_strings_of_any_lengths(strings: list[str], limit: int) -> None:
    """The guess of how many fit into a page is mended, also for strings larger than a page."""
    data = memoryview(encoded(strings) if strings else bytes(4))
    found = decode_vlen_utf8(data, what="it", max_page_bytes=limit)
    found.validate(full=True)
    assert found.to_pylist() == strings
    pieces = decode_vlen_pieces(data, what="it", max_page_bytes=limit)
    assert [text for piece in pieces for text in piece.to_pylist()] == strings
    for end in (len(data) - 1, len(data) - 4):
        if end >= 4:
            with pytest.raises(CorruptDataError):
                decode_vlen_utf8(data[:end], what="it", max_page_bytes=limit)
    with pytest.raises(CorruptDataError, match="follow the last"):
        decode_vlen_utf8(memoryview(bytes(data) + b"x"), what="it", max_page_bytes=limit)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x01", "has only 1 bytes"),
        (encoded(["abc", "d"])[:-1], "truncated"),
        (encoded(["abc"]) + b"x", "bytes follow the last"),
        (bytes(4) + b"x", "1 bytes follow the last string"),
        (b"\xff\xff\xff\xff", "cannot hold 4,294,967,295 strings"),
        (b"\x01\0\0\0\x01\0\0\0\xff", "not UTF-8"),
        (b"\x01\0\0\0\xff\xff\xff\xff", "truncated"),
    ],
)
def test_broken_bytes_are_a_clear_error(data: bytes, message: str) -> None:
    """Truncation, leftovers, absurd counts and lengths, and other encodings."""
    with pytest.raises(CorruptDataError, match=message):
        decoded(data)
    with pytest.raises(CorruptDataError):
        decoded(data, max_page_bytes=8)
    with pytest.raises(CorruptDataError, match=message):
        list(decode_vlen_pieces(memoryview(data), what="it"))
