"""Predicates as a tree of value objects.

Engines hand filters over as pyarrow expressions, which can be evaluated but not looked into.  They
can be serialised, though: to a record batch of the literals, whose metadata spell
it out.
Whatever is not recognised there makes the answer None, and Arrow evaluates the filter instead.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

OPERATORS = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_MOST_SHOWN = 5
_EXACT = 2.0**53
"""Up to here, Float64 holds every whole number."""
_VARIABLE_TYPES = ((pa.string(), pa.string_view()), (pa.binary(), pa.binary_view()))
"""Types of the same values: a view is compared with a constant of either."""
_KNOWN_TYPES = (
    *(pa.float16(), pa.float32(), pa.float64(), pa.bool_()),
    *(kind for pair in _VARIABLE_TYPES for kind in pair),
)
_NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_FLIPPED = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


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


@dataclass(frozen=True, slots=True)
class And:
    """All parts are true."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """A part is true."""

    parts: tuple[Predicate, ...]


Predicate: TypeAlias = Compare | In | IsNull | IsTrue | Constant | And | Or


def columns_of(predicate: Predicate) -> list[str]:
    """Return the columns of a predicate, in the order in which they first occur."""
    if isinstance(predicate, And | Or):
        return list(dict.fromkeys(c for part in predicate.parts for c in columns_of(part)))
    return [] if isinstance(predicate, Constant) else [predicate.column]


def describe(predicate: Predicate) -> str:
    """Return a predicate as people write it.

    >>> describe(Both((Compare("age", ">", 4), In("donor", ("a", "b"), is_negated=True))))
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
    negation = "NOT " if getattr(predicate, "is_negated", False) else ""
    if isinstance(predicate, IsTrue):
        return f"{negation}{predicate.column}"
    if isinstance(predicate, IsNull):
        return f"{predicate.column} IS {negation}NULL"
    if isinstance(predicate, In):
        shown = ", ".join(repr(value) for value in predicate.values[:_MOST_SHOWN])
        more = len(predicate.values) - _MOST_SHOWN
        rest = f" and {more:,} more" if more > 0 else ""
        return f"{predicate.column} {negation}IN ({shown}{rest})"
    return f"{predicate.column} {predicate.operator} {predicate.value!r}"


def parse(expression: pc.Expression | None, schema: pa.Schema) -> Predicate | None:
    """Return what an expression says; None if any part of it is not known here.

    A value is known only if it has the very type of its column: comparing different types is left
    to Arrow, whose rules those are.

    >>> schema = pa.schema([("age", pa.int64())])
    >>> parse(~(pc.field("age") == 9), schema)
    Compare(column='age', operator='!=', value=9)
    """
    if expression is None:
        return Constant(value=True)
    try:
        tokens, literals = _serialised(expression)
        found = _Parser(tokens, literals, schema).parse()
    except (UnknownPartError, pa.ArrowException, LookupError, ValueError, TypeError, StopIteration):
        return None
    return found


def tree_of(expression: pc.Expression, schema: pa.Schema) -> Any:
    """Return an expression as a tree of `Call`, `FieldName` and Arrow scalars.

    Raises ``UnknownPartError`` and pyarrow's errors where that cannot be done.
    """
    return _Parser(*_serialised(expression), schema).tree()


def compared(field: pa.Field, operator: str, value: float) -> Predicate | None:
    """Return what comparing a column, converted to Float64, says of the column as it is.

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
    if not pa.types.is_integer(field.type) or abs(value) >= _EXACT:
        return None
    below, above = math.floor(value), math.ceil(value)
    limits = np.iinfo(field.type.to_pandas_dtype())
    if not limits.min <= below <= above <= limits.max:
        return None
    return _against(field.name, operator, value, below, above)


def _against(name: str, operator: str, value: float, below: Any, above: Any) -> Predicate:
    """Compare with a value that a column cannot have, by its neighbours, or one neighbour."""
    if below == value == above:
        return Compare(name, operator, below)
    if operator == "==":
        return Constant(value=False)
    if operator in (">", ">="):
        return Compare(name, ">", below) if below < value else Compare(name, ">=", below)
    return Compare(name, "<", above) if above > value else Compare(name, "<=", above)


class UnknownPartError(Exception):
    """The expression has a part that is not known here."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function of an expression, with its arguments."""

    name: str
    arguments: list[Any]
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class FieldName:
    """A column in an expression."""

    name: str


class _Parser:
    """Reads the tokens of one expression: ``call``, its arguments, its options, ``end``."""

    def __init__(
        self, tokens: list[tuple[str, str]], literals: pa.RecordBatch, schema: pa.Schema
    ) -> None:
        self._tokens: Iterator[tuple[str, str]] = iter(tokens)
        self._literals = literals
        self._schema = schema

    def parse(self) -> Predicate:
        return self._predicate(self.tree(), negated=False)

    def tree(self) -> Any:
        found = self._node(next(self._tokens))
        if next(self._tokens, None) is not None:
            raise UnknownPartError
        return found

    def _node(self, token: tuple[str, str]) -> Any:
        kind, value = token
        if kind == "field_ref":
            if value not in self._schema.names:
                raise UnknownPartError
            return FieldName(value)
        if kind == "literal":
            return self._literals.column(int(value))[0]
        if kind != "call":
            raise UnknownPartError
        arguments: list[Any] = []
        options: dict[str, Any] = {}
        while True:
            token = next(self._tokens)
            if token[0] == "end":
                return Call(value, arguments, options)
            if token[0] == "options":
                options = self._options(int(token[1]))
            else:
                arguments.append(self._node(token))

    def _options(self, number: int) -> dict[str, Any]:
        scalar = self._literals.column(number)[0]
        return {name: scalar[name] for name in scalar}

    def _predicate(self, node: Any, *, negated: bool) -> Predicate:
        """Return a node as a predicate; negations move down to the columns."""
        if isinstance(node, FieldName):
            if self._schema.field(node.name).type != pa.bool_():
                raise UnknownPartError
            return IsTrue(node.name, negated)
        if isinstance(node, pa.Scalar):
            if not pa.types.is_boolean(node.type) or not node.is_valid:
                raise UnknownPartError
            return Constant(value=node.as_py() != negated)
        if node.name == "invert":
            return self._predicate(node.arguments[0], negated=not negated)
        if node.name in ("and_kleene", "or_kleene"):
            is_both = (node.name == "and_kleene") != negated
            parts = [self._predicate(one, negated=negated) for one in node.arguments]
            return _joined(parts, is_both=is_both)
        return self._leaf(node, negated=negated)

    def _leaf(self, node: Call, *, negated: bool) -> Predicate:
        if node.name in ("is_null", "is_valid"):
            field = node.arguments[0]
            if not isinstance(field, FieldName):
                raise UnknownPartError
            self._check_type(field, self._schema.field(field.name).type)
            return IsNull(field.name, (node.name == "is_valid") != negated)
        if node.name == "is_in":
            field = node.arguments[0]
            if not isinstance(field, FieldName):
                raise UnknownPartError
            values = node.options["value_set"]
            listed = self._listed(field, values.as_py(), values.type.value_type)
            return In(field.name, listed, negated)
        operator = OPERATORS[node.name]
        left, right = node.arguments
        if isinstance(right, FieldName):
            left, right, operator = right, left, _FLIPPED[operator]
        if (
            not isinstance(left, FieldName)
            or not isinstance(right, pa.Scalar)
            or not right.is_valid
        ):
            raise UnknownPartError
        if negated:
            operator = _NEGATED[operator]
        own = self._schema.field(left.name)
        if own.type != right.type and _is_number(own.type) and _is_number(right.type):
            return _compared_numbers(own, operator, right)
        self._check_type(left, right.type)
        value = right.value if pa.types.is_timestamp(right.type) else right.as_py()
        if isinstance(value, float) and math.isnan(value):
            raise UnknownPartError
        return Compare(left.name, operator, value)

    def _listed(self, field: FieldName, values: list[Any], kind: pa.DataType) -> tuple[Any, ...]:
        """Return the values of a list that the type of a column can have at all.

        Engines write down integers as Int64 and floats as Float64, whatever the column is.
        """
        own = self._schema.field(field.name).type
        if None in values:
            raise UnknownPartError
        if pa.types.is_timestamp(own):
            raise UnknownPartError
        if _is_comparable(own, kind):
            self._check_type(field, kind)
            return tuple(values)
        if pa.types.is_integer(own) and pa.types.is_integer(kind):
            limits = np.iinfo(own.to_pandas_dtype())
            return tuple(value for value in values if limits.min <= value <= limits.max)
        if own in (pa.float16(), pa.float32()) and kind == pa.float64():
            exact = own.to_pandas_dtype()
            return tuple(value for value in values if float(exact(value)) == value)
        raise UnknownPartError

    def _check_type(self, field: FieldName, kind: pa.DataType) -> None:
        own = self._schema.field(field.name).type
        is_time = pa.types.is_timestamp(own) and own.tz is None
        is_known = own in _KNOWN_TYPES or pa.types.is_integer(own) or is_time
        if not is_known or not _is_comparable(own, kind):
            raise UnknownPartError


def both(first: Predicate, second: Predicate) -> Predicate:
    """Return what is true where both are.

    >>> both(Constant(value=True), Compare("age", ">", 4))
    Compare(column='age', operator='>', value=4)
    """
    if first == Constant(value=True):
        return second
    return _joined([first, second], is_both=True)


def _is_comparable(own: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether a constant of a type has a value that a column of another may have."""
    return own == kind or any(own in pair and kind in pair for pair in _VARIABLE_TYPES)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind)) or kind in (pa.float32(), pa.float64())


def _compared_numbers(field: pa.Field, operator: str, scalar: pa.Scalar) -> Predicate:
    """Compare numbers of different types as Arrow does: as the type that both have in common."""
    value: Any = scalar.as_py()
    own, kind = field.type, scalar.type
    if pa.types.is_integer(own) and pa.types.is_integer(kind):
        if pa.uint64() in (own, kind):
            raise UnknownPartError
        limits = np.iinfo(own.to_pandas_dtype())
        if limits.min <= value <= limits.max:
            return Compare(field.name, operator, value)
        always = ("!=", "<", "<=") if value > limits.max else ("!=", ">", ">=")
        return Constant(value=operator in always)
    if kind == pa.float64():
        found = compared(field, operator, value)
        if found is None:
            raise UnknownPartError
        return found
    if own not in (pa.float32(), pa.float64()) or abs(value) >= _EXACT:
        raise UnknownPartError
    converted = float(own.to_pandas_dtype()(value))
    if converted != value:
        raise UnknownPartError
    return Compare(field.name, operator, converted)


def _joined(parts: list[Predicate], *, is_both: bool) -> Predicate:
    """Join predicates, flat: the parts of a part of the same kind become its own."""
    kind: type[And | Or] = And if is_both else Or
    flat: list[Predicate] = []
    for part in parts:
        flat += part.parts if isinstance(part, kind) else [part]
    return kind(tuple(flat))


def _serialised(expression: pc.Expression) -> tuple[list[tuple[str, str]], pa.RecordBatch]:
    """Return the tokens that spell an expression, and the batch of its literals."""
    reader = pa.ipc.open_file(expression.__reduce__()[1][0])
    batch = reader.get_batch(0)
    return _metadata_of(reader.schema), batch


class _ArrowSchema(ctypes.Structure):
    """The first members of the structure of the Arrow C data interface."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
        ("rest", ctypes.c_void_p * 8),
    )


def _metadata_of(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return the metadata of a schema in order; as a dictionary, keys would occur once only.

    The C data interface lays them out as a number of pairs, then each length and its bytes.
    """
    exported = _ArrowSchema()
    address = ctypes.addressof(exported)
    schema._export_to_c(address)  # noqa: SLF001 - documented by pyarrow for this purpose
    try:
        if not exported.metadata:
            return []
        place = int(exported.metadata)

        def number() -> int:
            nonlocal place
            found = ctypes.c_int32.from_address(place).value
            place += 4
            return found

        def text() -> str:
            nonlocal place
            length = number()
            data = ctypes.string_at(place, length)
            place += length
            return data.decode()

        return [(text(), text()) for _ in range(number())]
    finally:
        pa.Schema._import_from_c(address)  # noqa: SLF001 - releases what was exported
