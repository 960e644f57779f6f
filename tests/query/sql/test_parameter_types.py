"""Tests of the types of parameters without values: what is visited for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from daf_query import connect
from daf_query.sql import _parameter_types as parameter_types
from daf_storage import MemoryDaf


def test_each_expression_is_visited_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's bindings give a column and a literal as operands of themselves."""
    visited: list[str] = []
    visit = parameter_types._parameters_in

    def counted(expression: Any) -> Iterator[tuple[str, pa.DataType]]:
        visited.append(expression.variant_name())
        assert len(visited) < 50
        return visit(expression)

    monkeypatch.setattr(parameter_types, "_parameters_in", counted)
    daf = MemoryDaf()
    daf.add_axis("cell", ["A", "B"])
    daf.set_vector("cell", "age", [1, 2])
    with connect(daf) as session:
        query = "SELECT upper(name) FROM cell WHERE age + 1 > $least AND name LIKE 'A%'"
        _, parameters = parameter_types.unbound_schemas(session._engine, query)
    assert parameters == pa.schema([("least", pa.int64())])
    assert {"Column", "Literal", "Placeholder"} <= set(visited)
