"""Tests of which rows are scanned together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from daf_query.planning import aligned_spans, common_step

CHUNKS = st.lists(st.integers(1, 50), max_size=4)


@given(st.integers(0, 500), st.integers(1, 50), st.integers(1, 200))
def test_spans_cover_every_row_once_and_end_on_the_grid(
    length: int, step: int, target: int
) -> None:
    """In order, without gaps; only the last may end off the grid."""
    spans = aligned_spans(length, step=step, target_rows=target)
    assert [row for span in spans for row in range(span.start, span.stop)] == list(range(length))
    assert all(span.stop % step == 0 for span in spans[:-1])
    assert all(span.size > 0 for span in spans)
    assert all(span.size >= min(target, step) for span in spans[:-1])


@given(CHUNKS, st.integers(1, 500))
def test_a_common_step_cuts_no_chunk(chunks: list[int], length: int) -> None:
    """Where the grids have a common end within the axis, every chunk ends at the steps."""
    step = common_step(chunks, length=length)
    inner = [rows for rows in chunks if rows < length]
    assert step <= length
    assert all(step % rows == 0 for rows in inner) or step == max(inner)
