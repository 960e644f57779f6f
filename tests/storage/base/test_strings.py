"""Tests of strings: vlen-utf8 against numcodecs, against broken bytes, and which occur twice."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numcodecs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_storage.base import (
    decode_vlen_chunks,
    decode_vlen_pieces,
    decode_vlen_utf8,
    encode_vlen_utf8,
    first_duplicate,
    one_array,
)
from daf_storage.errors import CorruptDataError
from tests.limits import lower
from tests.support import data_set

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


@given(STRING_LISTS, st.integers(0, 5), st.sampled_from([pa.string(), pa.large_string()]))
def test_slices_are_encoded_as_what_they_show(
    strings: list[str], start: int, kind: pa.DataType
) -> None:
    """The offset of a sliced Arrow array is respected."""
    array = pa.array(strings, kind).slice(start)
    assert decoded(b"".join(encode_vlen_utf8(array))) == strings[start:]


def test_many_strings_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond 2 GiB of them the offsets are 64-bit, and no sooner."""
    data = memoryview(encoded(["ab", "c"] * 10))
    assert decode_vlen_utf8(data, what="it", max_page_bytes=20).type == pa.string()
    lower(monkeypatch, string_bytes=1000)
    assert decode_vlen_utf8(data, what="it", max_page_bytes=20).type == pa.string()
    lower(monkeypatch, string_bytes=29)
    array = decode_vlen_utf8(data, what="it", max_page_bytes=20)
    assert array.type == pa.large_string()
    assert array.to_pylist() == ["ab", "c"] * 10
    chunks = pa.chunked_array([["ab"], ["c"] * 28])
    assert one_array(chunks).type == pa.large_string()
    assert one_array(chunks).to_pylist() == ["ab"] + ["c"] * 28


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


@given(st.lists(st.lists(st.text(max_size=5), max_size=4), max_size=9))
def test_chunks_are_decoded_together(chunks: list[list[str]]) -> None:
    """As one by one; not if one has another number of strings, or its last one ends in the next."""
    stored = [memoryview(encoded(strings)) for strings in chunks]
    counts = list(map(len, chunks))
    assert decode_vlen_chunks(stored, counts).to_pylist() == [s for each in chunks for s in each]
    assert decode_vlen_chunks([*stored, memoryview(encoded(["x"] * 2))], [*counts, 3]) is None
    assert decode_vlen_chunks([*stored, memoryview(b"\3")], [*counts, 3]) is None
    three = encoded(["a", "b", "c"])
    longer, shorter = bytearray(three), three[:4] + three[5:]
    longer[-5] = 2  # the length of the last string
    assert decode_vlen_chunks([memoryview(longer), memoryview(shorter)], [3, 3]) is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x01", "it has only 1 bytes"),
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


def test_random_damage_is_an_error_or_other_strings() -> None:
    """Thousands of damaged chunks: never a crash, never strings of another number."""
    generator = random.Random(0)
    whole = encoded([f"cell_{i}" * (i % 3) for i in range(50)])
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(generator.randrange(1, 4)):
            data[generator.randrange(4, len(data))] = generator.randrange(256)
        try:
            assert len(decoded(bytes(data))) == 50
        except CorruptDataError:
            continue


# Uniqueness

UNEQUAL_STRINGS = st.lists(
    st.one_of(
        st.text(max_size=3),
        st.sampled_from(["", "a", "a\0", "abcdefgh", "abcdefghi", "x" * 256, "x" * 257, "é" * 200]),
        st.text("ab", min_size=7, max_size=18),
    ),
    max_size=30,
)


def first_counted_twice(strings: list[str]) -> str | None:
    """Return the first string that a Counter counts more than once."""
    return next((text for text, count in Counter(strings).items() if count > 1), None)


@given(UNEQUAL_STRINGS, st.integers(0, 3), st.sampled_from([pa.string(), pa.large_string()]))
def test_the_first_duplicate_is_that_of_a_counter(
    strings: list[str], start: int, kind: pa.DataType
) -> None:
    """Of any strings, also of slices, whatever their widths."""
    assert first_duplicate(pa.array(strings, kind).slice(start)) == first_counted_twice(
        strings[start:]
    )


@pytest.mark.parametrize("requested", [["e7"], ["e7", "no", "e7", "e3"], ["no"], []])
def test_a_few_entries_are_found_among_many(requested: list[str]) -> None:
    """As when all are looked for, which goes the other way round."""
    entries = [f"e{n}" for n in range(200)]
    daf = data_set(cell=entries)
    few = daf.axis_indices("cell", requested, allow_missing=True).tolist()
    many = daf.axis_indices("cell", requested + entries, allow_missing=True).tolist()
    assert few == [entries.index(name) if name in entries else -1 for name in requested]
    assert many[: len(requested)] == few
    assert many[len(requested) :] == list(range(200))
