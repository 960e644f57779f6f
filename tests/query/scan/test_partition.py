"""Tests of which rows are scanned together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from daf_query.scan._partition import aligned_spans, common_step, split_chunks, step_of

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


@given(CHUNKS, CHUNKS, st.integers(1, 500))
def test_chunks_of_a_filter_are_not_cut_by_others(
    first: list[int], others: list[int], length: int
) -> None:
    """If all have a common end, at that; if not, where those of the filter end."""
    step = step_of(first, others, length=length)
    if first:
        assert step in (
            common_step(first, length=length),
            common_step([*first, *others], length=length),
        )
        alone = common_step(first, length=length)
        if all(alone % rows == 0 for rows in first if rows < length):
            assert all(step % rows == 0 for rows in first if rows < length)


@given(CHUNKS, st.integers(1, 200), st.integers(1, 60), st.integers(1, 60))
def test_split_chunks_are_those_in_two_spans(
    chunks: list[int], length: int, step: int, target: int
) -> None:
    """Counted one by one."""
    spans = aligned_spans(length, step=step, target_rows=target)
    for rows in chunks:
        of = [{row // rows for row in range(span.start, span.stop)} for span in spans]
        number = sum(sum(chunk in own for own in of) > 1 for chunk in range(-(-length // rows)))
        assert split_chunks(spans, rows, length=length) == (number if rows < length else 0)
