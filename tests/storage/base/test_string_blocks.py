"""Tests of strings compared where they lie; the oracle decodes them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_storage.base import _string_blocks as module
from daf_storage.base import _strings as strings
from daf_storage.base import coded_blocks, decode_vlen_utf8, encode_vlen_utf8, string_blocks
from daf_storage.errors import CorruptDataError

TRICKY = ["", "a", "donor1", "donor11", "é", "\0", "\0\0\0", "x\0\0\0", "\x06\0\0\0donor1"]
TRICKY += ["y" * 127, "é" * 64, "z" * 255, "long" * 70, "\x01\0\0\0a", "7"]
STRINGS = st.lists(st.sampled_from(TRICKY) | st.text(max_size=6), min_size=1, max_size=60)
BLOCK_BYTES = st.sampled_from([1, 4, 7, 16, 64, 300, 1 << 18])


def encoded(strings: list[str]) -> memoryview:
    """Return the bytes of a chunk."""
    return memoryview(b"".join(encode_vlen_utf8(pa.array(strings, pa.string()))))


@given(STRINGS, BLOCK_BYTES)
def test_blocks_are_the_strings(strings: list[str], block_bytes: int) -> None:
    """In their order, each once, whatever their bytes look like and wherever a block ends."""
    blocks = list(string_blocks(encoded(strings), what="it", block_bytes=block_bytes))
    assert [block.first for block in blocks] == list(
        np.cumsum([0, *(len(block) for block in blocks[:-1])])
    )
    found = [s for b in blocks for s in b.strings(np.arange(len(b))).to_pylist()]
    assert found == strings


@given(STRINGS, BLOCK_BYTES)
def test_dictionaries_are_the_same_strings(strings: list[str], block_bytes: int) -> None:
    """Each has each of its strings once."""
    blocks = list(coded_blocks(encoded(strings), what="it", block_bytes=block_bytes))
    assert [text for block in blocks for text in block.to_pylist()] == strings
    for block in blocks:
        block.validate(full=True)
        assert len(set(block.dictionary.to_pylist())) == len(block.dictionary)


def barcodes() -> list[str]:
    """Return 500 strings of four characters, some of them zeros, as lengths have."""
    letters = random.Random(1)
    return ["".join(letters.choices("ACGT\0", k=4)) for _ in range(500)]


@pytest.mark.parametrize("other", ["", "TCG", "TCGAAA", "\0\0\0\0", "é" * 9, "x" * 300])
@pytest.mark.parametrize("block_bytes", [600, 4_000, 1 << 18])
def test_strings_of_one_length_may_have_others_between_them(other: str, block_bytes: int) -> None:
    """The same strings are found, wherever another length begins."""
    for values_in in ([*barcodes(), other, *barcodes(), other], [other] * 200):
        blocks = list(string_blocks(encoded(values_in), what="it", block_bytes=block_bytes))
        assert [s for b in blocks for s in b.strings(np.arange(len(b))).to_pylist()] == values_in


def test_strings_of_one_length_are_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they begin is computed; one of another length has the rest of its block guessed."""
    guesses: list[int] = []
    guessed = module._guessed

    def counting(payload: Any, start: int, stop: int) -> Any:
        guesses.append(start)
        return guessed(payload, start, stop)

    monkeypatch.setattr(module, "_guessed", counting)
    for values_in, expected in ((barcodes(), []), ([*barcodes(), "GATTACA", *barcodes()], [4_000])):
        guesses.clear()
        assert sum(map(len, string_blocks(encoded(values_in), what="it"))) == len(values_in)
        assert guesses == expected


def message_of(read: Any) -> str | None:
    """Return what is wrong with a chunk; None if it can be read."""
    try:
        read()
    except CorruptDataError as error:
        return str(error)
    return None


def test_damaged_bytes_are_the_same_errors_or_strings() -> None:
    """Damaged chunks: what decoding says of them, and the same strings."""
    generator = random.Random(0)
    wholes = [
        [f"cell_{i}" * (i % 3) for i in range(50)],
        ["barcode"] * 40,
        ["é", "", "x" * 300] * 9,
    ]
    for number in range(300):
        data = bytearray(encoded(wholes[number % 3]))
        for _ in range(generator.randrange(1, 3)):
            data[generator.randrange(len(data))] = generator.choice([0, 1, 7, 127, 200, 255])
        if number % 5 == 0:
            del data[generator.randrange(len(data)) :]
        view = memoryview(bytes(data))
        block_bytes = generator.choice([8, 50, 1 << 18])

        def walk(view: memoryview = view, block_bytes: int = block_bytes) -> list[str]:
            blocks = string_blocks(view, what="it", block_bytes=block_bytes)
            return [s for b in blocks for s in b.strings(np.arange(len(b))).to_pylist()]

        problem = message_of(lambda view=view: decode_vlen_utf8(view, what="it"))
        assert message_of(walk) == problem
        if problem is None:
            assert walk() == decode_vlen_utf8(view, what="it").to_pylist()


def test_usual_strings_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short ones, empty ones and other alphabets are walked by numpy alone; one long is decoded."""
    calls = []
    first_strings = strings.first_strings

    def counting(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return first_strings(*arguments, **options)

    monkeypatch.setattr(module, "first_strings", counting)
    usual = ["", "donor1", "é" * 100, "", "", "x"] * 5_000
    assert sum(len(block) for block in string_blocks(encoded(usual), what="it")) == len(usual)
    assert not calls
    mixed = [*usual, "long" * 99, *usual]
    assert sum(len(block) for block in string_blocks(encoded(mixed), what="it")) == len(mixed)
    assert len(calls) == 1
