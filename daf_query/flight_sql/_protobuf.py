"""A codec of Protocol Buffers, as much of them as the messages of Flight SQL need.

A message is a frozen dataclass whose fields are made by the functions of this module (`string`,
`integer`, `repeated` and so on), each with its published number.  What a message has beyond them is
skipped, as every reader of Protocol Buffers does.  Bytes are checked before they are used: lengths
against what is there, strings as UTF-8, groups by their depth.

Rule: the Protocol Buffers documentation, "Encoding".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar

from daf_storage import errors

_T = TypeVar("_T")

ScalarType: TypeAlias = Literal["string", "bytes", "bool", "int32", "int64", "uint32"]
"""The types of fields that are no messages."""

_VARINT: Final = 0
_FIXED_64: Final = 1
_LENGTH: Final = 2
_GROUP_START: Final = 3
_GROUP_END: Final = 4
_FIXED_32: Final = 5
_MAX_TAG: Final = (1 << 32) - 1
_MAX_GROUP_DEPTH: Final = 100
_MAX_VARINT_BYTES: Final = 10
_METADATA: Final = "protobuf"
_DEFAULTS: Final[Mapping[str, Any]] = {
    "string": "",
    "bytes": b"",
    "bool": False,
    "int32": 0,
    "int64": 0,
    "uint32": 0,
}
_LAYOUTS: Final[dict[type, Mapping[str, _Layout]]] = {}
"""The layouts of the fields of each message that was used."""
_BITS: Final = {"int32": 32, "int64": 64, "uint32": 32}


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a field is encoded."""

    number: int
    type: ScalarType | type
    """A type of the language, or the class of a message."""
    is_optional: bool = False
    """Whether its absence is None, rather than the default of its type."""
    is_repeated: bool = False

    @property
    def wire_type(self) -> int:
        return _VARINT if self.type in ("bool", *_BITS) else _LENGTH


def scalar(number: int, scalar_type: ScalarType) -> Any:
    """Return a field that has the default of its type where it is absent."""
    return _field(_Layout(number, scalar_type), _DEFAULTS[scalar_type])


def optional(number: int, scalar_type: ScalarType) -> Any:
    """Return a field that is None where it is absent."""
    return _field(_Layout(number, scalar_type, is_optional=True), None)


def repeated(number: int, value_type: ScalarType | type) -> Any:
    """Return a field of several values, or messages, as a tuple."""
    return _field(_Layout(number, value_type, is_repeated=True), ())


def message(number: int, message_type: type) -> Any:
    """Return a field that is another message, or None."""
    return _field(_Layout(number, message_type, is_optional=True), None)


def _field(layout: _Layout, default: Any) -> Any:
    return dataclasses.field(default=default, metadata={_METADATA: layout})


def _layouts(message_type: type) -> Mapping[str, _Layout]:
    known = _LAYOUTS.get(message_type)
    if known is None:
        known = _LAYOUTS[message_type] = _layouts_of(message_type)
    return known


def _layouts_of(message_type: type) -> Mapping[str, _Layout]:
    return {each.name: each.metadata[_METADATA] for each in dataclasses.fields(message_type)}


def encode(value: Any) -> bytes:
    """Return the bytes of a message; fields that have their default are left out.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Named:
    ...     name: str = scalar(1, "string")
    >>> encode(Named("B cell")).hex(" ")
    '0a 06 42 20 63 65 6c 6c'
    """
    parts = bytearray()
    for name, layout in _layouts(type(value)).items():
        field_value = getattr(value, name)
        if layout.is_repeated:
            _append_repeated(parts, layout, field_value)
        elif field_value is not None and (layout.is_optional or field_value):
            _append(parts, layout, field_value)
    return bytes(parts)


def _append_repeated(parts: bytearray, layout: _Layout, values: tuple[Any, ...]) -> None:
    """Append the values of a field: numbers packed into one, as proto3 does."""
    if layout.wire_type == _LENGTH:
        for value in values:
            _append(parts, layout, value)
    elif values:
        packed = bytearray()
        for value in values:
            _append_varint(packed, int(value))
        _append_bytes(parts, layout.number, packed)


def _append(parts: bytearray, layout: _Layout, value: Any) -> None:
    if layout.wire_type == _VARINT:
        _append_varint(parts, layout.number << 3 | _VARINT)
        _append_varint(parts, int(value))
    elif layout.type == "string":
        _append_bytes(parts, layout.number, value.encode())
    else:
        _append_bytes(parts, layout.number, value if layout.type == "bytes" else encode(value))


def _append_bytes(parts: bytearray, number: int, value: bytes | bytearray) -> None:
    _append_varint(parts, number << 3 | _LENGTH)
    _append_varint(parts, len(value))
    parts += value


def _append_varint(parts: bytearray, value: int) -> None:
    remaining = value & (1 << 64) - 1  # negative numbers have all ten bytes
    while remaining > 127:
        parts.append(remaining & 127 | 128)
        remaining >>= 7
    parts.append(remaining)


def decode(message_type: type[_T], data: bytes) -> _T:
    """Return the message that bytes hold.

    Raises
    ------
    InvalidInputError
        They are no message of this type: cut off, or a string is not UTF-8.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Named:
    ...     name: str = scalar(1, "string")
    >>> decode(Named, bytes.fromhex("0a 06 42 20 63 65 6c 6c"))
    Named(name='B cell')
    """
    numbered = {layout.number: (name, layout) for name, layout in _layouts(message_type).items()}
    values: dict[str, Any] = {}
    several: dict[str, list[Any]] = {}
    for number, wire_type, value in _fields(data):
        name, layout = numbered.get(number, ("", None))
        if layout is None:
            continue
        if layout.is_repeated:
            several.setdefault(name, []).extend(_repeated(layout, wire_type, value))
        elif wire_type != layout.wire_type:
            continue  # another type than ours, which counts as unknown
        elif isinstance(layout.type, type):
            values[name] = decode(layout.type, value)
            several.setdefault(name, []).append(value)
        else:
            values[name] = _scalar(layout.type, value)
    for name, layout in numbered.values():
        parts = several.get(name, [])
        if layout.is_repeated and parts:
            values[name] = tuple(parts)
        elif isinstance(layout.type, type) and len(parts) > 1:
            # A message that comes in several parts is that of all of them together.
            values[name] = decode(layout.type, b"".join(parts))
    return message_type(**values)


def _repeated(layout: _Layout, wire_type: int, value: Any) -> tuple[Any, ...]:
    """Return the values of one occurrence of a repeated field: several if they are packed."""
    if isinstance(layout.type, type):
        return (decode(layout.type, value),) if wire_type == _LENGTH else ()
    if wire_type == layout.wire_type:
        return (_scalar(layout.type, value),)
    if wire_type != _LENGTH:
        return ()
    numbers, position = [], 0
    while position < len(value):
        number, position = _varint(value, position)
        numbers.append(_scalar(layout.type, number))
    return tuple(numbers)


def _scalar(scalar_type: ScalarType, value: Any) -> Any:
    if scalar_type == "string":
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise _invalid("a string in it is not UTF-8") from None
    if scalar_type == "bytes":
        return value
    if scalar_type == "bool":
        return bool(value)
    bits = _BITS[scalar_type]
    number = value & (1 << bits) - 1
    is_negative = scalar_type != "uint32" and number >> bits - 1
    return number - (1 << bits) if is_negative else number


def _fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yield the number, the wire type and the value of each field, without groups."""
    position, groups = 0, list[int]()
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if number == 0 or tag > _MAX_TAG:
            raise _invalid(f"a field has the number {number}")
        if wire_type == _GROUP_START:
            groups.append(number)
            if len(groups) > _MAX_GROUP_DEPTH:
                raise _invalid(f"groups in it are nested more than {_MAX_GROUP_DEPTH} deep")
        elif wire_type == _GROUP_END:
            if not groups or groups.pop() != number:
                raise _invalid("a group in it ends that did not begin")
        else:
            value, position = _value(data, position, wire_type)
            if not groups:
                yield number, wire_type, value
    if groups:
        raise _invalid("a group in it does not end")


def _value(data: bytes, position: int, wire_type: int) -> tuple[Any, int]:
    if wire_type == _VARINT:
        return _varint(data, position)
    if wire_type == _LENGTH:
        size, position = _varint(data, position)
    elif wire_type in (_FIXED_64, _FIXED_32):
        size = 8 if wire_type == _FIXED_64 else 4
    else:
        raise _invalid(f"a field has the wire type {wire_type}")
    if size > len(data) - position:
        raise _invalid("it is cut off")
    return data[position : position + size], position + size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    number = 0
    for place in range(_MAX_VARINT_BYTES):
        if position + place >= len(data):
            raise _invalid("it is cut off")
        byte = data[position + place]
        number |= (byte & 127) << 7 * place
        if byte < 128:
            return number & (1 << 64) - 1, position + place + 1
    raise _invalid("a number in it has more than 64 bits")


def _invalid(problem: str) -> errors.InvalidInputError:
    return errors.InvalidInputError(f"the request is no message of Flight SQL: {problem}")
