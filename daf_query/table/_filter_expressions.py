"""Filters as pyarrow passes them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def as_expression(filter: Any) -> pc.Expression | None:  # noqa: A002 - pyarrow's name
    """Return a filter as an expression: DataFusion passes constants as Arrow scalars."""
    if isinstance(filter, pa.Scalar):
        return pc.scalar(bool(filter.as_py()))
    return filter


def is_same_filter(first: pc.Expression | None, second: pc.Expression | None) -> bool:
    """Return whether two filters are written alike; None is no filter."""
    if first is None or second is None:
        return first is second
    return bool(first.equals(second))


def both(first: pc.Expression | None, second: pc.Expression | None) -> pc.Expression | None:
    """Return what is true where two filters are; None is no filter."""
    if first is None or second is None:
        return second if first is None else first
    return first & second
