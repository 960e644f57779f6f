"""Tests of profiles as tables: how large one is said to be."""

from __future__ import annotations

import pyarrow as pa

from daf_query.moments._prepared_profile import row_bytes


def test_the_bytes_of_a_row_are_those_of_the_table() -> None:
    """However many groups there are: codes, eight statistics, and the labels of one group each."""
    for count in (0, 1, 1_000):
        groups = {"small": pa.array([1] * count, pa.int16()), "large": pa.array([2] * count)}
        assert row_bytes(groups) == (72 if count == 0 else 72 + 2 + 8)
