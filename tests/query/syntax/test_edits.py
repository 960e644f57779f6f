"""Tests of edits: where a place of an edited text was in the original."""

from __future__ import annotations

import pytest

from daf_query.syntax import Edit, edited, place_before


@pytest.mark.parametrize(
    ("written", "inserted"),
    [
        ("ab\ncd", ()),
        ("ab\ncd", ((0, "SELECT "),)),
        ("ab\ncd", ((1, "XX"),)),
        ("ab\ncd", ((0, "(\n"), (2, " Y\n"), (5, "\n)"))),
        ("", ((0, "x"),)),
    ],
)
def test_every_place_of_an_edited_text(written: str, inserted: tuple[tuple[int, str], ...]) -> None:
    """Each character that was written is found where it was, and no other one."""
    edits = [Edit(start, start, sql) for start, sql in inserted]
    origins: list[int | None] = []
    for place in range(len(written) + 1):
        for start, sql in inserted:
            origins += [None] * len(sql) if start == place else []
        origins += [place] if place < len(written) else []
    text = edited(written, edits)
    assert len(text) == len(origins)
    assert [place_before(edits, offset) for offset in range(len(text))] == origins


def test_a_part_of_a_text_has_its_own_edits() -> None:
    """Those within it; two that overlap are an error."""
    edits = [Edit(0, 1, "A"), Edit(4, 5, "B"), Edit(8, 8, "!")]
    assert edited("a + b + c", edits, 4, 5) == "B"
    with pytest.raises(ValueError, match="edits overlap at 4"):
        edited("a + b + c", [Edit(0, 5, ""), Edit(4, 6, "")])
