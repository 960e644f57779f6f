"""Predicates as JSON: an option of a read is a string."""

from __future__ import annotations

import json
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan import (
    COMPARISONS,
    And,
    Compare,
    Constant,
    In,
    IsNull,
    Opaque,
    Or,
    Predicate,
    describe,
)
from daf_storage import errors

_JOINED: Final = {And: "and", Or: "or"}


def to_json(predicate: Predicate) -> str:
    """Return a predicate as JSON.

    >>> to_json(Compare("age", ">", 60))
    '[">", "age", 60]'
    """
    return json.dumps(_written(predicate), allow_nan=False)


def _written(predicate: Predicate) -> list[Any]:
    if isinstance(predicate, And | Or):
        return [_JOINED[type(predicate)], *map(_written, predicate.parts)]
    if isinstance(predicate, Constant):
        return ["constant", predicate.value]
    if isinstance(predicate, Compare):
        return [predicate.operator, predicate.column, predicate.value]
    if isinstance(predicate, Opaque):
        raise TypeError(f"{describe(predicate)} is nothing that Spark pushes")
    sign = "not " if predicate.is_negated else ""
    if isinstance(predicate, In):
        return [f"{sign}in", predicate.column, list(predicate.values)]
    return [f"{sign}{'null' if isinstance(predicate, IsNull) else 'true'}", predicate.column]


def from_json(written: str, schema: pa.Schema) -> pc.Expression:
    """Return the filter that a predicate as JSON means, for a table of a schema.

    Constants have the types of their columns: UInt64 and Int64 would be compared as Int64, which
    not all values of UInt64 are.

    Raises
    ------
    InvalidInputError
        It is none.

    >>> str(from_json('[">", "age", 60]', pa.schema([("age", pa.uint64())])))
    '(age > 60)'
    """
    try:
        return _expression(json.loads(written), schema)
    except (ValueError, TypeError, LookupError, OverflowError, pa.ArrowException) as error:
        raise errors.InvalidInputError(
            f"predicate={written!r} is no filter ({error}); write the condition as a filter of "
            "Spark, which pushes it"
        ) from None


def _expression(parts: list[Any], schema: pa.Schema) -> pc.Expression:
    word, *rest = parts
    if word in _JOINED.values():
        join = (lambda a, b: a & b) if word == "and" else (lambda a, b: a | b)
        return reduce(join, (_expression(part, schema) for part in rest))
    if word == "constant":
        return pc.scalar(bool(rest[0]))
    field, constant_type = pc.field(rest[0]), _type_of_constants(schema.field(rest[0]).type)
    if word in COMPARISONS:
        return COMPARISONS[word](field, pc.scalar(pa.scalar(rest[1], constant_type)))
    plain = word.removeprefix("not ")
    expression = {
        "in": lambda: field.isin(pa.array(rest[1], constant_type)),
        "null": field.is_null,
        "true": lambda: field,
    }[plain]()
    return ~expression if plain != word else expression


def _type_of_constants(column_type: pa.DataType) -> pa.DataType:
    is_dictionary = pa.types.is_dictionary(column_type)
    return column_type.value_type if is_dictionary else column_type
