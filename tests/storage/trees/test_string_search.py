"""Tests of searching strings where they are stored; the oracle is a list of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daf_storage import MemoryDaf, errors
from daf_storage.base import Span, blocks_between, string_blocks
from daf_storage.base import _string_blocks as blocks
from daf_storage.base import _strings as vlen
from daf_storage.trees import StringPlaces, StringSearch
from daf_storage.trees import _string_search as module

FAKE = "\x01\0\0\0a" * 40  # what looks like the begins of many strings
VALUES = ["", "a", "aa", "donor1", "é", "\0\0\0", "long" * 70, FAKE, "\x06\0\0\0donor1"]
STRINGS = st.lists(st.sampled_from(VALUES), min_size=1, max_size=150)


def search_of(
    strings: list[str], block_bytes: int, kept: list[StringPlaces] | None = None
) -> StringSearch:
    """Return the search of a vector in memory."""
    daf = MemoryDaf()
    daf.add_axis("cell", [str(number) for number in range(len(strings))])
    daf.set_vector("cell", "donor", pa.array(strings, pa.string()))
    array = daf.string_array("cell", "donor")
    data = array.plain_strings()
    assert data is not None
    keep = (lambda _: None) if kept is None else kept.append
    return StringSearch(array, data, keep=keep, block_bytes=block_bytes)


def rows_of(search: StringSearch, values: list[str], count: int) -> list[int]:
    """Return the rows of some values, as masks of two spans have them."""
    found = search.find(values)
    half = count // 2
    masks = [found.mask(Span(0, half)), found.mask(Span(half, count))]
    rows: list[int] = np.flatnonzero(np.concatenate(masks)).tolist()
    return rows


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STRINGS, st.sampled_from([8, 50, 400]), st.integers(1, 5))
def test_rows_and_strings_are_those_of_a_list(
    monkeypatch: pytest.MonkeyPatch, strings: list[str], block_bytes: int, sections: int
) -> None:
    """In sections that may begin wrongly, and later in blocks that are known."""
    monkeypatch.setattr(module, "_SECTIONS", sections)
    monkeypatch.setattr(module, "_SECTION_BLOCKS", 2)
    search = search_of(strings, block_bytes)
    for values in (["donor1"], ["a", "é"], [""], ["absent"], [FAKE, "long" * 70], ["\0\0\0"]):
        expected = [row for row, each in enumerate(strings) if each in values]
        assert rows_of(search, values, len(strings)) == expected
    rows = np.arange(0, len(strings), 3)
    for again in (search, search_of(strings, block_bytes)):
        assert again.strings(rows).equals(pa.array(strings[::3], pa.string()))


def test_sections_are_searched_side_by_side_where_guesses_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Usual strings are walked once; where a guess is wrong, all of them again, in order."""
    calls = []

    def counting(*arguments: object, **options: object) -> object:
        calls.append(arguments)
        return string_blocks(*arguments, **options)  # type: ignore[arg-type] # as they came

    monkeypatch.setattr(module, "string_blocks", counting)
    monkeypatch.setattr(module, "_SECTIONS", 3)
    monkeypatch.setattr(module, "_SECTION_BLOCKS", 2)
    usual = [f"donor{number % 13}" for number in range(3000)]
    assert len(rows_of(search_of(usual, 256), ["donor7"], 3000)) == 231
    assert not calls
    sections = search_of(usual, 256)._sections()
    size = sections[-1].stop
    assert [section.start * 3 // size for section in sections] == [0, 1, 2]
    assert all(abs(section.stop - section.start - size / 3) < 20 for section in sections)
    odd = [*usual[:1000], *[FAKE] * 50, *usual[:1000]]
    rows_of(search_of(odd, 256), ["donor7"], len(odd))
    assert len(calls) == 1


def test_later_searches_walk_the_blocks_that_have_the_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And what was found out of where strings begin is kept, and is small."""
    kept: list[StringPlaces] = []
    strings = [f"cell_{number}" for number in range(20_000)]
    search = search_of(strings, 4096, kept)
    assert rows_of(search, ["cell_77"], 20_000) == [77]
    assert len(kept) == 1
    assert kept[0].nbytes < sum(map(len, strings)) // 50
    walked = []

    def counting(*arguments: object, **options: object) -> object:
        walked.append(arguments)
        return blocks_between(*arguments, **options)  # type: ignore[arg-type] # as they came

    monkeypatch.setattr(module, "blocks_between", counting)
    assert rows_of(search, ["cell_9999"], 20_000) == [9999]
    assert rows_of(search, ["absent"], 20_000) == []
    assert search.strings(np.array([3, 4])).to_pylist() == ["cell_3", "cell_4"]
    assert len(walked) == 2


@pytest.mark.parametrize(
    ("rows", "walks", "blocks_read"),
    [([0, 3, 300], 0, 1), ([], 0, 1), ([500], 0, 2), ([0, 19_999], 1, None)],
)
def test_the_first_strings_are_found_without_walking_all(
    monkeypatch: pytest.MonkeyPatch, rows: list[int], walks: int, blocks_read: int | None
) -> None:
    """No block is looked at after that of the last one; of rows further on, all are walked."""
    kept: list[StringPlaces] = []
    strings = [f"cell_{number}" for number in range(20_000)]
    search = search_of(strings, 4096, kept)
    yielded = []

    def counting(*arguments: Any, **options: Any) -> Iterator[Any]:
        for block in blocks_between(*arguments, **options):
            yielded.append(block)
            yield block

    monkeypatch.setattr(module, "blocks_between", counting)
    assert search.strings(np.array(rows, np.int64)).to_pylist() == [strings[row] for row in rows]
    assert len(kept) == walks
    assert blocks_read is None or len(yielded) == blocks_read


def test_damage_is_the_error_of_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the vector, whichever section it is in."""
    monkeypatch.setattr(module, "_SECTIONS", 3)
    monkeypatch.setattr(module, "_SECTION_BLOCKS", 2)
    daf = MemoryDaf()
    daf.add_axis("cell", [str(number) for number in range(900)])
    daf.set_vector("cell", "donor", [f"donor{number % 9}" for number in range(900)])
    array = daf.string_array("cell", "donor")
    whole = bytes(array.plain_strings() or b"")
    for place in (4, 3000, len(whole) - 10):
        data = bytearray(whole)
        data[place] ^= 0xFF
        broken = memoryview(bytes(data))
        monkeypatch.setattr(type(array), "plain_strings", lambda _, broken=broken: broken)
        monkeypatch.setattr(
            type(array),
            "read_strings",
            lambda _, broken=broken: vlen.decode_vlen_utf8(broken, what="donor"),
        )
        with pytest.raises(errors.CorruptDataError, match="donor: the chunk of 900 strings"):
            StringSearch(array, broken, block_bytes=256).find(["donor1"])


def test_a_place_where_a_string_begins_is_guessed() -> None:
    """Near the middle of usual strings; nowhere among long ones."""
    data = np.frombuffer(b"\x06\0\0\0donor1" * 50, np.uint8)
    assert blocks.find_string_start(data, 203) == 210
    assert blocks.find_string_start(np.frombuffer(b"x" * 5000, np.uint8), 100) is None
