"""Tests of rows whose computation may be interrupted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from daf_query import connect
from daf_query.sql import interruptible_rows
from daf_storage import MemoryDaf


@pytest.mark.parametrize(
    ("sql", "is_interruptible"),
    [
        ("SELECT name, age FROM cell WHERE age > 1", False),
        ("SELECT name, age FROM cell WHERE age > 1 ORDER BY age", True),
        ("SELECT name, age FROM cell WHERE age * 1 > 1", True),
    ],
)
def test_only_the_engine_is_interrupted(sql: str, *, is_interruptible: bool) -> None:
    """A direct scan runs Python, whose locks an exception from outside could leave taken."""
    calls = 0

    def interruptible(function: Callable[[], Any]) -> Any:
        nonlocal calls
        calls += 1
        return function()

    daf = MemoryDaf()
    daf.add_axis("cell", ["A", "B", "C"])
    daf.set_vector("cell", "age", [1, 2, 3])
    with connect(daf) as session:
        rows = interruptible_rows(session.sql(sql), interruptible)
        assert sum(batch.num_rows for batch in rows.batches) == 2
        assert rows.schema == session.sql(sql).schema
    assert (calls > 1) == is_interruptible
    assert is_interruptible or calls == 0
