"""Predicates: an expression tree over the columns of a table, as frozen values."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan._arrow_arrays import numpy_type

ARROW_OPERATORS: Final = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
"""Comparisons by the names of Arrow's functions."""

COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""Comparisons as Python's functions, which numpy and expressions of Arrow overload."""

NEGATED: Final = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
FLIPPED: Final = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""Comparisons with their sides exchanged."""

EXACT_FLOAT: Final = 2.0**53
"""Below this, Float64 holds every integer."""

_MAX_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Compare:
    """A column compared with a value; true for no row in which it is null."""

    column: str
    operator: str
    """One of ``== != < <= > >=``."""
    value: Any
    """Of the column's own type; never null."""


@dataclass(frozen=True, slots=True)
class In:
    """Whether a column is one of some values; true for no row in which it is null."""

    column: str
    values: tuple[Any, ...]
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a column is null."""

    column: str
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class IsTrue:
    """A column of Bool itself."""

    column: str
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Constant:
    """The same for every row."""

    value: bool


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """A condition that Arrow evaluates; true for no row for which it is null."""

    expression: pc.Expression
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class And:
    """All parts are true."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """A part is true."""

    parts: tuple[Predicate, ...]


Predicate: TypeAlias = Compare | In | IsNull | IsTrue | Constant | Opaque | And | Or


def leaves_of(predicate: Predicate) -> Iterator[Predicate]:
    """Yield the parts of a predicate that are not joined of others."""
    if isinstance(predicate, And | Or):
        for part in predicate.parts:
            yield from leaves_of(part)
    else:
        yield predicate


def columns_of(predicate: Predicate) -> list[str]:
    """Return the columns of a predicate, in the order in which they first occur."""
    names: dict[str, None] = {}
    for leaf in leaves_of(predicate):
        if isinstance(leaf, Opaque):
            names |= dict.fromkeys(leaf.columns)
        elif isinstance(leaf, Compare | In | IsNull | IsTrue):
            names[leaf.column] = None
    return list(names)


def describe(predicate: Predicate) -> str:
    """Return a predicate as SQL.

    >>> describe(And((Compare("age", ">", 4), In("donor", ("a", "b"), is_negated=True))))
    "age > 4 AND donor NOT IN ('a', 'b')"
    """
    if isinstance(predicate, And | Or):
        word = " AND " if isinstance(predicate, And) else " OR "
        inner = [
            f"({describe(part)})" if isinstance(part, And | Or) else describe(part)
            for part in predicate.parts
        ]
        return word.join(inner)
    if isinstance(predicate, Constant):
        return str(predicate.value).upper()
    if isinstance(predicate, Opaque):
        return str(predicate.expression)
    negation = "NOT " if getattr(predicate, "is_negated", False) else ""
    if isinstance(predicate, IsTrue):
        return f"{negation}{predicate.column}"
    if isinstance(predicate, IsNull):
        return f"{predicate.column} IS {negation}NULL"
    if isinstance(predicate, In):
        shown = ", ".join(repr(value) for value in predicate.values[:_MAX_SHOWN])
        more = len(predicate.values) - _MAX_SHOWN
        rest = f" and {more:,} more" if more > 0 else ""
        return f"{predicate.column} {negation}IN ({shown}{rest})"
    return f"{predicate.column} {predicate.operator} {predicate.value!r}"


def conjuncts(predicate: Predicate | None) -> Sequence[Predicate]:
    """Return what a predicate joins by AND; a constant TRUE is nothing.

    >>> conjuncts(And((IsNull("a"), IsNull("b"))))
    (IsNull(column='a', is_negated=False), IsNull(column='b', is_negated=False))
    """
    if predicate is None or predicate == Constant(value=True):
        return ()
    return predicate.parts if isinstance(predicate, And) else (predicate,)


def conjunction(predicates: Iterable[Predicate | None]) -> Predicate | None:
    """Return the AND of predicates, flat, each once; ``None`` if there is none.

    >>> conjunction([Constant(value=True), Compare("age", ">", 4), None])
    Compare(column='age', operator='>', value=4)
    """
    given = [predicate for predicate in predicates if predicate is not None]
    parts = tuple(dict.fromkeys(part for each in given for part in conjuncts(each)))
    if len(parts) > 1:
        return And(parts)
    return parts[0] if parts else (Constant(value=True) if given else None)


def flat(kind: type[And | Or], parts: Iterable[Predicate]) -> And | Or:
    """Join predicates; the parts of one of the same kind become parts of the result."""
    joined: list[Predicate] = []
    for part in parts:
        joined += part.parts if isinstance(part, kind) else [part]
    return kind(tuple(joined))


def joined(kind: type[And | Or], parts: Iterable[Predicate]) -> Predicate:
    """Join predicates, without those that change nothing.

    >>> joined(And, [Constant(value=True), Compare("age", ">", 4)])
    Compare(column='age', operator='>', value=4)
    >>> joined(Or, [IsNull("age"), IsNull("age", is_negated=True)])
    Constant(value=True)
    """
    given = flat(kind, parts).parts
    others = {IsNull(each.column, not each.is_negated) for each in given if type(each) is IsNull}
    if not others.isdisjoint(each for each in given if type(each) is IsNull):
        return Constant(value=kind is Or)
    if Constant(value=kind is Or) in given:
        return Constant(value=kind is Or)
    needed = [each for each in given if not isinstance(each, Constant)]
    if len(needed) > 1:
        return kind(tuple(needed))
    return needed[0] if needed else Constant(value=kind is And)


def compared(field: pa.Field, operator: str, value: float) -> Predicate | None:
    """Return the predicate on a column that equals a comparison of it, converted to Float64.

    ``None`` if there is no such predicate.

    >>> compared(pa.field("n", pa.int32()), ">", 2.5)
    Compare(column='n', operator='>', value=2)
    >>> compared(pa.field("x", pa.float32()), "==", 0.1)
    Constant(value=False)
    """
    if operator == "!=" or math.isnan(value):
        return None
    if field.type == pa.float32():
        with np.errstate(over="ignore"):
            near = float(np.float32(value))
        return _against(field.name, operator, value, near, near)
    if not pa.types.is_integer(field.type) or abs(value) >= EXACT_FLOAT:
        return None
    below, above = math.floor(value), math.ceil(value)
    limits = np.iinfo(numpy_type(field.type))
    if not limits.min <= below <= above <= limits.max:
        return None
    return _against(field.name, operator, value, below, above)


def _against(name: str, operator: str, value: float, below: Any, above: Any) -> Predicate:
    """Compare with a value that the column may be unable to have, by its neighbours."""
    if below == value == above:
        return Compare(name, operator, below)
    if operator == "==":
        return Constant(value=False)
    if operator in (">", ">="):
        return Compare(name, ">", below) if below < value else Compare(name, ">=", below)
    return Compare(name, "<", above) if above > value else Compare(name, "<=", above)
