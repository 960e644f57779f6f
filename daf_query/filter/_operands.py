"""The operands of a condition: what is known of the values of each.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import pyarrow as pa

from daf_query.filter._token_tree import Group, Item
from daf_query.syntax import Token, unquoted_name

ValueType: TypeAlias = Literal["boolean", "number", "string", "unknown"]
"""The values of a column or an expression, as far as they are known."""

BOOLEAN_FUNCTIONS: Final = frozenset(
    {
        *("STARTS_WITH", "ENDS_WITH", "CONTAINS", "REGEXP_LIKE", "ISNAN", "ISZERO"),
        *("ST_CONTAINS", "ST_COVERS", "ST_INTERSECTS", "ST_WITHIN", "ST_DISJOINT", "ST_EQUALS"),
    }
)
_ARITHMETIC: Final = ("+", "-", "*", "/", "%", "<<", ">>")


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of an operator."""

    items: tuple[Item, ...]
    value_type: ValueType
    has_bits: bool = False
    """Whether it has & or | outside of brackets."""

    @property
    def start(self) -> int:
        """Where it begins."""
        return self.items[0].start

    @property
    def stop(self) -> int:
        """Where it ends."""
        return self.items[-1].stop

    @property
    def is_literal(self) -> bool:
        """Whether it is a constant."""
        first = self.items[0]
        return len(self.items) == 1 and isinstance(first, Token) and is_constant(first)

    @property
    def is_single(self) -> bool:
        """Whether it is one thing: a bracket, a call, a column or a constant."""
        return is_single(self.items)


def is_constant(token: Token) -> bool:
    """Return whether a token is a constant."""
    return token.kind in ("number", "string", "parameter") or token.is_word("TRUE", "FALSE", "NULL")


def is_single(items: Sequence[Item]) -> bool:
    """Return whether items are one thing, which every operator takes as a whole."""
    if len(items) <= 1:
        return True
    return len(items) == 2 and _is_name(items[0]) and isinstance(items[1], Group)


def is_call(items: Sequence[Item]) -> bool:
    """Return whether items are a function with its arguments."""
    second = items[1] if len(items) == 2 else None
    return _is_name(items[0]) and isinstance(second, Group) and second.is_bracket("(")


def is_unknown_name(items: Sequence[Item], columns: Mapping[str, ValueType]) -> bool:
    """Return whether items are a name in double quotes that no column has."""
    first = items[0]
    if len(items) != 1 or not isinstance(first, Token) or not first.text.startswith('"'):
        return False
    return first.kind == "quoted" and unquoted_name(first.text) not in columns


def value_types(schema: pa.Schema) -> dict[str, ValueType]:
    """Return what is known of the values of each column."""
    return {field.name: value_type(field.type) for field in schema}


def type_of(condition: str, items: Sequence[Item], columns: Mapping[str, ValueType]) -> ValueType:
    """Return what is known of an operand that has no brackets of its own around it."""
    first = items[0]
    if len(items) == 1 and isinstance(first, Token):
        return _of_token(condition, first, columns)
    if is_call(items) and isinstance(first, Token):
        return "boolean" if first.text in BOOLEAN_FUNCTIONS else "unknown"
    last = items[-1]
    is_qualified = len(items) == 3 and isinstance(items[1], Token) and items[1].is_operator(".")
    if is_qualified and isinstance(last, Token):
        return _of_token(condition, last, columns)
    numbers = [
        isinstance(item, Token)
        and (item.is_operator(*_ARITHMETIC) or _of_token(condition, item, columns) == "number")
        for item in items
    ]
    return "number" if all(numbers) else "unknown"


def _is_name(item: Item) -> bool:
    return isinstance(item, Token) and item.kind in ("word", "quoted")


def _of_token(condition: str, token: Token, columns: Mapping[str, ValueType]) -> ValueType:
    if token.kind == "number":
        return "number"
    if token.kind == "string":
        return "string"
    if token.kind not in ("word", "quoted"):
        return "unknown"
    name = condition[token.start : token.stop]
    if name.startswith("`"):
        name = name[1:-1].replace("``", "`")
    if token.is_word("TRUE", "FALSE") and name not in columns:
        return "boolean"
    return columns.get(unquoted_name(name), "unknown")


def value_type(arrow_type: pa.DataType) -> ValueType:
    """Return what is known of values of an Arrow type."""
    if pa.types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    if pa.types.is_boolean(arrow_type):
        return "boolean"
    if pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type):
        return "number"
    is_string = arrow_type in (pa.string(), pa.large_string(), pa.string_view())
    return "string" if is_string else "unknown"
