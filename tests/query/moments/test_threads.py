"""Tests of blocks that are reduced on all cores."""

from __future__ import annotations

from functools import partial

import pytest

from daf_query._runs import CancelledWork, checking
from daf_query.moments import in_order


@pytest.mark.parametrize("threads", [1, 2])
def test_no_block_is_begun_once_the_work_is_cancelled(threads: int) -> None:
    """Those that were begun end; the others are not."""
    begun: list[int] = []

    def check() -> None:
        if len(begun) >= 3:
            raise CancelledWork

    with checking(check), pytest.raises(CancelledWork):
        list(in_order((partial(begun.append, n) for n in range(100)), threads=threads))
    assert 3 <= len(begun) < 20
    assert list(in_order((partial(int, n) for n in range(5)), threads=threads)) == list(range(5))
