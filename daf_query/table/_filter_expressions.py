"""Filters as pyarrow passes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

_MISSING_FIELD: Final = re.compile(r"No match for FieldRef\.Name\((.*?)\) in ", re.DOTALL)


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


def referenced_columns(
    expression: pc.Expression,
    fields: Mapping[str, pa.Field],
    not_found: Callable[[str], Exception],
) -> set[str]:
    """Return the columns of an expression: those that binding it finds missing.

    All of them if Arrow does not say.

    Parameters
    ----------
    fields
        The columns of the table.
    not_found
        Makes the error that is raised for a column that the table lacks.

    Examples
    --------
    >>> fields = {name: pa.field(name, pa.int64()) for name in ("age", "batch", "score")}
    >>> old = (pc.field("age") > 2) & pc.is_null(pc.field("score"))
    >>> sorted(referenced_columns(old, fields, KeyError))
    ['age', 'score']
    """
    bound: dict[str, pa.Field] = {}
    while True:
        schema = pa.schema(bound.values())
        try:
            ds.Scanner.from_batches(iter(()), schema=schema, filter=expression)
        except pa.ArrowInvalid as error:
            name = _missing_field(str(error), fields)
            if name is None or name in bound:
                return set(fields)
            if name not in fields:
                raise not_found(name) from None
            bound[name] = fields[name]
        except pa.ArrowNotImplementedError:
            return set(fields)
        else:
            return set(bound)


def _missing_field(message: str, columns: Iterable[str]) -> str | None:
    """Return the column that Arrow did not find; names may hold any character."""
    named = [column for column in columns if f"FieldRef.Name({column}) in " in message]
    if named:
        return max(named, key=len)
    match = _MISSING_FIELD.search(message)
    return match.group(1) if match else None
