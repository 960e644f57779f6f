"""Tests of SQL around what a caller wrote: where a position in all of it was written."""

from __future__ import annotations

import pytest

from daf_query.slice import WrappedSql
from daf_query.syntax import Edit


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
def test_every_position_of_a_query(written: str, inserted: tuple[tuple[int, str], ...]) -> None:
    """Each character that was written is found where it was, and no other one."""
    wrapped = WrappedSql(written, tuple(Edit(start, start, sql) for start, sql in inserted))
    origins: list[int | None] = []
    for place in range(len(written) + 1):
        for start, sql in inserted:
            origins += [None] * len(sql) if start == place else []
        origins += [place] if place < len(written) else []
    query = wrapped.query
    assert len(query) == len(origins)
    for offset, origin in enumerate([*origins, None]):
        line, column = query.count("\n", 0, offset) + 1, offset - query.rfind("\n", 0, offset)
        expected = None
        if origin is not None:
            before = written[:origin]
            expected = (before.count("\n") + 1, origin - before.rfind("\n"))
            assert query[offset] == written[origin]
        assert wrapped.written_position(line, column) == expected
