"""Parse pyarrow expressions into predicates.

Engines pass filters as pyarrow expressions, which can be evaluated but not inspected.  They can be
serialised, though: to a record batch of the literals, whose metadata spells out the expression.
Parts that are not recognised there are evaluated by Arrow, membership in a list as SQL has it: in
Arrow a null is no member of a list, and may be one of its members.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from daf_query.scan._arrow_arrays import plain_array, plain_type
from daf_query.scan._predicate import (
    ARROW_OPERATORS,
    COMPARISONS,
    FLIPPED,
    NEGATED,
    And,
    Compare,
    Constant,
    In,
    IsNull,
    Opaque,
    Or,
    Predicate,
    comparison,
    flat,
    joined,
    membership,
)
from daf_storage._lazy import lazy_module, pc

nanoarrow: Any = lazy_module("nanoarrow")

_OPERATORS: Final[dict[str, Any]] = {
    "and_kleene": operator.and_,
    "or_kleene": operator.or_,
    **{name: COMPARISONS[symbol] for name, symbol in ARROW_OPERATORS.items()},
}
_FLOATS: Final = (pa.float32(), pa.float64())
_KNOWN_TYPES: Final = (pa.float16(), *_FLOATS, pa.bool_(), pa.string(), pa.binary())


def parse(expression: pc.Expression | None, schema: pa.Schema) -> Predicate:
    """Return an expression as a predicate, with parts that Arrow evaluates where need be.

    A comparison of different types is recognised only where it follows Arrow's rules for certain.

    >>> schema = pa.schema([("age", pa.int64())])
    >>> parse(~(pc.field("age") == 9), schema)
    Compare(column='age', operator='!=', value=9)
    """
    if expression is None:
        return Constant(value=True)
    try:
        tokens, literals = _serialised(expression)
    except pa.ArrowException:
        return Opaque(expression, tuple(schema.names))
    try:
        return _Parser(iter(tokens), literals, schema).parse()
    except _UNKNOWN:
        return Opaque(expression, _fields(tokens))


def field_names(expression: pc.Expression | None) -> frozenset[str] | None:
    """Return the names of columns in an expression; ``None`` if Arrow does not tell them.

    >>> sorted(field_names((pc.field("age") > 40) & pc.field("donor").isin(["d1"])) or ())
    ['age', 'donor']
    """
    if expression is None:
        return frozenset()
    try:
        return frozenset(_fields(_serialised(expression)[0]))
    except pa.ArrowException:
        return None


def _fields(tokens: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for role, value in tokens if role == "field_ref"))


class UnknownPartError(Exception):
    """The expression has a part that is not recognised."""


_UNKNOWN: Final = (
    *(UnknownPartError, pa.ArrowException, LookupError),
    *(ValueError, TypeError, StopIteration),
)


@dataclass(frozen=True, slots=True)
class Call:
    """A function of an expression, with its arguments."""

    name: str
    arguments: list[Any]
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Parser:
    """Reads the tokens of one expression: ``call``, its arguments, its options, ``end``."""

    tokens: Iterator[tuple[str, str]]
    literals: pa.RecordBatch
    schema: pa.Schema

    def parse(self) -> Predicate:
        return self._predicate(self._node(next(self.tokens)), negated=False)

    def _node(self, token: tuple[str, str]) -> Any:
        role, value = token
        if role == "field_ref":
            return value
        if role == "literal":
            return self.literals.column(int(value))[0]
        arguments: list[Any] = []
        options: dict[str, Any] = {}
        for each in self.tokens if role == "call" else ():
            if each[0] == "end":
                return Call(value, arguments, options)
            if each[0] == "options":
                scalar = self.literals.column(int(each[1]))[0]
                options = {name: scalar[name] for name in scalar}
            else:
                arguments.append(self._node(each))
        raise UnknownPartError

    def _predicate(self, node: Any, *, negated: bool) -> Predicate:
        """Return a node as a predicate; negations move down to the columns."""
        if isinstance(node, str):
            if self._field(node).type != pa.bool_():
                raise UnknownPartError
            return Compare(node, "==", not negated)
        if isinstance(node, pa.Scalar):
            if not pa.types.is_boolean(node.type):
                raise UnknownPartError
            return Constant(value=node.is_valid and node.as_py() != negated)
        if node.name == "invert":
            return self._predicate(node.arguments[0], negated=not negated)
        if node.name in ("and_kleene", "or_kleene"):
            parts = [self._predicate(argument, negated=negated) for argument in node.arguments]
            is_conjunction = (node.name == "and_kleene") != negated
            return joined(And, parts) if is_conjunction else joined(Or, self._listing(parts))
        try:
            return self._leaf(node, negated=negated)
        except _UNKNOWN:
            expression = _expression(node)
            found = ~expression if negated else expression
            return Opaque(found, _fields(_serialised(found)[0]))

    def _listing(self, parts: Sequence[Predicate]) -> list[Predicate]:
        """Return what OR joins with one list of the values that a column may be equal to.

        Engines write short lists as comparisons; indexes look up a list.
        """
        others, listed = list[Predicate](), dict[str, list[Any]]()
        for part in flat(Or, parts).parts:
            if isinstance(part, In) and not part.is_negated:
                listed.setdefault(part.column, []).extend(part.values)
            elif isinstance(part, Compare) and part.operator == "==" and self._is_listed(part):
                listed.setdefault(part.column, []).append(part.value)
            else:
                others.append(part)
        return others + [
            Compare(column, "==", values[0]) if len(values) == 1 else In(column, tuple(values))
            for column, values in listed.items()
        ]

    def _is_listed(self, part: Compare) -> bool:
        kind = self._field(part.column).type
        return kind == pa.string() or bool(pa.types.is_integer(kind))

    def _leaf(self, node: Call, *, negated: bool) -> Predicate:
        if node.name in ("is_null", "is_valid"):
            field = self._field(node.arguments[0])
            if not _is_known(field.type):
                raise UnknownPartError
            is_negated = (node.name == "is_valid") != negated
            return IsNull(field.name, is_negated) if field.nullable else Constant(value=is_negated)
        if node.name == "is_in":
            field = self._field(node.arguments[0])
            return In(
                field.name, _listed(field, plain_array(node.options["value_set"].values)), negated
            )
        symbol = ARROW_OPERATORS[node.name]
        left, right = node.arguments
        if isinstance(right, str):
            left, right, symbol = right, left, FLIPPED[symbol]
        field = self._field(left)
        if not isinstance(right, pa.Scalar) or not right.is_valid:
            raise UnknownPartError
        return _compared(field, NEGATED[symbol] if negated else symbol, right)

    def _field(self, node: Any) -> pa.Field:
        if not isinstance(node, str):
            raise UnknownPartError
        field = self.schema.field(node)
        return field.with_type(plain_type(field.type))


def _is_known(kind: pa.DataType) -> bool:
    """Return whether a column of a type can be compared with constants of it."""
    is_time = pa.types.is_timestamp(kind) and kind.tz is None
    return kind in _KNOWN_TYPES or bool(pa.types.is_integer(kind)) or is_time


def _compared(field: pa.Field, operator: str, scalar: pa.Scalar) -> Predicate:
    """Compare a column with a constant as Arrow does, where it rounds neither of them."""
    kind, of_column = plain_type(scalar.type), field.type
    value = scalar.value if pa.types.is_timestamp(kind) else scalar.as_py()
    if kind == of_column and _is_known(kind) and value == value:  # noqa: PLR0124 - no NaN
        return Compare(field.name, operator, value)
    is_rounded = pa.types.is_integer(of_column) and kind == pa.float32()
    is_rounded |= pa.uint64() in (of_column, kind) and not math.isnan(value)
    is_number = all(each in _FLOATS or pa.types.is_integer(each) for each in (of_column, kind))
    found = comparison(field, operator, value) if is_number and not is_rounded else None
    if found is None:
        raise UnknownPartError
    return found


def _listed(field: pa.Field, values: pa.Array) -> tuple[Any, ...]:
    """Return the values of a list that a column of its type can have at all.

    Engines pass integers as Int64 and floats as Float64, whatever the column is.
    """
    kind, listed = values.type, values.to_pylist()
    if values.null_count or pa.types.is_timestamp(kind):
        raise UnknownPartError
    if kind == field.type and _is_known(kind):
        return tuple(listed)
    found = membership(field, listed)
    if found is None:
        raise UnknownPartError
    return found.values


def _expression(node: Any) -> pc.Expression:
    """Return a part as an expression, in which membership of null, or in a list with it, is null.

    Its constants are plain, as the columns are: Arrow cannot compare views.

    Raises
    ------
    UnknownPartError
        It has a function that engines do not hand over, such as arithmetic.
    """
    if isinstance(node, str):
        return pc.field(node)
    if isinstance(node, pa.Scalar):
        return pc.scalar(node.cast(plain_type(node.type)))
    if node.name == "is_in":
        values = plain_array(node.options["value_set"].values)
        return _membership(_expression(node.arguments[0]), values)
    arguments = [_expression(argument) for argument in node.arguments]
    if node.name == "invert":
        return ~arguments[0]
    if node.name == "is_valid":
        return arguments[0].is_valid()
    if node.name == "is_null":
        nan_is_null = node.options.get("nan_is_null")
        return arguments[0].is_null(nan_is_null=nan_is_null is not None and nan_is_null.as_py())
    if node.name not in _OPERATORS:
        raise UnknownPartError
    return functools.reduce(_OPERATORS[node.name], arguments)


def _membership(field: pc.Expression, values: pa.Array) -> pc.Expression:
    null = pa.scalar(None, pa.bool_())
    is_member = field.isin(values.drop_null())
    if values.null_count:
        is_member = pc.if_else(is_member, True, null)  # noqa: FBT003 - an Arrow literal
    return pc.if_else(field.is_valid(), is_member, null)


def _serialised(expression: pc.Expression) -> tuple[list[tuple[str, str]], pa.RecordBatch]:
    """Return the tokens that spell an expression, and the batch of its literals."""
    reader = pa.ipc.open_file(expression.__reduce__()[1][0])
    batch = reader.get_batch(0)
    metadata: Any = nanoarrow.c_schema(reader.schema).metadata  # in a dictionary keys occur once
    return [(key.decode(), value.decode()) for key, value in metadata.items()], batch
